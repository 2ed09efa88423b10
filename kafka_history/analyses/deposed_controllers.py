"""Deposed controllers by Spark: :mod:`kafka_history.rules.deposed_controllers`."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import deposed_controllers as rule
from kafka_history.rules.tenures import GRACE_MS, Tenure

from .carrying import as_rows, findings, gathered
from .columns import of_kind

_ZOMBIE: Final = (
    "broker int, controller_epoch int, from_ms bigint, to_ms bigint, overlap_ms bigint, "
    "successor int, deeds bigint, file string, line bigint"
)
_REFUSAL: Final = (
    "kind string, refused_by string, controller int, controller_epoch int, latest_epoch int, "
    "count bigint, first_ms bigint, last_ms bigint, file string, line bigint"
)


def zombies(events: DataFrame, held: DataFrame) -> DataFrame:
    """One row for each zombie: :class:`kafka_history.rules.deposed_controllers.Zombie`.

    ``held``: the controllers' tenures.
    """
    ended = held.select(
        F.col("broker").alias("z"), F.col("controller_epoch").alias("z_epoch"), "to_ms"
    )
    is_late = (
        (F.col("broker_id") == F.col("z"))
        & (F.col("controller_epoch") == F.col("z_epoch"))
        & (F.col("time_ms") > F.col("to_ms") + GRACE_MS)
    )
    own = events.where("logger = 'state.change.logger' AND component = 'controller'")
    late = own.join(F.broadcast(ended), is_late, "left_semi")
    found = rule.zombies(gathered(late), findings(held, Tenure))
    return as_rows(events.sparkSession, found, _ZOMBIE)


def refusals(events: DataFrame) -> DataFrame:
    """One row for those that are alike: see :mod:`kafka_history.rules.deposed_controllers`."""
    is_answer = of_kind(*rule.ANSWERS) & (
        (F.col("error_code") == rule.STALE_CODE) | (F.col("error") == rule.STALE)
    )
    refused = of_kind(*rule.REFUSED_BY_BROKER, *rule.REFUSED_BY_ZOOKEEPER) | is_answer
    found = rule.refusals(gathered(events.where(refused)))
    return as_rows(events.sparkSession, found, _REFUSAL)
