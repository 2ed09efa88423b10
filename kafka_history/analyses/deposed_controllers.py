"""Deposed controllers that continued after their successor's election, and refused requests."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules.tenures import GRACE_MS

from .columns import of_kind

REFUSED_BY_BROKER = ("lisr-stale-controller", "um-stale-controller", "stop-stale-controller")
REFUSED_BY_ZOOKEEPER = (
    "ctl-moved-processing",
    "psm-moved",
    "rsm-moved",
    "ctl-already-moved",
    "election-aborted",
)
STALE = "STALE_CONTROLLER_EPOCH"
STALE_CODE = 11


def zombies(events: DataFrame, held: DataFrame) -> DataFrame:
    """Finds controllers that worked or resigned after their tenure.

    Controllers that worked or resigned late: ``broker``, ``controller_epoch``, ``from_ms`` (the
    successor's election), ``to_ms`` (its last sign as controller), ``overlap_ms``, ``successor``,
    ``deeds`` (how many lines it still wrote as controller), ``file``, ``line`` of the first of
    them.
    """
    ended = held.where("to_ms IS NOT NULL").select(
        F.col("broker").alias("z"),
        F.col("controller_epoch").alias("z_epoch"),
        "to_ms",
        "resigned_ms",
        "end_file",
        "end_line",
    )
    later = held.select(
        F.col("broker").alias("successor"),
        F.col("controller_epoch").alias("s_epoch"),
        F.col("from_ms").alias("s_from_ms"),
    )
    # A line under an epoch after a higher one had begun elsewhere; restarts have other epochs.
    said = events.where(
        (F.col("logger") == "state.change.logger")
        & (F.col("component") == "controller")
        & F.col("controller_epoch").isNotNull()
        & ~of_kind("recv-response")
    ).select("broker_id", F.col("controller_epoch").alias("epoch"), "time_ms", "file", "line")
    deeds = (
        said.join(
            F.broadcast(ended),
            (F.col("broker_id") == F.col("z"))
            & (F.col("epoch") == F.col("z_epoch"))
            & (F.col("time_ms") > F.col("to_ms") + GRACE_MS),
        )
        .groupBy("z", "z_epoch")
        .agg(
            F.count("*").alias("deeds"),
            F.max("time_ms").alias("last_ms"),
            F.min(F.struct("time_ms", "file", "line")).alias("e"),
        )
    )
    is_next = F.col("s_epoch") > F.col("z_epoch")
    after = (
        ended.join(later, is_next)
        .groupBy("z", "z_epoch", "to_ms", "resigned_ms", "end_file", "end_line")
        .agg(F.min(F.struct("s_epoch", "s_from_ms", "successor")).alias("s"))
    )
    met = after.join(deeds, ["z", "z_epoch"], "left").where("s.successor <> z")
    end_ms = F.greatest("resigned_ms", "last_ms")
    return (
        met.withColumn("end_ms", end_ms)
        .where(F.col("end_ms") > F.col("s.s_from_ms") + GRACE_MS)
        .select(
            F.col("z").alias("broker"),
            F.col("z_epoch").alias("controller_epoch"),
            F.col("s.s_from_ms").alias("from_ms"),
            F.col("end_ms").alias("to_ms"),
            (F.col("end_ms") - F.col("s.s_from_ms")).alias("overlap_ms"),
            F.col("s.successor").alias("successor"),
            F.coalesce("deeds", F.lit(0)).alias("deeds"),
            F.coalesce("e.file", "end_file").alias("file"),
            F.coalesce("e.line", "end_line").alias("line"),
        )
    )


def refusals(events: DataFrame) -> DataFrame:
    """Sums up what was refused to deposed controllers.

    What was refused to deposed controllers, summed: ``kind``, ``refused_by`` (``broker`` or
    ``zookeeper``), ``controller``, ``controller_epoch``, ``latest_epoch``, ``count``,
    ``first_ms``, ``last_ms``, ``file``, ``line``.

    Error code 11 for single partitions under a top-level 0 is a repeated request, and counts for
    nothing here.
    """
    answered = of_kind("recv-response", "recv-lisr-error", "recv-um-error", "recv-error") & (
        (F.col("error_code") == STALE_CODE) | (F.col("error") == STALE)
    )
    by_broker, by_zookeeper = of_kind(*REFUSED_BY_BROKER), of_kind(*REFUSED_BY_ZOOKEEPER)
    mine = by_zookeeper | answered
    return (
        events.where(by_broker | mine)
        .select(
            "kind",
            F.when(by_zookeeper, "zookeeper").otherwise("broker").alias("refused_by"),
            F.when(mine, F.col("broker_id")).otherwise(F.col("controller_id")).alias("controller"),
            "controller_epoch",
            "latest_controller_epoch",
            "time_ms",
            "file",
            "line",
        )
        .groupBy("kind", "refused_by", "controller", "controller_epoch")
        .agg(
            F.max("latest_controller_epoch").alias("latest_epoch"),
            F.count("*").alias("count"),
            F.min("time_ms").alias("first_ms"),
            F.max("time_ms").alias("last_ms"),
            F.min(F.struct("time_ms", "file", "line")).alias("e"),
        )
        .select("*", "e.file", "e.line")
        .drop("e")
    )
