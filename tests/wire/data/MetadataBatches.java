import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.*;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.internals.BatchBuilder;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints tests/wire/data/metadata-batches-3.9.1.tsv with Kafka's own classes: batches of the metadata log, and the files
 * that kafka-storage.sh format writes. The times within those are the times at which this ran.
 *
 * java -cp "$LIBS/*" MetadataBatches.java > metadata-batches-3.9.1.tsv
 * where LIBS is the folder that scripts/fetch-kafka.sh fills.
 */
public class MetadataBatches {
    static final long TIMESTAMP = 1700000000123L;
    static final int EPOCH = 7;

    static void line(String name, byte[] bytes) {
        System.out.println(name + "\t" + HexFormat.of().formatHex(bytes));
    }

    static void line(String name, MemoryRecords records) {
        byte[] bytes = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(bytes);
        line(name, bytes);
    }

    static ByteBuffer buffer() {
        return ByteBuffer.allocate(4096);
    }

    static VotersRecord.Voter voter(int id) {
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("controller-" + id).setPort(60000 + id));
        return new VotersRecord.Voter().setVoterId(id).setVoterDirectoryId(new Uuid(id, 2L * id)).setEndpoints(endpoints)
            .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature().setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1));
    }

    static LeaderChangeMessage.Voter member(int id) {
        return new LeaderChangeMessage.Voter().setVoterId(id);
    }

    static MemoryRecords data() {
        BatchBuilder<ApiMessageAndVersion> builder = new BatchBuilder<>(
            buffer(), new MetadataRecordSerde(), Compression.NONE, 41, TIMESTAMP, EPOCH, 4096);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        builder.appendRecord(new ApiMessageAndVersion(new NoOpRecord(), (short) 0), cache);
        builder.appendRecord(new ApiMessageAndVersion(
            new TopicRecord().setName("orders").setTopicId(new Uuid(1, 2)), (short) 0), cache);
        builder.appendRecord(new ApiMessageAndVersion(
            new FeatureLevelRecord().setName("metadata.version").setFeatureLevel((short) 21), (short) 0), cache);
        return builder.build();
    }

    /** The files of a format, by their names below the log directory. */
    static void format(String name, String quorum, String... more) throws Exception {
        Path directory = Files.createTempDirectory("format");
        Path config = directory.resolve("controller.properties");
        Path logs = directory.resolve("logs");
        Files.writeString(config, "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            + "listeners=CONTROLLER://localhost:29093\nlog.dirs=" + logs + "\n" + quorum + "\n");
        List<String> arguments = new ArrayList<>(List.of("format", "-t", "AAECAwQFBgcICQoLDA0ODw", "-c", config.toString()));
        arguments.addAll(List.of(more));
        PrintStream said = new PrintStream(new ByteArrayOutputStream());
        int status = kafka.tools.StorageTool.execute(arguments.toArray(new String[0]), said);
        if (status != 0) throw new IllegalStateException("format of " + name);
        try (var files = Files.walk(logs)) {
            for (Path file : (Iterable<Path>) files.filter(path -> path.toString().endsWith(".checkpoint")).sorted()::iterator)
                line("format." + name + "." + logs.relativize(file), Files.readAllBytes(file));
        }
    }

    public static void main(String[] args) throws Exception {
        line("leader-change", MemoryRecords.withLeaderChangeMessage(40, TIMESTAMP, EPOCH, buffer(),
            new LeaderChangeMessage().setLeaderId(2).setVoters(List.of(member(1), member(2), member(3)))
                .setGrantingVoters(List.of(member(2), member(3)))));
        line("snapshot-header", MemoryRecords.withSnapshotHeaderRecord(0, TIMESTAMP, EPOCH, buffer(),
            new SnapshotHeaderRecord().setLastContainedLogTimestamp(1699999999999L)));
        line("snapshot-footer", MemoryRecords.withSnapshotFooterRecord(9, TIMESTAMP, EPOCH, buffer(), new SnapshotFooterRecord()));
        line("kraft-version", MemoryRecords.withKRaftVersionRecord(1, TIMESTAMP, EPOCH, buffer(),
            new KRaftVersionRecord().setKRaftVersion((short) 1)));
        line("kraft-voters", MemoryRecords.withVotersRecord(2, TIMESTAMP, EPOCH, buffer(),
            new VotersRecord().setVoters(List.of(voter(1), voter(2)))));
        line("data", data());

        String alice = "SCRAM-SHA-256=[name=alice,salt=\"MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=\",iterations=5000,password=alice-secret]";
        String bob = "SCRAM-SHA-512=[name=bob,salt=\"MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=\",iterations=8192,password=bob-secret]";
        format("static", "controller.quorum.voters=1@localhost:29093");
        format("scram", "controller.quorum.voters=1@localhost:29093", "-r", "3.7-IV4", "-S", bob, "-S", alice);
        format("dynamic", "controller.quorum.bootstrap.servers=localhost:29093",
            "--initial-controllers", "1@localhost:29093:AAAAAAAAAAAAAAAAAAAAAw");
    }
}
