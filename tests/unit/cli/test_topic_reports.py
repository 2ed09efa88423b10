"""Partitions that need a look, and what a deletion of records comes to."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest

reports: Any = import_module("zkcontroller_cli.values.topic_reports")
records: Any = import_module("zkcontroller_cli.topics.records")
moves: Any = import_module("zkcontroller_cli.values.moves")
errors: Any = import_module("zkcontroller_cli.console.errors")


def partition(number: int, leader: int | None, isr: list[int], **more: Any) -> dict[str, Any]:
    return {
        "partition": number,
        "leader": leader,
        "leader_epoch": 1,
        "isr": isr,
        "replicas": [1, 2, 3],
        "offline_replicas": [],
        "adding_replicas": [],
        "removing_replicas": [],
        **more,
    }


def numbers(report: str, *partitions: dict[str, Any], min_isr: int | None = 2) -> list[int]:
    """The partitions that are in the report, where brokers 1 and 2 live."""
    known = {} if min_isr is None else {"orders": min_isr}
    topics = [{"topic": "orders", "partitions": list(partitions)}]
    rows = reports.partition_rows(topics, {1, 2}, known, [reports.TopicReport(report)])
    return [row["partition"] for row in rows]


def test_a_partition_is_under_replicated_with_fewer_in_sync_than_it_had_before_its_move() -> None:
    full, lacking = partition(0, 1, [1, 2, 3]), partition(1, 1, [1, 2])
    moving = partition(2, 1, [1, 2], adding_replicas=[3])
    not_told = partition(3, 1, [1, 2], adding_replicas=None)

    assert numbers("is_under_replicated", full, lacking, moving, not_told) == [1, 3]


def test_a_partition_is_unavailable_without_a_leader_that_lives() -> None:
    led, dead = partition(0, 2, [2]), partition(1, 3, [3])
    without, unreadable = partition(2, -1, [3]), partition(3, None, [])

    assert numbers("is_unavailable", led, dead, without, unreadable) == [1, 2, 3]


def test_the_minimum_in_sync_is_missed_or_just_reached() -> None:
    over, at = partition(0, 1, [1, 2, 3]), partition(1, 1, [1, 2])
    under, without = partition(2, 1, [1]), partition(3, -1, [1, 2, 3])

    assert numbers("is_under_min_isr", over, at, under, without) == [2, 3]
    assert numbers("is_at_min_isr", over, at, under, without) == [1]
    # Where it is not known, nothing is said of it.
    assert numbers("is_at_min_isr", over, at, under, without, min_isr=None) == []
    assert numbers("is_under_min_isr", over, at, under, without, min_isr=None) == [3]


def test_a_row_does_not_say_no_where_the_minimum_is_not_known() -> None:
    topics = [{"topic": "orders", "partitions": [partition(0, 1, [1, 2]), partition(1, -1, [1])]}]

    led, without = reports.partition_rows(
        topics, {1, 2}, {}, [reports.TopicReport.UNDER_REPLICATED]
    )

    assert (led["is_under_min_isr"], led["is_at_min_isr"]) == (None, None)
    assert (without["is_under_min_isr"], without["is_at_min_isr"]) == (True, None)


ORDERS_0, ORDERS_1 = moves.NamedPartition("orders", 0), moves.NamedPartition("orders", 1)


def planned(offset: int, log: object = (10, 50), policy: str | None = None) -> Any:
    policies = {} if policy is None else {"orders": policy}
    [plan] = records.plan_records({ORDERS_0: offset}, {ORDERS_0: log}, policies)
    return plan


def test_records_are_deleted_up_to_the_offset_or_to_the_logs_end() -> None:
    assert planned(20)[4:] == (20, 10, None)
    assert planned(50)[4:] == (50, 40, None)
    assert planned(-1)[4:] == (50, 40, None)


def test_a_log_that_begins_there_already_loses_nothing() -> None:
    assert planned(10)[4:] == (10, 0, "it begins at 10 already")
    assert planned(3)[4:] == (10, 0, "it begins at 10 already")


def test_what_cannot_be_deleted_has_no_new_start() -> None:
    assert planned(51)[4:] == (None, None, "51 is behind the log's end 50")
    assert planned(20, "LEADER_NOT_AVAILABLE")[2:] == (
        *(None, None, None, None),
        "LEADER_NOT_AVAILABLE",
    )
    refused = planned(20, policy="compact")
    assert refused.new_earliest_offset is None
    assert "cleanup.policy=compact keeps" in refused.reason
    assert planned(20, policy="compact,delete").record_count == 10


def test_a_target_names_a_partition_and_an_offset() -> None:
    assert records.parse_target("orders-0:42") == (ORDERS_0, 42)
    assert records.parse_target("orders-0:-1") == (ORDERS_0, -1)
    for text in ("orders-0", "orders:1", "orders-0:x", "orders-0:-2", f"orders-0:{1 << 63}"):
        with pytest.raises(errors.BadUsage):
            records.parse_target(text)


def test_a_file_of_kafkas_tool_is_read_and_another_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    entry = {"topic": "orders", "partition": 1, "offset": 7}

    file.write_bytes(orjson.dumps({"partitions": [entry]}))
    read = records.read_record_offsets(file)

    assert read == [(ORDERS_1, 7)]
    for content in (
        b"no json",
        b"[]",
        b'{"version":2,"partitions":[]}',
        b'{"version":1}',
        b'{"partitions":[{"topic":"orders","partition":1}]}',
        b'{"partitions":[{"topic":"orders","partition":"1","offset":1}]}',
        b'{"partitions":[{"topic":"orders","partition":-1,"offset":1}]}',
        b'{"partitions":[{"topic":"orders","partition":1,"offset":-2}]}',
        b'{"partitions":[1]}',
    ):
        file.write_bytes(content)
        with pytest.raises(errors.BadUsage):
            records.read_record_offsets(file)
    with pytest.raises(errors.BadUsage, match="cannot read"):
        records.read_record_offsets(tmp_path / "none")
