"""Broken invariants by Spark: :mod:`kafka_history.rules.invariants` on tenures and partitions."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import invariants as rule
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import Tenure

from .carrying import as_rows, findings, in_each
from .columns import TOPIC_PARTITION, of_kind

_VIOLATION: Final = (
    "rule string, topic string, partition int, at_ms bigint, says string, file string, line bigint"
)


def violations(events: DataFrame, states: DataFrame, held: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.invariants.Violation`."""
    known = findings(held, Tenure)
    of_controllers = rule.controller_violations(known)
    began = (
        events.where(of_kind(rule.LEADER_KIND))
        .dropna(subset=["topic_id", "time_ms"])
        .select(
            *TOPIC_PARTITION, "topic_id", "leader_epoch", "broker_id", "time_ms", "file", "line"
        )
    )
    of_partitions = in_each(rule.partition_violations, _VIOLATION, (State, states), (Event, began))
    return as_rows(events.sparkSession, of_controllers, _VIOLATION).unionByName(of_partitions)
