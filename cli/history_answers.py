"""``zkctl history``'s answering verbs: the report, and one question at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from .errors import BadUsage, ExitCode, Refused
from .history_opening import (
    asked_of,
    directory_of,
    history_options,
    kept_answers,
    moment_ms,
    open_history,
    window_ms,
)
from .options import say, settings
from .render import Layout, Row, named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zkcontroller.history.analyses.history import History

ROWS_MAX: Final = 10_000
"""Rows that a listing shows at most; the Parquet tables have all of them."""
_PARTITION: Final = Layout(lambda row: f"{row['topic']}-{row['partition']}")


_MOMENTS: Final = frozenset({"at_ms", "from_ms", "to_ms", "since_ms", "time_ms"})
"""Keys that are points in time; what else ends in _ms is a duration."""


def _show(answer: DataFrame, layout: Layout, *order: Any) -> int:
    return _show_rows(_taken(answer, *order), layout)


def _taken(answer: DataFrame, *order: Any) -> list[Row]:
    return [row.asDict(recursive=True) for row in answer.orderBy(*order).take(ROWS_MAX + 1)]


def _show_rows(rows: Sequence[Row], layout: Layout) -> int:
    """Shows the rows: moments as dates where eyes read them, as milliseconds where programs do."""
    renderer = settings().renderer
    shown = rows[:ROWS_MAX]
    if renderer.format == "table":
        from zkcontroller.history.report.moments import moment

        titles = {key: key.removesuffix("_ms") for key in _MOMENTS}
        shown = [
            {titles.get(k, k): moment(v) if k in _MOMENTS else v for k, v in row.items()}
            for row in shown
        ]
        layout = Layout(layout.name, tuple(titles.get(k, k) for k in layout.columns))
    renderer.rows(shown, layout)
    if len(rows) > ROWS_MAX:
        say(f"only the first {ROWS_MAX} rows are shown")
    return len(rows)


def _of_partition(*columns: str) -> Layout:
    return Layout(_PARTITION.name, ("topic", "partition", *columns))


@click.command("report")
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for report.html, report.md and report.json  [default: OUT/report]",
)
@click.option("--title", default="What happened?", show_default=True, help="Heading of the page.")
@click.option("--check", is_flag=True, help="Exit with 1 if a rule worse than info was hit.")
@history_options
def report(target: Path | None, title: str, check: bool, **shared: Any) -> int:
    """What happened, on one page: HTML without network, Markdown and JSON."""
    import orjson

    asked = asked_of(shared)
    history = open_history(asked)
    from zkcontroller.history.report.assemble import assemble
    from zkcontroller.history.report.html import html
    from zkcontroller.history.report.markdown import markdown

    found = assemble(history, say)
    folder = target or directory_of(asked) / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    (folder / "report.md").write_text(markdown(found, title))
    (folder / "report.html").write_text(html(found, title))
    settings().renderer.record(
        {
            "verdict": found["verdict"]["headline"],
            "records": found["records"],
            "unknown": found["unknown"],
            "html": str(folder / "report.html"),
            "markdown": str(folder / "report.md"),
            "json": str(folder / "report.json"),
            "rules": [
                {key: rule[key] for key in ("id", "severity", "count", "title", "says")}
                for rule in found["rules"]
            ],
        },
        named("html"),
    )
    is_bad = any(rule["severity"] != "info" for rule in found["rules"])
    return ExitCode.FINDING if check and is_bad else ExitCode.OK


@click.command("tenures")
@click.option("--phases", "with_phases", is_flag=True, help="The steps of each failover instead.")
@history_options
def tenures(with_phases: bool, **shared: Any) -> None:
    """Who was controller, from when to when, and why it ended."""
    from zkcontroller.history.analyses import kept

    asked = asked_of(shared)
    folder = kept_answers(asked)
    if with_phases:
        shown = named("phase", "controller_epoch", "broker", "at_ms", "took_ms", "phase")
        steps = kept.phases(folder) if folder else None
        if steps is None:
            steps = _taken(open_history(asked).phases, "controller_epoch", "at_ms")
        _show_rows(steps, shown)
        return
    held = ("controller_epoch", "broker", "from_ms", "to_ms", "ended_by", "overlap_ms")
    rows = kept.tenures(folder) if folder else None
    if rows is None:
        rows = _taken(open_history(asked).tenures, "controller_epoch", "from_ms")
    _show_rows(rows, named("controller_epoch", *held))


@click.command("partition")
@click.argument("name", metavar="TOPIC-PARTITION")
@history_options
def partition(name: str, **shared: Any) -> None:
    """The biography of one partition: each leader, ISR, epoch and state."""
    match = re.fullmatch(r"(.+)-(\d+)", name)
    if match is None:
        raise BadUsage(f"{name!r} is no partition such as orders-0")
    from zkcontroller.history.analyses import kept

    asked = asked_of(shared)
    folder = kept_answers(asked)
    rows = kept.biography(folder, match[1], int(match[2])) if folder else None
    if rows is None:
        states = open_history(asked).states
        mine = (states["topic"] == match[1]) & (states["partition"] == int(match[2]))
        rows = _taken(states.where(mine), "incarnation", "number")
    if not rows:
        raise Refused(f"the logs say nothing of {name}")
    shown = (
        "time_ms",
        "leader",
        "isr",
        "leader_epoch",
        "zk_version",
        "controller_epoch",
        "kind",
        "is_deleted",
        "file",
        "line",
    )
    _show_rows(rows, Layout(lambda row: str(row["number"]), shown))


@click.command("outages")
@click.option("--sum", "summed", is_flag=True, help="One row: how many, p50, p99, longest, sum.")
@history_options
def outages(summed: bool, **shared: Any) -> None:
    """When partitions had no leader, and why; the longest first."""
    history = open_history(asked_of(shared))
    from pyspark.sql import functions as F  # noqa: N812

    end = history.events.agg(F.max("time_ms")).first()
    end_ms = (end[0] if end else None) or 0
    if summed:
        from zkcontroller.history.analyses.leaderless import outage_sums

        sums = outage_sums(history.leaderless, end_ms).first()
        assert sums is not None, "an aggregation has one row"
        settings().renderer.record(sums.asDict(), named("windows"))
        return
    span = F.coalesce("to_ms", F.lit(end_ms)) - F.col("from_ms")
    shown = history.leaderless.withColumn("span_ms", span)
    layout = _of_partition("from_ms", "to_ms", "span_ms", "cause", "file", "line")
    _show(shown, layout, F.desc("span_ms"), "from_ms", "topic", "partition")


@click.command("isr")
@click.option("--storms", is_flag=True, help="Only minutes with many shrinks.")
@click.option("--changes", is_flag=True, help="Each change instead of sums by broker.")
@history_options
def isr(storms: bool, changes: bool, **shared: Any) -> None:
    """Which followers left in-sync replicas, how often, and in which storms."""
    history = open_history(asked_of(shared))
    from zkcontroller.history.analyses.isr_changes import isr_storms, isr_sums

    if storms:
        shown = ("at_ms", "shrinks", "partitions", "leaders", "common_follower", "common_share")
        if not _show(isr_storms(history.isr_changes), named("at_ms", *shown), "at_ms"):
            say("no minute with so many shrinks that leaders asked for")
    elif changes:
        each = _of_partition("at_ms", "change", "broker", "by", "leader", "file", "line")
        _show(history.isr_changes, each, "at_ms", "topic", "partition")
    else:
        sums = ("broker", "shrinks", "expands", "partitions", "flaps")
        _show(isr_sums(history.isr_changes), named("broker", *sums), "broker")


@click.command("rules")
@click.option("--explain", metavar="RULE", help="What a rule means and what to do; reads no logs.")
@click.option("--check", is_flag=True, help="Exit with 1 if a rule worse than info was hit.")
@history_options
def rules(explain: str | None, check: bool, **shared: Any) -> int:
    """The rules that these logs hit, with their evidence; or what a rule means."""
    from zkcontroller.history.analyses.rules import RULE_BY_ID

    if explain is not None:
        if explain not in RULE_BY_ID:
            raise BadUsage(f"no rule {explain}; there are {', '.join(RULE_BY_ID)}")
        settings().renderer.record(RULE_BY_ID[explain]._asdict(), named("id"))
        return ExitCode.OK
    history = open_history(asked_of(shared))
    from zkcontroller.history.report.assemble import assemble

    found = assemble(history, say)["rules"]
    rows: list[Row] = [
        {**rule, "evidence": [f"{proof['file']}:{proof['line']}" for proof in rule["evidence"]]}
        for rule in found
    ]
    settings().renderer.rows(rows, named("id", "id", "severity", "count", "title", "says"))
    is_bad = any(rule["severity"] != "info" for rule in found)
    return ExitCode.FINDING if check and is_bad else ExitCode.OK


@click.command("state")
@click.option("--at", "at", metavar="TIME", help="The moment, UTC  [default: the end of the logs]")
@history_options
def state(at: str | None, **shared: Any) -> None:
    """The partitions as they stood at a moment, as the logs tell."""
    at_ms = None if at is None else moment_ms(at)
    asked = asked_of(shared)
    folder = kept_answers(asked)
    found = _kept_state(folder, at_ms) if folder else None
    controller, brokers, rows = found or _state(open_history(asked), at_ms)
    if at_ms is not None:
        say(f"controller: {controller}; brokers: {', '.join(map(str, brokers)) or 'none'}")
    shown = _of_partition(
        "leader",
        "isr",
        "leader_epoch",
        "zk_version",
        "controller_epoch",
        "since_ms",
        "file",
        "line",
    )
    if not _show_rows(rows, shown):
        say("the logs say nothing of partitions before that moment")


_StateAt: TypeAlias = tuple[str, list[int], list[Row]]
"""Who was controller, which brokers lived, and the partitions."""


def _kept_state(folder: Path, at_ms: int | None) -> _StateAt | None:
    from zkcontroller.history.analyses import kept

    rows = kept.partitions_at(folder, at_ms)
    if rows is None:
        return None
    if at_ms is None:
        return "", [], list(rows)
    brokers = kept.brokers_at(folder, at_ms)
    if brokers is None or kept.tenures(folder) is None:
        return None
    return _named(kept.controller_at(folder, at_ms)), brokers, list(rows)


def _state(history: History, at_ms: int | None) -> _StateAt:
    from zkcontroller.history.analyses.moment import (
        brokers_at,
        controller_at,
        partitions_at,
    )

    rows = _taken(partitions_at(history.states, at_ms), "topic", "partition")
    if at_ms is None:
        return "", [], rows
    held = controller_at(history.tenures, at_ms).first()
    alive = brokers_at(history.broker_lives, history.session_expiries, at_ms).orderBy("broker")
    brokers = [row["broker"] for row in alive.take(ROWS_MAX)]
    return _named(held.asDict() if held else None), brokers, rows


def _named(tenure: Row | None) -> str:
    return f"broker {tenure['broker']} (epoch {tenure['controller_epoch']})" if tenure else "nobody"


@click.command("diff")
@click.option("--first", required=True, metavar="FROM/TO", help="One window of time, UTC.")
@click.option("--second", required=True, metavar="FROM/TO", help="The other.")
@history_options
def diff(first: str, second: str, **shared: Any) -> None:
    """What happened more often in the second window than in the first, and what less."""
    both = window_ms(first), window_ms(second)
    history = open_history(asked_of(shared))
    from pyspark.sql import functions as F  # noqa: N812

    from zkcontroller.history.analyses.windows import difference, happenings

    counted = happenings(
        history.events, history.states, history.leaderless, history.tenures, history.departures
    )
    _show(difference(counted, *both), named("metric"), F.desc(F.abs(F.col("change"))), "metric")


@click.command("audit")
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="What zkctl partition list -o json (or jsonl) wrote, instead of a live ZooKeeper.",
)
@history_options
def audit(snapshot: Path | None, **shared: Any) -> int:
    """The end of the logs against ZooKeeper (-z) or a snapshot; exits with 1 if they differ."""
    from .history_snapshot import from_file, from_zookeeper

    stored = from_file(snapshot) if snapshot else from_zookeeper(settings())
    history = open_history(asked_of(shared))
    from zkcontroller.history.analyses.audit import SNAPSHOT_SCHEMA
    from zkcontroller.history.analyses.audit import audit as differences
    from zkcontroller.history.analyses.moment import partitions_at

    rows = history.events.sparkSession.createDataFrame(stored, SNAPSHOT_SCHEMA)
    found = differences(partitions_at(history.states, None), rows)
    shown = _of_partition("verdict", "says", "file", "line")
    return ExitCode.FINDING if _show(found, shown, "topic", "partition") else ExitCode.OK
