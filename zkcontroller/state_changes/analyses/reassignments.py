"""Reassignments: from the order to the last replica removed, and how long the copying took."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, ids, of_kind, value

BEGUN = ("reassign-updating", "reassign-handling")
ENDED = ("reassign-updated", "reassign-assigned")
KINDS = (*BEGUN, *ENDED, "reassign-caught-up", "reassign-error", "reassign-skipped")


def reassignments(events: DataFrame) -> DataFrame:
    """Finds the moves of partitions.

    One row for each move of a partition: ``topic``, ``partition``, ``from_ms``, ``caught_up_ms``,
    ``to_ms`` (null: it was not completed), ``took_ms``, ``old_replicas``, ``new_replicas``,
    ``adding``, ``removing``, ``problem`` (an error on the way), and evidence: ``file``, ``line``,
    ``end_file``, ``end_line``.
    """
    adding = F.coalesce("adding_replicas", ids(value("target_adding")))
    removing = F.coalesce("removing_replicas", ids(value("target_removing")))
    is_done = (F.size(adding) == 0) & (F.size(removing) == 0)
    is_old = of_kind("reassign-handling", "reassign-assigned")
    # "Updating assignment" comes before the move and before its end: what it leads to tells which.
    what = (
        F.when(of_kind(*BEGUN) & (~is_done | is_old), "begun")
        .when(of_kind("reassign-updated") & ~is_done, "begun")
        .when(of_kind(*ENDED), "ended")
        .when(of_kind("reassign-caught-up"), "caught up")
        .when(of_kind("reassign-error"), "problem")
    )
    said = (
        events.where(of_kind(*KINDS) & F.col("topic").isNotNull())
        .select(
            *TOPIC_PARTITION,
            F.col("time_ms").alias("at_ms"),
            what.alias("what"),
            F.when(F.size(ids(value("before_replicas"))) > 0, ids(value("before_replicas"))).alias(
                "old"
            ),
            F.when(of_kind(*ENDED) & (is_done | is_old), F.col("replicas")).alias("new"),
            F.when(~is_done, adding).alias("adding"),
            F.when(~is_done, removing).alias("removing"),
            F.substring("text", 1, 300).alias("words"),
            "file",
            "line",
        )
        .where("what IS NOT NULL")
    )
    order = Window.partitionBy(*TOPIC_PARTITION).orderBy("at_ms", "file", "line")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    number = F.coalesce(F.sum((F.col("what") == "ended").cast("int")).over(before), F.lit(0))
    evidence = F.struct("at_ms", "file", "line")

    def first(name: str) -> Column:
        return F.min(F.when(F.col("what") == name, evidence))

    def known(name: str) -> Column:
        return F.min_by(name, F.when(F.col(name).isNotNull(), F.col("at_ms")))

    return (
        said.withColumn("number", number)
        .groupBy(*TOPIC_PARTITION, "number")
        .agg(
            first("begun").alias("b"),
            first("caught up").alias("c"),
            first("ended").alias("e"),
            known("old").alias("old_replicas"),
            known("new").alias("new_replicas"),
            known("adding").alias("adding"),
            known("removing").alias("removing"),
            F.min(F.when(F.col("what") == "problem", F.col("words"))).alias("problem"),
        )
        # An end without a beginning is a move that the logs do not show, or none at all.
        .where("b IS NOT NULL")
        .select(
            *TOPIC_PARTITION,
            F.col("b.at_ms").alias("from_ms"),
            F.col("c.at_ms").alias("caught_up_ms"),
            F.col("e.at_ms").alias("to_ms"),
            (F.col("e.at_ms") - F.col("b.at_ms")).alias("took_ms"),
            "old_replicas",
            "new_replicas",
            "adding",
            "removing",
            "problem",
            F.col("b.file").alias("file"),
            F.col("b.line").alias("line"),
            F.col("e.file").alias("end_file"),
            F.col("e.line").alias("end_line"),
        )
    )
