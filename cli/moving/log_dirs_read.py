"""``zkctl log-dirs sizes``, ``moves``, ``strays``: the content of brokers' log directories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import Settings, reads, say, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.moving.reassign_options import partition_name

if TYPE_CHECKING:
    from zkcontroller_cli.moving.log_dir_rows import DirectoryMove, StrayLog

_BY: Final = ("broker", "log-dir", "topic", "partition")
_MOVE_KEYS: Final = (
    "broker_id",
    "topic",
    "partition",
    "log_dir",
    "future_log_dir",
    "copied_bytes",
    "total_bytes",
    "offset_lag",
    "bytes_per_s",
    "remaining_ms",
)
_MOVES: Final = Layout(partition_name, (), _MOVE_KEYS)
_STRAY_KEYS: Final = (
    "broker_id",
    "log_dir",
    "topic",
    "partition",
    "size_bytes",
    "is_future",
    "reason",
)
_STRAYS: Final = Layout(partition_name, (), _STRAY_KEYS)

_brokers = click.argument(
    "broker_ids", nargs=-1, type=click.IntRange(min=0), metavar="[BROKER…]"
)  # fmt: skip


@click.command("sizes")
@_brokers
@click.option(
    "--by",
    type=click.Choice(_BY),
    default="log-dir",
    show_default=True,
    help="Add up the sizes for each of these.",
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only replicas of this topic."
)
@reads
def sizes(broker_ids: tuple[int, ...], by: str, topics: tuple[str, ...]) -> None:
    """How much is in the log directories of BROKER, or of every broker.

    Examples:
      zkctl log-dirs sizes
      zkctl log-dirs sizes --by topic
      zkctl log-dirs sizes 1 2 --by partition --topic orders
    """
    from zkcontroller_cli.moving.log_dir_rows import (
        KEYS,
        SizesBy,
        of_topics,
        size_rows,
        topics_without_replicas,
    )
    from zkcontroller_cli.wire.log_dirs import log_dirs_of
    from zkcontroller_cli.wire.requests import Deadline, run

    given = settings()
    read = run(log_dirs_of(given.bootstrap(), Deadline(given.deadline_s), broker_ids))
    for topic in topics_without_replicas(read, topics):
        say(
            f"warning: no log directory that was read has topic {topic}; zkctl topic list shows all"
        )
    wanted = SizesBy(by)
    keys = KEYS[wanted]
    name = {SizesBy.BROKER: "broker_id", SizesBy.LOG_DIR: "log_dir", SizesBy.TOPIC: "topic"}
    layout = (
        Layout(partition_name, keys, keys)
        if wanted is SizesBy.PARTITION
        else named(name[wanted], *keys, keys=keys)
    )
    given.renderer.rows(size_rows(of_topics(read, topics), wanted), layout)


@click.command("moves")
@_brokers
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between the two readings that give the rate; 0: one reading, no rate.",
)
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
@reads
def moves(broker_ids: tuple[int, ...], interval: float, check: bool) -> int:
    """Replicas on their way to another log directory of their broker, with what is copied.

    Examples:
      zkctl log-dirs moves
      zkctl log-dirs moves 1 --interval 5
    """
    from zkcontroller_cli.wire.requests import run

    given = settings()
    found = run(_moves(given, broker_ids, interval))
    given.renderer.rows([each._asdict() for each in found], _MOVES)
    return ExitCode.FINDING if check and found else ExitCode.OK


async def _moves(
    given: Settings, broker_ids: Sequence[int], interval: float
) -> list[DirectoryMove]:
    import asyncio

    from zkcontroller_cli.moving.log_dir_rows import directory_moves
    from zkcontroller_cli.wire.log_dirs import log_dirs_of
    from zkcontroller_cli.wire.requests import Deadline

    then = await log_dirs_of(given.bootstrap(), Deadline(given.deadline_s), broker_ids)
    began_s = time.monotonic()
    found = directory_moves(then)
    if not found or not interval:
        return found
    await asyncio.sleep(interval)
    now = await log_dirs_of(given.bootstrap(), Deadline(given.deadline_s), broker_ids)
    return directory_moves(now, then, seconds=time.monotonic() - began_s)


@click.command("strays")
@_brokers
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
@reads
def strays(broker_ids: tuple[int, ...], check: bool) -> int:
    """Logs that BROKER, or any broker, holds and that are not assigned to it.

    Compare with zkctl topic describe before anything is deleted by hand; zkctl deletes no log. A
    topic that you may not describe is named so, and its logs may well be assigned.

    Examples:
      zkctl log-dirs strays
      zkctl log-dirs strays 1 --check
    """
    from zkcontroller_cli.console.quantities import size_text
    from zkcontroller_cli.wire.requests import run

    given = settings()
    found = run(_strays(given, broker_ids))
    say(f"{len(found)} logs that are not assigned, {size_text(sum(e.size_bytes for e in found))}")
    rows: list[dict[str, Any]] = [each._asdict() for each in found]
    given.renderer.rows(rows, _STRAYS)
    return ExitCode.FINDING if check and found else ExitCode.OK


async def _strays(given: Settings, broker_ids: Sequence[int]) -> list[StrayLog]:
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.moving.log_dir_rows import stray_logs
    from zkcontroller_cli.moving.moves_reading import MovesReading
    from zkcontroller_cli.wire.log_dirs import log_dirs_of
    from zkcontroller_cli.wire.requests import Deadline, error_text, metadata

    bootstrap = given.bootstrap()
    first = await log_dirs_of(bootstrap, Deadline(given.deadline_s), broker_ids)
    topics = sorted({replica.topic for each in first for replica in each.replicas})
    known = await metadata(bootstrap, Deadline(given.deadline_s), topics)
    second = await log_dirs_of(bootstrap, Deadline(given.deadline_s), broker_ids)
    unknown = {
        str(topic.name): "there is no such topic"
        if topic.error_code is ErrorCode.unknown_topic_or_partition
        else f"not known: {error_text(topic.error_code)}"
        for topic in known.topics
        if topic.error_code is not ErrorCode.none
    }
    return stray_logs(first, MovesReading(known, ()).current, unknown, second)
