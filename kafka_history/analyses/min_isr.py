"""Too few in-sync replicas by Spark: :mod:`kafka_history.rules.min_isr` on states and settings."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import min_isr as rule
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State

from .carrying import findings, in_each
from .columns import of_kind

_NEED: Final = "topic string, min_isr int, at_ms bigint, refused int, is_change boolean"
_UNDER: Final = (
    "topic string, partition int, from_ms bigint, to_ms bigint, isr array<int>, min_isr int, "
    "refused bigint, file string, line bigint"
)


def under_min_isr(events: DataFrame, states: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.min_isr.UnderMinIsr`."""
    told = events.where(
        of_kind(*rule.SETTING_KINDS, rule.REFUSAL_KIND) & F.col("time_ms").isNotNull()
    ).select("file", "time_ms", "kind", "topic", "values", "text", "exception_message")
    found = in_each(rule.needs, _NEED, (Event, told), keys=["file"])
    needed = rule.by_topic(findings(found, rule.IsrNeed))
    return in_each(partial(rule.under_min_isr, needed=needed), _UNDER, (State, states))
