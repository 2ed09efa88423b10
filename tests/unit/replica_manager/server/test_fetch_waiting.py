"""What ends the waiting of a Fetch request, what does not, and who is sent to another replica.

Source of the behaviours: Kafka ``ReplicaManagerTest``.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.configuration.config import RACK_AWARE_SELECTOR
from replica_manager.replication.control_requests import StopReplicaPartition, StopReplicaRequest
from tests.support.broker_world import CORRELATION_ID, BrokerWorld, broker
from tests.support.fetch_world import (
    NEWEST,
    ORDERS,
    ORDERS_ID,
    fetch,
    fill,
    log_of,
    made,
    offsets,
    request,
    waiting,
)
from tests.support.log_world import batch, end_transaction
from tests.support.steps import completed

BOTH = (1, 2)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    return made(executor, tmp_path)


def lead(world: BrokerWorld, leader: int = 1, leader_epoch: int = 0) -> None:
    """Broker 1, which is the one under test, and broker 2 have replicas, both in sync."""
    world.lead(
        "orders",
        leader=leader,
        topic_id=ORDERS_ID,
        isr=BOTH,
        replicas=BOTH,
        leader_epoch=leader_epoch,
    )


# ---------------------------------------------------------------------- leaders change


@pytest.mark.parametrize("replica_id", [-1, 2])
def test_an_older_leader_epoch_is_fenced_when_this_broker_is_elected_again(
    world: BrokerWorld, replica_id: int
) -> None:
    lead(world, leader_epoch=3)

    response = waiting(
        world,
        lambda: lead(world, leader_epoch=4),
        (0, 0),
        leader_epoch=3,
        replica_id=replica_id,
    )

    assert response.error_code is ErrorCode.fenced_leader_epoch
    assert response.high_watermark == -1


@pytest.mark.parametrize("version", [4, 10])
def test_an_old_client_learns_that_this_broker_follows_now(
    world: BrokerWorld, version: int
) -> None:
    lead(world)

    response = waiting(world, lambda: lead(world, 2, leader_epoch=1), (0, 0), version=version)

    assert response.error_code is ErrorCode.not_leader_or_follower


def test_a_client_that_may_read_from_followers_is_fenced_by_its_epoch(world: BrokerWorld) -> None:
    lead(world)

    response = waiting(world, lambda: lead(world, 2, leader_epoch=1), (0, 0), leader_epoch=0)

    assert response.error_code is ErrorCode.fenced_leader_epoch


def test_a_client_that_may_read_from_followers_and_names_no_epoch_waits_on(
    world: BrokerWorld,
) -> None:
    lead(world)

    async def follow() -> None:
        lead(world, 2, leader_epoch=1)
        assert len(world.reads.waiting) == 1
        log_of(world).append_as_follower(batch(2))
        log_of(world).update_high_watermark(2)
        world.replicas.partition_changed(ORDERS)

    response = waiting(world, follow, (0, 0))

    assert (response.error_code, offsets(response.records)) == (ErrorCode.none, [0, 1])


@pytest.mark.parametrize("replica_id", [-1, 2])
def test_a_partition_that_is_deleted_here_ends_the_waiting(
    world: BrokerWorld, replica_id: int
) -> None:
    lead(world)

    def delete() -> None:
        order = StopReplicaPartition(0, delete_partition=True)
        response = completed(
            world.replicas.stop_replicas(
                StopReplicaRequest(1, 1, -1, {ORDERS: order}), CORRELATION_ID
            )
        )
        assert response.partitions == {ORDERS: ErrorCode.none}

    response = waiting(world, delete, (0, 0), replica_id=replica_id)

    assert response.error_code is ErrorCode.not_leader_or_follower


# ---------------------------------------------------------------------- how far is read


def test_a_follower_does_not_wake_for_a_high_watermark_alone(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2, 3), replicas=(1, 2, 3))
    fill(world, 2)

    async def commit_and_append() -> None:
        await world.ask(request((0, 2), replica_id=3))
        assert log_of(world).high_watermark == 2
        assert len(world.reads.waiting) == 1
        await world.appends.append_records({ORDERS: MemoryRecords(batch(1))}, acks=1, timeout_ms=1)

    response = waiting(world, commit_and_append, (0, 2), replica_id=2)

    assert (offsets(response.records), response.high_watermark) == ([2], 2)


def test_a_consumer_between_high_watermark_and_log_end_gets_nothing_and_beyond_it_an_error(
    world: BrokerWorld,
) -> None:
    lead(world)
    fill(world, 3)
    fetch(world, (0, 1), replica_id=2)

    for offset in (1, 2, 3):
        [response] = fetch(world, (0, offset))
        assert (response.error_code, response.records) == (ErrorCode.none, b"")
        assert response.high_watermark == 1
    [beyond] = fetch(world, (0, 4))
    assert beyond.error_code is ErrorCode.offset_out_of_range


def test_committed_records_end_at_an_open_transaction_until_its_marker_is_replicated(
    world: BrokerWorld,
) -> None:
    lead(world)
    log = log_of(world)
    fill(world, 1)
    guard = log.start_verification(7, 0, 0)
    transaction = batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(transaction, 0, verification_guard=guard)

    def committed() -> tuple[int, int, list[int]]:
        [response] = fetch(world, is_read_committed=True)
        return response.high_watermark, response.last_stable_offset, offsets(response.records)

    fetch(world, (0, 3), replica_id=2)
    assert committed() == (3, 1, [0])
    end_transaction(log, 7, commit=True)
    assert committed() == (3, 1, [0])
    fetch(world, (0, 4), replica_id=2)
    assert committed() == (4, 4, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (ErrorCode.fenced_leader_epoch, {"leader_epoch": 2}),
        (ErrorCode.unknown_leader_epoch, {"leader_epoch": 4}),
        (ErrorCode.offset_out_of_range, {"offset": 9}),
        (ErrorCode.none, {"leader_epoch": 3, "last_fetched_epoch": 2}),
    ],
)
def test_a_fetch_that_fails_or_diverges_says_nothing_of_how_far_the_follower_is(
    world: BrokerWorld, error: ErrorCode, how: dict[str, Any]
) -> None:
    lead(world, leader_epoch=1)
    fill(world, 1)
    lead(world, leader_epoch=3)
    fill(world, 2)
    fetch(world, (0, 1), replica_id=2, leader_epoch=3)
    known = world.replicas.partitions[ORDERS].remote_replicas[2]
    assert (known.log_end_offset, log_of(world).high_watermark) == (1, 1)

    world.now_ms += 1
    [response] = fetch(world, (0, how.pop("offset", 3)), replica_id=2, **how)

    assert response.error_code is error
    assert world.replicas.partitions[ORDERS].remote_replicas[2] == known
    assert log_of(world).high_watermark == 1


# ---------------------------------------------------------------------- nearer replicas


@pytest.fixture
def rack_aware(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    """Broker 1 leads in rack a; broker 2 follows in rack b and has everything."""
    world = made(executor, tmp_path, replica__selector__class=RACK_AWARE_SELECTOR)
    lead(world)
    fill(world, 3)
    fetch(world, (0, 3), replica_id=2)
    world.update(brokers=[broker(1, rack="a"), broker(2, rack="b")])
    return world


async def test_a_consumer_is_sent_elsewhere_at_once_however_much_it_wants(
    rack_aware: BrokerWorld,
) -> None:
    asked = request((0, 0), rack_id="b", max_wait_ms=60_000, min_bytes=10_000)
    response = asyncio.create_task(rack_aware.ask(asked))
    while not response.done():
        assert len(rack_aware.reads.waiting) == 0
        await asyncio.sleep(0)
    [response] = response.result().responses[0].partitions

    assert (response.preferred_read_replica, response.records) == (2, b"")


def test_a_follower_is_never_sent_elsewhere(rack_aware: BrokerWorld) -> None:
    [response] = fetch(rack_aware, rack_id="b", replica_id=2)

    assert (response.preferred_read_replica, offsets(response.records)) == (-1, [0, 1, 2])


def test_a_follower_sends_no_consumer_elsewhere(rack_aware: BrokerWorld) -> None:
    lead(rack_aware, 2, leader_epoch=1)

    [response] = fetch(rack_aware, rack_id="b")

    assert (response.preferred_read_replica, offsets(response.records)) == (-1, [0, 1, 2])


@pytest.mark.parametrize(("version", "replica"), [(10, None), (11, 2), (NEWEST, 2)])
def test_only_who_can_read_from_a_follower_is_sent_to_one(
    rack_aware: BrokerWorld, version: int, replica: int | None
) -> None:
    [response] = fetch(rack_aware, rack_id="b", version=version)

    assert getattr(response, "preferred_read_replica", None) == replica
