"""The test of truth: every step of two real incidents is found, at its time, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import DATA
from .stored import stored_report

pytestmark = [pytest.mark.history, pytest.mark.timeout(900)]

Findings = dict[str, Any]
NEAR_MS = 300
"""Steps were noted right after they were done, by another process."""
SESSION_MS = 12_000
"""A paused broker is missed when its session of 6 s has run out; ZooKeeper looks in ticks."""


def deeds(incident: str, action: str) -> list[dict[str, Any]]:
    lines = (DATA / incident / "timeline.jsonl").read_text().splitlines()
    return [deed for deed in map(json.loads, lines) if deed["action"] == action]


def tools(incident: str, name: str, *words: str) -> list[dict[str, Any]]:
    return [
        deed
        for deed in deeds(incident, "tool")
        if deed["cls"] == name and all(word in deed["args"] for word in words)
    ]


@pytest.fixture(params=["incidents-a", "incidents-c"])
def incident(request: pytest.FixtureRequest) -> tuple[str, Findings]:
    fixture = {"incidents-a": "incident_a", "incidents-c": "incident_c"}[request.param]
    return request.param, request.getfixturevalue(fixture)


def test_every_record_is_understood(incident: tuple[str, Findings]) -> None:
    _, found = incident

    assert found["records"] == found["typed"] > 10_000
    assert found["unknown"] == 0
    assert found["brokers"] == [1, 2, 3]


def test_each_killed_broker_and_no_other_is_found_dead_at_its_time(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    killed = [life for life in found["broker_lives"] if life["ended_by"] == "killed"]

    expected = deeds(name, "kill -9 broker")

    assert [life["broker"] for life in sorted(killed, key=lambda life: life["to_ms"])] == [
        deed["broker"] for deed in expected
    ]
    for life, deed in zip(sorted(killed, key=lambda life: life["to_ms"]), expected, strict=True):
        assert abs(life["to_ms"] - deed["time_ms"]) < NEAR_MS


def test_each_start_and_each_ordered_stop_is_a_life(incident: tuple[str, Findings]) -> None:
    name, found = incident
    starts = sorted((deed["broker"], deed["time_ms"]) for deed in deeds(name, "start broker"))
    lives = sorted((life["broker"], life["from_ms"], life) for life in found["broker_lives"])

    assert [broker for broker, _ in starts] == [broker for broker, _, _ in lives]
    for (_, told_ms), (_, found_ms, _) in zip(starts, lives, strict=True):
        assert 0 <= found_ms - told_ms < 3_000  # a JVM needs that long to say its first word
    for deed in deeds(name, "stopped broker"):
        assert any(
            life["broker"] == deed["broker"]
            and life["ended_by"] == "clean_shutdown"
            and abs(life["to_ms"] - deed["time_ms"]) < NEAR_MS
            for life in found["broker_lives"]
        )


def test_each_paused_broker_lost_its_session_and_no_other_did(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    paused = deeds(name, "SIGSTOP broker")
    woken = deeds(name, "SIGCONT broker")

    assert [row["broker"] for row in found["session_expiries"]] == [d["broker"] for d in paused]
    for row, stop, wake in zip(found["session_expiries"], paused, woken, strict=True):
        assert 0 < row["gone_ms"] - stop["time_ms"] < SESSION_MS
        assert 0 < row["at_ms"] - wake["time_ms"] < 3_000


def test_each_forced_election_ends_a_tenure_that_nothing_else_had_ended(
    incident_a: Findings,
) -> None:
    for deed in deeds("incidents-a", "delete /controller"):
        ended = [t for t in incident_a["tenures"] if abs(t["to_ms"] - deed["time_ms"]) < NEAR_MS]
        assert [(t["broker"], t["ended_by"]) for t in ended] == [(deed["was"], "controller_moved")]
    for deed in deeds("incidents-a", "controller is"):
        held = [
            t["broker"]
            for t in incident_a["tenures"]
            if t["from_ms"] <= deed["time_ms"] - NEAR_MS < t["to_ms"]
        ]
        assert held == [deed["broker"]]


def test_only_the_paused_controller_was_a_zombie(
    incident_a: Findings, incident_c: Findings
) -> None:
    (zombie,) = incident_a["zombies"]

    assert (zombie["broker"], zombie["controller_epoch"], zombie["successor"]) == (3, 3, 1)
    assert 11_000 < zombie["overlap_ms"] < 12_000
    assert incident_a["refusals"] == []
    assert incident_c["zombies"] == []
    assert incident_c["refusals"] == []


def test_tenures_end_for_the_reasons_they_had(incident_a: Findings, incident_c: Findings) -> None:
    def ends(found: Findings) -> list[tuple[int, int, str]]:
        return [(t["controller_epoch"], t["broker"], t["ended_by"]) for t in found["tenures"]]

    assert ends(incident_a) == [
        (1, 1, "controller_moved"),
        (2, 2, "controller_moved"),
        (3, 3, "session_expired"),
        (4, 1, "killed"),
        (5, 3, "killed"),
        (6, 2, "clean_shutdown"),
        (7, 3, "controller_moved"),
        (8, 3, "clean_shutdown"),
        (9, 2, "clean_shutdown"),
    ]
    assert ends(incident_c) == [
        (1, 1, "killed"),
        (2, 3, "clean_shutdown"),
        (3, 1, "clean_shutdown"),
    ]


def test_every_failover_has_its_phases_in_order(incident: tuple[str, Findings]) -> None:
    _, found = incident

    for tenure in found["tenures"]:
        steps = [step["phase"] for step in tenure["phases"]]
        assert steps.index("registered watches") < steps.index("began elections")
        assert steps.index("began elections") < steps.index("ready")
        assert all(step["took_ms"] >= 0 for step in tenure["phases"])


def test_the_unclean_elections_are_found_with_what_they_cost_and_no_other(
    incident_a: Findings, incident_c: Findings
) -> None:
    assert incident_a["unclean_elections"] == []
    assert [
        (row["topic"], row["partition"], row["leader"], row["last_isr"])
        for row in incident_c["unclean_elections"]
    ] == [("unsafe", 0, 2, [1]), ("unsafe", 1, 2, [1])]
    # Broker 1 came back with 420 and 903 records, and had to cut them at 158 and 586.
    assert [row["lost_records"] for row in incident_c["unclean_elections"]] == [262, 317]


def test_the_topic_that_may_not_lose_records_was_without_a_leader_instead(
    incident_c: Findings,
) -> None:
    (killed,) = (d for d in deeds("incidents-c", "kill -9 broker") if d["broker"] == 1)
    back = [d for d in deeds("incidents-c", "start broker") if d["broker"] == 1][1]
    closed = [
        row
        for row in incident_c["leaderless"]
        if row["topic"] == "safe" and row["to_ms"] is not None
    ]

    assert sorted(row["partition"] for row in closed) == [0, 1]
    for row in closed:
        assert row["cause"] == "broker 1 died"
        assert 0 < row["from_ms"] - killed["time_ms"] < SESSION_MS
        assert 0 < row["to_ms"] - back["time_ms"] < 3_000


def test_each_deletion_is_found_and_opens_no_window_without_a_leader(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    asked = tools(name, "TopicCommand", "--delete")

    assert [row["topic"] for row in found["deletions"]] == [
        deed["args"][deed["args"].index("--topic") + 1] for deed in asked
    ]
    for row, deed in zip(found["deletions"], asked, strict=True):
        assert 0 <= deed["time_ms"] - row["from_ms"] < 1_000
        assert row["to_ms"] is not None
        assert not [
            window
            for window in found["leaderless"]
            if window["topic"] == row["topic"]
            and row["from_ms"] <= window["from_ms"] <= row["to_ms"]
        ]


def test_the_reassignment_is_found_partition_by_partition(incident_a: Findings) -> None:
    (deed,) = deeds("incidents-a", "reassign")

    moved = {row["partition"]: row for row in incident_a["reassignments"]}

    # Partition 1 had its new replicas already: Kafka raised its leader epoch and copied nothing.
    assert {number: (row["outcome"], row["new_replicas"]) for number, row in moved.items()} == {
        0: ("completed", [3, 1]),
        1: ("no change", [2, 3]),
        2: ("completed", [1, 2]),
    }
    for row in moved.values():
        assert abs(row["from_ms"] - deed["time_ms"]) < NEAR_MS
        assert 0 < row["took_ms"] < 2_000


def test_a_topic_created_again_is_no_broken_invariant(incident: tuple[str, Findings]) -> None:
    _, found = incident

    assert found["invariants"] == []


def test_what_followed_is_grouped_under_each_departure(incident_c: Findings) -> None:
    first = min(incident_c["blast_radius"], key=lambda row: row["at_ms"])

    assert (first["broker"], first["how"]) == (2, "killed")
    assert first["controller_epoch"] is None
    # Broker 2 was in the ISRs of all 24 partitions of wide, and of two each of safe and unsafe.
    assert first["isr_shrinks"] == 28
    assert sum(row["leader_moves"] for row in incident_c["blast_radius"]) > 0


def test_no_rule_is_hit_that_nothing_stands_behind(
    incident_a: Findings, incident_c: Findings
) -> None:
    assert {rule["id"] for rule in incident_a["rules"]} == {
        "C07", "B05", "B06", "P01", "B08", "C03", "P13", "B07",
    }  # fmt: skip
    assert {rule["id"] for rule in incident_c["rules"]} == {
        "P11", "B05", "B06", "P01", "B08", "C03", "P13", "B07",
    }  # fmt: skip
    for rule in incident_a["rules"] + incident_c["rules"]:
        assert rule["evidence"]


def test_the_stored_report_has_the_keys_of_a_new_one(incident_a: Findings) -> None:
    stored = stored_report()

    assert set(stored) == set(incident_a)
    for key in ("tenures", "broker_lives", "leaderless", "rules", "deletions", "reassignments"):
        assert set(stored[key][0]) == set(incident_a[key][0]), key
