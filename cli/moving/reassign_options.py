"""What the verbs that move replicas share: options, layouts, and texts on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zkcontroller_cli.console.errors import CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Settings, say
from zkcontroller_cli.console.render import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkcontroller_cli.moving.move_plan import PlannedMove
    from zkcontroller_cli.moving.move_runner import MoveRunner
    from zkcontroller_cli.moving.throttle_end import ThrottleEnd
    from zkcontroller_cli.values.move_state import MoveEstimate, MoveProgress
    from zkcontroller_cli.values.moves import NamedPartition

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

SHOWN: Final = 10
"""The most lines of a plan that are shown before a question."""
IN_DRY_RUN: Final = "--dry-run shows all"
IN_ROWS: Final = "the rows on stdout are all"
"""Where all lines are, for a verb that shows them as rows itself."""
RATES: Final = click.IntRange(1, (1 << 63) - 1)


def partition_name(row: Any) -> str:
    """The name of a row's partition, such as ``orders-0``."""
    return f"{row['topic']}-{row['partition']}"


PLANNED_MOVES: Final = Layout(
    partition_name,
    (),
    (
        "topic",
        "partition",
        "current_replicas",
        "replicas",
        "adding_replicas",
        "removing_replicas",
        "log_dirs",
        "reason",
    ),
)
MOVED_KEYS: Final = ("topic", "partition", "replicas", "status", "error", "reason")
MOVED: Final = Layout(partition_name, (), MOVED_KEYS)

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, do nothing."
)
file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Moves as JSON, as kafka-reassign-partitions reads them.",
)
preserve_option = click.option(
    "--preserve-throttles", is_flag=True, help="Leave every throttle as it is."
)


def wave_options(command: CommandT) -> CommandT:
    """Give a verb ``--throttle`` (bytes per second) and ``--patience`` (seconds)."""
    for option in (
        click.option(
            "--patience",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Stop waiting when no move has made progress for this long.  [default: 300]",
        ),
        click.option(
            "--throttle",
            type=RATES,
            metavar="BYTES/S",
            help="The most that each broker sends, and receives, for moves.  "
            "[Kafka advises at least 1024]",
        ),
    ):
        command = option(command)
    return command


def show(lines: Sequence[str], where_all_are: str = IN_DRY_RUN) -> None:
    """Show the first lines of a plan on stderr; if there are more, say where all of them are."""
    for line in lines[:SHOWN]:
        say(line)
    if len(lines) > SHOWN:
        say(f"and {len(lines) - SHOWN} more; {where_all_are}")


def move_text(plan: PlannedMove) -> str:
    """The line that shows one move of a plan."""
    now = ",".join(map(str, plan.current_replicas))
    after = ",".join(map(str, plan.replicas))
    if plan.log_dirs:
        after += f" in {','.join(plan.log_dirs)}"
    return f"  {plan.topic}-{plan.partition}: {now} -> {after}"


def moved_row(
    progress: MoveProgress, refused: Mapping[NamedPartition, tuple[str, str]]
) -> dict[str, Any]:
    """The row of one partition after the change."""
    error, reason = refused.get(progress.move.name, (None, progress.reason))
    return {
        "topic": progress.move.topic,
        "partition": progress.move.partition,
        "replicas": progress.move.replicas,
        "status": progress.status,
        "error": error,
        "reason": reason,
    }


def estimate_lines(planned: MoveEstimate, usable: Mapping[int, int], rate: int | None) -> list[str]:
    """Lines with the bytes to copy, the time at ``rate`` (bytes/s), and brokers without room."""
    from zkcontroller_cli.console.quantities import duration_text, size_text
    from zkcontroller_cli.values.move_state import too_full

    lines = [f"{size_text(planned.total_bytes)} are copied"]
    if planned.total_bytes and rate is not None:
        lines[0] += f", at {size_text(rate)}/s in {duration_text(planned.seconds_at(rate) * 1000)}"
        lines[0] += " or more"
    if planned.unknown:
        lines[0] += f"; the size of {planned.unknown} partitions is not known"
    lines += [
        f"warning: broker {broker} receives {size_text(size)} and has room for {size_text(room)}"
        for broker, (size, room) in too_full(planned.received, usable).items()
    ]
    return lines


def say_what_stands(runner: MoveRunner) -> None:
    """Show on stderr the moves that continue and the throttle that stays after the command."""
    if runner.asked:
        say(f"{len(runner.asked)} moves were asked for; those under way go on without this command")
    if runner.edits:
        say("the throttle stands:")
        lines = [f"  {edit.text}" for edit in runner.edits if edit.value is not None]
        show(lines, "zkctl reassign status shows all")


def say_interrupted(runner: MoveRunner, with_moves: Callable[[str], str]) -> None:
    """Show, after Ctrl-C or an error, which moves continue by themselves, and what to run next.

    ``with_moves``: by verb, its command line with the moves of this command.
    """
    say_what_stands(runner)
    if runner.edits:
        say(f"when all has moved, this removes it:  {with_moves('reassign verify')}")
    if runner.asked or runner.edits:
        say(f"this goes on where it stopped:  {with_moves('reassign start')}")
        say(f"this cancels, and removes the throttle:  {with_moves('reassign cancel')}")


def raise_for(
    progress: Sequence[MoveProgress],
    refused: Mapping[NamedPartition, tuple[str, str]],
    end: ThrottleEnd | None,
    *,
    was_followed: bool,
) -> None:
    """Raise Refused or TimedOut if a move is refused or not as planned, or a throttle is left."""
    from zkcontroller_cli.values.move_state import MoveStatus

    error: CommandFailed | None = None
    if refused:
        (topic, partition), (code, reason) = next(iter(refused.items()))
        said = f"{topic}-{partition}: {reason} ({code})"
        if len(refused) > 1:
            said = f"{len(refused)} moves were refused; the first: {said}"
        is_late = all(code == "REQUEST_TIMED_OUT" for code, _ in refused.values())
        error = TimedOut(said) if is_late else Refused(said)
    fine = {MoveStatus.DONE} if was_followed else {MoveStatus.DONE, MoveStatus.IN_PROGRESS}
    missed = [each for each in progress if each.status not in fine]
    if error is None and missed:
        first = missed[0]
        error = Refused(
            f"{first.move.topic}-{first.move.partition}: {first.reason}; {len(missed)} of "
            f"{len(progress)} moves are not as planned: start the same moves again"
        )
    if error is None and end is not None and not end.is_complete:
        error = Refused(f"all has moved, but of the throttle is left: {end.left_text}")
    if error is not None:
        raise error


def say_end(end: ThrottleEnd) -> None:
    """Show on stderr how much of a throttle was removed, and what is left."""
    taken = len(end.edits) - len(end.failed)
    if taken:
        say(f"the throttle was removed: {taken} configurations, read again")
    end.say_what_is_left()


def limit_of(given: Settings) -> float | None:
    """The most seconds to wait for moves, from ``--timeout``; None: as long as they progress."""
    return given.timeout_s
