"""Deletions of topics by Spark: :mod:`kafka_history.rules.topic_deletions` on a cluster's rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import topic_deletions as rule

from .carrying import as_rows, gathered
from .columns import of_kind

_DELETION: Final = (
    "topic string, from_ms bigint, to_ms bigint, took_ms bigint, halts bigint, blocked_by string, "
    "file string, line bigint, end_file string, end_line bigint"
)


def topic_deletions(events: DataFrame) -> DataFrame:
    """One row for each deletion: :class:`kafka_history.rules.topic_deletions.DeletedTopic`."""
    needed = gathered(events.where(of_kind(*rule.KINDS)))
    return as_rows(events.sparkSession, rule.topic_deletions(needed), _DELETION)
