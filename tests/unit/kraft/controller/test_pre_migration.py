"""In a log of Kafka's before a migration from ZooKeeper: what runs, and what waits."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ConfigResourceType, ElectionType, OpType
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.cluster_requests import ControllerRegistrationRequest
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.features import FeatureLevelUpdate
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    AlterClientQuotas,
    ControllerRequest,
    DeleteTopics,
    ElectLeaders,
    FindAllTopicIds,
    IncrementalAlterConfigs,
    RegisterController,
    UnregisterBroker,
    UpdateFeatureLevels,
)
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import (
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from tests.support.quorum_controller_world import QuorumWorld, topic

SESSION_TIMEOUT_MS = 9_000


@pytest.fixture
def world() -> QuorumWorld:
    world = QuorumWorld()
    world.find(FeatureLevelRecord(FEATURE_NAME, 21), ZkMigrationStateRecord(2))
    brokers = (RegisterBrokerRecord(n, is_migrating_zk_broker=True) for n in (1, 2))
    world.find(*brokers, version=2)
    world.elect(3000)
    assert world.active.state.features.is_in_pre_migration_mode
    return world


def test_brokers_of_zookeeper_live_are_fenced_if_they_want_and_go(world: QuorumWorld) -> None:
    assert not world.heartbeat(1).is_fenced
    cluster = world.active.state.cluster
    assert cluster.is_unfenced(1)

    assert world.heartbeat(1, want_fence=True).is_fenced
    assert not cluster.is_unfenced(1)
    world.send(UnregisterBroker(1))

    assert cluster.registration(1) is None
    assert isinstance(world.records[-1], UnregisterBrokerRecord)
    assert world.faults == []


def test_a_broker_that_falls_silent_is_not_fenced(world: QuorumWorld) -> None:
    world.heartbeat(1)
    world.heartbeat(2)
    world.advance(2 * SESSION_TIMEOUT_MS)
    cluster = world.active.state.cluster
    assert cluster.is_unfenced(1)
    assert world.faults == []
    assert world.controllers[3000].is_active


def test_controllers_register_and_the_log_grows(world: QuorumWorld) -> None:
    before = len(world.records)

    world.ask(RegisterController(ControllerRegistrationRequest(3000, UUID(int=5))), type(None))
    world.advance(2_000)

    new = world.records[before:]
    assert isinstance(new[0], RegisterControllerRecord)
    assert new[1:] == [NoOpRecord()] * 4


def test_brokers_of_kraft_cannot_register(world: QuorumWorld) -> None:
    with pytest.raises(AssertionError, match="once the migration"):
        world.register(3)  # the request itself ran


@pytest.mark.parametrize(
    "request_",
    [
        topic("orders", (1,)),
        DeleteTopics((UUID(int=5),)),
        AllocateProducerIdBlock(1, 5),
        ElectLeaders(ElectionType.PREFERRED, None),
        UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(21)}),
        IncrementalAlterConfigs(
            {ConfigResource(ConfigResourceType.BROKER, ""): {"x": ConfigOperation(OpType.SET, "1")}}
        ),
        AlterClientQuotas(
            (ClientQuotaAlteration((("user", "alice"),), (("producer_byte_rate", 1.0),)),)
        ),
    ],
    ids=lambda request_: type(request_).__name__,
)
def test_nothing_else_is_written_and_what_is_read_is_read(
    world: QuorumWorld, request_: ControllerRequest
) -> None:
    before = world.records

    refused = world.refusal(request_)

    assert refused.error is ErrorCode.not_controller
    assert world.records == before
    assert world.ask(FindAllTopicIds(), dict) == {}
    assert world.controllers[3000].is_active
