"""Runs rules in Spark: turns rows into the events a rule needs, and its findings into rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's own documentation calls it so
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.window import Window

from kafka_history.event_schema import EVENT_COLUMNS, columns_of, ddl
from kafka_history.readers.arrow_columns import table_of, values_of
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
    """The rows as events, in order, collected in this process; for few rows only.

    A field whose column the rows lack has its default.
    """
    # Rows without a time cannot be put in order.
    timed = rows.where("time_ms IS NOT NULL")
    names = [name for name in Event._fields if name in rows.columns]
    return in_order(values_of(Event, timed.select(*names).toArrow()))


def as_rows(
    spark: SparkSession, found: Iterable[tuple[Any, ...]], kind: type[Finding]
) -> DataFrame:
    """Findings of one kind, or events, as a table."""
    columns = EVENT_COLUMNS if kind is Event else columns_of(kind)
    return spark.createDataFrame(table_of(found, columns))


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

    def found(*groups: pa.Array) -> pa.Array:
        rows = [
            values_of(make, pa.RecordBatch.from_struct_array(each.flatten()))
            for make, each in zip(types, groups, strict=True)
        ]
        ends = [accumulate(pc.list_value_length(each).to_pylist(), initial=0) for each in groups]
        results: list[tuple[Any, ...]] = []
        offsets = [0]
        for spans in zip(*map(pairwise, ends), strict=True):
            its = (all_rows[start:end] for all_rows, (start, end) in zip(rows, spans, strict=True))
            results.extend(rule(*its))
            offsets.append(len(results))
        structs = table_of(results, columns).to_struct_array().combine_chunks()
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)

    types, columns = [make for make, _ in needed], columns_of(kind)
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
    of_group = arrow_udf(  # type: ignore[call-overload]  # the hints of found say the rest
        found, f"array<struct<{ddl(columns)}>>"
    )
    return grouped.select(F.inline(of_group(*grouped.columns[len(keys) :])))


def listed(rows: DataFrame, kind: type[Finding]) -> list[Finding]:
    """The rows as findings of type ``kind``, collected in this process."""
    names = [column.name for column in columns_of(kind)]
    return values_of(kind, rows.select(*names).toArrow())
