"""What the verbs that move replicas share: options, layouts, and what they say on stderr."""

from __future__ import annotations

import shlex
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
"""So many lines of a plan are shown before a question; --dry-run shows all."""
RATES: Final = click.IntRange(1, (1 << 63) - 1)


def partition_name(row: Any) -> str:
    """``orders-0``: how a row is named."""
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
    """``--throttle`` and ``--patience``: how fast moves are, and how long they are waited for."""
    for option in (
        click.option(
            "--patience",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Stop waiting when nothing has moved on for so long.  [default: 300]",
        ),
        click.option(
            "--throttle",
            type=RATES,
            metavar="BYTES/S",
            help="Each broker sends, and receives, so much for moves.  [Kafka says: at least 1024]",
        ),
    ):
        command = option(command)
    return command


def show(lines: Sequence[str]) -> None:
    """The first lines of a plan, on stderr."""
    for line in lines[:SHOWN]:
        say(line)
    if len(lines) > SHOWN:
        say(f"and {len(lines) - SHOWN} more; --dry-run shows all")


def move_text(plan: PlannedMove) -> str:
    """What will be sent for one partition."""
    now = ",".join(map(str, plan.current_replicas))
    after = ",".join(map(str, plan.replicas))
    if plan.log_dirs:
        after += f" in {','.join(plan.log_dirs)}"
    return f"  {plan.topic}-{plan.partition}: {now} -> {after}"


def moves_text(moves: Sequence[str], file: Path | None) -> str:
    """The moves as they stand on the command line, to be said again."""
    return f"--file {shlex.quote(str(file))}" if file is not None else shlex.join(moves)


def moved_row(
    progress: MoveProgress, refused: Mapping[NamedPartition, tuple[str, str]]
) -> dict[str, Any]:
    """One partition after the change, as it was read again."""
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
    """What is copied, how long that takes, and where there is no room for it."""
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
    """The moves and the throttle that outlast the command."""
    if runner.asked:
        say(f"{len(runner.asked)} moves were asked for; those under way go on without this command")
    if runner.edits:
        say("the throttle stands:")
        show([f"  {edit.text}" for edit in runner.edits if edit.value is not None])


def say_interrupted(runner: MoveRunner, what: str) -> None:
    """After Ctrl-C or an error: what goes on without the command, and what is left to do."""
    say_what_stands(runner)
    if runner.edits:
        say(f"when all has moved, this removes it:  zkctl reassign verify {what}")
    if runner.asked or runner.edits:
        say(f"this goes on where it stopped:  zkctl reassign start {what}")
        say(f"this cancels, and removes the throttle:  zkctl reassign cancel {what}")


def raise_for(
    progress: Sequence[MoveProgress],
    refused: Mapping[NamedPartition, tuple[str, str]],
    end: ThrottleEnd | None,
    *,
    was_followed: bool,
) -> None:
    """Refused or TimedOut if one move was refused, did not come, or its throttle is left."""
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
    """What of a throttle was taken away, and what is left."""
    taken = len(end.edits) - len(end.failed)
    if taken:
        say(f"the throttle was removed: {taken} configurations, read again")
    end.say_what_is_left()


def limit_of(given: Settings) -> float | None:
    """How long moves are waited for: ``--timeout`` if it was said, else as long as they move on."""
    return given.timeout_s
