import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.stream.Stream;
import kafka.admin.ConfigCommand;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs kafka-configs, line by line of its input, in one JVM: "brokers ARGUMENT ..." with the
 * bootstrap servers, "zookeeper ARGUMENT ..." with the ZooKeeper.
 */
public class ConfigTool {
    public static void main(String[] arguments) throws Exception {
        System.setErr(System.out);
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("### " + line);
            String[] words = line.split(" ");
            Stream<String> where = words[0].equals("brokers")
                ? Stream.of("--bootstrap-server", arguments[0])
                : Stream.of("--zookeeper", arguments[1]);
            String[] given =
                Stream.concat(where, Arrays.stream(words).skip(1)).toArray(String[]::new);
            try {
                ConfigCommand.main(given);
            } catch (IllegalStateException exited) {
                System.out.println(exited.getMessage());
            }
            System.out.println("### end");
        }
        System.exit(0);
    }
}
