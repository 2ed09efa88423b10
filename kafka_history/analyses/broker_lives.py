"""Lives of brokers by Spark: :mod:`kafka_history.rules.broker_lives` on a cluster's rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import broker_lives as rule
from kafka_history.rules.event import Event

from .carrying import as_rows, gathered
from .columns import of_kind, says

_LIFE: Final = (
    "broker int, from_ms bigint, to_ms bigint, ended_by string, stopping_ms bigint, "
    "last_ms bigint, missed_ms bigint, broker_epoch bigint, is_started boolean, file string, "
    "line bigint, end_file string, end_line bigint"
)
EXPIRY: Final = (
    "broker int, at_ms bigint, file string, line bigint, gone_ms bigint, back_ms bigint, "
    "paused_ms bigint"
)


def broker_lives(events: DataFrame) -> DataFrame:
    """One row for each life: :class:`kafka_history.rules.broker_lives.BrokerLife`."""
    needed = gathered(events.where(of_kind(*rule.MARKS)))
    found = rule.broker_lives(needed, _signs(events, needed))
    return as_rows(events.sparkSession, found, _LIFE)


def session_expiries(events: DataFrame) -> DataFrame:
    """One row for each lost session: :class:`kafka_history.rules.broker_lives.SessionExpiry`."""
    kinds = {*rule.EXPIRIES, *rule.VIEWS, rule.REGISTERED}
    found = rule.session_expiries(gathered(events.where(of_kind(*kinds))))
    return as_rows(events.sparkSession, found, EXPIRY)


def _signs(events: DataFrame, marks: Sequence[Event]) -> list[tuple[int, rule.SignOfLife]]:
    """Of the signs of life of each broker the first and the last between two of its starts."""
    starts = sorted(set(rule.starts(marks)))
    stretches = [
        (broker, from_ms, until_ms)
        for broker, of_one in groupby(starts, itemgetter(0))
        for (_, from_ms), (_, until_ms) in pairwise([*of_one, (broker, 2**62)])
    ]
    between = as_rows(events.sparkSession, stretches, "who int, from_ms bigint, until_ms bigint")
    at = F.struct("time_ms", "file", "line")
    each_second = (
        events.where("broker_id IS NOT NULL AND time_ms IS NOT NULL")
        .where(~says(*rule.PRELUDE) & ~F.coalesce(of_kind(rule.DUMP), F.lit(False)))
        .groupBy("broker_id", F.floor(F.col("time_ms") / 1000))
        .agg(F.max(at).alias("e"))
    )
    is_in = (F.col("who") == F.col("broker_id")) & (
        F.col("e.time_ms").between(F.col("from_ms"), F.col("until_ms") - 1)
    )
    found = (
        each_second.join(F.broadcast(between), is_in, "left")
        .groupBy("broker_id", "from_ms")
        .agg(F.min("e").alias("first"), F.max("e").alias("last"))
    )
    return [
        (row["broker_id"], rule.SignOfLife(*row[name]))
        for row in found.collect()
        for name in ("first", "last")
    ]
