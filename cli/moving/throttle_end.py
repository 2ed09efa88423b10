"""Ends the throttle of moves that have ended, and says what of it is left.

Brokers say what they have.  One that is not alive keeps its rates, and is named: its configuration
cannot be read or changed over the Kafka protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zkcontroller_cli.console.options import Bootstrap, say
from zkcontroller_cli.values.moves import Move, NamedPartition
from zkcontroller_cli.values.throttles import (
    BROKER_KEYS,
    ConfigEdit,
    StandingThrottles,
    removal_command,
    removal_of,
)
from zkcontroller_cli.wire.requests import Deadline
from zkcontroller_cli.wire.throttles import change_throttles, standing_throttles

if TYPE_CHECKING:
    from zkcontroller_cli.moving.moves_reading import MovesReading

SHOWN: Final = 10
"""So many lines are shown; the others are counted."""


@dataclass
class ThrottleEnd:
    """What was taken away, and what is left."""

    edits: list[ConfigEdit] = field(default_factory=list)
    """What is taken away."""
    waiting: list[str] = field(default_factory=list)
    failed: list[tuple[ConfigEdit, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Brokers of the moves that do not tell, where a throttle of the moves stands elsewhere."""
    not_asked: list[str] = field(default_factory=list)
    """The same, where nothing else of a throttle stands."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the moves' throttle is left."""
        return not (self.waiting or self.failed or self.unknown)

    @property
    def left_text(self) -> str:
        """What is left, in one sentence."""
        parts = [f"{edit.where}: {edit.key}={edit.before} ({why})" for edit, why in self.failed]
        parts += self.waiting + self.unknown
        return "; ".join(parts[:SHOWN]) + ("; …" if len(parts) > SHOWN else "")

    def say_what_is_left(self) -> None:
        """Names it on stderr, each with the command that takes it away."""
        for edit, why in self.failed:
            say(f"  left: {edit.where}: {edit.key}={edit.before}: {why}")
            say(f"        {removal_command(edit)}")
        for line in (*self.waiting, *self.unknown):
            say(f"  left: {line}")
        for line in self.foreign:
            say(f"  not touched: {line}")
        for line in self.not_asked:
            say(f"  not known: {line}")


async def planned_end(
    bootstrap: Bootstrap,
    deadline: Deadline,
    reading: MovesReading,
    moves: Iterable[Move],
    *,
    broker_keys: Sequence[str] = BROKER_KEYS,
    also: Iterable[NamedPartition] = (),
) -> ThrottleEnd:
    """What is to be taken away for the moves that are not under way, and for ``also``.

    Nothing is changed.
    """
    those = list(moves)
    ended = {move.name for move in those} | set(also)
    standing = await standing_of(bootstrap, deadline, reading, those, also)
    under_way = set(reading.ongoing)
    removal = removal_of(ended - under_way, under_way, standing, broker_keys)
    targets = {broker for move in those for broker in move.replicas}
    unknown = [
        f"broker {broker} may keep its rates: {why}; when it is back:  zkctl config unset broker "
        f"{broker} {' '.join(f'--key {key}' for key in broker_keys)}"
        for broker, why in sorted(standing.unread.items())
        if broker in targets and broker_keys
    ]
    end = ThrottleEnd(removal.edits, removal.waiting, [], removal.foreign)
    if removal.edits or removal.waiting:
        end.unknown = unknown
    else:
        end.not_asked = unknown
    return end


async def standing_of(
    bootstrap: Bootstrap,
    deadline: Deadline,
    reading: MovesReading,
    moves: Sequence[Move],
    also: Iterable[NamedPartition] = (),
) -> StandingThrottles:
    """What stands on the topics of those moves, on every live broker, and on their targets."""
    topics = sorted({move.topic for move in moves} | {each.topic for each in also})
    there = {name.topic for name in reading.partitions}
    targets = {broker for move in moves for broker in move.replicas}
    return await standing_throttles(
        bootstrap,
        deadline,
        reading.known,
        [topic for topic in topics if topic in there],
        sorted(reading.live | targets),
    )


async def carry_out_end(bootstrap: Bootstrap, deadline: Deadline, end: ThrottleEnd) -> ThrottleEnd:
    """Takes it away, reads again, and notes what is there all the same."""
    end.failed = await change_throttles(bootstrap, deadline, end.edits)
    return end
