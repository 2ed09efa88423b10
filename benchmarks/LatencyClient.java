import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The clients of benchmarks/latency.py: Kafka's own with their defaults.
 *
 * <p>Arguments: bootstrap servers, topic, its partitions. Reads {@code single <records>}, {@code steady <records a second>
 * <records>}, {@code transactions <transactions> <records in each>}, {@code joins <groups> <members> <topic>}, {@code commits
 * <commits>} and {@code alterations <groups>}, and answers each with a line: the microseconds of each record; of the records,
 * the offsets and the commit of each transaction in turn; until all members of a new group have partitions; of each commit of
 * a consumer; of each group whose offset the admin client alters.
 */
public class LatencyClient {
    private static final byte[] RECORD = new byte[100];
    private static String topic;
    private static int partitions;
    private static long sent;
    private static int groups;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        Properties ofConsumers = new Properties();
        ofConsumers.putAll(settings);
        settings.put("acks", "all");
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        Properties transactional = new Properties();
        transactional.putAll(settings);
        transactional.put("transactional.id", "latency");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes);
                var inTransactions = new KafkaProducer<>(transactional, bytes, bytes)) {
            inTransactions.initTransactions();
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                int first = Integer.parseInt(words[1]);
                long[] found = switch (words[0]) {
                    case "single" -> single(producer, first);
                    case "steady" -> steady(producer, first, Integer.parseInt(words[2]));
                    case "joins" -> joins(ofConsumers, first, Integer.parseInt(words[2]), words[3]);
                    case "commits" -> commits(ofConsumers, first);
                    case "alterations" -> alterations(ofConsumers, first);
                    default -> transactions(inTransactions, first, Integer.parseInt(words[2]));
                };
                System.out.println(Arrays.stream(found).mapToObj(ns -> Long.toString(ns / 1000)).collect(Collectors.joining(" ")));
            }
        }
    }

    private static long[] single(KafkaProducer<byte[], byte[]> producer, int records) throws Exception {
        long[] found = new long[records];
        for (int i = 0; i < records; i++) {
            send(producer, found, i, System.nanoTime());
            producer.flush();
        }
        return found;
    }

    private static long[] steady(KafkaProducer<byte[], byte[]> producer, int recordsPerSecond, int records) throws Exception {
        long[] found = new long[records];
        long beganNs = System.nanoTime();
        for (int i = 0; i < records; i++) {
            long dueNs = beganNs + i * 1_000_000_000L / recordsPerSecond;
            while (System.nanoTime() < dueNs) {
                LockSupport.parkNanos(1_000_000);
            }
            // From when it was due: a client that is held up does not hide it.
            send(producer, found, i, dueNs);
        }
        producer.flush();
        return found;
    }

    private static long[] transactions(KafkaProducer<byte[], byte[]> producer, int transactions, int records) throws Exception {
        long[] found = new long[3 * transactions];
        for (int i = 0; i < transactions; i++) {
            long beganNs = System.nanoTime();
            producer.beginTransaction();
            long[] ignored = new long[records];
            for (int j = 0; j < records; j++) {
                send(producer, ignored, j, beganNs);
            }
            producer.flush();
            long ackedNs = System.nanoTime();
            var offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(i + 1));
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata("latency"));
            long offsetsNs = System.nanoTime();
            producer.commitTransaction();
            found[3 * i] = ackedNs - beganNs;
            found[3 * i + 1] = offsetsNs - ackedNs;
            found[3 * i + 2] = System.nanoTime() - offsetsNs;
        }
        return found;
    }

    private static long[] joins(Properties settings, int count, int members, String subscribed) throws Exception {
        long[] found = new long[count];
        for (int i = 0; i < count; i++) {
            var consumers = new ArrayList<KafkaConsumer<byte[], byte[]>>();
            for (int j = 0; j < members; j++) {
                consumers.add(consumer(settings, "joins-" + groups));
            }
            groups++;
            var threads = new ArrayList<Thread>();
            CountDownLatch assigned = new CountDownLatch(members);
            CountDownLatch over = new CountDownLatch(1);
            long beganNs = System.nanoTime();
            for (var each : consumers) {
                threads.add(new Thread(() -> member(each, subscribed, assigned, over)));
                threads.get(threads.size() - 1).start();
            }
            assigned.await();
            found[i] = System.nanoTime() - beganNs;
            over.countDown();
            for (Thread each : threads) {
                each.join();
            }
        }
        return found;
    }

    private static void member(
            KafkaConsumer<byte[], byte[]> consumer, String subscribed, CountDownLatch assigned, CountDownLatch over) {
        boolean[] has = new boolean[1];
        consumer.subscribe(List.of(subscribed), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> given) {
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> given) {
                if (!given.isEmpty() && !has[0]) {
                    has[0] = true;
                    assigned.countDown();
                }
            }
        });
        while (over.getCount() > 0) {
            consumer.poll(Duration.ofMillis(50));
        }
        consumer.close();
    }

    private static long[] commits(Properties settings, int count) {
        long[] found = new long[count];
        TopicPartition place = new TopicPartition(topic, 0);
        try (var consumer = consumer(settings, "commits")) {
            consumer.assign(List.of(place));
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(0))); // finds its coordinator
            for (int i = 0; i < count; i++) {
                long beganNs = System.nanoTime();
                consumer.commitSync(Map.of(place, new OffsetAndMetadata(i)));
                found[i] = System.nanoTime() - beganNs;
            }
        }
        return found;
    }

    private static long[] alterations(Properties settings, int count) throws Exception {
        long[] found = new long[count];
        TopicPartition place = new TopicPartition(topic, 0);
        try (var admin = Admin.create(settings)) {
            for (int i = 0; i < count; i++) {
                long beganNs = System.nanoTime();
                admin.alterConsumerGroupOffsets("altered-" + i, Map.of(place, new OffsetAndMetadata(i))).all().get();
                found[i] = System.nanoTime() - beganNs;
            }
        }
        return found;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Properties settings, String group) {
        Properties mine = new Properties();
        mine.putAll(settings);
        mine.put("group.id", group);
        mine.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(mine, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, long[] found, int place, long sinceNs) {
        int partition = (int) (sent++ % partitions);
        producer.send(new ProducerRecord<>(topic, partition, null, RECORD), (metadata, error) -> {
            if (error != null) {
                error.printStackTrace();
                System.exit(1);
            }
            found[place] = System.nanoTime() - sinceNs;
        });
    }
}
