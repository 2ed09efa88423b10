"""AlterPartition through the real handler into the real core: every protocol and version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from msgspec.structs import replace
from typing_extensions import override

from kafka_common.protocol.inter_broker_versions import (
    VERSIONS,
    InterBrokerVersion,
    is_alter_partition_supported,
    is_topic_id_supported,
)
from tests.scenarios.workbench import CONTROLLER_ID, Workbench
from tests.support.broker_world import ORDERS_ID, BrokerWorld, SwitchedController
from zkcontroller.core.effects import Result
from zkcontroller.core.events import AlterPartitionReceived, RequestEvent
from zkcontroller.core.isr_changes import IsrChanges
from zkcontroller.core.reassignment import Reassignments
from zkcontroller.core.states import PartitionState

API_VERSIONS = range(4)
TOPIC_IDS_SINCE = 2
BROKER_EPOCH = 100 + CONTROLLER_ID
PAIRS = [
    pytest.param(ibp, version, id=f"{ibp.name}-v{version}")
    for ibp in VERSIONS
    if is_alter_partition_supported(ibp)
    for version in API_VERSIONS
    # Without ids a topic can only be named, which version 2 no longer does.
    if version < TOPIC_IDS_SINCE or is_topic_id_supported(ibp)
]


class CoreOnABench(SwitchedController):
    """Answers with what the core of a controller at this ibp decides."""

    def __init__(self, ibp: str, topic_id: UUID | None) -> None:
        super().__init__()
        self.bench = Workbench(inter_broker_protocol_version=ibp)
        state = self.bench.led(1, [1, 2, 3], leader_epoch=4)
        self.row = self.bench.add("orders", 0, [1, 2, 3], state=PartitionState.ONLINE, led_by=state)
        if topic_id is not None:
            self.bench.context.put_topic_id("orders", topic_id)
        bench = self.bench
        reassignments = Reassignments(bench.tools, bench.partitions, bench.replicas)
        self._changes = IsrChanges(bench.tools, reassignments, bench.partitions.refused)

    @override
    async def ask(self, make: Callable[[int], RequestEvent], timeout_ms: int = 0) -> Result | None:
        event = make(7)
        assert isinstance(event, AlterPartitionReceived)
        self.bench.run(self._changes.alter(event))
        (response,) = self.bench.responses
        self.bench.responses.clear()
        assert response.request_id == 7
        return response.result


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with ThreadPoolExecutor(1) as executor:
        yield BrokerWorld(executor)


def request(version: int, isr: tuple[int, ...], partition_epoch: int) -> Any:
    messages = import_module(f"kio.schema.alter_partition.v{version}.request")
    fields: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": 4,
        "partition_epoch": partition_epoch,
    }
    if version >= 3:
        fields["new_isr_with_epochs"] = tuple(
            messages.BrokerState(broker_id=broker, broker_epoch=100 + broker) for broker in isr
        )
    else:
        fields["new_isr"] = isr
    if version >= 1:
        fields["leader_recovery_state"] = 0
    named = {"topic_id": ORDERS_ID} if version >= TOPIC_IDS_SINCE else {"topic_name": "orders"}
    return messages.AlterPartitionRequest(
        broker_id=CONTROLLER_ID,
        broker_epoch=BROKER_EPOCH,
        topics=(messages.TopicData(partitions=(messages.PartitionData(**fields),), **named),),
    )


def ask(world: BrokerWorld, core: CoreOnABench, asked: Any) -> Any:
    """The one partition of the answer, after a check of how its topic is named."""
    world.context.administration = replace(world.context.administration, controller=core)
    response = asyncio.run(world.ask(asked))
    assert response.error_code is ErrorCode.none
    (topic,) = response.topics
    if asked.__version__ >= TOPIC_IDS_SINCE:
        assert topic.topic_id == ORDERS_ID
    else:
        assert topic.topic_name == "orders"
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize(("ibp", "version"), PAIRS)
def test_what_stands_is_answered_unchanged_for_every_protocol_and_version(
    world: BrokerWorld, ibp: InterBrokerVersion, version: int
) -> None:
    core = CoreOnABench(ibp.name, ORDERS_ID if is_topic_id_supported(ibp) else None)
    before = core.bench.state_znode("orders", 0)

    told = ask(world, core, request(version, (1, 2, 3), partition_epoch=1))

    assert (told.error_code, told.leader_id, told.leader_epoch) == (ErrorCode.none, 1, 4)
    assert (told.isr, told.partition_epoch) == ((1, 2, 3), 1)
    assert getattr(told, "leader_recovery_state", 0) == 0
    assert core.bench.state_znode("orders", 0) == before


@pytest.mark.parametrize("version", API_VERSIONS)
def test_a_smaller_isr_is_written_in_every_version_and_may_be_asked_for_again(
    world: BrokerWorld, version: int
) -> None:
    core = CoreOnABench("3.9-IV0", ORDERS_ID)

    for partition_epoch in (1, 1, 2):
        told = ask(world, core, request(version, (1, 3), partition_epoch))

        assert (told.error_code, told.isr, told.partition_epoch) == (ErrorCode.none, (1, 3), 2)

    assert core.bench.state_znode("orders", 0).in_sync_replicas == (1, 3)
