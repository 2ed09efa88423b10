import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.EncryptingPasswordEncoder;

/** By the secret, cipher, key length and iterations of its arguments: decodes "d text", encodes "e text", line by line. */
public class PasswordTool {
    public static void main(String[] arguments) throws Exception {
        EncryptingPasswordEncoder encoder = new EncryptingPasswordEncoder(
            new Password(arguments[0]), null, arguments[1], Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String text = line.substring(2);
            String made = line.startsWith("e") ? encoder.encode(new Password(text)) : encoder.decode(text).value();
            System.out.write((made + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
    }
}
