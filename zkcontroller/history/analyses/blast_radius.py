"""Groups partition changes by the broker departure that caused them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION

EARLY_MS: Final = 60_000
"""A broker that is being stopped gives its leaderships away before its process ends."""
LATE_MS: Final = 600_000
"""Changes later than this after a departure are not its consequence."""


def blast_radius(
    gone: DataFrame, states: DataFrame, windows: DataFrame, held: DataFrame
) -> DataFrame:
    """Groups the changes of partitions under the departures that caused them.

    One row for each departure: ``broker``, ``at_ms``, ``how``, ``partitions`` (touched),
    ``topics``, ``leader_moves``, ``isr_shrinks``, ``leaderless`` (partitions), ``leaderless_ms``
    (sum of the windows that have ended), ``controller_epoch`` (of the tenure it ended; null:
    none), ``first_ms`` and ``last_ms`` of the changes, ``file``, ``line``.

    A change belongs to the departure of the broker that lost by it, the nearest in time.
    """
    changed = states.where("NOT is_deleted AND previous_leader IS NOT NULL")
    moves = changed.where("previous_leader >= 0 AND leader <> previous_leader").select(
        F.col("previous_leader").alias("victim"),
        F.lit("move").alias("what"),
        *TOPIC_PARTITION,
        F.col("time_ms").alias("change_ms"),
        F.lit(0).cast("bigint").alias("lasted_ms"),
    )
    shrinks = changed.select(
        F.explode(F.array_except("previous_isr", "isr")).alias("victim"),
        F.lit("shrink").alias("what"),
        *TOPIC_PARTITION,
        F.col("time_ms").alias("change_ms"),
        F.lit(0).cast("bigint").alias("lasted_ms"),
    )
    dark = windows.where("cause_broker IS NOT NULL").select(
        F.col("cause_broker").alias("victim"),
        F.lit("dark").alias("what"),
        *TOPIC_PARTITION,
        F.col("from_ms").alias("change_ms"),
        F.coalesce(F.col("to_ms") - F.col("from_ms"), F.lit(0)).alias("lasted_ms"),
    )
    changes = moves.unionByName(shrinks).unionByName(dark)
    causes = F.broadcast(gone.select("broker", "at_ms"))
    nearest = (
        changes.join(
            causes,
            (F.col("victim") == F.col("broker"))
            & (F.col("change_ms") >= F.col("at_ms") - EARLY_MS)
            & (F.col("change_ms") <= F.col("at_ms") + LATE_MS),
        )
        .groupBy("victim", "what", *TOPIC_PARTITION, "change_ms", "lasted_ms")
        .agg(F.min_by("at_ms", F.abs(F.col("change_ms") - F.col("at_ms"))).alias("at_ms"))
    )
    sums = nearest.groupBy(F.col("victim").alias("broker"), "at_ms").agg(
        F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
        F.count_distinct("topic").alias("topics"),
        F.count_if(F.col("what") == "move").alias("leader_moves"),
        F.count_if(F.col("what") == "shrink").alias("isr_shrinks"),
        F.count_if(F.col("what") == "dark").alias("leaderless"),
        F.sum("lasted_ms").alias("leaderless_ms"),
        F.min("change_ms").alias("first_ms"),
        F.max("change_ms").alias("last_ms"),
    )
    # A broker that had ceased to be controller before it stopped did not end anything.
    ended = held.where("ended_by <> 'controller_moved'").select(
        F.col("broker").alias("held_by"), "controller_epoch", F.col("to_ms").alias("held_to_ms")
    )
    met = gone.join(sums, ["broker", "at_ms"], "left").join(
        F.broadcast(ended),
        (F.col("held_by") == F.col("broker"))
        & F.col("held_to_ms").between(F.col("at_ms") - EARLY_MS, F.col("at_ms") + EARLY_MS),
        "left",
    )
    counts = ("partitions", "topics", "leader_moves", "isr_shrinks", "leaderless", "leaderless_ms")
    return (
        met.groupBy(*gone.columns, *counts, "first_ms", "last_ms")
        .agg(F.max("controller_epoch").alias("controller_epoch"))
        .fillna(0, subset=list(counts))
    )
