"""A third real incident: ZooKeeper away, a full disk, too few replicas in sync, Kafka's levels."""

from __future__ import annotations

from typing import Any

import pytest

from .test_incidents import steps, tools

pytestmark = [pytest.mark.history, pytest.mark.timeout(900)]

Findings = dict[str, Any]
NAME = "incidents-d"
NEAR_MS = 1_000
"""The host was busy: a connection breaks, and is seen to be broken, so much later."""
BACK_MS = 6_000
"""A client of ZooKeeper tries to connect again every second or two."""


def step(action: str, **where: Any) -> int:
    """When it was done; there is one such line."""
    (found,) = (d for d in steps(NAME, action) if where.items() <= d.items())
    return int(found["time_ms"])


def test_both_times_without_zookeeper_are_found_and_no_session_was_lost(
    incident_d: Findings,
) -> None:
    restart, outage = incident_d["zookeeper_gaps"]

    for gap, begun, over in (
        (restart, "restart zookeeper: stop", "restart zookeeper: started"),
        (outage, "outage: stop", "outage: over"),
    ):
        assert 0 <= gap["from_ms"] - step(begun) < NEAR_MS
        assert 0 <= gap["to_ms"] - step(over) < BACK_MS
        assert gap["brokers"] == [1, 2, 3]
        assert gap["is_all"]
        assert gap["sessions_lost"] == 0
    assert incident_d["pauses"] == []
    assert incident_d["session_expiries"] == []


def test_the_full_disk_is_found_with_its_time_directory_and_partitions(
    incident_d: Findings,
) -> None:
    (failure,) = incident_d["log_dir_failures"]
    produced = next(d for d in steps(NAME, "produce") if d["topic"] == "big")

    assert (failure["broker"], failure["dir"]) == (2, "/var/lib/kafka/small")
    assert failure["reason"] == "No space left on device"
    # Those of big-1 were in the other directory.
    assert failure["partitions"] == ["big-0", "big-2", "ledger-1", "orders-2"]
    assert step("disk full") < failure["at_ms"] < produced["time_ms"]
    dark = [
        (row["topic"], row["partition"])
        for row in incident_d["leaderless"]
        if row["cause"] == "broker 2 lost a log directory"
    ]
    assert sorted(dark) == [("big", 0), ("big", 2)]  # the others had a second replica


def test_partitions_under_min_isr_are_found_while_one_replica_was_left(
    incident_d: Findings,
) -> None:
    killed, started = step("kill -9 broker", broker=2), steps(NAME, "start broker")[3]["time_ms"]
    stopped = step("clean stop broker", broker=1)
    # Two brokers of three were dead; later the full disk and a stop took two, then two stops.
    while_dead = [row for row in incident_d["under_min_isr"] if row["from_ms"] < stopped]

    assert [(row["topic"], row["partition"]) for row in while_dead] == [
        ("orders", 1), ("orders", 0), ("orders", 2),
    ]  # fmt: skip
    for row in while_dead:
        assert (row["isr"], row["min_isr"]) == ([1], 2)
        assert killed < row["from_ms"] < killed + 6_000
        assert started - 6_000 < row["to_ms"] < started + 3_000
    assert sum(row["refused"] for row in while_dead) == 1
    assert {row["topic"] for row in incident_d["under_min_isr"]} == {"orders"}
    assert sum(row["refused"] for row in incident_d["under_min_isr"]) == 1


def test_what_was_ordered_is_found_and_nothing_else(incident_d: Findings) -> None:
    said = [row["says"] for row in incident_d["acts"]]

    assert said == [
        "Topic orders was created",
        "Topic ledger was created",
        "Topic big was created",
        "The configuration of topics/orders became min.insync.replicas -> 2, "
        "retention.ms -> 7200000",
        "The configuration of brokers/1 became log.cleaner.threads -> 2",
        "A reassignment of ledger-1 changed the order of the replicas only",
    ]
    asked = [*tools(NAME, "TopicCommand"), *tools(NAME, "ConfigCommand"),
             *tools(NAME, "ReassignPartitionsCommand")]  # fmt: skip
    for row, tool in zip(incident_d["acts"], asked, strict=True):
        assert 0 < tool["time_ms"] - row["at_ms"] < 6_000  # a tool ends later than its work


def test_the_brokers_that_died_are_found_and_what_followed(incident_d: Findings) -> None:
    followed = [
        (row["broker"], row["how"], row["leader_moves"], row["leaderless"], row["isr_shrinks"])
        for row in incident_d["blast_radius"]
    ]

    assert sorted(followed) == sorted([
        (3, "killed", 1, 1, 3),
        (2, "killed", 2, 5, 5),
        (2, "log_dir_failed", 0, 2, 2),
        (1, "clean_shutdown", 4, 1, 4),
        (2, "clean_shutdown", 2, 4, 2),
        (3, "clean_shutdown", 0, 3, 0),
    ])  # fmt: skip
    for broker in (2, 3):
        (life,) = (
            life for life in incident_d["broker_lives"]
            if (life["broker"], life["ended_by"]) == (broker, "killed")
        )  # fmt: skip
        assert abs(life["to_ms"] - step("kill -9 broker", broker=broker)) < NEAR_MS


def test_no_rule_is_hit_that_nothing_stands_behind(incident_d: Findings) -> None:
    assert {rule["id"] for rule in incident_d["rules"]} == {
        "B05", "B07", "B08", "C03", "I02", "K01", "L02", "P01", "P13", "Q01", "Z11",
    }  # fmt: skip
    told = " ".join(incident_d["verdict"]["sentences"])
    assert "ZooKeeper was away for 24.7 s from 19:02:32.910 on (brokers 1, 2 and 3)" in told
    assert "Log directory /var/lib/kafka/small of broker 2 failed at 19:04:11.323" in told
