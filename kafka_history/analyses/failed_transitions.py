"""Failed state transitions by Spark: :mod:`kafka_history.rules.failed_transitions`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import failed_transitions as rule

from .carrying import as_rows, gathered
from .columns import of_kind

_FAILED: Final = (
    "kind string, fingerprint string, exception_class string, from_state string, to_state string, "
    "strategy string, count bigint, partitions bigint, first_ms bigint, last_ms bigint, "
    "sample string, file string, line bigint"
)


def failed_transitions(events: DataFrame) -> DataFrame:
    """One row for those that are alike: see :mod:`kafka_history.rules.failed_transitions`."""
    needed = gathered(events.where(of_kind(*rule.KINDS)))
    return as_rows(events.sparkSession, rule.failed_transitions(needed), _FAILED)
