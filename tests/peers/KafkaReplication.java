package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own ReplicationControlManager, told a story line by line on standard input.  After each line it prints
 * the answer, then each partition, then "=".
 */
public class KafkaReplication {
    private final SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
    private final ClusterControlManager cluster;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager replication;
    private final Map<String, Uuid> topics = new TreeMap<>();

    private KafkaReplication(short level, boolean elr) {
        FeatureControlManager features = new FeatureControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultFeatureMap(true), List.of(0)))
            .setMetadataVersion(MetadataVersion.fromFeatureLevel(level))
            .build();
        ConfigDef topicKeys = new ConfigDef()
            .define("min.insync.replicas", ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "")
            .define("unclean.leader.election.enable", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "");
        configs = new ConfigurationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setKafkaConfigSchema(new KafkaConfigSchema(Map.of(ConfigResource.Type.TOPIC, topicKeys), Map.of()))
            .build();
        cluster = new ClusterControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setTime(Time.SYSTEM)
            .setFeatureControlManager(features)
            .setReplicaPlacer(new StripedReplicaPlacer(new java.util.Random(0)))
            .setBrokerUncleanShutdownHandler((broker, records) -> { })
            .build();
        replication = new ReplicationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setConfigurationControl(configs)
            .setClusterControl(cluster)
            .setFeatureControl(features)
            .setEligibleLeaderReplicasEnabled(elr)
            .build();
    }

    public static void main(String[] arguments) throws Exception {
        KafkaReplication kafka = null;
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("place")) {
                System.out.println(place(words));
                System.out.println("=");
                continue;
            }
            if (words[0].equals("cluster")) {
                kafka = new KafkaReplication(Short.parseShort(words[1]), words[2].equals("elr"));
            } else {
                System.out.println(kafka.answer(words));
            }
            kafka.printPartitions();
            System.out.println("=");
        }
    }

    private static String place(String[] words) {
        List<UsableBroker> brokers = Arrays.stream(words[4].split(",")).map(word -> word.split(":"))
            .map(parts -> new UsableBroker(Integer.parseInt(parts[0]),
                parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]), parts[2].equals("fenced")))
            .collect(Collectors.toList());
        ClusterDescriber cluster = new ClusterDescriber() {
            @Override
            public Iterator<UsableBroker> usableBrokers() {
                return brokers.iterator();
            }

            @Override
            public Uuid defaultDir(int brokerId) {
                return new Uuid(1L, brokerId);
            }
        };
        PlacementSpec wanted =
            new PlacementSpec(0, Integer.parseInt(words[2]), Short.parseShort(words[3]));
        try {
            return new StripedReplicaPlacer(new java.util.Random(Long.parseLong(words[1]))).place(wanted, cluster)
                .assignments().stream().map(assignment -> assignment.replicas().toString())
                .collect(Collectors.joining(";"));
        } catch (ApiException refused) {
            return refused.getMessage();
        }
    }

    private String answer(String[] words) {
        try {
            return perform(words);
        } catch (ApiException refused) {
            return ApiError.fromThrowable(refused).error().name();
        }
    }

    private String perform(String[] words) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        int id = words.length > 1 && words[1].matches("\\d+") ? Integer.parseInt(words[1]) : -1;
        long epoch = 100 + id;
        String answer = "ok";
        switch (words[0]) {
            case "register": register(id, directories(words[2])); break;
            case "fence": replication.handleBrokerFenced(id, records); break;
            case "unfence":
                register(id, cluster.brokerRegistrations().get(id).directories());
                replication.handleBrokerUnfenced(id, epoch, records);
                break;
            case "shutdown": replication.handleBrokerInControlledShutdown(id, epoch, records); break;
            case "unclean-shutdown": replication.handleBrokerUncleanShutdown(id, records); break;
            case "unregister": replication.handleBrokerUnregistered(id, epoch, records); break;
            case "offline": replication.handleDirectoriesOffline(id, epoch, directories(words[2]), records); break;
            case "create": answer = create(words, records); break;
            case "config":
                replay(new ConfigRecord().setResourceType((byte) 2).setResourceName(words[1]).setName(words[2])
                    .setValue(words[3]));
                break;
            case "alter": answer = alter(words, records); break;
            case "reassign": answer = reassign(words, records); break;
            case "elect": answer = elect(words, records); break;
            case "balance": records.addAll(replication.maybeBalancePartitionLeaders().records()); break;
            case "unclean": records.addAll(replication.maybeElectUncleanLeaders().records()); break;
            case "assign": answer = assign(id, words, records); break;
            default: throw new IllegalArgumentException(words[0]);
        }
        records.forEach(record -> replay(record.message()));
        String written = records.stream()
            .map(record -> record.message().getClass().getSimpleName() + record.version())
            .sorted().collect(Collectors.joining(","));
        return answer + " " + written;
    }

    private void register(int id, List<Uuid> directories) {
        replay(new RegisterBrokerRecord().setBrokerId(id).setBrokerEpoch(100 + id).setFenced(true)
            .setIncarnationId(new Uuid(7, id)).setLogDirs(directories));
    }

    private String create(String[] words, List<ApiMessageAndVersion> records) {
        CreateTopicsRequestData.CreatableTopic topic = new CreateTopicsRequestData.CreatableTopic()
            .setName(words[1]).setNumPartitions(-1).setReplicationFactor((short) -1);
        String[] partitions = words[2].split(";");
        for (int index = 0; index < partitions.length; index++) {
            topic.assignments().add(new CreateTopicsRequestData.CreatableReplicaAssignment()
                .setPartitionIndex(index).setBrokerIds(ids(partitions[index])));
        }
        CreateTopicsRequestData request = new CreateTopicsRequestData();
        request.topics().add(topic);
        ControllerResult<CreateTopicsResponseData> result =
            replication.createTopics(context((short) 7), request, Collections.<String>emptySet());
        records.addAll(result.records());
        CreateTopicsResponseData.CreatableTopicResult created = result.response().topics().iterator().next();
        if (created.errorCode() == 0) topics.put(words[1], created.topicId());
        return created.errorCode() + "/" + created.errorMessage();
    }

    private String alter(String[] words, List<ApiMessageAndVersion> records) {
        AlterPartitionRequestData.PartitionData partition = new AlterPartitionRequestData.PartitionData()
            .setPartitionIndex(Integer.parseInt(words[5])).setLeaderEpoch(Integer.parseInt(words[6]))
            .setPartitionEpoch(Integer.parseInt(words[7])).setLeaderRecoveryState(Byte.parseByte(words[8]));
        for (String member : words[9].equals("-") ? new String[0] : words[9].split(",")) {
            String[] parts = member.split(":");
            partition.newIsrWithEpochs().add(new AlterPartitionRequestData.BrokerState()
                .setBrokerId(Integer.parseInt(parts[0])).setBrokerEpoch(Long.parseLong(parts[1])));
            partition.newIsr().add(Integer.parseInt(parts[0]));
        }
        AlterPartitionRequestData.TopicData topic = new AlterPartitionRequestData.TopicData()
            .setTopicName(words[4]).setTopicId(topics.getOrDefault(words[4], new Uuid(9, 9)))
            .setPartitions(List.of(partition));
        ControllerResult<AlterPartitionResponseData> result = replication.alterPartition(
            context(Short.parseShort(words[1])), new AlterPartitionRequestData()
                .setBrokerId(Integer.parseInt(words[2])).setBrokerEpoch(Long.parseLong(words[3]))
                .setTopics(List.of(topic)));
        records.addAll(result.records());
        AlterPartitionResponseData.PartitionData altered = result.response().topics().get(0).partitions().get(0);
        if (altered.errorCode() != 0) return String.valueOf(altered.errorCode());
        return String.format("0 %d %d %s %d %d", altered.leaderId(), altered.leaderEpoch(), altered.isr(),
            altered.leaderRecoveryState(), altered.partitionEpoch());
    }

    private String reassign(String[] words, List<ApiMessageAndVersion> records) {
        AlterPartitionReassignmentsRequestData.ReassignablePartition partition =
            new AlterPartitionReassignmentsRequestData.ReassignablePartition()
                .setPartitionIndex(Integer.parseInt(words[2]))
                .setReplicas(words[3].equals("cancel") ? null : ids(words[3]));
        ControllerResult<AlterPartitionReassignmentsResponseData> result = replication.alterPartitionReassignments(
            new AlterPartitionReassignmentsRequestData().setTopics(List.of(
                new AlterPartitionReassignmentsRequestData.ReassignableTopic()
                    .setName(words[1]).setPartitions(List.of(partition)))));
        records.addAll(result.records());
        AlterPartitionReassignmentsResponseData.ReassignablePartitionResponse answered =
            result.response().responses().get(0).partitions().get(0);
        return answered.errorCode() + "/" + answered.errorMessage();
    }

    private String elect(String[] words, List<ApiMessageAndVersion> records) {
        ElectLeadersRequestData.TopicPartitionsCollection asked =
            new ElectLeadersRequestData.TopicPartitionsCollection();
        asked.add(new ElectLeadersRequestData.TopicPartitions().setTopic(words[2])
            .setPartitions(List.of(Integer.parseInt(words[3]))));
        ControllerResult<ElectLeadersResponseData> result = replication.electLeaders(
            new ElectLeadersRequestData().setElectionType(Byte.parseByte(words[1])).setTopicPartitions(asked));
        records.addAll(result.records());
        ElectLeadersResponseData.PartitionResult elected =
            result.response().replicaElectionResults().get(0).partitionResult().get(0);
        return elected.errorCode() + "/" + elected.errorMessage();
    }

    private String assign(int id, String[] words, List<ApiMessageAndVersion> records) {
        AssignReplicasToDirsRequestData.TopicData topic = new AssignReplicasToDirsRequestData.TopicData()
            .setTopicId(topics.getOrDefault(words[3], new Uuid(9, 9)))
            .setPartitions(List.of(new AssignReplicasToDirsRequestData.PartitionData()
                .setPartitionIndex(Integer.parseInt(words[4]))));
        ControllerResult<AssignReplicasToDirsResponseData> result = replication.handleAssignReplicasToDirs(
            new AssignReplicasToDirsRequestData().setBrokerId(id).setBrokerEpoch(100 + id).setDirectories(List.of(
                new AssignReplicasToDirsRequestData.DirectoryData().setId(directories(words[2]).get(0))
                    .setTopics(List.of(topic)))));
        records.addAll(result.records());
        return String.valueOf(
            result.response().directories().get(0).topics().get(0).partitions().get(0).errorCode());
    }

    private void replay(ApiMessage record) {
        if (record instanceof TopicRecord) replication.replay((TopicRecord) record);
        else if (record instanceof PartitionRecord) replication.replay((PartitionRecord) record);
        else if (record instanceof PartitionChangeRecord) replication.replay((PartitionChangeRecord) record);
        else if (record instanceof ConfigRecord) configs.replay((ConfigRecord) record);
        else if (record instanceof RegisterBrokerRecord) cluster.replay((RegisterBrokerRecord) record, 0L);
        else if (record instanceof UnregisterBrokerRecord) cluster.replay((UnregisterBrokerRecord) record);
        else if (record instanceof FenceBrokerRecord) cluster.replay((FenceBrokerRecord) record);
        else if (record instanceof UnfenceBrokerRecord) cluster.replay((UnfenceBrokerRecord) record);
        else if (record instanceof BrokerRegistrationChangeRecord)
            cluster.replay((BrokerRegistrationChangeRecord) record);
        else throw new IllegalArgumentException(record.toString());
    }

    private void printPartitions() {
        topics.forEach((name, topicId) -> {
            for (int index = 0; replication.getPartition(topicId, index) != null; index++) {
                PartitionRegistration partition = replication.getPartition(topicId, index);
                System.out.printf("%s-%d %s %s %s %s %d %d %d %d %s %s %s%n", name, index,
                    list(partition.replicas), list(partition.isr), list(partition.removingReplicas),
                    list(partition.addingReplicas), partition.leader, partition.leaderRecoveryState.value(),
                    partition.leaderEpoch, partition.partitionEpoch, list(partition.elr),
                    list(partition.lastKnownElr), Arrays.stream(partition.directories)
                        .map(directory -> directory.getMostSignificantBits() + ":"
                            + directory.getLeastSignificantBits())
                        .collect(Collectors.joining(",")));
            }
        });
    }

    private static String list(int[] ids) {
        return Arrays.toString(ids).replace(" ", "");
    }

    private static List<Integer> ids(String words) {
        return Arrays.stream(words.split(",")).map(Integer::valueOf).collect(Collectors.toList());
    }

    private static List<Uuid> directories(String words) {
        return Arrays.stream(words.split(",")).filter(word -> !word.equals("-"))
            .map(word -> new Uuid(1L, Long.parseLong(word))).collect(Collectors.toList());
    }

    private static ControllerRequestContext context(short version) {
        return new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }
}
