"""How long brokers took for the controller's LeaderAndIsr requests."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import of_kind

SLOW_MS: Final = 1_000


def request_times(events: DataFrame) -> DataFrame:
    """Sums up the LeaderAndIsr requests by broker.

    By broker: ``broker``, ``requests``, ``p50_ms``, ``p99_ms``, ``max_ms``, ``slow`` (how many
    took :data:`SLOW_MS` or longer), and of the slowest: ``at_ms``, ``controller``, ``partitions``,
    ``file``, ``line``.

    From 2.7 on the broker prints how long it took. 2.6 prints arrival, and the end of it is not to
    be seen; older versions print neither.
    """
    finished = events.where(of_kind("lisr-finished") & F.col("elapsed_ms").isNotNull())
    slowest = F.struct(
        "elapsed_ms",
        F.col("time_ms").alias("at_ms"),
        F.col("controller_id").alias("controller"),
        F.col("count").alias("partitions"),
        "file",
        "line",
    )
    return (
        finished.groupBy(F.col("broker_id").alias("broker"))
        .agg(
            F.count("*").alias("requests"),
            F.percentile_approx("elapsed_ms", 0.5).alias("p50_ms"),
            F.percentile_approx("elapsed_ms", 0.99).alias("p99_ms"),
            F.max("elapsed_ms").alias("max_ms"),
            F.count_if(F.col("elapsed_ms") >= SLOW_MS).alias("slow"),
            F.max(slowest).alias("e"),
        )
        .select("*", "e.at_ms", "e.controller", "e.partitions", "e.file", "e.line")
        .drop("e")
    )
