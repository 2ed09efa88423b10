"""The verbs of ``zkctl history`` that show results: the report, and one question at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice, starmap
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
    from kafka_history.rules.broker_lives import BrokerLife
    from kafka_history.rules.history import Answers
    from kafka_history.rules.tenures import Tenure

ROWS_MAX: Final = 10_000
"""The most rows that a listing shows; the Parquet tables have all of them."""
_PARTITION: Final = Layout(lambda row: f"{row['topic']}-{row['partition']}")


_MOMENTS: Final = frozenset({"at_ms", "from_ms", "to_ms", "noticed_ms", "since_ms", "time_ms"})
"""Keys that are points in time; other keys that end in ``_ms`` are durations."""


def _findings(opened: Opened) -> dict[str, Any]:
    """The findings from which the report and the list of rules are made."""
    from kafka_history.report.assemble import assemble

    found: dict[str, Any] = opened.answer("findings", {}, lambda history: assemble(history, say))
    return found


def _taken(history: Answers[Any], answer: Any, *order: str) -> list[Row]:
    """The first rows in that order, at most one more than a listing shows."""
    return list(history.taken(answer, *order, limit=ROWS_MAX + 1)[0])


def _show_rows(rows: Sequence[Row], layout: Layout) -> int:
    """Show the rows, and return their number; in a table points in time are shown as dates."""
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
    from kafka_history.rules.tenures import Phase, Tenure

    opened = Opened(asked_of(shared))
    if with_phases:
        order = ("controller_epoch", "at_ms", "step")
        shown = named("phase", "controller_epoch", "broker", "at_ms", "took_ms", "phase")
        steps = _answered(opened, "phases", Phase, lambda history: history.phases, *order)
        _show_rows(steps, shown)
        return
    held = ("controller_epoch", "broker", "from_ms", "to_ms", "ended_by", "overlap_ms")
    rows = _answered(
        opened, "tenures", Tenure, lambda history: history.tenures, "controller_epoch", "from_ms"
    )
    _show_rows(rows, named("controller_epoch", *held))


def _answered(
    opened: Opened,
    name: str,
    kind: type[Any],
    answer: Callable[[Answers[Any]], Any],
    *order: str,
) -> list[Row]:
    """The rows of an answer, from the stored tables if they are there, else computed now."""
    from kafka_history.rules.history import taken_here

    kept = opened.kept(name, kind)
    if kept is not None:
        return list(taken_here(kept, *order, limit=ROWS_MAX + 1)[0])
    rows: list[Row] = opened.answer(
        name, {}, lambda history: _taken(history, answer(history), *order)
    )
    return rows


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
    from kafka_history.rules.history import taken_here
    from kafka_history.rules.partition_states import State

    topic, number = match[1], int(match[2])

    def in_order(states: list[State]) -> list[Row]:
        return list(taken_here(states, "incarnation", "number", limit=ROWS_MAX + 1)[0])

    opened = Opened(asked_of(shared))
    kept = opened.kept("states", State, topic=topic, partition=number)
    rows = (
        opened.answer(
            "partition",
            {"topic": topic, "partition": number},
            lambda history: in_order(history.biographies([(topic, number)])),
        )
        if kept is None
        else in_order(kept)
    )
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
    opened = Opened(asked_of(shared))
    if summed:
        sums = opened.answer("outage sums", {}, lambda history: history.outage_sums._asdict())
        settings().renderer.record(sums, named("windows"))
        return
    rows = opened.answer("outages", {}, lambda history: history.longest_outages(ROWS_MAX + 1)[0])
    layout = _of_partition("from_ms", "noticed_ms", "to_ms", "span_ms", "cause", "file", "line")
    _show_rows(rows, layout)


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

    def asked(history: Answers[Any]) -> list[Row]:
        if storms:
            return _taken(history, history.isr_storms, "at_ms")
        if changes:
            return _taken(history, history.isr_changes, "at_ms", "topic", "partition")
        return _taken(history, history.isr_sums, "broker")

    rows = Opened(asked_of(shared)).answer("isr", {"of": wanted}, asked)
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
    found = _kept_state(opened, at_ms) or opened.answer(
        "state", {"at_ms": at_ms}, lambda history: _state(history, at_ms)
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
"""The controller as text, the ids of the live brokers, and the rows of the partitions."""


def _kept_state(opened: Opened, at_ms: int | None) -> _StateAt | None:
    """The state, computed from stored answers; None if a needed answer is not stored."""
    from kafka_history.rules.broker_lives import BrokerLife
    from kafka_history.rules.moment import partitions_at
    from kafka_history.rules.partition_states import State
    from kafka_history.rules.tenures import Tenure

    states = opened.kept("states", State)
    lives = opened.kept("broker_lives", BrokerLife)
    held = opened.kept("tenures", Tenure)
    if states is None or lives is None or held is None:
        return None
    return _at(at_ms, [each._asdict() for each in partitions_at(states, at_ms)], held, lives)


def _state(history: Answers[Any], at_ms: int | None) -> _StateAt:
    rows = _taken(history, history.partitions_at(at_ms), "topic", "partition")
    return _at(at_ms, rows, history.tenures, history.broker_lives)


def _at(
    at_ms: int | None, rows: list[Row], held: list[Tenure], lives: list[BrokerLife]
) -> _StateAt:
    from kafka_history.rules.moment import brokers_at, controller_at

    if at_ms is None:
        return "", [], rows
    tenure = controller_at(held, at_ms)
    who = f"broker {tenure.broker} (epoch {tenure.controller_epoch})" if tenure else "none"
    return who, brokers_at(lives, at_ms), rows


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

    rows = Opened(asked_of(shared)).answer(
        "diff",
        {"windows": both},
        lambda history: [each._asdict() for each in history.differences(both)[: ROWS_MAX + 1]],
    )
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

    def differences(history: Answers[Any]) -> list[Row]:
        from kafka_history.rules.audit import Stored, audit
        from kafka_history.rules.moment import PartitionAt

        at_end = history.listed(history.partitions_at(None), PartitionAt)
        return [
            each._asdict() for each in islice(audit(at_end, starmap(Stored, stored)), ROWS_MAX + 1)
        ]

    opened = Opened(asked_of(shared))
    if not snapshot:
        must_be_same(
            cluster_id, opened.answer("cluster_ids", {}, lambda history: history.cluster_ids)
        )
    # The state of ZooKeeper is part of the question, else an old answer would be reused.
    asked = sha256(repr(stored).encode()).hexdigest()
    found = opened.answer("audit", {"stored": asked}, differences)
    shown = _of_partition("verdict", "says", "file", "line")
    return ExitCode.FINDING if _show_rows(found, shown) else ExitCode.OK
