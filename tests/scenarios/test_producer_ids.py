"""Blocks of producer ids: no two are the same, whatever happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from tests.scenarios.requests import ask, put
from zkcontroller.core.effects import ProducerIdBlock
from zkcontroller.core.events import AllocateProducerIds, RequestEvent
from zkcontroller.zookeeper.requests import Delete, FencedBatch, SetData
from zkcontroller.zookeeper.znodes import ProducerIdBlockZnode
from zkcontroller_simulation.world import World

PATH = ProducerIdBlockZnode.PATH
MAX = 2**63 - 1


@pytest.fixture
def cluster(world: World) -> World:
    world.start_brokers(1, 2)
    return world


def request(world: World, broker_id: int, *, off_by: int = 0) -> Callable[[int], RequestEvent]:
    epoch = world.living[broker_id].broker.broker_epoch + off_by
    return lambda request_id: AllocateProducerIds(broker_id, epoch, request_id)


def allocate(world: World, broker_id: int = 2) -> ProducerIdBlock:
    return ask(world, ProducerIdBlock, request(world, broker_id))


def stored(world: World) -> bytes:
    znode = world.zookeeper.peek(PATH)
    assert znode is not None
    return znode.data


def test_blocks_follow_each_other_from_zero_and_are_written_first(cluster: World) -> None:
    assert stored(cluster) == b""

    assert allocate(cluster) == ProducerIdBlock(ErrorCode.none, 0, 1000)
    assert stored(cluster) == b'{"version":1,"broker":2,"block_start":"0","block_end":"999"}'
    assert allocate(cluster, 1) == ProducerIdBlock(ErrorCode.none, 1000, 1000)
    assert stored(cluster) == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'


def test_a_failover_goes_on_where_the_last_controller_stopped(cluster: World) -> None:
    allocate(cluster)
    cluster.expire_session(broker=1)
    cluster.run_until_quiet()

    assert cluster.active_controller == 2
    assert allocate(cluster).start == 1000


def test_a_block_written_meanwhile_by_another_is_not_given_out_again(cluster: World) -> None:
    request_id = put(cluster, request(cluster, 2))
    controller = cluster.pause_controller_at(FencedBatch)
    cluster.write(SetData(PATH, ProducerIdBlockZnode(7, 0, 999).encode()))
    controller.resume()
    cluster.run_until_quiet()

    assert cluster.result(request_id) == ProducerIdBlock(ErrorCode.none, 1000, 1000)


def test_a_lost_reply_costs_a_block_and_never_repeats_one(cluster: World) -> None:
    request_id = put(cluster, request(cluster, 2))
    controller = cluster.pause_controller_at(FencedBatch)
    controller.resume()
    cluster.run_until(lambda: stored(cluster) != b"")
    cluster.break_connection(1)
    cluster.run_until_quiet()

    assert cluster.result(request_id) == ProducerIdBlock(ErrorCode.none, 1000, 1000)


def test_a_missing_znode_is_created(cluster: World) -> None:
    cluster.write(Delete(PATH))

    assert allocate(cluster) == ProducerIdBlock(ErrorCode.none, 0, 1000)


def test_unknown_and_stale_brokers_get_nothing(cluster: World) -> None:
    unknown = ask(cluster, ProducerIdBlock, lambda i: AllocateProducerIds(9, 1, i))
    older = ask(cluster, ProducerIdBlock, request(cluster, 2, off_by=-1))
    newer = ask(cluster, ProducerIdBlock, request(cluster, 2, off_by=1))

    assert unknown == ProducerIdBlock(ErrorCode.broker_id_not_registered)
    assert older == newer == ProducerIdBlock(ErrorCode.stale_broker_epoch)
    assert cluster.controller is not None
    assert [
        line.message
        for line in cluster.controller.log_lines
        if line.level == "WARN" and "AllocateProducerIds" in line.message
    ] == [
        "[Controller id=1] Ignoring AllocateProducerIds due to unknown broker 9",
        *(
            "[Controller id=1] Ignoring AllocateProducerIds due to stale broker epoch"
            f" {cluster.living[2].broker.broker_epoch + off_by} for broker 2"
            for off_by in (-1, 1)
        ),
    ]
    assert stored(cluster) == b""


def test_a_broker_that_is_not_the_controller_refuses(cluster: World) -> None:
    assert ask(cluster, ProducerIdBlock, request(cluster, 2), to=2) == ProducerIdBlock(
        ErrorCode.not_controller
    )


@pytest.mark.parametrize(
    "data", [b"{", b'{"version":1}', b'{"version":1,"broker":1,"block_start":"5","block_end":"1"}']
)
def test_a_corrupt_block_gives_out_nothing_rather_than_something_twice(
    cluster: World, data: bytes
) -> None:
    cluster.write(SetData(PATH, data))

    assert allocate(cluster) == ProducerIdBlock(ErrorCode.unknown_server_error)
    assert stored(cluster) == data


def test_the_last_block_is_given_out_and_no_more(cluster: World) -> None:
    cluster.write(SetData(PATH, ProducerIdBlockZnode(1, MAX - 1999, MAX - 1000).encode()))

    assert allocate(cluster) == ProducerIdBlock(ErrorCode.none, MAX - 999, 1000)
    assert allocate(cluster) == ProducerIdBlock(ErrorCode.unknown_server_error)
