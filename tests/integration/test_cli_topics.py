"""``zkctl topic`` on brokers of ours: dry runs, patterns, offsets at a time, records deleted."""

from __future__ import annotations

import json

import pytest

from tests.integration.zkctl_brokers import FIRST_MS, RECORDS, create, refused, run, zkctl
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    return kafka_cluster_factory(2, zookeeper=zookeeper_connect)


def names(cluster: KafkaCluster, *patterns: str) -> list[str]:
    return [row["topic"] for row in zkctl(cluster, "topic", "list", *patterns)]


def test_a_dry_run_checks_and_changes_nothing(cluster: KafkaCluster) -> None:
    dry = ("topic", "create", "checked", "--partitions", "3", "--dry-run")

    checked = zkctl(cluster, *dry)
    why = refused(cluster, *dry, "--config", "no.such.key=1")
    before = names(cluster)
    zkctl(cluster, "topic", "create", "checked", "--partitions", "2")
    grown = zkctl(cluster, "topic", "alter", "checked", "--partitions", "4", "--dry-run")
    shrunk = refused(cluster, "topic", "alter", "checked", "--partitions", "2", "--dry-run")
    deleted = zkctl(cluster, "topic", "delete", "checked", "--dry-run")
    after = zkctl(cluster, "topic", "describe", "checked")

    assert (checked["is_created"], checked["partition_count"]) == (False, 3)
    assert "INVALID_CONFIG" in why
    assert "checked" not in before
    assert (grown["current_partition_count"], grown["partition_count"]) == (2, 4)
    assert "has 2 partitions already" in shrunk
    assert [row["is_deleted"] for row in deleted] == [False]
    assert after["partition_count"] == 2


def test_minima_come_from_brokers_that_know_their_own_configuration(cluster: KafkaCluster) -> None:
    minimum = ("--config", "min.insync.replicas=2")
    create(cluster, "narrow", 1)
    zkctl(cluster, "topic", "create", "wide", "--replica-assignment", "1:2,1:2", *minimum)

    at_minimum = run(cluster, "topic", "describe", "narrow", "wide", "--at-min-isr-partitions")

    rows = [(row["topic"], row["min_isr"]) for row in json.loads(at_minimum.stdout)]
    assert rows == [("narrow", 1), ("wide", 2), ("wide", 2)]
    assert at_minimum.stderr == ""


def test_topics_grow_and_go_by_patterns(cluster: KafkaCluster) -> None:
    for topic in ("batch.a", "batch.b", "other"):
        zkctl(cluster, "topic", "create", topic, "--partitions", "1")

    grown = zkctl(cluster, "topic", "alter", "batch.*", "--partitions", "2", "--yes")
    unasked = refused(cluster, "topic", "delete", "batch.*")
    plan = run(cluster, "topic", "delete", "batch.*", "--dry-run")
    gone = zkctl(cluster, "topic", "delete", "batch.*", "--yes")
    again = refused(cluster, "topic", "delete", "batch.*", "--yes")

    assert [(row["topic"], row["partition_count"], row["error"]) for row in grown] == [
        *(("batch.a", 2, None), ("batch.b", 2, None))
    ]
    assert "say --yes" in unasked
    assert "delete batch.a: 2 partitions, 2 replicas" in plan.stderr
    assert [(row["topic"], row["is_deleted"]) for row in gone] == [
        *(("batch.a", True), ("batch.b", True))
    ]
    assert "no topic matches batch.*" in again
    assert names(cluster, "batch.*", "other") == ["other"]


def test_records_are_deleted_as_planned_and_offsets_show_it(cluster: KafkaCluster) -> None:
    create(cluster, "ledger", 2)
    delete = ("topic", "delete-records", "ledger-0:4", "ledger-1:-1")

    planned = zkctl(cluster, *delete, "--dry-run")
    before = zkctl(cluster, "topic", "offsets", "ledger")
    behind = refused(cluster, "topic", "delete-records", "ledger-0:99", "ledger-1:2", "--yes")
    lost = refused(cluster, "topic", "delete-records", "ledger-7:1", "--yes")
    done = zkctl(cluster, *delete, "--yes")
    again = zkctl(cluster, *delete, "--yes")
    starts = zkctl(cluster, "topic", "offsets", "ledger", "--time", "earliest")
    at = str(FIRST_MS + 6_500)
    timed = zkctl(cluster, "topic", "offsets", "ledger", "--time", at, "--partitions", "0")
    newest = zkctl(
        cluster, "topic", "offsets", "--topic-partitions", "led*:0-1", "--time", "max-timestamp"
    )
    none = zkctl(cluster, "topic", "offsets", "ledger", "--time", str(FIRST_MS * 2))
    invalid = refused(cluster, "topic", "offsets", "ledger:1")

    assert [(row["new_earliest_offset"], row["record_count"]) for row in planned] == [
        *((4, 4), (RECORDS, RECORDS))
    ]
    assert [row["earliest_offset"] for row in before] == [0, 0]
    assert "99 is behind the log's end 10; 1 of 2 partitions" in behind
    assert "UNKNOWN_TOPIC_OR_PARTITION" in lost
    assert [(row["earliest_offset"], row["low_watermark"], row["is_deleted"]) for row in done] == [
        *((4, 4, True), (RECORDS, RECORDS, True))
    ]
    assert [(row["record_count"], row["is_deleted"]) for row in again] == [(0, True)] * 2
    assert [row["offset"] for row in starts] == [4, RECORDS]
    assert [(row["partition"], row["offset"]) for row in timed] == [(0, 7)]
    assert [(row["partition"], row["offset"]) for row in newest] == [(0, RECORDS - 1)]
    assert [row["offset"] for row in none] == [None, None]
    assert "'ledger:1' is not a name that a topic can have" in invalid


def test_a_compacted_topic_keeps_its_records(cluster: KafkaCluster) -> None:
    zkctl(cluster, "topic", "create", "latest", "--config", "cleanup.policy=compact")

    why = refused(cluster, "topic", "delete-records", "latest-0:-1", "--yes")

    assert "cleanup.policy=compact keeps the latest record of each key" in why


def test_deletions_that_are_switched_off_are_refused_with_the_setting(
    kafka_cluster_factory: StartCluster, zookeeper_connect: str
) -> None:
    configs = {"delete.topic.enable": "false"}
    strict = kafka_cluster_factory(1, zookeeper=zookeeper_connect, configs=configs)
    zkctl(strict, "topic", "create", "kept")

    why = refused(strict, "topic", "delete", "kept", "--yes")

    assert "the controller has delete.topic.enable=false" in why
    assert names(strict) == ["kept"]
