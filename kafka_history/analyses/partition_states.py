"""States of partitions by Spark: :mod:`kafka_history.rules.partition_states` on their rows."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import partition_states as rule
from kafka_history.rules.event import Event
from kafka_history.rules.tenures import Tenure

from .carrying import findings, gathered, in_each
from .columns import of_kind

_STATE: Final = (
    "topic string, partition int, incarnation bigint, number int, time_ms bigint, leader int, "
    "leader_epoch int, isr array<int>, zk_version int, recovering boolean, replicas array<int>, "
    "controller_epoch int, lost_replica int, kind string, broker_id int, is_deleted boolean, "
    "is_epoch_told boolean, is_isr_sent boolean, file string, line bigint, previous_leader int, "
    "previous_epoch int, previous_isr array<int>, previous_version int"
)


def partition_states(events: DataFrame, held: DataFrame) -> DataFrame:
    """One row for each :class:`kafka_history.rules.partition_states.State` of each partition.

    ``held``: the controllers' tenures; what a deposed controller says is left out.
    """
    ends = rule.deposed(findings(held, Tenure))
    gone = rule.topic_ends(gathered(events.where(of_kind(rule.TOPIC_END))), ends)
    needed = events.where(of_kind(*rule.STATE_KINDS) & F.col("time_ms").isNotNull())
    of_one = partial(rule.partition_states, ends=ends, gone=gone)
    return in_each(of_one, _STATE, (Event, needed.select(*rule.COLUMNS)))
