"""Makes snapshots of the controller's state, so that the log before them may be deleted.

Every node makes its own.  The controller goes on meanwhile: its state is read as it was at one
offset, some milliseconds at a time in the controller's thread, and each batch is encoded and
written in another one.

Source: Kafka ``SnapshotGenerator``, ``SnapshotEmitter``, ``RaftSnapshotWriter`` (KIP-630).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from kafka_common.errors import IllegalState
from kraft.controller.offsets import NONE
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_state import QuorumControllerState
from kraft.controller.snapshot_trigger import SnapshotConfig, SnapshotTrigger
from kraft.controller.state_records import state_records
from kraft.metadata.records import VersionedRecord
from kraft.metadata.snapshot_batches import SnapshotBatches
from kraft.raft.values import OffsetAndEpoch

RECORDS_PER_BATCH: Final = 1024
SLICE_S: Final = 0.005
"""So long the state is read before the controller goes on with its work."""
_RECORDS_AT_ONCE: Final = 32

_log: Final = logging.getLogger("org.apache.kafka.image.publisher.SnapshotGenerator")


class RawSnapshotWriter(Protocol):
    """A snapshot being written.  Source: Kafka ``RawSnapshotWriter``."""

    def append(self, data: bytes) -> int:
        """Appends bytes; returns the size so far.  OSError if the disk fails."""

    def freeze(self) -> None:
        """Completes the snapshot.  Blocks until it is on disk."""

    def close(self) -> None:
        """Deletes the snapshot unless it is frozen."""


W = TypeVar("W", bound=RawSnapshotWriter)
T = TypeVar("T")


class SnapshotStore(Protocol[W]):
    """The log that stores the snapshots.  For the event loop."""

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> W | None:
        """A writer for the state before that offset; None if no such snapshot is needed."""

    def add_snapshot(self, written: W) -> None:
        """Adds a frozen snapshot to the log."""


@dataclass(frozen=True, slots=True)
class CommittedProgress:
    """How far the controller has read the committed log."""

    next_offset: int
    """Everything before it has been taken in."""
    epoch: int
    append_timestamp_ms: int
    """Epoch and time of the last batch."""
    size_in_bytes: int
    """Of what has just been taken in."""
    is_latest: bool
    """Whether nothing more is known to be committed."""


class LooksIntoController(Protocol):
    """The controller in its thread.  For the event loop."""

    async def look(self, read: Callable[[QuorumController], T]) -> T:
        """The result of ``read``, called in the controller's thread between two steps.

        ConnectionAbortedError if the controller has ended.
        """


class SnapshotGenerator(Generic[W]):
    """Makes the snapshots of one controller.

    Progress and reads of the state belong to the controller's thread, and so does whether
    a snapshot is under way; everything else for the event loop, where a snapshot is a task.
    """

    def __init__(
        self,
        state: QuorumControllerState,
        controller: LooksIntoController,
        store: SnapshotStore[W],
        config: SnapshotConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self.disabled_reason: str | None = None
        """Why there are no more snapshots: the node stops."""
        self.latest_bytes = 0
        """Size of the last one that was made here."""
        self.latest_ms = now_ms()
        """When that was; before the first one, when this began."""
        self.is_busy = False
        """Whether one is under way."""
        self._state = state
        self._controller = controller
        self._store = store
        self._now_ms = now_ms
        self._trigger = SnapshotTrigger(config, now_ms())
        self._has_caught_up = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    @property
    def age_ms(self) -> int:
        """The age of the last snapshot."""
        return self._now_ms() - self.latest_ms

    # What happens, in the controller's thread.

    def loaded(self) -> None:
        """The controller has loaded a snapshot."""
        self._trigger.reset(self._now_ms())

    def committed(self, progress: CommittedProgress) -> None:
        """The controller has read further; may start a snapshot."""
        now_ms = self._now_ms()
        if not self._has_caught_up:
            # What is read once more after a start is no reason for a snapshot.
            self._has_caught_up = progress.is_latest
            self._trigger.reset(now_ms)
            return
        self._trigger.has_read(progress.size_in_bytes)
        reason = self._trigger.reason(now_ms)
        if reason is None or self.is_busy:
            return
        if self._state.offsets.transaction_start_offset != NONE:
            return  # nothing of a transaction may be in it before it has ended
        self._trigger.reset(now_ms)
        self._begin(OffsetAndEpoch(progress.next_offset, progress.epoch), progress, reason)

    def _begin(self, snapshot_id: OffsetAndEpoch, progress: CommittedProgress, reason: str) -> None:
        name = f"snapshot {snapshot_id.offset:020d}-{snapshot_id.epoch:010d}"
        if self.disabled_reason is not None:
            _log.error(
                "Not emitting %s despite the fact that %s because snapshots are disabled; %s",
                name,
                reason,
                self.disabled_reason,
            )
            return
        _log.info("Creating new KRaft snapshot file %s because %s.", name, reason)
        # What the quorum itself writes behind the stable offset changes nothing of the state.
        stable = self._state.offsets.last_stable_offset
        try:
            self._state.registry.hold(stable)
        except IllegalState:
            _log.exception("KRaft snapshot file generation error: %s", name)
            return
        self.is_busy = True
        timestamp_ms = progress.append_timestamp_ms
        self._loop.call_soon_threadsafe(self._start, name, snapshot_id, stable, timestamp_ms)

    def _read(
        self, records: Iterator[VersionedRecord], into: list[VersionedRecord], stable: int
    ) -> bool | None:
        """Fills a batch; returns whether it was the last one, None to give up."""
        # The registry forgets what is held when a snapshot of the leader takes the state's place.
        if self.disabled_reason is not None or not self._state.registry.is_held(stable):
            return None
        return _take(records, into)

    def _end(self, stable: int) -> None:
        self._state.registry.release(stable)
        self.is_busy = False

    # A snapshot, on the event loop.

    async def close(self) -> None:
        """Starts no more snapshots; returns when the current one is done or dropped."""
        self.disabled_reason = self.disabled_reason or "we are shutting down"
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _start(self, name: str, snapshot_id: OffsetAndEpoch, stable: int, time_ms: int) -> None:
        self._task = self._loop.create_task(self._generate(name, snapshot_id, stable, time_ms))

    async def _generate(
        self, name: str, snapshot_id: OffsetAndEpoch, stable: int, timestamp_ms: int
    ) -> None:
        try:
            writer = self._store.create_snapshot(snapshot_id)
            if writer is None:
                _log.error("Not generating %s because it already exists.", name)
                return
            try:
                size = await self._write(writer, snapshot_id.epoch, stable, timestamp_ms)
                if size is None:
                    _log.info("%s is not needed any more", name)
                    return
                self._store.add_snapshot(writer)
            finally:
                writer.close()
            self.latest_bytes, self.latest_ms = size, self._now_ms()
            _log.info("Successfully wrote %s", name)
        except ConnectionAbortedError:
            _log.info("%s is not needed any more: the controller has ended", name)
        except Exception:  # noqa: BLE001 - the node can do without snapshots
            # Memory, threads or disk may be there again when the next one is due.
            _log.exception("KRaft snapshot file generation error: %s", name)
        finally:
            with suppress(ConnectionAbortedError):  # then nothing is held any more
                await self._controller.look(lambda _: self._end(stable))

    async def _write(self, writer: W, epoch: int, stable: int, timestamp_ms: int) -> int | None:
        """Writes everything; returns the size, None if it was given up."""
        batches = SnapshotBatches(epoch)
        now_ms = self._now_ms()
        writer.append(batches.header(timestamp_ms, now_ms))

        some: list[VersionedRecord] = []

        def write() -> None:
            writer.append(batches.data(some, now_ms))

        def finish() -> int:
            size = writer.append(batches.footer(now_ms))
            writer.freeze()
            return size

        records = state_records(self._state, stable)
        while True:
            is_all = await self._controller.look(lambda _: self._read(records, some, stable))
            if is_all is None:
                return None
            if some and (is_all or len(some) >= RECORDS_PER_BATCH):
                await asyncio.to_thread(write)
                some.clear()
            if is_all:
                return await asyncio.to_thread(finish)


def _take(records: Iterator[VersionedRecord], into: list[VersionedRecord]) -> bool:
    """Fills a batch for the time of a slice; returns whether that was the last record."""
    until = time.monotonic() + SLICE_S
    while len(into) < RECORDS_PER_BATCH and time.monotonic() < until:
        few = list(islice(records, _RECORDS_AT_ONCE))
        if not few:
            return True
        into += few
    return False
