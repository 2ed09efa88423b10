"""Makes snapshots of the controller's state, so that the log before them may be deleted.

Every node makes its own.  The controller continues to work meanwhile.  Its state at one offset is
read in the controller's thread, a few milliseconds at a time, and each batch is encoded and written
in another thread.

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
from kafka_common.observability.prefixed_log import PrefixedLog
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
"""The longest time for which the state is read before the controller continues its work."""
_RECORDS_AT_ONCE: Final = 32

_log: Final = logging.getLogger("org.apache.kafka.image.publisher.SnapshotGenerator")
_emitter_log: Final = logging.getLogger("org.apache.kafka.image.publisher.SnapshotEmitter")


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
        """A writer for the snapshot with that id; None if it is not needed."""

    def add_snapshot(self, written: W) -> None:
        """Adds a frozen snapshot to the log."""


@dataclass(frozen=True, slots=True)
class CommittedProgress:
    """How far the controller has read the committed log."""

    next_offset: int
    """The controller has processed every record below this offset."""
    epoch: int
    append_timestamp_ms: int
    """The append time of the last batch, whose epoch is ``epoch``."""
    size_in_bytes: int
    """The size of the batches that were processed last."""
    is_latest: bool
    """Whether no further records are known to be committed."""


class LooksIntoController(Protocol):
    """The controller in its thread.  For the event loop."""

    async def look(self, read: Callable[[QuorumController], T]) -> T:
        """The result of ``read``, called in the controller's thread between two events.

        ConnectionAbortedError if the controller has ended.
        """


class SnapshotGenerator(Generic[W]):
    """Makes the snapshots of one controller.

    The controller's thread calls :meth:`loaded` and :meth:`committed`, reads the state and sets
    ``is_busy``.  Everything else is for the event loop, on which each snapshot is a task.
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
        """Why no more snapshots are made, after :meth:`close`; None before."""
        self.latest_bytes = 0
        """The size of the last snapshot that was made here; 0 if there is none."""
        self.latest_ms = now_ms()
        """When the last snapshot was made; before the first, when the generator was created."""
        self.is_busy = False
        """Whether a snapshot is being made."""
        node_id = state.features.quorum_features.node_id
        self._logger = PrefixedLog(_log, f"[SnapshotGenerator id={node_id}] ")
        self._emitter_logger = PrefixedLog(_emitter_log, f"[SnapshotEmitter id={node_id}] ")
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
        """The time since the last snapshot; before the first, since the generator was created."""
        return self._now_ms() - self.latest_ms

    # In the controller's thread.

    def loaded(self) -> None:
        """Called after the controller has loaded a snapshot."""
        self._trigger.reset(self._now_ms())

    def committed(self, progress: CommittedProgress) -> None:
        """Called after the controller has processed a commit; may start a snapshot."""
        now_ms = self._now_ms()
        if not self._has_caught_up:
            # Records that are read again after a start are no reason for a snapshot.
            self._has_caught_up = progress.is_latest
            self._trigger.reset(now_ms)
            return
        self._trigger.has_read(progress.size_in_bytes)
        reason = self._trigger.reason(now_ms)
        if reason is None or self.is_busy:
            return
        if self._state.offsets.transaction_start_offset != NONE:
            return  # a snapshot must not contain records of an open transaction
        self._trigger.reset(now_ms)
        self._begin(OffsetAndEpoch(progress.next_offset, progress.epoch), progress, reason)

    def _begin(self, snapshot_id: OffsetAndEpoch, progress: CommittedProgress, reason: str) -> None:
        name = f"snapshot {snapshot_id.file_stem}"
        if self.disabled_reason is not None:
            self._logger.error(
                "Not emitting %s despite the fact that %s because snapshots are disabled; %s",
                name,
                reason,
                self.disabled_reason,
            )
            return
        self._logger.info("Creating new KRaft snapshot file %s because %s.", name, reason)
        # Only control records can be between the stable offset and the snapshot's end, and these
        # do not change the state.
        stable = self._state.offsets.last_stable_offset
        try:
            self._state.registry.hold(stable)
        except IllegalState:
            self._logger.exception("KRaft snapshot file generation error: %s", name)
            return
        self.is_busy = True
        timestamp_ms = progress.append_timestamp_ms
        self._loop.call_soon_threadsafe(self._start, name, snapshot_id, stable, timestamp_ms)

    def _read(
        self, records: Iterator[VersionedRecord], into: list[VersionedRecord], stable: int
    ) -> bool | None:
        """Fills a batch; returns whether it is the last one; None as :meth:`_write` does."""
        # The registry no longer holds the state after a snapshot of the leader was loaded.
        if self.disabled_reason is not None or not self._state.registry.is_held(stable):
            return None
        return _fill_batch(records, into)

    def _end(self, stable: int) -> None:
        self._state.registry.release(stable)
        self.is_busy = False

    # A snapshot, on the event loop.

    async def close(self) -> None:
        """Prevents further snapshots; returns when the current one is complete or given up."""
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
                self._emitter_logger.error("Not generating %s because it already exists.", name)
                return
            try:
                size = await self._write(writer, snapshot_id.epoch, stable, timestamp_ms)
                if size is None:
                    self._logger.info("%s is not needed any more", name)
                    return
                self._store.add_snapshot(writer)
            finally:
                writer.close()
            self.latest_bytes, self.latest_ms = size, self._now_ms()
            self._emitter_logger.info("Successfully wrote %s", name)
        except ConnectionAbortedError:
            self._logger.info("%s is not needed any more: the controller has ended", name)
        except Exception:
            # When the next snapshot is due, there may be enough memory, threads or disk space.
            self._logger.exception("KRaft snapshot file generation error: %s", name)
        finally:
            with suppress(ConnectionAbortedError):  # the controller has ended, with its registry
                await self._controller.look(lambda _: self._end(stable))

    async def _write(self, writer: W, epoch: int, stable: int, timestamp_ms: int) -> int | None:
        """Writes the whole snapshot; returns its size in bytes.

        None: the generator was disabled, or a snapshot of the leader has replaced the state.
        """
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


def _fill_batch(records: Iterator[VersionedRecord], into: list[VersionedRecord]) -> bool:
    """Fills a batch for at most SLICE_S; returns whether no records are left."""
    until = time.monotonic() + SLICE_S
    while len(into) < RECORDS_PER_BATCH and time.monotonic() < until:
        few = list(islice(records, _RECORDS_AT_ONCE))
        if not few:
            return True
        into += few
    return False
