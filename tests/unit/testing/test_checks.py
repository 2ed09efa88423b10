"""What must hold of state changes, and the page of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from zkcontroller_testing.checks import epoch_faults, page, read_state_changes


def elected(broker: int, epoch: int) -> dict[str, Any]:
    return {"kind": "controller_elected", "broker_id": broker, "controller_epoch": epoch}


def started(role: str, broker: int, epoch: int, topic: str = "orders") -> dict[str, Any]:
    return {
        "kind": f"{role}_started",
        "broker_id": broker,
        "topic": topic,
        "partition": 0,
        "leader_epoch": epoch,
    }


def test_what_rises_is_right() -> None:
    rows = [
        elected(1, 1),
        started("leader", 1, 0),
        started("follower", 2, 0),
        elected(2, 2),
        started("leader", 2, 1),
        started("follower", 1, 1),
        started("leader", 2, 1),
    ]

    assert epoch_faults(rows) == []


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([elected(1, 1), elected(2, 1)], "brokers 1 and 2 have controller epoch 1"),
        ([elected(1, 3), elected(1, 2)], "broker 1 is controller of epoch 2 after 3"),
        (
            [started("follower", 1, 4), started("leader", 1, 3)],
            "broker 1: orders-0 has epoch 3 after 4",
        ),
        (
            [started("leader", 1, 4), started("leader", 2, 4)],
            "brokers 1 and 2 lead orders-0 in leader epoch 4",
        ),
    ],
)
def test_what_falls_or_is_held_twice_is_a_fault(rows: list[dict[str, Any]], fault: str) -> None:
    assert epoch_faults(rows) == [fault]


def test_a_topic_that_was_deleted_begins_anew() -> None:
    deleted = {
        "kind": "partition_state_changed",
        "broker_id": 3,
        "topic": "orders",
        "to_state": "NonExistentPartition",
    }

    rows = [started("leader", 1, 7), started("leader", 1, 7, "others"), deleted]

    assert epoch_faults([*rows, started("leader", 2, 0)]) == []
    assert epoch_faults([*rows, started("leader", 1, 0, "others")]) != []


def test_a_topic_with_another_id_is_another_topic() -> None:
    rows = [
        {**started("leader", 1, 3), "topic_id": "one"},
        {**started("leader", 2, 0), "topic_id": "other"},
        {**started("follower", 1, 0), "topic_id": "other"},
    ]

    assert epoch_faults(rows) == []
    assert epoch_faults([*rows, {**started("leader", 1, 0), "topic_id": "other"}]) != []


def test_records_of_all_brokers_come_in_order_of_time(tmp_path: Path) -> None:
    def row(at_ms: int, broker: int) -> bytes:
        fields = {"time_ms": at_ms, "kind": "k", "component": "broker", "broker_id": broker}
        return orjson.dumps(fields) + b"\n"

    one, two = tmp_path / "1", tmp_path / "2"
    one.mkdir()
    two.mkdir()
    (one / "state-changes.jsonl.2026-01-01-10").write_bytes(row(10, 1))
    (one / "state-changes.jsonl").write_bytes(row(30, 1) + b'{"time_ms": 40, "ki')
    (two / "state-changes.jsonl").write_bytes(row(20, 2))

    rows = read_state_changes({1: one, 2: two, 3: tmp_path / "3"})

    assert [(each["time_ms"], each["broker_id"]) for each in rows] == [(10, 1), (20, 2), (30, 1)]


def test_the_page_has_what_the_test_did_between_what_brokers_wrote() -> None:
    rows = [
        {"time_ms": 1000, "kind": "a", "component": "controller", "broker_id": 1, "isr": [1, 2]},
        {"time_ms": 3000, "kind": "b", "component": "broker", "broker_id": 2, "error": "NONE"},
    ]

    lines = page(rows, [(2.0, "kill 1")]).splitlines()

    assert [line.split() for line in lines] == [
        ["00:00:01.000", "controller", "1", "a", "isr=1,2"],
        ["00:00:02.000", "----------", "test", "kill", "1"],
        ["00:00:03.000", "broker", "2", "b", "error=NONE"],
    ]
