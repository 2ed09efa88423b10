"""Bytes that are no znode, under every path a controller reads: it lives and names the path."""

from __future__ import annotations

import pytest

from tests.scenarios.orders import start_with_orders
from zkcontroller.zookeeper.requests import Create, Delete, SetData, ZkCode
from zkcontroller_simulation.world import World

GARBAGE = [b"", b"not json", b"{}", b"[]", b'{"version":', b"\xff\x00", b'{"version":99}', b"null"]

PATHS = [
    "/brokers/ids/2",
    "/brokers/topics/orders",
    "/brokers/topics/orders/partitions/0/state",
    "/config/topics/orders",
    "/feature",
]


def corrupt(world: World, path: str, data: bytes) -> None:
    """Overwrites the znode, or makes it where it is missing."""
    world.operator.create_missing([path])
    world.write(SetData(path, data))


def names_the_path(world: World, path: str) -> bool:
    """Whether some controller logged an error or a warning with that path."""
    said = [line for b in (1, 2) for level in ("ERROR", "WARN") for line in world.log(b, level)]
    causes = [change.cause or "" for process in world.processes for change in process.state_changes]
    return any(path in line for line in said + causes)


@pytest.fixture
def orders(world: World) -> World:
    """Two brokers and a topic of which broker 2 is a replica."""
    start_with_orders(world, 1, 2, replicas=[[2, 1]])
    return world


@pytest.mark.parametrize("data", GARBAGE, ids=repr)
@pytest.mark.parametrize("path", PATHS)
def test_a_failover_over_a_corrupt_znode_ends_with_a_controller(
    orders: World, path: str, data: bytes
) -> None:
    corrupt(orders, path, data)

    orders.delete_controller_znode()
    orders.run_until_quiet()
    orders.create_topic("healthy", replicas=[[1]])
    orders.run_until_quiet()

    assert orders.active_controller is not None
    assert orders.state_znode("healthy", 0).leader == 1
    assert orders.failures == []


@pytest.mark.parametrize("path", ["/brokers/ids/2", "/brokers/topics/orders"])
def test_a_znode_that_becomes_corrupt_is_named_in_the_log_and_changes_nothing(
    orders: World, path: str
) -> None:
    before = orders.state_znode("orders", 0)

    corrupt(orders, path, b"not json")
    orders.run_until_quiet()

    assert names_the_path(orders, path)
    assert orders.state_znode("orders", 0) == before
    assert orders.failures == []


@pytest.mark.parametrize("path", PATHS[:3])
def test_a_corrupt_znode_found_at_failover_is_named_in_the_log(orders: World, path: str) -> None:
    corrupt(orders, path, b"not json")

    orders.delete_controller_znode()
    orders.run_until_quiet()

    assert names_the_path(orders, path)
    znode = orders.zookeeper.peek(path)
    assert znode is not None
    assert znode.data == b"not json", "the data is left as it is"


def test_an_election_leaves_out_the_partition_whose_state_is_corrupt(orders: World) -> None:
    orders.create_topic("healthy", replicas=[[2, 1]])
    orders.settle()
    path = "/brokers/topics/orders/partitions/0/state"
    corrupt(orders, path, b"not json")

    orders.stop(2)
    orders.run_until_quiet()

    assert orders.state_znode("healthy", 0).leader == 1
    assert names_the_path(orders, path)


def test_a_corrupt_topic_znode_that_is_mended_is_a_topic_again(orders: World) -> None:
    good = orders.zookeeper.peek("/brokers/topics/orders")
    assert good is not None
    corrupt(orders, "/brokers/topics/orders", b"not json")
    orders.delete_controller_znode()
    orders.run_until_quiet()

    orders.write(SetData("/brokers/topics/orders", good.data))
    orders.run_until_quiet()
    orders.delete_controller_znode()
    orders.settle()

    assert orders.state_znode("orders", 0).leader == 2


def test_a_broker_whose_registration_is_damaged_stays_alive(orders: World) -> None:
    corrupt(orders, "/brokers/ids/2", b"not json")

    orders.start(3)  # makes the controller read all registrations
    orders.run_until_quiet()

    assert orders.state_znode("orders", 0).leader == 2
    assert names_the_path(orders, "/brokers/ids/2")


def test_a_registration_that_a_new_controller_found_damaged_counts_once_it_is_mended(
    orders: World,
) -> None:
    good = orders.zookeeper.peek("/brokers/ids/2")
    assert good is not None
    corrupt(orders, "/brokers/ids/2", b"not json")
    orders.stop(1)
    orders.start(3)
    orders.start(1)
    orders.run_until_quiet()

    orders.write(SetData("/brokers/ids/2", b"still not json"))
    orders.run_until_quiet()
    orders.write(SetData("/brokers/ids/2", good.data))
    orders.run_until_quiet()

    assert orders.controller is not None
    assert sorted(orders.controller.controller.context.live_broker_epochs) == [1, 2, 3]
    orders.settle()


def test_a_broker_that_came_back_with_a_damaged_registration_has_died(orders: World) -> None:
    orders.stop(2)
    orders.write(Create("/brokers/ids/2", b"not json"))
    orders.run_until_quiet()

    assert orders.state_znode("orders", 0).leader == 1


def test_a_name_that_is_no_broker_id_is_ignored_and_named(world: World) -> None:
    world.prepare_znodes()
    world.write(Create("/brokers/ids/seven", b"{}"))

    world.start_brokers(1)

    assert world.active_controller == 1
    assert any("/brokers/ids/seven" in line for line in world.log(1, "ERROR"))


@pytest.mark.parametrize("data", [b"not json", b"{}"])
def test_a_corrupt_controller_znode_holds_elections_up_until_it_goes(
    world: World, data: bytes
) -> None:
    """Someone wrote it, and it may be theirs: it is named and left alone."""
    world.prepare_znodes()
    world.write(Create("/controller", data))

    world.start_brokers(1)
    assert world.active_controller is None
    assert names_the_path(world, "/controller")

    world.write(Delete("/controller"))
    world.settle()
    assert world.active_controller == 1


def test_a_corrupt_controller_epoch_is_named_and_no_controller_is_elected(world: World) -> None:
    world.prepare_znodes()
    world.write(Create("/controller_epoch", b"seven"))

    world.start_brokers(1)

    assert world.active_controller is None
    assert names_the_path(world, "/controller_epoch")
    assert isinstance(world.operator.exists("/controller"), ZkCode), "no half-won election stays"
