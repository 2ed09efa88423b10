"""``zkctl reassign start``: moves replicas, optionally with a throttle and in waves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, CommandFailed, Refused
from zkcontroller_cli.console.options import Settings, say, settings
from zkcontroller_cli.moving.reassign_options import (
    IN_DRY_RUN,
    IN_ROWS,
    MOVED,
    PLANNED_MOVES,
    RATES,
    dry_run_option,
    estimate_lines,
    file_option,
    limit_of,
    move_text,
    moved_row,
    raise_for,
    say_end,
    say_interrupted,
    show,
    wave_options,
    yes_option,
)
from zkcontroller_cli.values.moves import named_moves

if TYPE_CHECKING:
    from zkcontroller_cli.moving.move_plan import PlannedMove
    from zkcontroller_cli.moving.move_runner import MoveRunner
    from zkcontroller_cli.moving.moves_reading import MovesReading
    from zkcontroller_cli.values.move_state import MoveProgress
    from zkcontroller_cli.values.moves import Move
    from zkcontroller_cli.values.throttles import ConfigEdit


@click.command("start")
@click.argument("moves", nargs=-1, metavar="[TOPIC-PARTITION:BROKER,BROKER,…]…")
@file_option
@wave_options
@click.option(
    "--replica-alter-log-dirs-throttle",
    "log_dir_rate",
    type=RATES,
    metavar="BYTES/S",
    help="Each broker moves so much between its log directories.",
)
@click.option(
    "--additional", is_flag=True, help="Also while others, or these, are being moved elsewhere."
)
@click.option(
    "--max-moves-in-flight",
    "at_once",
    type=click.IntRange(1),
    metavar="N",
    help="How many partitions are moved at once; the next starts when one is done. Waits for all.",
)
@click.option("--wait", is_flag=True, help="Wait until the replicas have moved.")
@dry_run_option
@yes_option
def start(
    moves: tuple[str, ...],
    file: Path | None,
    throttle: int | None,
    log_dir_rate: int | None,
    additional: bool,
    at_once: int | None,
    wait: bool,
    patience: float | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move replicas to other brokers or log directories, the preferred leader first.

    The moves are checked and shown first; if one of them cannot be made, nothing is sent. Moves
    that are done or under way are not sent again, so the same moves may be started until all are
    done. With --wait or --max-moves-in-flight the throttle is removed at the end; else reassign
    verify removes it. Exits with 5 if a move is refused.

    Examples:
      zkctl reassign start orders-0:1,2,3 --dry-run
      zkctl reassign start --file moves.json --throttle 50000000 --wait
    """
    from zkcontroller_cli.moving.move_runner import DEFAULT_PATIENCE_S, MoveOrder, MoveRunner
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    wanted = named_moves(moves, file)
    is_waiting = wait or at_once is not None
    if patience is not None and not is_waiting:
        raise BadUsage("--patience is for --wait or --max-moves-in-flight")
    if log_dir_rate is not None and not any(move.directories for move in wanted):
        raise BadUsage("--replica-alter-log-dirs-throttle is for moves that name a log directory")
    given = settings()
    question = f"Begin {len(wanted)} moves?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    order = MoveOrder(
        moves=tuple(wanted),
        at_once=at_once,
        rate=throttle,
        log_dir_rate=log_dir_rate,
        is_additional=additional,
        is_waiting=is_waiting,
        patience_s=patience or DEFAULT_PATIENCE_S,
        limit_s=limit_of(given),
    )
    runner = MoveRunner(brokers_to_change(given), order, given.deadline_s)
    check = run(_checked(runner))
    if dry_run:
        given.renderer.rows([each.row() for each in check.planned], PLANNED_MOVES)
    check.refuse_impossible(is_additional=additional)
    show([move_text(each) for each in check.to_begin], IN_ROWS if dry_run else IN_DRY_RUN)
    lines = [f"  {edit.text}" for edit in check.edits]
    if not dry_run:
        show(lines)
        lines = []
    for line in (*lines, *check.estimate):
        say(line)
    if dry_run:
        return
    given.confirm(question, yes=yes)

    def with_moves(verb: str) -> str:
        return command_line(verb, *moves, options=() if file is None else ("--file", file))

    _carry_out(given, runner, with_moves)


def _carry_out(given: Settings, runner: MoveRunner, with_moves: Callable[[str], str]) -> None:
    """Run the order, show the state of each move afterwards, and raise if one is not as planned."""
    from zkcontroller_cli.wire.requests import run

    progress: list[MoveProgress] = []
    end = None
    failure: CommandFailed | None = None
    try:
        progress = run(runner.run())
        is_idle = not any(each.status == "in_progress" for each in progress)
        if runner.order.is_waiting or (is_idle and runner.edits):
            end = run(runner.end_throttle())
    except CommandFailed as error:
        failure = error
        with suppress(CommandFailed):
            _, progress = run(runner.look())
    except BaseException:
        say_interrupted(runner, with_moves)
        given.renderer.rows([], MOVED)
        raise
    given.renderer.rows([moved_row(each, runner.refused) for each in progress], MOVED)
    if failure is not None and runner.edits and not runner.asked:
        say_end(run(runner.end_throttle()))
        raise failure
    if failure is not None:
        say_interrupted(runner, with_moves)
        raise failure
    if end is not None:
        say_end(end)
    elif runner.edits:
        verify = with_moves("reassign verify")
        say(f"next, until all has moved; it removes the throttle:  {verify}")
    raise_for(progress, runner.refused, end, was_followed=runner.order.is_waiting)


class StartCheck:
    """The result of checking moves before a start: the plan, throttle changes, and costs."""

    def __init__(
        self,
        planned: Sequence[PlannedMove],
        progress: Sequence[MoveProgress],
        reading: MovesReading,
        edits: Sequence[ConfigEdit],
        estimate: Sequence[str],
    ) -> None:
        self.planned = planned
        self.edits = edits
        self.estimate = estimate
        self._progress = progress
        self._reading = reading

    @property
    def to_begin(self) -> list[PlannedMove]:
        """The moves that are neither done nor in progress."""
        return [
            plan
            for plan, each in zip(self.planned, self._progress, strict=True)
            if each.status not in ("done", "in_progress")
        ]

    def refuse_impossible(self, *, is_additional: bool) -> None:
        """Refused if a move is impossible, or if others are in progress and not allowed."""
        impossible = [each for each in self.planned if each.reason is not None]
        if impossible:
            first = impossible[0]
            raise Refused(
                f"{first.topic}-{first.partition}: {first.reason}; "
                f"{len(impossible)} of {len(self.planned)} moves cannot be made; nothing was done"
            )
        own = {each.move.name for each in self._progress if each.status == "in_progress"}
        others = sorted(set(self._reading.ongoing) - own)
        if others and not is_additional:
            topic, partition = others[0]
            raise Refused(
                f"{len(others)} other moves are under way, {topic}-{partition} among them: wait "
                "for them (zkctl reassign status), or say --additional; nothing was done"
            )


async def _checked(runner: MoveRunner) -> StartCheck:
    from zkcontroller_cli.moving.move_plan import plan_moves
    from zkcontroller_cli.moving.moves_reading import read_directories
    from zkcontroller_cli.values.move_state import next_moves

    order = runner.order
    reading, progress = await runner.look()
    found = await read_directories(runner.bootstrap, runner.deadline(), reading, order.moves)
    directories: dict[int, dict[str, str | None]] = {}
    for log_dir in found.log_dirs:
        directories.setdefault(log_dir.broker_id, {})[log_dir.log_dir] = log_dir.error
    planned = plan_moves(reading.known, order.moves, reading.ongoing, directories)
    wave = next_moves(progress, order.at_once)
    is_possible = all(each.reason is None for each in planned)
    edits = await runner.throttle_needed(reading, progress, wave) if is_possible else []
    estimate = await estimated(runner, reading, order.moves, order.rate)
    return StartCheck(planned, progress, reading, edits, estimate)


async def estimated(
    runner: MoveRunner, reading: MovesReading, moves: Sequence[Move], rate: int | None
) -> list[str]:
    """Lines about the bytes that these moves copy."""
    from zkcontroller_cli.moving.move_costs import costs_of

    costs = await costs_of(runner.bootstrap, reading, {m.name: m.replicas for m in moves})
    return estimate_lines(costs.estimate, costs.usable, rate)
