"""Rules carried by Spark: rows that a rule needs as events, and what it finds as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.rules.event import Event, in_order

Finding = TypeVar("Finding", bound=tuple[Any, ...])


def gathered(*rows: DataFrame) -> list[Event]:
    """The rows as events, in order, in this process: for what is few in a cluster."""
    found: list[Event] = []
    for each in rows:
        # What has no time has no place among what happened.
        timed = each.where("time_ms IS NOT NULL")
        table = timed.select(*(column.name for column in EVENT_COLUMNS)).toArrow()
        columns = table.to_pydict(maps_as_pydicts="strict")
        found += map(Event._make, zip(*columns.values(), strict=True))
    return in_order(found)


def as_rows(spark: SparkSession, found: Iterable[tuple[Any, ...]], schema: str) -> DataFrame:
    """Findings as a table; ``schema`` in Spark's DDL, in the order of their fields."""
    return spark.createDataFrame(list(found), schema)


def findings(rows: DataFrame, kind: type[Finding]) -> list[Finding]:
    """The few rows of an answer as what its rule had found, in this process."""
    return [kind(**row.asDict(recursive=True)) for row in rows.collect()]
