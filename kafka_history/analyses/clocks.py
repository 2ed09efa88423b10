"""The differences between the brokers' clocks, and whether they matter.

Each broker stamps with its own clock.  Clocks are compared by what cannot be otherwise: a request
is handled after it was sent, and answered before the answer arrives, so the handling broker's clock
is ahead of the sender's by less than *handled - sent* and by more than *handled - answered*.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

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


def clock_skew(events: DataFrame) -> DataFrame:
    """How far each broker's clock is ahead of a controller's, from requests and their answers.

    Columns: ``cluster``, ``controller_id``, ``broker_id``, ``pairs`` (requests that were matched),
    ``low_ms`` and ``high_ms`` (between which every pair puts it), ``skew_ms`` (their middle), and
    ``is_consistent`` (false when no single value fits every pair: a clock was set in between).
    Without TRACE lines there are no answers, and only ``high_ms`` is known.
    """
    sent = events.where("kind = 'send-lisr-partition'").select(
        "cluster", F.col("broker_id").alias("controller_id"), F.col("peer").alias("broker_id"),
        "controller_epoch", "topic", "partition", "leader_epoch", "zk_version", "is_new",
        F.col("time_ms").alias("sent_ms"),
    )  # fmt: skip
    received = events.where("kind = 'lisr-received'").select(
        "cluster", "controller_id", "broker_id", "controller_epoch", "topic", "partition",
        "leader_epoch", "zk_version", "is_new", "correlation_id",
        F.col("time_ms").alias("handled_ms"),
    )  # fmt: skip
    answered = events.where("kind = 'recv-response' AND request = 'LeaderAndIsr'").select(
        "cluster", F.col("broker_id").alias("controller_id"), F.col("peer").alias("broker_id"),
        "controller_epoch", "correlation_id", F.col("time_ms").alias("answered_ms"),
    )  # fmt: skip
    of_request = ["cluster", "controller_id", "broker_id", "controller_epoch"]
    state = ["topic", "partition", "leader_epoch", "zk_version", "is_new"]
    # The same state may be sent twice to a broker that bounced: such pairs say nothing.
    once = [
        table.join(
            table.groupBy(*of_request, *state).count().where("count = 1").drop("count"),
            of_request + state,
        )
        for table in (sent, received)
    ]
    pairs = once[0].join(once[1], of_request + state)
    requests = pairs.groupBy(*of_request, "correlation_id").agg(
        F.max("sent_ms").alias("sent_ms"), F.min("handled_ms").alias("handled_ms"),
        F.max("handled_ms").alias("last_handled_ms"), F.min("sent_ms").alias("first_sent_ms"),
    ).where(
        # Correlation ids begin again when a broker comes back: two requests that share one.
        "sent_ms - first_sent_ms < 5000 AND last_handled_ms - handled_ms < 5000"
    )  # fmt: skip
    whole = requests.join(
        answered.groupBy(*of_request, "correlation_id").agg(
            F.min("answered_ms").alias("answered_ms")
        ),
        [*of_request, "correlation_id"],
        "left",
    )
    found = whole.groupBy("cluster", "controller_id", "broker_id").agg(
        F.count("*").alias("pairs"),
        F.max(F.col("last_handled_ms") - F.col("answered_ms")).alias("low_ms"),
        F.min(F.col("handled_ms") - F.col("sent_ms")).alias("high_ms"),
    )
    return found.select(
        "*",
        F.expr("CASE WHEN low_ms IS NOT NULL THEN (low_ms + high_ms) / 2 END").alias("skew_ms"),
        F.expr("low_ms IS NULL OR low_ms <= high_ms").alias("is_consistent"),
    )
