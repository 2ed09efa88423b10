"""The partition state machine: moves it makes and refuses, what each one writes and says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafka_common.errors import ControllerMoved
from kafka_common.model import NO_LEADER, RECOVERED, RECOVERING, TopicPartition
from tests.scenarios.workbench import EPOCH, Workbench
from zkcontroller.core.elections import ControlledShutdownElection, OfflineElection
from zkcontroller.core.states import PartitionState
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import FencedBatch, ReadZnodes, SetData, ZkCode
from zkcontroller.zookeeper.znodes import ConfigZnode, ControllerEpochZnode, PartitionStateZnode
from zkcontroller_simulation.control_requests import (
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
)

NON_EXISTENT, NEW = PartitionState.NON_EXISTENT, PartitionState.NEW
ONLINE, OFFLINE = PartitionState.ONLINE, PartitionState.OFFLINE
ORDERS_0 = TopicPartition("orders", 0)

LEGAL = [
    (NON_EXISTENT, NEW),
    (NEW, ONLINE),
    (NEW, OFFLINE),
    (ONLINE, ONLINE),
    (ONLINE, OFFLINE),
    (OFFLINE, ONLINE),
    (OFFLINE, OFFLINE),
    (OFFLINE, NON_EXISTENT),
]
REFUSED = [pair for pair in itertools.product(PartitionState, repeat=2) if pair not in LEGAL]


def names(pair: tuple[PartitionState, PartitionState]) -> str:
    return f"{pair[0].name.lower()}-to-{pair[1].name.lower()}"


@pytest.mark.parametrize("pair", LEGAL, ids=names)
def test_a_legal_move_is_made(pair: tuple[PartitionState, PartitionState]) -> None:
    before, target = pair
    bench = Workbench()
    led_by = None if before in (NON_EXISTENT, NEW) else bench.led(1, [1, 2])
    row = bench.add("orders", 0, [1, 2], state=before, led_by=led_by)

    bench.run(bench.partitions.handle_state_changes([row], target, OfflineElection()))

    assert bench.partition_state(row) is target
    assert bench.failures(Kind.PARTITION_STATE_FAILED) == []


@pytest.mark.parametrize("pair", REFUSED, ids=names)
def test_an_illegal_move_is_refused_and_changes_nothing(
    pair: tuple[PartitionState, PartitionState],
) -> None:
    before, target = pair
    bench = Workbench()
    row = bench.add("orders", 0, [1, 2], state=before)

    bench.run(bench.partitions.handle_state_changes([row], target, OfflineElection()))

    assert bench.partition_state(row) is before
    (cause,) = bench.failures(Kind.PARTITION_STATE_FAILED)
    assert cause.startswith(
        "java.lang.IllegalStateException: Partition orders-0 should be in one of "
    )
    assert cause.endswith(
        f" states before moving to {target.label} state. Instead it is in {before.label} state"
    )
    assert bench.questions == []


def test_valid_partitions_of_a_call_proceed_beside_refused_ones() -> None:
    bench = Workbench()
    good = bench.add("orders", 0, [1, 2])
    bad = bench.add("orders", 1, [1, 2], state=ONLINE)

    bench.run(bench.partitions.handle_state_changes([good, bad], NEW))

    assert bench.partition_state(good) is NEW
    assert bench.partition_state(bad) is ONLINE


def test_a_new_partition_is_led_by_the_first_live_replica_and_all_live_ones_are_in_sync() -> None:
    bench = Workbench(live=[2, 3])
    row = bench.add("orders", 0, [1, 2, 3], state=NEW)

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    state = bench.state_znode("orders", 0)
    assert state == PartitionStateZnode(2, 0, (2, 3), EPOCH, RECOVERED)
    assert bench.receivers(ReceivedLeaderAndIsr) == [2, 3], "it is sent to those in sync"
    assert bench.receivers(ReceivedUpdateMetadata) == [2, 3]
    assert all(
        request.partitions[ORDERS_0].is_new for request in bench.sent_to(2, ReceivedLeaderAndIsr)
    )


def test_a_new_partition_without_a_live_replica_stays_new() -> None:
    bench = Workbench(live=[3])
    row = bench.add("orders", 0, [1, 2], state=NEW)

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.partition_state(row) is NEW
    (cause,) = bench.failures(Kind.PARTITION_STATE_FAILED)
    assert (
        "assigned replicas are [1,2], live brokers are [3]. No assigned replica is alive." in cause
    )


def test_a_new_partition_whose_znode_cannot_be_created_stays_new_and_the_batch_is_sent() -> None:
    bench = Workbench()
    refused = bench.add("orders", 0, [1, 2], state=NEW)
    created = bench.add("orders", 1, [1, 2], state=NEW)
    bench.refusals[PartitionStateZnode.path("orders", 0)] = ZkCode.SYSTEM_ERROR

    bench.run(bench.partitions.handle_state_changes([refused, created], ONLINE, OfflineElection()))

    assert bench.partition_state(refused) is NEW
    assert bench.partition_state(created) is ONLINE
    (request,) = bench.sent_to(1, ReceivedLeaderAndIsr)
    assert list(request.partitions) == [TopicPartition("orders", 1)]


def test_a_state_change_that_failed_leaves_no_requests_for_the_next_one() -> None:
    """Kafka's batches live for ever, and the next state change finds this one filled."""
    bench = Workbench()
    fresh = bench.add("orders", 0, [1, 2], state=NEW)
    led = bench.add("orders", 2, [1, 2], state=OFFLINE, led_by=bench.led(3, [3, 1]))
    second = bench.add("orders", 1, [1, 2], state=NEW)
    perform = bench.session.perform

    def moved(asked: Any) -> Any:
        if isinstance(asked, FencedBatch) and isinstance(asked.operations[0], SetData):
            bench.session.write(SetData(ControllerEpochZnode.PATH, b"%d" % EPOCH))
        return perform(asked)

    bench.session.perform = moved  # type: ignore[method-assign, assignment]
    with pytest.raises(ControllerMoved):  # the new partition has filled the batch by then
        bench.run(bench.partitions.handle_state_changes([fresh, led], ONLINE, OfflineElection()))
    assert bench.partition_state(fresh) is ONLINE

    bench.context.epoch_zk_version += 1
    bench.run(bench.partitions.handle_state_changes([second], ONLINE, OfflineElection()))

    (request,) = bench.sent_to(1, ReceivedLeaderAndIsr)
    assert list(request.partitions) == [TopicPartition("orders", 1)]


def test_a_state_that_exists_already_decides_who_leads_a_new_partition() -> None:
    """It could not be read when the controller came into office."""
    bench = Workbench()
    bench.write_state("orders", 0, bench.led(2, [2], leader_epoch=7))
    row = bench.add("orders", 0, [1, 2], state=NEW)

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.partition_state(row) is ONLINE
    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 8, (2,), EPOCH)


def test_a_state_that_exists_already_stays_while_no_replica_in_sync_is_alive() -> None:
    bench = Workbench(live=[1])
    bench.write_state("orders", 0, bench.led(2, [2], leader_epoch=7))
    row = bench.add("orders", 0, [1, 2], state=NEW)

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.partition_state(row) is OFFLINE
    assert bench.state_znode("orders", 0).leader_epoch == 7


def test_an_offline_partition_is_led_by_the_live_in_sync_replica() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add(
        "orders", 0, [3, 2, 1], state=OFFLINE, led_by=bench.led(NO_LEADER, [1, 2], leader_epoch=4)
    )

    outcome = bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert outcome.elected == [row]
    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 5, (1, 2), EPOCH)
    assert bench.receivers(ReceivedLeaderAndIsr) == [2, 1]
    assert not bench.sent_to(1, ReceivedLeaderAndIsr)[0].partitions[ORDERS_0].is_new


def test_an_election_raises_the_leader_epoch_even_if_the_leader_stays() -> None:
    bench = Workbench()
    row = bench.add("orders", 0, [1, 2], state=ONLINE, led_by=bench.led(1, [1, 2]))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(1, 1, (1, 2), EPOCH)


def test_in_a_controlled_shutdown_another_replica_leads_and_both_get_requests() -> None:
    bench = Workbench(live=[1, 2])
    bench.context.shutting_down.add(1)
    row = bench.add("orders", 0, [1, 2], state=ONLINE, led_by=bench.led(1, [1, 2]))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, ControlledShutdownElection()))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 1, (2,), EPOCH)
    assert bench.receivers(ReceivedLeaderAndIsr) == [1, 2]


def test_a_failed_election_leaves_the_state_as_it_was() -> None:
    bench = Workbench(live=[1])
    bench.context.shutting_down.add(1)
    row = bench.add("orders", 0, [1, 2], state=ONLINE, led_by=bench.led(1, [1]))

    outcome = bench.run(
        bench.partitions.handle_state_changes([row], ONLINE, ControlledShutdownElection())
    )

    assert bench.partition_state(row) is ONLINE
    assert list(outcome.failed) == [row]
    (record,) = [r for r in bench.records if r.kind is Kind.PARTITION_STATE_FAILED]
    assert (record.from_state, record.to_state) == ("OnlinePartition", "OnlinePartition")


@pytest.mark.parametrize(
    ("protocol", "recovery_state"), [("3.9-IV0", RECOVERING), ("3.1-IV0", RECOVERED)]
)
def test_an_unclean_leader_is_alone_in_sync_and_recovering_since_protocol_3_2(
    protocol: str, recovery_state: int
) -> None:
    bench = Workbench(live=[2], inter_broker_protocol_version=protocol)
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=bench.led(NO_LEADER, [1]))

    bench.run(
        bench.partitions.handle_state_changes([row], ONLINE, OfflineElection(allow_unclean=True))
    )

    state = bench.state_znode("orders", 0)
    assert (state.leader, state.in_sync_replicas) == (2, (2,))
    assert state.leader_recovery_state == recovery_state
    assert bench.receivers(ReceivedLeaderAndIsr) == [2]


@pytest.mark.parametrize(
    ("default", "override", "expected"),
    [
        (False, None, NO_LEADER),
        (True, None, 2),
        (False, "true", 2),
        (True, "false", NO_LEADER),
    ],
)
def test_the_topics_own_setting_decides_over_an_unclean_election_before_the_default(
    default: bool, override: str | None, expected: int
) -> None:
    bench = Workbench(live=[2], unclean_leader_election_enable=default)
    if override is not None:
        config = ConfigZnode({"unclean.leader.election.enable": override})
        path = ConfigZnode.topic_path("orders")
        bench.session.create_missing([path])
        bench.session.write(SetData(path, config.encode()))
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=bench.led(NO_LEADER, [1]))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.state_znode("orders", 0).leader == expected


def test_topic_settings_are_read_only_where_no_in_sync_replica_lives() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=bench.led(NO_LEADER, [1]))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert [type(question) for question in bench.questions] == [FencedBatch]


def test_states_are_read_before_an_election_where_leaders_write_their_isrs_themselves() -> None:
    bench = Workbench(live=[1, 2], inter_broker_protocol_version="2.6-IV0")
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=bench.led(NO_LEADER, [1]))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert [type(question) for question in bench.questions] == [ReadZnodes, FencedBatch]


def test_a_state_written_by_hand_is_read_and_decides() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=bench.led(NO_LEADER, [1]))
    bench.write_state("orders", 0, bench.led(NO_LEADER, [2], leader_epoch=7))

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 8, (2,), EPOCH)


@pytest.mark.parametrize("code", [ZkCode.NO_NODE, ZkCode.SYSTEM_ERROR])
def test_a_partition_whose_state_cannot_be_read_stays_offline(code: ZkCode) -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2, 3], state=OFFLINE, led_by=bench.led(NO_LEADER, [3]))
    bench.refusals[PartitionStateZnode.path("orders", 0)] = code

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.partition_state(row) is OFFLINE
    assert len(bench.failures(Kind.PARTITION_STATE_FAILED)) == 1
    assert bench.receivers(ReceivedLeaderAndIsr) == []


def test_a_state_that_changed_meanwhile_is_read_again_and_the_election_run_again() -> None:
    bench = Workbench(live=[1, 2])
    row = bench.add("orders", 0, [1, 2, 3], state=OFFLINE, led_by=bench.led(3, [1, 2, 3]))

    def shrink() -> None:
        """The old leader shrinks the ISR just then."""
        bench.write_state("orders", 0, bench.led(3, [2, 3]))

    bench.meanwhile = shrink
    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert [type(question) for question in bench.questions] == [
        FencedBatch,
        ReadZnodes,
        FencedBatch,
    ]
    assert bench.state_znode("orders", 0) == PartitionStateZnode(2, 1, (2,), EPOCH)


def test_a_state_written_by_a_later_controller_is_left_alone() -> None:
    bench = Workbench()
    later = bench.led(NO_LEADER, [1])._replace(controller_epoch=EPOCH + 1)
    row = bench.add("orders", 0, [1, 2], state=OFFLINE, led_by=later)

    bench.run(bench.partitions.handle_state_changes([row], ONLINE, OfflineElection()))

    assert bench.partition_state(row) is OFFLINE
    (cause,) = bench.failures(Kind.PARTITION_STATE_FAILED)
    assert "was already written by another controller" in cause


def test_the_offline_count_rises_and_falls_with_the_partitions() -> None:
    bench = Workbench()
    rows = [
        bench.add("orders", p, [1, 2], state=ONLINE, led_by=bench.led(1, [1, 2])) for p in range(4)
    ]

    bench.run(bench.partitions.handle_state_changes(rows, OFFLINE))
    assert bench.context.offline_partition_count == 4

    bench.run(bench.partitions.handle_state_changes(rows, ONLINE, OfflineElection()))
    assert bench.context.offline_partition_count == 0


def test_partitions_of_a_topic_whose_deletion_has_started_never_count_as_offline() -> None:
    bench = Workbench()
    row = bench.add("orders", 0, [1, 2], state=ONLINE, led_by=bench.led(1, [1, 2]))
    bench.context.topics_with_deletion_started.add("orders")

    bench.run(bench.partitions.handle_state_changes([row], OFFLINE))

    assert bench.context.offline_partition_count == 0


def test_going_offline_asks_nothing_and_sends_nothing() -> None:
    bench = Workbench()
    row = bench.add("orders", 0, [1, 2], state=ONLINE, led_by=bench.led(1, [1, 2]))

    bench.run(bench.partitions.handle_state_changes([row], OFFLINE))

    assert bench.questions == []
    assert bench.receivers(ReceivedLeaderAndIsr) == bench.receivers(ReceivedStopReplica) == []
