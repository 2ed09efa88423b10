"""DeleteRecords over the wire format: what is deleted here, and whom the answer waits for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_common.model import TopicPartition
from replica_manager.log.log_config import LogConfig
from replica_manager.log.unified_log import UnifiedLog
from tests.support.broker_world import BrokerWorld, broker, metadata
from tests.support.led_partitions import lead
from tests.support.log_world import batch

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
TIMED_OUT = (ErrorCode.request_timed_out, -1)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path / "a", tmp_path / "b"])
    world.update({"orders": {0: metadata(1), 1: metadata(2)}, OFFSETS.topic: {0: metadata(1)}})
    return world


def filled(world: BrokerWorld, tp: TopicPartition = ORDERS) -> UnifiedLog:
    """Ten records, of which eight are committed."""
    log = world.logs.log(tp)
    assert log is not None
    for _ in range(5):
        log.append_as_leader(batch(2), 0)
    log.update_high_watermark(8)
    return log


async def lead_offsets(world: BrokerWorld) -> None:
    """Leads a partition of groups, which begins to load them."""
    lead(world, OFFSETS, replicas=(1,))


def request(offset: int, *, version: int = 2, timeout_ms: int = 0, **topics: int) -> Any:
    schema = load_payload_module(21, version, EntityType.request)
    return schema.DeleteRecordsRequest(
        timeout=timedelta(milliseconds=timeout_ms),
        topics=tuple(
            schema.DeleteRecordsTopic(
                name=name,
                partitions=(
                    schema.DeleteRecordsPartition(partition_index=partition, offset=offset),
                ),
            )
            for name, partition in (topics or {"orders": 0}).items()
        ),
    )


def answer(response: Any) -> tuple[ErrorCode, int]:
    told = response.topics[0].partitions[0]
    return told.error_code, told.low_watermark


def delete(world: BrokerWorld, offset: int, **wishes: Any) -> tuple[ErrorCode, int]:
    return answer(asyncio.run(world.ask(request(offset, **wishes))))


@pytest.mark.parametrize("version", range(3))
def test_the_only_replica_answers_at_once(world: BrokerWorld, version: int) -> None:
    lead(world, ORDERS, replicas=(1,))
    log = filled(world)

    assert delete(world, 3, version=version) == (ErrorCode.none, 3)

    assert log.log_start_offset == 3
    assert delete(world, 2) == (ErrorCode.none, 3)
    assert delete(world, -1) == (ErrorCode.none, 8)
    assert delete(world, 9)[0] is ErrorCode.offset_out_of_range
    assert delete(world, -2)[0] is ErrorCode.offset_out_of_range
    assert log.log_start_offset == 8


def test_what_must_not_be_deleted_is_refused(world: BrokerWorld) -> None:
    lead(world, ORDERS, replicas=(1,))
    asyncio.run(lead_offsets(world))
    log = filled(world)
    filled(world, OFFSETS)

    assert delete(world, 1, __consumer_offsets=0) == (ErrorCode.invalid_topic_exception, -1)
    assert delete(world, 1, orders=1) == (ErrorCode.not_leader_or_follower, -1)
    assert delete(world, 1, orders=7) == (ErrorCode.unknown_topic_or_partition, -1)
    log.update_config(LogConfig(is_deleted=False, is_compacted=True))
    assert delete(world, 1) == (ErrorCode.policy_violation, -1)
    lead(world, ORDERS, leader=2, leader_epoch=1)
    assert delete(world, 1) == (ErrorCode.not_leader_or_follower, -1)
    assert log.log_start_offset == 0


async def test_the_answer_waits_for_every_live_replica(world: BrokerWorld) -> None:
    partition = lead(world, ORDERS, isr=(1, 2))
    filled(world)
    world.update(brokers=[broker(1), broker(2)])  # 3 is dead

    asking = asyncio.ensure_future(world.ask(request(6, timeout_ms=60_000)))
    await until_waiting(world)
    partition.record_fetch(2, 10, 5, 10, 0)
    world.replicas.partition_changed(ORDERS)
    await asyncio.sleep(0)
    assert not asking.done()
    partition.record_fetch(2, 10, 6, 10, 0)
    world.replicas.partition_changed(ORDERS)
    assert answer(await asking) == (ErrorCode.none, 6)


async def until_waiting(world: BrokerWorld) -> None:
    async with asyncio.timeout(10):
        while not len(world.context.records.deletions):
            await asyncio.sleep(0)


def test_who_waits_too_long_times_out_and_the_records_are_gone_all_the_same(
    world: BrokerWorld,
) -> None:
    partition = lead(world, ORDERS, isr=(1, 2))
    partition.record_fetch(2, 8, 0, 10, 0)
    log = filled(world)

    assert delete(world, 6, timeout_ms=1) == TIMED_OUT

    assert log.log_start_offset == 6
    assert len(world.context.records.deletions) == 0


async def test_a_waiting_client_learns_that_the_leader_has_changed(world: BrokerWorld) -> None:
    lead(world, ORDERS, isr=(1, 2))
    filled(world)

    asking = asyncio.ensure_future(world.ask(request(6, timeout_ms=60_000)))
    await until_waiting(world)
    lead(world, ORDERS, leader=2, leader_epoch=1)
    assert answer(await asking) == (ErrorCode.not_leader_or_follower, -1)


def test_a_log_that_is_on_its_way_to_another_directory_counts_too(world: BrokerWorld) -> None:
    lead(world, ORDERS, replicas=(1,))
    filled(world)
    log = world.logs.log(ORDERS)
    assert log is not None
    target = next(path for path in world.logs.live_log_dirs if path != log.log_dir)
    world.logs.prefer_log_dir(ORDERS, target)
    world.logs.get_or_create(ORDERS, log.config, is_future=True)

    assert delete(world, 6, timeout_ms=1) == (ErrorCode.request_timed_out, 0)
