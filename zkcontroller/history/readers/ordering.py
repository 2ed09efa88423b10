"""One order over the rows of all brokers, and how far their clocks are apart.

Time alone does not order what brokers say: each stamps with its own clock.  Epochs do: a controller
epoch, then a leader epoch, then the version of the state znode never fall.  Clocks are compared by
what cannot be otherwise: a request is handled after it was sent, and answered before the answer
arrives, so the handling broker's clock is ahead of the sender's by less than *handled - sent* and
by more than *handled - answered*.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)


def in_order(events: DataFrame) -> DataFrame:
    """The rows sorted: by controller epoch, leader epoch, zk_version, then time, file and line.

    Rows that name no controller epoch take that of the last row before them, by time, in their
    cluster that does; a partition's missing leader epoch and version likewise, within the
    partition.  The columns ``known_controller_epoch``, ``known_leader_epoch`` and
    ``known_zk_version`` are added.
    """
    time = ("time_ms", "file", "line")
    cluster = Window.partitionBy("cluster").orderBy(*time)
    partition = Window.partitionBy("cluster", "topic", "partition").orderBy(*time)

    def last(name: str, over: WindowSpec) -> Column:
        return F.last(name, ignorenulls=True).over(over)

    known = (
        events.withColumn("known_controller_epoch", last("controller_epoch", cluster))
        .withColumn("known_leader_epoch", last("leader_epoch", partition))
        .withColumn("known_zk_version", last("zk_version", partition))
    )
    return known.orderBy(
        "cluster", "known_controller_epoch",
        F.coalesce("known_leader_epoch", F.lit(-1)), F.coalesce("known_zk_version", F.lit(-1)),
        *time,
    )  # fmt: skip


def contradictions(events: DataFrame) -> DataFrame:
    """Where the clocks and the epochs disagree: a state with a newer epoch at an earlier time.

    One row per such pair of the controllers' states of a partition: ``cluster``, ``topic``,
    ``partition``, ``leader_epoch``, ``broker_id``, ``file``, ``line``, ``time_ms``, and
    ``earlier_epoch``, ``earlier_time_ms`` of the state that epochs put before it; ``behind_ms`` is
    by how much the clocks put it after.
    """
    # A topic that was created again begins at epoch 0 once more: a life of its own.
    life = Window.partitionBy("cluster", "topic", "partition").orderBy("time_ms", "file", "line")
    states = (
        events.where("kind IN ('partition-online', 'partition-shrunk-offline')")
        .where("leader_epoch IS NOT NULL")
        .withColumn("life", F.sum(F.expr("int(from_state <=> 'NewPartition')")).over(life))
    )
    order = Window.partitionBy("cluster", "topic", "partition", "life").orderBy(
        "leader_epoch", "zk_version", "time_ms"
    )
    return (
        states.withColumn("earlier_epoch", F.lag("leader_epoch").over(order))
        .withColumn("earlier_time_ms", F.lag("time_ms").over(order))
        .withColumn("behind_ms", F.col("earlier_time_ms") - F.col("time_ms"))
        .where("earlier_epoch < leader_epoch AND behind_ms > 0")
        .select(
            "cluster", "topic", "partition", "leader_epoch", "broker_id", "file", "line",
            "time_ms", "earlier_epoch", "earlier_time_ms", "behind_ms",
        )
    )  # fmt: skip


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
