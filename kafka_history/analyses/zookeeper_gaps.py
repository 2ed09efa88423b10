"""Times without ZooKeeper by Spark: :mod:`kafka_history.rules.zookeeper_gaps`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from kafka_history.rules import zookeeper_gaps as rule
from kafka_history.rules.broker_lives import SessionExpiry
from kafka_history.rules.departures import ProcessPause

from .carrying import as_rows, findings, gathered
from .columns import of_kind

_GAP: Final = (
    "from_ms bigint, to_ms bigint, brokers array<int>, is_all boolean, sessions_lost bigint, "
    "file string, line bigint"
)


def zookeeper_gaps(events: DataFrame, paused: DataFrame, expiries: DataFrame) -> DataFrame:
    """One row for each gap: :class:`kafka_history.rules.zookeeper_gaps.ZooKeeperGap`.

    ``paused``: pauses of processes; ``expiries``: lost sessions.
    """
    found = rule.zookeeper_gaps(
        gathered(events.where(of_kind(*rule.KINDS))),
        findings(paused, ProcessPause),
        findings(expiries, SessionExpiry),
        events.where("broker_id IS NOT NULL").select("broker_id").distinct().count(),
    )
    return as_rows(events.sparkSession, found, _GAP)
