"""Asks the analyses and gathers what a report needs: one mapping of plain values.

Whatever may grow with the logs is ordered by what matters and cut at a named limit; ``left_out``
says how many rows of which key were cut, so that no report pretends to be whole. Sums are made
before the cut and count everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from kafka_history.analyses.columns import TOPIC_PARTITION, of_kind
from kafka_history.analyses.history import History
from kafka_history.analyses.isr_changes import isr_heat, isr_storms, isr_sums
from kafka_history.analyses.leaderless import outage_sums
from kafka_history.readers.store import with_problems
from kafka_history.rules.totals import CLUSTER_SIGN

from .limits import (
    BIOGRAPHIES_MAX,
    BIOGRAPHY,
    BIOGRAPHY_ROWS_MAX,
    BROKERS_MAX,
    HEAT_STEPS_MS,
    LEADERLESS_MAX,
    REPORT_VERSION,
    ROWS_MAX,
    STEPS_MAX,
    TOP_PARTITIONS_MAX,
    UNKNOWN_MAX,
)
from .rules_hit import rules_hit
from .verdict import verdict

Progress = Callable[[str], None]


def assemble(history: History, said: Progress = lambda _: None) -> dict[str, Any]:
    """The findings of one cluster's history; the keys are those of ``report.json``.

    ``said`` is called with the name of each step.  Times are ms since 1970, UTC.
    """
    gather = _Gatherer()
    found = {"report_version": REPORT_VERSION, **_findings(history, gather, said)}
    steps = gather.rows("phases", history.phases, "controller_epoch", "at_ms")
    for tenure in found["tenures"]:
        tenure["phases"] = [
            {key: step[key] for key in ("phase", "at_ms", "took_ms")}
            for step in steps
            if (step["broker"], step["controller_epoch"])
            == (tenure["broker"], tenure["controller_epoch"])
        ]
    found["leaderless_over_time"] = _over_time(history.leaderless, found["to_ms"] or 0)
    found["isr_changes"] |= _isr(history, found["from_ms"], found["to_ms"])
    said("causes")
    found["acts"] = gather.rows("acts", history.acts, "at_ms", "act", "topic")
    found["blast_radius"] = gather.rows("blast_radius", history.blast_radius, "at_ms", "broker")
    found |= _top_partitions(history, found["to_ms"])
    found["left_out"] = gather.left_out
    found["rules"] = rules_hit(found)
    found["verdict"] = verdict(found)
    return found


def watched(history: History) -> dict[str, Any]:
    """The same findings without what only a page shows: quicker, for logs that are followed."""
    found = _findings(history, _Gatherer(), lambda _: None)
    found["rules"] = rules_hit(found)
    return found


def _findings(history: History, gather: _Gatherer, said: Progress) -> dict[str, Any]:
    """What the rules are asked of."""
    said("counting records")
    found = _totals(history.events)
    found["copies"] = gather.rows("copies", history.copies, "file")
    found["files"] = []
    if history.sources is not None:
        wanting = with_problems(history.sources).select("file", "status", "records", "problem")
        found["files"] = gather.rows("files", wanting, "file")
    said("controllers")
    history.prepare()
    found["tenures"] = gather.rows("tenures", history.tenures, "from_ms")
    found["zombies"] = gather.rows("zombies", history.zombies, "from_ms")
    found["refusals"] = gather.rows("refusals", history.refusals, "first_ms")
    said("brokers")
    found["broker_lives"] = gather.rows("broker_lives", history.broker_lives, "from_ms")
    found["session_expiries"] = gather.rows("session_expiries", history.session_expiries, "at_ms")
    found["pauses"] = gather.rows("pauses", history.pauses, "from_ms")
    found["zookeeper_gaps"] = gather.rows("zookeeper_gaps", history.zookeeper_gaps, "from_ms")
    found["log_dir_failures"] = gather.rows(
        "log_dir_failures", history.log_dir_failures, "at_ms", "broker"
    )
    found["clock_skew"] = gather.rows("clock_skew", history.clock_skew, "broker", "controller")
    said("partitions")
    found |= _outages(history, gather, found["to_ms"])
    found["unclean_elections"] = gather.rows(
        "unclean_elections", history.unclean_elections, "at_ms", "topic", "partition"
    )
    storms = isr_storms(history.isr_changes).orderBy("at_ms").take(ROWS_MAX)
    found["isr_changes"] = {"storms": [row.asDict() for row in storms]}
    found["under_min_isr"] = gather.rows(
        "under_min_isr", history.under_min_isr, "from_ms", "topic", "partition"
    )
    found["failed_transitions"] = gather.rows(
        "failed_transitions", history.failed_transitions, F.desc("count"), "first_ms"
    )
    found["invariants"] = gather.rows("invariants", history.violations, "at_ms", "rule")
    said("topics")
    found["deletions"] = gather.rows("deletions", history.deletions, "from_ms", "topic")
    found["reassignments"] = gather.rows(
        "reassignments", history.reassignments, "from_ms", "topic", "partition"
    )
    found["requests"] = gather.rows("requests", history.request_times, "broker")
    found["signs"] = gather.rows("signs", _signs(history.events), "first_ms")
    return found


class _Gatherer:
    """Collects bounded answers and remembers what it had to cut."""

    def __init__(self) -> None:
        self.left_out: dict[str, int] = {}

    def rows(
        self, key: str, answer: DataFrame, *order: Any, limit: int = ROWS_MAX
    ) -> list[dict[str, Any]]:
        rows = [row.asDict(recursive=True) for row in answer.orderBy(*order).take(limit + 1)]
        if len(rows) > limit:
            self.left_out[key] = answer.count() - limit
        return rows[:limit]


def _totals(events: DataFrame) -> dict[str, Any]:
    row = events.agg(
        F.count("*").alias("records"),
        F.count("shape").alias("typed"),
        F.min("time_ms").alias("from_ms"),
        F.max("time_ms").alias("to_ms"),
        F.slice(F.array_sort(F.collect_set("broker_id")), 1, BROKERS_MAX).alias("brokers"),
        F.array_sort(F.collect_set(_after("server-version", "Kafka version"))).alias("versions"),
        F.array_sort(F.collect_set(_after("server-start-steps", "Cluster ID ="))).alias("clusters"),
        F.count_if(F.col("level").isin("ERROR", "FATAL")).alias("errors"),
        F.count_if(F.col("level") == "WARN").alias("warnings"),
    ).first()
    assert row is not None, "an aggregation has one row"
    total: dict[str, Any] = row.asDict()
    unknown = (
        events.where("shape IS NULL")
        .groupBy("logger", "level")
        .agg(
            F.count("*").alias("count"),
            F.min(
                F.struct("time_ms", "file", "line", F.substring("text", 1, 300).alias("text"))
            ).alias("e"),
        )
    )
    samples = unknown.select("logger", "level", "count", "e.text", "e.file", "e.line").orderBy(
        F.desc("count")
    )
    return {
        "records": total["records"],
        "typed": total["typed"],
        "unknown": total["records"] - total["typed"],
        "brokers": total["brokers"],
        "from_ms": total["from_ms"],
        "to_ms": total["to_ms"],
        "kafka_versions": total["versions"],
        "cluster_ids": total["clusters"],
        "errors": total["errors"],
        "warnings": total["warnings"],
        "unknown_lines": [row.asDict() for row in samples.take(UNKNOWN_MAX)],
    }


def _after(kind: str, text: str) -> Any:
    """What stands behind a text in lines of a kind; null elsewhere."""
    said = F.trim(F.regexp_extract("text", rf"{text}\s*:?\s*(\S+)", 1))
    return F.when(of_kind(kind) & (said != ""), said)


def _outages(history: History, gather: _Gatherer, end_ms: int | None) -> dict[str, Any]:
    windows = history.leaderless
    end = end_ms or 0
    sums = outage_sums(windows, end).first()
    assert sums is not None, "an aggregation has one row"
    longest = F.coalesce("to_ms", F.lit(end)) - F.col("from_ms")
    return {
        "leaderless": gather.rows(
            "leaderless",
            windows,
            F.desc(longest),
            "from_ms",
            "topic",
            "partition",
            limit=LEADERLESS_MAX,
        ),
        "leaderless_summary": sums.asDict(),
    }


def _over_time(windows: DataFrame, end_ms: int) -> list[dict[str, int]]:
    """How many partitions had no leader, at most :data:`STEPS_MAX` points."""
    bounds = windows.agg(F.min("from_ms"), F.max(F.coalesce("to_ms", F.lit(end_ms)))).first()
    if bounds is None or bounds[0] is None:
        return []
    step = max((bounds[1] - bounds[0]) // STEPS_MAX, 1)
    edges = windows.select(F.col("from_ms").alias("at"), F.lit(1).alias("d")).unionByName(
        windows.where("to_ms IS NOT NULL").select(F.col("to_ms").alias("at"), F.lit(-1).alias("d"))
    )
    at_ms = (F.floor((F.col("at") - bounds[0]) / step) * step + bounds[0]).alias("at_ms")
    counted = edges.groupBy(at_ms).agg(F.sum("d").alias("change")).orderBy("at_ms")
    points, level = [], 0
    for row in counted.take(2 * STEPS_MAX):
        level += row["change"]
        points.append({"at_ms": row["at_ms"], "partitions": level})
    return points


def _isr(history: History, from_ms: int | None, to_ms: int | None) -> dict[str, Any]:
    changes = history.isr_changes
    by_broker = [row.asDict() for row in isr_sums(changes).orderBy("broker").take(BROKERS_MAX)]
    span = (to_ms or 0) - (from_ms or 0)
    step_ms = next((step for step in HEAT_STEPS_MS if span / step <= STEPS_MAX), HEAT_STEPS_MS[-1])
    heat = isr_heat(changes, step_ms).orderBy(F.desc("shrinks"), "at_ms", "broker")
    shrinks = sum(row["shrinks"] for row in by_broker)
    expands = sum(row["expands"] for row in by_broker)
    return {
        "total": shrinks + expands,
        "shrinks": shrinks,
        "expands": expands,
        "by_broker": by_broker,
        "heat_step_ms": step_ms,
        "heat": [row.asDict() for row in heat.take(STEPS_MAX * 10)],
    }


def _top_partitions(history: History, end_ms: int | None) -> dict[str, Any]:
    """The partitions with most to tell, and the biographies of the first of them."""
    dark = history.leaderless.groupBy(*TOPIC_PARTITION).agg(
        F.sum(F.coalesce("to_ms", F.lit(end_ms or 0)) - F.col("from_ms")).alias("leaderless_ms")
    )
    changed = history.states.groupBy(*TOPIC_PARTITION).agg(
        F.count("*").alias("changes"),
        F.count_if(F.col("leader") != F.col("previous_leader")).alias("leader_changes"),
    )
    ranked = (
        changed.join(dark, [*TOPIC_PARTITION], "left")
        .fillna(0, subset=["leaderless_ms"])
        .orderBy(F.desc("leaderless_ms"), F.desc("changes"), *TOPIC_PARTITION)
    )
    top = [row.asDict() for row in ranked.take(TOP_PARTITIONS_MAX)]
    return {"top_partitions": top, "biographies": _biographies(history, top[:BIOGRAPHIES_MAX])}


def _biographies(history: History, top: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not top:
        return []
    wanted = F.lit(False)
    for row in top:
        wanted = wanted | (
            (F.col("topic") == row["topic"]) & (F.col("partition") == row["partition"])
        )
    order = Window.partitionBy(*TOPIC_PARTITION).orderBy("incarnation", "number")
    rows = (
        history.states.where(wanted)
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= BIOGRAPHY_ROWS_MAX)
        .orderBy(*TOPIC_PARTITION, "rank")
        .take(BIOGRAPHIES_MAX * BIOGRAPHY_ROWS_MAX)
    )
    lives: dict[tuple[str, int], list[dict[str, Any]]] = {
        (row["topic"], row["partition"]): [] for row in top
    }
    for state in rows:
        lives[state["topic"], state["partition"]].append(biography_row(state.asDict()))
    return [
        {"topic": topic, "partition": partition, "states": states}
        for (topic, partition), states in lives.items()
    ]


def biography_row(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state of a partition as a line of its biography."""
    return {key: state[key] for key in BIOGRAPHY}


def _signs(events: DataFrame) -> DataFrame:
    """Single lines that are findings by themselves: ``sign``, ``count``, ``first_ms``, evidence."""
    sign = (
        F.when(of_kind("shutdown-unclean"), "shutdown-unclean")
        .when(of_kind("unclean-enabled"), "unclean-enabled")
        .when(
            of_kind("partition-failed")
            & F.col("exception_message").contains("OfflinePartitionLeaderElectionStrategy(true)"),
            "unclean-enabled",
        )
        .when(
            _after("server-start-steps", "Cluster ID =").isNotNull(),
            F.concat(F.lit(CLUSTER_SIGN), _after("server-start-steps", "Cluster ID =")),
        )
    )
    return (
        events.withColumn("sign", sign)
        .where("sign IS NOT NULL")
        .groupBy("sign", F.col("broker_id").alias("broker"))
        .agg(F.count("*").alias("count"), F.min(F.struct("time_ms", "file", "line")).alias("e"))
        .select("sign", "broker", "count", F.col("e.time_ms").alias("first_ms"), "e.file", "e.line")
    )
