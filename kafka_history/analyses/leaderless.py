"""Windows without a leader by Spark: :mod:`kafka_history.rules.leaderless`, and their sums."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import leaderless as rule
from kafka_history.rules.departures import Departure
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State

from .carrying import findings, gathered, in_each
from .columns import TOPIC_PARTITION, of_kind

_WINDOW: Final = (
    "topic string, partition int, incarnation bigint, from_ms bigint, noticed_ms bigint, "
    "cause string, cause_broker int, cause_ms bigint, next_leader int, next_epoch int, "
    "end_file string, end_line bigint, file string, line bigint, to_ms bigint"
)


def leaderless(events: DataFrame, states: DataFrame, gone: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.dead_leaders.Window`.

    ``states``: the states of partitions; ``gone``: the departures of brokers.
    """
    lost = findings(gone, Departure)
    begun = rule.deletions_begun(gathered(events.where(of_kind(*rule.DELETION_KINDS))))
    needed = events.where(of_kind(*rule.KINDS) & F.col("time_ms").isNotNull()).select(
        *TOPIC_PARTITION, "time_ms", "file", "line", "kind", "broker_id", "from_state", "to_state"
    )
    of_one = partial(rule.leaderless, gone=lost, begun=begun)
    return in_each(of_one, _WINDOW, (State, states), (Event, needed))


def outage_sums(windows: DataFrame, end_ms: int) -> DataFrame:
    """Sums up windows without a leader.

    One row: ``windows``, ``open``, ``partitions``, ``p50_ms``, ``p99_ms``, ``max_ms``,
    ``partition_seconds`` and ``noticed_after_ms`` (how late at most the controller noticed one); a
    window still open counts until ``end_ms``.
    """
    span = F.coalesce("to_ms", F.lit(end_ms)) - F.col("from_ms")
    return windows.withColumn("span_ms", F.greatest(span, F.lit(0))).agg(
        F.count("*").alias("windows"),
        F.count_if(F.col("to_ms").isNull()).alias("open"),
        F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
        F.percentile_approx("span_ms", 0.5).alias("p50_ms"),
        F.percentile_approx("span_ms", 0.99).alias("p99_ms"),
        F.max("span_ms").alias("max_ms"),
        F.round(F.sum("span_ms") / 1000, 3).alias("partition_seconds"),
        F.max(F.col("noticed_ms") - F.col("from_ms")).alias("noticed_after_ms"),
    )
