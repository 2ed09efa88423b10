"""Tenures and failovers by Spark: :mod:`kafka_history.rules.tenures` on a cluster's rows."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules import tenures as rule

from .carrying import as_rows, findings, gathered
from .columns import first_of_each, of_kind

_TENURE: Final = (
    "broker int, controller_epoch int, from_ms bigint, ready_ms bigint, to_ms bigint, "
    "ended_by string, resigned_ms bigint, overlap_ms bigint, is_elected boolean, file string, "
    "line bigint, end_file string, end_line bigint"
)
_PHASE: Final = (
    "controller_epoch int, broker int, step int, phase string, at_ms bigint, file string, "
    "line bigint, took_ms bigint"
)
_ORDER: Final = ("time_ms", "file", "line")


def tenures(events: DataFrame) -> DataFrame:
    """One row for each tenure: :class:`kafka_history.rules.tenures.Tenure`."""
    told = of_kind(*rule.ELECTIONS, *rule.MARKS)
    is_own = (F.col("component") == "controller") & (F.col("logger") == "state.change.logger")
    epoch = F.col("controller_epoch").isNotNull()
    needed = gathered(
        events.where(told),
        # Of millions of such lines the first of each controller and epoch is enough.
        first_of_each(events.where(is_own & epoch), ["broker_id", "controller_epoch"], *_ORDER),
        first_of_each(
            events.where(of_kind(*rule.WITNESS_KINDS) & epoch),
            ["controller_id", "controller_epoch"],
            *_ORDER,
        ),
    )
    last_words = {
        row["broker_id"]: rule.LastWords(row["last_ms"], bool(row["has_controller_log"]))
        for row in events.groupBy("broker_id")
        .agg(
            F.max("time_ms").alias("last_ms"),
            F.max(F.col("logger").startswith("kafka.controller")).alias("has_controller_log"),
        )
        .collect()
    }
    return as_rows(events.sparkSession, rule.tenures(needed, last_words), _TENURE)


def phases(events: DataFrame, held: DataFrame) -> DataFrame:
    """The steps of each failover: :class:`kafka_history.rules.tenures.Phase`.

    ``held``: what :func:`tenures` gave.
    """
    needed = gathered(
        events.where(of_kind(*rule.PHASE_KINDS)),
        first_of_each(
            events.where(of_kind("um-applied")), ["controller_epoch", "broker_id"], *_ORDER
        ),
    )
    found = rule.phases(needed, findings(held, rule.Tenure))
    return as_rows(events.sparkSession, found, _PHASE)
