"""Log directories that failed, by Spark: :mod:`kafka_history.rules.log_dir_failures`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import log_dir_failures as rule

from .carrying import as_rows, gathered
from .columns import of_kind

_FAILURE: Final = (
    "broker int, at_ms bigint, dir string, reason string, partitions array<string>, file string, "
    "line bigint"
)


def log_dir_failures(events: DataFrame) -> DataFrame:
    """One row for each failure: :class:`kafka_history.rules.log_dir_failures.FailedLogDir`."""
    needed = gathered(events.where(of_kind(rule.CAUSE, *rule.FAILURES)))
    return as_rows(events.sparkSession, rule.log_dir_failures(needed), _FAILURE)
