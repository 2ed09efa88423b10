"""The differences between the brokers' clocks, and whether they matter."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from zkcontroller.history.readers.ordering import clock_skew

DOUBTFUL_MS: Final = 100
"""Clocks further apart than this, whatever the network took, are reported."""


def clocks(events: DataFrame) -> DataFrame:
    """Compares the clock of each broker with that of each controller that sent it requests.

    Columns: ``broker``, ``controller``, ``pairs`` (requests that were compared), ``low_ms`` and
    ``high_ms`` (the broker's clock is ahead by something between them; null: nothing limits it),
    ``skew_ms`` (their middle, or the one that is known), ``is_consistent`` (false: a clock was set
    meanwhile) and ``is_doubtful`` (apart by more than :data:`DOUBTFUL_MS`, or inconsistent).
    """
    apart = f"low_ms > {DOUBTFUL_MS} OR high_ms < -{DOUBTFUL_MS} OR NOT is_consistent"
    return (
        clock_skew(events)
        .where("controller_id != broker_id")
        .select(
            F.col("broker_id").alias("broker"),
            F.col("controller_id").alias("controller"),
            "pairs",
            "low_ms",
            "high_ms",
            F.coalesce("skew_ms", "high_ms").cast("bigint").alias("skew_ms"),
            "is_consistent",
            F.expr(f"coalesce({apart}, false)").alias("is_doubtful"),
        )
    )
