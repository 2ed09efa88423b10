"""Rows made by hand: what a reader would make of a line, without the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from kafka_history.event_schema import EVENT_COLUMNS, ddl
from tests.support.event_rows import Row, row


def elected(at_ms: int, broker: int, epoch: int) -> Row:
    """A broker has become controller."""
    return row("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)


def online(at_ms: int, broker: int, epoch: int, tp: tuple[str, int], leader: int,
           leader_epoch: int, isr: Sequence[int], version: int, *, recovering: bool = False,
           from_state: str = "OfflinePartition") -> Row:  # fmt: skip
    """A controller has written a leader."""
    return row(
        "partition-online", at_ms, broker, controller_epoch=epoch, topic=tp[0], partition=tp[1],
        leader=leader, leader_epoch=leader_epoch, isr=list(isr), zk_version=version,
        leader_recovery_state=int(recovering), from_state=from_state, to_state="OnlinePartition",
    )  # fmt: skip


def created(
    at_ms: int, broker: int, epoch: int, tp: tuple[str, int], isr: Sequence[int]
) -> list[Row]:
    """A controller has created a partition; its first replica leads."""
    new = row(
        "partition-new", at_ms, broker, controller_epoch=epoch, topic=tp[0], partition=tp[1],
        replicas=list(isr), from_state="NonExistentPartition", to_state="NewPartition",
    )  # fmt: skip
    return [new, online(at_ms + 5, broker, epoch, tp, isr[0], 0, isr, 0, from_state="NewPartition")]


def shrunk(at_ms: int, broker: int, epoch: int, tp: tuple[str, int], leader: int,
           leader_epoch: int, isr: Sequence[int], version: int, removed: int) -> Row:  # fmt: skip
    """A controller has taken a replica out of an ISR."""
    return row(
        "partition-shrunk-offline", at_ms, broker, controller_epoch=epoch, topic=tp[0],
        partition=tp[1], leader=leader, leader_epoch=leader_epoch, isr=list(isr),
        zk_version=version, replica=removed, state_controller_epoch=epoch, leader_recovery_state=0,
    )  # fmt: skip


def frame(spark: SparkSession, *rows: Row | list[Row]) -> DataFrame:
    """The rows as a table of the schema."""
    flat: list[Row] = []
    for entry in rows:
        flat.extend(entry if isinstance(entry, list) else [entry])
    names = [column.name for column in EVENT_COLUMNS]
    return spark.createDataFrame(
        [tuple(entry.get(name) for name in names) for entry in flat], ddl(EVENT_COLUMNS)
    )


def answers(table: DataFrame, *columns: str) -> list[Any]:
    """The rows of a small answer; single values where one column was asked for."""
    rows = [tuple(entry) for entry in table.select(*columns).collect()]
    return [entry[0] for entry in rows] if len(columns) == 1 else rows


def comparable(table: DataFrame) -> DataFrame:
    """The table with its maps as sorted arrays: Spark compares no maps."""
    return table.withColumn("values", F.expr("array_sort(map_entries(`values`))"))


def assert_same_rows(one: DataFrame, other: DataFrame) -> None:
    """Both hold the same rows, as often."""
    assert one.count() == other.count()
    assert comparable(one).exceptAll(comparable(other)).take(3) == []
