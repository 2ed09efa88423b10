package kafkacluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** kafka-clients goes on through another controller, a killed leader, and errors that the kit makes. */
@KafkaClusterTest(brokers = 3, configs = "num.partitions=1")
@Timeout(120)
class KafkaClientsTest {
    private static final Duration SHORT = Duration.ofMillis(200);

    private final KafkaCluster cluster;

    KafkaClientsTest(KafkaCluster cluster) {
        this.cluster = cluster;
    }

    @AfterEach
    void wholeAgain() {
        cluster.heal();
        cluster.epochsMonotonic();
    }

    private KafkaProducer<String, String> producer() {
        Properties properties = cluster.clientProperties();
        properties.put("acks", "all");
        properties.put("delivery.timeout.ms", "60000");
        properties.put("request.timeout.ms", "5000");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private List<String> values(String topic, String last) {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(cluster.clientProperties(), new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (!found.contains(last) && System.nanoTime() < end) {
                consumer.poll(SHORT).forEach(record -> found.add(record.value()));
            }
        }
        return found;
    }

    private void send(KafkaProducer<String, String> producer, String topic, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, value)).get(60, TimeUnit.SECONDS);
    }

    @Test
    void recordsSurviveAnotherControllerAndAKilledLeader() throws Exception {
        cluster.createTopic("orders", Map.of("replication_factor", 3));
        cluster.waitIsr("orders", 0);
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, "orders", "before");

            int epoch = cluster.describe().controllerEpoch();
            assertTrue(cluster.electController().controllerEpoch() > epoch);
            send(producer, "orders", "under another controller");

            int leader = cluster.waitLeader("orders", 0);
            cluster.kill(leader);
            cluster.expireSession(leader);
            List<Integer> others =
                    cluster.brokerIds().stream().filter(each -> each != leader).toList();
            assertTrue(others.contains(cluster.waitLeader("orders", 0, others, null)));
            send(producer, "orders", "under another leader");

            List<String> expected = List.of("before", "under another controller", "under another leader");
            assertEquals(expected, values("orders", "under another leader"));
            cluster.start(leader);
            cluster.waitIsr("orders", 0);
        }
    }

    @Test
    void aProducerTriesAgainAfterAnError() throws Exception {
        cluster.createTopic("refused");
        KafkaCluster.Fault fault =
                cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", Map.of("topic", "refused", "times", 2));
        try (KafkaProducer<String, String> producer = producer()) {
            send(producer, "refused", "once");
        }

        assertEquals(List.of("once"), values("refused", "once"));
        assertEquals(2, fault.count());
    }

    @Test
    void aControllerIsHeldBeforeItWrites() {
        try (KafkaCluster.Hold step = cluster.hold("controller.on_controller_change")) {
            cluster.deleteController();
            assertEquals("controller.on_controller_change", step.waitReached(null).name());
        }
        cluster.createTopic("created-after-the-hold");
    }

    @Test
    void aWaitThatDoesNotComeSaysWhatItSaw() {
        KafkaClusterException late = assertThrows(
                KafkaClusterException.class, () -> cluster.waitRegistered(List.of(1), 1L << 40, SHORT));

        assertEquals(504, late.status);
        assertTrue(late.getMessage().contains("not_in_time: not within 0.2 s: brokers"), late.getMessage());
    }

    @Test
    void aMistakeIsAnsweredWithTheFieldAtFault() {
        KafkaClusterException wrong = assertThrows(
                KafkaClusterException.class, () -> cluster.delay("Produce", Duration.ofMillis(-1), Map.of()));
        assertEquals(List.of(400, "delay_ms"), List.of(wrong.status, wrong.field));

        assertEquals(404, assertThrows(KafkaClusterException.class, () -> cluster.kill(9)).status);
    }

    @Test
    void aLedgerLosesNothingThatWasAcknowledged() {
        cluster.createTopic("payments");
        cluster.waitIsr("payments", 0);
        KafkaCluster.Ledger ledger = cluster.ledger("payments", 0);
        ledger.startProducing();
        cluster.bounce(cluster.waitLeader("payments", 0), false);
        ledger.stopProducing();

        cluster.noAcknowledgedRecordLost(ledger);
        assertEquals(List.of(), ledger.lost());
    }
}
