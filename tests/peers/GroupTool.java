import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs kafka-consumer-groups and consumers, line by line of its input, in one JVM:
 * "tool ARGUMENT ...", "consume GROUP TOPIC COUNT", "hold GROUP TOPIC", "release".
 */
public class GroupTool {
    private static KafkaConsumer<String, String> held;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("### " + line);
            String[] words = line.split(" ");
            switch (words[0]) {
                case "tool" -> tool(bootstrap, words);
                case "consume" -> consume(bootstrap, words[1], words[2], Integer.parseInt(words[3]));
                case "hold" -> hold(bootstrap, words[1], words[2]);
                case "release" -> held.close();
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.exit(0);
    }

    private static void tool(String bootstrap, String[] words) {
        // Five seconds are the tool's own patience, and not much after a start.
        Stream<String> server =
            Stream.of("--bootstrap-server", bootstrap, "--timeout", "60000");
        String[] given = Stream.concat(server, Arrays.stream(words).skip(1)).toArray(String[]::new);
        try {
            ConsumerGroupCommand.main(given);
        } catch (IllegalStateException exited) {
            System.out.println(exited.getMessage());
        }
    }

    private static void consume(String bootstrap, String group, String topic, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(bootstrap, group, count)) {
            consumer.subscribe(List.of(topic));
            for (int left = count; left > 0; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.value());
                    left--;
                }
            }
            consumer.commitSync();
        }
    }

    /** A member that has joined and does nothing but live: its heartbeats come from a thread. */
    private static void hold(String bootstrap, String group, String topic) {
        held = consumer(bootstrap, group, 1);
        held.subscribe(List.of(topic));
        while (held.assignment().isEmpty()) {
            held.poll(Duration.ofMillis(100));
        }
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group, int most) {
        return new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "client.id", "reader",
                "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "max.poll.records", String.valueOf(most)),
            new StringDeserializer(), new StringDeserializer());
    }
}
