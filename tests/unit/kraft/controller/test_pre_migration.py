"""Before a migration from ZooKeeper: who may come, who may live, and that all else waits."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ConfigResourceType, ElectionType, OpType
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.cluster_requests import (
    BrokerRegistrationReply,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
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
    RegisterBroker,
    RegisterController,
    UnregisterBroker,
    UpdateFeatureLevels,
    WriteMigrationRecords,
)
from kraft.controller.quorum_controller_state import QuorumControllerConfig
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    NoOpRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from tests.support.migration_records import records_after_migration
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld, topic

SESSION_TIMEOUT_MS = 9_000


@pytest.fixture
def world() -> QuorumWorld:
    world = QuorumWorld(config=QuorumControllerConfig(0, CLUSTER_ID, is_zk_migration_enabled=True))
    world.elect(3000)
    assert world.active.state.features.is_in_pre_migration_mode
    return world


def register_migrating(world: QuorumWorld, broker_id: int) -> int:
    request = BrokerRegistrationRequest(
        broker_id,
        CLUSTER_ID,
        UUID(int=(1 << 80) + broker_id),
        (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
        (BrokerFeature(FEATURE_NAME, 1, 21),),
        is_migrating_zk_broker=True,
        log_dirs=(UUID(int=(1 << 64) + broker_id),),
    )
    return world.ask(RegisterBroker(request), BrokerRegistrationReply).epoch


def test_brokers_of_zookeeper_come_live_are_fenced_if_they_want_and_go(
    world: QuorumWorld,
) -> None:
    register_migrating(world, 1)
    assert not world.heartbeat(1).is_fenced
    cluster = world.active.state.cluster
    assert cluster.is_unfenced(1)

    assert world.heartbeat(1, want_fence=True).is_fenced
    assert not cluster.is_unfenced(1)
    world.send(UnregisterBroker(1))

    assert cluster.registration(1) is None
    assert isinstance(world.records[-1], UnregisterBrokerRecord)
    assert world.faults == []


def test_who_falls_silent_before_the_migration_is_fenced_once_it_has_begun(
    world: QuorumWorld,
) -> None:
    # As Kafka: the task that fences does not run before, and is over with that.
    register_migrating(world, 1)
    register_migrating(world, 2)
    world.heartbeat(1)
    world.heartbeat(2)
    world.advance(2 * SESSION_TIMEOUT_MS)
    cluster = world.active.state.cluster
    assert cluster.is_unfenced(1)
    assert world.faults == []
    assert world.controllers[3000].is_active

    version = world.active.state.features.metadata_version
    world.send(WriteMigrationRecords(records_after_migration(version)[:1]))
    assert not world.active.state.features.is_in_pre_migration_mode
    world.heartbeat(2)
    world.advance(1)

    assert not cluster.is_unfenced(1)
    assert cluster.is_unfenced(2)


def test_controllers_register_and_the_log_grows(world: QuorumWorld) -> None:
    before = len(world.records)

    world.ask(RegisterController(ControllerRegistrationRequest(3000, UUID(int=5))), type(None))
    world.advance(2_000)

    new = world.records[before:]
    assert isinstance(new[0], RegisterControllerRecord)
    assert new[1:] == [NoOpRecord()] * 4


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
