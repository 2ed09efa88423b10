"""A static member that rejoins: replaces its earlier member id by a new one.

In a Stable group whose protocol stays the same there is no rebalance: the group's record is written
with the new member id, and then the member gets the current generation.  If the write fails, the
member gets its old id and settings back.

Source: Kafka ``GroupCoordinator.updateStaticMemberAndRebalance`` (KIP-345, KIP-814).
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.member import Member
from replica_manager.coordinators.groups.rebalance import Rebalance
from replica_manager.coordinators.groups.requests import (
    UNKNOWN_MEMBER_ID,
    JoinGroup,
    JoinResult,
    Protocol,
    SyncResult,
    given_reason,
)
from replica_manager.coordinators.groups.sessions import Sessions
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind


class _OldState(NamedTuple):
    """The member's state before it rejoined."""

    member_id: str
    leader_id: str
    protocols: tuple[Protocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int


class StaticMembers:
    """Handles static members that rejoin."""

    def __init__(
        self, manager: GroupMetadataManager, sessions: Sessions, rebalance: Rebalance
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._rebalance = rebalance

    def replace(
        self, group: GroupMetadata, member: Member, new_member_id: str, request: JoinGroup
    ) -> None:
        """Replaces the member's id; parked requests of the old id get FENCED_INSTANCE_ID."""
        instance, reason = request.group_instance_id, given_reason(request.reason)
        assert group.leader_id is not None
        before = _OldState(
            member.member_id,
            group.leader_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
        )
        self._manager.say(
            Level.INFO,
            f"Static member with groupInstanceId={instance} and unknown member id joins group"
            f" {group.group_id} in {group.state.label} state. Replacing previously mapped member"
            f" {before.member_id} with this groupInstanceId.",
        )
        fenced = ErrorCode.fenced_instance_id
        self._sessions.respond_to_join(group, member, JoinResult(fenced, before.member_id))
        self._sessions.respond_to_sync(group, member, SyncResult(fenced))
        self._rename(group, member, new_member_id)
        group.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )
        group.park_join(member, request.request_id)
        match group.state:
            case GroupState.STABLE if group.select_protocol() == group.protocol_name:
                self._manager.say(
                    Level.INFO,
                    "Static member which joins during Stable stage and doesn't affect"
                    " selectProtocol will not trigger rebalance.",
                )
                self._store(group, member, before, request)
            case GroupState.STABLE:
                self._rebalance.prepare(
                    group,
                    "Group's selectedProtocol will change because static member"
                    f" {new_member_id} with instance id {instance} joined with change of protocol;"
                    f" client reason: {reason}",
                )
            case GroupState.COMPLETING_REBALANCE:
                # The leader may already know the old id, and assign partitions to it.
                self._rebalance.prepare(
                    group,
                    f"Updating metadata for static member {new_member_id} with instance id"
                    f" {instance}; client reason: {reason}",
                )
            case GroupState.PREPARING_REBALANCE:
                pass
            case GroupState.EMPTY | GroupState.DEAD:
                raise AssertionError("a group without members has no static ones")
            case _:
                assert_never(group.state)

    def _rename(self, group: GroupMetadata, member: Member, member_id: str) -> None:
        self._manager.timers.cancel(GroupTimer(TimerKind.SESSION, group.group_id, member.member_id))
        group.replace_static_member(member, member_id)
        self._sessions.renew(group, member)

    def _store(
        self, group: GroupMetadata, member: Member, before: _OldState, request: JoinGroup
    ) -> None:
        generation_id = group.generation_id

        def when_stored(error: ErrorCode) -> None:
            is_same = group.generation_id == generation_id and group.state is GroupState.STABLE
            # The request already has its response, or a rebalance has begun and will send it.
            if not is_same or member.parked_join != request.request_id:
                return
            if error is ErrorCode.none:
                result = self._result(group, member, before, request)
                self._sessions.respond_to_join(group, member, result)
                return
            self._manager.say(
                Level.WARN,
                f"Failed to persist metadata for group {group.group_id}: {error.name.upper()}",
            )
            result = JoinResult(
                error,
                UNKNOWN_MEMBER_ID,
                group.generation_id,
                group.protocol_type,
                group.protocol_name,
                before.leader_id,
            )
            self._sessions.respond_to_join(group, member, result)
            group.update(
                member, before.protocols, before.rebalance_timeout_ms, before.session_timeout_ms
            )
            self._rename(group, member, before.member_id)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self._manager.store_group(group, assignments, when_stored)

    def _result(
        self, group: GroupMetadata, member: Member, before: _OldState, request: JoinGroup
    ) -> JoinResult:
        result = self._rebalance.join_result(group, member)
        is_leader = group.leader_id == member.member_id
        if request.supports_skipping_assignment:
            # The leader must watch the topics, but not assign: the group is already Stable.
            return JoinResult(
                ErrorCode.none,
                result.member_id,
                result.generation_id,
                result.protocol_type,
                result.protocol_name,
                result.leader_id,
                result.members,
                skip_assignment=is_leader,
            )
        # The response has the leader's old id, so a leader that rejoined does not know that it
        # leads, and sends no assignment.
        return JoinResult(
            ErrorCode.none,
            result.member_id,
            result.generation_id,
            result.protocol_type,
            result.protocol_name,
            before.leader_id,
        )
