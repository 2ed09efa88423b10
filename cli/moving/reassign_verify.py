"""``zkctl reassign verify``: checks whether all has moved, and then removes the throttle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import Settings, say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.moving.reassign_options import (
    dry_run_option,
    file_option,
    partition_name,
    preserve_option,
    say_end,
    show,
    yes_option,
)
from zkcontroller_cli.values.moves import Move, named_moves

if TYPE_CHECKING:
    from zkcontroller_cli.console.options import Bootstrap
    from zkcontroller_cli.moving.moves_reading import MovesReading
    from zkcontroller_cli.moving.throttle_end import ThrottleEnd
    from zkcontroller_cli.values.move_state import MoveProgress

_KEYS: Final = ("topic", "partition", "status", "replicas", "current_replicas", "reason")
_LOOKS: Final = 3
"""How many more times a move that is not as planned is read."""
_LAYOUT: Final = Layout(partition_name, (), _KEYS)


@click.command("verify")
@click.argument("moves", nargs=-1, metavar="[TOPIC-PARTITION:BROKER,BROKER,…]…")
@file_option
@preserve_option
@dry_run_option
@yes_option
def verify(
    moves: tuple[str, ...], file: Path | None, preserve_throttles: bool, dry_run: bool, yes: bool
) -> int:
    """Whether every partition is where the plan has it; if all are, their throttle is removed.

    The throttle: the lists of these partitions on their topics, and the rates of brokers unless
    other partitions are being moved. Exits with 1 if a partition is not as planned yet, or
    something of the throttle is left.

    Examples:
      zkctl reassign verify orders-0:1,2,3
      zkctl reassign verify --file moves.json
    """
    from zkcontroller_cli.values.move_state import MoveStatus, counted
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    wanted = named_moves(moves, file)
    given = settings()
    changes = not (preserve_throttles or dry_run)
    bootstrap = brokers_to_change(given) if changes else given.bootstrap()
    reading, progress = run(_settled(given, bootstrap, wanted))
    given.renderer.rows([_row(each) for each in progress], _LAYOUT)
    say(counted(progress))
    if any(each.status is not MoveStatus.DONE for each in progress):
        if any(each.status is MoveStatus.IN_PROGRESS for each in progress):
            say("a throttle stays until all has moved:  zkctl reassign status shows how far it is")
        return ExitCode.FINDING
    if preserve_throttles:
        return ExitCode.OK
    end = run(_planned_end(given, bootstrap, reading, wanted))
    lines = [f"  {edit.text}" for edit in end.edits]
    if dry_run:
        for line in lines:
            say(line)
        return ExitCode.OK
    if end.edits:
        show(lines)
        given.confirm(f"Remove the throttle: {len(end.edits)} configurations?", yes=yes)
        run(_carry_out(given, bootstrap, end))
    say_end(end)
    return ExitCode.OK if end.is_complete else ExitCode.FINDING


async def _settled(
    given: Settings, bootstrap: Bootstrap, moves: list[Move]
) -> tuple[MovesReading, list[MoveProgress]]:
    """The state of the moves, read again if Metadata may be older than the list of moves."""
    import asyncio

    from zkcontroller_cli.moving.move_runner import POLL_S, MoveOrder, MoveRunner
    from zkcontroller_cli.values.move_state import MoveStatus

    runner = MoveRunner(bootstrap, MoveOrder(tuple(moves)), given.deadline_s)
    reading, progress = await runner.look()
    for _ in range(_LOOKS):
        if all(each.status is not MoveStatus.NOT_AS_PLANNED for each in progress):
            break
        await asyncio.sleep(POLL_S)
        reading, progress = await runner.look()
    return reading, progress


async def _planned_end(
    given: Settings, bootstrap: Bootstrap, reading: MovesReading, moves: list[Move]
) -> ThrottleEnd:
    from zkcontroller_cli.moving.throttle_end import planned_end
    from zkcontroller_cli.wire.requests import Deadline

    return await planned_end(bootstrap, Deadline(given.deadline_s), reading, moves)


async def _carry_out(given: Settings, bootstrap: Bootstrap, end: ThrottleEnd) -> None:
    from zkcontroller_cli.moving.throttle_end import carry_out_end
    from zkcontroller_cli.wire.requests import Deadline

    await carry_out_end(bootstrap, Deadline(given.deadline_s), end)


def _row(each: MoveProgress) -> dict[str, Any]:
    return {
        "topic": each.move.topic,
        "partition": each.move.partition,
        "status": each.status,
        "replicas": each.move.replicas,
        "current_replicas": each.current,
        "reason": each.reason,
    }
