"""Compares the state at the end of the logs with ZooKeeper."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, of_kind

SNAPSHOT_SCHEMA: Final = (
    "topic string, partition int, leader int, leader_epoch int, isr array<int>, zk_version int"
)
"""What a snapshot must tell of each partition; ``zkctl partition list -o json`` does."""


def cluster_ids(events: DataFrame) -> list[str]:
    """The ids of the clusters that brokers named when they started."""
    said = F.regexp_extract("text", r"Cluster ID = (\S+)", 1)
    named = events.where(of_kind("server-start-steps")).select(said.alias("id")).where("id <> ''")
    return sorted(row["id"] for row in named.distinct().collect())


def audit(at_end: DataFrame, snapshot: DataFrame) -> DataFrame:
    """Compares the end of the logs with a snapshot of ZooKeeper.

    One row for each partition that differs: ``topic``, ``partition``, ``verdict``, ``says``,
    ``file``, ``line`` (of the last state in the logs).

    ``verdict``: ``moved_on`` (ZooKeeper is newer: something happened that the logs do not show),
    ``went_back`` (ZooKeeper is older than the logs: it was restored, or edited), ``contradicts``
    (the same version, other contents), ``not_in_logs``, ``not_in_zookeeper``.
    """
    logs = at_end.select(
        *TOPIC_PARTITION,
        F.struct("leader", "leader_epoch", "isr", "zk_version").alias("l"),
        "file",
        "line",
    )
    stored = snapshot.select(
        *TOPIC_PARTITION, F.struct("leader", "leader_epoch", "isr", "zk_version").alias("z")
    )
    met = logs.join(stored, [*TOPIC_PARTITION], "full")
    version = F.col("z.zk_version") - F.col("l.zk_version")
    epoch = F.col("z.leader_epoch") - F.col("l.leader_epoch")
    newer = F.coalesce(F.when(version != 0, version), F.when(epoch != 0, epoch), F.lit(0))
    # An ISR is a set: only its order may differ between a line and the znode.
    same = F.col("l.leader").eqNullSafe(F.col("z.leader")) & F.array_sort("l.isr").eqNullSafe(
        F.array_sort("z.isr")
    )
    verdict = (
        F.when(F.col("z").isNull(), "not_in_zookeeper")
        .when(F.col("l").isNull(), "not_in_logs")
        .when(newer > 0, "moved_on")
        .when(newer < 0, "went_back")
        .when(~same, "contradicts")
    )

    def words(side: str) -> Column:
        return F.format_string(
            "leader %d, ISR %s, leader epoch %d, version %d",
            F.col(f"{side}.leader"),
            F.array_join(F.col(f"{side}.isr").cast("array<string>"), ","),
            F.col(f"{side}.leader_epoch"),
            F.col(f"{side}.zk_version"),
        )

    says = (
        F.when(F.col("z").isNull(), F.concat(F.lit("logs: "), words("l")))
        .when(F.col("l").isNull(), F.concat(F.lit("ZooKeeper: "), words("z")))
        .otherwise(F.concat(F.lit("logs: "), words("l"), F.lit("; ZooKeeper: "), words("z")))
    )
    return (
        met.withColumn("verdict", verdict)
        .where("verdict IS NOT NULL")
        .select(*TOPIC_PARTITION, "verdict", says.alias("says"), "file", "line")
    )
