"""The rebalance: all members join, the leader assigns, all members get the assignment.

1. *prepare*: parked SyncGroup requests get REBALANCE_IN_PROGRESS; JoinGroup requests are parked.
2. *join is complete* when all members have joined, or when the longest rebalance timeout of the
   members is over.  Dynamic members that have not joined are removed; static members stay until
   their sessions end.  A group that was Empty waits ``group.initial.rebalance.delay.ms`` instead.
   It waits again while new members join, so that all members of a starting application are in one
   generation.
3. All members get the new generation; the leader also gets the list of members.
4. *sync*: SyncGroup requests are parked until the leader's assignment is in the log.  Members that
   send none within the rebalance timeout are removed, and a new rebalance begins.

Source: Kafka ``GroupCoordinator``, ``DelayedJoin``, ``InitialDelayedJoin``, ``DelayedSync``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Level, Quantity
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import (
    OFFSETS_TOPIC,
    GroupMetadataManager,
)
from replica_manager.coordinators.groups.member import Member
from replica_manager.coordinators.groups.requests import JoinResult, SyncGroup, SyncResult
from replica_manager.coordinators.groups.sessions import Sessions
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind
from zkcontroller.state_changes.kafka_values import option


class Rebalance:
    """Takes groups from one generation to the next."""

    def __init__(self, manager: GroupMetadataManager, sessions: Sessions) -> None:
        self._manager = manager
        self._sessions = sessions

    # ------------------------------------------------------------------ joining

    def prepare_if_possible(self, group: GroupMetadata, reason: str) -> None:
        """Begins a rebalance, unless the group already waits for members or is Dead."""
        if group.can_rebalance:
            self.prepare(group, reason)

    def prepare(self, group: GroupMetadata, reason: str) -> None:
        """Begins a rebalance: all members must join again."""
        manager = self._manager
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._propagate_error(group, ErrorCode.rebalance_in_progress)
        self._stop_waiting_for_sync(group)
        is_first = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, manager.now_ms)
        manager.say(
            Level.INFO,
            f"Preparing to rebalance group {group.group_id} in state {group.state.label} with old"
            f" generation {group.generation_id} ({self._partition_of(group)}) (reason: {reason})",
        )
        if is_first:
            delay = manager.config.initial_rebalance_delay_ms
            group.initial_delay_ms = delay
            group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay, 0)
            manager.timers.set(GroupTimer(TimerKind.JOIN, group.group_id), manager.now_ms + delay)
        elif group.has_all_members_joined:
            self._complete_join(group)
        else:
            self._wait_for_members(group)

    def check_join(self, group: GroupMetadata) -> None:
        """Completes the join if all members have joined, except during the initial delay."""
        if group.is_rebalancing and group.initial_delay_ms is None and group.has_all_members_joined:
            self._complete_join(group)

    def join_time_is_over(self, group: GroupMetadata) -> None:
        """Completes the join at its timeout, unless the initial delay is extended."""
        if group.initial_delay_ms is None:
            self._complete_join(group)
            return
        left = group.initial_delay_left_ms
        if group.is_new_member_added and left:
            group.is_new_member_added = False
            group.initial_delay_left_ms = max(left - group.initial_delay_ms, 0)
            group.initial_delay_ms = min(self._manager.config.initial_rebalance_delay_ms, left)
            deadline = self._manager.now_ms + group.initial_delay_ms
            self._manager.timers.set(GroupTimer(TimerKind.JOIN, group.group_id), deadline)
            return
        group.initial_delay_ms = None
        self._complete_join(group)

    def _wait_for_members(self, group: GroupMetadata) -> None:
        deadline = self._manager.now_ms + group.rebalance_timeout_ms
        self._manager.timers.set(GroupTimer(TimerKind.JOIN, group.group_id), deadline)

    def _complete_join(self, group: GroupMetadata) -> None:
        manager = self._manager
        missing = [
            member
            for member in group.members.values()
            if member.parked_join is None and not member.is_static
        ]
        if missing:
            names = ", ".join(member.member_id for member in missing)
            manager.say(
                Level.INFO,
                f"Group {group.group_id} removed dynamic members who haven't joined: Set({names})",
            )
        for member in missing:
            self._sessions.drop(group, member)
        if not self._elect_joined_leader(group) and group.members:
            # Only static members are left, and none has joined: wait until they join or their
            # sessions end.
            manager.say(
                Level.ERROR,
                f"Group {group.group_id} could not complete rebalance because no members rejoined",
            )
            self._wait_for_members(group)
            return
        manager.timers.cancel(GroupTimer(TimerKind.JOIN, group.group_id))
        group.begin_generation(manager.now_ms)
        if group.members:
            self._announce_generation(group)
        else:
            self._become_empty(group)

    def _elect_joined_leader(self, group: GroupMetadata) -> bool:
        before = None if group.leader_id is None else group.members[group.leader_id]
        has_leader = group.elect_joined_leader()
        if before is not None and before.parked_join is None:
            then = (
                f"while new leader {group.members[group.leader_id or '']} was elected"
                if has_leader
                # Kafka's sentence lacks the blank, too.
                else "and the group couldn't proceed to next generationbecause no member joined"
            )
            self._manager.say_of_group(
                f"Group leader [member.id: {before.member_id}, group.instance.id:"
                f" {option(before.group_instance_id)}] failed to join before rebalance timeout,"
                f" {then}."
            )
        return has_leader

    def _announce_generation(self, group: GroupMetadata) -> None:
        manager = self._manager
        manager.say(
            Level.INFO,
            f"Stabilized group {group.group_id} generation {group.generation_id}"
            f" ({self._partition_of(group)}) with {len(group.members)} members",
        )
        for member in group.members.values():
            request_id = group.unpark_join(member)
            if request_id is not None:
                manager.respond(request_id, self.join_result(group, member))
            member.is_new = False
            self._sessions.renew(group, member)
        deadline = manager.now_ms + group.rebalance_timeout_ms
        manager.timers.set(GroupTimer(TimerKind.SYNC, group.group_id), deadline)

    def _become_empty(self, group: GroupMetadata) -> None:
        manager = self._manager
        manager.say(
            Level.INFO,
            f"Group {group.group_id} with generation {group.generation_id} is now empty"
            f" ({self._partition_of(group)})",
        )

        def when_stored(error: ErrorCode) -> None:
            # If the write failed and this broker fails too, the next coordinator loads the last
            # generation.  The sessions of its members end, and the group is Empty again.
            if error is not ErrorCode.none:
                manager.say(
                    Level.WARN,
                    f"Failed to write empty metadata for group {group.group_id}:"
                    f" {error.name.upper()}",
                )

        manager.store_group(group, {}, when_stored)

    def join_result(self, group: GroupMetadata, member: Member) -> JoinResult:
        """The JoinGroup result of a member of the current generation."""
        assert group.leader_id is not None
        is_leader = group.leader_id == member.member_id
        return JoinResult(
            ErrorCode.none,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            group.joined_members() if is_leader else (),
        )

    # ------------------------------------------------------------------ SyncGroup

    def sync(self, group: GroupMetadata, request: SyncGroup) -> None:
        """Handles a SyncGroup request of a member in the current generation.

        In CompletingRebalance it is parked, and the leader's request stores the assignments.
        """
        member = group.members[request.member_id]
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                result = SyncResult(ErrorCode.unknown_member_id)
            case GroupState.PREPARING_REBALANCE:
                result = SyncResult(ErrorCode.rebalance_in_progress)
            case GroupState.COMPLETING_REBALANCE:
                self._park_sync(group, member, request)
                return
            case GroupState.STABLE:
                self._has_synchronised(group, member)
                result = SyncResult(
                    ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment
                )
                self._sessions.renew(group, member)
            case _:
                assert_never(group.state)
        self._manager.respond(request.request_id, result)

    def _park_sync(self, group: GroupMetadata, member: Member, request: SyncGroup) -> None:
        self._sessions.respond_to_sync(group, member, SyncResult(ErrorCode.rebalance_in_progress))
        member.parked_sync = request.request_id
        self._has_synchronised(group, member)
        is_stored = group.stored_generation_id == group.generation_id
        if member.member_id == group.leader_id and not is_stored:
            self._store_assignments(group, member, request.assignments or {})

    def _store_assignments(
        self, group: GroupMetadata, leader: Member, given: Mapping[str, bytes]
    ) -> None:
        manager, leader_id, generation_id = self._manager, leader.member_id, group.generation_id
        manager.say(
            Level.INFO,
            f"Assignment received from leader {leader_id} for group {group.group_id} for"
            f" generation {generation_id}. The group has {len(group.members)} members,"
            f" {len(group.static_members)} of which are static.",
        )
        missing = [member_id for member_id in group.members if member_id not in given]
        if missing:
            manager.say(
                Level.WARN,
                f"Setting empty assignments for members Set({', '.join(missing)}) of"
                f" {group.group_id} for generation {generation_id}",
            )
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def when_stored(error: ErrorCode) -> None:
            # A new rebalance may have begun during the write.
            is_same = group.generation_id == generation_id
            if not is_same or group.state is not GroupState.COMPLETING_REBALANCE:
                return
            if error is ErrorCode.none:
                self._propagate(group, assignments)
                group.transition_to(GroupState.STABLE, manager.now_ms)
            else:
                self._propagate_error(group, error)
                self.prepare_if_possible(
                    group,
                    f"Error {error.name.upper()} when storing group assignment during SyncGroup"
                    f" (member: {leader_id})",
                )

        group.stored_generation_id = generation_id
        manager.store_group(group, assignments, when_stored)
        manager.measure(Quantity.COMPLETED_REBALANCES, 1)

    def _propagate(self, group: GroupMetadata, assignments: dict[str, bytes]) -> None:
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
            if not member.assignment:
                self._manager.say(
                    Level.WARN,
                    f"Sending empty assignment to member {member.member_id} of {group.group_id}"
                    f" for generation {group.generation_id} with no errors",
                )
            result = SyncResult(
                ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment
            )
            self._sessions.respond_to_sync(group, member, result)

    def _propagate_error(self, group: GroupMetadata, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._sessions.respond_to_sync(group, member, SyncResult(error))

    def _has_synchronised(self, group: GroupMetadata, member: Member) -> None:
        group.pending_sync_members.pop(member.member_id, None)
        if not group.pending_sync_members:
            self._stop_waiting_for_sync(group)

    def _stop_waiting_for_sync(self, group: GroupMetadata) -> None:
        group.pending_sync_members.clear()
        self._manager.timers.cancel(GroupTimer(TimerKind.SYNC, group.group_id))

    def sync_time_is_over(self, group: GroupMetadata) -> None:
        """Removes members that sent no SyncGroup in time; the others rebalance again."""
        missing = [group.members[member_id] for member_id in group.pending_sync_members]
        assert missing, "the timer is cancelled when the last one has asked"
        for member in missing:
            self._sessions.drop(group, member)
        names = ", ".join(member.member_id for member in missing)
        self._manager.say(
            Level.DEBUG,
            f"Group {group.group_id} removed members who haven't sent their sync request:"
            f" Set({names})",
        )
        self.prepare(group, f"Removing Set({names}) on pending sync request expiration")

    def _partition_of(self, group: GroupMetadata) -> str:
        return f"{OFFSETS_TOPIC}-{self._manager.partition_for(group.group_id)}"
