"""The differences between clocks by Spark: :mod:`kafka_history.rules.clocks`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import clocks as rule
from kafka_history.rules.event import Event

from .carrying import as_rows, findings, in_each
from .columns import of_kind

_COMPARED: Final = "controller int, broker int, low_ms bigint, high_ms bigint"
_SKEW: Final = (
    "broker int, controller int, pairs bigint, low_ms bigint, high_ms bigint, skew_ms bigint, "
    "is_consistent boolean, is_doubtful boolean"
)
_NEEDED: Final = (
    "file", "line", "time_ms", "kind", "broker_id", "peer", "controller_id", "controller_epoch",
    "correlation_id", "request", "topic", "partition", "leader_epoch", "zk_version", "is_new",
)  # fmt: skip


def clocks(events: DataFrame) -> DataFrame:
    """One row for each broker and controller: :class:`kafka_history.rules.clocks.ClockSkew`."""
    is_received = of_kind(rule.RECEIVED)
    is_answer = of_kind(rule.ANSWERED) & (F.col("request") == rule.REQUEST)
    said = events.where(of_kind(rule.SENT) | is_received | is_answer)
    said = said.where("time_ms IS NOT NULL")
    # A line for each partition of each request: compared where they are, by sender and receiver.
    each = said.select(
        *_NEEDED,
        F.when(is_received, F.col("controller_id")).otherwise(F.col("broker_id")).alias("sender"),
        F.when(is_received, F.col("broker_id")).otherwise(F.col("peer")).alias("receiver"),
    )
    keys = ("sender", "receiver", "controller_epoch")
    compared = in_each(rule.compared_requests, _COMPARED, (Event, each), keys=keys)
    found = rule.clocks(findings(compared, rule.ComparedRequest))
    return as_rows(events.sparkSession, found, _SKEW)
