"""The cluster at a moment: partitions, brokers, controller."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, first_of_each


def partitions_at(states: DataFrame, at_ms: int | None) -> DataFrame:
    """Finds the last state of each partition that lived at a moment.

    The last state of each partition that lived: ``topic``, ``partition``, ``leader``,
    ``leader_epoch``, ``isr``, ``zk_version``, ``controller_epoch``, ``since_ms``, ``file``,
    ``line``.

    ``at_ms`` None: at the end of the logs. A partition that the logs never speak of before that
    moment is not there, because nothing is known of it.
    """
    known = states if at_ms is None else states.where(F.col("time_ms") <= at_ms)
    last = first_of_each(known, [*TOPIC_PARTITION], F.desc("incarnation"), F.desc("number"))
    return last.where("NOT is_deleted").select(
        *TOPIC_PARTITION,
        "leader",
        "leader_epoch",
        "isr",
        "zk_version",
        "controller_epoch",
        F.col("time_ms").alias("since_ms"),
        "file",
        "line",
    )


def brokers_at(lives: DataFrame, expiries: DataFrame, at_ms: int) -> DataFrame:
    """Finds the brokers that lived at a moment.

    Brokers that lived then: ``broker``, ``since_ms``, ``broker_epoch``, ``has_session`` (false:
    the process ran without a ZooKeeper session).
    """
    alive = lives.where(
        (F.col("from_ms") <= at_ms) & (F.col("to_ms").isNull() | (F.col("to_ms") > at_ms))
    )
    away = expiries.where(
        (F.coalesce("gone_ms", "at_ms") <= at_ms) & (F.coalesce("back_ms", F.lit(2**62)) > at_ms)
    ).select(F.col("broker").alias("away"))
    return alive.join(away.distinct(), F.col("away") == F.col("broker"), "left").select(
        "broker",
        F.col("from_ms").alias("since_ms"),
        "broker_epoch",
        F.col("away").isNull().alias("has_session"),
    )


def controller_at(held: DataFrame, at_ms: int) -> DataFrame:
    """The tenure that covered the moment, if one did: as :func:`.tenures.tenures` has it."""
    return held.where(
        (F.col("from_ms") <= at_ms) & (F.col("to_ms").isNull() | (F.col("to_ms") > at_ms))
    )
