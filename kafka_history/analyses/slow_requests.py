"""How long brokers took, by Spark: :mod:`kafka_history.rules.slow_requests` on a cluster's rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import slow_requests as rule

from .carrying import as_rows, gathered
from .columns import of_kind

_TIMES: Final = (
    "broker int, requests bigint, p50_ms bigint, p99_ms bigint, max_ms bigint, slow bigint, "
    "at_ms bigint, controller int, partitions int, file string, line bigint"
)


def request_times(events: DataFrame) -> DataFrame:
    """One row for each broker: :class:`kafka_history.rules.slow_requests.RequestDurations`."""
    needed = gathered(events.where(of_kind(rule.FINISHED)))
    return as_rows(events.sparkSession, rule.request_times(needed), _TIMES)
