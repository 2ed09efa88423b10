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
PAUSE_MS = 1_500
"""A broker and ZooKeeper exchange words every 2 s: so much is known of a pause's beginning."""
SESSION_MS = 12_000
"""A paused broker is missed when its session of 6 s has run out; ZooKeeper looks in ticks."""


def steps(incident: str, action: str) -> list[dict[str, Any]]:
    lines = (DATA / incident / "timeline.jsonl").read_text().splitlines()
    return [step for step in map(json.loads, lines) if step["action"] == action]


def tools(incident: str, name: str, *words: str) -> list[dict[str, Any]]:
    return [
        step
        for step in steps(incident, "tool")
        if step["cls"] == name and all(word in step["args"] for word in words)
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

    expected = steps(name, "kill -9 broker")

    assert [life["broker"] for life in sorted(killed, key=lambda life: life["to_ms"])] == [
        step["broker"] for step in expected
    ]
    for life, step in zip(sorted(killed, key=lambda life: life["to_ms"]), expected, strict=True):
        assert abs(life["to_ms"] - step["time_ms"]) < NEAR_MS


def test_each_start_and_each_ordered_stop_is_a_life(incident: tuple[str, Findings]) -> None:
    name, found = incident
    starts = sorted((step["broker"], step["time_ms"]) for step in steps(name, "start broker"))
    lives = sorted((life["broker"], life["from_ms"], life) for life in found["broker_lives"])

    assert [broker for broker, _ in starts] == [broker for broker, _, _ in lives]
    for (_, told_ms), (_, found_ms, _) in zip(starts, lives, strict=True):
        assert 0 <= found_ms - told_ms < 3_000  # a JVM needs that long to say its first word
    for step in steps(name, "stopped broker"):
        assert any(
            life["broker"] == step["broker"]
            and life["ended_by"] == "clean_shutdown"
            and abs(life["to_ms"] - step["time_ms"]) < NEAR_MS
            for life in found["broker_lives"]
        )


def test_each_paused_broker_lost_its_session_and_no_other_did(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    paused = steps(name, "SIGSTOP broker")
    woken = steps(name, "SIGCONT broker")

    assert [row["broker"] for row in found["session_expiries"]] == [d["broker"] for d in paused]
    for row, stop, wake in zip(found["session_expiries"], paused, woken, strict=True):
        assert 0 < row["gone_ms"] - stop["time_ms"] < SESSION_MS
        assert 0 < row["at_ms"] - wake["time_ms"] < 3_000


def test_each_forced_election_ends_a_tenure_that_nothing_else_had_ended(
    incident_a: Findings,
) -> None:
    for step in steps("incidents-a", "delete /controller"):
        ended = [t for t in incident_a["tenures"] if abs(t["to_ms"] - step["time_ms"]) < NEAR_MS]
        assert [(t["broker"], t["ended_by"]) for t in ended] == [(step["was"], "controller_moved")]
    for step in steps("incidents-a", "controller is"):
        held = [
            t["broker"]
            for t in incident_a["tenures"]
            if t["from_ms"] <= step["time_ms"] - NEAR_MS < t["to_ms"]
        ]
        assert held == [step["broker"]]


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
    (killed,) = (d for d in steps("incidents-c", "kill -9 broker") if d["broker"] == 1)
    back = [d for d in steps("incidents-c", "start broker") if d["broker"] == 1][1]
    closed = [
        row
        for row in incident_c["leaderless"]
        if row["topic"] == "safe" and row["to_ms"] is not None and row["cause"] == "broker 1 died"
    ]

    assert sorted(row["partition"] for row in closed) == [0, 1]
    for row in closed:
        assert abs(row["from_ms"] - killed["time_ms"]) < NEAR_MS
        assert 0 < row["noticed_ms"] - killed["time_ms"] < SESSION_MS
        assert 0 < row["to_ms"] - back["time_ms"] < 3_000


def test_each_deletion_is_found_and_opens_no_window_without_a_leader(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    asked = tools(name, "TopicCommand", "--delete")

    assert [row["topic"] for row in found["deletions"]] == [
        step["args"][step["args"].index("--topic") + 1] for step in asked
    ]
    for row, step in zip(found["deletions"], asked, strict=True):
        assert 0 <= step["time_ms"] - row["from_ms"] < 1_000
        assert row["to_ms"] is not None
        assert not [
            window
            for window in found["leaderless"]
            if window["topic"] == row["topic"]
            and row["from_ms"] <= window["from_ms"] <= row["to_ms"]
        ]


def test_the_reassignment_is_found_partition_by_partition(incident_a: Findings) -> None:
    (step,) = steps("incidents-a", "reassign")

    moved = {row["partition"]: row for row in incident_a["reassignments"]}

    # Partition 1 had its new replicas already: Kafka raised its leader epoch and copied nothing.
    assert {number: (row["outcome"], row["new_replicas"]) for number, row in moved.items()} == {
        0: ("completed", [3, 1]),
        1: ("no change", [2, 3]),
        2: ("completed", [1, 2]),
    }
    for row in moved.values():
        assert abs(row["from_ms"] - step["time_ms"]) < NEAR_MS
        assert 0 < row["took_ms"] < 2_000


def test_a_topic_created_again_is_no_broken_invariant(incident: tuple[str, Findings]) -> None:
    _, found = incident

    assert found["invariants"] == []


def test_what_followed_is_grouped_under_each_departure_and_no_other(
    incident_a: Findings, incident_c: Findings
) -> None:
    def followed(found: Findings) -> list[tuple[Any, ...]]:
        keys = ("broker", "how", "leader_moves", "leaderless", "isr_shrinks", "controller_epoch")
        return [tuple(row[key] for key in keys) for row in found["blast_radius"]]

    # Broker 2 led 8 of wide and one each of safe and unsafe; broker 1 led 4 of those 8 afterwards.
    # What the elections, the balance and the deletion of wide moved belongs to no departure.
    assert sorted(followed(incident_c)) == sorted([
        (2, "killed", 10, 10, 28, None),
        (1, "killed", 14, 16, 28, 1),
        (1, "paused", 10, 10, 30, None),
        (3, "clean_shutdown", 10, 0, 26, 2),
        (2, "clean_shutdown", 2, 0, 4, None),
        (3, "clean_shutdown", 0, 0, 2, None),
        (1, "clean_shutdown", 0, 6, 0, 3),
    ])  # fmt: skip
    assert sorted(followed(incident_a)) == sorted([
        (2, "killed", 6, 7, 16, None),
        (3, "paused", 8, 9, 16, 3),
        (1, "killed", 7, 7, 17, 4),
        (3, "killed", 7, 9, 15, 5),
        (2, "clean_shutdown", 13, 0, 21, 6),
        (1, "clean_shutdown", 8, 1, 20, None),
        (3, "clean_shutdown", 9, 3, 18, 8),
        (2, "clean_shutdown", 0, 22, 0, 9),
    ])  # fmt: skip


def test_windows_without_a_leader_begin_with_the_death_or_the_pause_that_caused_them(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    killed = {step["time_ms"]: step["broker"] for step in steps(name, "kill -9 broker")}
    paused = {step["time_ms"]: step["broker"] for step in steps(name, "SIGSTOP broker")}
    begun = {
        (row["from_ms"], row["cause"]): row
        for row in found["leaderless"]
        if not row["cause"].endswith("was stopped")
    }

    for (from_ms, cause), row in begun.items():
        deeds_near = [
            (at, broker)
            for at, broker in (killed | paused).items()
            if abs(at - from_ms) < (NEAR_MS if at in killed else PAUSE_MS)
        ]
        ((at, broker),) = deeds_near
        assert cause == f"broker {broker} {'died' if at in killed else 'was paused'}"
        assert 3_000 < row["noticed_ms"] - row["from_ms"] < SESSION_MS
    assert len({cause for _, cause in begun}) == len(killed) + len(paused)


def test_each_pause_is_found_with_its_length_and_no_other(incident: tuple[str, Findings]) -> None:
    name, found = incident
    stops, wakes = steps(name, "SIGSTOP broker"), steps(name, "SIGCONT broker")

    assert [row["broker"] for row in found["pauses"]] == [step["broker"] for step in stops]
    for row, stop, wake in zip(found["pauses"], stops, wakes, strict=True):
        assert abs(row["from_ms"] - stop["time_ms"]) < PAUSE_MS
        assert abs(row["to_ms"] - wake["time_ms"]) < NEAR_MS


def test_what_operators_ordered_is_found_at_its_time_and_nothing_else(
    incident: tuple[str, Findings],
) -> None:
    name, found = incident
    ordered = {
        "topic created": tools(name, "TopicCommand", "--create"),
        "topic deleted": tools(name, "TopicCommand", "--delete"),
        "partitions added": tools(name, "TopicCommand", "--alter"),
        "preferred election": tools(name, "LeaderElectionCommand", "preferred"),
    }
    acts = found["acts"]

    for act, expected in ordered.items():
        mine = [row for row in acts if row["act"] == act]
        assert len(mine) == len(expected), act
        for row, step in zip(mine, expected, strict=True):
            assert 0 < step["time_ms"] - row["at_ms"] < 1_000
            if "--topic" in step["args"]:
                assert row["topic"] == step["args"][step["args"].index("--topic") + 1]
    moved = [(row["topic"], row["partitions"], row["outcome"]) for row in acts
             if row["act"] == "reassignment"]  # fmt: skip
    assert moved == ([("payments", 2, "completed"), ("payments", 1, "no change")]
                     if steps(name, "reassign") else [])  # fmt: skip
    balanced = {row["file"].split("/")[-2] for row in acts if row["act"] == "leaders balanced"}
    assert balanced  # every 45 s, by a controller that was one: broker 3 slept at 18:09:42
    assert {row["act"] for row in acts} <= {*ordered, "reassignment", "leaders balanced"}


def test_no_rule_is_hit_that_nothing_stands_behind(
    incident_a: Findings, incident_c: Findings
) -> None:
    assert {rule["id"] for rule in incident_a["rules"]} == {
        "C07", "B05", "B09", "P01", "B08", "C03", "P13", "B07",
    }  # fmt: skip
    assert {rule["id"] for rule in incident_c["rules"]} == {
        "P11", "B05", "B09", "P01", "B08", "C03", "P13", "B07",
    }  # fmt: skip
    for rule in incident_a["rules"] + incident_c["rules"]:
        assert rule["evidence"]


def test_the_stored_report_has_the_keys_of_a_new_one(incident_a: Findings) -> None:
    stored = stored_report()

    assert set(stored) == set(incident_a)
    for key in ("tenures", "broker_lives", "leaderless", "rules", "deletions", "reassignments"):
        assert set(stored[key][0]) == set(incident_a[key][0]), key
