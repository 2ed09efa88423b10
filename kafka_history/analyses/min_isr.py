"""Partitions with fewer in-sync replicas than ``min.insync.replicas``: writes with acks=all fail.

How many a topic needs is known where the logs say it: when the topic was created or its
configuration changed, when its log was created, or when a broker refused a write.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, of_kind, value
from .partition_states import KEY

_SETTING: Final = r"min\.insync\.replicas(?: ->|=) ?(\d+)"
_REFUSED: Final = (
    r"current ISR \w*\(?([\d, ]*)\)? is insufficient to satisfy the min\.isr requirement of (\d+) "
    r"for partition (.+)-(\d+)"
)


def under_min_isr(events: DataFrame, states: DataFrame) -> DataFrame:
    """Finds the times in which partitions had a leader, but too few replicas in sync.

    One row for each: ``topic``, ``partition``, ``from_ms``, ``to_ms`` (null: until the end of the
    logs), ``isr``, ``min_isr``, ``refused`` (lines about writes that were refused), ``file``,
    ``line``.
    """
    order = Window.partitionBy(*KEY).orderBy("number")
    needed = _needed(events)
    steps = states.select(
        *KEY,
        "number",
        F.col("time_ms").alias("at_ms"),
        F.lead("time_ms").over(order).alias("next_ms"),
        "leader",
        "isr",
        "is_deleted",
        "file",
        "line",
    ).join(F.broadcast(needed), F.col("topic") == F.col("of_topic"))
    # The setting that holds is the last one before the state ends.
    until = F.coalesce("next_ms", F.lit(2**62))
    known = (
        steps.groupBy(*KEY, "number", "at_ms", "next_ms", "leader", "isr", "is_deleted", "file",
                      "line")
        .agg(
            F.max_by("min_isr", F.when(F.col("set_ms") < until, F.col("set_ms"))).alias("min_isr")
        )
    )  # fmt: skip
    is_under = ~F.col("is_deleted") & (F.col("leader") >= 0) & (F.size("isr") < F.col("min_isr"))
    marked = known.withColumn("is_under", F.coalesce(is_under, F.lit(False)))
    is_change = F.col("is_under") != F.coalesce(F.lag("is_under").over(order), F.lit(False))
    runs = marked.withColumn("run", F.sum(is_change.cast("int")).over(order)).where("is_under")
    first = F.struct("number")
    windows = runs.groupBy(*KEY, "run").agg(
        F.min("at_ms").alias("from_ms"),
        F.max(F.coalesce("next_ms", F.lit(2**62))).alias("ends_ms"),
        F.max_by("isr", first).alias("isr"),
        F.max_by("min_isr", first).alias("min_isr"),
        F.min_by("file", first).alias("file"),
        F.min_by("line", first).alias("line"),
    )
    refusals = _refusals(events).select(
        F.col("topic").alias("r_topic"), F.col("partition").alias("r_partition"), "refused_ms"
    )
    is_its = (
        (F.col("r_topic") == F.col("topic"))
        & (F.col("r_partition") == F.col("partition"))
        & F.col("refused_ms").between(F.col("from_ms"), F.col("ends_ms"))
    )
    return (
        windows.join(F.broadcast(refusals), is_its, "left")
        .groupBy(*windows.columns)
        .agg(F.count("refused_ms").alias("refused"))
        .select(
            *TOPIC_PARTITION,
            "from_ms",
            F.when(F.col("ends_ms") < 2**62, F.col("ends_ms")).alias("to_ms"),
            "isr",
            "min_isr",
            "refused",
            "file",
            "line",
        )
    )


def _needed(events: DataFrame) -> DataFrame:
    """What topics need: ``of_topic``, ``min_isr``, ``set_ms``."""
    by_path = F.regexp_extract(value("path"), r"^topics/(.+)$", 1)
    topic = F.coalesce(
        "topic",
        F.when(by_path != "", by_path),
        F.when(value("entity_type") == "topics", value("entity")),
    )
    setting = F.regexp_extract("text", _SETTING, 1).try_cast("int")
    told = events.where(
        of_kind("admin-create-topic", "config-applied", "config-updated", "log-created")
    ).select(topic.alias("of_topic"), setting.alias("min_isr"), F.col("time_ms").alias("set_ms"))
    refused = _refusals(events).select(
        F.col("topic").alias("of_topic"), "min_isr", F.col("refused_ms").alias("set_ms")
    )
    # A refusal proves what held before it, too.
    earliest = refused.withColumn("set_ms", F.lit(0).cast("bigint"))
    whole = told.unionByName(refused).unionByName(earliest)
    return whole.where("of_topic IS NOT NULL AND min_isr IS NOT NULL").distinct()


def _refusals(events: DataFrame) -> DataFrame:
    """Writes that were refused: ``topic``, ``partition``, ``min_isr``, ``refused_ms``."""
    words = F.concat_ws(" ", "text", "exception_message")
    said = events.where(of_kind("replica-manager-error") & words.contains("min.isr requirement"))
    return said.select(
        F.regexp_extract(words, _REFUSED, 3).alias("topic"),
        F.regexp_extract(words, _REFUSED, 4).try_cast("int").alias("partition"),
        F.regexp_extract(words, _REFUSED, 2).try_cast("int").alias("min_isr"),
        F.col("time_ms").alias("refused_ms"),
    ).where("topic <> ''")
