"""``zkctl doctor``: what is wrong with a cluster, where, and the next safe step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_common.errors import ZkControllerError, ZooKeeperUnavailable
from zkcontroller_cli.console.errors import (
    BadUsage,
    CannotConnect,
    ExitCode,
    NotChecked,
    OutputLost,
    sentence_of,
)
from zkcontroller_cli.console.options import Settings, say, settings, shared_options
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.console.tables import RowColour, moment_text

if TYPE_CHECKING:
    from zkcontroller_cli.diagnosis.findings import Finding
    from zkcontroller_cli.diagnosis.looks import Look
    from zkcontroller_cli.diagnosis.reading import ClusterReading
    from zkcontroller_cli.znodes.session import ZooKeeper

_KEYS: Final = (
    "rule",
    "severity",
    "title",
    "partition_count",
    "topic_count",
    "evidence",
    "next_step",
    "command",
    "page",
)
_SHOWN_KEYS: Final = ("rule", "severity", "partition_count", "topic_count", "title")
SETTLE_S: Final = 1.0
"""Seconds between two looks; only what both of them find is shown."""
_WATCH_S: Final = 10.0
COPYING_S: Final = 15.0
"""Seconds between two looks while a move is slow; a throttled move may copy nothing for so long."""
_COLOURS: Final = {
    "critical": RowColour.ERROR,
    "error": RowColour.ERROR,
    "warning": RowColour.WARNING,
    "unchecked": RowColour.WARNING,
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
    help="A deletion, a move or a notification that is older counts as stuck.",
)
@click.option(
    "--watch",
    "every_s",
    is_flag=False,
    flag_value=_WATCH_S,
    type=click.FloatRange(min=1),
    metavar="[SECONDS]",
    help=f"Look again every SECONDS (default {_WATCH_S:g}), until Ctrl-C.",
)
@click.option(
    "--save",
    "saved",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep what this look saw, for --since.",
)
@click.option(
    "--since",
    "since",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Show only what is new since --save FILE, and what went back since then.",
)
def command(
    is_list: bool,
    ignored: tuple[str, ...],
    patience_s: float,
    every_s: float | None,
    saved: Path | None,
    since: Path | None,
) -> int:
    """What is wrong with the cluster: evidence, what it concerns, and the next safe step.

    Reads only, ZooKeeper and every broker registered there. Exits with 0 if all is well, with 1 if
    something is found that is worse than info, with 2 if it could not check: the cluster could not
    be read, or nothing is found and a rule is unchecked. docs/doctor.md explains each rule.

    Examples:
      zkctl doctor
      zkctl doctor --watch 10
      zkctl doctor --save before.json
      zkctl doctor --since before.json
      zkctl doctor --ignore B05=test-*
    """
    from zkcontroller_cli.diagnosis.looks import load, save
    from zkcontroller_cli.diagnosis.rules import RULES

    given = settings()
    if is_list:
        rows = [
            {
                "rule": rule.id,
                "severity": str(rule.severity),
                "needs": str(rule.needs),
                "title": rule.title,
            }
            for rule in RULES
        ]
        given.renderer.rows(rows, _RULES)
        return ExitCode.OK
    for text in ignored:
        if text.partition("=")[0] not in {rule.id for rule in RULES}:
            raise BadUsage(f"--ignore {text}: there is no such rule; zkctl doctor --rules has them")
    earlier = None if since is None else load(since)
    doctor = _Doctor(given, ignored, patience_s, earlier, earlier)
    while True:
        if every_s is not None:
            say(moment_text(time.time_ns() // 1_000_000))
        try:
            code = doctor.look()
        except (BadUsage, OutputLost):
            raise
        except (ZkControllerError, OSError) as error:
            not_checked = NotChecked(sentence_of(error))
            if every_s is None:
                raise not_checked from error
            say(f"zkctl: {not_checked}")
            code = not_checked.exit_code
        if saved is not None and doctor.memory is not None:
            save(doctor.memory, saved)
        if every_s is None:
            return code
        time.sleep(every_s)


@dataclass
class _Doctor:
    """Looks at one cluster, and remembers earlier looks."""

    given: Settings
    ignored: tuple[str, ...]
    patience_s: float
    since: Look | None
    """The look of ``--since``, whose findings are not shown again; None without it."""
    memory: Look | None

    def look(self) -> int:
        """Look at the cluster, show what is wrong, and return the exit code."""
        from zkcontroller_cli.diagnosis.looks import look_at
        from zkcontroller_cli.diagnosis.rules import (
            lasting_findings,
            notes,
            unchecked_rows,
            without,
        )
        from zkcontroller_cli.znodes.session import open_zookeeper

        latest: list[ClusterReading] = []

        def once(zookeeper: ZooKeeper) -> list[Finding]:
            found, reading = self._read(zookeeper, latest[-1] if latest else self.memory)
            latest[:] = [reading]
            return found

        def pause() -> None:
            time.sleep(COPYING_S if latest[-1].copied().of_replicas else SETTLE_S)

        try:
            with open_zookeeper(self.given) as zookeeper:
                found = lasting_findings(lambda: once(zookeeper), pause)
        except (CannotConnect, ZooKeeperUnavailable):
            self._show_servers()
            raise
        [reading] = latest
        look = look_at(reading, found, reading.at_ms)
        self.memory = look if self.memory is None else self.memory.followed_by(look)
        if self.since is not None:
            unknown = {rule for rule, evidence in reading.unchecked.items() if evidence}
            _compare(self.since, look, unknown | reading.notes.keys())
            found = without(found, self.since.places)
        unchecked = unchecked_rows(reading, self.ignored)
        _show(self.given, found, unchecked)
        for reason, rules in notes(reading, self.ignored).items():
            say(f"not looked for, or not in full: {rules}: {reason}")
        return _exit_code(found, unchecked)

    def _read(
        self, zookeeper: ZooKeeper, before: ClusterReading | Look | None
    ) -> tuple[list[Finding], ClusterReading]:
        import asyncio

        from zkcontroller_cli.diagnosis.brokers import read_brokers
        from zkcontroller_cli.diagnosis.ensemble import read_ensemble
        from zkcontroller_cli.diagnosis.reading import ClusterReading, read_cluster
        from zkcontroller_cli.diagnosis.rules import findings
        from zkcontroller_cli.wire.requests import run

        async def ask_all() -> None:
            named = self.given.find_bootstrap()
            servers, _ = await asyncio.gather(
                read_ensemble(zookeeper.servers, self.given.zookeeper_tls),
                read_brokers(reading, self.given.security, None if named is None else named.text),
            )
            reading.set_servers(servers)

        reading = read_cluster(zookeeper, self.patience_s)
        if self.given.timeout_s is not None:
            reading.broker_s = self.given.timeout_s
        reading.earlier = self.memory
        reading.start_files = _start_files(self.given)
        if isinstance(before, ClusterReading):
            reading.before = before.copied()
        if before is not None:
            reading.longest_answers_ms = dict(before.longest_answers_ms)
            reading.silences = dict(before.silences)
        run(ask_all())
        return findings(reading, self.ignored), reading

    def _show_servers(self) -> None:
        """Show what rules Z02 and Z03 find at ZooKeeper's servers if no session is possible."""
        from zkcontroller.zookeeper.connect_string import parse_connect
        from zkcontroller_cli.diagnosis.ensemble import read_ensemble
        from zkcontroller_cli.diagnosis.reading import ClusterReading
        from zkcontroller_cli.diagnosis.rules import findings
        from zkcontroller_cli.wire.requests import run

        reading = ClusterReading("", self.patience_s)
        where = parse_connect(self.given.zookeeper())
        reading.set_servers(run(read_ensemble(where.servers, self.given.zookeeper_tls)))
        found = [each for each in findings(reading, self.ignored) if each.rule in ("Z02", "Z03")]
        _show(self.given, found, [])


def _start_files(given: Settings) -> dict[int, str]:
    """By broker id, the server.properties, if ZooKeeper is that of the local cluster.

    A broker without the file is left out, as it could not be started.
    """
    address = given.find_zookeeper()
    cluster = given.cluster_file
    if cluster is None or address is None or address.text != cluster.zookeeper_connect:
        return {}
    return {
        broker.broker_id: str(path)
        for broker in cluster.brokers
        if (path := cluster.properties_path(broker.broker_id)).exists()
    }


def _compare(since: Look, now: Look, unknown: Set[str]) -> None:
    """Show on stderr what has stayed and what has ended since then; BadUsage for another cluster.

    ``unknown``: rules that were not checked now, or only in part; their findings may still be true.
    """
    if since.cluster_id != now.cluster_id:
        raise BadUsage(
            f"--since is of cluster {since.cluster_id}, and this is cluster {now.cluster_id}: "
            "name a file that was saved of this one"
        )
    say(f"since {moment_text(since.at_ms)}:")
    gone = since.places - now.places
    hidden = {place for place in gone if place[0] in unknown}
    for what, places in (
        ("as before", since.places & now.places),
        ("ended", gone - hidden),
        ("not seen now, and not checked in full", hidden),
    ):
        counts = Counter(rule for rule, *_ in places)
        if counts:
            texts = (f"{rule} ({count} places)" for rule, count in sorted(counts.items()))
            say(f"  {what}: {', '.join(texts)}")


def _exit_code(found: list[Finding], unchecked: list[dict[str, Any]]) -> int:
    from kafka_history.analyses.rules import Severity

    if any(each.severity is not Severity.INFO for each in found):
        return ExitCode.FINDING
    return ExitCode.NOT_CHECKED if unchecked else ExitCode.OK


def _show(given: Settings, found: list[Finding], unchecked: list[dict[str, Any]]) -> None:
    given.renderer.rows([each.row() for each in found] + unchecked, _LAYOUT)
    if not given.renderer.is_for_eyes:
        return
    from zkcontroller_cli.diagnosis.findings import page_of
    from zkcontroller_cli.diagnosis.rules import SHOWN_EVIDENCE

    for each in found:
        say(f"\n{each.rule}: {each.title}")
        for place in each.places[:SHOWN_EVIDENCE]:
            say(f"  {place.evidence.where}: {place.evidence.what}")
        if len(each.places) > SHOWN_EVIDENCE:
            say(f"  and {len(each.places) - SHOWN_EVIDENCE} more: -o json has all")
        say(f"  next: {each.next_step}")
        say(f"    {each.command}")
        say(f"  see {page_of(each.rule)}")
    for row in unchecked:
        say(f"\n{row['rule']} is not checked:")
        for evidence in row["evidence"][:SHOWN_EVIDENCE]:
            say(f"  {evidence['where']}: {evidence['what']}")
    if not found and not unchecked:
        say("nothing is wrong")
