"""JoinGroup: new members, known members, and clients with a pending member id.

From JoinGroup version 4 on a new dynamic member first gets a member id and must join again with it
(KIP-394).  Until then the id is *pending*.  So a client that never receives the response leaves no
member in the group.  A static member that rejoins without an id replaces its earlier member id
(:mod:`.static_members`).

Source: Kafka ``GroupCoordinator.handleJoinGroup``.
"""

from __future__ import annotations

from typing import assert_never

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.config import (
    MAX_PENDING_MEMBER_CHARACTERS,
    MAX_PENDING_MEMBERS,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
)
from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.member import Member, size_of
from replica_manager.coordinators.groups.membership import GroupMembership
from replica_manager.coordinators.groups.rebalance import Rebalance
from replica_manager.coordinators.groups.records import LONGEST_STRING_BYTES
from replica_manager.coordinators.groups.requests import (
    UNKNOWN_MEMBER_ID,
    JoinGroup,
    JoinResult,
    given_reason,
)
from replica_manager.coordinators.groups.sessions import Sessions
from replica_manager.coordinators.groups.static_members import StaticMembers


class Joining:
    """Handles JoinGroup requests."""

    def __init__(
        self,
        manager: GroupMetadataManager,
        sessions: Sessions,
        rebalance: Rebalance,
        membership: GroupMembership,
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._rebalance = rebalance
        self._membership = membership
        self._static_members = StaticMembers(manager, sessions, rebalance)

    def join(self, request: JoinGroup) -> None:
        """Adds the member and parks its request until all have joined, or sends an error.

        A member with unchanged metadata gets its last response again, except in PreparingRebalance
        or if it leads a Stable group.
        """
        manager, config = self._manager, self._manager.config
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        timeout_ms = request.session_timeout_ms
        if not config.min_session_timeout_ms <= timeout_ms <= config.max_session_timeout_ms:
            self._refuse(request, ErrorCode.invalid_session_timeout, request.member_id)
            return
        group = manager.groups.get(request.group_id)
        if group is None:
            if not is_unknown:
                self._refuse(request, ErrorCode.unknown_member_id, request.member_id)
                return
            group = manager.create_group(request.group_id)
            if group is None:
                self._refuse(request, ErrorCode.coordinator_not_available)
                return
        if not self._has_memory_for(group, request):
            # A known member stays in the group until its session ends.
            self._refuse(request, ErrorCode.group_max_size_reached)
        elif not self._has_room_for(group, request.member_id):
            member = group.members.get(request.member_id)
            if member is not None:
                self._sessions.drop(group, member)
            else:
                self._sessions.forget(group, request.member_id)
            self._refuse(request, ErrorCode.group_max_size_reached)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(request, ErrorCode.inconsistent_group_protocol, request.member_id)
        elif is_unknown:
            self._join_as_new(group, request)
        else:
            self._join_as_known(group, request)
        self._rebalance.check_join(group)

    def _refuse(
        self, request: JoinGroup, error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID
    ) -> None:
        self._manager.respond(request.request_id, JoinResult(error, member_id))

    def _has_memory_for(self, group: GroupMetadata, request: JoinGroup) -> bool:
        config, size = self._manager.config, size_of(request.protocols)
        known = group.members.get(request.member_id)
        more = size - (0 if known is None else size_of(known.protocols))
        return (
            size <= config.max_member_bytes
            and group.member_bytes + more <= config.max_group_bytes
            and self._manager.member_bytes.total + more <= config.max_members_bytes
        )

    def _has_room_for(self, group: GroupMetadata, member_id: str) -> bool:
        """Whether ``group.max.size`` allows the member; in PreparingRebalance joined members count.

        In other states all members count.
        """
        max_size = self._manager.config.max_size
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

    def _join_as_new(self, group: GroupMetadata, request: JoinGroup) -> None:
        name = request.client_id if request.group_instance_id is None else request.group_instance_id
        new_member_id = f"{name}-{self._manager.new_uuid()}"
        if len(new_member_id.encode()) > LONGEST_STRING_BYTES:
            # The id would be too long for a string in a record.
            self._refuse(request, ErrorCode.unknown_server_error)
            return
        if request.group_instance_id is not None:
            old_member_id = group.static_members.get(request.group_instance_id)
            if old_member_id is not None:
                self._static_members.replace(
                    group, group.members[old_member_id], new_member_id, request
                )
                return
            self._say_created(group, request, new_member_id, "for this member and add to the group")
            self._add(group, request, new_member_id)
        elif request.requires_known_member_id:
            self._say_created(
                group, request, new_member_id, "and request the member to rejoin with this id"
            )
            self._add_pending(group, new_member_id, request.session_timeout_ms)
            self._refuse(request, ErrorCode.member_id_required, new_member_id)
        else:
            self._say_created(group, request, new_member_id, "for this member and add to the group")
            self._add(group, request, new_member_id)

    def _say_created(
        self, group: GroupMetadata, request: JoinGroup, member_id: str, what: str
    ) -> None:
        instance = request.group_instance_id
        who = f"Static member with groupInstanceId={instance} and unknown member id"
        if instance is None:
            # Kafka has two sentences.
            kind = "member" if request.requires_known_member_id else "Member"
            who = f"Dynamic {kind} with unknown member id"
        self._manager.say(
            Level.INFO,
            f"{who} joins group {group.group_id} in {group.state.label} state. Created a new"
            f" member id {member_id} {what}.",
        )

    def _add_pending(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        pending, size = group.pending_members, len(member_id)
        while pending and (
            len(pending) >= MAX_PENDING_MEMBERS
            or sum(map(len, pending)) + size > MAX_PENDING_MEMBER_CHARACTERS
        ):
            self._sessions.forget(group, next(iter(pending)))
        group.pending_members[member_id] = None
        self._sessions.begin_pending(group, member_id, timeout_ms)

    def _add(self, group: GroupMetadata, request: JoinGroup, member_id: str) -> None:
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
            f" {_option(request.group_instance_id)}; client reason: {given_reason(request.reason)}",
        )

    def _join_as_known(self, group: GroupMetadata, request: JoinGroup) -> None:
        member_id = request.member_id
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                # A static member never has a pending id, so the client uses a wrong id.
                self._refuse(request, ErrorCode.unknown_server_error)
                return
            self._add(group, request, member_id)
            return
        error = self._membership.error_of_member(
            group, member_id, request.group_instance_id, "join-group"
        )
        if error is not None:
            self._refuse(request, error, member_id)
            return
        member, state = group.members[member_id], group.state
        is_leader, is_same = member_id == group.leader_id, member.protocols == request.protocols
        reason = f"client reason: {given_reason(request.reason)}"
        match state:
            case GroupState.PREPARING_REBALANCE:
                why = f"Member {member_id} joining group during {state.label}; {reason}"
            case GroupState.STABLE if is_leader:
                # The leader may have found new partitions, which its metadata does not show.
                why = f"Leader {member_id} re-joining group during {state.label}; {reason}"
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE if not is_same:
                why = f"Updating metadata for member {member_id} during {state.label}; {reason}"
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                # The member did not receive its last JoinGroup response: send the same again.
                self._manager.respond(
                    request.request_id, self._rebalance.join_result(group, member)
                )
                return
            case GroupState.EMPTY | GroupState.DEAD:
                self._refuse(request, ErrorCode.unknown_member_id, member_id)
                return
            case _:
                assert_never(state)
        self._join_again(group, member, request)
        self._rebalance.prepare_if_possible(group, why)

    def _join_again(self, group: GroupMetadata, member: Member, request: JoinGroup) -> None:
        # The client sent a second JoinGroup, so it no longer waits for the parked one.
        superseded = JoinResult(ErrorCode.rebalance_in_progress, member.member_id)
        self._sessions.respond_to_join(group, member, superseded)
        group.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )
        group.park_join(member, request.request_id)


def _option(value: str | None) -> str:
    return "None" if value is None else f"Some({value})"
