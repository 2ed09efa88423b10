"""Effects of departures by Spark: :mod:`kafka_history.rules.blast_radius`, and their sums."""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import blast_radius as rule
from kafka_history.rules.acts import Effect
from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.departures import Departure
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import Tenure

from .carrying import as_rows, findings, in_each
from .columns import TOPIC_PARTITION

_CHANGE: Final = (
    "broker int, begun_ms bigint, what string, topic string, partition int, change_ms bigint, "
    "lasted_ms bigint"
)
_GONE: Final = (
    "broker int, begun_ms bigint, at_ms bigint, how string, since_ms bigint, until_ms bigint, "
    "back_ms bigint, file string, line bigint"
)
_COUNTS: Final = (
    "partitions", "topics", "leader_moves", "isr_shrinks", "leaderless", "leaderless_ms",
)  # fmt: skip


def blast_radius(
    gone: DataFrame, states: DataFrame, windows: DataFrame, held: DataFrame, done: DataFrame
) -> DataFrame:
    """Groups the changes of partitions under the departures that caused them.

    One row for each departure: the columns of :func:`.departures.departures`, ``partitions``
    (touched), ``topics``, ``leader_moves``, ``isr_shrinks``, ``leaderless`` (partitions),
    ``leaderless_ms`` (sum of the windows that have ended), ``first_ms`` and ``last_ms`` of the
    changes, and ``controller_epoch`` (of the tenure it ended; null: none).

    ``done``: what was ordered, :func:`.acts.effects`.
    """
    lost = findings(gone, Departure)
    orders = findings(done, Effect)
    tenures = findings(held, Tenure)
    of_one = partial(rule.changes, gone=lost, done=orders)
    changes = in_each(of_one, _CHANGE, (State, states), (Window, windows))
    sums = changes.groupBy("broker", "begun_ms").agg(
        F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
        F.count_distinct("topic").alias("topics"),
        *(
            F.count_if(F.col("what") == what).alias(name)
            for what, name in (
                (rule.MOVE, "leader_moves"),
                (rule.SHRINK, "isr_shrinks"),
                (rule.DARK, "leaderless"),
            )
        ),
        F.sum("lasted_ms").alias("leaderless_ms"),
        F.min("change_ms").alias("first_ms"),
        F.max("change_ms").alias("last_ms"),
    )
    epochs = rule.ended_epochs(lost, tenures)
    ended = ((*each, epochs.get(each)) for each in dict.fromkeys(lost))
    whole = as_rows(gone.sparkSession, ended, f"{_GONE}, controller_epoch int")
    met = whole.join(sums, ["broker", "begun_ms"], "left").fillna(0, subset=list(_COUNTS))
    return met.select(*Departure._fields, *_COUNTS, "first_ms", "last_ms", "controller_epoch")
