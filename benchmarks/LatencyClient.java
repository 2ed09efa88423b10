import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The client of benchmarks/latency.py: Kafka's own producer with its defaults.
 *
 * <p>Arguments: bootstrap servers, topic, its partitions. Reads {@code single <records>}, {@code steady <records a second>
 * <records>} and {@code transactions <transactions> <records in each>}, and answers each with a line: the microseconds of
 * each record, or those of the records, the offsets and the commit of each transaction in turn.
 */
public class LatencyClient {
    private static final byte[] RECORD = new byte[100];
    private static String topic;
    private static int partitions;
    private static long sent;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
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
