"""Failed state transitions, folded by fingerprint."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, of_kind

KINDS = (
    "partition-failed",
    "replica-failed",
    "partition-no-live-replica",
    "election-error",
    "elect-error",
    "lisr-error",
    "psm-move-error",
    "rsm-move-error",
    "ctl-event-error",
    "ctl-event-uncaught",
    "ctl-elect-error",
)


def failed_transitions(events: DataFrame) -> DataFrame:
    """Folds failed transitions by fingerprint.

    By fingerprint: ``kind``, ``fingerprint``, ``exception_class``, ``from_state``, ``to_state``,
    ``strategy`` (why it was tried), ``count``, ``partitions``, ``first_ms``, ``last_ms``, and of
    the first: ``sample``, ``file``, ``line``.
    """
    strategy = F.regexp_extract(
        F.coalesce("exception_message", F.lit("")), r"strategy (\w+(?:\(\w+\))?)", 1
    )
    first = F.struct(
        "time_ms",
        "file",
        "line",
        F.substring(F.coalesce("exception_message", "text"), 1, 300).alias("sample"),
    )
    return (
        events.where(of_kind(*KINDS))
        .groupBy(
            "kind",
            "fingerprint",
            "exception_class",
            "from_state",
            "to_state",
            F.nullif(strategy, F.lit("")).alias("strategy"),
        )
        .agg(
            F.count("*").alias("count"),
            F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
            F.min("time_ms").alias("first_ms"),
            F.max("time_ms").alias("last_ms"),
            F.min(first).alias("e"),
        )
        .select("*", "e.sample", "e.file", "e.line")
        .drop("e")
    )
