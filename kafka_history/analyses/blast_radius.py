"""Groups partition changes by the broker departure that caused them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION
from .partition_states import KEY

SKEW_MS: Final = 1_000
"""A change may seem to be this much earlier than its cause: their brokers' clocks differ."""
LATE_MS: Final = 600_000
"""Changes later than this after a departure are not its consequence."""
RETURN_MS: Final = 2_000
"""What the controller still does about a departure when the broker is back already."""
_FOREVER: Final = 2**62


def blast_radius(
    gone: DataFrame, states: DataFrame, windows: DataFrame, held: DataFrame, done: DataFrame
) -> DataFrame:
    """Groups the changes of partitions under the departures that caused them.

    One row for each departure: the columns of :func:`.departures.departures`, ``partitions``
    (touched), ``topics``, ``leader_moves``, ``isr_shrinks``, ``leaderless`` (partitions),
    ``leaderless_ms`` (sum of the windows that have ended), ``controller_epoch`` (of the tenure it
    ended; null: none), ``first_ms`` and ``last_ms`` of the changes.

    A change belongs to the nearest cause before it that can cause it: the departure of the broker
    that lost by it, unless something that was ordered afterwards (``done``: :func:`.acts.effects`)
    explains it.
    """
    changes = _explained(_changes(states), gone, done)
    dark = windows.where("cause_broker IS NOT NULL AND cause_ms IS NOT NULL").select(
        F.col("cause_broker").alias("broker"),
        F.col("cause_ms").alias("begun_ms"),
        F.lit("dark").alias("what"),
        *TOPIC_PARTITION,
        F.col("from_ms").alias("change_ms"),
        F.coalesce(F.col("to_ms") - F.col("from_ms"), F.lit(0)).alias("lasted_ms"),
    )
    sums = (
        changes.withColumn("lasted_ms", F.lit(0).cast("bigint"))
        .unionByName(dark)
        .groupBy("broker", "begun_ms")
        .agg(
            F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
            F.count_distinct("topic").alias("topics"),
            F.count_if(F.col("what") == "move").alias("leader_moves"),
            F.count_if(F.col("what") == "shrink").alias("isr_shrinks"),
            F.count_if(F.col("what") == "dark").alias("leaderless"),
            F.sum("lasted_ms").alias("leaderless_ms"),
            F.min("change_ms").alias("first_ms"),
            F.max("change_ms").alias("last_ms"),
        )
    )
    counts = ("partitions", "topics", "leader_moves", "isr_shrinks", "leaderless", "leaderless_ms")
    met = gone.join(sums, ["broker", "begun_ms"], "left").fillna(0, subset=list(counts))
    return _with_tenures(met, held)


def _changes(states: DataFrame) -> DataFrame:
    """Leaders that moved and members that left: ``victim`` is the broker that lost by it."""
    before = (
        Window.partitionBy(*KEY)
        .orderBy("number")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    # Between the old leader and the new one the state may have named none.
    led_by = F.last(F.when(F.col("leader") >= 0, F.col("leader")), ignorenulls=True).over(before)
    alive = states.where("NOT is_deleted").withColumn("led_by", led_by)
    moves = alive.where("leader >= 0 AND leader <> led_by")
    shrinks = alive.withColumn("left", F.explode(F.array_except("previous_isr", "isr")))

    def of(rows: DataFrame, what: str, victim: str) -> DataFrame:
        return rows.select(
            F.col(victim).alias("victim"),
            F.lit(what).alias("what"),
            *TOPIC_PARTITION,
            F.col("time_ms").alias("change_ms"),
        )

    return of(moves, "move", "led_by").unionByName(of(shrinks, "shrink", "left"))


def _explained(changes: DataFrame, gone: DataFrame, done: DataFrame) -> DataFrame:
    """The changes that a departure explains best, with its ``broker`` and ``begun_ms``."""
    keys = ("victim", "what", *TOPIC_PARTITION, "change_ms")
    causes = gone.select("broker", "begun_ms", "back_ms")
    is_caused = (
        (F.col("victim") == F.col("broker"))
        & (F.col("change_ms") >= F.col("begun_ms") - SKEW_MS)
        & (F.col("change_ms") <= F.col("begun_ms") + LATE_MS)
        & (F.col("change_ms") <= F.coalesce(F.col("back_ms") + RETURN_MS, F.lit(_FOREVER)))
    )
    nearest = (
        changes.join(F.broadcast(causes), is_caused)
        .groupBy(*keys)
        .agg(F.max_by(F.struct("broker", "begun_ms"), _nearness("begun_ms")).alias("c"))
    )
    orders = done.select(
        F.col("topic").alias("of_topic"),
        F.col("partition").alias("of_partition"),
        F.col("from_ms").alias("ordered_ms"),
        F.col("to_ms").alias("done_ms"),
    )
    is_ordered = (
        (F.col("of_topic") == F.col("topic"))
        & (F.coalesce("of_partition", "partition") == F.col("partition"))
        & (F.col("change_ms") >= F.col("ordered_ms"))
        & (F.col("change_ms") <= F.col("done_ms"))
        & (F.col("ordered_ms") > F.col("c.begun_ms"))
    )
    return nearest.join(orders, is_ordered, "left_anti").select(
        "c.broker", "c.begun_ms", "what", *TOPIC_PARTITION, "change_ms"
    )


def _nearness(begun_ms: str) -> Column:
    """Greater for the nearer cause; one behind the change, as clocks go, counts least."""
    is_before = F.col(begun_ms) <= F.col("change_ms")
    distance = F.abs(F.col("change_ms") - F.col(begun_ms))
    return F.struct(is_before, -distance)


def _with_tenures(met: DataFrame, held: DataFrame) -> DataFrame:
    """Adds the tenure that the departure ended: the one that covers it."""
    # A broker that had ceased to be controller before it went did not end anything.
    ended = held.where("ended_by <> 'controller_moved' AND to_ms IS NOT NULL").select(
        F.col("broker").alias("held_by"),
        F.col("controller_epoch").alias("ended_epoch"),
        F.col("from_ms").alias("held_from_ms"),
        F.col("to_ms").alias("held_to_ms"),
    )
    # The successor of a dead controller is elected just before it misses its predecessor.
    noticed_ms = F.coalesce("until_ms", "at_ms")
    covers = (F.col("held_from_ms") <= F.greatest("at_ms", noticed_ms)) & (
        F.col("held_to_ms")
        >= F.when(
            F.col("how").isin("lost", "session_expired"), F.col("begun_ms") - RETURN_MS
        ).otherwise(F.col("begun_ms"))
    )
    return (
        met.join(F.broadcast(ended), (F.col("held_by") == F.col("broker")) & covers, "left")
        .groupBy(*met.columns)
        .agg(F.max("ended_epoch").alias("controller_epoch"))
    )
