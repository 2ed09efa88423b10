"""Periodic tasks of the active controller.

* fence brokers whose session has ended, one at a time;
* elect preferred leaders;
* elect unclean leaders for leaderless partitions, if their topics allow it;
* write a NoOpRecord to an idle log, so that standbys see that they are up to date;
* remove expired delegation tokens.

Each task is a write that schedules its next run.  All are cancelled when the leadership is lost.

Source: Kafka ``QuorumController.maybeScheduleNext…``, ``rescheduleMaybeFenceStaleBrokers``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.controller_event_queue import ControllerEventQueue
from kraft.controller.quorum_controller_events import ControllerEvent, WriteEvent
from kraft.controller.quorum_controller_operations import (
    AnyResult,
    WriteOperation,
    is_timeout,
)
from kraft.controller.quorum_controller_state import (
    QuorumControllerConfig,
    QuorumControllerState,
)
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.metadata.records import NoOpRecord

MAYBE_FENCE_REPLICAS: Final = "maybeFenceReplicas"
MAYBE_BALANCE_PARTITION_LEADERS: Final = "maybeBalancePartitionLeaders"
MAYBE_ELECT_UNCLEAN_LEADERS: Final = "maybeElectUncleanLeaders"
WRITE_NO_OP_RECORD: Final = "writeNoOpRecord"
SWEEP_EXPIRED_DELEGATION_TOKENS: Final = "sweepExpiredDelegationTokens"

_IMMEDIATELY_MS: Final = 10
"""The delay before a task continues with the rest of its work, so that others run in between."""
_FAULT_BACKOFF_MS: Final = 60_000


class _Schedule(Enum):
    SCHEDULED = auto()
    DEFERRED = auto()
    """The next run comes after the task's interval."""
    IMMEDIATELY = auto()


class _Election:
    """A periodic task that elects leaders, a limited number in each run."""

    def __init__(
        self,
        tag: str,
        interval_ms: int | None,
        is_needed: Callable[[], bool],
        elect: Callable[[], ControllerResult[bool]],
        queue: ControllerEventQueue[ControllerEvent],
    ) -> None:
        self._tag = tag
        self._interval_ms = interval_ms
        self._is_needed = is_needed
        self._elect = elect
        self._queue = queue
        self._schedule = _Schedule.DEFERRED

    def maybe_schedule(self, now_ms: int) -> None:
        """Schedules the task if it has work and is not scheduled yet."""
        is_scheduled = self._schedule is _Schedule.SCHEDULED
        if is_scheduled or self._interval_ms is None or not self._is_needed():
            return
        is_deferred = self._schedule is _Schedule.DEFERRED
        at_ms = now_ms + (self._interval_ms if is_deferred else _IMMEDIATELY_MS)
        event = WriteEvent(WriteOperation(self._tag, self._run))
        self._queue.schedule_deferred(self._tag, at_ms, event)
        self._schedule = _Schedule.SCHEDULED

    def cancel(self) -> None:
        """Cancels the task."""
        self._schedule = _Schedule.DEFERRED
        self._queue.cancel_deferred(self._tag)

    def _run(self, _now_ms: int) -> AnyResult:
        result = self._elect()
        # If partitions are left, the next run is scheduled soon after this run's write.
        self._schedule = _Schedule.IMMEDIATELY if result.response else _Schedule.DEFERRED
        return result


class PeriodicTasks:
    """The periodic tasks of one controller."""

    def __init__(
        self,
        config: QuorumControllerConfig,
        state: QuorumControllerState,
        queue: ControllerEventQueue[ControllerEvent],
    ) -> None:
        self._token_check_interval_ms = config.delegation_token_check_interval_ms
        self._max_idle_interval_ms = config.max_idle_interval_ms
        self._state = state
        self._queue = queue
        self._is_no_op_scheduled = False
        elections = state.replication.elections
        self._balancing = _Election(
            MAYBE_BALANCE_PARTITION_LEADERS,
            config.leader_imbalance_check_interval_ms,
            elections.are_partition_leaders_imbalanced,
            elections.maybe_balance_partition_leaders,
            queue,
        )
        self._unclean_elections = _Election(
            MAYBE_ELECT_UNCLEAN_LEADERS,
            config.unclean_leader_election_interval_ms,
            elections.are_some_partitions_leaderless,
            elections.maybe_elect_unclean_leaders,
            queue,
        )

    def cancel(self) -> None:
        """Cancels all tasks: the controller is no longer active."""
        self._queue.cancel_deferred(MAYBE_FENCE_REPLICAS)
        self._balancing.cancel()
        self._unclean_elections.cancel()
        self._cancel_no_op_record()
        self._queue.cancel_deferred(SWEEP_EXPIRED_DELEGATION_TOKENS)

    def after_write(self, now_ms: int) -> None:
        """Schedules elections if partitions need one after a write."""
        self._balancing.maybe_schedule(now_ms)
        self._unclean_elections.maybe_schedule(now_ms)

    def after_activation(self, now_ms: int) -> None:
        """Schedules the tasks after the activation's records were replayed."""
        self._maybe_schedule_token_sweep(now_ms)
        self.after_write(now_ms)
        self._maybe_schedule_no_op_record(now_ms)

    def after_feature_change(self, now_ms: int) -> None:
        """Starts or stops NoOpRecords after a feature level was replayed."""
        if self._state.features.metadata_version.is_no_op_record_supported:
            self._maybe_schedule_no_op_record(now_ms)
        else:
            self._cancel_no_op_record()

    # ------------------------------------------------------------------ fencing

    def reschedule_fencing(self) -> None:
        """Schedules the check of broker sessions for the time at which the next one ends."""
        at_ms = self._state.cluster.heartbeats.next_check_time_ms()
        if at_ms is None:
            self._queue.cancel_deferred(MAYBE_FENCE_REPLICAS)
        else:
            # In its last millisecond a session is still valid.
            self._schedule_fencing(at_ms + 1)

    def _schedule_fencing(self, at_ms: int) -> None:
        def on_failure(error: ApiException, _now_ms: int) -> None:
            is_over = is_timeout(error) or error.error is ErrorCode.not_controller
            if not is_over:
                self._schedule_fencing(at_ms + _FAULT_BACKOFF_MS)

        operation = WriteOperation(MAYBE_FENCE_REPLICAS, self._fence, on_failure=on_failure)
        self._queue.schedule_deferred(MAYBE_FENCE_REPLICAS, at_ms, WriteEvent(operation))

    def _fence(self, now_ms: int) -> AnyResult:
        result = self._state.heartbeats.maybe_fence_one_stale_broker(now_ms)
        # If another session has ended, its broker is fenced at once.
        self.reschedule_fencing()
        return result

    # ------------------------------------------------------------------ NoOpRecord

    def _maybe_schedule_no_op_record(self, now_ms: int) -> None:
        interval_ms = self._max_idle_interval_ms
        version = self._state.features.metadata_version
        if self._is_no_op_scheduled or interval_ms is None:
            return
        if version.is_no_op_record_supported:
            operation = WriteOperation(
                WRITE_NO_OP_RECORD, self._write_no_op_record, runs_in_premigration=True
            )
            at_ms = now_ms + interval_ms
            self._queue.schedule_deferred(WRITE_NO_OP_RECORD, at_ms, WriteEvent(operation))
            self._is_no_op_scheduled = True

    def _write_no_op_record(self, now_ms: int) -> AnyResult:
        self._is_no_op_scheduled = False
        self._maybe_schedule_no_op_record(now_ms)
        return ControllerResult.of((VersionedRecord(NoOpRecord(), 0),), None)

    def _cancel_no_op_record(self) -> None:
        self._is_no_op_scheduled = False
        self._queue.cancel_deferred(WRITE_NO_OP_RECORD)

    # ------------------------------------------------------------------ delegation tokens

    def _maybe_schedule_token_sweep(self, now_ms: int) -> None:
        version = self._state.features.metadata_version
        if version.is_delegation_token_supported and self._state.tokens.is_enabled:
            operation = WriteOperation(SWEEP_EXPIRED_DELEGATION_TOKENS, self._sweep_tokens)
            at_ms = now_ms + self._token_check_interval_ms
            tag = SWEEP_EXPIRED_DELEGATION_TOKENS
            self._queue.schedule_deferred(tag, at_ms, WriteEvent(operation))

    def _sweep_tokens(self, now_ms: int) -> AnyResult:
        self._maybe_schedule_token_sweep(now_ms)
        expired = self._state.tokens.sweep_expired_delegation_tokens(self._state.wall_time_ms())
        return ControllerResult.of(expired, None)
