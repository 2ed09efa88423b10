"""The states of partitions, as they stood in ZooKeeper: one row for each write, from any source.

The same write is logged by the controller that made it, by the leader that asked for it and by the
brokers that received it.  Rows of one write meet by the version of the state znode; lines of
versions that do not print it meet by leader, leader epoch and in-sync replicas.  Rows are in the
order of the writes, not of the clocks.

A topic that was deleted and created again begins anew with leader epoch 0 and version 0: that is
another ``incarnation``, counted from the lines that say that a partition came into being.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, names, of_kind, value

FROM_CONTROLLER: Final = (
    "partition-online",
    "partition-shrunk-offline",
    "ctl-isr-updated",
    "ctl-isr-new",
    "reassign-sent-lisr",
    "leader-epoch-updated",
)
"""Lines of the controller that made the write."""
FROM_LEADER: Final = ("isr-updated", "leader-starts", "isr-shrinking", "isr-expanding")
FROM_WITNESS: Final = ("send-lisr-partition", "lisr-received", "um-cached", "send-um-partition")
BIRTHS: Final = ("partition-new",)
DEATHS: Final = ("um-deleted", "partition-state", "delete-completed")
STATE_KINDS: Final = (*FROM_CONTROLLER, *FROM_LEADER, *FROM_WITNESS, *BIRTHS, *DEATHS)

NO_LEADER, DELETING = -1, -2
GRACE_MS: Final = 2_000
"""What a controller says later than this after its successor's election is not believed."""
KEY: Final = (*TOPIC_PARTITION, "incarnation")


def partition_states(events: DataFrame, held: DataFrame) -> DataFrame:
    """One row for each state of each partition, in order (``number`` counts from 1).

    ``topic``, ``partition``, ``incarnation``, ``number``, ``time_ms``, ``leader`` (-1: none),
    ``leader_epoch``, ``isr``, ``zk_version``, ``recovering``, ``replicas``, ``controller_epoch``,
    ``lost_replica`` (the one a controller took out), ``kind``, ``broker_id`` (who tells it),
    ``is_deleted`` (the partition went away), ``is_epoch_told`` and ``is_isr_sent`` (false: it is
    that of an earlier line; old versions do not print all), evidence, and what stood before:
    ``previous_leader``, ``previous_epoch``, ``previous_isr``, ``previous_version``.

    ``held``: the controllers' tenures; what a deposed controller says is left out.
    """
    told = _reported(_without_deposed(events.where(of_kind(*STATE_KINDS)), held))
    alive = told.where("rank < 3")
    states = _one_of_each(alive).unionByName(_deaths(told), allowMissingColumns=True)
    # While a topic is deleted its replicas are still taken out of ISRs: the death is the last word.
    latest = F.max("time_ms").over(Window.partitionBy(*KEY))
    states = states.withColumn(
        "time_ms", F.when(F.col("is_deleted"), latest).otherwise(F.col("time_ms"))
    )
    by_time = Window.partitionBy(*KEY).orderBy("time_ms", "file", "line")
    so_far = F.last("zk_version", ignorenulls=True).over(by_time)
    # A death has no version and comes last; anything else without one belongs where time puts it.
    placed = states.withColumn(
        "place",
        F.when(F.col("is_deleted"), F.lit(2**31 - 1)).otherwise(F.coalesce(so_far, F.lit(-1))),
    )
    order = Window.partitionBy(*KEY).orderBy("place", "time_ms", "file", "line")
    filled = placed.withColumn("is_epoch_told", F.col("leader_epoch").isNotNull()).withColumn(
        "is_isr_sent", F.col("isr").isNotNull() & F.col("leader").isNotNull()
    )
    for column in ("leader", "isr", "controller_epoch", "replicas"):
        known = F.last(column, ignorenulls=True).over(order)
        filled = filled.withColumn(column, F.when(F.col("is_deleted"), None).otherwise(known))
    # An epoch belongs to a leader: what was said of another one says nothing of this one.
    last_told = F.last(
        F.when(F.col("is_epoch_told"), F.struct("leader", "leader_epoch")), ignorenulls=True
    ).over(order)
    is_same = last_told["leader"].eqNullSafe(F.col("leader"))
    filled = filled.withColumn(
        "leader_epoch",
        F.when(~F.col("is_deleted") & is_same, last_told["leader_epoch"]),
    )
    is_news = (
        F.col("is_deleted")
        | F.lag("time_ms").over(order).isNull()
        | ~F.col("leader").eqNullSafe(F.lag("leader").over(order))
        | ~F.col("leader_epoch").eqNullSafe(F.lag("leader_epoch").over(order))
        | ~F.col("isr").eqNullSafe(F.lag("isr").over(order))
    )
    news = filled.withColumn("is_news", is_news).where("is_news")
    return news.select(
        *KEY,
        F.row_number().over(order).alias("number"),
        "time_ms",
        "leader",
        "leader_epoch",
        "isr",
        "zk_version",
        "recovering",
        "replicas",
        "controller_epoch",
        "lost_replica",
        "kind",
        "broker_id",
        "is_deleted",
        "is_epoch_told",
        "is_isr_sent",
        "file",
        "line",
        F.lag("leader").over(order).alias("previous_leader"),
        F.lag("leader_epoch").over(order).alias("previous_epoch"),
        F.lag("isr").over(order).alias("previous_isr"),
        F.lag("zk_version").over(order).alias("previous_version"),
    )


def _without_deposed(rows: DataFrame, held: DataFrame) -> DataFrame:
    """Rows without those of deposed controllers; ``held`` has the tenures."""
    ends = (
        held.where("to_ms IS NOT NULL")
        .groupBy(F.col("broker").alias("held_by"), F.col("controller_epoch").alias("held_epoch"))
        .agg(F.max("to_ms").alias("held_to_ms"))
    )
    is_after = (
        (F.col("component") == "controller")
        & (F.col("held_by") == F.col("broker_id"))
        & (F.col("held_epoch") == F.col("controller_epoch"))
        & (F.col("time_ms") > F.col("held_to_ms") + GRACE_MS)
    )
    return rows.join(F.broadcast(ends), is_after, "left_anti")


def _reported(rows: DataFrame) -> DataFrame:
    """Every row about a partition's state, with the incarnation of the topic."""
    of_topic = rows.where(of_kind("delete-completed")).select(
        value("topic").alias("gone_topic"), "topic", "time_ms"
    )
    gone = of_topic.select(F.coalesce("topic", "gone_topic").alias("topic"), "time_ms")
    isr = F.when(of_kind("isr-shrinking", "isr-expanding"), _shrunk_to()).otherwise(F.col("isr"))
    said = rows.where("topic IS NOT NULL AND partition IS NOT NULL").select(
        *TOPIC_PARTITION,
        "time_ms",
        "kind",
        F.when(
            of_kind("isr-updated", "isr-shrinking", "isr-expanding", "leader-starts"),
            F.col("broker_id"),
        )
        .otherwise(F.col("leader"))
        .alias("leader"),
        "leader_epoch",
        isr.alias("isr"),
        "zk_version",
        (F.col("leader_recovery_state") == 1).alias("recovering"),
        "replicas",
        F.coalesce("state_controller_epoch", "controller_epoch").alias("controller_epoch"),
        F.when(of_kind("partition-shrunk-offline"), F.col("replica")).alias("lost_replica"),
        "from_state",
        "to_state",
        "broker_id",
        "file",
        "line",
        F.when(of_kind(*BIRTHS), -1)
        .when(of_kind(*FROM_CONTROLLER), 0)
        .when(of_kind(*FROM_LEADER), 1)
        .when(of_kind(*FROM_WITNESS), 2)
        .otherwise(3)
        .alias("rank"),
    )
    is_deletion = (F.col("rank") < 3) & (F.col("leader") == DELETING)
    said = said.where(~F.coalesce(is_deletion, F.lit(False)))
    by_time = Window.partitionBy(*TOPIC_PARTITION).orderBy("time_ms", "rank", "file", "line")
    whole = Window.partitionBy(*TOPIC_PARTITION)
    is_birth = F.when(
        F.max((F.col("rank") == -1).cast("int")).over(whole) == 1, F.col("rank") == -1
    ).otherwise(F.coalesce(F.col("from_state") == "NewPartition", F.lit(False)))
    counted = said.withColumn("incarnation", F.sum(is_birth.cast("int")).over(by_time))
    # Before the first birth that the logs know, and without any, it is number 0.
    return _with_topic_ends(counted, gone)


def _with_topic_ends(told: DataFrame, gone: DataFrame) -> DataFrame:
    """Adds a death for each partition of a topic whose deletion was completed."""
    last = (
        told.where("rank < 3")
        .groupBy(*KEY)
        .agg(
            F.min("time_ms").alias("first_ms"), F.max("controller_epoch").alias("controller_epoch")
        )
    )
    ends = (
        last.join(
            gone.withColumnRenamed("topic", "gone_topic"),
            (F.col("gone_topic") == F.col("topic")) & (F.col("time_ms") > F.col("first_ms")),
        )
        .groupBy(*KEY)
        .agg(F.min("time_ms").alias("time_ms"))
        .withColumn("kind", F.lit("delete-completed"))
        .withColumn("rank", F.lit(3))
        .withColumn("to_state", F.lit("NonExistentPartition"))
    )
    return told.unionByName(ends, allowMissingColumns=True)


def _one_of_each(told: DataFrame) -> DataFrame:
    """One row for each write: the best source's, completed by the others."""
    # concat_ws would drop what is null, and take rows for one write that are none.
    isr = F.array_join(F.col("isr").cast("array<string>"), ",")
    epoch = F.concat_ws(
        ":",
        F.lit("e"),
        *(
            F.coalesce(told.cast("string"), F.lit("?"))
            for told in (F.col("leader_epoch"), F.col("leader"), isr)
        ),
    )
    write = F.coalesce(F.concat(F.lit("v"), F.col("zk_version").cast("string")), epoch)
    kept = told.where("rank >= 0").withColumn("write", write)
    order = F.struct("rank", "time_ms", "file", "line")

    def best(column: str) -> Column:
        return F.min_by(column, F.when(F.col(column).isNotNull(), order)).alias(column)

    return (
        kept.groupBy(*KEY, "write")
        .agg(
            *(
                best(column)
                for column in (
                    "leader",
                    "leader_epoch",
                    "isr",
                    "zk_version",
                    "replicas",
                    "controller_epoch",
                    "lost_replica",
                )
            ),
            F.max("recovering").alias("recovering"),
            *(
                F.min_by(column, order).alias(column)
                for column in ("time_ms", "kind", "broker_id", "file", "line")
            ),
        )
        .drop("write")
        .withColumn("is_deleted", F.lit(False))
    )


def _deaths(told: DataFrame) -> DataFrame:
    is_gone = (F.col("kind") != "partition-state") | (F.col("to_state") == "NonExistentPartition")
    return (
        told.where((F.col("rank") == 3) & is_gone)
        .groupBy(*KEY)
        .agg(F.min(F.struct("time_ms", "kind", "broker_id", "file", "line")).alias("e"))
        .select(*KEY, "e.*", F.lit(True).alias("is_deleted"))
    )


def _shrunk_to() -> Column:
    """The ISR a leader asks for, from the line's own words where no column has it."""
    words = F.regexp_extract("text", r" to ([\d,]+)", 1)
    return F.coalesce("isr", names(words).cast("array<int>"))
