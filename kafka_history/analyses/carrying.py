"""Rules carried by Spark: rows that a rule needs as events, and what it finds as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.rules.event import Event, in_order


def gathered(*rows: DataFrame) -> list[Event]:
    """The rows as events, in order, in this process: for what is few in a cluster."""
    found: list[Event] = []
    for each in rows:
        # What has no time has no place among what happened.
        timed = each.where("time_ms IS NOT NULL")
        columns = timed.select(*(column.name for column in EVENT_COLUMNS)).toArrow().to_pydict()
        found += map(Event._make, zip(*columns.values(), strict=True))
    return in_order(found)


def as_rows(spark: SparkSession, found: Iterable[tuple[Any, ...]], schema: str) -> DataFrame:
    """Findings as a table; ``schema`` in Spark's DDL, in the order of their fields."""
    return spark.createDataFrame(list(found), schema)
