"""Log directories as rows: sizes added up, moves between directories, and strays."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

rows: Any = import_module("zkcontroller_cli.moving.log_dir_rows")
wire: Any = import_module("zkcontroller_cli.wire.log_dirs")
NamedPartition: Any = import_module("zkcontroller_cli.values.moves").NamedPartition


def log_dir(broker: int, path: str, *replicas: tuple[Any, ...], error: str | None = None) -> Any:
    """Each replica as (topic, partition, bytes), and True if it is on its way there."""
    found = tuple(
        wire.LogDirReplica(topic, partition, size, 0, bool(future))
        for topic, partition, size, *future in replicas
    )
    space = (None, None) if error else (1000, 500)
    return wire.LogDirReading(broker, path, error, *space, found)


READ = [
    log_dir(1, "/a", ("orders", 0, 10), ("orders", 1, 20), ("bills", 0, 5)),
    log_dir(1, "/b", ("orders", 0, 4, True)),
    log_dir(2, "/a", ("orders", 0, 11)),
    log_dir(2, "/b", error="KAFKA_STORAGE_ERROR"),
]


@pytest.mark.parametrize("by", ["broker", "log-dir", "topic", "partition"])
def test_every_row_has_the_keys_of_its_kind(by: str) -> None:
    found = rows.size_rows(READ, rows.SizesBy(by))

    assert found
    assert {tuple(row) for row in found} == {rows.KEYS[rows.SizesBy(by)]}


def test_sizes_add_up_to_the_same_whatever_they_are_added_for() -> None:
    def total(by: str) -> int:
        return sum(row["size_bytes"] or 0 for row in rows.size_rows(READ, rows.SizesBy(by)))

    assert {total(by) for by in ("broker", "log-dir", "topic", "partition")} == {50}
    [bills, orders] = rows.size_rows(READ, rows.SizesBy.TOPIC)
    assert (bills["topic"], bills["partition_count"], bills["replica_count"]) == ("bills", 1, 1)
    assert (orders["partition_count"], orders["replica_count"]) == (2, 3)
    assert orders["largest_replica_bytes"] == 20
    assert [row["failed_log_dir_count"] for row in rows.size_rows(READ, rows.SizesBy.BROKER)] == [
        0,
        1,
    ]


def test_a_filter_keeps_the_topics_that_are_named() -> None:
    only = rows.of_topics(READ, ["bills"])

    assert [row["size_bytes"] for row in rows.size_rows(only, rows.SizesBy.LOG_DIR)] == [
        *(5, 0, 0, None),
    ]
    assert rows.of_topics(READ, []) == READ


def test_a_topic_that_no_directory_has_is_named() -> None:
    assert rows.topics_without_replicas(READ, ["bills", "ordres"]) == ["ordres"]
    assert rows.topics_without_replicas(READ, []) == []


def test_a_future_replica_shows_what_is_copied_and_how_fast() -> None:
    then = [log_dir(1, "/a", ("orders", 0, 10)), log_dir(1, "/b", ("orders", 0, 2, True))]

    [alone] = rows.directory_moves(READ)
    [rated] = rows.directory_moves(READ, then, seconds=2.0)
    [stuck] = rows.directory_moves(READ, READ, seconds=2.0)

    assert alone[:7] == (1, "orders", 0, "/a", "/b", 4, 10)
    assert (alone.bytes_per_s, alone.remaining_ms) == (None, None)
    assert (rated.bytes_per_s, rated.remaining_ms) == (1.0, 6000)
    assert (stuck.bytes_per_s, stuck.remaining_ms) == (0.0, None)


def test_a_stray_is_in_both_readings_and_not_assigned() -> None:
    first = [
        log_dir(1, "/a", ("orders", 0, 1), ("orders", 1, 2), ("gone", 0, 3), ("secret", 0, 4)),
        log_dir(1, "/b", ("orders", 7, 5), ("deleted", 0, 6)),
    ]
    second = [
        log_dir(1, "/a", ("orders", 0, 1), ("orders", 1, 2), ("gone", 0, 3), ("secret", 0, 4)),
        log_dir(1, "/b", ("orders", 7, 5), ("new", 0, 0)),
    ]
    assigned = {NamedPartition("orders", 0): (1, 2), NamedPartition("orders", 1): (2, 3)}
    unknown = {"gone": "there is no such topic", "secret": "not known: no right"}

    found = rows.stray_logs(first, assigned, unknown, second)

    assert [(e.topic, e.partition, e.size_bytes, e.reason) for e in found] == [
        ("orders", 1, 2, "assigned to 2,3"),
        ("gone", 0, 3, "there is no such topic"),
        ("secret", 0, 4, "not known: no right"),
        ("orders", 7, 5, "there is no such partition"),
    ]
