"""``zkctl topic`` on a ZooKeeper in memory: patterns, reports, marks; what is refused unasked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from kafka_common.model import ReplicaAssignment
from kafka_common.protocol.uuid_text import uuid_text
from tests.support.cli_world import ORDERS_ID, Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.znodes import (
    ConfigZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    TopicPartitionZnode,
    TopicZnode,
)

HERE: Final = ("-z", "zookeeper:2181", "-o", "json", "--timeout", "5")
BROKERS: Final = ("-b", "127.0.0.1:1", "--timeout", "1")


def put(zkctl: Zkctl, topic: str, state: PartitionStateZnode) -> None:
    znode = TopicZnode(None, {0: ReplicaAssignment((1, 2))})
    zkctl.create(TopicZnode.path(topic), znode.encode())
    zkctl.create(TopicPartitionZnode.path(topic, 0))
    zkctl.create(PartitionStateZnode.path(topic, 0), state.encode())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    """``orders`` in three states, ``payments`` with both replicas, a topic of Kafka's own."""
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        put(zkctl, "payments", PartitionStateZnode(1, 3, (1, 2), 7))
        put(zkctl, "__consumer_offsets", PartitionStateZnode(2, 3, (2, 1), 7))
        config = ConfigZnode({"min.insync.replicas": "2"})
        zkctl.create(ConfigZnode.topic_path("payments"), config.encode())
        yield zkctl


def listed(zkctl: Zkctl, *arguments: str) -> list[str]:
    result = zkctl("topic", "list", *HERE, *arguments)
    assert result.exit_code == 0, result.stderr
    return [row["topic"] for row in result.json]


def reported(zkctl: Zkctl, *arguments: str) -> list[tuple[str, int]]:
    result = zkctl("topic", "describe", *HERE, *arguments)
    assert result.exit_code == 0, result.stderr
    return [(row["topic"], row["partition"]) for row in result.json]


def test_topics_are_listed_by_patterns_and_a_missing_one_is_no_error(cluster: Zkctl) -> None:
    assert listed(cluster) == ["__consumer_offsets", "orders", "payments"]
    assert listed(cluster, "--exclude-internal") == ["orders", "payments"]
    assert listed(cluster, "pay*", "o*") == ["payments", "orders"]
    assert listed(cluster, "pay.*,nothing", "--regex") == ["payments"]
    assert listed(cluster, "lost") == []


def test_a_mark_for_deletion_is_shown(cluster: Zkctl) -> None:
    cluster.create(DeleteTopicZnode.path("orders"))

    result = cluster("topic", "list", *HERE, "--exclude-internal")

    assert {row["topic"]: row["is_marked_for_deletion"] for row in result.json} == {
        "orders": True,
        "payments": False,
    }


def test_each_report_lists_the_partitions_that_it_finds(cluster: Zkctl) -> None:
    assert reported(cluster, "--under-replicated-partitions") == [("orders", 1), ("orders", 2)]
    assert reported(cluster, "--unavailable-partitions") == [("orders", 2)]
    assert reported(cluster, "--unavailable-partitions", "pay*") == []
    both = ("--unavailable-partitions", "--under-replicated-partitions")
    assert reported(cluster, *both) == [("orders", 1), ("orders", 2)]


def test_minima_come_from_zookeeper_where_no_broker_answers(cluster: Zkctl) -> None:
    at_minimum = cluster("topic", "describe", *HERE, "--at-min-isr-partitions")
    under = cluster("topic", "describe", *HERE, "--under-min-isr-partitions", "--check")

    # Nothing is set for orders: its minimum is 1.
    assert [(row["topic"], row["partition"], row["min_isr"]) for row in at_minimum.json] == [
        *(("orders", 1, 1), ("orders", 2, 1), ("payments", 0, 2))
    ]
    assert "min.insync.replicas is read from ZooKeeper" in at_minimum.stderr
    assert [(row["topic"], row["partition"]) for row in under.json] == [("orders", 2)]
    assert under.exit_code == 1


def test_topics_that_set_configurations_are_listed_with_them(cluster: Zkctl) -> None:
    result = cluster("topic", "describe", *HERE, "--topics-with-overrides")

    assert {row["topic"]: row["configs"] for row in result.json} == {
        "orders": {"retention.ms": "1000"},
        "payments": {"min.insync.replicas": "2"},
    }
    assert "partitions" not in result.json[0]


def test_a_topic_is_found_by_its_id(cluster: Zkctl) -> None:
    topic_id = uuid_text(ORDERS_ID)

    found = cluster("topic", "describe", *HERE, "--topic-id", topic_id)
    lost = cluster("topic", "describe", *HERE, "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    lenient = cluster("topic", "describe", *HERE, "--topic-id", "AAAA", "--if-exists")

    assert (found.json["topic"], found.json["topic_id"]) == ("orders", topic_id)
    assert (lost.exit_code, "no topic with the id" in lost.stderr) == (5, True)
    assert (lenient.exit_code, lenient.json) == (0, [])


def test_one_name_is_one_object_and_a_pattern_a_list(cluster: Zkctl) -> None:
    one = cluster("topic", "describe", "orders", *HERE).json
    pattern = cluster("topic", "describe", "order?", *HERE).json
    table = cluster("topic", "describe", "-z", "zookeeper:2181").stdout

    assert pattern == [one]
    assert table.count("topic: ") == 3
    assert table.count("partitions:") == 3


def test_what_is_not_there_is_refused_unless_it_may_be_missing(cluster: Zkctl) -> None:
    missing = cluster("topic", "describe", "lost", *HERE)
    pattern = cluster("topic", "describe", "lost*", *HERE)
    lenient = cluster("topic", "describe", "lost", *HERE, "--if-exists")

    assert (missing.exit_code, "there is no topic lost" in missing.stderr) == (5, True)
    assert (pattern.exit_code, "no topic matches lost*" in pattern.stderr) == (5, True)
    assert (lenient.exit_code, lenient.json) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("describe", "--topics-with-overrides", "--unavailable-partitions"),
            "leave the options of partitions out",
        ),
        (("describe", "--check"), "--check needs an option"),
        (("describe", "orders", "--topic-id", "x"), "name topics or say --topic-id"),
        (("describe", "(", "--regex"), "not a regular expression"),
        (("offsets", "orders", "--topic-partitions", "a"), "leave TOPIC and --partitions out"),
        (("offsets", "--time", "yesterday"), "milliseconds since 1970"),
        (("delete-records",), "or give them in a --file"),
        (("delete-records", "orders-0:1", "orders-0:2"), "orders-0 is named twice"),
        (("delete-records", "orders-0"), "is not TOPIC-PARTITION:OFFSET"),
    ],
)
def test_what_contradicts_itself_is_bad_usage(
    cluster: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    result = cluster("topic", *arguments, *HERE)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("alter", "orders", "--partitions", "9"),
        ("delete", "orders*"),
        ("delete-records", "orders-0:1"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_off_a_terminal_a_change_needs_yes_before_anything_is_asked(
    cluster: Zkctl, arguments: tuple[str, ...]
) -> None:
    result = cluster("topic", *arguments, *BROKERS)

    assert result.exit_code == 5
    assert "say --yes" in result.stderr
