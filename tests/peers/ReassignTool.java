import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.LeaderElectionCommand;
import org.apache.kafka.tools.LogDirsCommand;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/**
 * Runs kafka-reassign-partitions, kafka-log-dirs and kafka-leader-election, line by line of its
 * input, in one JVM: "reassign ARGUMENT ...", "log-dirs ARGUMENT ...", "elect ARGUMENT ...".
 * After each it prints "### " and the exit code.
 */
public class ReassignTool {
    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException(String.valueOf(code));
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Stream<String> server = Stream.of("--bootstrap-server", arguments[0]);
            String[] given =
                Stream.concat(server, Arrays.stream(words).skip(1)).toArray(String[]::new);
            String code = "0";
            try {
                switch (words[0]) {
                    case "reassign" -> ReassignPartitionsCommand.main(given);
                    case "log-dirs" -> LogDirsCommand.main(given);
                    case "elect" -> LeaderElectionCommand.main(given);
                    default -> throw new IllegalArgumentException(line);
                }
            } catch (IllegalStateException exited) {
                code = exited.getMessage();
            }
            System.out.println();
            System.out.println("### " + code);
        }
        System.exit(0);
    }
}
