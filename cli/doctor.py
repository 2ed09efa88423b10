"""``zkctl doctor``: what is wrong with a cluster, where that stands, and the next safe step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import BadUsage, ExitCode
from .options import Settings, say, settings, shared_options
from .render import Format, Layout, named
from .tables import RowColour, moment_text

if TYPE_CHECKING:
    from .doctor_rules import Finding
    from .zookeeper import ZooKeeper

_KEYS: Final = (
    "rule",
    "severity",
    "title",
    "partition_count",
    "topic_count",
    "evidence",
    "next_step",
)
_SHOWN_KEYS: Final = ("rule", "severity", "partition_count", "topic_count", "title")
SETTLE_S: Final = 1.0
"""The time between two looks: what is found must be there in both."""
_COLOURS: Final = {
    "critical": RowColour.ERROR,
    "error": RowColour.ERROR,
    "warning": RowColour.WARNING,
}
_LAYOUT: Final = Layout(
    lambda row: str(row["rule"]),
    _SHOWN_KEYS,
    _KEYS,
    lambda row: _COLOURS.get(str(row["severity"]), RowColour.FINE),
)
_RULES: Final = named(
    "rule", "rule", "severity", "needs", "title", keys=("rule", "severity", "needs", "title")
)


@shared_options
@click.command("doctor")
@click.option("--rules", "is_list", is_flag=True, help="List the rules, check nothing.")
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="ID[=TOPIC]",
    help="Leave a rule out, everywhere or for topics that match a glob.",
)
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A deletion, a move or a notification is stuck when it is older.",
)
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Look again and again, until Ctrl-C.",
)
def command(
    is_list: bool, ignored: tuple[str, ...], patience_s: float, every_s: float | None
) -> int:
    """What is wrong with the cluster: evidence, what it concerns, and the next safe step.

    Reads only, ZooKeeper and every broker registered there. Exits with 0 if all is well, with 1 if
    something is found that is worse than info, with 2 or more if it could not be checked.
    """
    from .doctor_rules import RULES

    given = settings()
    if is_list:
        rows = [
            {
                "rule": rule.id,
                "severity": str(rule.severity),
                "needs": "brokers" if rule.needs_brokers else "ZooKeeper",
                "title": rule.title,
            }
            for rule in RULES
        ]
        given.renderer.rows(rows, _RULES)
        return ExitCode.OK
    for text in ignored:
        if text.partition("=")[0] not in {rule.id for rule in RULES}:
            raise BadUsage(f"--ignore {text}: there is no such rule; zkctl doctor --rules has them")
    while True:
        if every_s is not None:
            say(moment_text(time.time_ns() // 1_000_000))
        code = _look(given, ignored, patience_s)
        if every_s is None:
            return code
        time.sleep(every_s)


def _look(given: Settings, ignored: tuple[str, ...], patience_s: float) -> int:
    from zkcontroller.history.analyses.rules import Severity

    from .doctor_brokers import read_brokers
    from .doctor_reading import read_cluster
    from .doctor_rules import findings, lasting_findings
    from .wire import run
    from .zookeeper import open_zookeeper

    def look(zookeeper: ZooKeeper) -> list[Finding]:
        reading = read_cluster(zookeeper, patience_s)
        run(read_brokers(reading, given.security))
        return findings(reading, ignored)

    with open_zookeeper(given) as zookeeper:
        found = lasting_findings(lambda: look(zookeeper), lambda: time.sleep(SETTLE_S))
    _show(given, found)
    return (
        ExitCode.FINDING
        if any(each.severity is not Severity.INFO for each in found)
        else ExitCode.OK
    )


def _show(given: Settings, found: list[Finding]) -> None:
    rows: list[dict[str, Any]] = [each.row() for each in found]
    given.renderer.rows(rows, _LAYOUT)
    if given.renderer.format is not Format.TABLE:
        return
    from .doctor_rules import SHOWN_EVIDENCE

    for each in found:
        say(f"\n{each.rule}: {each.title}")
        for place in each.places[:SHOWN_EVIDENCE]:
            say(f"  {place.evidence.where}: {place.evidence.what}")
        if len(each.places) > SHOWN_EVIDENCE:
            say(f"  and {len(each.places) - SHOWN_EVIDENCE} more: -o json has all")
        say(f"  next: {each.next_step}")
    if not found:
        say("nothing is wrong")
