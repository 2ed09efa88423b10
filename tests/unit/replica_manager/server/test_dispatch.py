"""Requests on their way from a frame to a handler: one that is big keeps no one waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.stop_replica.v4.request import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import write
from replica_manager.server.large_responses import READ_ASIDE_BYTES
from tests.support.broker_world import BROKER_EPOCH, BrokerWorld
from tests.support.frames import request_header


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    return BrokerWorld(executor)


def stop_replicas(count: int) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=BrokerId(1),
        controller_epoch=i32(1),
        broker_epoch=i64(BROKER_EPOCH),
        topic_states=(
            StopReplicaTopicState(
                topic_name=TopicName("orders"),
                partition_states=tuple(
                    StopReplicaPartitionState(
                        partition_index=i32(partition), delete_partition=False
                    )
                    for partition in range(count)
                ),
            ),
        ),
    )


async def test_a_big_request_lets_others_pass_while_it_is_read(world: BrokerWorld) -> None:
    big, small = stop_replicas(10_000), stop_replicas(1)
    assert len(write(small)) < READ_ASIDE_BYTES < len(write(big))

    first = asyncio.ensure_future(world.ask(big))
    await asyncio.sleep(0)  # it has begun
    assert not first.done()
    assert (await world.ask(small)).error_code is ErrorCode.none
    response = await first
    assert response.error_code is ErrorCode.none
    assert len(response.partition_errors) == 10_000


async def test_a_big_request_that_is_garbled_is_refused_like_a_small_one(
    world: BrokerWorld,
) -> None:
    header = request_header(ApiKey.STOP_REPLICA, 4, 1, "test")
    body = write(stop_replicas(10_000))[:READ_ASIDE_BYTES]

    with pytest.raises(InvalidFrame):
        await world.ask_raw(header + body)
