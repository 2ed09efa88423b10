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


def frame(spark: SparkSession, *rows: Row | list[Row]) -> DataFrame:
    """The rows as a table of the schema."""
    flat: list[Row] = []
    for entry in rows:
        flat.extend(entry if isinstance(entry, list) else [entry])
    names = [column.name for column in EVENT_COLUMNS]
    return spark.createDataFrame(
        [tuple(entry.get(name) for name in names) for entry in flat], ddl(EVENT_COLUMNS)
    )


def answers(found: DataFrame | Sequence[Any], *columns: str) -> list[Any]:
    """The rows of a small answer; single values where one column was asked for."""
    entries = found.collect() if isinstance(found, DataFrame) else found
    rows = [tuple(getattr(entry, name) for name in columns) for entry in entries]
    return [entry[0] for entry in rows] if len(columns) == 1 else rows


def comparable(table: DataFrame) -> DataFrame:
    """The table with its maps as sorted arrays: Spark compares no maps."""
    return table.withColumn("values", F.expr("array_sort(map_entries(`values`))"))


def assert_same_rows(one: DataFrame, other: DataFrame) -> None:
    """Both hold the same rows, as often."""
    assert one.count() == other.count()
    assert comparable(one).exceptAll(comparable(other)).take(3) == []
