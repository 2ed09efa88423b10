"""``zkctl reassign cancel``: cancels moves in progress, and removes their throttle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from zkcontroller_cli.console.errors import BadUsage, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, say, settings
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
from zkcontroller_cli.values.moves import (
    Move,
    NamedPartition,
    distinct,
    parse_partition,
    read_moves,
)

if TYPE_CHECKING:
    from zkcontroller_cli.moving.moves_reading import MovesReading
    from zkcontroller_cli.moving.throttle_end import ThrottleEnd
    from zkcontroller_cli.wire.log_dirs import HostedReplica

_KEYS: Final = ("topic", "partition", "replicas", "is_cancelled", "error", "reason")
_LAYOUT: Final = Layout(partition_name, (), _KEYS)
_POLL_S: Final = 0.2
_NOT_MOVED: Final = "it is not being moved"


class _Cancellation(NamedTuple):
    """The moves to cancel."""

    named: list[NamedPartition]
    """The partitions whose reassignment the controller is asked to cancel."""
    directories: dict[HostedReplica, str]
    """Replicas that are being moved to another log directory, and their current directory."""
    moves: list[Move]
    """All moves that were named, whose throttle is removed."""
    reading: MovesReading


@click.command("cancel")
@click.argument("moves", nargs=-1, metavar="[TOPIC-PARTITION]…")
@file_option
@click.option("--all", "is_all", is_flag=True, help="Every move of the cluster.")
@preserve_option
@dry_run_option
@yes_option
def cancel(
    moves: tuple[str, ...],
    file: Path | None,
    is_all: bool,
    preserve_throttles: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Cancel moves that are under way: their new replicas go, their old ones stay.

    With --file, the moves of the file that are under way are cancelled, also those between log
    directories. The throttle of all named moves is removed; brokers keep their rates while other
    partitions are being moved.

    Examples:
      zkctl reassign cancel orders-0
      zkctl reassign cancel --file moves.json
      zkctl reassign cancel --all --dry-run
    """
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    if bool(moves) + (file is not None) + is_all != 1:
        raise BadUsage("name moves as TOPIC-PARTITION, give a --file, or say --all")
    named = [parse_partition(text.partition(":")[0]) for text in moves]
    distinct(named)
    plan = [] if file is None else read_moves(file)
    given = settings()
    question = "Cancel these moves?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    found = run(_found(given, bootstrap, named, plan, is_all=is_all))
    end = None if preserve_throttles else run(_planned_end(given, bootstrap, found))
    lines = _lines(found)
    if end is not None:
        lines += [f"  {edit.text}" for edit in end.edits]
    if dry_run:
        for line in lines:
            say(line)
        given.renderer.rows([_planned_row(found.reading, each) for each in found.named], _LAYOUT)
        return
    if not lines:
        say("none of them is under way")
        given.renderer.rows([], _LAYOUT)
        if end is not None:
            end.say_what_is_left()
        return
    show(lines)
    given.confirm(question, yes=yes)
    _carry_out(given, bootstrap, found, is_preserving=preserve_throttles)


def _carry_out(
    given: Settings, bootstrap: Bootstrap, found: _Cancellation, *, is_preserving: bool
) -> None:
    from zkcontroller_cli.wire.requests import run

    refused, reading = run(_cancelled(given, bootstrap, found))
    rows = [_row(reading, each, refused.get(each)) for each in found.named]
    given.renderer.rows(rows, _LAYOUT)
    end = None
    if not is_preserving:
        end = run(_ended(given, bootstrap, found, reading))
        say_end(end)
    left = [row for row in rows if not row["is_cancelled"]]
    if left:
        first = left[0]
        said = f"{partition_name(first)}: {first['reason']} ({first['error']})"
        if first["error"] is None:
            said = f"{partition_name(first)} is under way again: see who moves it"
        is_late = all(row["error"] == "REQUEST_TIMED_OUT" for row in left)
        raise TimedOut(said) if is_late else Refused(said)
    if end is not None and not end.is_complete:
        raise Refused(f"the moves are cancelled, but of the throttle is left: {end.left_text}")


async def _found(
    given: Settings,
    bootstrap: Bootstrap,
    named: Sequence[NamedPartition],
    plan: Sequence[Move],
    *,
    is_all: bool,
) -> _Cancellation:
    from zkcontroller_cli.moving.moves_reading import placements_in, read_directories, read_moving
    from zkcontroller_cli.wire.log_dirs import HostedReplica
    from zkcontroller_cli.wire.requests import Deadline

    topics = sorted({*(each.topic for each in named), *(move.topic for move in plan)})
    reading = await read_moving(bootstrap, Deadline(given.deadline_s), topics)
    under_way = reading.ongoing
    if is_all:
        named = sorted(under_way)
    elif plan:
        named = [move.name for move in plan if move.name in under_way]
    moves = [*plan] or [
        Move(*each, under_way[each].target if each in under_way else ()) for each in named
    ]
    placed = placements_in(
        await read_directories(bootstrap, Deadline(given.deadline_s), reading, plan), plan
    )
    directories = {
        HostedReplica(broker, *name): where.log_dir
        for (broker, name), where in placed.items()
        if where.future_log_dir is not None and where.log_dir is not None
    }
    return _Cancellation(list(named), directories, moves, reading)


def _lines(found: _Cancellation) -> list[str]:
    lines = []
    for name in found.named:
        under_way = found.reading.ongoing.get(name)
        adding = () if under_way is None else under_way.adding
        now = found.reading.current.get(name, ())
        after = ",".join(str(broker) for broker in now if broker not in adding)
        state = f"{','.join(map(str, now))} -> {after}" if under_way else _NOT_MOVED
        lines.append(f"  {name.topic}-{name.partition}: {state}")
    lines += [
        f"  {replica.topic}-{replica.partition} on {replica.broker_id}: stays in {path}"
        for replica, path in found.directories.items()
    ]
    return lines


async def _planned_end(given: Settings, bootstrap: Bootstrap, found: _Cancellation) -> ThrottleEnd:
    """The changes that will remove the throttle after the moves are cancelled."""
    from dataclasses import replace

    from zkcontroller_cli.moving.throttle_end import planned_end
    from zkcontroller_cli.wire.requests import Deadline

    others = tuple(
        each
        for each in found.reading.listed
        if NamedPartition(each.topic, each.partition) not in found.named
    )
    after = replace(found.reading, listed=others)
    return await planned_end(bootstrap, Deadline(given.deadline_s), after, found.moves)


async def _ended(
    given: Settings, bootstrap: Bootstrap, found: _Cancellation, reading: MovesReading
) -> ThrottleEnd:
    from zkcontroller_cli.moving.throttle_end import carry_out_end, planned_end
    from zkcontroller_cli.wire.requests import Deadline

    end = await planned_end(bootstrap, Deadline(given.deadline_s), reading, found.moves)
    return await carry_out_end(bootstrap, Deadline(given.deadline_s), end)


async def _cancelled(
    given: Settings, bootstrap: Bootstrap, found: _Cancellation
) -> tuple[Mapping[NamedPartition, tuple[str, str]], MovesReading]:
    """Cancel the moves; returns the refusals, and the reading afterwards."""
    import asyncio

    from zkcontroller_cli.moving.moves_reading import read_moving
    from zkcontroller_cli.wire.admin import reassign
    from zkcontroller_cli.wire.log_dirs import move_to_log_dirs
    from zkcontroller_cli.wire.requests import Deadline

    refused: dict[NamedPartition, tuple[str, str]] = {}
    deadline = Deadline(given.deadline_s)
    if found.named:
        wanted = [(name, None) for name in found.named]
        for verdict in await reassign(bootstrap, deadline, wanted):
            if verdict.error is not None:
                name = NamedPartition(verdict.topic, verdict.partition)
                refused[name] = verdict.error, verdict.reason or ""
    for replica, error in (await move_to_log_dirs(bootstrap, deadline, found.directories)).items():
        if error is not None:
            name = NamedPartition(replica.topic, replica.partition)
            refused[name] = error, f"the replica on {replica.broker_id} goes on moving"
    topics = sorted({move.topic for move in found.moves})
    while True:
        reading = await read_moving(bootstrap, Deadline(given.deadline_s), topics)
        # Metadata may be older than the controller's list: wait until the added replicas are gone.
        is_late = any(
            set(under_way.adding) & set(reading.current.get(name, ()))
            for name, under_way in found.reading.ongoing.items()
            if name in found.named and name not in refused and name not in reading.ongoing
        )
        if not is_late or deadline.is_over:
            return refused, reading
        await asyncio.sleep(_POLL_S)


def _planned_row(reading: MovesReading, name: NamedPartition) -> dict[str, Any]:
    reason = None if name in reading.ongoing else _NOT_MOVED
    return {**_row(reading, name, None), "is_cancelled": False, "reason": reason}


def _row(
    reading: MovesReading, name: NamedPartition, refusal: tuple[str, str] | None
) -> dict[str, Any]:
    error, reason = refusal or (None, None)
    return {
        "topic": name.topic,
        "partition": name.partition,
        "replicas": reading.current.get(name),
        "is_cancelled": refusal is None and name not in reading.ongoing,
        "error": error,
        "reason": reason,
    }
