import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.stream.Stream;
import kafka.admin.AclCommand;
import org.apache.kafka.common.utils.Exit;

/** Runs kafka-acls for each line of its input, in one JVM: the options, with spaces between them. */
public class AclTool {
    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("### " + line);
            Stream<String> server = Stream.of("--bootstrap-server", arguments[0]);
            Stream<String> options = Arrays.stream(line.split(" "));
            try {
                AclCommand.main(Stream.concat(server, options).toArray(String[]::new));
            } catch (IllegalStateException exited) {
                System.out.println(exited.getMessage());
            }
        }
        System.exit(0);
    }
}
