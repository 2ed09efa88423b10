"""``zkctl snapshot``: a cluster's metadata in one file, and the changes between two files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.errors import BadUsage, ExitCode
from zkcontroller_cli.console.options import Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout, Row, named
from zkcontroller_cli.console.tables import moment_text

if TYPE_CHECKING:
    from zkcontroller_cli.snapshots.file import SavedMetadata, SnapshotRecord

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_SAVED: Final = named("file")
_RECORD_KEYS: Final = (
    "kind",
    "name",
    "value",
    "path",
    "zk_version",
    "czxid",
    "mzxid",
    "ctime_ms",
    "mtime_ms",
)
_CHANGE_KEYS: Final = (
    "kind",
    "name",
    "change",
    "field",
    "old",
    "new",
    "changed_at_ms",
    "path",
    "old_zk_version",
    "new_zk_version",
    "old_mzxid",
    "new_mzxid",
)
_RECORDS: Final = Layout(
    lambda row: f"{row['kind']}:{row['name']}",
    ("kind", "name", "value", "zk_version", "mtime_ms"),
    _RECORD_KEYS,
)
_CHANGES: Final = Layout(
    lambda row: f"{row['kind']}:{row['name']}",
    ("kind", "name", "change", "field", "old", "new", "changed_at_ms", "new_zk_version"),
    _CHANGE_KEYS,
)
ANSWER_S: Final = 30.0
"""The default number of seconds that brokers may take for one request, without ``--timeout``."""


@click.group("snapshot", cls=VerbGroup)
def command() -> None:
    """The whole cluster's metadata in one file, and what changed between two of them."""


_topic_option = click.option(
    "--topic", "topic", metavar="GLOB", help="Only what concerns topics that match."
)
_kind_option = click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only records of this kind."
)


@command.command("save")
@click.argument("file", type=_FILE)
def save(file: Path) -> None:
    """Write what ZooKeeper holds, or else what brokers tell, to FILE (.gz: gzip).

    No secret is in it. An existing file is never overwritten. docs/snapshot-format.md describes
    the format.

    Examples:
      zkctl snapshot save monday.jsonl.gz
    """
    from zkcontroller_cli.snapshots import file as snapshot_file

    given = settings()
    snapshot_file.check_free(file)
    snapshot = _taken(given)
    snapshot_file.save(snapshot, file)
    _name_what_is_missing(snapshot)
    record = {
        "file": str(file),
        "cluster_id": snapshot.header.cluster_id,
        "source": snapshot.header.source,
        "taken_at_ms": snapshot.header.taken_at_ms,
        "record_count": len(snapshot.records),
        "records": dict(Counter(each.kind for each in snapshot.records)),
        "not_known": sorted(snapshot.not_known),
    }
    given.renderer.record(record, _SAVED)


@command.command("show")
@click.argument("file", type=_FILE)
@_topic_option
@_kind_option
def show(file: Path, topic: str | None, kinds: tuple[str, ...]) -> None:
    """Every record of FILE, with the version and the time of its znode.

    Examples:
      zkctl snapshot show monday.jsonl.gz
      zkctl snapshot show monday.jsonl.gz --kind topic_config -o jsonl
    """
    from zkcontroller_cli.snapshots import file as snapshot_file

    wanted = _checked(kinds)
    snapshot = snapshot_file.load(file)
    header = snapshot.header
    say(
        f"cluster {header.cluster_id or 'without id'}, from {header.source}, "
        f"{moment_text(header.taken_at_ms)}: {len(snapshot.records):,} records"
    )
    _name_what_is_missing(snapshot)
    rows: list[Row] = [
        each.row() for each in snapshot.records if each.kind in wanted and _is_of(each, topic)
    ]
    settings().renderer.rows(rows, _RECORDS)


@command.command("diff")
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE, required=False)
@click.option("--live", "is_live", is_flag=True, help="Compare with the cluster as it is now.")
@_topic_option
@_kind_option
def diff(
    old: Path, new: Path | None, is_live: bool, topic: str | None, kinds: tuple[str, ...]
) -> int:
    """What changed from OLD to NEW, or to the cluster as it is (--live), and when.

    Exits with 1 if anything changed. Counts go to stderr first.

    Examples:
      zkctl snapshot diff monday.jsonl.gz friday.jsonl.gz
      zkctl snapshot diff monday.jsonl.gz --live --topic 'orders*'
    """
    from zkcontroller_cli.snapshots import file as snapshot_file
    from zkcontroller_cli.snapshots.differences import changes, comparable_kinds, summary

    if is_live == (new is not None):
        raise BadUsage("say either NEW or --live")
    given = settings()
    wanted = _checked(kinds)
    before = snapshot_file.load(old)
    after = _taken(given) if new is None else snapshot_file.load(new)
    _say_what_is_compared(before, after)
    reasons = comparable_kinds(before, after)
    _say_by_reason(
        "not compared", {kind: why for kind, why in reasons.items() if kind in wanted and why}
    )
    compared = {kind for kind in wanted if reasons[kind] is None}
    for snapshot in (before, after):
        snapshot.records = [each for each in snapshot.records if _is_of(each, topic)]
    found = changes(before, after, compared)
    for line in summary(found) or ["nothing changed"]:
        say(line)
    given.renderer.rows([each.row() for each in found], _CHANGES)
    return ExitCode.FINDING if found else ExitCode.OK


def _taken(given: Settings) -> SavedMetadata:
    """Read the cluster's metadata now: from ZooKeeper if one is named, else from brokers."""
    if given.find_zookeeper() is not None:
        from zkcontroller_cli.snapshots.reading import read_snapshot
        from zkcontroller_cli.znodes.session import open_zookeeper

        with open_zookeeper(given) as zookeeper:
            return read_snapshot(zookeeper)
    from zkcontroller_cli.snapshots.brokers import ask_snapshot
    from zkcontroller_cli.wire.requests import run

    bootstrap = given.bootstrap()
    say(f"no ZooKeeper is named: the brokers at {bootstrap.servers} know no versions and no times")
    return run(ask_snapshot(bootstrap, given.timeout_s or ANSWER_S))


def _checked(kinds: tuple[str, ...]) -> frozenset[str]:
    """The wanted kinds of records, all if none is named; BadUsage for an unknown kind."""
    from zkcontroller_cli.snapshots.file import KINDS

    for kind in kinds:
        if kind not in KINDS:
            raise BadUsage(f"--kind {kind}: there are {', '.join(KINDS)}")
    return frozenset(kinds or KINDS)


def _is_of(record: SnapshotRecord, topic: str | None) -> bool:
    if topic is None:
        return True
    return record.topic is not None and fnmatchcase(record.topic, topic)


def _name_what_is_missing(snapshot: SavedMetadata) -> None:
    _say_by_reason("not known", snapshot.not_known)


def _say_by_reason(what: str, reasons: Mapping[str, str]) -> None:
    """Say on stderr one line for each reason, with all its kinds."""
    for reason in dict.fromkeys(reasons.values()):
        kinds = ", ".join(kind for kind, why in reasons.items() if why == reason)
        say(f"{what}: {kinds}: {reason}")


def _say_what_is_compared(old: SavedMetadata, new: SavedMetadata) -> None:
    mine, its = old.header, new.header
    say(f"from {moment_text(mine.taken_at_ms)} to {moment_text(its.taken_at_ms)}:")
    if mine.cluster_id != its.cluster_id:
        say(f"warning: two clusters: {mine.cluster_id} and {its.cluster_id}")
    if mine.taken_at_ms > its.taken_at_ms:
        say("warning: OLD was taken after NEW")
