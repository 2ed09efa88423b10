"""Membership of a group: heartbeats, member ids, leaving.

A *dynamic* member has only a member id; a *static* member also has a ``group.instance.id``
(KIP-345).  A client that uses an old member id of an instance is fenced.  :mod:`.joining` handles
new members.

Source: Kafka ``GroupCoordinator`` (``handleLeaveGroup``, ``handleHeartbeat``,
``validateCurrentMember``).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.groups.group import GroupMetadata
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.member import Member
from replica_manager.coordinators.groups.rebalance import Rebalance
from replica_manager.coordinators.groups.requests import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncResult,
    given_reason,
)
from replica_manager.coordinators.groups.sessions import Sessions


class GroupMembership:
    """Handles heartbeats, SyncGroup checks and LeaveGroup."""

    def __init__(
        self, manager: GroupMetadataManager, sessions: Sessions, rebalance: Rebalance
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._rebalance = rebalance

    # ------------------------------------------------------------------ member ids

    def error_of_member(
        self, group: GroupMetadata, member_id: str, group_instance_id: str | None, operation: str
    ) -> ErrorCode | None:
        """The error if ``member_id`` is not a member of the group; None if it is one.

        FENCED_INSTANCE_ID if the instance now has another member id; ``operation`` is for the log.
        """
        if group_instance_id is not None:
            current = group.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.unknown_member_id
            if current != member_id:
                self._manager.say(
                    Level.INFO,
                    f"Request memberId={member_id} for static member with"
                    f" groupInstanceId={group_instance_id} is fenced by current memberId={current}"
                    f" during operation {operation}",
                )
                return ErrorCode.fenced_instance_id
        return None if member_id in group.members else ErrorCode.unknown_member_id

    # ------------------------------------------------------------------ heartbeats and SyncGroup

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        """Renews the session; REBALANCE_IN_PROGRESS if the member must join again."""
        group = self._manager.groups.get(request.group_id)
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
        """Checks the member and its generation; then :mod:`.rebalance` handles the request."""
        group = self._manager.groups.get(request.group_id)
        error: ErrorCode | None = ErrorCode.unknown_member_id
        if group is not None:
            error = self._sync_error(group, request)
            if error is None:
                self._rebalance.sync(group, request)
                return
        assert error is not None
        self._manager.respond(request.request_id, SyncResult(error))

    def _sync_error(self, group: GroupMetadata, request: SyncGroup) -> ErrorCode | None:
        error = self.error_of_member(
            group, request.member_id, request.group_instance_id, "sync-group"
        )
        if error is not None:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        # Before version 5 a SyncGroup request does not contain the chosen protocol.
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.inconsistent_group_protocol
        if request.protocol_name not in (None, group.protocol_name):
            return ErrorCode.inconsistent_group_protocol
        return None

    def session_is_over(self, group: GroupMetadata, member_id: str) -> None:
        """Removes a member whose session ended, or a pending member id not used in time."""
        if member_id in group.pending_members:
            self._manager.say(
                Level.INFO,
                f"Pending member {member_id} in group {group.group_id} has been removed after"
                " session timeout expiration.",
            )
            self._sessions.forget(group, member_id)
            self._rebalance.check_join(group)
            return
        member = group.members[member_id]
        if member.is_exempt_from_heartbeats:
            return  # The session starts again when the parked request gets its response.
        self._manager.say(
            Level.INFO,
            f"Member {member_id} in group {group.group_id} has failed, removing it from the group",
        )
        self._remove(group, member, f"removing member {member_id} on heartbeat expiration")

    # ------------------------------------------------------------------ leaving

    def leave(self, request: LeaveGroup) -> LeaveResult:
        """Removes members that leave, or that an administrator removes; one result per member."""
        group = self._manager.groups.get(request.group_id)
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

    def _leave(self, group: GroupMetadata, leaving: LeavingMember) -> ErrorCode:
        member_id, instance = leaving.member_id, leaving.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An administrator's request has the instance id, but no member id.
            current = None if instance is None else group.static_members.get(instance)
            if current is None:
                return ErrorCode.unknown_member_id
            member_id = current
        elif member_id in group.pending_members:
            self._sessions.forget(group, member_id)
            self._rebalance.check_join(group)
            self._manager.say(
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
        reason = given_reason(leaving.reason)
        self._remove(
            group, member, f"Removing member {member_id} on LeaveGroup; client reason: {reason}"
        )
        self._manager.say(
            Level.INFO,
            f"Member {member} has left group {group.group_id} through explicit `LeaveGroup`;"
            f" client reason: {reason}",
        )
        return ErrorCode.none

    def _remove(self, group: GroupMetadata, member: Member, reason: str) -> None:
        self._sessions.drop(group, member)
        if group.is_rebalancing:
            self._rebalance.check_join(group)
        else:
            self._rebalance.prepare_if_possible(group, reason)
