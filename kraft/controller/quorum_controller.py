"""The KRaft controller: the active one writes the metadata log, standbys replay it.

Every input is a value (:mod:`.quorum_controller_values`) and waits in a queue;
:meth:`QuorumController.step` adds one and runs the events that are due.

A **write** of the active controller has these steps.

1. A manager *generates* records and a response from the newest state.
2. The records are passed to the quorum, which assigns their offsets, and are *replayed* into the
   state at once.  The next write builds on them, committed or not.
3. The response waits in the purgatory until its records are committed.  A write without records
   waits too if the state contains records that are not committed.

When the quorum elects another leader, the uncommitted records are undone, and the requests in the
purgatory are refused with NOT_CONTROLLER.  A **standby** replays only committed records.

There are three kinds of errors.  A refusal (:class:`ApiException`) is a response.  Any other error
in a write is a fault: the controller resigns, which reverts its state to the committed records.
A :class:`FatalFault` leaves the state unknown; the process must end.

Source: Kafka ``QuorumController`` (KIP-631).
"""

from __future__ import annotations

from typing import Final, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException, exception_name
from kafka_common.errors import IllegalState, NotLeader
from kraft.controller import activation
from kraft.controller.controller_event_queue import ControllerEventQueue
from kraft.controller.deferred_events import DeferredEventQueue
from kraft.controller.offsets import BatchEnd
from kraft.controller.quorum_controller_events import (
    ControllerEvent,
    RaftEvent,
    ReadEvent,
    WriteEvent,
)
from kraft.controller.quorum_controller_log import QuorumControllerLog
from kraft.controller.quorum_controller_operations import (
    AnyResult,
    WriteOperation,
    WriteOperations,
    empty_response,
    is_empty,
    operation_name,
    read,
)
from kraft.controller.quorum_controller_requests import ReadRequest
from kraft.controller.quorum_controller_state import (
    ControllerEnvironment,
    QuorumControllerConfig,
    QuorumControllerState,
)
from kraft.controller.quorum_controller_tasks import PeriodicTasks
from kraft.controller.quorum_controller_values import (
    NOT_ACTIVE,
    CommitHandled,
    CommittedBatch,
    ControllerCounters,
    ControllerInput,
    ControllerOutput,
    ControllerRequestCompleted,
    ControllerRequestFailed,
    ControllerRequestReceived,
    FatalFault,
    LeaderChanged,
    NonFatalFault,
    QueueMark,
    RaftAppender,
    SnapshotLoaded,
)
from kraft.controller.result import MAX_RECORDS_PER_BATCH
from kraft.metadata.bootstrap import BootstrapMetadata

MAX_PENDING_REQUESTS: Final = 100_000
"""The most requests that wait in the queue or for a commit; further ones are refused."""


class QuorumController:
    """One controller; not thread-safe, its owner calls one method at a time."""

    def __init__(
        self,
        config: QuorumControllerConfig,
        environment: ControllerEnvironment,
        raft: RaftAppender,
        bootstrap: BootstrapMetadata,
        max_records_per_batch: int = MAX_RECORDS_PER_BATCH,
    ) -> None:
        self.state = QuorumControllerState(config, environment)
        self._logger = self.state.registry.logger("QuorumController")
        self._purgatory_logger = self.state.registry.logger(
            "DeferredEventQueue", "org.apache.kafka.deferred"
        )
        self._logger.info("Creating new QuorumController with clusterId %s.", config.cluster_id)
        self.counters = ControllerCounters()
        self.claim_epoch = NOT_ACTIVE
        self.ran_since_ns: int | None = None
        """The ``since_ns`` of the event that ran last, from :meth:`enqueue`; None for a task."""
        self._config = config
        self._nano_time = environment.nano_time
        self._began_ns = 0
        """When the current event began."""
        self._raft = raft
        self._bootstrap = bootstrap
        self._queue: ControllerEventQueue[ControllerEvent] = ControllerEventQueue()
        self._purgatory: DeferredEventQueue[WriteEvent] = DeferredEventQueue()
        self._tasks = PeriodicTasks(config, self.state, self._queue)
        self._log = QuorumControllerLog(self.state, raft, self._tasks, max_records_per_batch)
        self._operations = WriteOperations(
            self.state,
            lambda: raft.kraft_version,
            self._tasks.reschedule_fencing,
            self._count_timed_out_heartbeat,
        )
        self._pending_requests = 0
        self._outputs: list[ControllerOutput] = []

    @property
    def is_active(self) -> bool:
        """Whether this controller is active."""
        return self.claim_epoch != NOT_ACTIVE

    # ------------------------------------------------------------------ for the owner

    def step(self, happened: ControllerInput | None, now_ms: int) -> list[ControllerOutput]:
        """Queues one input (None: only time has passed) and runs every event that is due."""
        outputs = [] if happened is None else self.enqueue(happened)
        while True:
            done = self.run_next(now_ms)
            if done is None:
                return outputs
            outputs += done

    def enqueue(
        self, happened: ControllerInput, since_ns: int | None = None
    ) -> list[ControllerOutput]:
        """Queues the input without running it; a request without entries is completed at once."""
        if isinstance(happened, QueueMark):
            self._queue.append(happened)
            return []
        if not isinstance(happened, ControllerRequestReceived):
            self._queue.append(RaftEvent(happened), since_ns=since_ns)
            return []
        request, request_id = happened.request, happened.request_id
        if is_empty(request):
            return [ControllerRequestCompleted(request_id, empty_response(request))]
        if self._pending_requests >= MAX_PENDING_REQUESTS:
            return [ControllerRequestFailed(request_id, _timeout("too many requests wait already"))]
        self._pending_requests += 1
        event: ControllerEvent
        if isinstance(request, ReadRequest):
            event = ReadEvent(request, request_id)
        else:
            quota = happened.apply_partition_change_quota
            event = WriteEvent(self._operations.operation(request, quota), request_id)
        self._queue.append(event, happened.deadline_ms, since_ns)
        return self._take_outputs()

    def run_next(self, now_ms: int) -> list[ControllerOutput] | None:
        """Runs the next event and returns its outputs; None if there is no event.

        :class:`FatalFault` if the state is unknown afterwards: the process must end.
        """
        taken = self._queue.take(now_ms)
        if taken is None:
            return None
        self.ran_since_ns = taken.since_ns
        if taken.is_timed_out:
            self.counters.operations_timed_out += 1
            self._logger.info(
                "%s: event unable to start processing because of TimeoutException.",
                _name(taken.event),
            )
            self._refuse(taken.event, _timeout("its turn did not come in time"), now_ms)
        else:
            self.counters.operations_started += 1
            self._run(taken.event, now_ms)
        return self._take_outputs()

    def next_time_ms(self, now_ms: int) -> int | None:
        """The time at which to call :meth:`step` without an input; None if no event is queued."""
        return self._queue.next_time_ms(now_ms)

    # ------------------------------------------------------------------ events

    def _run(self, event: ControllerEvent, now_ms: int) -> None:
        self._began_ns = self._nano_time()
        try:
            match event:
                case WriteEvent():
                    self._write(event, now_ms)
                case ReadEvent():
                    self._complete(event.request_id, read(self.state, event.request))
                case RaftEvent():
                    self._handle_raft_change(event.change, now_ms)
                case QueueMark():
                    self._outputs.append(event)
                case _:
                    assert_never(event)
        except FatalFault:
            raise
        except Exception as error:  # noqa: BLE001 - the client waits for a response in any case
            self._refuse(event, self._external(_name(event), error, now_ms), now_ms)

    def _external(self, name: str, error: Exception, now_ms: int) -> ApiException:
        """The error to send to the client.

        After any other error than an ApiException an active controller gives up its leadership.
        """
        if isinstance(error, ApiException):
            self._logger.info(
                "%s: event failed with %s in %d microseconds.%s",
                name, exception_name(error.error), self._micros(),
                "" if error.message is None else f" Exception message: {error.message}",
            )  # fmt: skip
            return error
        if isinstance(error, NotLeader):
            self._logger.info(
                "%s: event failed with NotLeaderException (treated as NotControllerException) at "
                "epoch %d in %d microseconds. Renouncing leadership and reverting to the last "
                "committed offset %d. Exception message: %s",
                name, self.claim_epoch, self._micros(), self.state.offsets.last_committed_offset,
                error,
            )  # fmt: skip
            external = self._wrong_controller()
        else:
            self.counters.metadata_errors += 1
            self._outputs.append(NonFatalFault(name, error))
            external = ApiException(ErrorCode.unknown_server_error, str(error))
        if self.is_active:
            self._renounce(now_ms)
        return external

    def _micros(self) -> int:
        return (self._nano_time() - self._began_ns) // 1_000

    def _refuse(self, event: ControllerEvent, error: ApiException, now_ms: int) -> None:
        if isinstance(event, RaftEvent | QueueMark):
            return
        if event.request_id is not None:
            self._fail(event.request_id, error)
        if isinstance(event, WriteEvent) and event.operation.on_failure is not None:
            event.operation.on_failure(error, now_ms)

    # ------------------------------------------------------------------ writes

    def _write(self, event: WriteEvent, now_ms: int) -> None:
        operation = event.operation
        if not self.is_active:
            raise self._wrong_controller()
        if self.state.features.is_in_pre_migration_mode and not operation.runs_in_premigration:
            raise ApiException(ErrorCode.not_controller, "The controller is in pre-migration mode.")
        result = operation.generate(now_ms)
        offset: int | None
        if result.records:
            offset = self._log.append(result, self.claim_epoch, now_ms)
            after = offset
        else:
            offset = self._purgatory.highest_pending_offset()
            after = self.state.offsets.next_write_offset - 1
        if operation.after_append is not None:
            operation.after_append(after, now_ms)
        self._tasks.after_write(now_ms)
        event.result = result
        if offset is None:
            # No record waits for its commit, so the write saw only committed records.
            self._finish(event)
        else:
            self._purgatory.add(offset, event)

    # ------------------------------------------------------------------ inputs of the quorum

    def _handle_raft_change(
        self, change: CommitHandled | SnapshotLoaded | LeaderChanged, now_ms: int
    ) -> None:
        match change:
            case CommitHandled():
                for batch in change.batches:
                    self._handle_commit(batch, now_ms)
            case SnapshotLoaded():
                self._handle_load_snapshot(change, now_ms)
            case LeaderChanged():
                self._handle_leader_change(change, now_ms)
            case _:
                assert_never(change)

    def _handle_commit(self, batch: CommittedBatch, now_ms: int) -> None:
        offsets = self.state.offsets
        end = BatchEnd(batch.last_offset, batch.epoch, batch.append_timestamp_ms)
        if not batch.records:
            offsets.handle_commit_batch_metrics(end)
        elif self.is_active:
            offsets.handle_commit_batch(end)
            for event in self._purgatory.complete_up_to(offsets.last_stable_offset):
                self._finish(event)
        else:
            self._log.replay(batch.records, batch.base_offset, now_ms)
            offsets.handle_commit_batch(end)

    def _handle_load_snapshot(self, change: SnapshotLoaded, now_ms: int) -> None:
        snapshot_id, offsets = change.snapshot_id, self.state.offsets
        if self.is_active:
            epoch = self.claim_epoch
            raise FatalFault(f"a snapshot {snapshot_id} for the active controller of {epoch}")
        try:
            offsets.begin_load_snapshot(snapshot_id)
            self._log.replay_snapshot(change.records, snapshot_id.offset - 1, now_ms)
            offsets.end_load_snapshot(change.last_contained_timestamp_ms)
        except IllegalState as error:
            raise FatalFault(f"cannot load the snapshot {snapshot_id}") from error

    def _handle_leader_change(self, change: LeaderChanged, now_ms: int) -> None:
        leader_id, epoch = change.leader
        if leader_id is not None:
            self.counters.new_active_controllers += 1
        is_this = leader_id == self._config.node_id
        leader = "(none)" if leader_id is None else str(leader_id)
        if self.is_active and is_this:
            self._logger.warning(
                "We were the leader in epoch %d, and are still the leader in the new epoch %d.",
                self.claim_epoch, epoch,
            )  # fmt: skip
            self.claim_epoch = epoch
        elif self.is_active:
            self._logger.warning(
                "Renouncing the leadership due to a metadata log event. We were the leader at "
                "epoch %d, but in the new epoch %d, the leader is %s. Reverting to last stable "
                "offset %d.",
                self.claim_epoch, epoch, leader, self.state.offsets.last_stable_offset,
            )  # fmt: skip
            self._renounce(now_ms)
        elif is_this:
            self._logger.info(
                "Becoming the active controller at epoch %d, next write offset %d.",
                epoch, self._raft.log_end_offset,
            )  # fmt: skip
            self._claim(epoch, now_ms)
        else:
            self._logger.info("In the new epoch %d, the leader is %s.", epoch, leader)

    # ------------------------------------------------------------------ leadership

    def _claim(self, epoch: int, now_ms: int) -> None:
        try:
            self.claim_epoch = epoch
            self.state.offsets.activate(self._raft.log_end_offset)
            self.state.cluster.activate(now_ms)
        except Exception as error:
            raise FatalFault(f"cannot claim the leadership of epoch {epoch}") from error
        # The activation's records must come before those of the requests that already wait.
        operation = WriteOperation(
            f"completeActivation[{epoch}]",
            self._generate_activation_records,
            lambda _offset, activated_ms: self._tasks.after_activation(activated_ms),
            runs_in_premigration=True,
        )
        self._queue.prepend(WriteEvent(operation))

    def _generate_activation_records(self, _now_ms: int) -> AnyResult:
        features = self.state.features
        log = activation.LogState(
            self._log.is_empty,
            self.state.offsets.transaction_start_offset,
            features.metadata_version,
            features.zk_migration_state,
        )
        try:
            result = activation.generate(log, self._bootstrap)
        except IllegalState as error:
            raise FatalFault("this controller must not lead") from error
        self._logger.warning("%s", activation.message(log, self._bootstrap))
        return result

    def _renounce(self, now_ms: int) -> None:
        epoch = self.claim_epoch
        try:
            self._raft.resign(epoch)
            self.claim_epoch = NOT_ACTIVE
            for event in self._purgatory.fail_all():
                self._purgatory_logger.info(
                    "failAll(NotControllerException): failing %s(%s).",
                    _name(event), event.request_id or 0,
                )  # fmt: skip
                self._refuse(event, _not_controller(None), now_ms)
            self.state.offsets.deactivate()
            self.state.cluster.deactivate()
            self._tasks.cancel()
        except Exception as error:
            raise FatalFault(f"cannot renounce the leadership of epoch {epoch}") from error

    def _wrong_controller(self) -> ApiException:
        return _not_controller(self._raft.leader_id)

    # ------------------------------------------------------------------ responses

    def _finish(self, event: WriteEvent) -> None:
        assert event.result is not None
        if event.request_id is not None:
            self._complete(event.request_id, event.result.response)

    def _complete(self, request_id: int, response: object) -> None:
        self._pending_requests -= 1
        self._outputs.append(ControllerRequestCompleted(request_id, response))

    def _fail(self, request_id: int, error: ApiException) -> None:
        self._pending_requests -= 1
        self._outputs.append(ControllerRequestFailed(request_id, error))

    def _take_outputs(self) -> list[ControllerOutput]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def _count_timed_out_heartbeat(self) -> None:
        self.counters.timed_out_heartbeats += 1


def _name(event: ControllerEvent) -> str:
    match event:
        case WriteEvent():
            return event.operation.name
        case ReadEvent():
            return operation_name(event.request)
        case RaftEvent():
            return type(event.change).__name__
        case _:
            return type(event).__name__


def _timeout(reason: str) -> ApiException:
    return ApiException(ErrorCode.request_timed_out, reason)


def _not_controller(leader_id: int | None) -> ApiException:
    message = "No controller appears to be active."
    if leader_id is not None:
        message = f"The active controller appears to be node {leader_id}."
    return ApiException(ErrorCode.not_controller, message)
