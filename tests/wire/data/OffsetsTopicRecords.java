import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.server.common.MetadataVersion;
import kafka.coordinator.group.GroupMetadataManager;
import kafka.common.OffsetAndMetadata;

/**
 * Prints tests/wire/data/offsets-topic-3.9.1.tsv with Kafka's own classes.
 *
 * javac -cp "$LIBS/*" OffsetsTopicRecords.java; java -cp "$LIBS/*:." OffsetsTopicRecords > offsets-topic-3.9.1.tsv
 * where LIBS is the folder that scripts/fetch-kafka.sh fills.
 */
public class OffsetsTopicRecords {
    static void line(String name, byte[] bytes) {
        System.out.println(name + "\t" + HexFormat.of().formatHex(bytes));
    }

    static void hash(String hex) {
        byte[] raw = HexFormat.of().parseHex(hex);
        String text = new String(raw, java.nio.charset.StandardCharsets.UTF_8);
        System.out.println("hash." + hex + "\t" + text.hashCode() + " "
            + Utils.abs(text.hashCode()) % 50 + " " + Utils.abs(text.hashCode()) % 7);
    }

    static GroupMetadataValue.MemberMetadata member(String id, String instance) {
        return new GroupMetadataValue.MemberMetadata()
            .setMemberId(id).setGroupInstanceId(instance).setClientId("billing").setClientHost("/127.0.0.1")
            .setRebalanceTimeout(300000).setSessionTimeout(45000)
            .setSubscription(new byte[] {0, 1, 2}).setAssignment(new byte[] {9, 8});
    }

    static GroupMetadataValue group(List<GroupMetadataValue.MemberMetadata> members) {
        return new GroupMetadataValue()
            .setProtocolType("consumer").setGeneration(7).setProtocol(members.isEmpty() ? null : "range")
            .setLeader(members.isEmpty() ? null : members.get(0).memberId())
            .setCurrentStateTimestamp(1700000000123L).setMembers(members);
    }

    static OffsetCommitValue offset(long expire) {
        return new OffsetCommitValue().setOffset(123456789012L).setLeaderEpoch(5).setMetadata("héllo")
            .setCommitTimestamp(1700000000456L).setExpireTimestamp(expire);
    }

    public static void main(String[] args) throws Exception {
        for (String text : new String[] {"", "a", "billing", "polygenelubricants", "group-1", "Gruppe-ä", "群組", "\uD83D\uDE00x",
                "console-consumer-12345", "zzzzzzzzzzzzzzzzzzzzzzzzzz"})
            hash(HexFormat.of().formatHex(text.getBytes("UTF-8")));

        line("offset-key", GroupMetadataManager.offsetCommitKey("billing", new TopicPartition("orders", 3)));
        line("offset-key.v0", MessageUtil.toVersionPrefixedBytes((short) 0,
            new OffsetCommitKey().setGroup("billing").setTopic("orders").setPartition(3)));
        line("group-key", GroupMetadataManager.groupMetadataKey("billing"));
        for (short version = 0; version <= 4; version++) {
            line("offset-value.v" + version, MessageUtil.toVersionPrefixedBytes(version, offset(1700000009999L)));
            line("group-value.v" + version, MessageUtil.toVersionPrefixedBytes(version,
                group(List.of(member("billing-1", "host-a"), member("billing-2", null)))));
            line("empty-group-value.v" + version, MessageUtil.toVersionPrefixedBytes(version, group(List.of())));
        }
        // What 3.9 writes itself, in each version of inter.broker.protocol.version.
        OffsetAndMetadata plain = new OffsetAndMetadata(42L, Optional.of(5), "m", 1700000000456L, scala.Option.empty());
        OffsetAndMetadata expiring =
            new OffsetAndMetadata(42L, Optional.empty(), "", 1700000000456L, scala.Option.apply((Object) 1700000009999L));
        for (String ibp : new String[] {"0.10.0", "0.10.1-IV0", "2.0-IV1", "2.1-IV0", "2.1-IV1", "2.2-IV1", "2.3-IV0", "3.9"}) {
            MetadataVersion version = MetadataVersion.fromVersionString(ibp);
            line("offset-value.ibp-" + ibp, GroupMetadataManager.offsetCommitValue(plain, version));
            line("expiring-offset-value.ibp-" + ibp, GroupMetadataManager.offsetCommitValue(expiring, version));
            kafka.coordinator.group.GroupMetadata group = kafka.coordinator.group.GroupMetadata.loadGroup(
                "billing", kafka.coordinator.group.Empty$.MODULE$, 7, "consumer", null, null,
                scala.Option.apply((Object) 1700000000123L), scala.jdk.javaapi.CollectionConverters.asScala(
                    new ArrayList<kafka.coordinator.group.MemberMetadata>()), org.apache.kafka.common.utils.Time.SYSTEM);
            line("empty-group-value.ibp-" + ibp, GroupMetadataManager.groupMetadataValue(
                group, scala.collection.immutable.Map$.MODULE$.empty(), version));
        }
        for (short version = 0; version <= 3; version++) {
            ByteBuffer buffer = ConsumerProtocol.serializeSubscription(new Subscription(
                List.of("payments", "orders"), ByteBuffer.wrap(new byte[] {1, 2}),
                List.of(new TopicPartition("orders", 1)), 6, Optional.of("rack-1")), version);
            line("subscription.v" + version, Utils.toArray(buffer));
        }
    }
}
