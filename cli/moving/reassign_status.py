"""``zkctl reassign status``: the progress of moves in bytes, and why one is stalled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import Settings, say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.console.tables import RowColour
from zkcontroller_cli.moving.reassign_options import IN_ROWS, partition_name, show
from zkcontroller_cli.values.moves import Move, read_moves

if TYPE_CHECKING:
    from zkcontroller_cli.moving.move_progress import MoveReport
    from zkcontroller_cli.moving.moves_reading import MovesReading

_KEYS: Final = (
    "topic",
    "partition",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "in_sync_count",
    "copied_bytes",
    "total_bytes",
    "bytes_per_s",
    "remaining_ms",
    "stalled",
)
_LAYOUT: Final = Layout(
    partition_name,
    tuple(key for key in _KEYS if key not in ("in_sync_count", "bytes_per_s", "total_bytes")),
    _KEYS,
    lambda row: RowColour.FINE if row["stalled"] is None else RowColour.WARNING,
)


@click.command("status")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only the moves of this plan, and how many of them are done.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between the two readings that give the rate; 0: one reading, no rate.",
)
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
def status(file: Path | None, interval: float, check: bool) -> int:
    """Every partition that is being moved, with what is copied, how fast, and what stalls it.

    A summary goes to stderr, with the throttles that are set on live brokers, and on topics that
    are being moved or stand in FILE.

    Examples:
      zkctl reassign status
      zkctl reassign status --file moves.json --interval 10
    """
    from zkcontroller_cli.moving.move_progress import progress_line, stalled_moves
    from zkcontroller_cli.wire.requests import run

    given = settings()
    plan = None if file is None else read_moves(file)
    reports = run(_read(given, plan, interval))
    stalled = stalled_moves(reports)
    say(f"{len(reports)} partitions are being moved{progress_line(reports)}")
    if stalled:
        say(f"{len(stalled)} of them are stalled:")
        show([f"  {line}" for line in stalled], IN_ROWS)
    given.renderer.rows([each.row() for each in reports], _LAYOUT)
    return ExitCode.FINDING if check and reports else ExitCode.OK


async def _read(given: Settings, plan: Sequence[Move] | None, interval: float) -> list[MoveReport]:
    import asyncio

    from zkcontroller_cli.moving.move_progress import ProgressReader
    from zkcontroller_cli.moving.moves_reading import placements_in, read_directories, read_moving
    from zkcontroller_cli.values.move_state import counted, progress_of
    from zkcontroller_cli.wire.requests import Deadline

    bootstrap = given.bootstrap()
    reader = ProgressReader(bootstrap)
    names = None if plan is None else {move.name for move in plan}
    topics = sorted({move.topic for move in plan or ()})
    reading = await read_moving(bootstrap, Deadline(given.deadline_s), topics)
    reports = await reader.read(reading, names)
    if interval and reports:
        await asyncio.sleep(interval)
        reading = await read_moving(bootstrap, Deadline(given.deadline_s), topics)
        reports = await reader.read(reading, names)
    if plan is not None:
        found = await read_directories(bootstrap, Deadline(given.deadline_s), reading, plan)
        progress = progress_of(plan, reading.current, reading.ongoing, placements_in(found, plan))
        say(f"the plan: {counted(progress)}")
    await _say_throttles(given, reading, plan or ())
    return reports


async def _say_throttles(given: Settings, reading: MovesReading, plan: Sequence[Move]) -> None:
    """Show the throttles set on live brokers, and on topics that are moved or planned to be."""
    from zkcontroller_cli.moving.throttle_end import standing_of
    from zkcontroller_cli.values.throttles import throttle_lines
    from zkcontroller_cli.wire.requests import Deadline

    of_moves = [Move(*name, each.target) for name, each in reading.ongoing.items()]
    standing = await standing_of(
        given.bootstrap(), Deadline(given.deadline_s), reading, [*of_moves, *plan]
    )
    lines = list(throttle_lines(standing))
    if lines:
        say("throttles:")
        for line in lines:
            say(f"  {line}")
