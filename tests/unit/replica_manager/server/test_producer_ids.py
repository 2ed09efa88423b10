"""InitProducerId and DescribeProducers, and where a broker has producer ids from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import TopicPartition
from replica_manager.request_errors import RequestRefused
from replica_manager.server.producer_ids import (
    RETRY_MS,
    ProducerIdRange,
    ProducerIdsFromController,
    ProducerIdsFromZooKeeper,
)
from tests.support.broker_world import BrokerWorld, metadata
from tests.support.led_partitions import lead
from tests.support.log_world import START_MS, batch
from zkcontroller.zookeeper.requests import SetData
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ProducerIdBlockZnode

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path / "a"])
    world.now_ms = START_MS
    world.update({"orders": {0: metadata(1), 1: metadata(2)}})
    return world


def init(
    world: BrokerWorld,
    version: int = 5,
    transactional_id: str | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> tuple[ErrorCode, int, int]:
    schema = load_payload_module(22, version, EntityType.request)
    known = {"producer_id": producer_id, "producer_epoch": producer_epoch} if version >= 3 else {}
    request = schema.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout=timedelta(minutes=1), **known
    )
    response = asyncio.run(world.ask(request))
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_another_id(world: BrokerWorld, version: int) -> None:
    assert init(world, version) == (ErrorCode.none, 0, 0)
    assert init(world, version) == (ErrorCode.none, 1, 0)


def test_a_producer_that_had_an_id_gets_a_new_one(world: BrokerWorld) -> None:
    assert init(world, producer_id=70, producer_epoch=3) == (ErrorCode.none, 0, 0)
    refused = (ErrorCode.invalid_request, -1, -1)
    assert init(world, producer_id=70) == refused
    assert init(world, producer_epoch=3) == refused


def test_who_does_not_coordinate_a_transactional_id_says_so(world: BrokerWorld) -> None:
    assert init(world, transactional_id="payments") == (ErrorCode.not_coordinator, -1, -1)
    assert init(world, transactional_id="") == (ErrorCode.invalid_request, -1, -1)


class OneByOne:
    """Blocks of a controller that answers when the test says so."""

    def __init__(self, *blocks: ProducerIdRange | Exception) -> None:
        self.blocks = list(blocks)
        self.asked = 0
        self.is_closed = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def allocate(self) -> ProducerIdRange:
        self.asked += 1
        await self.may_answer.wait()
        block = self.blocks.pop(0)
        if isinstance(block, Exception):
            raise block
        return block

    async def close(self) -> None:
        self.is_closed = True


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def take(ids: ProducerIdsFromController) -> int | ErrorCode:
    try:
        return await ids.next_id()
    except RequestRefused as refused:
        return refused.error


NOT_YET = ErrorCode.coordinator_load_in_progress


async def test_who_asks_before_the_controller_has_answered_is_to_ask_again() -> None:
    blocks = OneByOne(ProducerIdRange(3000, 1000))
    ids = ProducerIdsFromController(blocks, lambda: 0)
    blocks.may_answer.clear()
    assert [await take(ids) for _ in range(3)] == [NOT_YET] * 3
    await settle()
    blocks.may_answer.set()
    await settle()
    assert [await take(ids) for _ in range(3)] == [3000, 3001, 3002]
    assert blocks.asked == 1
    await ids.stop()
    assert blocks.is_closed


async def test_the_next_block_is_there_before_the_one_in_use_has_ended() -> None:
    blocks = OneByOne(ProducerIdRange(0, 10), ProducerIdRange(50, 10))
    ids = ProducerIdsFromController(blocks, lambda: 0)
    await take(ids)
    await settle()
    assert [await take(ids) for _ in range(9)] == list(range(9))
    assert blocks.asked == 1
    assert await take(ids) == 9
    await settle()
    assert blocks.asked == 2
    assert await take(ids) == 50


@pytest.mark.parametrize(
    "useless",
    [
        TimeoutError("silence"),
        RequestRefused(ErrorCode.stale_broker_epoch),
        ProducerIdRange(5, 10),
        ProducerIdRange(-10, 10),
        ProducerIdRange(20, 0),
        ProducerIdRange(2**63 - 5, 10),
    ],
)
async def test_a_block_that_cannot_be_used_is_asked_for_again_after_a_while(
    useless: ProducerIdRange | Exception,
) -> None:
    now_ms = 0
    blocks = OneByOne(ProducerIdRange(0, 10), useless, ProducerIdRange(10, 10))
    ids = ProducerIdsFromController(blocks, lambda: now_ms)
    await take(ids)
    await settle()
    assert [await take(ids) for _ in range(10)] == list(range(10))
    await settle()
    assert await take(ids) is NOT_YET
    await settle()
    assert blocks.asked == 2  # not at once
    now_ms = RETRY_MS
    assert await take(ids) is NOT_YET
    await settle()
    assert await take(ids) == 10


def ids_in_zookeeper(world: BrokerWorld, executor: ThreadPoolExecutor, broker_id: int) -> Any:
    return ProducerIdsFromZooKeeper(cast(ZooKeeperSession, world.session), executor, broker_id)


def take_all(ids: Any, count: int) -> Sequence[int]:
    async def run() -> Sequence[int]:
        return [await ids.next_id() for _ in range(count)]

    return asyncio.run(run())


def test_brokers_share_the_blocks_of_zookeeper(
    executor: ThreadPoolExecutor, world: BrokerWorld
) -> None:
    first, second = (ids_in_zookeeper(world, executor, broker) for broker in (1, 2))
    assert take_all(first, 1) == [0]
    assert take_all(second, 2) == [1000, 1001]
    assert take_all(first, 1000)[-2:] == [999, 2000]

    znode = world.znode(ProducerIdBlockZnode.PATH)
    assert znode is not None
    assert ProducerIdBlockZnode.decode(znode.data) == ProducerIdBlockZnode(1, 2000, 2999)


def test_no_ids_are_guessed_while_the_block_in_zookeeper_is_corrupt(world: BrokerWorld) -> None:
    world.session.write(SetData(ProducerIdBlockZnode.PATH, b"{"))
    with ThreadPoolExecutor(1) as executor, pytest.raises(ZnodeCorrupt):
        take_all(ids_in_zookeeper(world, executor, 1), 1)
    assert init(world) == (ErrorCode.unknown_server_error, -1, -1)


def test_the_last_block_is_not_followed_by_another(world: BrokerWorld) -> None:
    last = ProducerIdBlockZnode(3, 2**63 - 1001, 2**63 - 1)
    world.session.write(SetData(ProducerIdBlockZnode.PATH, last.encode()))

    assert init(world)[0] is ErrorCode.unknown_server_error


# DescribeProducers


def describe(world: BrokerWorld, topic: str, *partitions: int) -> Any:
    schema = load_payload_module(61, 0, EntityType.request)
    wanted = schema.TopicRequest(name=topic, partition_indexes=partitions)
    response = asyncio.run(world.ask(schema.DescribeProducersRequest(topics=(wanted,))))
    return response.topics[0].partitions


def test_every_replica_tells_what_it_knows_of_producers(world: BrokerWorld) -> None:
    lead(world, ORDERS)
    log = world.logs.log(ORDERS)
    assert log is not None
    log.append_as_leader(
        batch(3, timestamp=START_MS, producer_id=7, producer_epoch=2, base_sequence=0), 0
    )
    guard = log.start_verification(8, 0, 0)
    transaction = batch(
        2, timestamp=START_MS + 5, producer_id=8, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    log.append_as_leader(transaction, 0, verification_guard=guard)

    for leader, epoch in ((1, 1), (2, 2)):
        lead(world, ORDERS, leader=leader, leader_epoch=epoch)
        (response,) = describe(world, "orders", 0)
        assert response.error_code is ErrorCode.none
        assert [
            (
                each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp,
                each.coordinator_epoch, each.current_txn_start_offset,
            )
            for each in response.active_producers
        ] == [(7, 2, 2, START_MS, -1, -1), (8, 0, 1, START_MS + 5, -1, 3)]  # fmt: skip


def test_producers_of_what_is_not_here_are_not_shown(world: BrokerWorld) -> None:
    def told(topic: str, partition: int) -> tuple[ErrorCode, str | None]:
        (response,) = describe(world, topic, partition)
        assert response.active_producers == ()
        return response.error_code, response.error_message

    assert told("orders", 1) == (ErrorCode.not_leader_or_follower, None)
    assert told("orders", 9) == (ErrorCode.unknown_topic_or_partition, None)
    error, sentence = told("invoices", 0)
    assert error is ErrorCode.unknown_topic_or_partition
    assert sentence == "This server does not host this topic-partition."
    error, sentence = told("no such/topic", 0)
    assert error is ErrorCode.invalid_topic_exception
    assert sentence is not None
    assert "no such/topic" in sentence
