"""What holds of a group whatever its members, its log and its coordinator do.

Hypothesis makes up the steps: six clients, two of them static, that join, forget who they are,
synchronise, fall silent, leave and commit; a log that is slow or refuses; a partition that moves
away and comes back.  After each step every request is either answered, once, or parked where
something will answer it; every member that could fall silent has a timer; and what was acknowledged
can be read.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kio.schema.errors import ErrorCode
from typing_extensions import override

from replica_manager.coordinators.groups.config import GroupConfig
from replica_manager.coordinators.groups.events import Elected
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    DeleteGroups,
    DeleteGroupsResult,
    Protocol,
)
from replica_manager.coordinators.groups.timers import GroupTimer, TimerKind
from tests.scenarios.group_world import GROUP, Consumer, GroupWorld, subscription

CLIENTS = st.integers(0, 5)
OUTCOMES = st.sampled_from(
    (ErrorCode.none, ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out)
)
UNSURE = {"request_timed_out", "coordinator_not_available", "not_coordinator"}
METADATA = subscription("orders")
PROTOCOLS = st.sampled_from(
    (
        (Protocol("range", METADATA),),
        (Protocol("range", METADATA), Protocol("sticky", METADATA)),
        (Protocol("sticky", METADATA), Protocol("range", METADATA)),
        (Protocol("sticky", METADATA), Protocol("sticky", METADATA)),
        (Protocol("range", b"?"),),
    )
)


class GroupMachine(RuleBasedStateMachine):
    """One group and everything that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld(GroupConfig(max_size=4))
        self.clients = [
            Consumer(self.world, f"c{i}", instance=f"i{i}" if i < 2 else None) for i in range(6)
        ]
        self.clients[5].version = 3
        self.clients[4].version = self.clients[1].version = 8
        self.leader_epoch = 0
        self.is_here = True
        self.commits: dict[int, int] = {}
        """Request id to offset, of commits that wait."""
        self.acknowledged = -1
        self.unsure: set[int] = set()
        """Offsets that may stand in the log although their clients got an error."""
        self.last_group: GroupMetadata | None = None
        self.last_generation = 0

    # ------------------------------------------------------------------ clients

    @rule(client=CLIENTS)
    def join(self, client: int) -> None:
        self.clients[client].join()

    @rule(client=CLIENTS)
    def restart(self, client: int) -> None:
        """A new process, that knows nothing of the one before."""
        self.clients[client].member_id = ""
        self.clients[client].ask_to_join()

    @rule(client=CLIENTS, protocols=PROTOCOLS)
    def change_protocols(self, client: int, protocols: tuple[Protocol, ...]) -> None:
        self.clients[client].protocols = protocols

    @rule(client=CLIENTS)
    def sync(self, client: int) -> None:
        if self.clients[client].join_outcome == "none":
            self.clients[client].sync()

    @rule()
    def all_join_and_synchronise(self) -> None:
        for each in self.clients:
            each.join()
        self.pass_ms(6_000)
        for each in self.clients:
            if each.join_outcome == "none":
                each.sync()

    @rule(client=CLIENTS)
    def heartbeat(self, client: int) -> None:
        self.clients[client].heartbeat()

    @rule(client=CLIENTS)
    def leave(self, client: int) -> None:
        self.clients[client].leave()

    @rule(client=CLIENTS, offset=st.integers(0, 99), is_member=st.booleans())
    def commit(self, client: int, offset: int, is_member: bool) -> None:
        request_id = self.world.next_id() + 1
        outcome = self.clients[client].commit(offset) if is_member else self.world.commit(offset)
        assert isinstance(self.world.asked[request_id], CommitOffsets)
        self.commits[request_id] = offset
        assert outcome == self.world.outcome(request_id)
        self.acknowledge_commits()

    # ------------------------------------------------------------------ the world

    @rule(duration_ms=st.sampled_from((0, 1, 3_000, 9_000, 31_000, 301_000)))
    def pass_ms(self, duration_ms: int) -> None:
        self.world.pass_ms(duration_ms)

    @rule()
    def the_log_is_slow(self) -> None:
        self.world.is_holding_appends = True

    @rule(is_refusing=st.booleans())
    def the_log_lacks_replicas(self, is_refusing: bool) -> None:
        if not self.world.appends:
            error = ErrorCode.not_enough_replicas if is_refusing else ErrorCode.none
            self.world.append_error = error

    @rule(outcome=OUTCOMES)
    def the_log_answers(self, outcome: ErrorCode) -> None:
        self.the_log_answers_now(outcome)

    def the_log_answers_now(self, outcome: ErrorCode) -> None:
        self.world.is_holding_appends = False
        self.world.finish_all(outcome)
        self.acknowledge_commits()

    @precondition(lambda self: self.is_here)
    @rule()
    def the_partition_moves_away(self) -> None:
        self.leader_epoch += 1
        self.world.resign(GROUP, self.leader_epoch)
        self.world.finish_all(ErrorCode.not_leader_or_follower)
        self.is_here = False
        self.acknowledge_commits()
        assert self.world.coordinator.groups == {}

    @precondition(lambda self: not self.is_here)
    @rule()
    def the_partition_comes_back(self) -> None:
        self.leader_epoch += 1
        partition = self.world.coordinator.partition_for(GROUP)
        self.world.step(Elected(partition, self.leader_epoch))
        self.is_here = True
        offset, _ = self.world.committed(stable=True)
        assert offset in self.unsure | {self.acknowledged}
        self.acknowledged, self.unsure = offset, set()

    @rule()
    def an_administrator_deletes_the_group(self) -> None:
        request = DeleteGroups(self.world.next_id(), (GROUP,))
        if self.world.ask(request, DeleteGroupsResult).errors[GROUP] is ErrorCode.none:
            self.acknowledged = -1
            self.commits.clear()

    def acknowledge_commits(self) -> None:
        for request_id, offset in list(self.commits.items()):
            outcome = self.world.outcome(request_id)
            if outcome != "waiting":
                del self.commits[request_id]
                if outcome == "none":
                    self.acknowledged, self.unsure = offset, set()
                elif outcome in UNSURE:
                    self.unsure.add(offset)

    # ------------------------------------------------------------------ what holds

    @property
    def group(self) -> GroupMetadata | None:
        return self.world.coordinator.groups.get(GROUP)

    @invariant()
    def the_memory_of_members_is_counted(self) -> None:
        groups = self.world.coordinator.groups.values()
        for group in groups:
            assert group.member_bytes == sum(each.size_bytes for each in group.members.values())
            assert group.counted_in is not None
            assert group.counted_in.total == sum(each.member_bytes for each in groups)

    @invariant()
    def every_request_is_answered_or_parked(self) -> None:
        members = () if self.group is None else self.group.members.values()
        parked = {each.parked_join for each in members} | {each.parked_sync for each in members}
        waiting = {
            request.request_id
            for request in self.world.unanswered
            if not isinstance(request, CommitOffsets)
        }
        commits = {r.request_id for r in self.world.unanswered if isinstance(r, CommitOffsets)}

        assert waiting == parked - {None}
        assert bool(commits) <= bool(self.world.appends)

    @invariant()
    def what_was_acknowledged_can_be_read(self) -> None:
        if self.is_here and not self.world.appends:
            assert self.world.committed(stable=True) == (self.acknowledged, "none")

    @invariant()
    def generations_only_grow(self) -> None:
        if self.group is not None:
            if self.group is self.last_group:
                assert self.group.generation_id >= self.last_generation
            self.last_group, self.last_generation = self.group, self.group.generation_id

    @invariant()
    def a_group_is_consistent_in_itself(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members
        joins = [each for each in members.values() if each.parked_join is not None]
        assert group.parked_join_count == len(joins)
        assert (group.leader_id in members) == bool(members)
        if group.state is GroupState.EMPTY:
            assert not members
        elif not members:
            # The first ones have left before the initial delay was over, or someone may come.
            assert group.initial_delay_ms is not None or group.pending_members
        assert {i: m.member_id for m in members.values() if (i := m.group_instance_id)} == (
            group.static_members
        )
        assert not set(members) & set(group.pending_members)
        assert set(group.pending_sync_members) <= set(members)
        known = Counter(
            name for each in members.values() for name in {p.name for p in each.protocols}
        )
        assert group._supporters == known
        if group.state is GroupState.COMPLETING_REBALANCE:
            assert not joins
        else:
            assert all(each.parked_sync is None for each in members.values())
        if group.state is GroupState.STABLE:
            assert all(each.is_static for each in joins), "whose new id is being written"

    @invariant()
    def members_that_may_fall_silent_have_a_timer(self) -> None:
        timers = self.world.coordinator._manager.timers
        group = self.group
        if group is None:
            assert list(timers) == [GroupTimer(TimerKind.SWEEP)]
            return
        for member in group.members.values():
            if not member.is_exempt_from_heartbeats:
                assert GroupTimer(TimerKind.SESSION, GROUP, member.member_id) in timers
        for member_id in group.pending_members:
            assert GroupTimer(TimerKind.SESSION, GROUP, member_id) in timers
        assert (GroupTimer(TimerKind.JOIN, GROUP) in timers) == group.is_rebalancing
        assert (GroupTimer(TimerKind.SYNC, GROUP) in timers) == bool(group.pending_sync_members)
        assert len(timers) <= len(group.members) + len(group.pending_members) + 3

    @invariant()
    def no_group_waits_for_members_who_are_all_there(self) -> None:
        group = self.group
        if group is not None and group.is_rebalancing and group.initial_delay_ms is None:
            assert not group.has_all_members_joined

    @invariant()
    def a_stable_group_stands_in_the_log(self) -> None:
        group = self.group
        if group is not None and group.state is GroupState.STABLE and not self.world.appends:
            generation_id, _, _ = self.world.logged_group()
            assert generation_id == group.generation_id

    @override
    def teardown(self) -> None:
        """Everyone falls silent: in the end no one waits, and no one is a member any more."""
        self.the_log_answers_now(ErrorCode.none)
        for _ in range(4):
            self.world.pass_ms(400_000)

        assert self.world.unanswered == []
        if self.group is not None:
            assert self.group.state is GroupState.EMPTY
        self.what_was_acknowledged_can_be_read()


TestGroup = GroupMachine.TestCase
# The same steps in every run; for others take derandomize away, and give it more examples.
TestGroup.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
