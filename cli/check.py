"""``zkctl check``: measurements of a running cluster against limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.console.tables import RowColour

if TYPE_CHECKING:
    from zkcontroller_cli.console.options import Bootstrap
    from zkcontroller_cli.truth.perf_results import PerfResult

_KEYS: Final = (
    "check",
    "where",
    "broker_id",
    "round_count",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
    "limit_ms",
    "result",
    "error",
)
_LAYOUT: Final = Layout(
    lambda row: str(row["check"]),
    ("result", "check", "broker_id", "round_count", "p50_ms", "p90_ms", "p99_ms", "limit_ms",
     "where", "error"),
    _KEYS,
    lambda row: RowColour.ERROR if row["result"] == "FAIL" else RowColour.FINE,
)  # fmt: skip


@click.group("check", cls=VerbGroup)
def command() -> None:
    """Measure a running cluster, and compare with limits."""


@command.command("perf")
@click.option(
    "--rounds", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N",
    help="How often each check is measured.",
)  # fmt: skip
@click.option(
    "--limit", "limits", multiple=True, metavar="CHECK=MS", help="The highest p99 that passes."
)
@click.option("--topic", metavar="TOPIC", help="Write to it, not to a topic made for it.")
@click.option("--no-produce", is_flag=True, help="Write and read no records: then nothing changes.")
@click.option(
    "--write", "is_write", is_flag=True,
    help="Measure ZooKeeper's writes as well, by a transaction that changes no znode.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
def perf(
    rounds: int,
    limits: tuple[str, ...],
    topic: str | None,
    no_produce: bool,
    is_write: bool,
    yes: bool,
) -> int:
    """How fast ZooKeeper, the controller and every broker answer, as p50, p90 and p99.

    Records are written to a topic that is made for it and deleted afterwards, and only after a
    question. Exits with 0 if every check passes, with 1 if one fails. docs/zkctl.md has the limits.

    Examples:
      zkctl check perf --no-produce
      zkctl check perf --rounds 200 --limit produce=50 --yes
    """
    from zkcontroller_cli.truth.perf_results import limits_of

    given = settings()
    most_ms = limits_of(limits)
    if no_produce and topic is not None:
        from zkcontroller_cli.console.errors import BadUsage

        raise BadUsage("--no-produce writes to no topic, and --topic names one")
    question = _question(topic, rounds)
    if not no_produce:
        given.can_be_asked(f"{question} --no-produce leaves that out.", yes=yes)
    bootstrap = _brokers(given, question, is_changed=not no_produce, yes=yes)
    results = _measured(given, bootstrap, rounds, topic, is_write=is_write, no_produce=no_produce)
    rows = [each.row(most_ms.get(each.check)) for each in results]
    given.renderer.rows(rows, _LAYOUT)
    failed = [row for row in rows if row["result"] == "FAIL"]
    say(f"{len(rows) - len(failed)} passed, {len(failed)} failed")
    return ExitCode.FINDING if failed else ExitCode.OK


def _question(topic: str | None, rounds: int) -> str:
    if topic is not None:
        return f"Write {rounds + 1} records to {topic} at each leader? They stay there."
    return (
        f"Create a topic with a partition on each broker, write {rounds + 1} records to each, "
        "and delete the topic?"
    )


def _brokers(given: Settings, question: str, *, is_changed: bool, yes: bool) -> Bootstrap:
    """The bootstrap servers; before a change their cluster is named, and the user is asked."""
    if not is_changed:
        return given.bootstrap()
    from zkcontroller_cli.wire.target import brokers_to_change

    bootstrap = brokers_to_change(given)
    given.confirm(question, yes=yes)
    return bootstrap


def _measured(
    given: Settings,
    bootstrap: Bootstrap,
    rounds: int,
    topic: str | None,
    *,
    is_write: bool,
    no_produce: bool,
) -> list[PerfResult]:
    from zkcontroller_cli.truth.perf_rounds import (
        measure_controller,
        measure_records,
        measure_zookeeper,
    )
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.znodes.session import open_zookeeper

    results: list[PerfResult] = []
    if given.find_zookeeper() is not None:
        with open_zookeeper(given) as zookeeper:
            results += measure_zookeeper(zookeeper, rounds, is_write=is_write)
    else:
        say("no ZooKeeper is named: only brokers are measured")
    results.append(run(measure_controller(bootstrap, rounds)))
    if not no_produce:
        results += run(measure_records(bootstrap, topic, rounds))
    return results
