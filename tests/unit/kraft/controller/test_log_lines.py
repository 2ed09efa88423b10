"""The lines of the quorum's controller, word for word as Kafka's."""

from __future__ import annotations

import logging

import pytest

from kraft.controller.quorum_controller_requests import DeleteTopics
from kraft.metadata.records import ClientQuotaRecord, ConfigRecord, EntityData, ProducerIdsRecord
from tests.support.quorum_controller_world import QuorumWorld, topic

SESSION_TIMEOUT_MS = 9_000
TOPIC, BROKER = 2, 4


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def lines(caplog: pytest.LogCaptureFixture, class_name: str) -> list[str]:
    """What the first controller said since the last call by that logger, without its prefix."""
    prefix = "[QuorumController id=3000] "
    found = [
        each.getMessage().removeprefix(prefix)
        for each in caplog.records
        if each.name == f"org.apache.kafka.controller.{class_name}"
        and each.getMessage().startswith(prefix)
    ]
    caplog.clear()
    return found


def test_a_topic_is_named_when_it_comes_is_refused_and_goes(
    world: QuorumWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.start_brokers(1, 2)
    lines(caplog, "")

    topic_id = world.create_topic("orders", (1, 2))
    world.send(topic("orders", (1,)))
    world.send(DeleteTopics((topic_id,)))

    number = "AAAAAAAAAAAAAAAAAAAD6A"
    asked = (
        "CreateTopics result(s): CreatableTopic(name='orders', numPartitions=-1, "
        "replicationFactor=-1, assignments=[CreatableReplicaAssignment(partitionIndex=0, "
        "brokerIds={})], configs=[]): "
    )
    assert lines(caplog, "ReplicationControlManager") == [
        asked.format("[1, 2]") + "SUCCESS",
        f"Replayed TopicRecord for topic orders with topic ID {number}.",
        f"Replayed PartitionRecord for new partition orders-0 with topic ID {number} and "
        "PartitionRegistration(replicas=[1, 2], "
        "directories=[AAAAAAAAAAEAAAAAAAAAAQ, AAAAAAAAAAEAAAAAAAAAAg], isr=[1, 2], "
        "removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=1, "
        "leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0).",
        asked.format("[1]") + "TOPIC_ALREADY_EXISTS (Topic 'orders' already exists.)",
        f"Replayed RemoveTopicRecord for topic orders with ID {number}.",
    ]


def test_a_broker_is_followed_from_its_registration_to_the_end_of_its_session(
    world: QuorumWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.start_brokers(1)
    world.advance(SESSION_TIMEOUT_MS + 1)

    changed = (
        "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 1: "
        "BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch=5, fenced={}, "
        "inControlledShutdown=0, logDirs=[])"
    )
    assert lines(caplog, "ClusterControlManager") == [
        "No previous registration found for broker 1. New incarnation ID is "
        "AAAAAAABAAAAAAAAAAAAAQ.  Generated 0 record(s) to clean up previous incarnations. New "
        "broker epoch is 5.",
        "Replayed initial RegisterBrokerRecord for broker 1: RegisterBrokerRecord(brokerId=1, "
        "isMigratingZkBroker=false, incarnationId=AAAAAAABAAAAAAAAAAAAAQ, brokerEpoch=5, "
        "endPoints=[BrokerEndpoint(name='PLAINTEXT', host='localhost', port=9092, "
        "securityProtocol=0)], features=[BrokerFeature(name='metadata.version', "
        "minSupportedVersion=1, maxSupportedVersion=23)], rack=null, fenced=true, "
        "inControlledShutdown=false, logDirs=[AAAAAAAAAAEAAAAAAAAAAQ])",
        changed.format(-1),
        changed.format(1),
    ]


@pytest.mark.parametrize(
    ("record", "class_name", "line"),
    [
        (
            ProducerIdsRecord(1, 5, 1000), "ProducerIdControlManager",
            "Replaying ProducerIdsRecord ProducerIdsRecord(brokerId=1, brokerEpoch=5, "
            "nextProducerId=1000)",
        ),
        (
            ClientQuotaRecord((EntityData("user", None),), "producer_byte_rate", 5.0),
            "ClientQuotaControlManager",
            "Replayed ClientQuotaRecord for ClientQuotaEntity(entries={user=null}) setting "
            "producer_byte_rate to 5.0.",
        ),
        (
            ConfigRecord(TOPIC, "orders", "retention.ms", "5"), "ConfigurationControlManager",
            "Replayed ConfigRecord for ConfigResource(type=TOPIC, name='orders') which set "
            "configuration retention.ms to 5",
        ),
        (
            ConfigRecord(TOPIC, "orders", "retention.ms", None), "ConfigurationControlManager",
            "Replayed ConfigRecord for ConfigResource(type=TOPIC, name='orders') which set "
            "configuration retention.ms to null",
        ),
        (  # it may be a password
            ConfigRecord(BROKER, "1", "unheard.of", "secret"), "ConfigurationControlManager",
            "Replayed ConfigRecord for ConfigResource(type=BROKER, name='1') which set "
            "configuration unheard.of to [hidden]",
        ),
    ],
)  # fmt: skip
def test_a_setting_is_said_when_it_is_replayed(
    world: QuorumWorld,
    caplog: pytest.LogCaptureFixture,
    record: ProducerIdsRecord | ClientQuotaRecord | ConfigRecord,
    class_name: str,
    line: str,
) -> None:
    world.start_brokers(1)
    lines(caplog, "")

    world.write(record)

    assert lines(caplog, class_name) == [line]


def test_a_leadership_is_said_when_it_begins_goes_on_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = QuorumWorld(controllers=2)

    for node_id in (3000, 3000, 3001):
        world.elect(node_id)

    assert lines(caplog, "QuorumController") == [
        f"Creating new QuorumController with clusterId {world.active.state.cluster.cluster_id}.",
        "Becoming the active controller at epoch 1, next write offset 1.",
        "Performing controller activation. The metadata log appears to be empty. Appending 1 "
        "bootstrap record(s) in metadata transaction at metadata.version 3.9-IV0 from bootstrap "
        "source 'the default bootstrap'. Setting the ZK migration state to NONE since this is a "
        "de-novo KRaft cluster.",
        "We were the leader in epoch 1, and are still the leader in the new epoch 2.",
        "Renouncing the leadership due to a metadata log event. We were the leader at epoch 2, but "
        "in the new epoch 3, the leader is 3001. Reverting to last stable offset 4.",
    ]
