"""Changes of in-sync replicas by Spark: :mod:`kafka_history.rules.isr_changes`, and sums."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import isr_changes as rule
from kafka_history.rules.partition_states import State

from .carrying import in_each
from .columns import TOPIC_PARTITION

_CHANGE: Final = (
    "topic string, partition int, at_ms bigint, change string, broker int, leader int, by string, "
    "file string, line bigint"
)
_STORM: Final = (
    "at_ms bigint, shrinks bigint, partitions bigint, leaders bigint, common_follower int, "
    "common_share double, file string, line bigint"
)


def isr_changes(states: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.isr_changes.InSyncChange`."""
    return in_each(rule.isr_changes, _CHANGE, (State, states))


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
    """One row for each :class:`kafka_history.rules.isr_changes.Storm`."""
    minute = F.floor(F.col("at_ms") / rule.STORM_STEP_MS).alias("minute")
    shrinks = changes.where("change = 'shrink' AND by = 'leader'").select("*", minute)
    return in_each(rule.isr_storms, _STORM, (rule.InSyncChange, shrinks), keys=["minute"])
