"""Lines that stand in two files: what a broker prints goes to ``server.log`` and to its console.

``kafkaServer.out``, ``console.log`` or what ``kubectl logs`` saved repeat ``server.log``, whole or
in part, and under rotated names in other pieces.  Counting both would report every death twice.  So
of lines that are equal, of one broker and of one millisecond, but from several files, one is kept.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules.copies import CHANGE_COLUMNS, STATE_CHANGE_LOGGER

_OWN_FILES: Final = r"^(server|controller|state-change|log-cleaner|kafka-[a-z]+)\.log"
"""The names that Kafka's own configuration gives: of equal lines theirs is the evidence."""
_SAME: Final = ("broker_id", "time_ms", "level", "logger", "exception_message")
"""Lines that are equal in these, and in what :func:`_said` gives, are the same line."""


def overlapping_files(events: DataFrame) -> DataFrame:
    """The files that may repeat others: ``file``, one row each.

    They are of one broker, and some logger speaks in two of them at the same time; in logs that
    are there once, a logger has one file at a time.
    """
    spoke = (
        events.where("logger IS NOT NULL AND time_ms IS NOT NULL")
        .groupBy("broker_id", "logger", "file")
        .agg(F.min("time_ms").alias("from_ms"), F.max("time_ms").alias("to_ms"))
    )
    other = spoke.select(
        F.col("broker_id").alias("b"),
        F.col("logger").alias("l"),
        F.col("file").alias("other_file"),
        F.col("from_ms").alias("other_from_ms"),
        F.col("to_ms").alias("other_to_ms"),
    )
    is_beside = (
        F.col("broker_id").eqNullSafe(F.col("b"))
        & (F.col("logger") == F.col("l"))
        & (F.col("file") != F.col("other_file"))
        & (F.col("from_ms") <= F.col("other_to_ms"))
        & (F.col("other_from_ms") <= F.col("to_ms"))
    )
    return spoke.join(F.broadcast(other), is_beside, "left_semi").select("file").distinct()


def without_copies(events: DataFrame, files: DataFrame) -> DataFrame:
    """The rows without those that another file has as well; ``files``: those that may repeat."""
    ranked = _ranked(events, files)
    # Every analysis reads these rows, and comparing texts costs more than keeping them.
    kept = ranked.where("copy = 1 OR time_ms IS NULL").select(*events.columns).persist()
    others = events.join(F.broadcast(files), "file", "left_anti").select(*events.columns)
    return others.unionByName(kept)


def copies(events: DataFrame, files: DataFrame) -> DataFrame:
    """What was left out: ``file``, ``records``, ``of`` (the first file that has them), ``line``."""
    return (
        _ranked(events, files)
        .where("copy > 1 AND time_ms IS NOT NULL")
        .groupBy("file")
        .agg(
            F.count("*").alias("records"),
            F.min("original").alias("of"),
            F.min("line").alias("line"),
        )
    )


def _ranked(events: DataFrame, files: DataFrame) -> DataFrame:
    """The rows of these files; ``copy`` counts equal ones, ``original`` is the first file."""
    # A file may say the same twice in a millisecond, and means it twice.
    within = Window.partitionBy(*_SAME, _said(), "file").orderBy("line")
    name = F.substring_index("file", "/", -1)
    order = Window.partitionBy(*_SAME, _said(), "time_in_file").orderBy(
        F.desc(name.rlike(_OWN_FILES)), "file"
    )
    return (
        events.join(F.broadcast(files), "file", "left_semi")
        .withColumn("time_in_file", F.row_number().over(within))
        .withColumn("copy", F.row_number().over(order))
        .withColumn("original", F.first("file").over(order))
    )


def _said() -> Column:
    """The text; of a state change what its line and its record have in common."""
    is_change = (F.col("logger") == STATE_CHANGE_LOGGER) & F.col("kind").isNotNull()
    columns = F.to_json(F.struct(*CHANGE_COLUMNS))
    return F.when(is_change, columns).otherwise(F.col("text"))
