"""``zkctl partition reassign``, ``reassignments``, ``elect``: what the controller is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import BadUsage, Refused, TimedOut
from .moves import NamedPartition, distinct, parse_move, parse_partition, read_moves
from .options import Settings, say, settings
from .render import Layout

if TYPE_CHECKING:
    from .move_plan import PlannedElection, PlannedMove
    from .wire import Deadline
    from .wire_admin import Verdict

_POLL_S: Final = 0.2


def _name(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


_MOVES: Final = Layout(_name, (), ("topic", "partition", "replicas", "error", "reason"))
_ONGOING: Final = Layout(
    _name, (), ("topic", "partition", "replicas", "adding_replicas", "removing_replicas")
)
_ELECTIONS: Final = Layout(_name, (), ("topic", "partition", "is_elected", "error", "reason"))
_PLANNED_MOVES: Final = Layout(
    _name,
    (),
    (
        "topic",
        "partition",
        "current_replicas",
        "replicas",
        "adding_replicas",
        "removing_replicas",
        "reason",
    ),
)
_PLANNED_ELECTIONS: Final = Layout(_name, (), ("topic", "partition", "leader", "elected", "reason"))
_SHOWN: Final = 10
"""So many lines of a plan are shown before a question; --dry-run shows all."""

_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")


@click.command("reassign")
@click.argument("moves", nargs=-1, metavar="[TOPIC-PARTITION:BROKER,BROKER,…]…")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Moves as JSON, as kafka-reassign-partitions reads them.",
)
@click.option("--cancel", is_flag=True, help="Call moves off; then TOPIC-PARTITION is enough.")
@click.option("--wait", is_flag=True, help="Until the replicas have moved.")
@_dry_run
@_yes
def reassign(
    moves: tuple[str, ...], file: Path | None, cancel: bool, wait: bool, dry_run: bool, yes: bool
) -> None:
    """Move replicas to other brokers, the preferred leader first.

    The moves are checked and shown first; nothing is sent if one of them cannot be. The controller
    answers when the moves have begun. Exits with 5 if it refuses one of them.
    """
    from .move_plan import plan_moves
    from .target import brokers_to_change
    from .wire import Deadline, metadata, run
    from .wire_admin import reassign as reassign_on_wire

    targets = _targets(moves, file, is_cancelled=cancel)
    given = settings()
    deadline = Deadline(given.deadline_s)
    question = f"Cancel {len(targets)} moves?" if cancel else f"Begin {len(targets)} moves?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    known = run(metadata(bootstrap, deadline, sorted({topic for topic, _ in targets})))
    plan = plan_moves(known, targets)
    if dry_run:
        given.renderer.rows([each.row() for each in plan], _PLANNED_MOVES)
    impossible = [each for each in plan if each.reason is not None]
    if impossible:
        first = impossible[0]
        raise Refused(
            f"{first.topic}-{first.partition}: {first.reason}; "
            f"{len(impossible)} of {len(plan)} moves cannot be, nothing was done"
        )
    if dry_run:
        return
    _show([_move_text(each) for each in plan])
    given.confirm(question, yes=yes)
    verdicts = run(reassign_on_wire(bootstrap, deadline, list(targets.items())))
    begun = {NamedPartition(v.topic, v.partition) for v in verdicts if v.error is None}
    try:
        if wait:
            run(_until_moved(given, deadline, begun))
    finally:
        rows = [
            {
                "topic": v.topic,
                "partition": v.partition,
                "replicas": targets[NamedPartition(v.topic, v.partition)],
                "error": v.error,
                "reason": v.reason,
            }
            for v in sorted(verdicts)
        ]
        given.renderer.rows(rows, _MOVES)
    _refuse_for(verdicts, "moves")


@click.command("reassignments")
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
def reassignments(check: bool) -> int:
    """Every partition that is being moved."""
    from .errors import ExitCode
    from .wire import Deadline, run
    from .wire_admin import ongoing_reassignments

    given = settings()
    ongoing = run(ongoing_reassignments(given.bootstrap(), Deadline(given.deadline_s)))
    given.renderer.rows([each._asdict() for each in ongoing], _ONGOING)
    return ExitCode.FINDING if check and ongoing else ExitCode.OK


@click.command("elect")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION]…")
@click.option("--all", "is_all", is_flag=True, help="Every partition that needs it.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Any live replica may lead where no leader is left: records may be lost.",
)
@_dry_run
@_yes
def elect(
    partitions: tuple[str, ...], is_all: bool, unclean: bool, dry_run: bool, yes: bool
) -> None:
    """Give leaderships back to preferred leaders, or with --unclean to any live replica.

    A partition that has the right leader is no error: is_elected is false then. --dry-run shows
    from a broker's metadata who would lead; the controller may know better.
    """
    from kio.schema.errors import ErrorCode

    from .move_plan import plan_elections
    from .target import brokers_to_change
    from .wire import Deadline, metadata, run
    from .wire_admin import elect as elect_on_wire

    if is_all == bool(partitions):
        raise BadUsage("name partitions as TOPIC-PARTITION, or say --all")
    named = [parse_partition(text) for text in partitions]
    distinct(named)
    given = settings()
    question = "Elect leaders that may lack records?" if unclean else "Move these leaderships?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap = brokers_to_change(given)
    topics = None if is_all else sorted({each.topic for each in named})
    known = run(metadata(bootstrap, deadline, topics))
    plan = plan_elections(known, None if is_all else named, is_unclean=unclean)
    if dry_run:
        given.renderer.rows([each.row() for each in plan], _PLANNED_ELECTIONS)
        return
    _show([_election_text(each) for each in plan])
    given.confirm(question, yes=yes)
    verdicts = run(
        elect_on_wire(bootstrap, deadline, None if is_all else named, is_unclean=unclean)
    )
    is_needed = [v for v in verdicts if v.error_code is not ErrorCode.election_not_needed]
    rows = [
        {
            "topic": v.topic,
            "partition": v.partition,
            "is_elected": v.error is None,
            "error": v.error if v in is_needed else None,
            "reason": v.reason if v in is_needed else None,
        }
        for v in verdicts
    ]
    given.renderer.rows(rows, _ELECTIONS)
    _refuse_for(is_needed, "elections")


def _show(lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        say(line)
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN} more; --dry-run shows all")


def _move_text(plan: PlannedMove) -> str:
    now = ",".join(map(str, plan.current_replicas))
    after = "no reassignment" if plan.replicas is None else ",".join(map(str, plan.replicas))
    return f"  {plan.topic}-{plan.partition}: {now} -> {after}"


def _election_text(plan: PlannedElection) -> str:
    after = plan.reason if plan.elected is None else f"-> {plan.elected}"
    return f"  {plan.topic}-{plan.partition}: leader {plan.leader} {after}"


def _targets(
    moves: tuple[str, ...], file: Path | None, *, is_cancelled: bool
) -> dict[NamedPartition, tuple[int, ...] | None]:
    if bool(moves) == (file is not None):
        raise BadUsage("name moves as TOPIC-PARTITION:BROKER,BROKER,… or give them in a --file")
    if file is not None:
        listed = read_moves(file)
    elif is_cancelled:
        named = [parse_partition(text.partition(":")[0]) for text in moves]
        distinct(named)
        return dict.fromkeys(named)
    else:
        listed = [parse_move(text) for text in moves]
    distinct(listed)
    return {
        NamedPartition(move.topic, move.partition): None if is_cancelled else move.replicas
        for move in listed
    }


async def _until_moved(given: Settings, deadline: Deadline, begun: set[NamedPartition]) -> None:
    from .wire_admin import ongoing_reassignments

    while True:
        ongoing = await ongoing_reassignments(given.bootstrap(), deadline)
        left = [each for each in ongoing if NamedPartition(each.topic, each.partition) in begun]
        if not left:
            return
        if deadline.is_over:
            raise TimedOut(f"{len(left)} of {len(begun)} partitions have not moved in time")
        await asyncio.sleep(min(_POLL_S, deadline.left_s))


def _refuse_for(verdicts: list[Verdict], what: str) -> None:
    refused = [verdict for verdict in verdicts if verdict.error is not None]
    if not refused:
        return
    first = refused[0]
    said = f"{first.topic}-{first.partition}: {first.reason} ({first.error})"
    if len(refused) > 1:
        said = f"{len(refused)} {what} were refused; the first: {said}"
    is_late = all(verdict.error == "REQUEST_TIMED_OUT" for verdict in refused)
    raise TimedOut(said) if is_late else Refused(said)
