"""What took brokers out of the cluster: deaths, ordered stops, pauses, lost sessions.

A departure has a beginning and an end. An ordered stop begins when the broker says that it is
shutting down, and gives its leaderships away before its process ends; a death begins and ends at
once; a pause begins when the process falls silent, long before its session runs out.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import of_kind, says

PAUSED, DIRECTORY = "paused", "log_dir_failed"
PAUSE_MS: Final = 1_000
"""So much longer than the session's timeout must ZooKeeper be unheard to prove a pause."""
PINGS: Final = 3
"""ZooKeeper's client gets an answer of the server three times in a session's timeout."""
AWAKE_MS: Final = 200
"""What a process says this little before it notices the silence, it says after waking up."""
FAR_MS: Final = 60_000
"""A loss of the session later than this after waking up has another reason."""


def pauses(events: DataFrame) -> DataFrame:
    """Finds the pauses of processes that lasted longer than their ZooKeeper session.

    One row for each: ``broker``, ``from_ms`` and ``to_ms`` (of the silence; the beginning is known
    to some seconds), ``file``, ``line`` (where the broker notices it).

    A client of ZooKeeper that runs gives a silent server up before its session's timeout. So one
    that had no word of the server for longer did not run, provided that its process wrote
    nothing else in that time.
    """
    timeout = F.regexp_extract("text", r"negotiated timeout = (\d+)", 1).try_cast("bigint")
    order = Window.partitionBy("broker_id").orderBy("time_ms", "file", "line")
    told = events.where(of_kind("zk-timeout", "zk-session")).select(
        F.col("broker_id").alias("broker"),
        F.col("time_ms").alias("to_ms"),
        "elapsed_ms",
        says("have not heard from server").alias("is_silence"),
        F.last(timeout, ignorenulls=True).over(order).alias("timeout_ms"),
        "file",
        "line",
    )
    silences = told.where(
        F.col("is_silence") & (F.col("elapsed_ms") >= F.col("timeout_ms") + PAUSE_MS)
    ).withColumn("heard_ms", F.col("to_ms") - F.col("elapsed_ms"))
    wrote = events.where("broker_id IS NOT NULL").select(
        F.col("broker_id").alias("who"), F.col("time_ms").alias("wrote_ms")
    )
    met = silences.join(
        wrote,
        (F.col("who") == F.col("broker"))
        & (F.col("wrote_ms") > F.col("heard_ms"))
        & (F.col("wrote_ms") < F.col("to_ms") - AWAKE_MS),
        "left",
    )
    ping_ms = F.col("timeout_ms") / PINGS
    lasts = met.groupBy(*silences.columns).agg(F.max("wrote_ms").alias("last_ms"))
    # The process stopped between the last answer of ZooKeeper and the next one that it missed.
    guessed = (F.col("heard_ms") + ping_ms / 2).cast("bigint")
    return lasts.where(
        F.coalesce(F.col("last_ms") <= F.col("heard_ms") + ping_ms + PAUSE_MS, F.lit(True))
    ).select(
        "broker",
        F.greatest(guessed, "last_ms").alias("from_ms"),
        "to_ms",
        "file",
        "line",
    )


def with_pauses(expiries: DataFrame, paused: DataFrame) -> DataFrame:
    """Adds to each lost session when the pause began that cost it: ``paused_ms`` (null: none)."""
    asleep = paused.select(
        F.col("broker").alias("sleeper"),
        F.col("from_ms").alias("asleep_ms"),
        F.col("to_ms").alias("awake_ms"),
    )
    is_its_cause = (F.col("sleeper") == F.col("broker")) & F.col("at_ms").between(
        F.col("asleep_ms"), F.col("awake_ms") + FAR_MS
    )
    return (
        expiries.join(F.broadcast(asleep), is_its_cause, "left")
        .groupBy(*expiries.columns)
        .agg(F.max("asleep_ms").alias("paused_ms"))
    )


def departures(lives: DataFrame, expiries: DataFrame, failed_dirs: DataFrame) -> DataFrame:
    """Finds everything that takes a broker out of the cluster.

    Columns: ``broker``, ``begun_ms`` (from when on effects are possible), ``at_ms``, ``how``
    (``killed``, ``lost``, ``clean_shutdown``, ``paused``, ``session_expired`` or
    ``log_dir_failed``), ``since_ms`` (when the life began that ended; null: it went on),
    ``until_ms`` (when the controller had surely missed it; null: unknown), ``back_ms`` (when the
    broker was there again; null: never), ``file``, ``line``.

    ``lives``: of brokers; ``expiries``: what :func:`with_pauses` gave; ``failed_dirs``: directories
    that failed, which take a part of a broker away.
    """
    order = Window.partitionBy("broker").orderBy("from_ms")
    ended = (
        lives.withColumn("back_ms", F.lead("from_ms").over(order))
        .where("to_ms IS NOT NULL")
        .select(
            "broker",
            F.when(F.col("ended_by") == "clean_shutdown", F.least("stopping_ms", "to_ms"))
            .otherwise(F.col("to_ms"))
            .alias("begun_ms"),
            F.col("to_ms").alias("at_ms"),
            F.col("ended_by").alias("how"),
            F.col("from_ms").alias("since_ms"),
            F.col("missed_ms").alias("until_ms"),
            "back_ms",
            F.col("end_file").alias("file"),
            F.col("end_line").alias("line"),
        )
    )
    noticed_ms = F.coalesce("gone_ms", "at_ms")
    # A session that ran out while the process stood still is a consequence of the pause.
    begun_ms = F.coalesce("paused_ms", noticed_ms)
    expired = expiries.select(
        "broker",
        begun_ms.alias("begun_ms"),
        begun_ms.alias("at_ms"),
        F.when(F.col("paused_ms").isNotNull(), PAUSED).otherwise("session_expired").alias("how"),
        F.lit(None).cast("bigint").alias("since_ms"),
        noticed_ms.alias("until_ms"),
        F.coalesce("back_ms", "at_ms").alias("back_ms"),
        "file",
        "line",
    )
    # The broker goes on without what was in the directory.
    failed = failed_dirs.select(
        "broker",
        F.col("at_ms").alias("begun_ms"),
        "at_ms",
        F.lit(DIRECTORY).alias("how"),
        *(F.lit(None).cast("bigint").alias(n) for n in ("since_ms", "until_ms", "back_ms")),
        "file",
        "line",
    )
    return ended.unionByName(expired).unionByName(failed)
