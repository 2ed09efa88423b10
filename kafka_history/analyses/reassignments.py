"""Reassignments: what was ordered, how long the copying took, and how each one ended.

Since Kafka 2.4 the controller writes these lines for one partition, in this order::

    move            Updating assignment, Successfully updated (begun), Target replicas … caught up,
                    Leader …, Successfully updated (ended)
    cancellation    Updating assignment, Successfully updated (confirmed), Leader …,
                    Successfully updated (ended)
    other order     the same as a cancellation, but no reassignment is in progress
    no change       Leader …, Successfully updated (ended)

So a "Successfully updated" without adding and removing replicas ends a reassignment only if the
line before it is "Leader …".  "Updating assignment" is DEBUG and may be missing.

Source: Kafka 3.9 ``KafkaController.onPartitionReassignment``, ``updateCurrentReassignment``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, ids, of_kind, value

# Kafka before 2.4.
OLD = ("reassign-handling", "reassign-assigned")
KINDS = (
    *OLD,
    "reassign-updating",
    "reassign-updated",
    "reassign-leader",
    "reassign-caught-up",
    "reassign-error",
)


def reassignments(events: DataFrame) -> DataFrame:
    """Finds the reassignments, one row for each order about a partition.

    Columns: ``topic``, ``partition``, ``from_ms``, ``caught_up_ms``, ``to_ms`` (null: it did not
    end), ``took_ms``, ``outcome``, ``old_replicas``, ``new_replicas``, ``adding``, ``removing``,
    ``problem`` (an error on the way), and evidence: ``file``, ``line``, ``end_file``, ``end_line``.

    ``outcome`` is ``completed``, ``cancelled``, ``order only`` (the same replicas in another
    order), ``no change`` (the partition had these replicas already), or null while it goes on.
    """
    adding = F.coalesce("adding_replicas", ids(value("target_adding")))
    removing = F.coalesce("removing_replicas", ids(value("target_removing")))
    is_settled = (F.size(adding) == 0) & (F.size(removing) == 0)
    was_moving = (F.size(ids(value("before_adding"))) > 0) | (
        F.size(ids(value("before_removing"))) > 0
    )
    order = Window.partitionBy(*TOPIC_PARTITION).orderBy("at_ms", "file", "line")
    is_old = of_kind(*OLD)
    said = (
        events.where(of_kind(*KINDS) & F.col("topic").isNotNull())
        .withColumn("at_ms", F.col("time_ms"))
        .withColumn("previous", F.lag("kind").over(order))
    )
    what = (
        F.when(of_kind("reassign-handling"), "begun")
        .when(of_kind("reassign-assigned"), "ended")
        .when(of_kind("reassign-updating", "reassign-updated") & ~is_settled, "begun")
        .when(of_kind("reassign-updating") & was_moving, "cancelled")
        .when(of_kind("reassign-updating"), "rewritten")
        .when(of_kind("reassign-updated") & (F.col("previous") == "reassign-leader"), "ended")
        .when(of_kind("reassign-updated"), "rewritten")
        .when(of_kind("reassign-leader"), "switched")
        .when(of_kind("reassign-caught-up"), "caught up")
        .when(of_kind("reassign-error"), "problem")
    )
    before_replicas = ids(value("before_replicas"))
    steps = said.select(
        *TOPIC_PARTITION,
        "at_ms",
        what.alias("what"),
        is_old.alias("is_old"),
        F.when(F.size(before_replicas) > 0, before_replicas).alias("old"),
        F.when((what == "ended") & (is_settled | is_old), F.col("replicas")).alias("new"),
        F.when(~is_settled, adding).alias("adding"),
        F.when(~is_settled, removing).alias("removing"),
        F.substring("text", 1, 300).alias("words"),
        "file",
        "line",
    )
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    number = F.coalesce(F.sum((F.col("what") == "ended").cast("int")).over(before), F.lit(0))
    evidence = F.struct("at_ms", "file", "line")

    def first(*names: str) -> Column:
        return F.min(F.when(F.col("what").isin(*names), evidence))

    def known(name: str) -> Column:
        return F.min_by(name, F.when(F.col(name).isNotNull(), F.struct("at_ms", "line")))

    def last_known(name: str) -> Column:
        return F.max_by(name, F.when(F.col(name).isNotNull(), F.struct("at_ms", "line")))

    # A reassignment in progress whose assignment is rewritten to a settled one is a cancelled one.
    outcome = (
        F.when(F.col("e").isNull(), None)
        .when(F.col("b").isNotNull() & F.col("r").isNotNull(), "cancelled")
        .when(F.col("is_cancelled"), "cancelled")
        .when(F.col("b").isNotNull(), "completed")
        .when(F.col("r").isNotNull(), "order only")
        .otherwise("no change")
    )
    start = F.coalesce("b", "r", "s")
    return (
        steps.withColumn("number", number)
        .groupBy(*TOPIC_PARTITION, "number")
        .agg(
            first("begun").alias("b"),
            first("cancelled", "rewritten").alias("r"),
            first("switched").alias("s"),
            first("caught up").alias("c"),
            first("ended").alias("e"),
            F.max(F.col("what") == "cancelled").alias("is_cancelled"),
            F.max("is_old").alias("is_old"),
            known("old").alias("old_replicas"),
            last_known("new").alias("new_replicas"),
            last_known("adding").alias("adding"),
            last_known("removing").alias("removing"),
            F.min(F.when(F.col("what") == "problem", F.col("words"))).alias("problem"),
        )
        # What has neither a beginning nor an order of its own began where the logs do not reach.
        # Before 2.4 the last two lines of a move look like an order without a change.
        .where(
            "b IS NOT NULL OR (NOT is_old AND c IS NULL AND (r IS NOT NULL OR "
            "(s IS NOT NULL AND e IS NOT NULL)))"
        )
        .select(
            *TOPIC_PARTITION,
            start["at_ms"].alias("from_ms"),
            F.col("c.at_ms").alias("caught_up_ms"),
            F.col("e.at_ms").alias("to_ms"),
            (F.col("e.at_ms") - start["at_ms"]).alias("took_ms"),
            outcome.alias("outcome"),
            "old_replicas",
            "new_replicas",
            "adding",
            "removing",
            "problem",
            start["file"].alias("file"),
            start["line"].alias("line"),
            F.col("e.file").alias("end_file"),
            F.col("e.line").alias("end_line"),
        )
    )
