"""Gathers what a report needs out of findings in memory: what :mod:`.assemble` does by Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Protocol, TypeAlias

from kafka_history.rules.event import Event
from kafka_history.rules.totals import signs, totals, unknown_lines

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

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]
Progress: TypeAlias = Callable[[str], None]


class Answers(Protocol):
    """The findings of one cluster's history, each a row of the table of the same name."""

    @property
    def events(self) -> Sequence[Event]:
        """All of them, each line once, in order."""
        ...

    @property
    def wanting(self) -> Rows:
        """The files that were not read, or not whole, or not understood."""
        ...

    def rows(self, answer: str) -> Rows:
        """The answer of that name."""
        ...

    def isr_heat(self, step_ms: int) -> Rows:
        """How many shrinks each broker had in each step."""
        ...


def assemble_here(history: Answers, said: Progress = lambda _: None) -> dict[str, Any]:
    """The findings of one cluster's history; the keys are those of ``report.json``.

    ``said`` is called with the name of each step.  Times are ms since 1970, UTC.
    """
    gather = _Gatherer(history)
    found: dict[str, Any] = {"report_version": REPORT_VERSION}
    found |= _findings(history, gather, said)
    steps = gather.rows("phases", "controller_epoch", "at_ms", "step")
    for tenure in found["tenures"]:
        holder = tenure["broker"], tenure["controller_epoch"]
        tenure["phases"] = [
            {key: step[key] for key in ("phase", "at_ms", "took_ms")}
            for step in steps
            if (step["broker"], step["controller_epoch"]) == holder
        ]
    found["leaderless_over_time"] = _over_time(history.rows("leaderless"), found["to_ms"] or 0)
    found["isr_changes"] |= _isr(history, found["from_ms"], found["to_ms"])
    said("causes")
    found["acts"] = gather.rows("acts", "at_ms", "act", "topic")
    found["blast_radius"] = gather.rows("blast_radius", "at_ms", "broker")
    found |= _top_partitions(history, found["to_ms"] or 0)
    found["left_out"] = gather.left_out
    found["rules"] = rules_hit(found)
    found["verdict"] = verdict(found)
    return found


def _findings(history: Answers, gather: _Gatherer, said: Progress) -> dict[str, Any]:
    """What the rules are asked of."""
    said("counting records")
    found = _totals(history.events)
    found["copies"] = gather.rows("copies", "file")
    found["files"] = gather.taken("files", history.wanting, "file")
    said("controllers")
    found["tenures"] = gather.rows("tenures", "from_ms")
    found["zombies"] = gather.rows("zombies", "from_ms")
    found["refusals"] = gather.rows("refusals", "first_ms")
    said("brokers")
    found["broker_lives"] = gather.rows("broker_lives", "from_ms")
    found["session_expiries"] = gather.rows("session_expiries", "at_ms")
    found["pauses"] = gather.rows("pauses", "from_ms")
    found["zookeeper_gaps"] = gather.rows("zookeeper_gaps", "from_ms")
    found["log_dir_failures"] = gather.rows("log_dir_failures", "at_ms", "broker")
    found["clock_skew"] = gather.rows("clock_skew", "broker", "controller")
    said("partitions")
    found |= _outages(history, gather, found["to_ms"] or 0)
    found["unclean_elections"] = gather.rows("unclean_elections", "at_ms", "topic", "partition")
    storms = in_order(history.rows("isr_storms"), "at_ms")[:ROWS_MAX]
    found["isr_changes"] = {"storms": [dict(row) for row in storms]}
    found["under_min_isr"] = gather.rows("under_min_isr", "from_ms", "topic", "partition")
    found["failed_transitions"] = gather.rows("failed_transitions", "-count", "first_ms")
    found["invariants"] = gather.taken("invariants", history.rows("violations"), "at_ms", "rule")
    said("topics")
    found["deletions"] = gather.rows("deletions", "from_ms", "topic")
    found["reassignments"] = gather.rows("reassignments", "from_ms", "topic", "partition")
    found["requests"] = gather.taken("requests", history.rows("request_times"), "broker")
    marked = [sign._asdict() for sign in signs(history.events)]
    found["signs"] = gather.taken("signs", marked, "first_ms")
    return found


class _Gatherer:
    """Takes bounded answers and remembers what it had to cut."""

    def __init__(self, history: Answers) -> None:
        self._history = history
        self.left_out: dict[str, int] = {}

    def rows(self, key: str, *order: str, limit: int = ROWS_MAX) -> list[dict[str, Any]]:
        return self.taken(key, self._history.rows(key), *order, limit=limit)

    def taken(
        self, key: str, answer: Rows, *order: str, limit: int = ROWS_MAX
    ) -> list[dict[str, Any]]:
        if len(answer) > limit:
            self.left_out[key] = len(answer) - limit
        return [dict(row) for row in in_order(answer, *order)[:limit]]


def in_order(rows: Iterable[Row], *order: str) -> list[Row]:
    """Sorted by these keys; what is null first; by ``-key`` downwards, what is null last."""

    def place(row: Row) -> list[tuple[bool, Any]]:
        found: list[tuple[bool, Any]] = []
        for key in order:
            value = row[key.removeprefix("-")]
            is_down = key.startswith("-")
            if value is None:
                found.append((is_down, 0))
            else:
                found.append((not is_down, -value if is_down else value))
        return found

    return sorted(rows, key=place)


def _totals(events: Sequence[Event]) -> dict[str, Any]:
    total = totals(events)
    return {
        "records": total.records,
        "typed": total.typed,
        "unknown": total.records - total.typed,
        "brokers": total.brokers[:BROKERS_MAX],
        "from_ms": total.from_ms,
        "to_ms": total.to_ms,
        "kafka_versions": total.kafka_versions,
        "cluster_ids": total.cluster_ids,
        "errors": total.errors,
        "warnings": total.warnings,
        "unknown_lines": [line._asdict() for line in unknown_lines(events)[:UNKNOWN_MAX]],
    }


def _outages(history: Answers, gather: _Gatherer, end_ms: int) -> dict[str, Any]:
    windows = [{**row, "_span_ms": span_ms(row, end_ms)} for row in history.rows("leaderless")]
    longest_first = gather.taken(
        "leaderless", windows, "-_span_ms", "from_ms", "topic", "partition", limit=LEADERLESS_MAX
    )
    for row in longest_first:
        del row["_span_ms"]
    return {"leaderless": longest_first, "leaderless_summary": outage_sums(windows, end_ms)}


def outage_sums(windows: Rows, end_ms: int) -> dict[str, Any]:
    """Sums over windows without a leader; one that is still open counts until ``end_ms``."""
    spans = sorted(max(span_ms(row, end_ms), 0) for row in windows)
    late = [row["noticed_ms"] - row["from_ms"] for row in windows if row["noticed_ms"] is not None]

    def percentile(share: float) -> int | None:
        return spans[max(ceil(share * len(spans)) - 1, 0)] if spans else None

    return {
        "windows": len(spans),
        "open": sum(row["to_ms"] is None for row in windows),
        "partitions": len({(row["topic"], row["partition"]) for row in windows}),
        "p50_ms": percentile(0.5),
        "p99_ms": percentile(0.99),
        "max_ms": max(spans, default=None),
        "partition_seconds": sum(spans) / 1000 if spans else None,
        "noticed_after_ms": max(late, default=None),
    }


def span_ms(window: Row, end_ms: int) -> int:
    to_ms = end_ms if window["to_ms"] is None else window["to_ms"]
    return int(to_ms - window["from_ms"])


def _over_time(windows: Rows, end_ms: int) -> list[dict[str, int]]:
    """How many partitions had no leader, at most :data:`STEPS_MAX` points."""
    if not windows:
        return []
    first = min(row["from_ms"] for row in windows)
    last = max(end_ms if row["to_ms"] is None else row["to_ms"] for row in windows)
    step = max((last - first) // STEPS_MAX, 1)
    changes: Counter[int] = Counter()
    for row in windows:
        for at_ms, change in ((row["from_ms"], 1), (row["to_ms"], -1)):
            if at_ms is not None:
                changes[(at_ms - first) // step * step + first] += change
    points, level = [], 0
    for at_ms, change in sorted(changes.items())[: 2 * STEPS_MAX]:
        level += change
        points.append({"at_ms": at_ms, "partitions": level})
    return points


def _isr(history: Answers, from_ms: int | None, to_ms: int | None) -> dict[str, Any]:
    by_broker = [dict(row) for row in in_order(history.rows("isr_sums"), "broker")[:BROKERS_MAX]]
    span = (to_ms or 0) - (from_ms or 0)
    step_ms = next((step for step in HEAT_STEPS_MS if span / step <= STEPS_MAX), HEAT_STEPS_MS[-1])
    heat = in_order(history.isr_heat(step_ms), "-shrinks", "at_ms", "broker")
    shrinks = sum(row["shrinks"] for row in by_broker)
    expands = sum(row["expands"] for row in by_broker)
    return {
        "total": shrinks + expands,
        "shrinks": shrinks,
        "expands": expands,
        "by_broker": by_broker,
        "heat_step_ms": step_ms,
        "heat": [dict(row) for row in heat[: STEPS_MAX * 10]],
    }


def _top_partitions(history: Answers, end_ms: int) -> dict[str, Any]:
    """The partitions with most to tell, and the biographies of the first of them."""
    dark: Counter[tuple[str, int]] = Counter()
    for row in history.rows("leaderless"):
        dark[row["topic"], row["partition"]] += span_ms(row, end_ms)
    states: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in history.rows("states"):
        states[row["topic"], row["partition"]].append(row)
    ranked = in_order(
        (
            {
                "topic": topic,
                "partition": partition,
                "changes": len(rows),
                "leader_changes": sum(_is_led_by_another(row) for row in rows),
                "leaderless_ms": dark[topic, partition],
            }
            for (topic, partition), rows in states.items()
        ),
        "-leaderless_ms", "-changes", "topic", "partition",
    )  # fmt: skip
    top = [dict(row) for row in ranked[:TOP_PARTITIONS_MAX]]
    biographies = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "states": [
                {key: state[key] for key in BIOGRAPHY}
                for state in in_order(
                    states[row["topic"], row["partition"]], "incarnation", "number"
                )[:BIOGRAPHY_ROWS_MAX]
            ],
        }
        for row in top[:BIOGRAPHIES_MAX]
    ]
    return {"top_partitions": top, "biographies": biographies}


def _is_led_by_another(state: Row) -> bool:
    leader, before = state["leader"], state["previous_leader"]
    return leader is not None and before is not None and leader != before
