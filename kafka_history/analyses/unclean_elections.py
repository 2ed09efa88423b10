"""Unclean elections by Spark: :mod:`kafka_history.rules.unclean_elections` on each partition."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import unclean_elections as rule
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State

from .carrying import in_each
from .columns import of_kind

_ELECTION: Final = (
    "topic string, partition int, incarnation bigint, at_ms bigint, leader int, leader_epoch int, "
    "last_isr array<int>, proof string, file string, line bigint, leader_offset bigint, "
    "lost_records bigint, lost_from bigint, lost_to bigint, truncated_by int"
)


def unclean_elections(events: DataFrame, states: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.unclean_elections.UncleanElection`."""
    needed = events.where(of_kind(*rule.KINDS) & F.col("time_ms").isNotNull()).select(
        F.coalesce("topic", _loaded(1)).alias("topic"),
        F.coalesce("partition", _loaded(2).try_cast("int")).alias("partition"),
        *rule.COLUMNS,
    )
    return in_each(rule.unclean_elections, _ELECTION, (State, states), (Event, needed))


def _loaded(group: int) -> Column:
    """The topic or the partition of a log, in the words of the line that says it was loaded."""
    words = F.regexp_extract("text", r"topic=([^,]+), partition=(\d+)", group)
    return F.nullif(words, F.lit(""))
