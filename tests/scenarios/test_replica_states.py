"""The replica state machine: moves it makes and refuses, what each one writes and says."""

from __future__ import annotations

import itertools

import pytest

from kafka_common.model import NO_LEADER, TopicPartition
from tests.scenarios.workbench import EPOCH, Workbench
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import Delete, ReadZnodes
from zkcontroller.zookeeper.znodes import PartitionStateZnode
from zkcontroller_simulation.control_requests import (
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    SentStop,
)

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED = ReplicaState.DELETION_STARTED
SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE
NON_EXISTENT = ReplicaState.NON_EXISTENT
ORDERS_0 = TopicPartition("orders", 0)

LEGAL = [
    (NON_EXISTENT, NEW),
    (NEW, ONLINE),
    (ONLINE, ONLINE),
    (OFFLINE, ONLINE),
    (INELIGIBLE, ONLINE),
    (NEW, OFFLINE),
    (ONLINE, OFFLINE),
    (OFFLINE, OFFLINE),
    (INELIGIBLE, OFFLINE),
    (OFFLINE, STARTED),
    (STARTED, SUCCESSFUL),
    (OFFLINE, INELIGIBLE),
    (STARTED, INELIGIBLE),
    (SUCCESSFUL, NON_EXISTENT),
]
REFUSED = [pair for pair in itertools.product(ReplicaState, repeat=2) if pair not in LEGAL]


def names(pair: tuple[ReplicaState, ReplicaState]) -> str:
    return f"{pair[0].name.lower()}-to-{pair[1].name.lower()}"


def bench_with_replica(state: ReplicaState, *, led: bool = True) -> tuple[Workbench, int]:
    """Partition orders-0 on brokers 1 and 2, led by 2; the replica on broker 1 is in ``state``."""
    bench = Workbench(live=[1, 2])
    row = bench.add(
        "orders",
        0,
        [1, 2],
        state=PartitionState.ONLINE if led else PartitionState.NEW,
        replica_states={1: state, 2: ONLINE},
        led_by=bench.led(2, [2, 1]) if led else None,
    )
    return bench, row


@pytest.mark.parametrize("pair", LEGAL, ids=names)
def test_a_legal_move_is_made(pair: tuple[ReplicaState, ReplicaState]) -> None:
    before, target = pair
    bench, row = bench_with_replica(before)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, target))

    assert bench.failures(Kind.REPLICA_STATE_FAILED) == []
    if target is NON_EXISTENT:
        assert bench.context.table.replicas[row] == (2,), "gone from the assignment"
    else:
        assert bench.replica_state(row, 1) is target


@pytest.mark.parametrize("pair", REFUSED, ids=names)
def test_an_illegal_move_is_refused_and_changes_nothing(
    pair: tuple[ReplicaState, ReplicaState],
) -> None:
    before, target = pair
    bench, row = bench_with_replica(before)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, target))

    assert bench.replica_state(row, 1) is before
    (cause,) = bench.failures(Kind.REPLICA_STATE_FAILED)
    assert cause.startswith(
        "java.lang.IllegalStateException: Replica [Topic=orders,Partition=0,Replica=1] should be in"
    )
    assert bench.questions == []
    assert bench.receivers(ReceivedLeaderAndIsr) == bench.receivers(ReceivedStopReplica) == []


def test_at_start_up_a_replica_on_a_live_broker_is_online_and_gets_a_request() -> None:
    bench = Workbench(live=[1])
    row = bench.add("orders", 0, [1], led_by=bench.led(1, [1]))

    bench.run(bench.replicas.startup())

    assert bench.replica_state(row, 1) is ONLINE
    assert bench.receivers(ReceivedLeaderAndIsr) == [1]


def test_at_start_up_a_replica_on_a_dead_broker_is_offline() -> None:
    bench = Workbench(live=[])
    row = bench.add("orders", 0, [1], led_by=bench.led(1, [1]))

    bench.run(bench.replicas.startup())

    assert bench.replica_state(row, 1) is OFFLINE


def test_a_new_replica_comes_online_without_a_request() -> None:
    bench, row = bench_with_replica(NEW)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, ONLINE))

    assert bench.replica_state(row, 1) is ONLINE
    assert bench.sent == []


def test_a_new_replica_of_a_led_partition_gets_the_flag_is_new() -> None:
    bench, row = bench_with_replica(NON_EXISTENT)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, NEW))

    (request,) = bench.sent_to(1, ReceivedLeaderAndIsr)
    assert request.partitions[ORDERS_0].is_new
    assert bench.receivers(ReceivedLeaderAndIsr) == [1]


def test_the_leader_of_a_partition_cannot_be_a_new_replica_of_it() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2], led_by=bench.led(1, [1, 2]))

    bench.run(bench.replicas.handle_state_changes({1: [row]}, NEW))

    assert bench.replica_state(row, 1) is NON_EXISTENT
    (record,) = [r for r in bench.records if r.kind is Kind.REPLICA_STATE_FAILED]
    assert record.to_state == "OfflineReplica", "as Kafka prints it"


def test_a_new_replica_of_an_unled_partition_goes_offline_with_stop_and_metadata() -> None:
    bench, row = bench_with_replica(NEW, led=False)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.replica_state(row, 1) is OFFLINE
    (stop,) = bench.sent_to(1, ReceivedStopReplica)
    assert not stop.partitions[ORDERS_0].delete
    assert bench.receivers(ReceivedUpdateMetadata) == [1, 2]
    assert bench.questions == []


@pytest.mark.parametrize("before", [ONLINE, OFFLINE, INELIGIBLE])
def test_coming_online_tells_the_broker_what_it_hosts(before: ReplicaState) -> None:
    bench, row = bench_with_replica(before)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, ONLINE))

    (request,) = bench.sent_to(1, ReceivedLeaderAndIsr)
    assert not request.partitions[ORDERS_0].is_new
    assert bench.receivers(ReceivedLeaderAndIsr) == [1]


def test_a_leader_that_goes_offline_leaves_no_leader_and_a_shrunk_isr() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add(
        "orders", 0, [1, 2], replica_states={1: ONLINE, 2: ONLINE}, led_by=bench.led(1, [1, 2])
    )

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(NO_LEADER, 1, (2,), EPOCH)
    (stop,) = bench.sent_to(1, ReceivedStopReplica)
    assert not stop.partitions[ORDERS_0].delete
    (told,) = bench.sent_to(2, ReceivedLeaderAndIsr)
    assert told.partitions[ORDERS_0].leader == NO_LEADER
    assert told.partitions[ORDERS_0].zk_version == 2, "the version the write gave"
    assert bench.context.table.leader_and_isr(row).zk_version == 2


def test_a_follower_that_goes_offline_leaves_the_isr_and_the_leader_gets_a_request() -> None:
    bench, row = bench_with_replica(ONLINE)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 1, (2,), EPOCH)
    assert bench.receivers(ReceivedLeaderAndIsr) == [2]


def test_the_last_member_stays_in_the_isr() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1], replica_states={1: ONLINE}, led_by=bench.led(1, [1]))

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(NO_LEADER, 1, (1,), EPOCH)


def test_a_replica_that_is_not_in_the_isr_goes_offline_without_a_write() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add(
        "orders", 0, [1, 2], replica_states={1: ONLINE, 2: ONLINE}, led_by=bench.led(2, [2])
    )

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.replica_state(row, 1) is OFFLINE
    assert bench.state_znode("orders", 0).leader_epoch == 0
    assert bench.receivers(ReceivedLeaderAndIsr) == [2], "the others are sent it nevertheless"


def test_what_this_controller_wrote_is_not_read_again_to_see_who_is_outside() -> None:
    bench = Workbench(live=[1, 2])
    written_before = bench.led(2, [2])._replace(controller_epoch=EPOCH - 1)
    rows = [
        bench.add("own", 0, [1, 2], replica_states={1: ONLINE}, led_by=bench.led(2, [2])),
        bench.add("older", 0, [1, 2], replica_states={1: ONLINE}, led_by=written_before),
    ]

    bench.run(bench.replicas.handle_state_changes({1: rows}, OFFLINE))

    read = [path for each in bench.questions if isinstance(each, ReadZnodes) for path in each.paths]
    assert read == [PartitionStateZnode.path("older", 0)]
    assert [bench.replica_state(row, 1) for row in rows] == [OFFLINE, OFFLINE]


def test_a_replica_whose_state_was_written_by_a_later_controller_stays_as_it_was() -> None:
    bench = Workbench(live=[1, 2])
    later = bench.led(2, [2, 1])._replace(controller_epoch=EPOCH + 1)
    row = bench.add("orders", 0, [1, 2], replica_states={1: ONLINE, 2: ONLINE}, led_by=later)

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.replica_state(row, 1) is ONLINE
    (cause,) = bench.failures(Kind.REPLICA_STATE_FAILED)
    assert f"another controller was elected with epoch {EPOCH + 1}" in cause


def test_a_replica_leaves_the_isr_that_stands_in_the_znode() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2, 3], replica_states={1: ONLINE}, led_by=bench.led(2, [2, 1]))
    bench.write_state("orders", 0, bench.led(2, [3, 2, 1], leader_epoch=4))

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 5, (3, 2), EPOCH)


def test_a_replica_whose_state_znode_is_gone_stays_as_it_was() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2], replica_states={1: ONLINE}, led_by=bench.led(2, [2, 1]))
    bench.session.write(Delete(PartitionStateZnode.path("orders", 0)))

    bench.run(bench.replicas.handle_state_changes({1: [row]}, OFFLINE))

    assert bench.replica_state(row, 1) is ONLINE
    (cause,) = bench.failures(Kind.REPLICA_STATE_FAILED)
    assert "since the leader and isr path in zookeeper is empty" in cause


def test_deletion_starts_with_a_stop_that_deletes() -> None:
    bench, row = bench_with_replica(OFFLINE)
    bench.context.queue_for_deletion(["orders"])

    bench.run(bench.replicas.handle_state_changes({1: [row]}, STARTED))

    (stop,) = bench.sent_to(1, ReceivedStopReplica)
    assert stop.partitions[ORDERS_0] == SentStop(leader_epoch=-2, delete=True)
