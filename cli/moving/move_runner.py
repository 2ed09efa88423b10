"""Carries out a plan of moves: sets the throttle, starts moves in waves, waits for their end.

Only the plan is kept.  Each look reads from the cluster which moves are done, in progress, or next,
so that an interrupted plan can be continued by running it again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, say
from zkcontroller_cli.moving.move_progress import ProgressReader, progress_line, stalled_moves
from zkcontroller_cli.moving.moves_reading import (
    MovesReading,
    placements_in,
    read_directories,
    read_moving,
)
from zkcontroller_cli.moving.throttle_end import (
    ThrottleEnd,
    carry_out_end,
    planned_end,
    standing_of,
)
from zkcontroller_cli.values.move_state import (
    MoveProgress,
    MoveStatus,
    counted,
    next_moves,
    progress_of,
)
from zkcontroller_cli.values.moves import Move, NamedPartition
from zkcontroller_cli.values.throttles import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIR_RATE,
    ConfigEdit,
    log_dir_throttle_edits,
    moving_replicas,
    throttle_edits,
)
from zkcontroller_cli.wire.admin import Verdict, reassign
from zkcontroller_cli.wire.log_dirs import HostedReplica, move_to_log_dirs
from zkcontroller_cli.wire.requests import Deadline
from zkcontroller_cli.wire.throttles import change_throttles

POLL_S: Final = 0.5
SAY_EVERY_S: Final = 10.0
"""Seconds between two lines about the progress, for which sizes are read."""
SETTLE_S: Final = 10.0
"""The most seconds by which Metadata may be older than the controller's list of moves."""
MOVES_A_REQUEST: Final = 1_000
DEFAULT_PATIENCE_S: Final = 300.0
_NOT_THERE_YET: Final = "REPLICA_NOT_AVAILABLE"


@dataclass(frozen=True)
class MoveOrder:
    """The moves to make, and how to make them."""

    moves: tuple[Move, ...]
    at_once: int | None = None
    """The most moves in progress at one time; None: no limit."""
    rate: int | None = None
    """Bytes per second that each broker sends, and receives, for moves; None: no throttle."""
    log_dir_rate: int | None = None
    is_additional: bool = False
    """Whether to replace the target of a partition that is already being moved elsewhere."""
    is_waiting: bool = False
    """Whether to wait until all moves have ended."""
    patience_s: float = DEFAULT_PATIENCE_S
    """Seconds without any progress after which waiting ends."""
    limit_s: float | None = None
    """The most seconds to wait in all; None: no limit."""

    @property
    def broker_keys(self) -> tuple[str, ...]:
        """The broker configuration keys that this order sets for its throttle."""
        of_moves = () if self.rate is None else (LEADER_RATE, FOLLOWER_RATE)
        return of_moves if self.log_dir_rate is None else (*of_moves, LOG_DIR_RATE)


@dataclass
class MoveRunner:
    """One run of a plan; its fields show at any time what it has done so far."""

    bootstrap: Bootstrap
    order: MoveOrder
    request_s: float
    """Seconds that brokers may take for one response."""
    refused: dict[NamedPartition, tuple[str, str]] = field(default_factory=dict)
    """By partition whose move was refused, the error code and the reason."""
    asked: set[NamedPartition] = field(default_factory=set)
    """The moves that were requested; one without a response yet may have started or not."""
    edits: list[ConfigEdit] = field(default_factory=list)
    """The configuration changes that set the throttle."""
    _pending_dirs: dict[HostedReplica, str] = field(default_factory=dict)
    _unsettled_since: dict[NamedPartition, float] = field(default_factory=dict)
    _is_throttled: bool = False
    _taken_out: set[NamedPartition] = field(default_factory=set)

    async def run(self) -> list[MoveProgress]:
        """Start the moves; returns the state of each.

        Returns when all have started, or with ``is_waiting`` when all have ended.  TimedOut if
        there is no progress for too long.
        """
        follower = _Follower(self)
        while True:
            reading, progress = await self.look()
            wave = next_moves(progress, self.order.at_once, left_out=self._left_out(progress))
            if wave or (self.order.broker_keys and not self._is_throttled):
                await self._begin(reading, progress, wave)
                await self._move_directories()
                reading, progress = await self.look()
            else:
                await self._move_directories()
            if not self._is_to_be_followed(progress):
                return progress
            await follower.check(reading, progress)
            await asyncio.sleep(POLL_S)

    async def look(self) -> tuple[MovesReading, list[MoveProgress]]:
        """Read the cluster, and the state of each move in the plan."""
        moves = self.order.moves
        topics = sorted({move.topic for move in moves})
        reading = await read_moving(self.bootstrap, self.deadline(), topics)
        found = await read_directories(self.bootstrap, self.deadline(), reading, moves)
        placed = placements_in(found, moves)
        return reading, progress_of(moves, reading.current, reading.ongoing, placed)

    async def throttle_needed(
        self, reading: MovesReading, progress: Sequence[MoveProgress], wave: Sequence[Move]
    ) -> list[ConfigEdit]:
        """The configuration changes that throttle the wave and all moves in progress."""
        order = self.order
        if not order.broker_keys:
            return []
        moving = {
            name: moving_replicas(each.replicas, each.adding)
            for name, each in reading.ongoing.items()
        }
        for move in wave:
            under_way = reading.ongoing.get(move.name)
            adding = () if under_way is None else under_way.adding
            now = reading.current.get(move.name, ())
            if now != move.replicas:
                moving[move.name] = moving_replicas(now, adding, move.replicas)
        # A partition whose move has ended is removed from the throttled replicas, once.
        ended = {each.move.name for each in progress if each.status is MoveStatus.DONE}
        ended -= self._taken_out | {*moving}
        concerned = [Move(*name, tuple(each.destinations)) for name, each in moving.items()]
        standing = await standing_of(
            self.bootstrap, self.deadline(), reading, concerned, also=ended
        )
        edits: list[ConfigEdit] = []
        if order.rate is not None:
            edits += throttle_edits(moving, standing, order.rate, ended=ended)
        if order.log_dir_rate is not None:
            brokers = {broker for move in order.moves for broker in move.directories}
            edits += log_dir_throttle_edits(brokers, standing, order.log_dir_rate)
        # A dead broker sends and fetches nothing, and cannot change its configuration.
        return [e for e in edits if e.broker_id is None or e.broker_id in reading.live]

    async def end_throttle(self) -> ThrottleEnd:
        """Remove the throttle of this plan's ended moves, also that set by an earlier run."""
        reading, _ = await self.look()

        async def planned(keys: tuple[str, ...]) -> ThrottleEnd:
            return await planned_end(
                self.bootstrap, self.deadline(), reading, self.order.moves, broker_keys=keys
            )

        end = await planned(self.order.broker_keys)
        if end.edits and not self.order.broker_keys:
            end = await planned((LEADER_RATE, FOLLOWER_RATE))
        return await carry_out_end(self.bootstrap, self.deadline(), end)

    def deadline(self) -> Deadline:
        """A new deadline for one request."""
        return Deadline(self.request_s)

    def _left_out(self, progress: Sequence[MoveProgress]) -> frozenset[NamedPartition]:
        """Partitions whose moves are not to be started: requested, refused, or moved elsewhere."""
        elsewhere = {
            each.move.name
            for each in progress
            if each.status is MoveStatus.ELSEWHERE and not self.order.is_additional
        }
        return frozenset(self.asked | set(self.refused) | elsewhere)

    async def _begin(
        self, reading: MovesReading, progress: Sequence[MoveProgress], wave: Sequence[Move]
    ) -> None:
        await self._throttle(reading, progress, wave)
        directories = {
            HostedReplica(broker, *move.name): path
            for move in wave
            for broker, path in move.directories.items()
        }
        # Send this before the replicas exist, too: a new one is then created in that directory.
        self._pending_dirs |= directories
        await self._ask_for_directories(directories)
        allowed = [move for move in wave if move.name not in self.refused]
        wanted = [
            (move.name, move.replicas)
            for move in allowed
            if move.name in reading.ongoing or reading.current.get(move.name) != move.replicas
        ]
        # Moves that only change log directories were requested just now.
        self.asked |= {move.name for move in allowed} - {name for name, _ in wanted}
        for start in range(0, len(wanted), MOVES_A_REQUEST):
            await self._ask_for_replicas(wanted[start : start + MOVES_A_REQUEST])

    async def _ask_for_replicas(
        self, wanted: Sequence[tuple[NamedPartition, tuple[int, ...]]]
    ) -> None:
        names = {name for name, _ in wanted}
        # Recorded before the request, which may be executed even if its response is lost.
        self.asked |= names
        try:
            verdicts = await reassign(self.bootstrap, self.deadline(), wanted)
        except Refused:
            self.asked -= names
            raise
        for verdict in verdicts:
            self._note(verdict)
        self.asked -= self.refused.keys()

    async def _throttle(
        self, reading: MovesReading, progress: Sequence[MoveProgress], wave: Sequence[Move]
    ) -> None:
        edits = await self.throttle_needed(reading, progress, wave)
        self.edits += edits
        failed = await change_throttles(self.bootstrap, self.deadline(), edits)
        if failed:
            edit, why = failed[0]
            raise Refused(
                f"the throttle could not be set on {edit.where}: {why}; nothing of this wave began"
            )
        self._is_throttled = True
        self._taken_out |= {e.move.name for e in progress if e.status is MoveStatus.DONE}

    def _note(self, verdict: Verdict) -> None:
        if verdict.error is not None:
            name = NamedPartition(verdict.topic, verdict.partition)
            self.refused[name] = verdict.error, verdict.reason or ""

    async def _move_directories(self) -> None:
        """Repeat the log directory requests until brokers accept all; TimedOut if one does not.

        With ``is_waiting`` one try is enough, as the next look tries again.
        """
        deadline = self.deadline()
        while self._pending_dirs:
            await self._ask_for_directories(self._pending_dirs)
            if self.order.is_waiting or not self._pending_dirs:
                return
            if deadline.is_over:
                replica = next(iter(self._pending_dirs))
                raise TimedOut(
                    f"broker {replica.broker_id} has no replica of {replica.topic}-"
                    f"{replica.partition} yet, so {len(self._pending_dirs)} moves to log "
                    "directories have not begun: start the same moves again"
                )
            await asyncio.sleep(POLL_S)

    async def _ask_for_directories(self, wanted: dict[HostedReplica, str]) -> None:
        if not wanted:
            return
        for replica, error in (
            await move_to_log_dirs(self.bootstrap, self.deadline(), dict(wanted))
        ).items():
            if error == _NOT_THERE_YET:
                continue
            path = self._pending_dirs.pop(replica, None)
            if error is not None:
                name = NamedPartition(replica.topic, replica.partition)
                reason = f"the replica on {replica.broker_id} does not go to {path}"
                self.refused[name] = error, reason

    def _is_to_be_followed(self, progress: Sequence[MoveProgress]) -> bool:
        if not self.order.is_waiting:
            return False
        now_s = time.monotonic()
        left_out = self._left_out(progress)
        is_open = False
        for each in progress:
            name = each.move.name
            match each.status:
                case MoveStatus.DONE | MoveStatus.MISSING:
                    pass
                case MoveStatus.IN_PROGRESS:
                    self._unsettled_since.pop(name, None)
                    is_open = True
                case _ if name not in left_out:
                    is_open = True  # the move has not started yet
                case _ if name in self.asked and name not in self.refused:
                    since = self._unsettled_since.setdefault(name, now_s)
                    is_open |= now_s - since < SETTLE_S
                case _:
                    pass
        return is_open


class _Follower:
    """Watches a run: shows its progress, and ends it if there is none for too long."""

    def __init__(self, runner: MoveRunner) -> None:
        self._runner = runner
        self._sizes = ProgressReader(runner.bootstrap)
        self._last: object = None
        self._moved_at_s = self._said_at_s = self._began_at_s = time.monotonic()

    async def check(self, reading: MovesReading, progress: Sequence[MoveProgress]) -> None:
        """Show the progress; TimedOut if the time is over, or without progress for too long."""
        order, now_s = self._runner.order, time.monotonic()
        if order.limit_s is not None and now_s - self._began_at_s > order.limit_s:
            raise TimedOut(f"not all has moved in time: {counted(progress)}")
        statuses = tuple(each.status for each in progress)
        if statuses != self._last:
            self._last, self._moved_at_s = statuses, now_s
        if now_s - self._said_at_s < min(SAY_EVERY_S, order.patience_s):
            return
        self._said_at_s = now_s
        names = {each.move.name for each in progress}
        moves = await self._sizes.read(reading, names)
        say(f"{counted(progress)}{progress_line(moves)}")
        if any(each.bytes_per_s for each in moves):
            self._moved_at_s = now_s
        stalled = stalled_moves(moves)
        for line in stalled:
            say(f"  stalled: {line}")
        if now_s - self._moved_at_s >= order.patience_s:
            why = f", the first: {stalled[0]}" if stalled else ""
            raise TimedOut(
                f"nothing has moved on for {order.patience_s:g} s ({counted(progress)}){why}",
                option="--patience",
            )
