package kafkacluster;

import com.google.gson.JsonObject;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;

/**
 * A cluster in a test's hands; its verbs are those of the kit (docs/testing.md), a wait lasts 30 s at most unless it is
 * given another time.
 *
 * <p>Verbs that take {@code Map} options name them as docs/serve.md does: {@code Map.of("topic", "orders", "times", 2)}.
 */
public final class KafkaCluster implements AutoCloseable {
    private final KafkaClusterServer server;
    private final State atStart;

    KafkaCluster(KafkaClusterServer server, State atStart) {
        this.server = server;
        this.atStart = atStart;
    }

    /** A cluster as it was when the server answered; {@code controllerId} is null while there is none. */
    public record State(
            int cluster,
            String state,
            String bootstrapServers,
            Map<String, String> clientConfig,
            String zookeeperConnect,
            String directory,
            List<Integer> brokerIds,
            List<Integer> liveBrokers,
            Integer controllerId,
            int controllerEpoch) {}

    public record Broker(int brokerId, boolean isAlive, Integer pid, long brokerEpoch, String logsDirectory) {}

    public record Controller(int controllerId, int controllerEpoch) {}

    public record Partition(int leader, int leaderEpoch, List<Integer> isr, int controllerEpoch) {}

    public record Reached(int brokerId, String name, String detail) {}

    public record FaultState(int fault, String action, String api, int count) {}

    /** {@code data()} is null where there is no such znode. */
    public record Znode(String path, String text, String base64, Integer version) {
        public byte[] data() {
            return base64 == null ? null : Base64.getDecoder().decode(base64);
        }
    }

    public record LedgerState(int ledger, String topic, int partition, boolean isProducing, int acknowledged) {}

    public record LedgerRecord(long offset, String value) {}

    public record JournalEntry(long atMs, String text) {}

    public record Artefacts(String directory, List<String> files) {}

    private record Removed(String directory) {}

    private record Epoch(long brokerEpoch) {}

    private record Deleted(boolean deleted) {}

    private record Held(int hold) {}

    private record Watched(int watch) {}

    private record Faults(List<FaultState> faults) {}

    private record Offsets(List<Long> offsets) {}

    private record Records(List<LedgerRecord> records) {}

    private record Check(boolean holds, String reason) {}

    private record Versions(List<Integer> versions) {}

    private record StateChanges(List<JsonObject> stateChanges) {}

    private record Journal(List<JournalEntry> journal) {}

    private <T> T at(Class<T> type, String method, String path, Map<String, ?> fields) {
        return server.call(type, method, "/clusters/" + atStart.cluster() + path, fields);
    }

    private void at(String method, String path) {
        at(Void.class, method, path, null);
    }

    private static Map<String, Object> with(Duration timeout, Object... fields) {
        Map<String, Object> found = new HashMap<>();
        for (int each = 0; each < fields.length; each += 2) {
            found.put((String) fields[each], fields[each + 1]);
        }
        if (timeout != null) {
            found.put("timeout_s", timeout.toMillis() / 1000.0);
        }
        return found;
    }

    private static Map<String, Object> plus(Map<String, ?> options, Object... fields) {
        Map<String, Object> found = new HashMap<>(options);
        found.putAll(with(null, fields));
        return found;
    }

    private static String encoded(String topic) {
        return URLEncoder.encode(topic, StandardCharsets.UTF_8).replace("+", "%20");
    }

    // Where it is

    /** {@code host:port,host:port}; the same for as long as the cluster lives. */
    public String bootstrapServers() {
        return atStart.bootstrapServers();
    }

    /** For kafka-clients, where clients speak plaintext. */
    public Properties clientProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrapServers());
        return properties;
    }

    public String zookeeperConnect() {
        return atStart.zookeeperConnect();
    }

    /** The cluster's folder; {@code zkctl --dir} takes it. */
    public String directory() {
        return atStart.directory();
    }

    public List<Integer> brokerIds() {
        return atStart.brokerIds();
    }

    /** How the cluster is now. */
    public State describe() {
        return at(State.class, "GET", "", null);
    }

    /** Ends all its processes, and deletes its files. */
    @Override
    public void close() {
        close(false);
    }

    /** Ends all its processes; returns the folder if the files are kept, else null. */
    public String close(boolean keepFiles) {
        return at(Removed.class, "DELETE", "", Map.of("keep_files", keepFiles)).directory();
    }

    // Brokers

    public Broker broker(int broker) {
        return at(Broker.class, "GET", "/brokers/%d".formatted(broker), null);
    }

    /** Starts a broker again, and waits until it serves. */
    public void start(int broker) {
        start(broker, true);
    }

    public void start(int broker, boolean wait) {
        at(Void.class, "POST", "/brokers/%d/start".formatted(broker), Map.of("wait", wait));
    }

    /** Stops a broker by controlled shutdown, and waits until its process has ended. */
    public void stop(int broker) {
        stop(broker, true);
    }

    public void stop(int broker, boolean wait) {
        at(Void.class, "POST", "/brokers/%d/stop".formatted(broker), Map.of("wait", wait));
    }

    /** Ends a broker as a power cut does; its session expires later, or by {@link #expireSession}. */
    public void kill(int broker) {
        at("POST", "/brokers/%d/kill".formatted(broker));
    }

    public void pause(int broker) {
        at("POST", "/brokers/%d/pause".formatted(broker));
    }

    public void resume(int broker) {
        at("POST", "/brokers/%d/resume".formatted(broker));
    }

    /** Stops a broker (clean) or kills it, and starts it. */
    public void bounce(int broker, boolean clean) {
        at(Void.class, "POST", "/brokers/%d/bounce".formatted(broker), Map.of("clean", clean));
    }

    public void expireSession(int broker) {
        at("POST", "/brokers/%d/expire_session".formatted(broker));
    }

    /** Fills the broker's own disk to the last byte, until {@link #freeDisk}. */
    public void diskFull(int broker) {
        at("POST", "/brokers/%d/disk_full".formatted(broker));
    }

    public void freeDisk(int broker) {
        at("POST", "/brokers/%d/free_disk".formatted(broker));
    }

    public void makeDiskReadOnly(int broker) {
        at("POST", "/brokers/%d/make_disk_read_only".formatted(broker));
    }

    /** Kills the broker, and its own disk loses what no fsync has brought there. */
    public void losePageCache(int broker) {
        at("POST", "/brokers/%d/lose_page_cache".formatted(broker));
    }

    public void mendDisk(int broker) {
        at("POST", "/brokers/%d/mend_disk".formatted(broker));
    }

    /** The broker's wall clock jumps: so far ahead of the machine's, or behind. */
    public void setClock(int broker, Duration ahead) {
        at(Void.class, "POST", "/brokers/%d/set_clock".formatted(broker), Map.of("ahead_ms", ahead.toMillis()));
    }

    public void waitStopped(int broker, Duration timeout) {
        at(Void.class, "POST", "/brokers/%d/wait_stopped".formatted(broker), with(timeout));
    }

    public void waitUnregistered(int broker, Duration timeout) {
        at(Void.class, "POST", "/brokers/%d/wait_unregistered".formatted(broker), with(timeout));
    }

    /** ZooKeeper does what the broker asks next ({@code create, delete, set, multi}); the answer is lost. */
    public void loseZookeeperResponse(int broker, String operation, int times) {
        Map<String, Object> fields = Map.of("operation", operation, "times", times);
        at(Void.class, "POST", "/brokers/%d/lose_zookeeper_response".formatted(broker), fields);
    }

    /** Waits until these brokers (none: all) are registered after an epoch (-1: any); the highest epoch of them. */
    public long waitRegistered(List<Integer> brokers, long afterEpoch, Duration timeout) {
        Map<String, Object> fields = with(timeout, "broker_ids", brokers, "after_epoch", afterEpoch);
        return at(Epoch.class, "POST", "/wait_registered", fields).brokerEpoch();
    }

    // The controller

    public Controller waitController(int afterEpoch, Duration timeout) {
        return at(Controller.class, "POST", "/wait_controller", with(timeout, "after_epoch", afterEpoch));
    }

    public void deleteController() {
        at("POST", "/delete_controller");
    }

    /** Deletes /controller, and waits for the broker that is elected then. */
    public Controller electController() {
        return at(Controller.class, "POST", "/elect_controller", Map.of());
    }

    /** Every controller that gets to this step waits until {@link Hold#close()}. */
    public Hold hold(String name) {
        return new Hold(at(Held.class, "POST", "/holds", Map.of("name", name)).hold());
    }

    public Hold hold(String name, int broker) {
        return new Hold(at(Held.class, "POST", "/holds", Map.of("name", name, "broker", broker)).hold());
    }

    /** A step of the controller that is held. */
    public final class Hold implements AutoCloseable {
        private final int id;

        private Hold(int id) {
            this.id = id;
        }

        public Reached waitReached(Duration timeout) {
            return at(Reached.class, "POST", "/holds/%d/wait_reached".formatted(id), with(timeout));
        }

        /** Lets it go on, and holds there no longer. */
        @Override
        public void close() {
            at("DELETE", "/holds/%d".formatted(id));
        }
    }

    // Topics

    public void createTopic(String name) {
        createTopic(name, Map.of());
    }

    /** Options: {@code partitions}, {@code replication_factor}, {@code configs}, {@code replicas}. */
    public void createTopic(String name, Map<String, ?> options) {
        at(Void.class, "POST", "/topics", plus(options, "name", name));
    }

    public Partition partition(String topic, int partition) {
        return at(Partition.class, "GET", "/topics/%s/partitions/%d".formatted(encoded(topic), partition), null);
    }

    public int waitLeader(String topic, int partition) {
        return waitLeader(topic, partition, null, null);
    }

    /** Waits for a leader, among these brokers unless it is null. */
    public int waitLeader(String topic, int partition, List<Integer> among, Duration timeout) {
        String path = "/topics/%s/partitions/%d/wait_leader".formatted(encoded(topic), partition);
        return at(Partition.class, "POST", path, with(timeout, "among", among)).leader();
    }

    /** Waits until all brokers of the cluster are in the ISR. */
    public List<Integer> waitIsr(String topic, int partition) {
        return waitIsr(topic, partition, null, null);
    }

    public List<Integer> waitIsr(String topic, int partition, List<Integer> brokers, Duration timeout) {
        String path = "/topics/%s/partitions/%d/wait_isr".formatted(encoded(topic), partition);
        return at(Partition.class, "POST", path, with(timeout, "brokers", brokers)).isr();
    }

    // The network

    /** Cuts two from each other until {@link #heal()}: broker ids, {@code "clients"}, {@code "zookeeper"}. */
    public void cut(Object a, Object b) {
        cut(a, b, Map.of());
    }

    /** Options: {@code one_way}, {@code silent}. */
    public void cut(Object a, Object b, Map<String, ?> options) {
        at(Void.class, "POST", "/cut", plus(options, "a", a, "b", b));
    }

    public void heal() {
        at("POST", "/heal");
    }

    /** Options of all faults: {@code broker}, {@code sender}, {@code client_id}, {@code topic}, {@code times}. */
    public Fault delay(String api, Duration delay, Map<String, ?> options) {
        Map<String, Object> fields = plus(options, "api", api, "delay_ms", delay.toMillis());
        return new Fault(at(FaultState.class, "POST", "/delay", fields).fault());
    }

    /** The connection breaks before the broker has the request; {@code answer}: after it has done it. */
    public Fault drop(String api, Map<String, ?> options) {
        return new Fault(at(FaultState.class, "POST", "/drop", plus(options, "api", api)).fault());
    }

    /** Requests are answered with an error, and the broker never has them. */
    public Fault fail(String api, String error, Map<String, ?> options) {
        return new Fault(at(FaultState.class, "POST", "/fail", plus(options, "api", api, "error", error)).fault());
    }

    public List<FaultState> faults() {
        return at(Faults.class, "GET", "/faults", null).faults();
    }

    public void offerVersions(String api, int least, int most) {
        at(Void.class, "POST", "/offer_versions", with(null, "api", api, "least", least, "most", most));
    }

    /** The versions in which clients have asked for an API since the last {@link #heal()}. */
    public List<Integer> versionsUsed(String api) {
        return at(Versions.class, "GET", "/versions_used", Map.of("api", api)).versions();
    }

    /** What happens to requests until it is removed. */
    public final class Fault {
        private final int id;

        private Fault(int id) {
            this.id = id;
        }

        /** How often it has happened. */
        public int count() {
            return at(FaultState.class, "GET", "/faults/%d".formatted(id), null).count();
        }

        public int remove() {
            return at(FaultState.class, "DELETE", "/faults/%d".formatted(id), null).count();
        }
    }

    // Znodes

    public Znode znode(String path) {
        return at(Znode.class, "GET", "/znode", Map.of("path", path));
    }

    public Znode setZnode(String path, byte[] data) {
        String encoded = Base64.getEncoder().encodeToString(data);
        return at(Znode.class, "PUT", "/znode", Map.of("path", path, "base64", encoded));
    }

    public boolean deleteZnode(String path) {
        return at(Deleted.class, "DELETE", "/znode", Map.of("path", path)).deleted();
    }

    /** Overwrites it with what no reader understands; returns what was there. */
    public Znode corruptZnode(String path) {
        return at(Znode.class, "POST", "/znode/corrupt", Map.of("path", path));
    }

    public Watch watch(String path) {
        return new Watch(at(Watched.class, "POST", "/watches", Map.of("path", path)).watch());
    }

    /** The state of a znode at a moment. */
    public final class Watch implements AutoCloseable {
        private final int id;

        private Watch(int id) {
            this.id = id;
        }

        /** The znode after the next change. */
        public Znode waitChange(Duration timeout) {
            return at(Znode.class, "POST", "/watches/%d/wait_change".formatted(id), with(timeout));
        }

        @Override
        public void close() {
            at("DELETE", "/watches/%d".formatted(id));
        }
    }

    // Records and epochs

    public Ledger ledger(String topic, int partition) {
        Map<String, Object> fields = Map.of("topic", topic, "partition", partition);
        return new Ledger(at(LedgerState.class, "POST", "/ledgers", fields).ledger());
    }

    /** Writes records with acks=all, and knows which were acknowledged. */
    public final class Ledger {
        private final int id;

        private Ledger(int id) {
            this.id = id;
        }

        public LedgerState describe() {
            return at(LedgerState.class, "GET", "/ledgers/%d".formatted(id), null);
        }

        /** The offsets of new records, when all are acknowledged. */
        public List<Long> produce(int count) {
            return at(Offsets.class, "POST", "/ledgers/%d/produce".formatted(id), Map.of("count", count))
                    .offsets();
        }

        public void startProducing() {
            at(LedgerState.class, "POST", "/ledgers/%d/start_producing".formatted(id), null);
        }

        public LedgerState stopProducing() {
            return at(LedgerState.class, "POST", "/ledgers/%d/stop_producing".formatted(id), null);
        }

        public List<LedgerRecord> acknowledged() {
            return at(Records.class, "GET", "/ledgers/%d/acknowledged".formatted(id), null).records();
        }

        public List<LedgerRecord> read() {
            return at(Records.class, "POST", "/ledgers/%d/read".formatted(id), Map.of()).records();
        }

        public List<LedgerRecord> lost() {
            return at(Records.class, "POST", "/ledgers/%d/lost".formatted(id), Map.of()).records();
        }
    }

    private static void demand(Check check) {
        if (!check.holds()) {
            throw new AssertionError(check.reason());
        }
    }

    /** AssertionError unless each acknowledged record of the ledgers (none: all) is there. */
    public void noAcknowledgedRecordLost(Ledger... ledgers) {
        List<Integer> numbers = Stream.of(ledgers).map(each -> each.id).toList();
        demand(at(Check.class, "POST", "/checks/no_acknowledged_record_lost", Map.of("ledgers", numbers)));
    }

    /** AssertionError if an epoch fell in a broker's log, or had two owners. */
    public void epochsMonotonic() {
        demand(at(Check.class, "POST", "/checks/epochs_monotonic", null));
    }

    public List<JsonObject> stateChanges(int last) {
        return at(StateChanges.class, "GET", "/state_changes", Map.of("last", last)).stateChanges();
    }

    public List<JournalEntry> journal(int last) {
        return at(Journal.class, "GET", "/journal", Map.of("last", last)).journal();
    }

    /** Writes what happened into the cluster's folder, beside all logs. */
    public Artefacts writeArtefacts() {
        return at(Artefacts.class, "POST", "/artefacts", null);
    }
}
