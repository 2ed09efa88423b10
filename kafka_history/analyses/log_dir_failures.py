"""Log directories that failed: when, where, why, and which partitions went offline with them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import names, of_kind

APART_MS: Final = 60_000
"""Lines about a directory further apart than this are about two failures."""
NEAR_MS: Final = 10_000
"""The error that made a directory fail is this near to the failure."""


def log_dir_failures(events: DataFrame) -> DataFrame:
    """One row for each failure of a directory.

    ``broker``, ``at_ms``, ``dir``, ``reason`` (the error's own words; null: not known),
    ``partitions`` (array of names), ``file``, ``line``.
    """
    named = F.regexp_extract(
        "text", r"(?:in dir|log dir(?:ectory)?|because dir) (\S*?[^\s.])\.?(?:\s|$)", 1
    )
    listed = F.regexp_extract("text", r"(?i)partitions (\S+?) (?:and|because|are offline)", 1)
    kinds = ("logdir-stopping", "logdir-halt", "logdir-partitions")
    said = (
        events.where(of_kind(*kinds) & F.col("broker_id").isNotNull())
        .select(
            F.col("broker_id").alias("broker"),
            F.col("time_ms").alias("at_ms"),
            named.alias("dir"),
            names(F.when(of_kind("logdir-partitions"), listed)).alias("listed"),
            "file",
            "line",
        )
        .where("dir <> ''")
    )
    order = Window.partitionBy("broker", "dir").orderBy("at_ms", "file", "line")
    is_new = F.col("at_ms") - F.coalesce(F.lag("at_ms").over(order), F.lit(0)) > APART_MS
    failures = (
        said.withColumn("number", F.sum(is_new.cast("int")).over(order))
        .groupBy("broker", "dir", "number")
        .agg(
            F.min(F.struct("at_ms", "file", "line")).alias("e"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("listed")))).alias("partitions"),
        )
    )
    causes = events.where(of_kind("logdir-failure-cause")).select(
        F.col("broker_id").alias("of"),
        F.col("time_ms").alias("cause_ms"),
        F.coalesce("exception_message", F.substring("text", 1, 300)).alias("reason"),
        F.col("file").alias("cause_file"),
        F.col("line").alias("cause_line"),
    )
    is_its = (F.col("of") == F.col("broker")) & F.col("cause_ms").between(
        F.col("e.at_ms") - NEAR_MS, F.col("e.at_ms") + NEAR_MS
    )
    met = failures.join(causes, is_its, "left").groupBy(*failures.columns)
    return met.agg(
        F.min(F.struct("cause_ms", "reason", "cause_file", "cause_line")).alias("c")
    ).select(
        "broker",
        F.least("e.at_ms", "c.cause_ms").alias("at_ms"),
        "dir",
        F.col("c.reason").alias("reason"),
        "partitions",
        F.coalesce("c.cause_file", "e.file").alias("file"),
        F.coalesce("c.cause_line", "e.line").alias("line"),
    )
