import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.TransactionsCommand;

/**
 * Runs kafka-transactions and a transactional producer, line by line of its input, in one JVM:
 * "init ID", "begin", "send TOPIC PARTITION VALUE", "offsets GROUP TOPIC OFFSET", "commit",
 * "abort", "settle ID", "read TOPIC ISOLATION COUNT", "committed GROUP TOPIC", "tool ARGUMENT ...".
 */
public class TransactionTool {
    private static KafkaProducer<String, String> producer;
    private static KafkaProducer<String, String> former;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("### " + line);
            String[] words = line.split(" ");
            try {
                run(bootstrap, words);
            } catch (Exception failure) {
                System.out.println(failure.getClass().getSimpleName());
            }
        }
        System.exit(0);
    }

    private static void run(String bootstrap, String[] words) throws Exception {
        switch (words[0]) {
            case "init" -> init(bootstrap, words[1]);
            case "begin" -> producer.beginTransaction();
            case "send" -> {
                var record = new ProducerRecord<String, String>(
                    words[1], Integer.parseInt(words[2]), null, words[3]);
                System.out.println(producer.send(record).get().offset());
            }
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(words[2], 0),
                    new OffsetAndMetadata(Long.parseLong(words[3]))),
                new ConsumerGroupMetadata(words[1]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "former" -> former.commitTransaction();
            case "settle" -> settle(bootstrap, words[1]);
            case "read" -> read(bootstrap, words[1], words[2], Integer.parseInt(words[3]));
            case "committed" -> committed(bootstrap, words[1], words[2]);
            case "tool" -> tool(bootstrap, words);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void tool(String bootstrap, String[] words) throws Exception {
        Stream<String> server = Stream.of("--bootstrap-server", bootstrap);
        String[] given = Stream.concat(server, Arrays.stream(words).skip(1)).toArray(String[]::new);
        try {
            TransactionsCommand.main(given);
        } catch (IllegalStateException exited) {
            System.out.println(exited.getMessage());
        }
    }

    private static void init(String bootstrap, String id) {
        former = producer;
        producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "transactional.id", id),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
    }

    /** Waits until the markers are written, which nobody else waits for. */
    private static void settle(String bootstrap, String id) throws Exception {
        var over = Set.of(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            while (!over.contains(
                    admin.describeTransactions(List.of(id)).description(id).get().state())) {
                Thread.sleep(50);
            }
        }
    }

    private static void read(String bootstrap, String topic, String isolation, int count) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation),
                new StringDeserializer(), new StringDeserializer())) {
            var partitions = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            List<String> values = new ArrayList<>();
            // One look more, for what must not be there.
            for (int looks = 0; values.size() < count || looks < 1; ) {
                if (values.size() >= count) {
                    looks++;
                }
                for (ConsumerRecord<String, String> record
                        : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
            Collections.sort(values);
            System.out.println(String.join(" ", values));
        }
    }

    private static void committed(String bootstrap, String group, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            var found = admin.listConsumerGroupOffsets(group)
                .partitionsToOffsetAndMetadata().get();
            var offset = found.get(new TopicPartition(topic, 0));
            System.out.println(offset == null ? "none" : offset.offset());
        }
    }
}
