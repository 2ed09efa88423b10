"""Gathers the findings about a cluster into one mapping of plain values, for a report.

Lists that may grow with the logs are sorted and cut at a named limit. ``left_out`` contains the
number of rows cut from each key. Sums are made before the cut, so they count everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from kafka_history.rules.history import Answers, taken_here
from kafka_history.rules.outages import Outage

from .rules_hit import rules_hit
from .verdict import verdict

REPORT_VERSION: Final = 1
"""Raised when a key of ``report.json`` changes its meaning or is removed."""
ROWS_MAX: Final = 1_000
LEADERLESS_MAX: Final = 10_000
BROKERS_MAX: Final = 10_000
UNKNOWN_MAX: Final = 20
TOP_PARTITIONS_MAX: Final = 50
BIOGRAPHIES_MAX: Final = 20
BIOGRAPHY_ROWS_MAX: Final = 100
STEPS_MAX: Final = 400
"""Points of a curve, and columns of the heat map."""
HEAT_STEPS_MS: Final = (1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
BIOGRAPHY: Final = (
    "time_ms", "incarnation", "leader", "leader_epoch", "isr", "zk_version", "controller_epoch",
    "kind", "is_deleted", "file", "line",
)  # fmt: skip
"""The fields of a state that a partition's biography contains."""

Progress: TypeAlias = Callable[[str], None]


def assemble(history: Answers[Any], said: Progress = lambda _: None) -> dict[str, Any]:
    """The findings of one cluster's history; the keys are those of ``report.json``.

    ``said`` is called with the name of each step.  Times are ms since 1970, UTC.
    """
    gather = _Gatherer(history)
    found: dict[str, Any] = {"report_version": REPORT_VERSION}
    found |= _findings(history, gather, said)
    steps = gather.rows("phases", history.phases, "controller_epoch", "at_ms", "step")
    for tenure in found["tenures"]:
        holder = tenure["broker"], tenure["controller_epoch"]
        tenure["phases"] = [
            {key: step[key] for key in ("phase", "at_ms", "took_ms")}
            for step in steps
            if (step["broker"], step["controller_epoch"]) == holder
        ]
    found["leaderless_over_time"] = _over_time(history.outages, history.end_ms)
    found["isr_changes"] |= _isr(history)
    said("causes")
    found["acts"] = gather.rows("acts", history.acts, "at_ms", "act", "topic")
    found["blast_radius"] = gather.rows("blast_radius", history.blast_radius, "at_ms", "broker")
    found |= _top_partitions(history)
    found["left_out"] = gather.left_out
    found["rules"] = rules_hit(found)
    found["verdict"] = verdict(found)
    return found


def watched(history: Answers[Any]) -> dict[str, Any]:
    """The findings of :func:`assemble` that rules need; faster, for logs that are followed."""
    found = _findings(history, _Gatherer(history), lambda _: None)
    found["rules"] = rules_hit(found)
    return found


def _findings(history: Answers[Any], gather: _Gatherer, said: Progress) -> dict[str, Any]:
    """The findings from which :func:`.rules_hit` finds broken rules."""
    said("counting records")
    found = _totals(history)
    found["copies"] = gather.rows("copies", history.copies, "file")
    found["files"] = gather.rows("files", history.wanting, "file")
    said("controllers")
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
    windows, left_out = history.longest_outages(LEADERLESS_MAX)
    found["leaderless"] = [{k: v for k, v in row.items() if k != "span_ms"} for row in windows]
    gather.note("leaderless", left_out)
    found["leaderless_summary"] = history.outage_sums._asdict()
    found["unclean_elections"] = gather.rows(
        "unclean_elections", history.unclean_elections, "at_ms", "topic", "partition"
    )
    storms, _ = history.taken(history.isr_storms, "at_ms", limit=ROWS_MAX)
    found["isr_changes"] = {"storms": storms}
    found["under_min_isr"] = gather.rows(
        "under_min_isr", history.under_min_isr, "from_ms", "topic", "partition"
    )
    found["failed_transitions"] = gather.rows(
        "failed_transitions", history.failed_transitions, "-count", "first_ms"
    )
    found["invariants"] = gather.rows(
        "invariants", history.violations, "at_ms", "rule", "topic", "partition", "file", "line"
    )
    said("topics")
    found["deletions"] = gather.rows("deletions", history.deletions, "from_ms", "topic")
    found["reassignments"] = gather.rows(
        "reassignments", history.reassignments, "from_ms", "topic", "partition"
    )
    found["requests"] = gather.rows("requests", history.request_times, "broker")
    found["signs"] = gather.rows("signs", history.signs, "first_ms")
    return found


class _Gatherer:
    """Takes rows up to a limit, and counts the rows left out by key."""

    def __init__(self, history: Answers[Any]) -> None:
        self._history = history
        self.left_out: dict[str, int] = {}

    def rows(self, key: str, answer: Any, *order: str) -> list[dict[str, Any]]:
        rows, left_out = self._history.taken(answer, *order, limit=ROWS_MAX)
        self.note(key, left_out)
        return rows

    def note(self, key: str, left_out: int) -> None:
        if left_out:
            self.left_out[key] = left_out


def _totals(history: Answers[Any]) -> dict[str, Any]:
    total = history.totals
    unknown = history.unknown_lines[:UNKNOWN_MAX]
    return {
        "records": total.records,
        "typed": total.typed,
        "unknown": total.records - total.typed,
        "brokers": total.brokers[:BROKERS_MAX],
        "from_ms": total.from_ms,
        "to_ms": total.to_ms,
        "kafka_versions": history.kafka_versions,
        "cluster_ids": history.cluster_ids,
        "errors": total.errors,
        "warnings": total.warnings,
        "unknown_lines": [line._asdict() for line in unknown],
    }


def _over_time(outages: Sequence[Outage], end_ms: int) -> list[dict[str, int]]:
    """The number of partitions without a leader over time, as points of a curve."""
    if not outages:
        return []
    first = min(each.from_ms for each in outages)
    last = max(end_ms if each.to_ms is None else each.to_ms for each in outages)
    step = max((last - first) // STEPS_MAX, 1)
    changes: Counter[int] = Counter()
    for each in outages:
        for at_ms, change in ((each.from_ms, 1), (each.to_ms, -1)):
            if at_ms is not None:
                changes[(at_ms - first) // step * step + first] += change
    points, level = [], 0
    for at_ms, change in sorted(changes.items())[: 2 * STEPS_MAX]:
        level += change
        points.append({"at_ms": at_ms, "partitions": level})
    return points


def _isr(history: Answers[Any]) -> dict[str, Any]:
    by_broker, _ = history.taken(history.isr_sums, "broker", limit=BROKERS_MAX)
    span = history.end_ms - (history.totals.from_ms or 0)
    step_ms = next((step for step in HEAT_STEPS_MS if span / step <= STEPS_MAX), HEAT_STEPS_MS[-1])
    order = ("-shrinks", "at_ms", "broker")
    heat, _ = history.taken(history.isr_heat(step_ms), *order, limit=STEPS_MAX * 10)
    shrinks = sum(row["shrinks"] for row in by_broker)
    expands = sum(row["expands"] for row in by_broker)
    return {
        "total": shrinks + expands,
        "shrinks": shrinks,
        "expands": expands,
        "by_broker": by_broker,
        "heat_step_ms": step_ms,
        "heat": heat,
    }


def _top_partitions(history: Answers[Any]) -> dict[str, Any]:
    """The partitions that had no leader for longest, and the biographies of the first of them."""
    order = ("-leaderless_ms", "-changes", "topic", "partition")
    top, _ = history.taken(history.partition_sums, *order, limit=TOP_PARTITIONS_MAX)
    shown = [(row["topic"], row["partition"]) for row in top[:BIOGRAPHIES_MAX]]
    states: dict[tuple[str, int], list[Any]] = {tp: [] for tp in shown}
    for state in history.biographies(shown):
        states[state.topic, state.partition].append(state)
    biographies = []
    for (topic, partition), its in states.items():
        first, _ = taken_here(its, "incarnation", "number", limit=BIOGRAPHY_ROWS_MAX)
        lines = [{key: state[key] for key in BIOGRAPHY} for state in first]
        biographies.append({"topic": topic, "partition": partition, "states": lines})
    return {"top_partitions": top, "biographies": biographies}
