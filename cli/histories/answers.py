"""``zkctl history``'s answering verbs: the report, and one question at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from zkcontroller_cli.console.errors import BadUsage, ExitCode, Refused
from zkcontroller_cli.console.options import say, settings
from zkcontroller_cli.console.render import Layout, Row, named
from zkcontroller_cli.histories.opening import (
    Opened,
    asked_of,
    directory_of,
    history_options,
    moment_ms,
    window_ms,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafka_history.analyses.history import History
    from kafka_history.rules.history import EventHistory

ROWS_MAX: Final = 10_000
"""Rows that a listing shows at most; the Parquet tables have all of them."""
_PARTITION: Final = Layout(lambda row: f"{row['topic']}-{row['partition']}")


_MOMENTS: Final = frozenset({"at_ms", "from_ms", "to_ms", "noticed_ms", "since_ms", "time_ms"})
"""Keys that are points in time; what else ends in _ms is a duration."""


def _findings(opened: Opened) -> dict[str, Any]:
    """What the report and the rules are made from."""

    def by_spark(history: History) -> dict[str, Any]:
        from kafka_history.report.assemble import assemble

        return assemble(history, say)

    def here(history: EventHistory) -> dict[str, Any]:
        from kafka_history.report.assemble_here import assemble_here

        return assemble_here(history)

    found: dict[str, Any] = opened.answer("findings", {}, by_spark, here)
    return found


def _taken(answer: DataFrame, *order: Any) -> list[Row]:
    return [row.asDict(recursive=True) for row in answer.orderBy(*order).take(ROWS_MAX + 1)]


def _ordered(rows: Sequence[Row], *order: str) -> list[Row]:
    """What :func:`_taken` takes of a table; ``-key`` is for the greatest first."""
    from kafka_history.report.assemble_here import in_order

    return list(in_order(rows, *order)[: ROWS_MAX + 1])


def _show_rows(rows: Sequence[Row], layout: Layout) -> int:
    """Shows the rows: moments as dates where eyes read them, as milliseconds where programs do."""
    renderer = settings().renderer
    shown = rows[:ROWS_MAX]
    if renderer.format == "table":
        from kafka_history.report.moments import moment

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
    """What happened, on one page: HTML without network, Markdown and JSON.

    Examples:
      zkctl history report --out incident --to report
      zkctl history report /var/log/kafka-1 /var/log/kafka-2 --out incident
    """
    import orjson

    asked = asked_of(shared)
    opened = Opened(asked)
    found = _findings(opened)
    pages = opened.made("pages", {"title": title}, lambda: _pages(found, title))
    folder = target or directory_of(asked) / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    (folder / "report.md").write_text(pages["markdown"])
    (folder / "report.html").write_text(pages["html"])
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


def _pages(found: dict[str, Any], title: str) -> dict[str, str]:
    from kafka_history.report.html import html
    from kafka_history.report.markdown import markdown

    return {"markdown": markdown(found, title), "html": html(found, title)}


@click.command("tenures")
@click.option("--phases", "with_phases", is_flag=True, help="The steps of each failover instead.")
@history_options
def tenures(with_phases: bool, **shared: Any) -> None:
    """Who was controller, from when to when, and why it ended.

    Examples:
      zkctl history tenures --out incident --phases
    """
    from kafka_history.analyses import kept

    opened = Opened(asked_of(shared))
    folder = opened.tables
    if with_phases:
        shown = named("phase", "controller_epoch", "broker", "at_ms", "took_ms", "phase")
        steps = kept.phases(folder) if folder else None
        if steps is None:
            steps = opened.answer(
                "phases",
                {},
                lambda history: _taken(history.phases, "controller_epoch", "at_ms"),
                lambda history: _ordered(
                    history.rows("phases"), "controller_epoch", "at_ms", "step"
                ),
            )
        _show_rows(steps, shown)
        return
    held = ("controller_epoch", "broker", "from_ms", "to_ms", "ended_by", "overlap_ms")
    rows = kept.tenures(folder) if folder else None
    if rows is None:
        rows = opened.answer(
            "tenures",
            {},
            lambda history: _taken(history.tenures, "controller_epoch", "from_ms"),
            lambda history: _ordered(history.rows("tenures"), "controller_epoch", "from_ms"),
        )
    _show_rows(rows, named("controller_epoch", *held))


@click.command("partition")
@click.argument("name", metavar="TOPIC-PARTITION")
@history_options
def partition(name: str, **shared: Any) -> None:
    """The biography of one partition: each leader, ISR, epoch and state.

    Examples:
      zkctl history partition orders-0 --out incident
    """
    match = re.fullmatch(r"(.+)-(\d+)", name)
    if match is None:
        raise BadUsage(f"{name!r} is no partition such as orders-0")
    from kafka_history.analyses import kept

    topic, number = match[1], int(match[2])

    def biography(history: History) -> list[Row]:
        states = history.states
        mine = (states["topic"] == topic) & (states["partition"] == number)
        return _taken(states.where(mine), "incarnation", "number")

    def here(history: EventHistory) -> list[Row]:
        states = history.rows("states")
        mine = [row for row in states if (row["topic"], row["partition"]) == (topic, number)]
        return _ordered(mine, "incarnation", "number")

    opened = Opened(asked_of(shared))
    rows = kept.biography(opened.tables, topic, number) if opened.tables else None
    if rows is None:
        rows = opened.answer("partition", {"topic": topic, "partition": number}, biography, here)
    if not rows:
        raise Refused(f"the logs say nothing of {name}: are those of its brokers among them?")
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
    """When partitions had no leader, and why; the longest first.

    Examples:
      zkctl history outages --out incident --sum
    """
    found = Opened(asked_of(shared)).answer(
        "outages",
        {"sum": summed},
        _outage_sums if summed else _outages,
        lambda history: _outages_here(history, summed=summed),
    )
    if summed:
        settings().renderer.record(found, named("windows"))
        return
    layout = _of_partition("from_ms", "noticed_ms", "to_ms", "span_ms", "cause", "file", "line")
    _show_rows(found, layout)


def _outages_here(history: EventHistory, *, summed: bool) -> Row | list[Row]:
    from kafka_history.report.assemble_here import outage_sums, span_ms

    end_ms = max((event.time_ms for event in history.events), default=0)
    windows = history.rows("leaderless")
    if summed:
        return outage_sums(windows, end_ms)
    spans = [{**row, "span_ms": span_ms(row, end_ms)} for row in windows]
    return _ordered(spans, "-span_ms", "from_ms", "topic", "partition")


def _end_ms(history: History) -> int:
    from pyspark.sql import functions as F  # noqa: N812

    end = history.events.agg(F.max("time_ms")).first()
    return (end[0] if end else None) or 0


def _outage_sums(history: History) -> Row:
    from kafka_history.analyses.leaderless import outage_sums

    sums = outage_sums(history.leaderless, _end_ms(history)).first()
    assert sums is not None, "an aggregation has one row"
    row: Row = sums.asDict()
    return row


def _outages(history: History) -> list[Row]:
    from pyspark.sql import functions as F  # noqa: N812

    span = F.coalesce("to_ms", F.lit(_end_ms(history))) - F.col("from_ms")
    windows = history.leaderless.withColumn("span_ms", span)
    return _taken(windows, F.desc("span_ms"), "from_ms", "topic", "partition")


@click.command("isr")
@click.option("--storms", is_flag=True, help="Only minutes with many shrinks.")
@click.option("--changes", is_flag=True, help="Each change instead of sums by broker.")
@history_options
def isr(storms: bool, changes: bool, **shared: Any) -> None:
    """Which followers left in-sync replicas, how often, and in which storms.

    Examples:
      zkctl history isr --out incident --storms
    """
    wanted = "storms" if storms else "changes" if changes else "sums"
    rows = Opened(asked_of(shared)).answer(
        "isr",
        {"of": wanted},
        lambda history: _isr(history, wanted),
        lambda history: _isr_here(history, wanted),
    )
    if storms:
        shown = ("at_ms", "shrinks", "partitions", "leaders", "common_follower", "common_share")
        if not _show_rows(rows, named("at_ms", *shown)):
            say("no minute with so many shrinks that leaders asked for")
    elif changes:
        each = _of_partition("at_ms", "change", "broker", "by", "leader", "file", "line")
        _show_rows(rows, each)
    else:
        sums = ("broker", "shrinks", "expands", "partitions", "flaps")
        _show_rows(rows, named("broker", *sums))


def _isr_here(history: EventHistory, wanted: str) -> list[Row]:
    if wanted == "storms":
        return _ordered(history.rows("isr_storms"), "at_ms")
    if wanted == "changes":
        return _ordered(history.rows("isr_changes"), "at_ms", "topic", "partition")
    return _ordered(history.rows("isr_sums"), "broker")


def _isr(history: History, wanted: str) -> list[Row]:
    from kafka_history.analyses.isr_changes import isr_storms, isr_sums

    if wanted == "storms":
        return _taken(isr_storms(history.isr_changes), "at_ms")
    if wanted == "changes":
        return _taken(history.isr_changes, "at_ms", "topic", "partition")
    return _taken(isr_sums(history.isr_changes), "broker")


@click.command("rules")
@click.option("--explain", metavar="RULE", help="What a rule means and what to do; reads no logs.")
@click.option("--check", is_flag=True, help="Exit with 1 if a rule worse than info was hit.")
@history_options
def rules(explain: str | None, check: bool, **shared: Any) -> int:
    """The rules that these logs hit, with their evidence; or what a rule means.

    Examples:
      zkctl history rules --out incident --check
      zkctl history rules --explain R01
    """
    from kafka_history.analyses.rules import RULE_BY_ID

    if explain is not None:
        if explain not in RULE_BY_ID:
            raise BadUsage(f"no rule {explain}; there are {', '.join(RULE_BY_ID)}")
        settings().renderer.record(RULE_BY_ID[explain]._asdict(), named("id"))
        return ExitCode.OK
    found = _findings(Opened(asked_of(shared)))["rules"]
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
    """The partitions as they stood at a moment, as the logs tell.

    Examples:
      zkctl history state --out incident --at 2026-11-25T12:00:00Z
    """
    at_ms = None if at is None else moment_ms(at)
    opened = Opened(asked_of(shared))
    found = _kept_state(opened.tables, at_ms) if opened.tables else None
    if found is None:
        found = opened.answer(
            "state",
            {"at_ms": at_ms},
            lambda history: _state(history, at_ms),
            lambda history: _state_here(history, at_ms),
        )
    controller, brokers, rows = found
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
    from kafka_history.analyses import kept

    rows = kept.partitions_at(folder, at_ms)
    if rows is None:
        return None
    if at_ms is None:
        return "", [], list(rows)
    brokers = kept.brokers_at(folder, at_ms)
    if brokers is None or kept.tenures(folder) is None:
        return None
    return _named(kept.controller_at(folder, at_ms)), brokers, list(rows)


def _state_here(history: EventHistory, at_ms: int | None) -> _StateAt:
    from kafka_history.rules.moment import brokers_at, controller_at, partitions_at

    rows: list[Row] = [each._asdict() for each in partitions_at(history.states, at_ms)]
    if at_ms is None:
        return "", [], rows
    held = controller_at(history.tenures, at_ms)
    return _named(held._asdict() if held else None), brokers_at(history.broker_lives, at_ms), rows


def _state(history: History, at_ms: int | None) -> _StateAt:
    from kafka_history.analyses.moment import (
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
    return f"broker {tenure['broker']} (epoch {tenure['controller_epoch']})" if tenure else "none"


@click.command("diff")
@click.option("--first", required=True, metavar="FROM/TO", help="One window of time, UTC.")
@click.option("--second", required=True, metavar="FROM/TO", help="The other.")
@history_options
def diff(first: str, second: str, **shared: Any) -> None:
    r"""What happened more often in the second window than in the first, and what less.

    Examples:
      zkctl history diff --first 2026-11-25T10:00Z/2026-11-25T11:00Z \
          --second 2026-11-25T12:00Z/2026-11-25T13:00Z --out incident
    """
    both = window_ms(first), window_ms(second)

    def differences(history: History) -> list[Row]:
        from pyspark.sql import functions as F  # noqa: N812

        from kafka_history.analyses.windows import difference, happenings

        counted = happenings(
            history.events, history.states, history.leaderless, history.tenures, history.departures
        )
        return _taken(difference(counted, *both), F.desc(F.abs(F.col("change"))), "metric")

    rows = Opened(asked_of(shared)).answer("diff", {"windows": both}, differences)
    _show_rows(rows, named("metric"))


@click.command("audit")
@click.option(
    "--snapshot",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="What zkctl partition list -o json (or jsonl) wrote, instead of a live ZooKeeper.",
)
@history_options
def audit(snapshot: Path | None, **shared: Any) -> int:
    """The end of the logs against ZooKeeper (-z) or a snapshot; exits with 1 if they differ.

    Examples:
      zkctl history audit --out incident --snapshot snapshot.jsonl
    """
    from zkcontroller_cli.histories.snapshot import from_file, from_zookeeper, must_be_same

    cluster_id = None
    if snapshot:
        stored = from_file(snapshot)
    else:
        stored, cluster_id = from_zookeeper(settings())

    def ids(history: History) -> list[str]:
        from kafka_history.analyses.audit import cluster_ids

        return sorted(cluster_ids(history.events))

    def differences(history: History) -> list[Row]:
        from kafka_history.analyses.audit import SNAPSHOT_SCHEMA
        from kafka_history.analyses.audit import audit as differences
        from kafka_history.analyses.moment import partitions_at

        rows = history.events.sparkSession.createDataFrame(stored, SNAPSHOT_SCHEMA)
        found = differences(partitions_at(history.states, None), rows)
        return _taken(found, "topic", "partition")

    opened = Opened(asked_of(shared))
    if not snapshot:
        must_be_same(cluster_id, opened.answer("cluster_ids", {}, ids))
    # Another state of ZooKeeper is another question.
    asked = sha256(repr(stored).encode()).hexdigest()
    found = opened.answer("audit", {"stored": asked}, differences)
    shown = _of_partition("verdict", "says", "file", "line")
    return ExitCode.FINDING if _show_rows(found, shown) else ExitCode.OK
