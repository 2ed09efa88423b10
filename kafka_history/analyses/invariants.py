"""What must hold in every history, checked against this one: a row is a violation."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.rules.tenures import GRACE_MS

from .columns import TOPIC_PARTITION, of_kind
from .partition_states import KEY

COLUMNS: Final = ("rule", "topic", "partition", "at_ms", "says", "file", "line")


def violations(events: DataFrame, states: DataFrame, held: DataFrame) -> DataFrame:
    """Finds what must not be in any history.

    ``rule``, ``topic``, ``partition`` (null where it is about controllers), ``at_ms``, ``says``
    (the violation in words), ``file``, ``line``. Only what a line itself says breaks a rule, not
    what was filled in from an earlier one.

    C02 one broker for each controller epoch, and epochs that grow; P03 the leader is in sync; P07
    leader epochs grow; P12 one leader for each leader epoch.
    """
    found = (
        _controller_epochs(held)
        .unionByName(_leader_outside_isr(states))
        .unionByName(_leader_epochs(states))
        .unionByName(_two_leaders(events, states))
    )
    return found.select(*COLUMNS)


def _controller_epochs(held: DataFrame) -> DataFrame:
    number = Window.partitionBy("controller_epoch")
    order = Window.partitionBy(F.lit(0)).orderBy("from_ms")
    shared = held.withColumn("holders", F.collect_set("broker").over(number)).where(
        F.size("holders") > 1
    )
    before = F.max("controller_epoch").over(order.rowsBetween(Window.unboundedPreceding, -1))
    before_ms = F.max("from_ms").over(order.rowsBetween(Window.unboundedPreceding, -1))
    back = (
        held.where("is_elected")
        .withColumn("before", before)
        .withColumn("before_ms", before_ms)
        .where(
            (F.col("controller_epoch") < F.col("before"))
            & (F.col("from_ms") > F.col("before_ms") + GRACE_MS)
        )
    )
    return _about_controllers(
        shared,
        F.format_string(
            "controller epoch %d was held by brokers %s",
            "controller_epoch",
            F.array_join(F.col("holders").cast("array<string>"), ", "),
        ),
    ).unionByName(
        _about_controllers(
            back,
            F.format_string("controller epoch %d after %d", "controller_epoch", "before"),
        )
    )


def _about_controllers(rows: DataFrame, says: Column) -> DataFrame:
    return rows.select(
        F.lit("C02").alias("rule"),
        F.lit(None).cast("string").alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.col("from_ms").alias("at_ms"),
        says.alias("says"),
        "file",
        "line",
    )


def _leader_outside_isr(states: DataFrame) -> DataFrame:
    return states.where(
        "is_isr_sent AND leader >= 0 AND size(isr) > 0 AND NOT array_contains(isr, leader)"
    ).select(
        F.lit("P03").alias("rule"),
        *TOPIC_PARTITION,
        F.col("time_ms").alias("at_ms"),
        F.format_string(
            "leader %d is not in ISR %s",
            "leader",
            F.array_join(F.col("isr").cast("array<string>"), ","),
        ).alias("says"),
        "file",
        "line",
    )


def _leader_epochs(states: DataFrame) -> DataFrame:
    return states.where(
        "NOT is_deleted AND is_epoch_told AND leader_epoch < previous_epoch"
    ).select(
        F.lit("P07").alias("rule"),
        *TOPIC_PARTITION,
        F.col("time_ms").alias("at_ms"),
        F.format_string("leader epoch %d after %d", "leader_epoch", "previous_epoch").alias("says"),
        "file",
        "line",
    )


def _two_leaders(events: DataFrame, states: DataFrame) -> DataFrame:
    """Leaders that took office in one epoch; a topic that was created again is another topic."""
    started = events.where(of_kind("leader-starts") & F.col("leader_epoch").isNotNull()).select(
        *TOPIC_PARTITION, "topic_id", "leader_epoch", "broker_id", "time_ms", "file", "line"
    )
    told = states.where("leader >= 0 AND is_epoch_told").select(
        *KEY, "leader_epoch", F.col("leader").alias("broker_id"), "time_ms", "file", "line"
    )
    by_topic_id = started.where("topic_id IS NOT NULL").groupBy(
        *TOPIC_PARTITION, "topic_id", "leader_epoch"
    )
    by_state = told.groupBy(*KEY, "leader_epoch")
    found = None
    for grouped in (by_topic_id, by_state):
        both = (
            grouped.agg(
                F.array_sort(F.collect_set("broker_id")).alias("leaders"),
                F.max(F.struct("time_ms", "file", "line")).alias("e"),
            )
            .where(F.size("leaders") > 1)
            .select(
                F.lit("P12").alias("rule"),
                *TOPIC_PARTITION,
                F.col("e.time_ms").alias("at_ms"),
                F.format_string(
                    "brokers %s led in leader epoch %d",
                    F.array_join(F.col("leaders").cast("array<string>"), " and "),
                    "leader_epoch",
                ).alias("says"),
                F.col("e.file").alias("file"),
                F.col("e.line").alias("line"),
            )
        )
        found = both if found is None else found.unionByName(both)
    assert found is not None
    return found.dropDuplicates(["rule", *TOPIC_PARTITION, "says"])
