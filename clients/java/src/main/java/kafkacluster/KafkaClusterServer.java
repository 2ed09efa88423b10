package kafkacluster;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * {@code zkctl serve} as a child: the program that the variable {@code ZKCTL} names, or {@code zkctl} on the PATH.
 *
 * <p>The child and its clusters end with {@link #close()}, and with this process, however it ends: its stdin is a pipe
 * that we hold.
 */
public final class KafkaClusterServer implements AutoCloseable {
    private static final long START_S = 30;
    private static final long END_S = 20;
    private static final Gson GSON =
            new GsonBuilder().setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES).create();

    private final Process process;
    private final String url;
    private final String token;
    private final HttpClient http =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private KafkaClusterServer(Process process, String url, String token) {
        this.process = process;
        this.url = url;
        this.token = token;
    }

    /** Starts {@code zkctl serve}. */
    public static KafkaClusterServer start() {
        String named = System.getenv("ZKCTL");
        return start(List.of(named == null || named.isEmpty() ? "zkctl" : named), null);
    }

    /** Starts it; {@code command} is the program and its first arguments, {@code artefacts} a folder or null. */
    public static KafkaClusterServer start(List<String> command, Path artefacts) {
        byte[] secret = new byte[16];
        new SecureRandom().nextBytes(secret);
        String token = HexFormat.of().formatHex(secret);
        List<String> words = new ArrayList<>(command);
        words.addAll(List.of("serve", "-o", "jsonl"));
        if (artefacts != null) {
            words.addAll(List.of("--artefacts", artefacts.toString()));
        }
        Process process = null;
        try {
            File said = File.createTempFile("zkctl-serve", ".log");
            said.deleteOnExit();
            ProcessBuilder builder = new ProcessBuilder(words).redirectError(said);
            builder.environment().put("ZKCTL_SERVE_TOKEN", token);
            process = builder.start();
            String line = firstLine(process);
            if (line == null) {
                throw new IOException("it said " + Files.readString(said.toPath()));
            }
            String url = GSON.fromJson(line, JsonObject.class).get("url").getAsString();
            return new KafkaClusterServer(process, url, token);
        } catch (IOException | ExecutionException | TimeoutException | JsonParseException error) {
            if (process != null) {
                process.destroyForcibly();
            }
            throw new KafkaClusterException(words + " did not start: " + error, error);
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
            throw new KafkaClusterException("interrupted", error);
        }
    }

    private static String firstLine(Process process)
            throws ExecutionException, InterruptedException, TimeoutException {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        return CompletableFuture.supplyAsync(() -> {
                    try {
                        return lines.readLine();
                    } catch (IOException error) {
                        return null;
                    }
                })
                .get(START_S, TimeUnit.SECONDS);
    }

    /** What serves. */
    public record ServerState(String version, int clusters, int mostClusters) {}

    /** A step at which a controller can be held. */
    public record HoldPoint(String name, String meaning) {}

    private record HoldPoints(List<HoldPoint> holdPoints) {}

    private record Clusters(List<Integer> clusters) {}

    public ServerState describe() {
        return call(ServerState.class, "GET", "/", null);
    }

    /** The OpenAPI document, as Gson reads it. */
    public JsonObject openapi() {
        return call(JsonObject.class, "GET", "/openapi.json", null);
    }

    public List<HoldPoint> holdPoints() {
        return call(HoldPoints.class, "GET", "/hold_points", null).holdPoints();
    }

    /** The numbers of all clusters. */
    public List<Integer> clusters() {
        return call(Clusters.class, "GET", "/clusters", null).clusters();
    }

    /** Starts a cluster of so many brokers. */
    public KafkaCluster createCluster(int brokers) {
        return createCluster(Map.of("brokers", brokers));
    }

    /** Starts a cluster: {@code brokers}, {@code zookeeper}, {@code listeners}, {@code configs}, {@code disks}. */
    public KafkaCluster createCluster(Map<String, ?> settings) {
        return new KafkaCluster(this, call(KafkaCluster.State.class, "POST", "/clusters", settings));
    }

    /** One request; {@code fields} are a body, or stand behind a question mark. Null where there is no answer. */
    <T> T call(Class<T> type, String method, String path, Map<String, ?> fields) {
        boolean isQuery = method.equals("GET") || method.equals("DELETE");
        String query = fields == null || !isQuery
                ? ""
                : fields.entrySet().stream()
                        .map(each -> each.getKey() + "="
                                + URLEncoder.encode(each.getValue().toString(), StandardCharsets.UTF_8))
                        .collect(Collectors.joining("&", "?", ""));
        HttpRequest.BodyPublisher body = fields == null || isQuery
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(GSON.toJson(fields));
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path + query))
                .header("Authorization", "Bearer " + token)
                .header("Content-Type", "application/json")
                .method(method, body)
                .build();
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() < 300) {
                return response.body().isEmpty() ? null : GSON.fromJson(response.body(), type);
            }
            Refusal refused = GSON.fromJson(response.body(), Refusal.class);
            throw new KafkaClusterException(
                    response.statusCode(), refused.error(), refused.message(), refused.field());
        } catch (IOException error) {
            throw new KafkaClusterException("zkctl serve does not answer: " + error, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new KafkaClusterException("interrupted", error);
        }
    }

    private record Refusal(String error, String message, String field) {}

    /** Ends the server and all its clusters. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException error) {
            process.destroyForcibly();
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
