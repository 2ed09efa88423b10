"""What was ordered, by Spark: :mod:`kafka_history.rules.acts` on a cluster's rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import acts as rule
from kafka_history.rules.reassignments import Reassignment
from kafka_history.rules.tenures import Tenure
from kafka_history.rules.topic_deletions import DeletedTopic

from .carrying import as_rows, findings, gathered
from .columns import of_kind

_ACT: Final = (
    "at_ms bigint, to_ms bigint, act string, topic string, partitions int, outcome string, "
    "says string, file string, line bigint"
)
_EFFECT: Final = "topic string, partition int, from_ms bigint, to_ms bigint"


def acts(events: DataFrame, held: DataFrame, gone: DataFrame, moves: DataFrame) -> DataFrame:
    """One row for each order and topic: :class:`kafka_history.rules.acts.OperatorAct`.

    ``held``: the controllers' tenures; ``gone``: deletions of topics; ``moves``: reassignments.
    """
    found = rule.acts(
        gathered(events.where(of_kind(*rule.KINDS))),
        findings(held, Tenure),
        findings(gone, DeletedTopic),
        findings(moves, Reassignment),
    )
    return as_rows(events.sparkSession, found, _ACT)


def effects(events: DataFrame, held: DataFrame, gone: DataFrame, moves: DataFrame) -> DataFrame:
    """What each act may change: :class:`kafka_history.rules.acts.Effect`."""
    found = rule.effects(
        gathered(events.where(of_kind(*rule.ELECTIONS))),
        findings(held, Tenure),
        findings(gone, DeletedTopic),
        findings(moves, Reassignment),
    )
    return as_rows(events.sparkSession, found, _EFFECT)
