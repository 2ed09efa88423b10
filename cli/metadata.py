"""``zkctl metadata``: compares what brokers know with what ZooKeeper holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import ExitCode, NotChecked, sentence_of
from zkcontroller_cli.console.options import Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout, Row
from zkcontroller_cli.console.tables import RowColour

if TYPE_CHECKING:
    from zkcontroller_cli.truth.metadata_look import MetadataLook

_KEYS: Final = (
    "what",
    "where",
    "topic",
    "partition",
    "broker_id",
    "request",
    "expected",
    "expected_by",
    "path",
    "zk_version",
    "found",
    "is_lasting",
    "first_seen_at_ms",
    "last_seen_at_ms",
)
_SHOWN: Final = (
    "what",
    "where",
    "expected",
    "path",
    "zk_version",
    "broker_id",
    "request",
    "found",
    "first_seen_at_ms",
)
_LAYOUT: Final = Layout(
    lambda row: f"{row['broker_id']}:{row['where']}:{row['what']}",
    _SHOWN,
    _KEYS,
    lambda row: RowColour.ERROR if row["is_lasting"] else RowColour.FINE,
)
ANSWER_S: Final = 10.0
"""Seconds that a broker may take for one kind of request; ``--timeout`` may shorten them."""


@click.group("metadata", cls=VerbGroup)
def command() -> None:
    """What brokers know of the cluster, and whether it is true."""


@command.command("diff")
@click.option("--topic", "topic", metavar="GLOB", help="Only topics that match.")
@click.option(
    "--broker", "broker_id", type=click.IntRange(min=0), metavar="ID", help="Ask only it."
)
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Report a difference if a second look, this much later, shows it too.",
)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Also show differences that the second look does not show.",
)
def diff(topic: str | None, broker_id: int | None, patience_s: float, is_all: bool) -> int:
    """Every broker's metadata, logs, leaderships and leader epochs beside the znodes.

    Without ZooKeeper the brokers are compared with each other. Reads only. Exits with 0 if all is
    the same, with 1 if something differs, with 2 if a broker could not be compared.

    Examples:
      zkctl metadata diff
      zkctl metadata diff --topic 'orders*' --broker 1
    """
    from kafka_common.errors import ZkControllerError
    from zkcontroller_cli.console.errors import BadUsage, OutputLost

    given = settings()
    try:
        first, second, moments = _look_twice(given, topic, broker_id, patience_s)
        rows = _rows(first, second, moments, is_all=is_all)
        given.renderer.rows(rows, _LAYOUT)
    except (BadUsage, OutputLost):
        raise
    except (ZkControllerError, OSError) as error:
        raise NotChecked(sentence_of(error)) from error
    return _verdict(rows, second or first)


def _look_twice(
    given: Settings, topic: str | None, broker_id: int | None, patience_s: float
) -> tuple[MetadataLook, MetadataLook | None, tuple[int, int]]:
    """A look, and a second one if the first has differences or could not compare all; else None.

    The third value is the times of the two looks, in ms since 1970.
    """
    from zkcontroller_cli.znodes.session import now_ms

    look = _looking(given, topic, broker_id)
    first_ms = now_ms()
    first = look()
    if not first.differences and not first.not_compared:
        return first, None, (first_ms, first_ms)
    # A broker that does not answer may be dead; its session then expires before the second look.
    found = f"{len(first.differences):,} differences, {len(first.not_compared):,} not compared"
    say(f"{found}; looking again in {patience_s:g} s")
    time.sleep(patience_s)
    second_ms = now_ms()
    return first, look(), (first_ms, second_ms)


def _looking(
    given: Settings, topic: str | None, broker_id: int | None
) -> Callable[[], MetadataLook]:
    """A function that takes a look: with ZooKeeper if one is named, else at brokers alone."""
    from zkcontroller_cli.truth.metadata_look import (
        brokers_named,
        compare_brokers,
        compare_with_znodes,
        read_truth,
        registered_to_ask,
    )
    from zkcontroller_cli.truth.metadata_truth import TopicFilter
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.znodes.session import open_zookeeper

    wanted = TopicFilter(topic)
    answer_s = min(ANSWER_S, given.deadline_s)

    def with_zookeeper() -> MetadataLook:
        with open_zookeeper(given) as zookeeper:
            truth, registrations = read_truth(zookeeper, wanted)
        if broker_id is not None and broker_id not in truth.brokers:
            raise NotChecked(f"broker {broker_id} is not registered")
        brokers = registered_to_ask(registrations, given.security, answer_s)
        return run(compare_with_znodes(truth, brokers, broker_id, wanted))

    async def among_brokers() -> MetadataLook:
        brokers = await brokers_named(given.bootstrap(), answer_s)
        if broker_id is not None and broker_id not in brokers.addresses:
            raise NotChecked(f"the brokers do not know broker {broker_id}")
        return await compare_brokers(brokers, broker_id, wanted)

    if given.find_zookeeper() is not None:
        return with_zookeeper
    bootstrap = given.bootstrap()
    say(f"no ZooKeeper is named: the brokers at {bootstrap.servers} are compared with each other")
    return lambda: run(among_brokers())


def _rows(
    first: MetadataLook, second: MetadataLook | None, moments: tuple[int, int], *, is_all: bool
) -> list[Row]:
    """The differences as rows, sorted; lasting ones, or with ``is_all`` all of both looks.

    A difference is lasting if the broker says the same in both looks.
    """
    if second is None:
        return []
    began_ms, ended_ms = moments
    rows = []
    for key in (
        first.differences.keys() | second.differences.keys() if is_all else second.differences
    ):
        before, now = first.differences.get(key), second.differences.get(key)
        is_lasting = before is not None and now is not None and before.found == now.found
        if not is_lasting and not is_all:
            continue
        shown = now or before
        assert shown is not None, "a key of one of the looks"
        truth = (second if now is not None else first).truth
        rows.append(
            {
                "what": shown.what,
                "where": _where(shown.topic, shown.partition, shown.subject),
                "topic": shown.topic,
                "partition": shown.partition,
                "broker_id": shown.broker_id,
                "request": shown.request,
                "expected": shown.expected,
                "expected_by": truth.source,
                "path": shown.path if truth.is_of_znodes else None,
                "zk_version": truth.version_of(shown) if truth.is_of_znodes else None,
                "found": shown.found,
                "is_lasting": is_lasting,
                "first_seen_at_ms": began_ms if before is not None else ended_ms,
                "last_seen_at_ms": ended_ms if now is not None else began_ms,
            }
        )
    return sorted(rows, key=_order)


def _where(topic: str | None, partition: int | None, subject: int | None) -> str:
    if topic is None:
        return "cluster" if subject is None else f"broker {subject}"
    return topic if partition is None else f"{topic}-{partition}"


def _order(row: Row) -> tuple[Any, ...]:
    partition = -1 if row["partition"] is None else row["partition"]
    return row["topic"] or "", partition, row["where"], row["broker_id"], row["what"]


def _verdict(rows: list[Row], look: MetadataLook) -> int:
    """Say on stderr what was compared and what could not be; returns the exit code."""
    for where, why in sorted(look.notes.items()):
        say(f"note: {where}: {why}")
    for where, why in sorted(look.not_compared.items()):
        say(f"not compared: {where}: {why}")
    lasting = [row for row in rows if row["is_lasting"]]
    if lasting:
        brokers = ", ".join(map(str, sorted({int(row["broker_id"]) for row in lasting})))
        say(f"{len(lasting):,} differences from {look.truth.source}, at brokers {brokers}")
        return ExitCode.FINDING
    if look.not_compared:
        return ExitCode.NOT_CHECKED
    partitions = len(look.truth.partitions)
    say(f"no difference from {look.truth.source} in {partitions:,} partitions")
    return ExitCode.OK
