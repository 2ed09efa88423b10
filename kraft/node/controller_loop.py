"""Runs the quorum controller in its own thread: requests, commits, timers.

Committed batches come from the raft driver as bytes and are passed to the controller as records;
the controller's own records go the other way.  Each event runs to its end before the next: a write
is generated, appended and replayed without an interruption.  Before each event, all waiting inputs
are added to the controller's queue, which chooses the next event.

An event may take seconds, for example when a broker fails that led tens of thousands of partitions.
Meanwhile the event loop still responds to the quorum's requests, such as Vote and Fetch.  The two
threads exchange only values: inputs through a queue, outputs by ``loop.call_soon_threadsafe``.
Only the controller's thread reads the controller's state; other code passes a function to
:meth:`ControllerLoop.look`.

Source: Kafka ``QuorumController`` (its event queue's thread, ``QuorumMetaLogListener``).
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.net.awaited_responses import AwaitedResponses
from kafka_common.net.presence import abandonable
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.controller.quorum_controller_values import (
    CommitHandled,
    CommittedBatch,
    ControllerOutput,
    ControllerRequestCompleted,
    ControllerRequestFailed,
    ControllerRequestReceived,
    LeaderChanged,
    NonFatalFault,
    QueueMark,
    RaftAppender,
    SnapshotLoaded,
    unlimited,
)
from kraft.controller.result import VersionedRecord
from kraft.controller.topic_requests import PartitionChangeQuota
from kraft.metadata.metadata_batches import (
    ControlBatch,
    DataBatch,
    MetadataBatch,
    iterate_metadata_batches,
    iterate_undecoded_batches,
)
from kraft.node.quorum_controller_metrics import QuorumControllerMetrics
from kraft.node.raft_driver import CommittedBatches, RaftDriver
from kraft.node.snapshot_generator import CommittedProgress
from kraft.raft.control_records import SnapshotHeader
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch

LISTENER_NAME: Final = "controller"
_MAX_WAIT_MS: Final = 60_000
"""The longest wait for an input, because a lock cannot wait for the longest configurable time."""

_log: Final = logging.getLogger("org.apache.kafka.controller.QuorumController")
T = TypeVar("T")


class DriverAppender:
    """The quorum's interface for the controller, called in the controller's thread."""

    def __init__(self, driver: RaftDriver) -> None:
        self._driver = driver

    @property
    def leader_id(self) -> int | None:
        """The id of the quorum's leader that this node knows; None if unknown."""
        return self._driver.leader_and_epoch.leader_id

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record, after those that are prepared but not written yet."""
        return self._driver.next_append_offset

    @property
    def kraft_version(self) -> int:
        """0: the voters are static."""
        return 0

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Prepares encoded records as one batch; returns the offset of the last one."""
        return self._driver.prepare_append(epoch, values)

    def schedule_prepared_append(self) -> None:
        """Appends the prepared records."""
        self._driver.schedule_prepared_append()

    def resign(self, epoch: int) -> None:
        """Gives up the leadership of that epoch."""
        self._driver.resign(epoch)


class CommitObserver(Protocol):
    """Gets the controller's progress, in the controller's thread; must not take long."""

    def committed(self, progress: CommittedProgress) -> None:
        """Called after the controller has processed a commit."""

    def loaded(self) -> None:
        """Called after the controller has loaded a snapshot."""


AnyObserver = TypeVar("AnyObserver", bound=CommitObserver)


@dataclass(frozen=True, slots=True)
class _Commit:
    """Committed batches as bytes of the log, not decoded yet."""

    batches: CommittedBatches
    is_latest: bool


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A whole snapshot as bytes, not decoded yet."""

    snapshot_id: OffsetAndEpoch
    data: bytes


@dataclass(frozen=True, slots=True)
class _Look:
    """A function that reads the controller's state."""

    read: Callable[[QuorumController], Any]
    result: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _CommitTaken:
    """A mark in the controller's queue after a commit."""

    progress: CommittedProgress


@dataclass(frozen=True, slots=True)
class _SnapshotTaken:
    """A mark in the controller's queue after a snapshot."""

    snapshot_id: OffsetAndEpoch


class _Stop:
    """The last item of the queue, which ends the thread."""


_Happened: TypeAlias = ControllerRequestReceived | LeaderChanged | _Commit | _Snapshot | _Look


class _QueueItem(NamedTuple):
    """An item of the queue, and the monotonic time at which it was added."""

    happened: _Happened | _Stop
    since_ns: int


class ControllerLoop:
    """One running controller.  Its methods are for the event loop."""

    def __init__(
        self,
        driver: RaftDriver,
        make: Callable[[RaftAppender], QuorumController],
        now_ms: Callable[[], int],
        metrics: QuorumControllerMetrics | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[Exception] = self._loop.create_future()
        """Completed with the error when the process must end."""
        self._driver = driver
        self._now_ms = now_ms
        self._responses: AwaitedResponses[Any] = AwaitedResponses()
        self._is_closed = False
        # The queue's length is limited: each connection sends one request at a time, and a listener
        # gets the next commit after it has processed the previous one.
        self._waiting: queue.SimpleQueue[_QueueItem] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="quorum-controller", daemon=True)
        # Only the controller's thread uses the following.
        self._controller = make(DriverAppender(driver))
        self._observer: CommitObserver | None = None
        self._metrics = metrics

    def observe(self, make: Callable[[QuorumController], AnyObserver]) -> AnyObserver:
        """Makes the observer, before :meth:`start`, so that it gets every commit; returns it."""
        made = make(self._controller)
        self._observer = made
        return made

    def start(self) -> None:
        """Starts the thread, and registers the controller as a listener of the log."""
        self._thread.start()
        self._driver.register(LISTENER_NAME, self)

    async def close(self) -> None:
        """Ends the controller after its current event; waiting requests get no response."""
        self._is_closed = True
        self._put(_Stop())
        await asyncio.to_thread(self._thread.join)
        self._responses.refuse_all(lambda: ConnectionAbortedError("the controller stops"))

    async def ask(
        self,
        request: ControllerRequest,
        timeout_ms: int | None = None,
        apply_quota: PartitionChangeQuota = unlimited,
    ) -> Any:
        """The controller's response, once its records are committed; ApiException if refused.

        A request that has not begun after ``timeout_ms`` gets REQUEST_TIMED_OUT.  ``apply_quota``
        is called in the controller's thread.
        """
        if self.failure.done():
            raise ApiException(ErrorCode.not_controller, "this controller has failed")
        request_id = self._responses.new_id()
        deadline_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        happened = ControllerRequestReceived(request_id, request, deadline_ms, apply_quota)
        return await self._response_to(request_id, lambda _: happened)

    async def look(self, read: Callable[[QuorumController], T]) -> T:
        """The result of ``read``, called with the controller between two events.

        ``read`` runs in the controller's thread and delays it.  It must not change anything, nor
        return an object that changes later.  ConnectionAbortedError if the controller has ended.
        """
        result: T = await self._response_to(
            self._responses.new_id(), lambda response: _Look(read, response)
        )
        return result

    async def _response_to(
        self,
        request_id: int,
        asked: Callable[[asyncio.Future[Any]], ControllerRequestReceived | _Look],
    ) -> Any:
        if self._is_closed or self.failure.done():
            raise ConnectionAbortedError("the controller stops")
        with self._responses.expected(request_id) as response:
            self._put(asked(response))
            with abandonable():  # the controller still handles it
                return await response

    def _put(self, happened: _Happened | _Stop) -> None:
        self._waiting.put(_QueueItem(happened, time.monotonic_ns()))

    # Inputs from the quorum.

    def handle_commit(self, batches: CommittedBatches) -> None:
        """Queues committed batches."""
        is_latest = batches.next_offset >= self._driver.node.log.high_watermark
        self._put(_Commit(batches, is_latest))

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Queues a snapshot that replaces the controller's state."""
        self._put(_Snapshot(snapshot_id, self._driver.read_snapshot(snapshot_id)))

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Queues a new leader or epoch."""
        self._put(LeaderChanged(leader))

    def _deliver(self, outputs: Sequence[ControllerOutput]) -> None:
        for output in outputs:
            match output:
                case ControllerRequestCompleted(request_id, response):
                    self._responses.complete(request_id, response)
                case ControllerRequestFailed(request_id, refusal):
                    self._responses.refuse(request_id, refusal)
                case NonFatalFault(event, fault):
                    _log.error("Encountered a fault in %s", event, exc_info=fault)
                case QueueMark():
                    raise AssertionError("a mark comes alone")
                case _:
                    assert_never(output)

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_result(error)
        self._responses.refuse_all(lambda: ConnectionAbortedError("the controller has failed"))

    # The controller's thread.

    def _run(self) -> None:
        try:
            while self._queue_waiting():
                self._run_next()
        except Exception as error:  # noqa: BLE001 - the state is unknown now
            _log.error("The controller cannot go on", exc_info=error)
            self._call_in_loop(self._fail, error)

    def _queue_waiting(self) -> bool:
        """Waits for an input or a due event, then queues all inputs; False after :meth:`close`.

        During a long event, broker sessions end although their heartbeats wait here.  These
        heartbeats must be queued before the next event is chosen.
        """
        now_ms = self._now_ms()
        next_ms = self._controller.next_time_ms(now_ms)
        wait_s = None if next_ms is None else min(max(0, next_ms - now_ms), _MAX_WAIT_MS) / 1000
        with suppress(queue.Empty):
            waited = self._waiting.get(timeout=wait_s)
            while not isinstance(waited.happened, _Stop):
                self._queue(waited.happened, waited.since_ns)
                waited = self._waiting.get_nowait()
            return False
        return True

    def _queue(self, happened: _Happened, since_ns: int) -> None:
        mark: _Look | _CommitTaken | _SnapshotTaken
        match happened:
            case ControllerRequestReceived() | LeaderChanged():
                self._send(self._controller.enqueue(happened, since_ns))
                return
            case _Look():
                mark = happened
            case _Commit(batches, is_latest):
                found = tuple(
                    _committed(batch)
                    for batch in iterate_undecoded_batches(batches.data)
                    if batch.last_offset >= batches.first_offset
                )
                self._controller.enqueue(CommitHandled(found), since_ns)
                mark = _CommitTaken(_progress(batches, found, is_latest=is_latest))
            case _Snapshot(snapshot_id, data):
                self._controller.enqueue(_loaded(snapshot_id, data), since_ns)
                mark = _SnapshotTaken(snapshot_id)
            case _:
                assert_never(happened)
        self._controller.enqueue(QueueMark(mark))

    def _run_next(self) -> None:
        began_ns = time.monotonic_ns()
        outputs = self._controller.run_next(self._now_ms())
        match outputs:
            case None:
                return
            case [QueueMark(mark)]:
                self._reached(mark)
                return
            case _:
                self._send(outputs)
        if self._metrics is not None:
            since_ns = self._controller.ran_since_ns or began_ns
            self._metrics.processed(began_ns - since_ns, time.monotonic_ns() - began_ns)
            self._metrics.observe(self._controller)

    def _reached(self, mark: object) -> None:
        match mark:
            case _Look(read, result):
                self._show(read, result)
            case _CommitTaken(progress):
                if progress.is_latest and self._metrics is not None:
                    self._metrics.caught_up()
                if self._observer is not None:
                    self._observer.committed(progress)
                self._call_in_loop(self._driver.advanced, LISTENER_NAME, progress.next_offset)
            case _SnapshotTaken(snapshot_id):
                if self._observer is not None:
                    self._observer.loaded()
                if self._metrics is not None:
                    self._metrics.loaded()
                self._call_in_loop(self._driver.advanced, LISTENER_NAME, snapshot_id.offset)
            case _:
                raise AssertionError(f"{mark} was not put here")

    def _show(self, read: Callable[[QuorumController], Any], result: asyncio.Future[Any]) -> None:
        try:
            found = read(self._controller)
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            self._call_in_loop(_finish, result, None, error)
        else:
            self._call_in_loop(_finish, result, found, None)

    def _send(self, outputs: Sequence[ControllerOutput]) -> None:
        if outputs:
            self._call_in_loop(self._deliver, outputs)

    def _call_in_loop(self, what: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(what, *arguments)


def _finish(result: asyncio.Future[Any], found: object, error: Exception | None) -> None:
    if result.done():
        return  # the caller was cancelled
    if error is None:
        result.set_result(found)
    else:
        result.set_exception(error)


def _loaded(snapshot_id: OffsetAndEpoch, data: bytes) -> SnapshotLoaded:
    records: list[VersionedRecord] = []
    timestamp_ms = 0
    for batch in iterate_metadata_batches(data):
        match batch:
            case DataBatch():
                records += batch.records
            case ControlBatch():
                for record in batch.records:
                    if isinstance(record, SnapshotHeader):
                        timestamp_ms = record.last_contained_log_timestamp
    return SnapshotLoaded(snapshot_id, tuple(records), timestamp_ms)


def _progress(
    batches: CommittedBatches, found: Sequence[CommittedBatch], *, is_latest: bool
) -> CommittedProgress:
    return CommittedProgress(
        next_offset=batches.next_offset,
        epoch=found[-1].epoch,
        append_timestamp_ms=found[-1].append_timestamp_ms,
        size_in_bytes=len(batches.data),
        is_latest=is_latest,
    )


def _committed(batch: MetadataBatch) -> CommittedBatch:
    return CommittedBatch(
        base_offset=batch.place.base_offset,
        last_offset=batch.last_offset,
        epoch=batch.place.epoch,
        append_timestamp_ms=batch.place.append_timestamp,
        records=batch.records if isinstance(batch, DataBatch) else (),
    )
