import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DeleteRecordsCommand;
import org.apache.kafka.tools.GetOffsetShell;
import org.apache.kafka.tools.TopicCommand;

/**
 * Runs kafka-topics, kafka-get-offsets and kafka-delete-records, line by line of its input, in one
 * JVM: "topics ARGUMENT ...", "offsets ARGUMENT ...", "records ARGUMENT ...".
 */
public class TopicTool {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("### " + line);
            String[] words = line.split(" ");
            Stream<String> server = Stream.of("--bootstrap-server", bootstrap);
            String[] given =
                Stream.concat(server, Arrays.stream(words).skip(1)).toArray(String[]::new);
            try {
                switch (words[0]) {
                    case "topics" -> TopicCommand.main(given);
                    case "offsets" -> GetOffsetShell.main(given);
                    case "records" -> DeleteRecordsCommand.main(given);
                    default -> throw new IllegalArgumentException(line);
                }
            } catch (IllegalStateException exited) {
                // Every tool ends like this; what it has printed is what counts.
            }
        }
        System.exit(0);
    }
}
