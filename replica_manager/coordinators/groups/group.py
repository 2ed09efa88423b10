"""A consumer group: its state, its generation, its members.

::

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance …
                                                        any of them → Dead

* **Empty**: no members; it may have offsets.  Also a group that never had members, of consumers
  that use Kafka for their offsets only.
* **PreparingRebalance**: members must join again; their JoinGroups are parked.
* **CompletingRebalance**: all members have joined and know the generation; members ask for their
  assignment and are parked until the leader has sent it and it stands in the log.
* **Stable**: every member can get its assignment.
* **Dead**: removed, or gone to another coordinator; this object remains only for those who still
  hold it.

A request that waits is *parked* on its member, by its id: at most one JoinGroup and one SyncGroup
at a time.  Members stand in the order in which they came; Kafka's order is that of a hash table.

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
"""Legal transitions: target to the states it may be entered from."""


class MemberBytes:
    """The memory that the members of several groups take."""

    def __init__(self) -> None:
        self.total = 0


class GroupMetadata:
    """One group.  A new one is Empty, in generation 0, without a protocol type."""

    def __init__(self, group_id: str, now_ms: int, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.state = state
        self.state_timestamp_ms: int | None = now_ms
        """When it came into its state; None if an old record did not say."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending_members: dict[str, None] = {}
        """Ids that were given out and not used yet; oldest first."""
        self.pending_sync_members: dict[str, None] = {}
        """Members that have not asked for the assignment of this generation yet."""
        self.subscribed_topics: frozenset[str] | None = None
        """None while it is unknown, which must be taken for everything."""
        self.offsets = OffsetTable()
        self.parked_join_count = 0
        self.is_new_member_added = False
        """Whether a member joined during the initial delay, which then may last longer."""
        self.initial_delay_ms: int | None = None
        """The initial delay that is running; None if the rebalance under way has none."""
        self.initial_delay_left_ms = 0
        """How much longer than that it may last."""
        self.stored_generation_id: int | None = None
        """The generation whose assignment was given to the log."""
        self.member_bytes = 0
        """What its members take in memory."""
        self.counted_in: MemberBytes | None = None
        """The sum to which that belongs; None while the coordinator does not have the group."""
        self._supporters: Counter[str] = Counter()
        """How many members know a protocol."""

    # ------------------------------------------------------------------ state

    def transition_to(self, target: GroupState, now_ms: int) -> None:
        """Moves the group to that state; IllegalState if the transition is not allowed."""
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
        """Whether a member may consume that topic."""
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
        """Gives a static member that came back its new id; all else stays."""
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
        """Updates a member that joins again."""
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
        """Removes and returns the parked JoinGroup, to be answered now; None if there is none."""
        request_id, member.parked_join = member.parked_join, None
        if request_id is not None:
            self.parked_join_count -= 1
        return request_id

    def elect_joined_leader(self) -> bool:
        """Makes a member that has joined the leader; False if there is none."""
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
        """The protocol that all members support and most prefer; in a tie the first with a vote."""
        count = len(self.members)
        candidates = frozenset(name for name, known in self._supporters.items() if known == count)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that consumers subscribe to; None if unknown or not a consumer group."""
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
        """The group's record, with the assignment of every member."""
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
    """The group in a record: Stable with members, Empty without.

    Only the protocol that was chosen is in the record, so a member that is loaded knows no other.
    GroupRecordCorrupt if the members contradict each other.
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
