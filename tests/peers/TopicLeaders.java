import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;

/** Prints what Kafka's own client learns: one line per partition, "topic partition leader replicas isr". */
public class TopicLeaders {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Map<String, TopicDescription> topics =
                admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get();
            for (TopicDescription topic : topics.values()) {
                for (TopicPartitionInfo partition : topic.partitions()) {
                    System.out.printf("%s %d %d %s %s%n", topic.name(), partition.partition(),
                        partition.leader() == null ? -1 : partition.leader().id(),
                        ids(partition.replicas()), ids(partition.isr()));
                }
            }
        }
    }

    private static String ids(java.util.List<Node> nodes) {
        return nodes.stream().map(Node::idString).collect(Collectors.joining(","));
    }
}
