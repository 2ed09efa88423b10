"""Windows in which partitions had no leader: begin, end and cause.

A window begins with the death or the pause of the leader (:mod:`.dead_leaders`); the controller
notices it later, where the next state is written. Where the leader did not die, a window begins
where the state of the partition says leader -1, or where the controller failed to take it from
OfflinePartition to OnlinePartition. *Online to Offline* is TRACE in every version, so at default
levels it is not there; where it is, the window begins with it. An offline moment that ends with an
election at once (every loss of a leader passes through one) is no window unless the state znode
said -1. A window ends with the next leader, or with the deletion of the topic; one that a deletion
opened is none.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import TOPIC_PARTITION, names, of_kind, value
from .dead_leaders import dead_leaders

CAUSE_MS: Final = 180_000
"""A leader that was lost longer ago than this before the window is not its cause."""
SLACK_MS: Final = 2_000
"""Brokers' clocks and the order of files allow this much."""
TRANSIENT_MS: Final = 1_000
"""An offline moment shorter than this is part of an election, unless the state znode said -1."""
CAUSES: Final = {
    "killed": "died",
    "lost": "went away",
    "clean_shutdown": "was stopped",
    "open": "was stopped",
    "paused": "was paused",
    "log_dir_failed": "lost a log directory",
    "session_expired": "lost its ZooKeeper session",
}
_OPEN: Final = 2**62


def leaderless(events: DataFrame, states: DataFrame, gone: DataFrame) -> DataFrame:
    """Finds the windows in which partitions had no leader.

    One row for each window: ``topic``, ``partition``, ``incarnation``, ``from_ms``, ``to_ms``
    (null: still open), ``noticed_ms`` (when the controller noticed it; null: it did not), ``cause``
    (a sentence's end), ``cause_broker``, ``cause_ms``, ``next_leader``, ``next_epoch``, and
    evidence: ``file``, ``line``, ``end_file``, ``end_line``.

    ``states``: the states of partitions; ``gone``: the departures of brokers.
    """
    marks = _marks(events, states)
    order = Window.partitionBy(*TOPIC_PARTITION).orderBy(
        "place", "at_ms", "is_deleted", "file", "line"
    )
    # A window is a run of rows that say "no leader", up to the first that says otherwise.
    is_change = F.col("is_off") != F.coalesce(F.lag("is_off").over(order), F.lit(False))
    led_by = F.last(F.when(F.col("leader") >= 0, F.col("leader")), ignorenulls=True).over(order)
    runs = marks.withColumn("run", F.sum(is_change.cast("int")).over(order)).withColumn(
        "lost", F.when(F.col("is_off"), F.coalesce("lost", led_by))
    )
    spans = runs.groupBy(*TOPIC_PARTITION, "run").agg(
        F.first("is_off").alias("is_off"),
        F.min("at_ms").alias("from_ms"),
        F.max("is_proof").alias("is_proven"),
        F.max("incarnation").alias("incarnation"),
        F.min_by("lost", F.when(F.col("lost").isNotNull(), F.col("at_ms"))).alias("lost"),
        *(
            F.min_by(name, F.struct("place", "at_ms", "is_deleted", "file", "line")).alias(name)
            for name in ("leader", "leader_epoch", "is_deleted", "file", "line")
        ),
    )
    by_run = Window.partitionBy(*TOPIC_PARTITION).orderBy("run")
    windows = spans.select(
        *TOPIC_PARTITION,
        "incarnation",
        "is_off",
        "is_proven",
        "lost",
        "from_ms",
        "file",
        "line",
        F.lead("from_ms").over(by_run).alias("to_ms"),
        F.lead("leader").over(by_run).alias("next_leader"),
        F.lead("leader_epoch").over(by_run).alias("next_epoch"),
        F.lead("is_deleted").over(by_run).alias("is_deleted"),
        F.lead("file").over(by_run).alias("end_file"),
        F.lead("line").over(by_run).alias("end_line"),
    ).where("is_off")
    is_long = F.col("to_ms").isNull() | (F.col("to_ms") - F.col("from_ms") >= TRANSIENT_MS)
    real = windows.where(F.col("is_proven") | is_long)
    written = _with_causes(_without_deletions(real, events), gone).drop("is_off", "is_proven")
    return _merged(written, dead_leaders(events, states, gone))


def _merged(written: DataFrame, dead: DataFrame) -> DataFrame:
    """What states say and what deaths say, put together where they touch."""
    by_state = written.withColumn("noticed_ms", F.col("from_ms")).withColumn("rank", F.lit(0))
    by_death = (
        dead.withColumn("cause", _in_words("lost", "how"))
        .withColumnsRenamed({"lost": "cause_broker", "lost_ms": "cause_ms"})
        .drop("how")
        .withColumn("rank", F.lit(1))
    )
    ends_ms = F.coalesce("to_ms", F.lit(_OPEN))
    order = Window.partitionBy(*TOPIC_PARTITION).orderBy("from_ms", "ends_ms", "file", "line")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    pieces = by_state.unionByName(by_death).withColumn("ends_ms", ends_ms)
    is_new = F.col("from_ms") > F.coalesce(F.max("ends_ms").over(before), F.lit(-1))
    grouped = (
        pieces.withColumn("is_new", is_new.cast("int"))
        .withColumn("number", F.sum("is_new").over(order))
        .groupBy(*TOPIC_PARTITION, "number")
    )
    first = F.struct("from_ms", "ends_ms", "rank")
    last = F.struct("ends_ms", F.col("rank") * -1)

    def of_first(name: str, where: Column | None = None) -> Column:
        is_told = F.col(name).isNotNull() if where is None else where
        return F.min_by(name, F.when(is_told, first)).alias(name)

    def of_last(name: str) -> Column:
        return F.max_by(name, last).alias(name)

    is_named = F.col("cause_broker").isNotNull()
    # A line about the partition itself is better evidence than the death of its leader.
    best = F.struct("rank", "from_ms")
    whole = grouped.agg(
        F.max("incarnation").alias("incarnation"),
        F.min("from_ms").alias("from_ms"),
        F.max("ends_ms").alias("ends_ms"),
        F.min("noticed_ms").alias("noticed_ms"),
        F.coalesce(F.min_by("cause", F.when(is_named, first)), F.min("cause")).alias("cause"),
        of_first("cause_broker"),
        of_first("cause_ms", is_named),
        *(of_last(name) for name in ("next_leader", "next_epoch", "end_file", "end_line")),
        F.min_by("file", best).alias("file"),
        F.min_by("line", best).alias("line"),
    )
    to_ms = F.when(F.col("ends_ms") < _OPEN, F.col("ends_ms")).alias("to_ms")
    return whole.select("*", to_ms).drop("number", "ends_ms")


def outage_sums(windows: DataFrame, end_ms: int) -> DataFrame:
    """Sums up windows without a leader.

    One row: ``windows``, ``open``, ``partitions``, ``p50_ms``, ``p99_ms``, ``max_ms``,
    ``partition_seconds`` and ``noticed_after_ms`` (how late at most the controller noticed one); a
    window still open counts until ``end_ms``.
    """
    span = F.coalesce("to_ms", F.lit(end_ms)) - F.col("from_ms")
    return windows.withColumn("span_ms", F.greatest(span, F.lit(0))).agg(
        F.count("*").alias("windows"),
        F.count_if(F.col("to_ms").isNull()).alias("open"),
        F.count_distinct(*TOPIC_PARTITION).alias("partitions"),
        F.percentile_approx("span_ms", 0.5).alias("p50_ms"),
        F.percentile_approx("span_ms", 0.99).alias("p99_ms"),
        F.max("span_ms").alias("max_ms"),
        F.round(F.sum("span_ms") / 1000, 3).alias("partition_seconds"),
        F.max(F.col("noticed_ms") - F.col("from_ms")).alias("noticed_after_ms"),
    )


def _marks(events: DataFrame, states: DataFrame) -> DataFrame:
    """Rows that say whether a partition has a leader; ``is_proof``: the state itself says so."""
    none = F.lit(None)
    from_states = states.select(
        *TOPIC_PARTITION,
        "incarnation",
        F.col("time_ms").alias("at_ms"),
        (F.col("leader") == -1).alias("is_off"),
        (F.col("leader") == -1).alias("is_proof"),
        F.when(
            F.col("leader") == -1,
            F.coalesce(
                F.when(F.col("previous_leader") >= 0, F.col("previous_leader")),
                F.col("lost_replica"),
            ),
        ).alias("lost"),
        "leader",
        "leader_epoch",
        "is_deleted",
        "file",
        "line",
    ).withColumn("is_off", F.coalesce("is_off", F.lit(False)))
    is_failed = (
        of_kind("partition-failed")
        & (F.col("from_state") == "OfflinePartition")
        & (F.col("to_state") == "OnlinePartition")
    )
    is_offline = of_kind("partition-state") & (F.col("to_state") == "OfflinePartition")
    # Old controllers take a deleted partition offline before it ceases to exist.
    is_gone = of_kind("partition-state") & (F.col("to_state") == "NonExistentPartition")
    said = events.where(is_failed | is_offline | is_gone).select(
        *TOPIC_PARTITION,
        none.cast("int").alias("incarnation"),
        F.col("time_ms").alias("at_ms"),
        (~is_gone).alias("is_off"),
        is_failed.alias("is_proof"),
        none.cast("int").alias("lost"),
        none.cast("int").alias("leader"),
        none.cast("int").alias("leader_epoch"),
        is_gone.alias("is_deleted"),
        "file",
        "line",
    )
    marks = from_states.unionByName(said)
    # States come in the order of the writes; what else was said belongs where its time puts it.
    by_time = Window.partitionBy(*TOPIC_PARTITION).orderBy("at_ms", "is_deleted", "file", "line")
    return marks.withColumn("place", F.max("at_ms").over(by_time))


def _without_deletions(windows: DataFrame, events: DataFrame) -> DataFrame:
    """Without the windows that the deletion of the topic opened."""
    asked = F.coalesce(names(value("topics")), F.array().cast("array<string>"))
    begun = (
        events.where(of_kind("delete-starting", "delete-restarted"))
        .select(F.col("time_ms").alias("begun_ms"), "topic", asked.alias("asked"))
        .select(
            "begun_ms",
            F.explode(F.concat("asked", F.array_compact(F.array("topic")))).alias("gone_topic"),
        )
    )
    is_its_own = (
        (F.col("gone_topic") == F.col("topic"))
        & F.col("is_deleted")
        & (F.col("from_ms") >= F.col("begun_ms") - SLACK_MS)
    )
    return windows.join(F.broadcast(begun), is_its_own, "left_anti").drop("is_deleted")


def _with_causes(windows: DataFrame, gone: DataFrame) -> DataFrame:
    causes = gone.select(
        F.col("broker").alias("cause_broker"),
        "begun_ms",
        "how",
        "since_ms",
    )
    met = windows.join(
        F.broadcast(causes),
        (F.col("cause_broker") == F.col("lost"))
        & (F.col("begun_ms") >= F.col("from_ms") - CAUSE_MS)
        & (F.col("begun_ms") <= F.col("from_ms") + SLACK_MS)
        # A life that had not begun did not end the leadership.
        & (F.coalesce("since_ms", F.lit(0)) <= F.col("from_ms")),
        "left",
    )
    columns = windows.columns
    # The nearest before it; what clocks put behind it is taken only if there is no other.
    is_after = F.col("begun_ms") > F.col("from_ms")
    distance = F.struct(is_after, F.abs(F.col("from_ms") - F.col("begun_ms")))
    nearest = met.groupBy(*columns).agg(
        F.min_by(F.struct("cause_broker", "begun_ms", "how"), distance).alias("c")
    )
    fallback = F.when(
        F.col("lost").isNotNull(),
        F.concat(F.lit("broker "), F.col("lost").cast("string"), F.lit(" left, unknown how")),
    ).otherwise(F.lit("unknown"))
    return nearest.select(
        *columns,
        F.coalesce(_in_words("c.cause_broker", "c.how"), fallback).alias("cause"),
        F.coalesce("c.cause_broker", "lost").alias("cause_broker"),
        F.col("c.begun_ms").alias("cause_ms"),
    ).drop("lost")


def _in_words(broker: str, how: str) -> Column:
    """``broker 3 died``; null where it is not known how."""
    words = F.lit(None).cast("string")
    for name, text in CAUSES.items():
        words = F.when(F.col(how) == name, F.lit(text)).otherwise(words)
    return F.concat(F.lit("broker "), F.col(broker).cast("string"), F.lit(" "), words)
