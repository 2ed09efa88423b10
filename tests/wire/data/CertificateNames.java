import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

/** Reads encoded names as hexadecimal digits, one a line; prints each with the text that Java gives it. */
public class CertificateNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        HexFormat hex = HexFormat.of();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String name;
            try {
                name = hex.formatHex(new X500Principal(hex.parseHex(line)).getName().getBytes(StandardCharsets.UTF_8));
            } catch (IllegalArgumentException refused) {
                name = "refused";
            }
            System.out.println(line + "\t" + name);
        }
    }
}
