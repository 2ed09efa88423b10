"""A consumer group: its state, its generation, its members.

::

    Empty ⇄ PreparingRebalance ⇄ CompletingRebalance → Stable → PreparingRebalance …
                                                        any of them → Dead

* **Empty**: the group has no members; it may have offsets.  Consumers that use Kafka only to store
  offsets also have an Empty group.
* **PreparingRebalance**: members must join again; their JoinGroup requests are parked.
* **CompletingRebalance**: all members have joined and know the generation.  Their SyncGroup
  requests are parked until the leader's assignment is in the log.
* **Stable**: every member can get its assignment.
* **Dead**: the group was removed, or its partition unloaded; only callbacks of earlier requests
  still use the object.

A request that waits is *parked* on its member by its id: at most one JoinGroup and one SyncGroup
at a time.  Members have the order in which they joined, and a static member that rejoined is last;
Kafka has the order of a hash table.

Source: Kafka ``GroupMetadata``, ``GroupState``.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

from kafka_common.errors import IllegalState
from replica_manager.coordinators.groups.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from replica_manager.coordinators.groups.member import Member, size_of
from replica_manager.coordinators.groups.offset_table import OffsetTable
from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt
from replica_manager.coordinators.groups.records import NO_TIMESTAMP, GroupRecord, MemberRecord
from replica_manager.coordinators.groups.requests import (
    DescribedMember,
    JoinedMember,
    Protocol,
)


class GroupState(Enum):
    """The states of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def label(self) -> str:
        return self.value


VALID_PREVIOUS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
"""Legal transitions: for each state, the states from which a group may enter it."""


class MemberBytes:
    """The approximate memory of the members of all groups: ``total``, in bytes."""

    def __init__(self) -> None:
        self.total = 0


class GroupMetadata:
    """One group.  A new one is Empty, in generation 0, without a protocol type."""

    def __init__(self, group_id: str, now_ms: int, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.state_timestamp_ms: int | None = now_ms
        """When the group entered its state; None if it was loaded from a record without time."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """The member ids of static members, by group instance id."""
        self.pending_members: dict[str, None] = {}
        """Member ids that were sent to clients and are not used yet; the oldest first (KIP-394)."""
        self.pending_sync_members: dict[str, None] = {}
        """Ids of members that have not sent SyncGroup in this generation."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that members consume; None if unknown, so that any topic may be consumed."""
        self.offsets = OffsetTable()
        self.parked_join_count = 0
        self.is_new_member_added = False
        """Whether a member joined during the initial delay, which is then extended."""
        self.initial_delay_ms: int | None = None
        """The current initial rebalance delay; None if the rebalance has none."""
        self.initial_delay_left_ms = 0
        """How much longer the initial delay may be extended after ``initial_delay_ms``."""
        self.stored_generation_id: int | None = None
        """The last generation whose assignment was sent to the log; None if there is none."""
        self.member_bytes = 0
        """The approximate memory of the members."""
        self.counted_in: MemberBytes | None = None
        """The total that includes ``member_bytes``; None if the coordinator lacks the group."""
        self._supporters: Counter[str] = Counter()
        """The number of members that support a protocol, by protocol name."""

    # ------------------------------------------------------------------ state

    def transition_to(self, target: GroupState, now_ms: int) -> None:
        """Changes the group's state; IllegalState if the transition is not allowed."""
        if self.state not in VALID_PREVIOUS[target]:
            raise IllegalState(
                f"Group {self.group_id} cannot become {target.label}: it is {self.state.label}"
            )
        self.state = target
        self.state_timestamp_ms = now_ms

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_rebalancing(self) -> bool:
        """Whether members must join again."""
        return self.state is GroupState.PREPARING_REBALANCE

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.parked_join_count and not self.pending_members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may consume the topic."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def begin_generation(self, now_ms: int) -> None:
        """Begins a generation after all members joined; without members the group is Empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.pending_sync_members = dict.fromkeys(self.members)
        self.transition_to(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms
        )

    # ------------------------------------------------------------------ members

    def add(self, member: Member) -> None:
        """Adds a member; the first one is the leader and sets the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.protocol_type != member.protocol_type:
            raise IllegalState(
                f"Member {member.member_id} is of protocol type {member.protocol_type}, group"
                f" {self.group_id} of {self.protocol_type}"
            )
        if member.group_instance_id is not None:
            if member.group_instance_id in self.static_members:
                raise IllegalState(
                    f"Group {self.group_id} has a member of instance {member.group_instance_id}"
                )
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update({protocol.name for protocol in member.protocols})
        self._count(member.size_bytes)
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Removes a member or a pending id, which must have no parked request."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.parked_join is None
            assert member.parked_sync is None
            self._forget_protocols(member)
            self._count(-member.size_bytes)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync_members.pop(member_id, None)

    def replace_static_member(self, member: Member, new_member_id: str) -> None:
        """Changes the member id of a static member that rejoined, which makes it the last one."""
        assert member.group_instance_id is not None
        del self.members[member.member_id]
        self._count(len(new_member_id) - len(member.member_id))
        if self.leader_id == member.member_id:
            self.leader_id = new_member_id
        if member.member_id in self.pending_sync_members:
            del self.pending_sync_members[member.member_id]
            self.pending_sync_members[new_member_id] = None
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[member.group_instance_id] = new_member_id

    def update(
        self,
        member: Member,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Updates the protocols and timeouts of a member that joins again."""
        self._forget_protocols(member)
        self._count(size_of(protocols) - size_of(member.protocols))
        member.protocols = protocols
        self._supporters.update({protocol.name for protocol in protocols})
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, request_id: int) -> None:
        assert member.parked_join is None
        member.parked_join = request_id
        self.parked_join_count += 1

    def unpark_join(self, member: Member) -> int | None:
        """Removes and returns the request id of the parked JoinGroup; None if there is none.

        The caller must send the response.
        """
        request_id, member.parked_join = member.parked_join, None
        if request_id is not None:
            self.parked_join_count -= 1
        return request_id

    def elect_joined_leader(self) -> bool:
        """Makes sure that the group's leader has joined again; False if no member has joined.

        If the current leader has not joined, the first member that has becomes the leader.
        """
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].parked_join is None:
            joined = (each for each in self.members.values() if each.parked_join is not None)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader_id = leader.member_id
        return True

    # ------------------------------------------------------------------ protocols

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member with these protocols can join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters[protocol.name] == len(self.members) for protocol in protocols
        )

    def _count(self, more_bytes: int) -> None:
        self.member_bytes += more_bytes
        if self.counted_in is not None:
            self.counted_in.total += more_bytes

    def _forget_protocols(self, member: Member) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def select_protocol(self) -> str:
        """The protocol that all members support and most members prefer.

        In a tie it is the one that got a vote first.
        """
        count = len(self.members)
        candidates = frozenset(name for name, known in self._supporters.items() if known == count)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None if unknown or not a consumer group."""
        if not self.is_consumer_group:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    # ------------------------------------------------------------------ views

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """All members, for the group's leader."""
        assert self.protocol_name is not None
        name = self.protocol_name
        return tuple(
            JoinedMember(each.member_id, each.group_instance_id, each.metadata(name))
            for each in self.members.values()
        )

    def described_members(self) -> tuple[DescribedMember, ...]:
        """All members, for DescribeGroups."""
        name = self.protocol_name if self.state is GroupState.STABLE else None
        return tuple(
            DescribedMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                b"" if name is None else each.metadata(name),
                b"" if name is None else each.assignment,
            )
            for each in self.members.values()
        )

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        """The group's record for the log; ``assignments`` holds one per member id."""
        assert self.protocol_name is not None or not self.members
        timestamp = self.state_timestamp_ms
        name = self.protocol_name or ""
        return GroupRecord(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader_id,
            NO_TIMESTAMP if timestamp is None else timestamp,
            tuple(
                MemberRecord(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.rebalance_timeout_ms,
                    each.session_timeout_ms,
                    each.metadata(name),
                    assignments[each.member_id],
                )
                for each in self.members.values()
            ),
        )


def group_of(group_id: str, record: GroupRecord, now_ms: int) -> GroupMetadata:
    """The group that a record describes: Stable if it has members, else Empty.

    The record contains only the chosen protocol, so loaded members support no other.
    GroupRecordCorrupt if two members have the same id or instance id, or the protocol is missing.
    """
    instances = [each.group_instance_id for each in record.members if each.group_instance_id]
    if len({each.member_id for each in record.members}) < len(record.members):
        raise GroupRecordCorrupt(f"two members of group {group_id} have one id")
    if len(set(instances)) < len(instances):
        raise GroupRecordCorrupt(f"two members of group {group_id} are one instance")
    if record.members and record.protocol_name is None:
        raise GroupRecordCorrupt(f"group {group_id} has members and no protocol")
    group = GroupMetadata(
        group_id, now_ms, GroupState.STABLE if record.members else GroupState.EMPTY
    )
    group.generation_id = record.generation_id
    group.protocol_type = record.protocol_type or None
    group.protocol_name = record.protocol_name
    timestamp = record.state_timestamp_ms
    group.state_timestamp_ms = None if timestamp == NO_TIMESTAMP else timestamp
    for each in record.members:
        protocols = (Protocol(record.protocol_name or "", each.subscription),)
        group.add(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                record.protocol_type,
                protocols,
                each.assignment,
            )
        )
    if record.leader_id in group.members:
        group.leader_id = record.leader_id
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
