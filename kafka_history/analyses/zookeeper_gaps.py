"""Times in which brokers had no connection to ZooKeeper: a restart, an outage, a cut network.

A gap begins where a broker's client notices that the connection is gone, and ends with the next
session that stands.  Gaps of several brokers that overlap are one: then ZooKeeper itself was away.
What a paused process notices when it wakes up is no gap, for it was the process that was away.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import of_kind, says

_OPEN: Final = 2**62
EXPIRY_MS: Final = 60_000
"""A session that was lost is reported this much after the connection is back, at most."""


def zookeeper_gaps(events: DataFrame, paused: DataFrame, expiries: DataFrame) -> DataFrame:
    """One row for each gap: who had no connection, for how long, and whether sessions were lost.

    ``from_ms``, ``to_ms`` (null: until the end of the logs), ``brokers`` (array), ``is_all`` (every
    broker of these logs, or several: ZooKeeper was away), ``sessions_lost``, ``file``, ``line``.

    ``paused``: pauses of processes; ``expiries``: lost sessions.
    """
    each = _of_each(events, paused)
    ends_ms = F.coalesce("to_ms", F.lit(_OPEN))
    order = Window.partitionBy(F.lit(0)).orderBy("from_ms", "broker")
    before = F.max("ends_ms").over(order.rowsBetween(Window.unboundedPreceding, -1))
    merged = (
        each.withColumn("ends_ms", ends_ms)
        .withColumn("is_new", (F.col("from_ms") > F.coalesce(before, F.lit(-1))).cast("int"))
        .withColumn("number", F.sum("is_new").over(order))
        .groupBy("number")
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("ends_ms").alias("ends_ms"),
            F.array_sort(F.collect_set("broker")).alias("brokers"),
            F.min(F.struct("from_ms", "file", "line")).alias("e"),
        )
    )
    known = events.agg(F.count_distinct("broker_id").alias("known"))
    lost = expiries.where("paused_ms IS NULL").select(
        F.col("broker").alias("who"), F.col("at_ms").alias("lost_ms")
    )
    is_its = F.array_contains("brokers", F.col("who")) & F.col("lost_ms").between(
        F.col("from_ms"), F.col("ends_ms") + EXPIRY_MS
    )
    return (
        merged.join(F.broadcast(lost), is_its, "left")
        .groupBy("number", "from_ms", "ends_ms", "brokers", "e")
        .agg(F.count("lost_ms").alias("sessions_lost"))
        .crossJoin(known)
        .select(
            "from_ms",
            F.when(F.col("ends_ms") < _OPEN, F.col("ends_ms")).alias("to_ms"),
            "brokers",
            ((F.size("brokers") > 1) | (F.size("brokers") == F.col("known"))).alias("is_all"),
            "sessions_lost",
            "e.file",
            "e.line",
        )
    )


def _of_each(events: DataFrame, paused: DataFrame) -> DataFrame:
    """The gaps of each broker: ``broker``, ``from_ms``, ``to_ms``, evidence."""
    is_down = (
        of_kind("zk-timeout")
        & says("have not heard", "losing socket connection", "Unable to read", "unexpected error")
    ) | (of_kind("zk-state") & says("Disconnected"))
    is_up = (of_kind("zk-session") & says("Session establishment complete")) | (
        of_kind("zk-state") & says("SyncConnected")
    )
    # A process that ended without a connection has no gap after that.
    is_start = of_kind("server-life") & F.col("text").endswith("starting")
    order = Window.partitionBy("broker").orderBy("at_ms", "file", "line")
    said = (
        events.where((is_down | is_up | is_start) & F.col("broker_id").isNotNull())
        .select(
            F.col("broker_id").alias("broker"),
            F.col("time_ms").alias("at_ms"),
            is_down.alias("is_down"),
            "file",
            "line",
        )
        .withColumn("was_down", F.coalesce(F.lag("is_down").over(order), F.lit(False)))
        .where("is_down <> was_down")
        .withColumn("to_ms", F.lead("at_ms").over(order))
        .where("is_down")
        .select("broker", F.col("at_ms").alias("from_ms"), "to_ms", "file", "line")
    )
    asleep = paused.select(F.col("broker").alias("sleeper"), F.col("to_ms").alias("awake_ms"))
    woke_up = (F.col("sleeper") == F.col("broker")) & (F.col("awake_ms") == F.col("from_ms"))
    return said.join(F.broadcast(asleep), woke_up, "left_anti")
