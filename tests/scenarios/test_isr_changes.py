"""Leaders that ask for another ISR, by AlterPartition or by themselves with a notification."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved
from kafka_common.model import RECOVERED, RECOVERING, TopicPartition
from tests.scenarios.orders import start_with_orders
from tests.scenarios.requests import alter_partition, ask, isr_change, put
from zkcontroller.core.effects import AlterPartitionResult
from zkcontroller.core.events import AlterPartitionReceived, IsrChange
from zkcontroller.zookeeper.requests import Create, FencedBatch, SetData
from zkcontroller.zookeeper.znodes import (
    ControllerEpochZnode,
    IsrChangeNotificationSequenceZnode,
    IsrChangeNotificationZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
)
from zkcontroller_simulation.control_requests import ReceivedLeaderAndIsr, ReceivedUpdateMetadata
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def shrunk(world: World) -> World:
    """orders-0 is led by broker 2; broker 3 has come back and is not in sync yet."""
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.stop(3)
    world.settle()
    world.start_brokers(3)
    world.settle()
    return world


def code(world: World, change: IsrChange, *, api_version: int = 3) -> int:
    """The verdict on one change that broker 2 asks for."""
    response = ask(
        world, AlterPartitionResult, alter_partition(world, 2, change, api_version=api_version)
    )
    assert response.error_code == ErrorCode.none
    (result,) = response.results
    assert (result.state is None) == (result.error_code != ErrorCode.none)
    return result.error_code


def state_bytes(world: World) -> tuple[bytes, int]:
    znode = world.zookeeper.peek(PartitionStateZnode.path(*ORDERS_0))
    assert znode is not None
    return znode.data, znode.zk_version


def test_a_replica_that_caught_up_joins_the_isr_and_every_broker_learns_of_it(
    shrunk: World,
) -> None:
    before = shrunk.state_znode("orders", 0)

    shrunk.catch_up(ORDERS_0)
    shrunk.run_until_quiet()

    state = shrunk.state_znode("orders", 0)
    assert (state.in_sync_replicas, state.leader_epoch) == ((2, 3), before.leader_epoch)
    assert shrunk.living[2].broker.hosted[ORDERS_0].isr == (2, 3)
    assert shrunk.living[1].broker.metadata[ORDERS_0].isr == (2, 3)


def test_an_isr_that_was_written_and_whose_reply_was_lost_is_accepted_all_the_same(
    shrunk: World,
) -> None:
    """In Kafka the write, sent again, finds itself and is refused; the leader waits for ever."""
    shrunk.catch_up(ORDERS_0)
    controller = shrunk.pause_controller_at(FencedBatch)
    controller.resume()
    shrunk.run_until(lambda: shrunk.state_znode("orders", 0).in_sync_replicas == (2, 3))

    shrunk.break_connection(1)
    shrunk.run_until_quiet()

    assert shrunk.living[2].broker.hosted[ORDERS_0].isr == (2, 3)
    assert shrunk.living[1].broker.metadata[ORDERS_0].isr == (2, 3)


# ---------------------------------------------------------------------- verdicts, in their order


def test_a_shrunk_isr_costs_a_partition_epoch_and_no_leader_epoch(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.forget_requests()

    assert code(world, isr_change(world, ORDERS_0, [2])) == ErrorCode.none

    assert state_bytes(world) == (
        b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2]}',
        1,
    )
    for broker_id in (1, 2, 3):
        (told,) = world.received(broker_id, ReceivedUpdateMetadata)
        assert told.partitions[ORDERS_0].isr == (2,)
        assert world.received(broker_id, ReceivedLeaderAndIsr) == []


@pytest.mark.parametrize("partition_epoch", [0, -1], ids=["new epoch", "old epoch"])
def test_what_stands_already_is_granted_again_without_a_write(
    world: World, partition_epoch: int
) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    code(world, isr_change(world, ORDERS_0, [2]))
    before = state_bytes(world)

    change = isr_change(world, ORDERS_0, [2], partition_epoch=partition_epoch)

    assert code(world, change) == ErrorCode.none
    assert state_bytes(world) == before


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ({"partition_epoch": 1}, ErrorCode.not_controller),
        ({"leader_epoch": 1}, ErrorCode.not_controller),
        ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ({"recovery": RECOVERING}, ErrorCode.invalid_request),
        ({"leader_epoch": -1, "partition_epoch": 1}, ErrorCode.not_controller),
        ({"leader_epoch": -1, "partition_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": 1, "recovery": RECOVERING}, ErrorCode.not_controller),
        ({"leader_epoch": -1, "recovery": RECOVERING}, ErrorCode.fenced_leader_epoch),
        ({"partition_epoch": -1, "recovery": RECOVERING}, ErrorCode.invalid_update_version),
    ],
    ids=str,
)
def test_a_wrong_epoch_counts_before_a_wrong_recovery_state(
    shrunk: World, wrong: dict[str, int], verdict: int
) -> None:
    before = state_bytes(shrunk)

    assert code(shrunk, isr_change(shrunk, ORDERS_0, [2, 3], **wrong)) == verdict
    assert state_bytes(shrunk) == before


def test_a_refused_recovery_state_is_logged_with_the_state_that_was_asked_for(
    shrunk: World,
) -> None:
    code(shrunk, isr_change(shrunk, ORDERS_0, [2, 3], recovery=RECOVERING))

    assert shrunk.controller is not None
    assert [
        line.message
        for line in shrunk.controller.log_lines
        if line.level == "INFO" and "Rejecting" in line.message
    ] == [
        "[Controller id=1] Rejecting AlterPartition from node 2 for orders-0 because leader is"
        " recovering and ISR is greater than 1: LeaderAndIsr(leader=2, leaderEpoch=1,"
        " isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1),"
        " BrokerState(brokerId=3, brokerEpoch=-1)), leaderRecoveryState=RECOVERING,"
        " partitionEpoch=1)"
    ]


def test_unknown_topics_and_partitions_have_their_own_codes(shrunk: World) -> None:
    known = isr_change(shrunk, ORDERS_0, [2, 3])

    assert code(shrunk, known._replace(topic=UUID(int=99))) == ErrorCode.unknown_topic_id
    assert code(shrunk, known._replace(partition=7)) == ErrorCode.unknown_topic_or_partition
    assert code(shrunk, known._replace(partition=-1)) == ErrorCode.unknown_topic_or_partition
    by_name = known._replace(topic="nowhere")
    assert code(shrunk, by_name, api_version=1) == ErrorCode.unknown_topic_or_partition
    assert code(shrunk, known._replace(topic="orders"), api_version=1) == ErrorCode.none


@pytest.mark.parametrize("api_version", range(4))
def test_a_controller_gone_back_to_2_7_still_knows_topics_by_the_ids_they_have(
    world: World, api_version: int
) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.settings["inter_broker_protocol_version"] = "2.7-IV2"
    world.stop(1)
    world.start_brokers(1)
    for broker_id in (2, 3):
        world.stop(broker_id)
        world.start_brokers(broker_id)
    world.settle()
    assert world.topic_znode("orders").topic_id is not None
    leader = world.state_znode("orders", 0).leader
    topic = "orders" if api_version < 2 else None

    change = isr_change(world, ORDERS_0, [leader], topic=topic)
    response = ask(
        world,
        AlterPartitionResult,
        alter_partition(world, leader, change, api_version=api_version),
    )

    assert [result.error_code for result in response.results] == [ErrorCode.none]
    assert world.state_znode("orders", 0).in_sync_replicas == (leader,)


@pytest.mark.parametrize(
    ("api_version", "verdict"),
    [
        (0, ErrorCode.operation_not_attempted),
        (1, ErrorCode.operation_not_attempted),
        (2, ErrorCode.ineligible_replica),
    ],
)
def test_a_replica_that_is_not_alive_is_not_let_in(
    shrunk: World, api_version: int, verdict: int
) -> None:
    shrunk.stop(3)
    shrunk.settle()
    topic = "orders" if api_version < 2 else None

    change = isr_change(shrunk, ORDERS_0, [2, 3], topic=topic)

    assert code(shrunk, change, api_version=api_version) == verdict
    assert any("specified ineligible replicas Set(3)" in line for line in shrunk.log(1, "INFO"))


def test_a_replica_that_is_shutting_down_is_not_let_in(shrunk: World) -> None:
    shrunk.shut_down(3)
    shrunk.run_until_quiet()

    assert code(shrunk, isr_change(shrunk, ORDERS_0, [2, 3])) == ErrorCode.ineligible_replica


def test_who_holds_no_replica_does_not_come_into_the_isr(shrunk: World) -> None:
    """A leader that missed the end of a move asks for it; Kafka writes it."""
    before = state_bytes(shrunk)

    assert code(shrunk, isr_change(shrunk, ORDERS_0, [2, 1])) == ErrorCode.ineligible_replica

    assert state_bytes(shrunk) == before
    assert any("specified ineligible replicas Set(1)" in line for line in shrunk.log(1, "INFO"))


def test_a_leader_that_is_shutting_down_may_change_its_isr(shrunk: World) -> None:
    shrunk.shut_down(2)
    shrunk.run_until_quiet()

    assert code(shrunk, isr_change(shrunk, ORDERS_0, [2])) == ErrorCode.none


@pytest.mark.parametrize("off_by", [-1, 1])
def test_another_broker_epoch_is_stale_whether_older_or_newer(shrunk: World, off_by: int) -> None:
    epoch = shrunk.living[2].broker.broker_epoch + off_by
    change = isr_change(shrunk, ORDERS_0, [2, 3])

    response = ask(
        shrunk, AlterPartitionResult, alter_partition(shrunk, 2, change, broker_epoch=epoch)
    )

    assert response == AlterPartitionResult(ErrorCode.stale_broker_epoch)


def test_an_unknown_broker_is_stale(shrunk: World) -> None:
    change = isr_change(shrunk, ORDERS_0, [2, 3])
    response = ask(
        shrunk, AlterPartitionResult, lambda i: AlterPartitionReceived(9, 1, 3, (change,), i)
    )

    assert response == AlterPartitionResult(ErrorCode.stale_broker_epoch)


def test_a_recovery_state_that_does_not_exist_refuses_the_whole_request(shrunk: World) -> None:
    good = isr_change(shrunk, ORDERS_0, [2, 3])
    bad = good._replace(leader_recovery_state=25)
    before = state_bytes(shrunk)

    response = ask(shrunk, AlterPartitionResult, alter_partition(shrunk, 2, good, bad))

    assert response == AlterPartitionResult(ErrorCode.unknown_server_error)
    assert state_bytes(shrunk) == before


def test_a_broker_that_is_not_the_controller_refuses(shrunk: World) -> None:
    change = isr_change(shrunk, ORDERS_0, [2, 3])

    response = ask(shrunk, AlterPartitionResult, alter_partition(shrunk, 2, change), to=3)

    assert response == AlterPartitionResult(ErrorCode.not_controller)


def test_a_recovering_leader_has_no_company_and_then_recovers(world: World) -> None:
    world.settings["unclean_leader_election_enable"] = True
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.stop(3)
    world.settle()
    world.stop(2)
    world.settle()
    world.start_brokers(3)
    world.settle()
    assert world.state_znode("orders", 0).leader_recovery_state == RECOVERING
    world.start_brokers(2)

    def asked(isr: list[int], recovery: int) -> int:
        change = isr_change(world, ORDERS_0, isr, recovery=recovery)
        response = ask(world, AlterPartitionResult, alter_partition(world, 3, change))
        return response.results[0].error_code

    assert asked([3, 2], RECOVERING) == ErrorCode.invalid_request
    assert asked([3], RECOVERED) == ErrorCode.none
    assert asked([3, 2], RECOVERED) == ErrorCode.none
    assert asked([3, 2], RECOVERING) == ErrorCode.invalid_request
    assert world.state_znode("orders", 0).in_sync_replicas == (3, 2)


def test_every_broker_gets_refused_partitions_too(shrunk: World) -> None:
    shrunk.forget_requests()

    code(shrunk, isr_change(shrunk, ORDERS_0, [2, 3], leader_epoch=-1))

    for broker_id in (1, 2, 3):
        (told,) = shrunk.received(broker_id, ReceivedUpdateMetadata)
        assert list(told.partitions) == [ORDERS_0]


def test_verdicts_stand_in_the_order_of_the_request(shrunk: World) -> None:
    good = isr_change(shrunk, ORDERS_0, [2, 3])
    unknown = good._replace(topic=UUID(int=5))

    response = ask(shrunk, AlterPartitionResult, alter_partition(shrunk, 2, unknown, good, unknown))

    assert [result.error_code for result in response.results] == [
        ErrorCode.unknown_topic_id,
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
    ]


def held_up(world: World, happens: Callable[[], None]) -> AlterPartitionResult:
    """Broker 2 widens the ISR; something happens just before the controller writes it."""
    change = isr_change(world, ORDERS_0, [2, 3])
    request_id = put(world, alter_partition(world, 2, change))
    controller = world.pause_controller_at(FencedBatch)
    happens()
    controller.resume()
    world.run_until(lambda: world.result(request_id) is not None)
    result = world.result(request_id)
    assert isinstance(result, AlterPartitionResult)
    return result


def test_a_state_written_meanwhile_by_another_is_not_overwritten(shrunk: World) -> None:
    path = PartitionStateZnode.path(*ORDERS_0)
    other = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2,9]}'

    response = held_up(shrunk, lambda: shrunk.write(SetData(path, other)))

    assert [result.error_code for result in response.results] == [ErrorCode.invalid_update_version]
    assert state_bytes(shrunk)[0] == other


def test_a_controller_that_moved_answers_that_something_went_wrong(shrunk: World) -> None:
    epoch = ControllerEpochZnode.encode(shrunk.controller_epoch)
    before = state_bytes(shrunk)

    response = held_up(shrunk, lambda: shrunk.write(SetData(ControllerEpochZnode.PATH, epoch)))

    assert response == AlterPartitionResult(ErrorCode.unknown_server_error)
    assert state_bytes(shrunk) == before
    assert shrunk.living[1].ended_with is ControllerMoved


def test_the_answer_comes_before_the_reassignment_it_completes(shrunk: World) -> None:
    shrunk.start_brokers(4)
    shrunk.ask_for_reassignment({ORDERS_0: [2, 4]})
    shrunk.run_until_quiet()
    change = isr_change(shrunk, ORDERS_0, [2, 4])
    request_id = put(shrunk, alter_partition(shrunk, 2, change))

    shrunk.run_until(lambda: shrunk.result(request_id) is not None)

    assert shrunk.topic_znode("orders").partitions[0].is_being_reassigned
    shrunk.run_until_quiet()
    assert not shrunk.topic_znode("orders").partitions[0].is_being_reassigned


# ---------------------------------------------------------------------- below protocol 2.7-IV2


@pytest.fixture
def old(world: World) -> World:
    """A cluster whose leaders write their ISRs themselves."""
    world.settings["inter_broker_protocol_version"] = "2.7-IV1"
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    return world


def write_isr(world: World, isr: bytes, *, leader: int = 2) -> None:
    """As the leader does it: the state znode, leader epoch unchanged."""
    state = world.state_znode("orders", 0)
    data = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%s]}' % (
        leader,
        state.leader_epoch,
        isr,
    )
    world.write(SetData(PartitionStateZnode.path(*ORDERS_0), data))


def notify(world: World, data: bytes | None = None) -> None:
    if data is None:
        data = IsrChangeNotificationSequenceZnode((ORDERS_0,)).encode()
    path = IsrChangeNotificationSequenceZnode.CREATE_PATH
    world.write(Create(path, data, sequential=True))


def notifications(world: World) -> list[str]:
    return list(world.zookeeper.peek_children(IsrChangeNotificationZnode.PATH))


def test_a_notification_updates_every_broker_and_is_deleted(old: World) -> None:
    for isr in (b"2", b"2,3"):
        old.forget_requests()
        write_isr(old, isr)
        notify(old)
        old.run_until_quiet()

        for broker_id in (1, 2, 3):
            (told,) = old.received(broker_id, ReceivedUpdateMetadata)
            assert told.partitions[ORDERS_0].isr == tuple(map(int, isr.split(b",")))
        assert notifications(old) == []


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1}'])
def test_a_corrupt_notification_is_removed_and_those_beside_it_count(
    old: World, data: bytes
) -> None:
    write_isr(old, b"2")
    notify(old, data)
    notify(old)
    old.run_until_quiet()

    assert notifications(old) == []
    assert old.living[3].broker.metadata[ORDERS_0].isr == (2,)
    assert old.failures == []


def test_a_notification_of_an_unknown_partition_is_removed(old: World) -> None:
    notify(old, b'{"version":1,"partitions":[{"topic":"nowhere","partition":3}]}')
    old.run_until_quiet()

    assert notifications(old) == []
    assert old.failures == []


def test_a_move_completes_when_the_leader_has_written_the_targets_into_the_isr(old: World) -> None:
    old.start_brokers(4)
    old.ask_for_reassignment({ORDERS_0: [2, 4]})
    old.run_until_quiet()

    write_isr(old, b"2,3")  # another change of the ISR uses the watch up and leaves the next
    old.run_until_quiet()
    write_isr(old, b"2,3,4")
    old.run_until_quiet()

    assert old.topic_znode("orders").partitions[0].replicas == (2, 4)
    assert old.zookeeper.peek(ReassignPartitionsZnode.PATH) is None
    assert old.state_znode("orders", 0).in_sync_replicas == (2, 4)
