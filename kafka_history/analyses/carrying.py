"""Rules carried by Spark: rows that a rule needs as events, and what it finds as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.rules.event import Event, in_order

from .columns import TOPIC_PARTITION

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


def in_each(
    rule: Callable[..., Iterable[tuple[Any, ...]]],
    schema: str,
    *needed: tuple[type[Any], DataFrame],
    keys: Sequence[str] = TOPIC_PARTITION,
) -> DataFrame:
    """What ``rule`` finds in each partition, where its rows are: for what may be millions.

    ``needed``: its arguments, lists of the rows of one partition in no order, each of a type (a
    field that the table lacks has its default).  ``schema``: see :func:`as_rows`.  ``keys``: of
    what rows of one list have in common, if it is no partition; never null.
    """

    def found(*groups: list[Row]) -> list[tuple[Any, ...]]:
        rows = [
            [make(**row.asDict()) for row in group]
            for make, group in zip(types, groups, strict=True)
        ]
        return list(rule(*rows))

    types = [make for make, _ in needed]
    packed = [
        table.dropna(subset=list(keys)).select(
            *keys,
            F.struct(*(name for name in make._fields if name in table.columns)).alias(f"rows_{at}"),
        )
        for at, (make, table) in enumerate(needed)
    ]
    grouped = (
        reduce(partial(DataFrame.unionByName, allowMissingColumns=True), packed)
        .groupBy(*keys)
        .agg(*(F.collect_list(f"rows_{at}").alias(f"rows_{at}") for at in range(len(needed))))
    )
    # Spark's functions of Arrow want pandas, which nothing else here needs.
    of_group = F.udf(found, f"array<struct<{schema}>>", useArrow=False)
    return grouped.select(F.inline(of_group(*grouped.columns[len(keys) :])))


def findings(rows: DataFrame, kind: type[Finding]) -> list[Finding]:
    """The few rows of an answer as what its rule had found, in this process."""
    return [kind(**row.asDict(recursive=True)) for row in rows.collect()]
