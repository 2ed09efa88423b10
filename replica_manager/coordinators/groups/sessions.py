"""Sessions of members: renews them, and responds to parked requests when a member is removed.

A member with a parked request cannot send heartbeats, so its session is paused.  The session of a
*new* member, which does not know its id yet, ends after NEW_MEMBER_JOIN_TIMEOUT_MS even so:
otherwise the parked JoinGroup of a client that has given up would stay for ever.

When a member is removed, its parked requests get a response.

Source: Kafka ``GroupCoordinator.completeAndScheduleNextExpiration``, ``DelayedHeartbeat``.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.group import GroupMetadata
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.member import Member
from replica_manager.coordinators.groups.requests import JoinResult, SyncResult
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind


class Sessions:
    """The sessions of all members: one timer each."""

    def __init__(self, manager: GroupMetadataManager) -> None:
        self._manager = manager

    def renew(self, group: GroupMetadata, member: Member, timeout_ms: int | None = None) -> None:
        """Restarts the member's session; pauses it if the member has a parked request.

        ``timeout_ms`` replaces the member's session timeout.
        """
        timer = GroupTimer(TimerKind.SESSION, group.group_id, member.member_id)
        if member.is_exempt_from_heartbeats:
            self._manager.timers.cancel(timer)
            return
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._manager.timers.set(timer, self._manager.now_ms + timeout_ms)

    def begin_pending(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        """Starts the time in which a client must join with its pending member id."""
        timer = GroupTimer(TimerKind.SESSION, group.group_id, member_id)
        self._manager.timers.set(timer, self._manager.now_ms + timeout_ms)

    def drop(self, group: GroupMetadata, member: Member) -> None:
        """Removes a member; its parked requests get UNKNOWN_MEMBER_ID, so that it joins again."""
        self.respond_to_join(group, member, JoinResult(ErrorCode.unknown_member_id))
        self.respond_to_sync(group, member, SyncResult(ErrorCode.unknown_member_id))
        self.forget(group, member.member_id)

    def forget(self, group: GroupMetadata, member_id: str) -> None:
        """Removes a member without parked requests, or a pending member id."""
        group.remove(member_id)
        self._manager.timers.cancel(GroupTimer(TimerKind.SESSION, group.group_id, member_id))

    def respond_to_join(self, group: GroupMetadata, member: Member, result: JoinResult) -> None:
        """Sends the response to the parked JoinGroup, if there is one, and restarts the session."""
        request_id = group.unpark_join(member)
        if request_id is not None:
            self._manager.respond(request_id, result)
            self.renew(group, member)

    def respond_to_sync(self, group: GroupMetadata, member: Member, result: SyncResult) -> None:
        """Sends the response to the parked SyncGroup, if there is one, and restarts the session."""
        request_id, member.parked_sync = member.parked_sync, None
        if request_id is not None:
            self._manager.respond(request_id, result)
            self.renew(group, member)
