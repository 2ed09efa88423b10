"""Changes of in-sync replicas: who left, who came back, storms, and the follower they share."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION

STORM_STEP_MS: Final = 60_000
STORM_CHANGES: Final = 20
"""As many shrinks asked for by leaders within a minute are a storm."""
COMMON_SHARE: Final = 0.6
"""A follower is common to a storm if it is in at least this share of its shrinks."""
BY_CONTROLLER: Final = ("partition-shrunk-offline", "ctl-isr-new")


def isr_changes(states: DataFrame) -> DataFrame:
    """Finds each broker that left or joined an ISR.

    One row for each broker that left or joined an ISR: ``topic``, ``partition``, ``at_ms``,
    ``change`` (``shrink`` or ``expand``), ``broker``, ``leader``, ``by`` (``controller``: it took
    a dead or stopping replica out, or elected a leader; ``leader``: a follower fell behind or
    caught up), ``file``, ``line``. ``states``: the states of partitions.
    """
    met = states.where("NOT is_deleted AND previous_isr IS NOT NULL AND isr IS NOT NULL")
    # The same write raises the leader epoch only if the controller decided it.
    is_new_epoch = F.col("is_epoch_told") & (F.col("leader_epoch") != F.col("previous_epoch"))
    by_controller = F.col("kind").isin(*BY_CONTROLLER) | F.coalesce(is_new_epoch, F.lit(False))
    both = F.array(
        F.struct(F.lit("shrink").alias("change"), F.array_except("previous_isr", "isr").alias("b")),
        F.struct(F.lit("expand").alias("change"), F.array_except("isr", "previous_isr").alias("b")),
    )
    return met.withColumn("c", F.explode(both)).select(
        *TOPIC_PARTITION,
        F.col("time_ms").alias("at_ms"),
        F.col("c.change").alias("change"),
        F.explode("c.b").alias("broker"),
        "leader",
        F.when(by_controller, "controller").otherwise("leader").alias("by"),
        "file",
        "line",
    )


def isr_sums(changes: DataFrame) -> DataFrame:
    """Sums up the changes of in-sync replicas by broker.

    By broker: ``broker``, ``shrinks``, ``expands``, ``partitions``, ``flaps`` (partitions that it
    left more than once).
    """
    each = changes.groupBy("broker", *TOPIC_PARTITION).agg(
        F.count_if(F.col("change") == "shrink").alias("shrinks"),
        F.count_if(F.col("change") == "expand").alias("expands"),
    )
    return each.groupBy("broker").agg(
        F.sum("shrinks").alias("shrinks"),
        F.sum("expands").alias("expands"),
        F.count("*").alias("partitions"),
        F.count_if(F.col("shrinks") > 1).alias("flaps"),
    )


def isr_heat(changes: DataFrame, step_ms: int) -> DataFrame:
    """By broker and time: ``broker``, ``at_ms`` (beginning of a step), ``shrinks``."""
    at_ms = (F.floor(F.col("at_ms") / step_ms) * step_ms).alias("at_ms")
    return (
        changes.where("change = 'shrink'")
        .groupBy("broker", at_ms)
        .agg(F.count("*").alias("shrinks"))
    )


def isr_storms(changes: DataFrame) -> DataFrame:
    """Finds the minutes with many shrinks that leaders asked for.

    Minutes with many shrinks that leaders asked for: ``at_ms``, ``shrinks``, ``partitions``,
    ``leaders``, ``common_follower`` (null: none), ``common_share``, ``file``, ``line``.
    """
    step = (F.floor(F.col("at_ms") / STORM_STEP_MS) * STORM_STEP_MS).alias("step_ms")
    asked = changes.where("change = 'shrink' AND by = 'leader'").select("*", step)
    by_broker = asked.groupBy("step_ms", "broker").agg(F.count("*").alias("n"))
    top = Window.partitionBy("step_ms").orderBy(F.desc("n"), "broker")
    common = by_broker.withColumn("rank", F.row_number().over(top)).where("rank = 1")
    sums = asked.groupBy("step_ms").agg(
        F.count("*").alias("shrinks"),
        F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
        F.count_distinct("leader").alias("leaders"),
        F.min(F.struct("at_ms", "file", "line")).alias("e"),
    )
    share = F.col("n") / F.col("shrinks")
    return (
        sums.where(F.col("shrinks") >= STORM_CHANGES)
        .join(common.select("step_ms", "broker", "n"), "step_ms")
        .select(
            F.col("e.at_ms").alias("at_ms"),
            "shrinks",
            "partitions",
            "leaders",
            F.when(share >= COMMON_SHARE, F.col("broker")).alias("common_follower"),
            F.round(share, 3).alias("common_share"),
            F.col("e.file").alias("file"),
            F.col("e.line").alias("line"),
        )
    )
