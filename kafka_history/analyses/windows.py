"""Two windows of time compared: what happened more often, and what less."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812


def happenings(
    events: DataFrame, states: DataFrame, windows: DataFrame, held: DataFrame, gone: DataFrame
) -> DataFrame:
    """Everything countable: ``metric``, ``at_ms``, ``amount``."""

    def counted(rows: DataFrame, metric: str, at: str, amount: str = "1") -> DataFrame:
        return rows.select(
            F.lit(metric).alias("metric"),
            F.col(at).alias("at_ms"),
            F.expr(amount).cast("bigint").alias("amount"),
        )

    living = states.where("NOT is_deleted AND previous_leader IS NOT NULL")
    problems = events.where(F.col("level").isin("WARN", "ERROR", "FATAL")).select(
        F.concat(
            F.col("level"),
            F.lit(" "),
            F.coalesce("kind", F.lit("(unknown line)")),
            F.coalesce(F.concat(F.lit(" "), F.col("exception_class")), F.lit("")),
        ).alias("metric"),
        F.col("time_ms").alias("at_ms"),
        F.lit(1).cast("bigint").alias("amount"),
    )
    parts = (
        counted(held, "controller elections", "from_ms"),
        counted(gone.where("how <> 'log_dir_failed'"), "brokers gone", "at_ms"),
        counted(living.where("leader <> previous_leader"), "leader changes", "time_ms"),
        counted(living, "ISR shrinks", "time_ms", "size(array_except(previous_isr, isr))"),
        counted(living, "ISR expansions", "time_ms", "size(array_except(isr, previous_isr))"),
        counted(windows, "leaderless windows", "from_ms"),
        counted(
            windows.where("to_ms IS NOT NULL"),
            "leaderless milliseconds",
            "from_ms",
            "to_ms - from_ms",
        ),
        counted(events, "records", "time_ms"),
        counted(events.where("shape IS NULL"), "unknown records", "time_ms"),
        problems,
    )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def difference(counted: DataFrame, first: tuple[int, int], second: tuple[int, int]) -> DataFrame:
    """Compares the sums within two windows of time.

    ``metric``, ``first``, ``second``, ``change``: sums within two windows, each from (inclusive)
    and to (exclusive) in ms; metrics that neither window has are left out.
    """

    def within(window: tuple[int, int]) -> Column:
        inside = (F.col("at_ms") >= window[0]) & (F.col("at_ms") < window[1])
        return F.sum(F.when(inside, F.col("amount")).otherwise(0))

    return (
        counted.groupBy("metric")
        .agg(within(first).alias("first"), within(second).alias("second"))
        .where("first <> 0 OR second <> 0")
        .withColumn("change", F.col("second") - F.col("first"))
    )
