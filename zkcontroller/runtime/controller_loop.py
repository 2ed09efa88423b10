"""Runs the quorum controller on the node's event loop: requests, commits, timers.

What is committed comes from the raft driver as bytes and goes into the controller as records; what
the controller writes goes the other way.  Each step is done at once, so nothing comes in between:
a write is generated, appended and replayed before anything else is looked at.

Source: Kafka ``QuorumController`` (its event queue's thread, ``QuorumMetaLogListener``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from zkcontroller.errors import ZkControllerError
from zkcontroller.kraft.control_records import SnapshotHeader
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.quorum_controller import QuorumController
from zkcontroller.kraft.controller.quorum_controller_requests import ControllerRequest
from zkcontroller.kraft.controller.quorum_controller_values import (
    CommitHandled,
    CommittedBatch,
    ControllerInput,
    FatalFault,
    LeaderChanged,
    NonFatalFault,
    RaftAppender,
    RequestCompleted,
    RequestFailed,
    RequestReceived,
    SnapshotLoaded,
)
from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.metadata.codec import encode_record
from zkcontroller.kraft.metadata.metadata_batches import (
    ControlBatch,
    DataBatch,
    MetadataBatch,
    iterate_metadata_batches,
)
from zkcontroller.kraft.values import LeaderAndEpoch, OffsetAndEpoch
from zkcontroller.runtime.raft_driver import CommittedBatches, RaftDriver
from zkcontroller.runtime.snapshot_generator import CommittedProgress

LISTENER_NAME: Final = "controller"
MAX_SNAPSHOT_BYTES: Final = 1024 * 1024 * 1024
"""A larger snapshot is not loaded: its records are in memory all at once."""
_READ_BYTES: Final = 8 * 1024 * 1024

_log: Final = logging.getLogger("org.apache.kafka.controller.QuorumController")


class DriverAppender:
    """The quorum as the controller writes to it."""

    def __init__(self, driver: RaftDriver) -> None:
        self._driver = driver

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""
        return self._driver.node.leader_and_epoch.leader_id

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""
        return self._driver.node.next_append_offset

    @property
    def kraft_version(self) -> int:
        """0: the voters are static."""
        return 0

    def prepare_append(self, epoch: int, records: tuple[VersionedRecord, ...]) -> int:
        """Takes records as one batch; gives the last one's offset."""
        values = [encode_record(record, version) for record, version in records]
        return self._driver.prepare_append(epoch, values)

    def schedule_prepared_append(self) -> None:
        """What was prepared may go."""
        self._driver.schedule_prepared_append()

    def resign(self, epoch: int) -> None:
        """Gives up the leadership of that epoch."""
        self._driver.resign(epoch)


class CommitObserver(Protocol):
    """Hears how far the controller has come; must not take long."""

    def committed(self, progress: CommittedProgress) -> None:
        """It has read on."""

    def loaded(self) -> None:
        """It has begun anew with a snapshot."""


class ControllerLoop:
    """One controller at work.  For the event loop."""

    def __init__(
        self,
        driver: RaftDriver,
        make: Callable[[RaftAppender], QuorumController],
        now_ms: Callable[[], int],
    ) -> None:
        self.controller = make(DriverAppender(driver))
        """To look at; only the loop has it step."""
        self.failure: asyncio.Future[ZkControllerError] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the process must end."""
        self._driver = driver
        self._now_ms = now_ms
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_request_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._observer: CommitObserver | None = None

    def observe(self, observer: CommitObserver) -> None:
        """Before :meth:`start`: it hears of everything that the controller has read."""
        self._observer = observer

    def start(self) -> None:
        """Begins to read the log."""
        self._driver.register(LISTENER_NAME, self)

    def close(self) -> None:
        """Ends it: who waits for an answer gets none."""
        if self._timer is not None:
            self._timer.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionAbortedError("the controller stops"))

    async def ask(self, request: ControllerRequest, timeout_ms: int | None = None) -> Any:
        """The controller's answer, once it is committed; ApiException if it refuses.

        With ``timeout_ms`` it is not begun later than that.
        """
        if self.failure.done():
            raise ApiException(ErrorCode.not_controller, "this controller has failed")
        self._last_request_id += 1
        request_id = self._last_request_id
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        deadline_ms = None if timeout_ms is None else self._now_ms() + timeout_ms
        self._step(RequestReceived(request_id, request, deadline_ms))
        try:
            return await answer
        finally:
            del self._answers[request_id]

    # What the quorum says.

    def handle_commit(self, batches: CommittedBatches) -> None:
        """Takes in what is committed."""
        try:
            found = tuple(
                _committed(batch)
                for batch in iterate_metadata_batches(batches.data)
                if batch.last_offset >= batches.first_offset
            )
        except ZkControllerError as error:
            self._fail(error)
            return
        self._step(CommitHandled(found))
        self._tell_observer(batches, found)
        self._driver.advanced(LISTENER_NAME, batches.next_offset)

    def _tell_observer(self, batches: CommittedBatches, found: Sequence[CommittedBatch]) -> None:
        if self._observer is None or not found or self.failure.done():
            return
        progress = CommittedProgress(
            next_offset=batches.next_offset,
            epoch=found[-1].epoch,
            append_timestamp_ms=found[-1].append_timestamp_ms,
            size_in_bytes=len(batches.data),
            is_latest=batches.next_offset >= self._driver.node.log.high_watermark,
        )
        self._observer.committed(progress)

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Begins anew with a snapshot."""
        try:
            loaded = self._load(snapshot_id)
        except ZkControllerError as error:
            self._fail(error)
            return
        self._step(loaded)
        if self._observer is not None and not self.failure.done():
            self._observer.loaded()
        self._driver.advanced(LISTENER_NAME, snapshot_id.offset)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Another leader, or another epoch."""
        _log.info("The leader of epoch %d is %s", leader.epoch, leader.leader_id)
        self._step(LeaderChanged(leader))

    def _load(self, snapshot_id: OffsetAndEpoch) -> SnapshotLoaded:
        records: list[VersionedRecord] = []
        timestamp_ms = 0
        for batch in iterate_metadata_batches(b"".join(self._snapshot(snapshot_id))):
            match batch:
                case DataBatch():
                    records += batch.records
                case ControlBatch():
                    for record in batch.records:
                        if isinstance(record, SnapshotHeader):
                            timestamp_ms = record.last_contained_log_timestamp
        return SnapshotLoaded(snapshot_id, tuple(records), timestamp_ms)

    def _snapshot(self, snapshot_id: OffsetAndEpoch) -> Iterator[bytes]:
        log = self._driver.node.log
        size = log.snapshot_bytes(snapshot_id)
        if size is None or size > MAX_SNAPSHOT_BYTES:
            raise FatalFault(f"snapshot {snapshot_id} of {size} bytes cannot be loaded")
        for position in range(0, size, _READ_BYTES):
            yield log.read_snapshot(snapshot_id, position, _READ_BYTES)

    # The controller's turn.

    def _step(self, happened: ControllerInput | None) -> None:
        if self.failure.done():
            return
        now_ms = self._now_ms()
        try:
            outputs = self.controller.step(happened, now_ms)
        except FatalFault as fatal:
            self._fail(fatal)
            return
        for output in outputs:
            match output:
                case RequestCompleted(request_id, response):
                    self._answer(request_id, response, None)
                case RequestFailed(request_id, refusal):
                    self._answer(request_id, None, refusal)
                case NonFatalFault(event, fault):
                    _log.error("Encountered a fault in %s", event, exc_info=fault)
        self._set_timer(now_ms)

    def _answer(self, request_id: int, response: object, error: ApiException | None) -> None:
        answer = self._answers.get(request_id)
        if answer is None or answer.done():
            return  # whoever asked has gone
        if error is None:
            answer.set_result(response)
        else:
            answer.set_exception(error)

    def _set_timer(self, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self.controller.next_time_ms(now_ms)
        if next_ms is not None:
            wait_s = max(0, next_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._step, None)

    def _fail(self, error: ZkControllerError) -> None:
        _log.error("The controller cannot go on", exc_info=error)
        if not self.failure.done():
            self.failure.set_result(error)


def _committed(batch: MetadataBatch) -> CommittedBatch:
    return CommittedBatch(
        base_offset=batch.place.base_offset,
        last_offset=batch.last_offset,
        epoch=batch.place.epoch,
        append_timestamp_ms=batch.place.append_timestamp,
        records=batch.records if isinstance(batch, DataBatch) else (),
    )
