"""The group coordinator: takes one input with the time, returns outputs.

Nothing here waits, reads a clock or uses a socket.  The driver (one caller at a time):

1. calls ``step(input, now_ms)`` for every request and every event;
2. performs the outputs in their order: a response goes to the request with its id, the result of
   an append comes back as ``GroupRecordsAppended``, the records of a load as ``Loaded`` and
   ``LoadFinished``;
3. passes a ``Tick`` at ``next_deadline_ms``, which may have changed after each step.

``now_ms`` is the wall clock's time, because records contain it, but must never go back.

A request is checked in this order: the group id, whether the coordinator is active, whether the
group's partition is being loaded, whether this broker coordinates that partition.

Source: Kafka ``GroupCoordinator`` of ZooKeeper mode, ``GroupCoordinatorAdapter``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias, assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.administration import GroupDescriptions
from replica_manager.coordinators.groups.config import MAX_TIMERS_PER_TICK, GroupConfig
from replica_manager.coordinators.groups.events import (
    CoordinatorStartup,
    Elected,
    Event,
    GroupRecordsAppended,
    Input,
    Loaded,
    LoadFailed,
    LoadFinished,
    Output,
    PartitionsDeleted,
    Resigned,
    Shutdown,
    Tick,
    TransactionCompleted,
)
from replica_manager.coordinators.groups.expiry import GroupMetadataCleanup
from replica_manager.coordinators.groups.group import GroupMetadata
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.joining import Joining
from replica_manager.coordinators.groups.loading import GroupPartitions
from replica_manager.coordinators.groups.membership import GroupMembership
from replica_manager.coordinators.groups.offsets import Offsets
from replica_manager.coordinators.groups.rebalance import Rebalance
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResult,
    FetchOffsets,
    FetchResult,
    GroupOffsets,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    ListGroups,
    ListGroupsResult,
    Request,
    Result,
    SyncGroup,
    SyncResult,
    WantedOffsets,
)
from replica_manager.coordinators.groups.sessions import Sessions
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind

_LOADING: Final = ErrorCode.coordinator_load_in_progress

_LONG_TIMERS: Final = frozenset({TimerKind.SWEEP, TimerKind.LOAD})
"""Timers that take long: a tick ends after one of them."""

_ImmediateRequest: TypeAlias = (
    Heartbeat
    | LeaveGroup
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
    | ListGroups
    | DescribeGroups
)
"""Requests whose response is ready in the same step; the others may have to wait."""


class GroupCoordinator:
    """Coordinates the groups of the partitions of ``__consumer_offsets`` that this broker leads."""

    def __init__(self, config: GroupConfig, new_uuid: Callable[[], UUID]) -> None:
        """``new_uuid`` makes member ids unique."""
        self._manager = GroupMetadataManager(config, new_uuid)
        self._is_active = False
        self._sessions = Sessions(self._manager)
        self._rebalance = Rebalance(self._manager, self._sessions)
        self._membership = GroupMembership(self._manager, self._sessions, self._rebalance)
        self._joining = Joining(self._manager, self._sessions, self._rebalance, self._membership)
        self._expiry = GroupMetadataCleanup(self._manager)
        self._offsets = Offsets(self._manager, self._sessions, self._membership, self._expiry)
        self._partitions = GroupPartitions(self._manager, self._sessions, self._rebalance)
        self._administration = GroupDescriptions(self._manager, self._expiry)

    @property
    def groups(self) -> dict[str, GroupMetadata]:
        """Every group by its id, for metrics and tests; read only."""
        return self._manager.groups

    @property
    def producers(self) -> Collection[int]:
        """Ids of the producers that may have pending offsets, for tests; read only."""
        return self._manager.groups_of_producers.keys()

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next Tick; None if none is needed."""
        return self._manager.timers.next_deadline_ms()

    def timer_count(self, *kinds: TimerKind) -> int:
        """How many timers of these kinds are set; of all without any.  For any thread."""
        timers = list(self._manager.timers)
        return sum(each.kind in kinds for each in timers) if kinds else len(timers)

    def partition_for(self, group_id: str) -> int:
        """The partition whose leader coordinates the group, for FindCoordinator."""
        return self._manager.partition_for(group_id)

    def step(self, given: Input, now_ms: int) -> list[Output]:
        """Processes one input; returns the outputs in order."""
        self._manager.now_ms = now_ms
        if isinstance(given, Event):
            self._on_event(given)
        else:
            self._on_request(given)
        outputs, self._manager.outbox = self._manager.outbox, []
        return outputs

    # ------------------------------------------------------------------ requests

    def _on_request(self, request: Request) -> None:
        match request:
            case JoinGroup():
                self._join(request)
            case SyncGroup():
                self._sync(request)
            case CommitOffsets():
                self._commit(request)
            case _:
                self._manager.respond(request.request_id, self._immediate_result(request))

    def _immediate_result(self, request: _ImmediateRequest) -> Result:
        match request:
            case Heartbeat():
                return HeartbeatResult(self._heartbeat(request))
            case LeaveGroup(_, group_id):
                error = self.error_of_group(group_id)
                return self._membership.leave(request) if error is None else LeaveResult(error)
            case FetchOffsets(_, groups):
                return FetchResult(tuple(self._fetch(each, request) for each in groups))
            case DeleteOffsets(_, group_id):
                error = self.error_of_group(group_id)
                if error is not None:
                    return DeleteOffsetsResult(error, {})
                return self._offsets.delete(request)
            case DeleteGroups():
                return DeleteGroupsResult(self._delete(request))
            case ListGroups():
                return self._list(request)
            case DescribeGroups(_, group_ids):
                return DescribeGroupsResult(
                    tuple(self._describe(group_id) for group_id in group_ids)
                )
            case _:
                assert_never(request)

    def error_of_group(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode | None:
        """The error of a request about the group; None if the request can be handled."""
        if not (group_id or may_be_empty):
            return ErrorCode.invalid_group_id
        if not self._is_active:
            return ErrorCode.coordinator_not_available
        return self._partitions.error_of(group_id)

    def _membership_error(
        self, group_id: str, group_instance_id: str | None, *, may_be_empty: bool = False
    ) -> ErrorCode | None:
        if group_instance_id is not None and not self._manager.config.has_static_membership:
            return ErrorCode.unsupported_version
        return self.error_of_group(group_id, may_be_empty=may_be_empty)

    def _join(self, request: JoinGroup) -> None:
        error = self._membership_error(request.group_id, request.group_instance_id)
        if error is None:
            self._joining.join(request)
        else:
            self._manager.respond(request.request_id, JoinResult(error, request.member_id))

    def _sync(self, request: SyncGroup) -> None:
        error = self._membership_error(request.group_id, request.group_instance_id)
        if error is None:
            self._membership.sync(request)
            return
        if error is _LOADING:
            # The last coordinator's rebalance is lost, so the member must join again.  Old clients
            # do not know COORDINATOR_LOAD_IN_PROGRESS.
            error = ErrorCode.rebalance_in_progress
        self._manager.respond(request.request_id, SyncResult(error))

    def _heartbeat(self, request: Heartbeat) -> ErrorCode:
        error = self._membership_error(request.group_id, request.group_instance_id)
        if error is None:
            return self._membership.heartbeat(request)
        # A group that is being loaded does not change, so its members may stay.
        return ErrorCode.none if error is _LOADING else error

    def _commit(self, request: CommitOffsets) -> None:
        if request.producer is not None:
            error = self.error_of_group(request.group_id)
        else:
            error = self._membership_error(
                request.group_id, request.group_instance_id, may_be_empty=True
            )
        if error is None:
            self._offsets.commit(request)
        else:
            self._offsets.refuse_commit(request, error)

    def _fetch(self, wanted: WantedOffsets, request: FetchOffsets) -> GroupOffsets:
        error = self.error_of_group(wanted.group_id, may_be_empty=True)
        if error is not None:
            return GroupOffsets(wanted.group_id, error, {})
        return self._offsets.fetch(wanted, requires_stable=request.requires_stable)

    def _delete(self, request: DeleteGroups) -> dict[str, ErrorCode]:
        group_ids = dict.fromkeys(request.group_ids)
        errors = {each: self.error_of_group(each, may_be_empty=True) for each in group_ids}
        served = [each for each, error in errors.items() if error is None]
        outcomes = self._administration.delete(served)
        return outcomes | {each: error for each, error in errors.items() if error is not None}

    def _list(self, request: ListGroups) -> ListGroupsResult:
        if not self._is_active:
            return ListGroupsResult(ErrorCode.coordinator_not_available, ())
        error = _LOADING if self._partitions.is_loading else ErrorCode.none
        return ListGroupsResult(error, self._administration.overview(request.states, request.types))

    def _describe(self, group_id: str) -> DescribedGroup:
        error = self.error_of_group(group_id, may_be_empty=True)
        if error is not None:
            return DescribedGroup(group_id, error)
        return self._administration.describe(group_id)

    # ------------------------------------------------------------------ events

    def _on_event(self, event: Event) -> None:
        manager, partitions = self._manager, self._partitions
        match event:
            case CoordinatorStartup(partition_count):
                manager.partition_count = partition_count
                self._is_active = True
                self._expiry.begin()
            case Shutdown():
                self._shut_down()
            case Tick():
                self._tick()
            case Elected(partition, leader_epoch):
                partitions.elected(partition, leader_epoch)
            case Resigned(partition, epoch):
                partitions.resigned(partition, epoch)
            case Loaded(load_id, batches):
                partitions.loaded(load_id, batches)
            case LoadFinished(load_id):
                partitions.finished(load_id)
            case LoadFailed(load_id, reason):
                partitions.failed(load_id, reason)
            case GroupRecordsAppended(append_id, error, base_offset):
                manager.continuations.pop(append_id)(error, base_offset)
            case TransactionCompleted(producer_id, completed, is_commit):
                partitions.transaction_completed(producer_id, completed, is_commit=is_commit)
            case PartitionsDeleted(deleted):
                self._expiry.remove_partitions(deleted)
            case _:
                assert_never(event)

    def _shut_down(self) -> None:
        self._is_active = False
        for group in list(self._manager.groups.values()):
            self._partitions.unload(group, ErrorCode.coordinator_not_available)
        self._manager.timers.cancel(GroupTimer(TimerKind.SWEEP))

    def _tick(self) -> None:
        for _ in range(MAX_TIMERS_PER_TICK):
            timer = self._manager.timers.take_due(self._manager.now_ms)
            if timer is None:
                return
            self._fire(timer)
            if timer.kind in _LONG_TIMERS:
                # The same timer may be due again: first let other inputs be handled.
                return

    def _fire(self, timer: GroupTimer) -> None:
        if timer.kind is TimerKind.SWEEP:
            self._expiry.sweep()
            return
        if timer.kind is TimerKind.LOAD:
            self._partitions.install(timer.load_id)
            return
        group = self._manager.groups[timer.group_id]
        match timer.kind:
            case TimerKind.SESSION:
                self._membership.session_is_over(group, timer.member_id)
            case TimerKind.JOIN:
                self._rebalance.join_time_is_over(group)
            case TimerKind.SYNC:
                self._rebalance.sync_time_is_over(group)
            case _:
                assert_never(timer.kind)
