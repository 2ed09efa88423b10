"""Reassignments by Spark: :mod:`kafka_history.rules.reassignments` on a cluster's rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import reassignments as rule

from .carrying import as_rows, gathered
from .columns import of_kind

_REASSIGNMENT: Final = (
    "topic string, partition int, from_ms bigint, caught_up_ms bigint, to_ms bigint, "
    "took_ms bigint, outcome string, old_replicas array<int>, new_replicas array<int>, "
    "adding array<int>, removing array<int>, problem string, file string, line bigint, "
    "end_file string, end_line bigint"
)


def reassignments(events: DataFrame) -> DataFrame:
    """One row for each order: :class:`kafka_history.rules.reassignments.Reassignment`."""
    needed = gathered(events.where(of_kind(*rule.KINDS)))
    return as_rows(events.sparkSession, rule.reassignments(needed), _REASSIGNMENT)
