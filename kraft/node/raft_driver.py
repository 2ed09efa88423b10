"""Runs a quorum node: gives the pure raft step real time, sockets and disk.

One task takes the inputs in order, passes each to
:meth:`KafkaRaftClient.step <kraft.raft.kafka_raft_client.KafkaRaftClient.step>`, and performs its
outputs strictly in order.  While it waits for the disk (one thread does all fsyncs), further inputs
are queued, and other tasks of the event loop run.  Nothing here may take long: a leader that does
not respond for two seconds loses its leadership.

All methods are for the event loop, except those that the writer of records calls from its own
thread: :meth:`RaftDriver.prepare_append` and its neighbours.  A lock excludes them during a step.

Source: Kafka ``KafkaRaftClientDriver``, ``KafkaRaftClient``, ``BlockingMessageQueue``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never

from kafka_common.errors import RaftFatal
from kafka_common.net.awaited_responses import AwaitedResponses
from kafka_common.process.wall_clock import WallClock
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.raft_channel import Outcome
from kraft.node.raft_metrics import RaftMetrics
from kraft.raft.inputs import (
    ElectionPersisted,
    ListenerAdvanced,
    RaftInput,
    RaftRequestReceived,
    RaftResponseReceived,
    RaftShutdown,
    RaftTick,
    Resign,
)
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.log_lines import raft_logger
from kraft.raft.messages import AnyRaftResponse, FetchSnapshotResponse, RaftRequest
from kraft.raft.outputs import (
    DeliverCommit,
    DeliverLeader,
    DeliverSnapshot,
    FlushLog,
    PersistElection,
    RaftOutput,
    SendRequest,
    SendResponse,
    ShutdownDone,
)
from kraft.raft.values import ElectionState, LeaderAndEpoch, OffsetAndEpoch

MAX_QUEUED_REQUESTS: Final = 1_000
"""The most received requests that are queued for a step; a further one waits in :meth:`ask`."""
MAX_COMMIT_BYTES: Final = 1024 * 1024
"""The most bytes that a listener gets at a time, unless one batch is larger."""
MAX_SNAPSHOT_BYTES: Final = 1024 * 1024 * 1024
"""The largest snapshot that is loaded, because it is in memory as a whole."""
_READ_BYTES: Final = 8 * 1024 * 1024
STEPS_AT_ONCE: Final = 8
"""The number of steps after which other tasks of the event loop run."""
STEP_PAUSE_S: Final = 0.1
"""The interval at which a waiting driver checks whether a step may begin."""

T = TypeVar("T")


class Flush(NamedTuple):
    """Flushes the log to disk."""

    run: Callable[[], None]
    """Called in a thread; blocks."""
    finish: Callable[[], None]
    """Called afterwards on the event loop."""


class ElectionStore(Protocol):
    """Stores the election; both methods may block."""

    def read(self) -> ElectionState | None:
        """The stored election; None if there is none."""

    def write(self, election: ElectionState) -> None:
        """Stores the election; returns when it is on disk."""


class Channels(Protocol):
    """Sends requests to other nodes."""

    def send(self, send: SendRequest) -> None:
        """Sends a request; :meth:`RaftDriver.put` gets the response or the failure."""


@dataclass(frozen=True, slots=True)
class CommittedBatches:
    """Whole committed batches, as bytes of the log."""

    first_offset: int
    """The offset of the first record that is new to the listener; its batch may begin before."""
    next_offset: int
    """The offset to pass to :meth:`RaftDriver.advanced` when the batches are processed."""
    data: bytes


class RaftListener(Protocol):
    """Reads the committed log.  Called on the event loop, so slow work runs elsewhere.

    Source: Kafka ``RaftClient.Listener``.
    """

    def handle_commit(self, batches: CommittedBatches) -> None:
        """Receives batches; the next ones come after :meth:`RaftDriver.advanced` was called."""

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Receives the id of a snapshot that replaces all earlier records."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Receives the current leader and epoch."""


@dataclass(frozen=True, slots=True)
class _Registration:
    listener_name: str


@dataclass(frozen=True, slots=True)
class _ListenerFailed:
    error: Exception


_Input: TypeAlias = RaftInput | _Registration | _ListenerFailed


def _is_part_of_a_snapshot(happened: _Input) -> bool:
    return isinstance(happened, RaftResponseReceived) and isinstance(
        happened.response, FetchSnapshotResponse
    )


class RaftDriver:
    """One running quorum node."""

    def __init__(
        self,
        node: KafkaRaftClient,
        *,
        plan_flush: Callable[[], Flush | None],
        elections: ElectionStore,
        metrics: RaftMetrics | None = None,
        now_ms: Callable[[], int] | None = None,
        may_step: Callable[[], bool] = lambda: True,
    ) -> None:
        """``plan_flush`` returns the flush that the log needs now, None if it needs none.

        No step begins while ``may_step`` returns False, for example because too few files can be
        opened.
        """
        self.node = node
        """For reading on the event loop; only the driver calls its ``step``."""
        self._stepping = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._plan_flush = plan_flush
        self._elections = elections
        self._metrics = metrics
        self._logger = raft_logger("KafkaRaftClientDriver", node.local)
        self._now_ms = now_ms or WallClock()
        self._may_step = may_step
        self._is_leaving = False
        self._channels: Channels | None = None
        self._inputs: deque[_Input] = deque()
        self._has_input = asyncio.Event()
        self._request_slots = asyncio.Semaphore(MAX_QUEUED_REQUESTS)
        self._responses: AwaitedResponses[AnyRaftResponse] = AwaitedResponses()
        self._listeners: dict[str, RaftListener] = {}
        self._left: bool | None = None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="raft-disk")

    # Inputs.

    async def ask(self, request: RaftRequest, listener_name: str) -> AnyRaftResponse:
        """The response to a request of another node or tool; a Fetch may wait for records.

        ConnectionAbortedError if the node leaves the quorum before it has responded.
        """
        if self._left is not None:
            raise ConnectionAbortedError("the node has left the quorum")
        await self._request_slots.acquire()
        request_id = self._responses.new_id()
        with self._responses.expected(request_id) as response:
            self.put(RaftRequestReceived(request_id, request, listener_name))
            return await response

    def put(self, happened: Outcome | RaftRequestReceived) -> None:
        """Queues an input: the outcome of a sent request, or a received request."""
        self._put(happened)

    def register(self, name: str, listener: RaftListener) -> None:
        """Adds a listener, which gets all committed records from the beginning.

        A name is used only once: a late report of one listener would count for the next one.
        """
        assert name not in self._listeners, f"{name} listens already"
        self._listeners[name] = listener
        self._put(_Registration(name))

    def advanced(self, name: str, next_offset: int) -> None:
        """Queues a listener's report that it has processed everything below ``next_offset``."""
        self._put(ListenerAdvanced(name, next_offset))

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> bytes:
        """The whole snapshot, for a listener; reading takes some 0.3 ms for each MB.

        A listener must call this within ``handle_load_snapshot``, before the snapshot can be
        deleted.  RaftFatal if it does not exist, or is larger than MAX_SNAPSHOT_BYTES.
        """
        log = self.node.log
        size = log.snapshot_bytes(snapshot_id)
        if size is None or size > MAX_SNAPSHOT_BYTES:
            raise RaftFatal(f"snapshot {snapshot_id} of {size} bytes cannot be loaded")
        parts = range(0, size, _READ_BYTES)
        return b"".join(log.read_snapshot(snapshot_id, at, _READ_BYTES) for at in parts)

    def listener_failed(self, error: Exception) -> None:
        """Reports that a listener failed: :meth:`run` raises its error, and the node ends."""
        self._put(_ListenerFailed(error))

    def shut_down(self, timeout_ms: int) -> None:
        """Leaves the quorum; :meth:`run` returns afterwards."""
        self._is_leaving = True
        self._put(RaftShutdown(timeout_ms))

    # Called by one thread other than the event loop: the one that writes records.

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The node's epoch and the leader that it knows, None if unknown."""
        with self._stepping:
            return self.node.leader_and_epoch

    @property
    def next_append_offset(self) -> int:
        """The offset of the next record; at a leader, after the records that wait to be written."""
        with self._stepping:
            return self.node.next_append_offset

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Adds records as one batch to be written; returns the offset of the last one.

        See :meth:`~kraft.raft.kafka_raft_client.KafkaRaftClient.prepare_append` for its errors.
        """
        with self._stepping:
            return self.node.prepare_append(epoch, values, self._now_ms())

    def schedule_prepared_append(self) -> None:
        """Allows prepared records to be written, after the linger time."""
        with self._stepping:
            self.node.schedule_prepared_append()
        # The node's deadline may be earlier now.
        self._loop.call_soon_threadsafe(self._has_input.set)

    def resign(self, epoch: int) -> None:
        """Gives up the leadership of that epoch; does nothing if the epoch has ended."""
        self._loop.call_soon_threadsafe(self._put, Resign(epoch))

    def _put(self, happened: _Input) -> None:
        self._inputs.append(happened)
        self._has_input.set()

    # The loop.

    async def run(self, channels: Channels) -> bool:
        """Runs the node until it has left the quorum; returns whether it left gracefully.

        RaftFatal if an input contradicts the node's state, OSError if its disk fails, or the error
        of a failed listener.  Then the process must end.
        """
        self._channels = channels
        try:
            stored = await self._on_disk(self._elections.read)
            now_ms = self._now_ms()
            with self._stepping:
                outputs = self.node.start(stored, now_ms)
            await self._stepped(outputs, now_ms)
            steps = 0
            while self._left is None:
                happened = await self._next_input()
                await self._wait_until_step_is_allowed()
                await self._step(happened)
                steps += 1
                if steps % STEPS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return self._left
        finally:
            await self._end()

    async def _end(self) -> None:
        self._left = bool(self._left)
        self._responses.refuse_all(lambda: ConnectionAbortedError("the node has left the quorum"))
        # Waits for the disk's thread: the log must not be closed during a write.
        await asyncio.to_thread(self._disk.shutdown)

    async def _wait_until_step_is_allowed(self) -> None:
        """Waits while the node may open no file, which would break off a step.

        Meanwhile other nodes may elect a leader.
        """
        if self._may_step() or self._is_leaving:
            return
        self._logger.error(
            "The node waits: it takes no part in the quorum before it can open files"
        )
        while not self._may_step() and not self._is_leaving:
            await asyncio.sleep(STEP_PAUSE_S)
        self._logger.info("The node goes on")

    async def _step(self, happened: _Input) -> None:
        if isinstance(happened, _ListenerFailed):
            raise happened.error
        if _is_part_of_a_snapshot(happened):
            # Earlier parts are flushed first.  The step that completes the snapshot waits until it
            # is on disk, and so only for the last part.
            await self._flush()
        now_ms = self._now_ms()
        with self._stepping:
            if isinstance(happened, _Registration):
                outputs = self.node.register(happened.listener_name, now_ms)
            else:
                outputs = self.node.step(happened, now_ms)
        await self._stepped(outputs, now_ms)

    async def _stepped(self, outputs: Sequence[RaftOutput], now_ms: int) -> None:
        if self._metrics is not None:
            self._metrics.observe(self.node, now_ms)
        await self._perform(outputs)

    async def _next_input(self) -> _Input:
        while not self._inputs:
            wait_s = self._wait_s()
            if wait_s == 0:
                return RaftTick()
            self._has_input.clear()
            idle_since_ns = time.monotonic_ns()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._has_input.wait()
            if self._metrics is not None:
                self._metrics.was_idle(time.monotonic_ns() - idle_since_ns)
            if not self._inputs:
                # The deadline has come or has changed.
                continue
        happened = self._inputs.popleft()
        if isinstance(happened, RaftRequestReceived):
            self._request_slots.release()
        return happened

    def _wait_s(self) -> float | None:
        deadline_ms = self.node.deadline_ms
        return None if deadline_ms is None else max(0, deadline_ms - self._now_ms()) / 1000

    # Outputs.

    async def _perform(self, outputs: Sequence[RaftOutput]) -> None:
        for output in outputs:
            match output:
                case PersistElection(election):
                    await self._on_disk(self._elections.write, election)
                    self._put(ElectionPersisted(election))
                case FlushLog():
                    await self._flush()
                case SendRequest():
                    assert self._channels is not None, "run() has them"
                    self._channels.send(output)
                case SendResponse(request_id, response):
                    self._responses.complete(request_id, response)
                case DeliverCommit():
                    self._deliver_commit(output)
                case DeliverSnapshot(name, snapshot_id):
                    self._listeners[name].handle_load_snapshot(snapshot_id)
                case DeliverLeader(name, leader):
                    self._listeners[name].handle_leader_change(leader)
                case ShutdownDone(is_graceful):
                    if is_graceful:
                        self._logger.info("Completed graceful shutdown of RaftClient")
                    else:
                        self._logger.error("Graceful shutdown of RaftClient failed")
                    self._left = is_graceful
                case _:
                    assert_never(output)

    async def _flush(self) -> None:
        flush = self._plan_flush()
        if flush is not None:
            await self._on_disk(flush.run)
            flush.finish()

    async def _on_disk(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._disk, work, *arguments)

    def _deliver_commit(self, delivery: DeliverCommit) -> None:
        data = self.node.log.read(delivery.first_offset, MAX_COMMIT_BYTES)
        end, next_offset = 0, delivery.first_offset
        for position, header in iterate_batches(data):
            if header.next_offset > delivery.high_watermark:
                break
            end, next_offset = position + header.size, header.next_offset
        if not end:
            raise RaftFatal(
                f"No whole batch from offset {delivery.first_offset} on lies below the high "
                f"watermark {delivery.high_watermark}"
            )
        self._listeners[delivery.listener].handle_commit(
            CommittedBatches(delivery.first_offset, next_offset, data[:end])
        )
