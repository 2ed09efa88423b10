"""``zkctl group`` on brokers of ours, with real consumers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.zkctl_brokers import (
    Brokers,
    commit,
    confluent,
    create,
    member,
    offsets,
    refused,
    run,
    zkctl,
)
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    configs = {"offsets.topic.num.partitions": "4"}
    return kafka_cluster_factory(2, zookeeper=zookeeper_connect, configs=configs)


def test_a_group_is_listed_and_described_with_its_members_and_lags(cluster: KafkaCluster) -> None:
    create(cluster, "orders", 3)

    with member(cluster, "billing", "orders") as consumer:
        consumer.commit(offsets=[confluent.TopicPartition("orders", 0, 4)], asynchronous=False)
        listed = zkctl(cluster, "group", "list", "--state", "stable")
        empty = zkctl(cluster, "group", "list", "--state", "Empty")
        described = zkctl(cluster, "group", "describe", "billing")
        [reader] = zkctl(cluster, "group", "members", "billing")
    after = zkctl(cluster, "group", "describe", "--all")

    assert [(row["group"], row["state"], row["protocol_type"]) for row in listed] == [
        ("billing", "Stable", "consumer")
    ]
    assert "billing" not in {row["group"] for row in empty}
    assert described["coordinator_id"] == listed[0]["coordinator_id"]
    assert [
        (row["partition"], row["committed_offset"], row["log_end_offset"], row["lag"])
        for row in described["partitions"]
    ] == [(0, 4, 10, 6), (1, None, 10, None), (2, None, 10, None)]
    assert {row["member_id"] for row in described["partitions"]} == {reader["member_id"]}
    assert {row["client_id"] for row in described["partitions"]} == {"reader"}
    assert (described["total_lag"], described["unknown_lag_count"]) == (6, 2)
    assert reader["assignment"] == ["orders-0", "orders-1", "orders-2"]
    [left] = [each for each in after if each["group"] == "billing"]
    assert (left["state"], left["member_count"], left["partition_count"]) == ("Empty", 0, 1)
    assert [row["member_id"] for row in left["partitions"]] == [None]


@pytest.fixture(scope="module")
def resets(cluster: KafkaCluster) -> str:
    """A topic whose offsets are reset."""
    create(cluster, "resets")
    return "resets"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (("--to-earliest",), (0, 0)),
        (("--to-latest",), (10, 10)),
        (("--to-current",), (3, 8)),
        (("--to-offset", "7"), (7, 7)),
        (("--to-offset", "99"), (10, 10)),
        (("--shift-by", "-5"), (0, 3)),
        (("--shift-by", "2"), (5, 10)),
        (("--to-datetime", "2023-11-14T22:13:25.000"), (5, 5)),
        (("--to-datetime", "2023-11-14T23:13:25.500+01:00"), (6, 6)),
        (("--to-datetime", "2033-01-01T00:00:00Z"), (10, 10)),
        (("--by-duration", "P9000D"), (0, 0)),
        (("--by-duration", "PT1M"), (10, 10)),
    ],
    ids=lambda value: "=".join(value) if isinstance(value[0], str) else "to",
)
def test_offsets_are_reset_as_planned(
    cluster: Brokers, resets: str, mode: tuple[str, ...], expected: tuple[int, ...]
) -> None:
    commit(cluster, "resetting", resets, 3, 8)
    reset = ("group", "reset", "resetting", "--topic", resets, *mode)

    plan = zkctl(cluster, *reset, "--dry-run")
    before = offsets(cluster, "resetting", resets)
    done = zkctl(cluster, *reset, "--yes")

    assert tuple(row["new_offset"] for row in plan) == expected
    assert tuple(before.values()) == (3, 8)
    assert tuple(row["committed_offset"] for row in done) == expected
    assert tuple(offsets(cluster, "resetting", resets).values()) == expected
    if mode[-1] == "99":
        assert {row["reason"] for row in plan} == {"99 is behind the log's end"}


def test_a_plan_is_exported_and_carried_out_later(cluster: Brokers, tmp_path: Path) -> None:
    create(cluster, "planned")
    commit(cluster, "planning", "planned", 3, 8)
    file = str(tmp_path / "plan.csv")
    reset = ("group", "reset", "planning")

    zkctl(cluster, *reset, "--all-topics", "--to-current", "--dry-run", "--export", file)
    zkctl(cluster, *reset, "--topic", "planned:1", "--to-earliest", "--yes")
    changed = offsets(cluster, "planning", "planned")
    again = refused(
        cluster, *reset, "--all-topics", "--to-latest", "--export", file, "--yes", exit_code=2
    )
    zkctl(cluster, *reset, "--from-file", file, "--yes")

    assert Path(file).read_text() == "planned,0,3\nplanned,1,8\n"
    assert tuple(changed.values()) == (3, 0)
    assert "exists already" in again
    assert tuple(offsets(cluster, "planning", "planned").values()) == (3, 8)


def test_nothing_is_reset_or_deleted_while_a_member_lives(cluster: KafkaCluster) -> None:
    create(cluster, "living")
    commit(cluster, "alive", "living", 3, 8)
    reset = ("group", "reset", "alive", "--all-topics", "--to-latest")

    with member(cluster, "alive", "living"):
        why = refused(cluster, *reset, "--yes")
        planned = run(cluster, *reset, "--dry-run")
        not_deleted = refused(cluster, "group", "delete", "alive", "--yes")
        kept = refused(cluster, "group", "delete-offsets", "alive", "--topic", "living", "--yes")
    unasked = refused(cluster, *reset)

    assert "group alive is Stable: stop its 1 members before offsets are reset: reader at" in why
    assert planned.exit_code == 5
    assert [row["new_offset"] for row in json.loads(planned.stdout)] == [10, 10]
    assert "stop its 1 members before it is deleted" in not_deleted
    assert "stop the members that read the topic first" in kept
    assert "say --yes" in unasked
    assert tuple(offsets(cluster, "alive", "living").values()) == (3, 8)


def test_what_cannot_be_reset_is_named_and_nothing_is_done(cluster: KafkaCluster) -> None:
    create(cluster, "strict")
    commit(cluster, "careful", "strict", 3)
    reset = ("group", "reset", "careful", "--yes")

    shifted = refused(cluster, *reset, "--topic", "strict", "--shift-by", "1")
    missing = refused(cluster, *reset, "--topic", "strict:0,7", "--to-latest")
    unknown = refused(cluster, *reset, "--topic", "no-such", "--to-latest")
    both = refused(cluster, *reset, "--all-topics", "--to-latest", "--to-earliest", exit_code=2)
    none = refused(cluster, *reset, "--to-latest", exit_code=2)

    assert "strict-1: nothing is committed that could be shifted; 1 of 2 partitions" in shifted
    assert "strict-7: UNKNOWN_TOPIC_OR_PARTITION" in missing
    assert "there is no topic no-such" in unknown
    assert "say one of --to-earliest" in both
    assert "say one of --topic TOPIC and --all-topics" in none
    assert offsets(cluster, "careful", "strict") == {0: 3}


def test_offsets_and_groups_are_deleted(cluster: KafkaCluster) -> None:
    create(cluster, "leaving")
    commit(cluster, "gone", "leaving", 3, 8)

    planned = zkctl(cluster, "group", "delete-offsets", "gone", "--topic", "leaving:0", "--dry-run")
    [deleted] = zkctl(cluster, "group", "delete-offsets", "gone", "--topic", "leaving:0", "--yes")
    left = offsets(cluster, "gone", "leaving")
    kept = zkctl(cluster, "group", "delete", "gone", "--dry-run")
    ended = zkctl(cluster, "group", "delete", "gone", "--yes")
    missing = refused(cluster, "group", "describe", "gone")
    again = refused(cluster, "group", "delete", "gone", "--yes")

    assert [row["is_deleted"] for row in planned] == [False]
    assert (deleted["current_offset"], deleted["is_deleted"]) == (3, True)
    assert left == {1: 8}
    assert [row["is_deleted"] for row in kept] == [False]
    assert ended == [{"group": "gone", "is_deleted": True, "error": None, "reason": None}]
    assert "there is no group gone; zkctl group list shows all" in missing
    assert "there is no group gone; nothing was done" in again


def test_a_group_that_is_not_there_yet_gets_offsets(cluster: KafkaCluster) -> None:
    create(cluster, "fresh")

    zkctl(cluster, "group", "reset", "newcomer", "--topic", "fresh", "--to-latest", "--yes")

    assert offsets(cluster, "newcomer", "fresh") == {0: 10, 1: 10}
