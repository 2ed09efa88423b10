"""Unclean elections: a leader that was not in sync, and the records that went with it.

From 1.1 on no line says it outright.  Three proofs are accepted: the state says ``RECOVERING`` (3.2
and newer); an old line says it (0.11 to 1.0); or a leader was written that the state before it did
not have among its in-sync replicas, and that stands alone in its own.  Between the two no replica
may have joined: leaders take replicas in without a new epoch, and what a controller writes raises
it, so the epoch must have risen as often as the version.  Any other gap proves nothing.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, of_kind, value
from .partition_states import KEY

LOSS_MS: Final = 86_400_000
"""A replica that returns later than this after the election is not looked for."""


def unclean_elections(events: DataFrame, states: DataFrame) -> DataFrame:
    """Finds unclean elections and what they cost.

    One row for each: ``topic``, ``partition``, ``incarnation``, ``at_ms``, ``leader``,
    ``leader_epoch``, ``last_isr`` (who was in sync), ``proof``, ``leader_offset`` (where the new
    leader's log ended), ``lost_records`` (what a returning replica had to throw away; null:
    unknown), ``lost_from`` and ``lost_to`` (its offsets), ``truncated_by``, ``file``, ``line``.
    """
    elected = F.col("leader") >= 0
    is_outsider = ~F.array_contains("previous_isr", F.col("leader"))
    writes = F.col("zk_version") - F.col("previous_version")
    elections = F.col("leader_epoch") - F.col("previous_epoch")
    no_one_joined = (writes == 1) | ((writes > 1) & (writes == elections))
    alone = (F.size("isr") == 1) & (F.element_at("isr", 1) == F.col("leader"))
    by_state = (
        states.where(elected & ~F.col("is_deleted"))
        .where(
            (F.col("recovering") & F.coalesce(is_outsider, F.lit(True)))
            | (is_outsider & no_one_joined & alone & (F.size("previous_isr") > 0))
        )
        .select(
            *KEY,
            F.col("time_ms").alias("at_ms"),
            "leader",
            "leader_epoch",
            F.col("previous_isr").alias("last_isr"),
            F.when(F.col("recovering"), "RECOVERING")
            .otherwise("leader was not in sync")
            .alias("proof"),
            "file",
            "line",
        )
    )
    said = events.where(of_kind("election-unclean", "leader-recovered")).select(
        *TOPIC_PARTITION,
        F.col("time_ms").alias("at_ms"),
        F.coalesce("leader", "broker_id").alias("leader"),
        F.lit("the log says so").alias("proof"),
        "file",
        "line",
    )
    # What a state has proven already needs no second proof.
    alone_said = said.join(
        by_state.select(
            F.col("topic").alias("t"),
            F.col("partition").alias("p"),
            F.col("leader").alias("l"),
            F.col("at_ms").alias("known_ms"),
        ),
        (F.col("t") == F.col("topic"))
        & (F.col("p") == F.col("partition"))
        & (F.col("l") == F.col("leader"))
        & F.col("at_ms").between(F.col("known_ms") - 60_000, F.col("known_ms") + 60_000),
        "left_anti",
    )
    found = by_state.unionByName(alone_said, allowMissingColumns=True)
    return _with_losses(found, events)


def _with_losses(found: DataFrame, events: DataFrame) -> DataFrame:
    """Adds what the logs tell of lost records.

    A follower says where its log ends when it starts (3.3 and newer) or when it was loaded, and
    then to which offset it truncates: what lies between is lost.
    """
    victims = F.broadcast(found.select(*TOPIC_PARTITION).distinct())
    loaded_end = F.regexp_extract("text", r"(?:logEndOffset=|log-end-offset |end offset )(\d+)", 1)
    loaded_topic = F.regexp_extract("text", r"topic=([^,]+), partition=(\d+)", 1)
    loaded_partition = F.regexp_extract("text", r"topic=([^,]+), partition=(\d+)", 2)
    cut = of_kind("truncating-epoch", "log-truncating", "truncating-below-hw")
    rows = (
        events.where(of_kind("follower-starts", "leader-starts", "log-load-completed") | cut)
        .select(
            F.coalesce("topic", F.nullif(loaded_topic, F.lit(""))).alias("topic"),
            F.coalesce("partition", loaded_partition.try_cast("int")).alias("partition"),
            F.col("time_ms").alias("seen_ms"),
            F.col("broker_id").alias("seen_by"),
            F.when(of_kind("leader-starts"), "leader")
            .when(cut, "cut")
            .otherwise("end")
            .alias("what"),
            F.coalesce(
                F.when(of_kind("log-load-completed"), loaded_end.try_cast("bigint")),
                F.col("offset"),
                value("offset").try_cast("bigint"),
            ).alias("seen_offset"),
            F.col("leader_epoch").alias("seen_epoch"),
        )
        .join(victims, [*TOPIC_PARTITION])
    )
    same = [F.col(f"f.{name}") == F.col(f"r.{name}") for name in TOPIC_PARTITION]
    met = found.alias("f").join(
        rows.alias("r"),
        same[0]
        & same[1]
        & (F.col("seen_ms") >= F.col("at_ms") - 1000)
        & (F.col("seen_ms") <= F.col("at_ms") + LOSS_MS),
        "left",
    )
    columns = [f"f.{name}" for name in found.columns]
    by_broker = met.groupBy(*columns, "seen_by").agg(
        F.min_by(
            "seen_offset",
            F.when(
                (F.col("what") == "leader") & (F.col("seen_by") == F.col("f.leader")),
                F.col("seen_ms"),
            ),
        ).alias("leader_offset"),
        F.min(F.when(F.col("what") == "cut", F.struct("seen_ms", "seen_offset"))).alias("cut"),
        F.min(F.when(F.col("what") == "end", F.struct("seen_ms", "seen_offset"))).alias("end"),
    )
    lost = F.when(
        (F.col("seen_by") != F.col("leader")) & (F.col("end.seen_ms") <= F.col("cut.seen_ms")),
        F.greatest(F.col("end.seen_offset") - F.col("cut.seen_offset"), F.lit(0)),
    )
    plain = by_broker.withColumn("lost", lost)
    return plain.groupBy(*found.columns).agg(
        F.max("leader_offset").alias("leader_offset"),
        F.max("lost").alias("lost_records"),
        F.max_by("cut.seen_offset", "lost").alias("lost_from"),
        F.max_by("end.seen_offset", "lost").alias("lost_to"),
        F.max_by("seen_by", "lost").alias("truncated_by"),
    )
