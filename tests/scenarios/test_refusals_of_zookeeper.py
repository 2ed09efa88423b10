"""ZooKeeper refuses: only NO_NODE means that there is nothing, every other code is a failure."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import IllegalState
from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.scenarios.orders import start_with_orders
from tests.scenarios.requests import alter_partition, ask, isr_change
from zkcontroller.core.controller import REGISTRATION_RETRY_MS
from zkcontroller.core.effects import AlterPartitionResult, ControlledShutdownResult
from zkcontroller.core.events import Reelect
from zkcontroller.core.failover import ELECTION_RETRY_MS
from zkcontroller.core.refused_partitions import FIRST_RETRY_MS, LONGEST_RETRY_MS
from zkcontroller.core.tools import BUSY_PAUSE_MS, BUSY_TRIES
from zkcontroller.zookeeper.requests import Create, Delete, SetData, ZkCode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    FeatureStatus,
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    TopicZnode,
    encode_partition_state,
)
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)
IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CODES = [ZkCode.NO_AUTH, ZkCode.SYSTEM_ERROR, ZkCode.THROTTLED_OP, ZkCode.MARSHALLING_ERROR]


@pytest.fixture
def orders(world: World) -> World:
    """Three brokers, of which 1 is the controller, and a topic that 2 leads."""
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    return world


def come_to_rest(world: World) -> None:
    """ZooKeeper obeys again, and what waits for that has happened."""
    world.refused.clear()
    world.run_for(ELECTION_RETRY_MS + 1_000)
    world.settle()
    world.invariants.check_memory()


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.parametrize("path", [IDS, BrokerIdZnode.path(2), BrokerIdZnode.path(3)])
def test_a_refused_look_at_the_brokers_takes_none_of_them_for_dead(
    orders: World, path: str, code: ZkCode
) -> None:
    before = orders.state_znode("orders", 0)
    orders.refused[path] = code

    orders.start(4)
    orders.run_for(3_000)
    assert orders.state_znode("orders", 0) == before
    come_to_rest(orders)

    assert orders.state_znode("orders", 0) == before


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.parametrize("path", [TOPICS, TopicZnode.path("orders"), TopicZnode.path("refunds")])
def test_a_refused_look_at_the_topics_forgets_none_of_them(
    orders: World, path: str, code: ZkCode
) -> None:
    orders.refused[path] = code

    orders.create_topic("refunds", replicas=[[3, 2]])
    orders.run_for(3_000)
    come_to_rest(orders)

    assert orders.state_znode("refunds", 0).leader == 3
    orders.kill(2)
    orders.settle()
    assert orders.state_znode("orders", 0).leader == 3


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_failover_that_cannot_read_a_state_does_not_take_the_partition_for_new(
    orders: World, code: ZkCode
) -> None:
    orders.refused["/brokers/topics/orders/partitions/0/state"] = code

    orders.delete_controller_znode()
    orders.run_for(1_000)
    come_to_rest(orders)

    assert orders.state_znode("orders", 0).leader == 2


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.parametrize(
    "path", [TopicZnode.path("secret"), "/brokers/topics/secret/partitions/0/state"]
)
def test_a_failover_leaves_out_what_it_may_not_read_and_takes_it_in_later(
    orders: World, path: str, code: ZkCode
) -> None:
    orders.create_topic("secret", replicas=[[3, 2]])
    orders.settle()
    orders.refused[path] = code

    orders.delete_controller_znode()
    orders.run_for(600_000)
    assert orders.controller_epoch == 2, "one unreadable znode costs no controller"
    orders.kill(2)
    orders.run_for(orders.session_timeout_ms + 3_000)
    assert orders.state_znode("orders", 0).leader == 3, "the other topics are looked after"
    assert any(f"Cannot read {path}" in line for b in (1, 2, 3) for line in orders.log(b, "ERROR"))
    orders.kill(3)
    orders.start(4)
    orders.start(2)
    orders.run_for(orders.session_timeout_ms + 3_000)
    orders.refused.clear()
    orders.run_for(LONGEST_RETRY_MS + 1_000)

    orders.invariants.check_memory()
    orders.invariants.check_leaders()
    orders.start(3)
    orders.settle()
    assert orders.state_znode("secret", 0).leader in (2, 3)


def test_an_isr_asked_for_while_the_topic_cannot_be_read_is_asked_for_again(orders: World) -> None:
    """Were the topic said to be unknown, its leader would wait for a new leader epoch for ever."""
    orders.stop(3)
    orders.settle()
    orders.start(3)
    orders.settle()
    orders.refused[TopicZnode.path("orders")] = ZkCode.NO_AUTH
    orders.delete_controller_znode()
    orders.run_for(3_000)

    orders.catch_up(ORDERS_0)
    orders.run_for(1_000)
    assert orders.state_znode("orders", 0).in_sync_replicas == (2,)
    # The next controller can read it, and finds nothing to change.
    orders.refused.clear()
    orders.delete_controller_znode()
    orders.settle()
    orders.catch_up(ORDERS_0)
    orders.run_until_quiet()

    assert orders.state_znode("orders", 0).in_sync_replicas == (2, 3)


def test_a_request_to_delete_a_topic_waits_until_the_topic_can_be_read(orders: World) -> None:
    orders.refused[TopicZnode.path("orders")] = ZkCode.NO_AUTH
    orders.delete_controller_znode()
    orders.run_for(3_000)

    orders.delete_topic("orders")
    orders.run_until_quiet()
    assert orders.zookeeper.peek(DeleteTopicZnode.path("orders")) is not None
    orders.refused.clear()
    orders.run_for(LONGEST_RETRY_MS + 1_000)
    orders.settle()

    assert orders.zookeeper.peek(DeleteTopicZnode.path("orders")) is None
    assert orders.zookeeper.peek(TopicZnode.path("orders")) is None


def test_a_move_of_a_topic_that_was_left_out_ends_once_the_topic_can_be_read(orders: World) -> None:
    orders.ask_for_reassignment({ORDERS_0: [3, 1]})
    orders.settle()
    orders.refused[TopicZnode.path("orders")] = ZkCode.NO_AUTH
    orders.delete_controller_znode()
    orders.run_for(3_000)

    orders.refused.clear()
    orders.run_for(LONGEST_RETRY_MS + 1_000)
    orders.catch_up(ORDERS_0)
    orders.settle()

    assert orders.topic_znode("orders").partitions[0] == ReplicaAssignment((3, 1))


def test_failovers_that_fail_again_and_again_follow_each_other_after_a_pause(orders: World) -> None:
    orders.refused["/admin/delete_topics"] = ZkCode.NO_AUTH

    orders.delete_controller_znode()
    orders.run_for(20 * ELECTION_RETRY_MS)

    assert 2 < orders.controller_epoch <= 22
    come_to_rest(orders)


@pytest.mark.parametrize(
    "path",
    [
        "/feature",
        "/admin/delete_topics",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/controller_epoch",
        "/controller",
    ],
)
def test_a_failover_that_is_refused_a_read_is_made_good_by_a_later_one(
    orders: World, path: str
) -> None:
    orders.refused[path] = ZkCode.NO_AUTH

    orders.delete_controller_znode()
    orders.run_for(1_000)
    come_to_rest(orders)

    failed = [line for b in (1, 2, 3) for line in orders.log(b, "ERROR")]
    assert any(path in line for line in failed)
    assert orders.active_controller is not None


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
@pytest.mark.parametrize("path", ["", "/0", "/0/state"])
def test_a_new_partition_that_was_refused_gets_its_leader_from_the_same_controller(
    orders: World, path: str, code: ZkCode
) -> None:
    epoch = orders.controller_epoch
    orders.refused["/brokers/topics/refunds/partitions" + path] = code

    orders.create_topic("refunds", replicas=[[3, 2]])
    orders.run_for(3_000)
    assert not orders.has_state_znode("refunds", 0)
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)

    assert orders.state_znode("refunds", 0).leader == 3
    assert orders.controller_epoch == epoch
    orders.settle()


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_refused_election_is_held_again_by_the_same_controller(
    orders: World, code: ZkCode
) -> None:
    epoch = orders.controller_epoch
    orders.refused["/brokers/topics/orders/partitions/0/state"] = code

    orders.kill(2)
    orders.run_for(orders.session_timeout_ms + 3_000)
    assert orders.state_znode("orders", 0).leader == 2
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)

    assert orders.state_znode("orders", 0).leader == 3
    assert orders.controller_epoch == epoch


def test_an_unclean_election_waits_for_a_setting_that_can_be_read(orders: World) -> None:
    orders.allow_unclean_elections("orders")
    orders.kill(3)
    orders.settle()
    orders.start(3)
    orders.settle()
    assert orders.state_znode("orders", 0).in_sync_replicas == (2,)
    orders.refused[ConfigZnode.topic_path("orders")] = ZkCode.SYSTEM_ERROR

    orders.kill(2)
    orders.run_for(orders.session_timeout_ms + 3_000)
    assert orders.state_znode("orders", 0).leader == -1
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)

    assert orders.state_znode("orders", 0).leader == 3


def test_refused_elections_are_tried_ever_more_rarely_until_they_succeed(orders: World) -> None:
    path = "/brokers/topics/refunds/partitions/0/state"

    def pauses() -> list[int]:
        found = (re.search(r"trying again in (\d+) ms", line) for line in orders.log(1, "WARN"))
        return [int(match[1]) for match in found if match]

    orders.refused[path] = ZkCode.NO_AUTH
    orders.create_topic("refunds", replicas=[[3]])
    orders.run_for(3 * LONGEST_RETRY_MS)
    doubling = [FIRST_RETRY_MS * 2**at for at in range(6)]
    assert pauses() == [*doubling, LONGEST_RETRY_MS, LONGEST_RETRY_MS]

    orders.refused.clear()
    orders.run_for(LONGEST_RETRY_MS)
    assert orders.state_znode("refunds", 0).leader == 3

    # What is refused later begins with the shortest pause again.
    orders.refused["/brokers/topics/returns/partitions/0/state"] = ZkCode.NO_AUTH
    orders.create_topic("returns", replicas=[[3]])
    orders.run_for(1_000)
    assert pauses()[-1] == FIRST_RETRY_MS


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_the_end_of_a_reassignment_that_was_refused_is_written_by_the_same_controller(
    orders: World, code: ZkCode
) -> None:
    epoch, moved = orders.controller_epoch, TopicPartition("orders", 0)
    orders.ask_for_reassignment({moved: [3, 1]})
    orders.settle()
    assert orders.topic_znode("orders").partitions[0].is_being_reassigned
    orders.refused[TopicZnode.path("orders")] = code

    orders.catch_up(moved)
    orders.run_for(3_000)
    assert orders.topic_znode("orders").partitions[0].is_being_reassigned
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)

    assert orders.topic_znode("orders").partitions[0] == ReplicaAssignment((3, 1))
    assert orders.controller_epoch == epoch
    orders.settle()
    orders.invariants.check_memory()


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_leader_learns_of_its_new_replicas_though_the_leader_epoch_was_refused(
    orders: World, code: ZkCode
) -> None:
    epoch, moved = orders.controller_epoch, TopicPartition("orders", 0)
    orders.refused["/brokers/topics/orders/partitions/0/state"] = code

    orders.ask_for_reassignment({moved: [3, 1]})
    orders.run_for(3_000)
    assert orders.living[2].broker.hosted[moved].replicas == (2, 3)
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)
    assert orders.living[2].broker.hosted[moved].replicas == (3, 1, 2)
    orders.catch_up(moved)
    orders.settle()

    assert orders.topic_znode("orders").partitions[0] == ReplicaAssignment((3, 1))
    assert orders.controller_epoch == epoch


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_refused_registration_in_a_new_session_is_repeated_until_it_succeeds(
    orders: World, code: ZkCode
) -> None:
    orders.refused[BrokerIdZnode.path(1)] = code

    orders.expire_session(broker=1)
    orders.run_for(3 * REGISTRATION_RETRY_MS)
    assert orders.zookeeper.peek(BrokerIdZnode.path(1)) is None
    assert orders.active_controller in (2, 3)
    orders.delete_controller_znode()
    orders.run_for(3_000)
    assert orders.active_controller in (2, 3), "a broker that counts as dead does not rule"
    orders.refused.clear()
    orders.run_for(REGISTRATION_RETRY_MS + 1_000)

    assert orders.zookeeper.peek(BrokerIdZnode.path(1)) is not None
    orders.settle()


def test_a_write_that_landed_and_whose_repetition_was_refused_is_found_out(orders: World) -> None:
    """Its reply was lost.  Else the leader's next change of the ISR would be refused for ever."""
    path, led = "/brokers/topics/orders/partitions/0/state", TopicPartition("orders", 0)
    epoch, before = orders.controller_epoch, orders.state_znode("orders", 0)
    assert before.in_sync_replicas == (2, 3)
    orders.write(SetData(path, encode_partition_state(2, before.leader_epoch, (2,), epoch, 0)))
    orders.refused[path] = ZkCode.SYSTEM_ERROR

    orders.fall_behind(led, 3)
    orders.run_for(1_000)
    orders.refused.clear()
    orders.run_for(FIRST_RETRY_MS + 1_000)
    orders.invariants.check_memory()
    assert orders.state_znode("orders", 0).in_sync_replicas == (2,)
    orders.catch_up(led)
    orders.run_until_quiet()

    after = orders.state_znode("orders", 0)
    assert after.in_sync_replicas == (2, 3)
    assert after.leader_epoch == before.leader_epoch + 1
    assert orders.controller_epoch == epoch


def test_a_busy_zookeeper_is_asked_again_and_costs_no_controller(orders: World) -> None:
    epoch = orders.controller_epoch
    orders.refused[IDS] = ZkCode.THROTTLED_OP

    orders.start(4)
    orders.run_for(BUSY_PAUSE_MS * BUSY_TRIES // 2)
    orders.refused.clear()
    orders.settle()

    assert orders.controller_epoch == epoch
    assert orders.failures == []


def test_a_controller_whose_successor_is_in_office_already_keeps_nothing(orders: World) -> None:
    """Elected again it would have channels and topics of its former life."""
    deposed = orders.living[1]
    deposed.pause()
    orders.delete_controller_znode()
    orders.run_until(lambda: orders.active_controller not in (None, 1))
    context = deposed.controller.context
    assert context.epoch

    def contradict(_: object) -> None:
        raise IllegalState("the bookkeeping contradicts itself")

    context.queue_for_deletion = contradict  # type: ignore[assignment, method-assign]
    deposed.resume()
    orders.settle()

    assert context.epoch == 0
    assert not context.table.topics
    assert not deposed.channels


def test_a_controller_that_cannot_ask_who_rules_resigns_all_the_same(orders: World) -> None:
    orders.refused = {IDS: ZkCode.NO_AUTH, ControllerZnode.PATH: ZkCode.NO_AUTH}

    orders.start(4)
    orders.run_for(2_000)

    assert orders.living[1].controller.context.epoch == 0
    assert not orders.living[1].controller.is_active
    come_to_rest(orders)


def test_a_deletion_that_zookeeper_refuses_is_not_reported_as_completed(orders: World) -> None:
    orders.refused[TopicZnode.path("orders")] = ZkCode.NO_AUTH

    orders.delete_topic("orders")
    orders.run_until_quiet()

    assert orders.zookeeper.peek(DeleteTopicZnode.path("orders")) is not None
    assert orders.zookeeper.peek(TopicZnode.path("orders")) is not None
    assert not any("successfully completed" in line for line in orders.log(1))
    assert any("Deletion of topic orders failed" in line for line in orders.log(1, "ERROR"))
    assert orders.active_controller == 1, "one topic's rights cost no controller"

    orders.refused.clear()
    orders.create_topic("refunds", replicas=[[1]])
    orders.run_until_quiet()
    orders.delete_topic("refunds")  # any look at the deletions tries this one again
    orders.settle()

    assert orders.zookeeper.peek(TopicZnode.path("orders")) is None
    assert any("orders successfully completed" in line for line in orders.log(1))


def test_a_topic_whose_deletion_was_refused_keeps_its_replicas(orders: World) -> None:
    """Its znode is written again when partitions are added to it."""
    orders.refused["/brokers/topics/orders/partitions"] = ZkCode.NO_AUTH
    orders.delete_topic("orders")
    orders.run_until_quiet()
    orders.refused.clear()

    orders.add_partitions("orders", [[3]])
    orders.run_until_quiet()

    assert orders.topic_znode("orders").partitions[0].replicas == (2, 3)


@pytest.mark.parametrize(
    "path",
    [ConfigZnode.topic_path("orders"), DeleteTopicZnode.path("orders")],
)
def test_a_request_to_delete_outlives_what_could_not_be_deleted(orders: World, path: str) -> None:
    orders.operator.create_missing([ConfigZnode.topic_path("orders")])
    orders.refused[path] = ZkCode.NO_AUTH

    orders.delete_topic("orders")
    orders.run_until_quiet()
    assert orders.zookeeper.peek(path) is not None
    orders.refused.clear()
    orders.delete_controller_znode()
    orders.settle()

    assert orders.zookeeper.peek(DeleteTopicZnode.path("orders")) is None


@pytest.mark.parametrize(
    "path",
    [
        ConfigZnode.topic_path("orders"),
        TopicZnode.path("orders"),
        "/brokers/topics/orders/partitions/0/state",
        DeleteTopicZnode.path("orders"),
    ],
)
def test_a_deletion_that_was_refused_ends_by_itself_and_leaves_no_configuration(
    orders: World, path: str
) -> None:
    orders.allow_unclean_elections("orders")
    orders.refused[path] = ZkCode.NO_AUTH

    orders.delete_topic("orders")
    orders.run_for(60_000)
    assert orders.zookeeper.peek(DeleteTopicZnode.path("orders")) is not None
    orders.refused.clear()
    orders.run_for(LONGEST_RETRY_MS + 1_000)

    assert orders.controller_epoch == 1
    for gone in (ConfigZnode.topic_path, TopicZnode.path, DeleteTopicZnode.path):
        assert orders.zookeeper.peek(gone("orders")) is None
    orders.create_topic("orders", replicas=[[3, 2]])
    orders.settle()
    assert orders.state_znode("orders", 0).leader == 3


def test_a_feature_znode_that_cannot_be_read_is_not_overwritten(orders: World) -> None:
    found = FeatureZnode({"f": 1}, FeatureStatus.ENABLED, 2).encode()
    orders.write(SetData(FeatureZnode.PATH, found))
    orders.refused[FeatureZnode.PATH] = ZkCode.SYSTEM_ERROR

    orders.delete_controller_znode()
    orders.run_for(1_000)

    znode = orders.zookeeper.peek(FeatureZnode.PATH)
    assert znode is not None
    assert znode.data == found


def corrupt(world: World) -> None:
    world.write(SetData(ControllerEpochZnode.PATH, b"not a number"))


def refuse(world: World) -> None:
    world.refused[ControllerEpochZnode.PATH] = ZkCode.NO_AUTH


@pytest.mark.parametrize("spoil", [corrupt, refuse])
def test_a_repaired_controller_epoch_is_enough_for_the_next_election(
    orders: World, spoil: Callable[[World], None]
) -> None:
    """No watch tells of the repair: the candidates look again after a pause."""
    znode = orders.zookeeper.peek(ControllerEpochZnode.PATH)
    assert znode is not None
    spoil(orders)
    orders.delete_controller_znode()
    orders.run_for(3 * ELECTION_RETRY_MS)
    assert orders.controller_znode is None

    orders.refused.clear()
    orders.write(SetData(ControllerEpochZnode.PATH, znode.data))
    orders.run_for(ELECTION_RETRY_MS + 1_000)

    assert orders.active_controller is not None
    orders.settle()


def test_an_epoch_that_was_rewritten_by_hand_ends_with_a_new_election(orders: World) -> None:
    """``/controller`` still names the controller, and none of its writes lands any more."""
    orders.write(SetData(ControllerEpochZnode.PATH, b"1"))  # another version of the same epoch

    orders.kill(2)
    orders.run_until(lambda: orders.controller_epoch == 2)
    orders.settle()

    assert orders.state_znode("orders", 0).leader == 3


def test_a_refused_fence_of_an_isr_change_ends_with_a_new_election(orders: World) -> None:
    """The leader's changes would be refused for as long as the controller kept its office."""
    orders.invariants.is_isr_sent = False  # AlterPartition tells the leader alone
    orders.write(SetData(ControllerEpochZnode.PATH, b"1"))
    state = orders.state_znode("orders", 0)
    shrink = isr_change(orders, ORDERS_0, [state.leader])

    refused = ask(orders, AlterPartitionResult, alter_partition(orders, state.leader, shrink))
    orders.run_until(lambda: orders.controller_epoch == 2)
    orders.settle()
    shrink = isr_change(orders, ORDERS_0, [state.leader])
    accepted = ask(orders, AlterPartitionResult, alter_partition(orders, state.leader, shrink))

    assert refused == AlterPartitionResult(ErrorCode.unknown_server_error)
    assert [result.error_code for result in accepted.results] == [ErrorCode.none]


def test_a_refused_fence_of_a_controlled_shutdown_ends_with_a_new_election(orders: World) -> None:
    orders.write(SetData(ControllerEpochZnode.PATH, b"1"))

    refused = orders.shut_down(orders.state_znode("orders", 0).leader)
    orders.run_until(lambda: orders.controller_epoch == 2)
    orders.settle()

    assert orders.result(refused) == ControlledShutdownResult(ErrorCode.stale_controller_epoch)


def test_a_successors_znode_is_not_deleted_by_one_that_finds_its_own_stale_one(
    world: World,
) -> None:
    """Every ``/controller`` has version 0: only the epoch tells one from the next."""
    world.start_brokers(1, 2)
    stale = world.zookeeper.peek(ControllerZnode.PATH)
    assert stale is not None
    sleeper = world.living[1]
    sleeper.controller.context.epoch = 0  # it does not act, and its znode stands
    world.put(1, Reelect())
    world.pause_at(sleeper, _deletes)
    world.operator.write(Delete(ControllerZnode.PATH))
    world.run_until(lambda: world.active_controller == 2)

    sleeper.resume()
    world.run_until_quiet()

    assert world.controller_znode == 2


def _deletes(asked: object) -> bool:
    operations = getattr(asked, "operations", ())
    return any(
        isinstance(each, Delete) and each.path == ControllerZnode.PATH for each in operations
    )


def test_after_a_notification_that_cannot_be_read_every_state_is_read_again(orders: World) -> None:
    epoch = orders.controller_epoch
    tp = TopicPartition("orders", 0)
    data = IsrChangeNotificationSequenceZnode((tp,)).encode()
    orders.refused["/isr_change_notification/isr_change_0000000000"] = ZkCode.SYSTEM_ERROR

    orders.write(Create(IsrChangeNotificationSequenceZnode.CREATE_PATH, data, sequential=True))
    orders.run_for(1_000)
    come_to_rest(orders)

    assert orders.controller_epoch > epoch


INVALID = ["with space", "x" * 250, "b\u00e4r", "a:b"]


@pytest.mark.parametrize("name", INVALID, ids=["space", "long", "umlaut", "colon"])
def test_an_invalid_topic_name_in_a_znode_is_named_and_nothing_is_done_about_it(
    orders: World, name: str
) -> None:
    invalid = TopicPartition(name, 0)
    orders.write(Create(TopicZnode.path(name), TopicZnode(None, {}).encode()))
    orders.run_until_quiet()
    orders.forget_requests()

    orders.write(Create(DeleteTopicZnode.path(name)))
    orders.run_until_quiet()
    orders.ask_for_reassignment({invalid: [1]})
    orders.run_until_quiet()
    orders.ask_for_preferred_leaders(invalid)
    orders.run_until_quiet()
    data = IsrChangeNotificationSequenceZnode((invalid,)).encode()
    orders.write(Create(IsrChangeNotificationSequenceZnode.CREATE_PATH, data, sequential=True))
    orders.run_until_quiet()
    orders.delete_controller_znode()
    orders.write(Create(DeleteTopicZnode.path(name)))  # found at failover this time
    orders.run_until_quiet()

    named = [line for b in (1, 2, 3) for line in orders.log(b) if name[:200] in line]
    for place in (TOPICS, "delete non-existing", "reassignment", "election", "isr_change", "admin"):
        assert any(place in line for line in named), place
    assert orders.zookeeper.peek(TopicZnode.path(name)) is not None, "it is left alone"
    assert orders.zookeeper.peek_children("/admin/delete_topics") == []
    assert orders.zookeeper.peek("/admin/reassign_partitions") is None
    for broker_id in (1, 2, 3):
        broker = orders.living[broker_id].broker
        sent = {tp.topic for request in broker.received for tp in request.partitions}
        assert sent <= {"orders"}
    assert orders.failures == []
