"""Our znodes against those that Kafka 3.9.1's own encoders print, byte for byte.

``data/znodes-3.9.1.tsv`` was printed by a program that calls ``kafka.zk.*ZNode`` of the 3.9.1 jars
(JDK 17) with the values repeated here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from kafka_common.model import Broker, Endpoint, ReplicaAssignment, TopicPartition
from kafka_common.sanitizer import desanitize, sanitize
from zkcontroller.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    LogDirEventNotificationSequenceZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

LINES: Final = [
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "znodes-3.9.1.tsv").read_text("utf-8").split("\n")
    if line
]
GOLDEN: Final = {fields[0]: fields[1].encode() for fields in LINES}

PLAINTEXT: Final = Endpoint("h1", 9092, "PLAINTEXT", "PLAINTEXT")
TWO: Final = (
    Endpoint("h1", 9092, "CLIENT", "SSL"),
    Endpoint("h2", 9093, "REPLICATION", "PLAINTEXT"),
)
SEVEN: Final = tuple(
    Endpoint("2001:db8::1", 9000 + index, name, "SASL_SSL")
    for index, name in enumerate(
        ("INTERNAL", "EXTERNAL", "CONTROL", "METRICS", "OPS_1", "VPN-2", "SASL_SSL")
    )
)
TWENTY_FEATURES: Final = {f"feature.number.{i * 7}": (1, i + 1) for i in range(20)}
PARTITIONS: Final = (TopicPartition("t", 0), TopicPartition("t", 1))


def assert_same(name: str, encoded: bytes) -> None:
    assert encoded.decode() == GOLDEN[name].decode()


def test_controller_znodes_are_those_of_kafka() -> None:
    assert_same("controller", ControllerZnode(1, 1700000000123).encode())
    assert_same("controller_kraft", ControllerZnode(3000, 1700000000123, 7).encode())
    assert_same("controller_epoch", ControllerEpochZnode.encode(42))

    assert ControllerZnode.decode(GOLDEN["controller_kraft"]) == ControllerZnode(
        3000, 1700000000123, 7
    )
    assert ControllerEpochZnode.decode(GOLDEN["controller_epoch"]) == 42


@pytest.mark.parametrize(
    ("name", "broker", "version", "jmx_port"),
    [
        ("broker_v5", Broker(1, TWO, "r1"), 5, -1),
        ("broker_v5_no_rack", Broker(1, (PLAINTEXT,)), 5, 9999),
        ("broker_v5_seven_listeners", Broker(7, SEVEN), 5, -1),
        (
            "broker_v5_features",
            Broker(1, (PLAINTEXT,), 'rack "ü" \\ \x01\x1f\x7f\t/', TWENTY_FEATURES),
            5,
            -1,
        ),
        ("broker_v4", Broker(1, TWO, "r1"), 4, -1),
        ("broker_v2", Broker(1, TWO, "r1"), 2, -1),
    ],
)
def test_broker_registrations_are_those_of_kafka(
    name: str, broker: Broker, version: int, jmx_port: int
) -> None:
    # The real encoder stamps the time itself.
    golden = BrokerIdZnode.decode(broker.broker_id, _with_protocols(GOLDEN[name], version))

    ours = BrokerIdZnode(broker, golden.timestamp_ms, jmx_port, version)

    assert_same(name, ours.encode())
    if version == 5:
        assert golden == ours


def _with_protocols(data: bytes, version: int) -> bytes:
    """Version 2 has no protocol for a listener with a name of its own, nor has Kafka then."""
    if version != 2:
        return data
    return data.replace(b"CLIENT:", b"SSL:").replace(b"REPLICATION:", b"PLAINTEXT:")


@pytest.mark.parametrize("count", [5, 11, 12, 13, 24, 25, 100, 383, 384, 385, 1500])
def test_topics_of_any_size_list_their_partitions_as_kafka_does(count: int) -> None:
    topic_id = UUID(int=((-1 - count) % 2**64) << 64 | (77777777777 * count) % 2**64)
    moving = ReplicaAssignment((1, 2, 3), (3,), (1,))
    partitions = {p: moving if p < count // 3 else ReplicaAssignment((1, 2)) for p in range(count)}

    encoded = TopicZnode(topic_id, partitions).encode()

    assert_same(f"topic_{count}", encoded)
    assert TopicZnode.decode("t", encoded) == TopicZnode(topic_id, partitions)


def test_topics_with_and_without_id_are_those_of_kafka() -> None:
    moving = {0: ReplicaAssignment((1, 2, 3), (3,), (1,))}
    resting = {p: ReplicaAssignment((1, 2)) for p in range(3)}

    assert_same("topic_1", TopicZnode(UUID(int=1 << 64 | 2), moving).encode())
    assert_same("topic_no_id", TopicZnode(None, resting).encode())


def test_partition_states_are_those_of_kafka() -> None:
    for name, state in (
        ("state", PartitionStateZnode(1, 5, (1, 2), 3)),
        ("state_recovering", PartitionStateZnode(1, 5, (1,), 3, 1)),
        ("state_no_leader", PartitionStateZnode(-1, 6, (), 3)),
    ):
        assert_same(name, state.encode())
        assert PartitionStateZnode.decode("state", GOLDEN[name]) == state


def test_what_tools_and_leaders_write_is_that_of_kafka() -> None:
    reassignment = {TopicPartition("t", 0): (1, 2), TopicPartition("u", 5): (3,)}

    assert_same("reassign", ReassignPartitionsZnode(reassignment).encode())
    assert_same("preferred", PreferredReplicaElectionZnode(PARTITIONS).encode())
    assert_same("isr_change", IsrChangeNotificationSequenceZnode(PARTITIONS).encode())
    assert_same("log_dir_event", LogDirEventNotificationSequenceZnode(1).encode())

    assert ReassignPartitionsZnode.decode(GOLDEN["reassign"]).partitions == reassignment
    assert PreferredReplicaElectionZnode.decode(GOLDEN["preferred"]).partitions == PARTITIONS


def test_cluster_wide_znodes_are_those_of_kafka() -> None:
    thirty = {f"feature.{i * 13}": i + 1 for i in range(30)}
    enabled, disabled = FeatureStatus.ENABLED, FeatureStatus.DISABLED

    assert_same("cluster_id", ClusterIdZnode("abc_-09").encode())
    assert_same("feature_v2_empty", FeatureZnode({}, enabled).encode())
    assert_same("feature_v2", FeatureZnode({"f": 3}, enabled).encode())
    assert_same("feature_v1", FeatureZnode({"f": 3}, disabled, version=1).encode())
    assert_same("feature_v2_thirty", FeatureZnode(thirty, enabled).encode())
    assert_same("producer_ids", ProducerIdBlockZnode(1, 1000, 1999).encode())

    assert FeatureZnode.decode(GOLDEN["feature_v2_thirty"]).features == thirty


@pytest.mark.parametrize("count", [0, 1, 2, 11, 12, 13, 30, 60, 120])
def test_configurations_of_any_size_list_their_keys_as_kafka_does(count: int) -> None:
    config = {f"config.key.{i * 7919:x}": f'v"{i}' for i in range(count)}

    assert_same(f"config_{count}", ConfigZnode(config).encode())


def test_a_topic_with_every_configuration_lists_its_keys_as_kafka_does() -> None:
    golden = GOLDEN["config_topic"]
    # Kafka's program set them in the order of the alphabet.
    config = dict(sorted(ConfigZnode.decode("config", golden).config.items()))

    assert len(config) == 22
    assert_same("config_topic", ConfigZnode(config).encode())
    assert_same("config_change", ConfigChangeZnode("users/a%20b/clients/<default>").encode())


def test_entity_names_are_encoded_as_kafka_does() -> None:
    pairs = [(fields[1], fields[2]) for fields in LINES if fields[0] == "sanitize"]

    assert len(pairs) == 6
    for name, sanitized in pairs:
        assert sanitize(name) == sanitized
        assert desanitize(sanitized) == name


def test_the_parents_every_broker_creates_are_those_of_kafka() -> None:
    assert list(PERSISTENT_PATHS) == [fields[1] for fields in LINES if fields[0] == "persistent"]
