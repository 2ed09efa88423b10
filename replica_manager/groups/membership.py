"""Who belongs to a group: joining, leaving, staying alive.

A *dynamic* member is known by the id it was given.  From JoinGroup 4 on it gets the id first and
has to come again with it (KIP-394), so that a client that never sees the answer leaves no member
behind; until then the id is *pending*.  A *static* member is known by its ``group.instance.id``
(KIP-345): when it comes back without an id it takes the place of the one it was, and in a Stable
group nobody else notices; whoever still uses the old id is fenced.

Source: Kafka ``GroupCoordinator`` (``handleJoinGroup``, ``handleLeaveGroup``, ``handleHeartbeat``).
"""

from __future__ import annotations

from typing import assert_never

from kio.schema.errors import ErrorCode

from replica_manager.groups.config import MAX_PENDING_MEMBERS, NEW_MEMBER_JOIN_TIMEOUT_MS
from replica_manager.groups.desk import Desk
from replica_manager.groups.events import Level
from replica_manager.groups.group import Group, GroupState, Member
from replica_manager.groups.rebalance import Rebalance
from replica_manager.groups.records import LONGEST_STRING_BYTES
from replica_manager.groups.requests import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncResult,
)
from replica_manager.groups.sessions import Sessions
from replica_manager.groups.static_members import StaticMembers


class Membership:
    """Members that come, stay and go."""

    def __init__(self, desk: Desk, sessions: Sessions, rebalance: Rebalance) -> None:
        self._desk = desk
        self._sessions = sessions
        self._rebalance = rebalance
        self._static_members = StaticMembers(desk, sessions, rebalance)

    # ------------------------------------------------------------------ joining

    def join(self, request: JoinGroup) -> None:
        """Parks the request until the generation is complete, or answers why not."""
        desk, config = self._desk, self._desk.config
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        timeout_ms = request.session_timeout_ms
        if not config.min_session_timeout_ms <= timeout_ms <= config.max_session_timeout_ms:
            self._refuse(request, ErrorCode.invalid_session_timeout, request.member_id)
            return
        group = desk.groups.get(request.group_id)
        if group is None:
            if not is_unknown:
                self._refuse(request, ErrorCode.unknown_member_id, request.member_id)
                return
            group = desk.create_group(request.group_id)
            if group is None:
                self._refuse(request, ErrorCode.coordinator_not_available)
                return
        if not self._has_room_for(group, request.member_id):
            self._forget(group, request.member_id)
            self._refuse(request, ErrorCode.group_max_size_reached)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(request, ErrorCode.inconsistent_group_protocol)
        elif is_unknown:
            self._join_as_new(group, request)
        else:
            self._join_as_known(group, request)
        self._rebalance.check_join(group)

    def _refuse(
        self, request: JoinGroup, error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID
    ) -> None:
        self._desk.answer(request.request_id, JoinResult(error, member_id))

    def _has_room_for(self, group: Group, member_id: str) -> bool:
        """While members join, those who have joined count: the last to come finds no room."""
        max_size = self._desk.config.max_size
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                is_parked = member is not None and member.parked_join is not None
                return is_parked or group.parked_join_count < max_size
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in group.members or len(group.members) < max_size
            case _:
                assert_never(group.state)

    def _join_as_new(self, group: Group, request: JoinGroup) -> None:
        name = request.client_id if request.group_instance_id is None else request.group_instance_id
        new_member_id = f"{name}-{self._desk.new_uuid()}"
        if len(new_member_id.encode()) > LONGEST_STRING_BYTES:
            # No record could hold such a member.
            self._refuse(request, ErrorCode.unknown_server_error)
            return
        if request.group_instance_id is not None:
            old_member_id = group.static_members.get(request.group_instance_id)
            if old_member_id is not None:
                self._static_members.replace(
                    group, group.members[old_member_id], new_member_id, request
                )
                return
            self._say_created(group, request, new_member_id, "and add to the group")
            self._add(group, request, new_member_id)
        elif request.requires_known_member_id:
            self._say_created(
                group, request, new_member_id, "and request the member to rejoin with this id"
            )
            self._give_out(group, new_member_id, request.session_timeout_ms)
            self._refuse(request, ErrorCode.member_id_required, new_member_id)
        else:
            self._say_created(group, request, new_member_id, "for this member and add to the group")
            self._add(group, request, new_member_id)

    def _say_created(self, group: Group, request: JoinGroup, member_id: str, what: str) -> None:
        instance = request.group_instance_id
        who = (
            "Dynamic member with unknown member id"
            if instance is None
            else f"Static member with groupInstanceId={instance} and unknown member id"
        )
        self._desk.say(
            Level.INFO,
            f"{who} joins group {group.group_id} in {group.state.label} state. Created a new"
            f" member id {member_id} {what}.",
        )

    def _give_out(self, group: Group, member_id: str, timeout_ms: int) -> None:
        if len(group.pending_members) >= MAX_PENDING_MEMBERS:
            self._sessions.forget(group, next(iter(group.pending_members)))
        group.pending_members[member_id] = None
        self._sessions.begin_pending(group, member_id, timeout_ms)

    def _add(self, group: Group, request: JoinGroup, member_id: str) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            request.protocols,
        )
        member.is_new = True
        if group.is_rebalancing and group.generation_id == 0:
            group.is_new_member_added = True
        group.add(member)
        group.park_join(member, request.request_id)
        self._sessions.renew(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.prepare_if_possible(
            group,
            f"Adding new member {member_id} with group instance id"
            f" {_option(request.group_instance_id)}; client reason: {_reason(request.reason)}",
        )

    def _join_as_known(self, group: Group, request: JoinGroup) -> None:
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                # No id is pending for a static member, so nobody can have been given this one.
                self._refuse(request, ErrorCode.unknown_server_error)
                return
            self._add(group, request, member_id)
            return
        error = self.error_of_member(group, member_id, request.group_instance_id, "join-group")
        if error is not None:
            self._refuse(request, error, member_id)
            return
        member, state = group.members[member_id], group.state
        is_leader, is_same = member_id == group.leader_id, member.protocols == request.protocols
        reason = f"client reason: {_reason(request.reason)}"
        match state:
            case GroupState.PREPARING_REBALANCE:
                why = f"Member {member_id} joining group during {state.label}; {reason}"
            case GroupState.STABLE if is_leader:
                # What it knows may have changed without a change of its metadata: new partitions.
                why = f"Leader {member_id} re-joining group during {state.label}; {reason}"
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE if not is_same:
                why = f"Updating metadata for member {member_id} during {state.label}; {reason}"
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                # It has not got the answer to its last JoinGroup: the same once more.
                self._desk.answer(request.request_id, self._rebalance.join_result(group, member))
                return
            case GroupState.EMPTY | GroupState.DEAD:
                self._refuse(request, ErrorCode.unknown_member_id, member_id)
                return
            case _:
                assert_never(state)
        self._join_again(group, member, request)
        self._rebalance.prepare_if_possible(group, why)

    def _join_again(self, group: Group, member: Member, request: JoinGroup) -> None:
        # The client has given up the request that is parked, else there would be no second one.
        superseded = JoinResult(ErrorCode.rebalance_in_progress, member.member_id)
        self._sessions.answer_join(group, member, superseded)
        group.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )
        group.park_join(member, request.request_id)

    # ------------------------------------------------------------------ who is who

    def error_of_member(
        self, group: Group, member_id: str, group_instance_id: str | None, operation: str
    ) -> ErrorCode | None:
        """Why this is no member of the group; None if it is one.

        An instance id must belong to the member id; an old id of the instance is fenced.
        """
        if group_instance_id is not None:
            current = group.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != member_id:
                self._desk.say(
                    Level.INFO,
                    f"Request memberId={member_id} for static member with"
                    f" groupInstanceId={group_instance_id} is fenced by current memberId={current}"
                    f" during operation {operation}",
                )
                return ErrorCode.fenced_instance_id
        return None if member_id in group.members else ErrorCode.unknown_member_id

    # ------------------------------------------------------------------ staying

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """Renews the session; says whether there is a rebalance to join."""
        group = self._desk.groups.get(request.group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        error = self.error_of_member(
            group, request.member_id, request.group_instance_id, "heartbeat"
        )
        if error is not None:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        self._sessions.renew(group, group.members[request.member_id])
        return ErrorCode.rebalance_in_progress if group.is_rebalancing else ErrorCode.none

    def sync(self, request: SyncGroup) -> None:
        """Sees whether the member belongs to the generation it names; the rest is rebalancing."""
        group = self._desk.groups.get(request.group_id)
        error: ErrorCode | None = ErrorCode.unknown_member_id
        if group is not None:
            error = self._sync_error(group, request)
            if error is None:
                self._rebalance.sync(group, request)
                return
        assert error is not None
        self._desk.answer(request.request_id, SyncResult(error))

    def _sync_error(self, group: Group, request: SyncGroup) -> ErrorCode | None:
        error = self.error_of_member(
            group, request.member_id, request.group_instance_id, "sync-group"
        )
        if error is not None:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        # Before version 5 a member does not say which protocol it thinks was chosen.
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.inconsistent_group_protocol
        if request.protocol_name not in (None, group.protocol_name):
            return ErrorCode.inconsistent_group_protocol
        return None

    def session_is_over(self, group: Group, member_id: str) -> None:
        """Nothing was heard of a member, or nobody came back with an id."""
        if member_id in group.pending_members:
            self._desk.say(
                Level.INFO,
                f"Pending member {member_id} in group {group.group_id} has been removed after"
                " session timeout expiration.",
            )
            self._forget(group, member_id)
            self._rebalance.check_join(group)
            return
        member = group.members[member_id]
        if member.is_exempt_from_heartbeats:
            return  # The session runs again when the request that is parked has been answered.
        self._desk.say(
            Level.INFO,
            f"Member {member_id} in group {group.group_id} has failed, removing it from the group",
        )
        self._remove(group, member, f"removing member {member_id} on heartbeat expiration")

    # ------------------------------------------------------------------ leaving

    def leave(self, request: LeaveGroup) -> LeaveResult:
        """Removes these members at once, one after the other; an outcome for each."""
        group = self._desk.groups.get(request.group_id)
        return LeaveResult(
            ErrorCode.none,
            tuple(
                LeftMember(
                    leaving.member_id,
                    leaving.group_instance_id,
                    ErrorCode.unknown_member_id if group is None else self._leave(group, leaving),
                )
                for leaving in request.members
            ),
        )

    def _leave(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id, instance = leaving.member_id, leaving.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An administrator knows the instance and not the id.
            current = None if instance is None else group.static_members.get(instance)
            if current is None:
                return ErrorCode.unknown_member_id
            member_id = current
        elif member_id in group.pending_members:
            self._forget(group, member_id)
            self._rebalance.check_join(group)
            self._desk.say(
                Level.INFO,
                f"Pending member with memberId={member_id} has left group {group.group_id} through"
                " explicit `LeaveGroup` request",
            )
            return ErrorCode.none
        else:
            error = self.error_of_member(group, member_id, instance, "leave-group")
            if error is not None:
                return error
        member = group.members[member_id]
        reason = _reason(leaving.reason)
        self._remove(
            group, member, f"Removing member {member_id} on LeaveGroup; client reason: {reason}"
        )
        self._desk.say(
            Level.INFO,
            f"Member {member} has left group {group.group_id} through explicit `LeaveGroup`;"
            f" client reason: {reason}",
        )
        return ErrorCode.none

    def _remove(self, group: Group, member: Member, reason: str) -> None:
        self._sessions.drop(group, member)
        if group.is_rebalancing:
            self._rebalance.check_join(group)
        else:
            self._rebalance.prepare_if_possible(group, reason)

    def _forget(self, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is None:
            self._sessions.forget(group, member_id)
        else:
            self._sessions.drop(group, member)


def _reason(reason: str | None) -> str:
    return "not provided" if reason is None else reason


def _option(value: str | None) -> str:
    return "None" if value is None else f"Some({value})"
