"""Runs rules in Spark: turns rows into the events a rule needs, and its findings into rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's own documentation calls it so
from pyspark.sql.window import Window

from kafka_history.event_schema import EVENT_COLUMNS, columns_of, ddl
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.history import TOPIC_PARTITION

Finding = TypeVar("Finding", bound=tuple[Any, ...])


def of_kind(kinds: Collection[str]) -> Column:
    """A condition: the row is of one of these kinds."""
    return F.col("kind").isin(*kinds)


def says(*texts: str) -> Column:
    """A condition: the row's message contains at least one of these texts."""
    return reduce(Column.__or__, (F.col("text").contains(text) for text in texts))


def first_of_each(rows: DataFrame, keys: Sequence[str], *order: Column | str) -> DataFrame:
    """One row for each key: the first in the order given."""
    window = Window.partitionBy(*keys).orderBy(*order)
    return rows.withColumn("_n", F.row_number().over(window)).where("_n = 1").drop("_n")


def gathered(rows: DataFrame) -> list[Event]:
    """The rows as events, in order, collected in this process; for few rows only."""
    # Rows without a time cannot be put in order.
    timed = rows.where("time_ms IS NOT NULL")
    table = timed.select(*(column.name for column in EVENT_COLUMNS)).toArrow()
    columns = table.to_pydict(maps_as_pydicts="strict")
    return in_order(map(Event._make, zip(*columns.values(), strict=True)))


def as_rows(
    spark: SparkSession, found: Iterable[tuple[Any, ...]], kind: type[Finding]
) -> DataFrame:
    """Findings of one kind as a table."""
    return spark.createDataFrame(list(found), ddl(columns_of(kind)))


def in_each(
    rule: Callable[..., Iterable[tuple[Any, ...]]],
    kind: type[Finding],
    *needed: tuple[type[Any], DataFrame],
    keys: Sequence[str] = TOPIC_PARTITION,
) -> DataFrame:
    """The findings of ``rule`` for each partition, computed in Spark's workers.

    ``kind``: the type of the findings.  ``needed``: for each argument of the rule, the type of its
    rows and their table; a field that the table lacks has its default.  The rule gets lists of one
    partition's rows, in no order.  ``keys``: the columns by which rows are grouped, instead of the
    partition; rows with a null key are left out.
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
    # Spark's Arrow functions need pandas, which nothing else here needs.
    of_group = F.udf(found, f"array<struct<{ddl(columns_of(kind))}>>", useArrow=False)
    return grouped.select(F.inline(of_group(*grouped.columns[len(keys) :])))


def listed(rows: DataFrame, kind: type[Finding]) -> list[Finding]:
    """The rows as findings of type ``kind``, collected in this process."""
    names = [column.name for column in columns_of(kind)]
    return [kind(**row.asDict(recursive=True)) for row in rows.select(*names).collect()]
