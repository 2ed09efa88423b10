"""What only brokers and controllers send is refused on the listeners of clients."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.authorization import MORE_LISTENERS_KEY, OF_MEMBERS
from tests.support.broker_world import BrokerWorld, metadata
from tests.support.guarded_world import CLUSTER, guarded_world, permit
from tests.support.request_shapes import Shape

REFUSED: Final = ErrorCode.cluster_authorization_failed
LISTENERS: Final[dict[str, Any]] = {
    "listeners": "CLIENT://:0,BROKER://:0,CONTROL://:0,OLD://:0",
    "listener__security__protocol__map": (
        "CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROL:PLAINTEXT,OLD:PLAINTEXT"
    ),
    "inter__broker__listener__name": "BROKER",
    "control__plane__listener__name": "CONTROL",
    MORE_LISTENERS_KEY.replace(".", "__"): "OTHER, OLD",
}
REQUESTS: Final = {
    ApiKey.LEADER_AND_ISR: Shape(ApiKey.LEADER_AND_ISR, 7, ("topic_states",)).request(1),
    ApiKey.STOP_REPLICA: Shape(ApiKey.STOP_REPLICA, 4, ("topic_states",)).request(1),
    ApiKey.UPDATE_METADATA: Shape(ApiKey.UPDATE_METADATA, 8, ("topic_states",)).request(1),
    ApiKey.CONTROLLED_SHUTDOWN: Shape(ApiKey.CONTROLLED_SHUTDOWN, 3, ()).request(1),
    ApiKey.ALTER_PARTITION: Shape(ApiKey.ALTER_PARTITION, 3, ("topics",)).request(1),
    ApiKey.ALLOCATE_PRODUCER_IDS: Shape(ApiKey.ALLOCATE_PRODUCER_IDS, 0, ()).request(1),
}


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor, broker__id="1", **LISTENERS)
    world.update({"orders": {0: metadata(1)}})
    return world


def error_of(world: BrokerWorld, api_key: ApiKey, listener_name: str) -> ErrorCode:
    response: Any = asyncio.run(world.ask(REQUESTS[api_key], listener_name=listener_name))
    error: ErrorCode = response.error_code
    return error


def test_every_request_of_members_is_tried_here() -> None:
    assert {int(api_key) for api_key in REQUESTS} == OF_MEMBERS


@pytest.mark.parametrize("api_key", REQUESTS)
def test_it_is_refused_on_a_listener_of_clients(world: BrokerWorld, api_key: ApiKey) -> None:
    before = world.cache.snapshot

    assert error_of(world, api_key, "CLIENT") is REFUSED
    assert world.cache.snapshot is before
    assert not world.replicas.partitions
    assert not world.controller.asked
    assert not world.controller.requests


@pytest.mark.parametrize("listener_name", ["BROKER", "CONTROL", "OLD"])
def test_it_is_taken_on_the_listeners_of_members_and_on_those_that_are_named(
    world: BrokerWorld, listener_name: str
) -> None:
    assert error_of(world, ApiKey.UPDATE_METADATA, listener_name) is ErrorCode.none


def test_the_only_listener_of_a_broker_is_that_of_members_too(executor: ThreadPoolExecutor) -> None:
    world = BrokerWorld(executor, broker__id="1")

    assert error_of(world, ApiKey.UPDATE_METADATA, "PLAINTEXT") is ErrorCode.none


def test_with_an_authorizer_its_rules_decide_and_not_the_listener(
    executor: ThreadPoolExecutor,
) -> None:
    world = guarded_world(executor)

    assert error_of(world, ApiKey.UPDATE_METADATA, "CLIENT") is REFUSED
    permit(world, CLUSTER, AclOperation.CLUSTER_ACTION)
    assert error_of(world, ApiKey.UPDATE_METADATA, "CLIENT") is ErrorCode.none


def test_a_tool_may_abort_a_transaction_on_a_listener_of_clients(world: BrokerWorld) -> None:
    markers = Shape(ApiKey.WRITE_TXN_MARKERS, 1, ("markers",)).request(1)

    response: Any = asyncio.run(world.ask(markers, listener_name="CLIENT"))

    [partition] = response.markers[0].topics[0].partitions
    assert partition.error_code is ErrorCode.unknown_topic_or_partition
