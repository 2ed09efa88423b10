"""Whatever happens to a KRaft cluster, in whatever order, its partitions stay sound."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.model import ElectionType
from kraft.controller.alter_partition import (
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.partition_registration import PartitionId, PartitionRegistration
from kraft.controller.reassignment_control import ReassignablePartition, ReassignableTopic
from kraft.controller.replication_control import ReplicationConfig
from kraft.metadata.metadata_version import LATEST_PRODUCTION, from_name
from kraft.metadata.records import NO_LEADER
from tests.support.kraft_world import WITH_ELR, KraftWorld

BROKERS = (1, 2, 3, 4, 5)
broker = st.sampled_from(BROKERS)
replicas = st.lists(broker, min_size=1, max_size=4, unique=True).map(tuple)

actions = st.one_of(
    st.tuples(st.just("fence"), broker),
    st.tuples(st.just("unfence"), broker),
    st.tuples(st.just("shutdown"), broker),
    st.tuples(st.just("propose"), st.integers(0, 1), st.sets(broker)),
    st.tuples(st.just("catch up"), st.integers(0, 1)),
    st.tuples(st.just("reassign"), st.integers(0, 1), replicas),
    st.tuples(st.just("cancel"), st.integers(0, 1)),
    st.tuples(st.just("elect"), st.sampled_from(ElectionType)),
    st.tuples(st.just("balance")),
    st.tuples(st.just("unclean"), st.booleans()),
)


class Scenario:
    """A cluster with one topic of two partitions; every step is checked."""

    def __init__(self, *, level_name: str) -> None:
        with_elr = level_name == "elr"
        self.with_elr = with_elr
        self.world = KraftWorld(
            *BROKERS,
            metadata_version=WITH_ELR if with_elr else from_name(level_name),
            config=ReplicationConfig(eligible_leader_replicas_enabled=with_elr),
        )
        self.topic_id = self.world.create_topic(
            "foo", (1, 2, 3), (3, 4, 5), min_insync_replicas="2"
        )

    def partitions(self) -> list[PartitionRegistration]:
        return [self.world.partition(self.topic_id, index) for index in range(2)]

    def step(self, action: tuple[Any, ...]) -> None:
        before = self.partitions()
        self._act(action)
        for old, new in zip(before, self.partitions(), strict=True):
            self._check(old, new)
        self.check_indexes()

    def _act(self, action: tuple[Any, ...]) -> None:
        world = self.world
        match action:
            case ("fence", broker_id):
                world.fence(broker_id)
            case ("unfence", broker_id):
                if not world.cluster.is_active(broker_id):
                    world.unfence(broker_id)
            case ("shutdown", broker_id):
                world.begin_controlled_shutdown(broker_id)
            case ("propose", index, isr):
                self.propose(index, sorted(isr))
            case ("catch up", index):
                self.catch_up(index)
            case ("reassign", index, target):
                self.reassign(index, target)
            case ("cancel", index):
                self.reassign(index, None)
            case ("elect", election_type):
                world.commit(world.control.elections.elect_leaders(election_type, None))
            case ("balance",):
                world.commit(world.control.elections.maybe_balance_partition_leaders())
                world.commit(world.control.elections.maybe_elect_unclean_leaders())
            case ("unclean", allowed):
                world.set_topic_config(
                    "foo", "unclean.leader.election.enable", str(allowed).lower()
                )
            case _:
                raise AssertionError(action)

    def propose(self, index: int, isr: list[int]) -> ErrorCode | None:
        partition = self.world.partition(self.topic_id, index)
        if partition.leader == NO_LEADER:
            return None
        proposed = ProposedPartition(
            index,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(IsrMember(broker_id) for broker_id in isr),
        )
        request = AlterPartitionRequest(
            partition.leader,
            self.world.epoch(partition.leader),
            (ProposedTopic((proposed,), self.topic_id),),
        )
        answered = self.world.commit(self.world.control.isr.alter(request, 3))
        return answered[0].partitions[0].error

    def catch_up(self, index: int) -> ErrorCode | None:
        """Every active replica gets in sync."""
        partition = self.world.partition(self.topic_id, index)
        active = [b for b in partition.replicas if self.world.cluster.is_active(b)]
        return self.propose(index, active)

    def reassign(self, index: int, target: tuple[int, ...] | None) -> None:
        ordered = ReassignableTopic("foo", (ReassignablePartition(index, target),))
        self.world.commit(
            self.world.control.reassignments.alter_partition_reassignments((ordered,))
        )

    def _check(self, old: PartitionRegistration, new: PartitionRegistration) -> None:
        assert len(set(new.replicas)) == len(new.replicas) > 0
        assert len(new.directories) == len(new.replicas)
        assert set(new.isr) <= set(new.replicas), new
        assert new.leader == NO_LEADER or new.leader in new.isr, new
        assert new.isr or self.with_elr
        assert not set(new.elr) & set(new.isr), new
        assert set(new.adding_replicas) <= set(new.replicas), new
        assert set(new.removing_replicas) <= set(new.replicas), new
        assert new.leader_epoch >= old.leader_epoch
        assert new.partition_epoch >= old.partition_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
        if new != old:
            assert new.partition_epoch > old.partition_epoch
        if new.leader not in (NO_LEADER, old.leader):
            assert self.world.cluster.is_active(new.leader) or self.with_elr

    def check_indexes(self) -> None:
        state = self.world.control.state
        index = state.brokers_to_isrs
        partitions = {
            PartitionId(self.topic_id, number): partition
            for number, partition in enumerate(self.partitions())
        }
        for broker_id in (*BROKERS, NO_LEADER):
            is_leader = any(p.leader == broker_id for p in partitions.values())
            assert index.has_leaderships(broker_id) == is_leader
            in_sync = set(index.partitions_with_broker_in_isr(broker_id))
            assert in_sync == {key for key, p in partitions.items() if broker_id in p.isr}
        assert set(index.partitions_with_no_leader()) == {
            key for key, p in partitions.items() if p.leader == NO_LEADER
        }
        assert set(state.reassigning_partitions) == {
            key for key, p in partitions.items() if p.is_being_reassigned
        }
        assert set(state.imbalanced_partitions) == {
            key for key, p in partitions.items() if p.leader != p.replicas[0]
        }

    def calm_down(self) -> None:
        """Every broker is back, every replica catches up."""
        self.world.set_topic_config("foo", "unclean.leader.election.enable", "true")
        for broker_id in BROKERS:
            if not self.world.cluster.is_active(broker_id):
                self.step(("unfence", broker_id))
        self.step(("balance",))
        for index in range(2):
            for _ in range(2):  # the first may end a reassignment and move the leader
                self.step(("catch up", index))
        self.step(("balance",))


@settings(max_examples=120, deadline=None)
@given(
    level_name=st.sampled_from([str(LATEST_PRODUCTION), "3.5-IV2", "3.3-IV1", "elr"]),
    scenario=st.lists(actions, max_size=25),
)
def test_isrs_leaders_and_epochs_stay_sound_and_reassignments_end(
    level_name: str, scenario: list[tuple[Any, ...]]
) -> None:
    cluster = Scenario(level_name=level_name)

    for action in scenario:
        cluster.step(action)
    cluster.calm_down()

    for partition in cluster.partitions():
        assert not partition.is_being_reassigned, partition
        assert partition.leader == partition.replicas[0]
        assert set(partition.isr) == set(partition.replicas)


@settings(max_examples=60, deadline=None)
@given(before=st.lists(actions, max_size=12), after=st.lists(actions, max_size=12))
def test_what_was_not_committed_can_be_taken_back(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    cluster = Scenario(level_name=str(LATEST_PRODUCTION))
    for action in before:
        cluster.step(action)
    committed = cluster.partitions()
    nodes = dict(cluster.world.cluster.nodes)
    cluster.world.registry.get_or_create_snapshot(len(cluster.world.log))

    epoch = len(cluster.world.log)
    for action in after:
        cluster.step(action)
    cluster.world.registry.revert_to_snapshot(epoch)
    cluster.world.cluster.nodes = nodes

    assert cluster.partitions() == committed
    cluster.check_indexes()
    cluster.step(("fence", 1))
