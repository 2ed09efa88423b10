"""Deletions of topics: from the order to the last znode, and what held them up."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import names, of_kind, value

BEGUN = ("delete-starting", "delete-restarted", "delete-handling")
ENDED = ("delete-completed",)
BLOCKED = ("delete-halted", "delete-dead-replicas", "delete-failed-replicas", "delete-retry")


def topic_deletions(events: DataFrame) -> DataFrame:
    """Finds the deletions of topics.

    One row for each deletion: ``topic``, ``from_ms``, ``to_ms`` (null: not completed),
    ``took_ms``, ``halts`` (how often it was held up), ``blocked_by`` (in the log's words; null:
    nothing), and evidence: ``file``, ``line``, ``end_file``, ``end_line``.
    """
    of_topics = F.array_distinct(
        F.concat(
            F.array_compact(F.array("topic", value("topic"))),
            names(value("topics")),
        )
    )
    what = F.when(of_kind(*BEGUN), "begun").when(of_kind(*ENDED), "ended").otherwise("blocked")
    said = events.where(of_kind(*BEGUN, *ENDED, *BLOCKED)).select(
        F.explode(of_topics).alias("topic"),
        F.col("time_ms").alias("at_ms"),
        what.alias("what"),
        F.coalesce(value("reason"), "reason", F.substring("text", 1, 300)).alias("words"),
        "file",
        "line",
    )
    order = Window.partitionBy("topic").orderBy("at_ms", "file", "line")
    # A deletion is everything up to its completion; what follows it is the next one's.
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    number = F.coalesce(F.sum((F.col("what") == "ended").cast("int")).over(before), F.lit(0))
    evidence = F.struct("at_ms", "file", "line")

    def when(name: str) -> Column:
        return F.when(F.col("what") == name, evidence)

    return (
        said.withColumn("number", number)
        .groupBy("topic", "number")
        .agg(
            F.min(when("begun")).alias("b"),
            F.max(when("ended")).alias("e"),
            F.count_if(F.col("what") == "blocked").alias("halts"),
            F.max_by("words", F.when(F.col("what") == "blocked", F.col("at_ms"))).alias(
                "blocked_by"
            ),
        )
        .select(
            "topic",
            F.coalesce("b.at_ms", "e.at_ms").alias("from_ms"),
            F.col("e.at_ms").alias("to_ms"),
            (F.col("e.at_ms") - F.col("b.at_ms")).alias("took_ms"),
            "halts",
            "blocked_by",
            F.coalesce("b.file", "e.file").alias("file"),
            F.coalesce("b.line", "e.line").alias("line"),
            F.col("e.file").alias("end_file"),
            F.col("e.line").alias("end_line"),
        )
        .where("from_ms IS NOT NULL")
    )
