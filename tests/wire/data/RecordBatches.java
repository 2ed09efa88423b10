import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.record.*;

/**
 * Prints tests/wire/data/record-batches-3.9.1.json with Kafka's own classes.
 *
 * javac -cp "$LIBS/*" RecordBatches.java; java -cp "$LIBS/*:." RecordBatches > record-batches-3.9.1.json
 * where LIBS is the folder that scripts/fetch-kafka.sh fills.
 */
public class RecordBatches {
    static String hex(ByteBuffer b) { b = b.duplicate(); StringBuilder s = new StringBuilder(); while (b.hasRemaining()) s.append(String.format("%02x", b.get())); return s.toString(); }
    static SimpleRecord[] records() {
        return new SimpleRecord[] {
            new SimpleRecord(1700000000123L, "k1".getBytes(), "first value".getBytes()),
            new SimpleRecord(1700000000100L, null, "without a key".getBytes()),
            new SimpleRecord(1700000009999L, "k2".getBytes(), null),
            new SimpleRecord(1700000000500L, new byte[0], new byte[300], new Header[] { new RecordHeader("h", "x".getBytes()), new RecordHeader("empty", null) }),
        };
    }
    public static void main(String[] a) throws Exception {
        StringBuilder out = new StringBuilder("{\n");
        for (CompressionType t : new CompressionType[]{CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD}) {
            Compression c = Compression.of(t).build();
            out.append(" \"plain-" + t.name + "\": \"" + hex(MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 0L, c, TimestampType.CREATE_TIME, records()).buffer()) + "\",\n");
        }
        out.append(" \"idempotent\": \"" + hex(MemoryRecords.withIdempotentRecords(42L, Compression.NONE, 4711L, (short) 3, 2147483646, 7, records()).buffer()) + "\",\n");
        out.append(" \"transactional\": \"" + hex(MemoryRecords.withTransactionalRecords(42L, Compression.NONE, 4711L, (short) 3, 5, 7, records()).buffer()) + "\",\n");
        out.append(" \"log-append-time\": \"" + hex(MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 9L, Compression.NONE, TimestampType.LOG_APPEND_TIME, records()).buffer()) + "\",\n");
        out.append(" \"abort-marker\": \"" + hex(MemoryRecords.withEndTransactionMarker(100L, 1700000000000L, 8, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.ABORT, 12)).buffer()) + "\",\n");
        out.append(" \"commit-marker\": \"" + hex(MemoryRecords.withEndTransactionMarker(100L, 1700000000000L, 8, 4711L, (short) 3, new EndTransactionMarker(ControlRecordType.COMMIT, 12)).buffer()) + "\",\n");
        SimpleRecord[] keyed = new SimpleRecord[] { records()[0], records()[1], records()[2] };
        for (byte magic = 0; magic < 2; magic++) for (CompressionType t : new CompressionType[]{CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4}) {
            out.append(" \"magic-" + magic + "-" + t.name + "\": \"" + hex(MemoryRecords.withRecords(magic, 5L, Compression.of(t).build(), TimestampType.CREATE_TIME, keyed).buffer()) + "\",\n");
        }
        // A batch as compaction leaves it: first and last records gone, delete horizon set.
        MemoryRecords source = MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 20L, Compression.NONE, TimestampType.CREATE_TIME, records());
        ByteBuffer filtered = ByteBuffer.allocate(4096);
        MemoryRecords.FilterResult r = source.filterTo(new org.apache.kafka.common.TopicPartition("t", 0), new MemoryRecords.RecordFilter(1700000100000L, 5000L) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch b) { return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false); }
            protected boolean shouldRetainRecord(RecordBatch b, org.apache.kafka.common.record.Record rec) { return rec.offset() == 22; }
        }, filtered, 1 << 20, BufferSupplier.NO_CACHING);
        out.append(" \"compacted\": \"" + hex((ByteBuffer) r.outputBuffer().duplicate().flip()) + "\",\n");
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, RecordBatch.MAGIC_VALUE_V2, 4711L, (short) 3, 5, 42L, 45L, 7, TimestampType.CREATE_TIME, 1700000000000L, true, false);
        empty.flip();
        out.append(" \"empty\": \"" + hex(empty) + "\"\n}\n");
        System.out.print(out);
    }
}
