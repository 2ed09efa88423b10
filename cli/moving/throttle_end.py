"""Removes the throttle of moves that have ended, and reports what is left of it.

Each broker is asked for its own configuration.  That of a dead broker cannot be read or changed
over the Kafka protocol, so the broker keeps its rates and is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zkcontroller_cli.console.command_lines import command_line
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
"""The most parts that the text about a remaining throttle names."""


@dataclass
class ThrottleEnd:
    """The removal of a throttle: its changes, and what is left."""

    edits: list[ConfigEdit] = field(default_factory=list)
    """The changes that remove the throttle."""
    waiting: list[str] = field(default_factory=list)
    failed: list[tuple[ConfigEdit, str]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Target brokers that could not be asked, if parts of the throttle were found elsewhere."""
    not_asked: list[str] = field(default_factory=list)
    """Target brokers that could not be asked, if no part of the throttle was found elsewhere."""

    @property
    def is_complete(self) -> bool:
        """Whether :attr:`left_text` is empty."""
        return not (self.waiting or self.failed or self.unknown)

    @property
    def left_text(self) -> str:
        """The remaining parts of the throttle, as one text."""
        parts = [f"{edit.where}: {edit.key}={edit.before} ({why})" for edit, why in self.failed]
        parts += self.waiting + self.unknown
        return "; ".join(parts[:SHOWN]) + ("; …" if len(parts) > SHOWN else "")

    def say_what_is_left(self) -> None:
        """Name the remaining parts on stderr, with the commands that remove them."""
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
    """Plan the removal of the throttle of those ``moves`` and ``also`` that are not in progress.

    Changes nothing.
    """
    those = list(moves)
    ended = {move.name for move in those} | set(also)
    standing = await standing_of(bootstrap, deadline, reading, those, also)
    under_way = set(reading.ongoing)
    removal = removal_of(ended - under_way, under_way, standing, broker_keys)
    targets = {broker for move in those for broker in move.replicas}
    keys = [word for key in broker_keys for word in ("--key", key)]
    unknown = [
        f"broker {broker} may keep its rates: {why}; when it is back:  "
        + command_line("config unset broker", broker, options=keys)
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
    """The throttles set on the topics of the moves, on every live broker, and on target brokers."""
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
    """Make the changes, read them back, and record in ``failed`` those that are not visible."""
    end.failed = await change_throttles(bootstrap, deadline, end.edits)
    return end
