"""What the active controller does of its own accord, where it goes on and where it ends.

Source of the behaviours: Kafka ``QuorumControllerTest``.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiError
from kafka_common.model import ConfigResourceType, ElectionType, OpType
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kraft.controller.cluster_requests import ControllerRegistrationRequest
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.delegation_token_control import CreatedDelegationToken
from kraft.controller.producer_id_control import ProducerIdsBlock
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    CreateDelegationToken,
    DescribeConfigs,
    ElectLeaders,
    IncrementalAlterConfigs,
    LegacyAlterConfigs,
    RegisterController,
)
from kraft.controller.quorum_controller_state import QuorumControllerConfig
from kraft.controller.replication_control import ReplicationConfig
from kraft.metadata.records import ZERO_UUID, PartitionChangeRecord, RemoveDelegationTokenRecord
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld, topic


def test_what_is_left_over_of_balancing_goes_on_10_ms_later() -> None:
    config = QuorumControllerConfig(
        0,
        CLUSTER_ID,
        leader_imbalance_check_interval_ms=1_000,
        max_idle_interval_ms=None,
        replication=ReplicationConfig(max_elections_per_imbalance=2),
    )
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", *[(1, 2)] * 5)
    world.heartbeat(1, want_fence=True)
    world.heartbeat(1)
    back = [PartitionChangeRecord(n, orders, isr=(2, 1)) for n in range(5)]
    world.write(*back)
    partitions = world.active.state.replication.state.topics[orders].partitions

    def led_by_the_preferred() -> int:
        return sum(partition.leader == 1 for partition in partitions.values())

    seen = []
    for duration_ms in (999, 1, 9, 1, 9, 1):
        world.advance(duration_ms)
        seen.append(led_by_the_preferred())

    assert seen == [0, 2, 2, 4, 4, 5]


def test_balancing_that_is_switched_off_does_nothing() -> None:
    config = QuorumControllerConfig(
        0, CLUSTER_ID, leader_imbalance_check_interval_ms=None, max_idle_interval_ms=None
    )
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    world.write(PartitionChangeRecord(0, orders, leader=2))

    world.advance(8_000)

    partition = world.active.state.replication.state.topics[orders].partitions[0]
    assert partition.leader == 2
    elected = world.ask(ElectLeaders(ElectionType.PREFERRED, None), tuple)
    assert elected[0].partitions == ((0, ApiError()),)


def test_tokens_whose_time_is_over_are_swept_up() -> None:
    config = QuorumControllerConfig(
        0,
        CLUSTER_ID,
        max_idle_interval_ms=None,
        delegation_tokens=DelegationTokenConfig("secret", expiry_time_ms=500),
        delegation_token_check_interval_ms=1_000,
    )
    world = QuorumWorld.led(config=config)
    asked = CreateDelegationToken("User:alice", None, (), 0)
    created = world.ask(asked, CreatedDelegationToken)
    gone = RemoveDelegationTokenRecord(created.record.token_id)

    world.advance(999)
    assert gone not in world.records
    world.advance(1)
    assert world.records[-1] == gone
    world.advance(10_000)
    assert world.records.count(gone) == 1


def test_a_token_sweep_waits_for_a_secret(world: QuorumWorld) -> None:
    world.advance(3_600_000)

    assert world.active.next_time_ms(world.now_ms) is None
    refused = world.refusal(CreateDelegationToken("User:alice", None, (), 0))
    assert refused.error is ErrorCode.delegation_token_auth_disabled


# ---------------------------------------------------------------------- which resources exist


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ConfigResource(ConfigResourceType.TOPIC, "orders"), ErrorCode.none),
        (
            ConfigResource(ConfigResourceType.TOPIC, "payments"),
            ErrorCode.unknown_topic_or_partition,
        ),
        (ConfigResource(ConfigResourceType.BROKER, ""), ErrorCode.none),
        (ConfigResource(ConfigResourceType.BROKER, "1"), ErrorCode.none),
        (ConfigResource(ConfigResourceType.BROKER, "3000"), ErrorCode.none),
        (ConfigResource(ConfigResourceType.BROKER, "2"), ErrorCode.broker_id_not_registered),
        (ConfigResource(ConfigResourceType.BROKER, "one"), ErrorCode.invalid_request),
    ],
)
def test_configurations_are_of_what_exists(
    world: QuorumWorld, resource: ConfigResource, error: ErrorCode
) -> None:
    world.start_brokers(1)
    world.create_topic("orders", (1,))
    change = {"retention.ms": ConfigOperation(OpType.SET, "1")}

    errors = world.ask(IncrementalAlterConfigs({resource: change}), dict)

    assert errors[resource].error is error


def test_validating_writes_nothing_and_finds_the_same(world: QuorumWorld) -> None:
    world.start_brokers(1)
    world.create_topic("orders", (1,))
    known = ConfigResource(ConfigResourceType.TOPIC, "orders")
    unknown = ConfigResource(ConfigResourceType.TOPIC, "payments")
    before = world.records

    for validating in (
        IncrementalAlterConfigs(
            {each: {"retention.ms": ConfigOperation(OpType.SET, "1")} for each in (known, unknown)},
            validate_only=True,
        ),
        LegacyAlterConfigs(
            {each: {"retention.ms": "1"} for each in (known, unknown)}, validate_only=True
        ),
    ):
        errors = world.ask(validating, dict)
        assert errors[known].error is ErrorCode.none
        assert errors[unknown].error is ErrorCode.unknown_topic_or_partition

    assert world.records == before
    assert world.ask(DescribeConfigs({known: ()}), dict) == {known: {}}


# ---------------------------------------------------------------------- others that ask


def test_producer_ids_go_to_registered_brokers_block_by_block(world: QuorumWorld) -> None:
    world.start_brokers(1)
    broker = world.active.state.cluster.registration(1)
    assert broker is not None

    blocks = [
        world.ask(AllocateProducerIdBlock(1, broker.epoch), ProducerIdsBlock) for _ in range(2)
    ]

    assert [block.first_producer_id for block in blocks] == [0, 1000]
    assert world.refusal(AllocateProducerIdBlock(1, 0)).error is ErrorCode.stale_broker_epoch


def test_a_controller_registers_with_the_active_one(world: QuorumWorld) -> None:
    request = ControllerRegistrationRequest(3000, ZERO_UUID)

    assert world.ask(RegisterController(request), type(None)) is None
    assert list(world.active.state.cluster.controllers()) == [3000]


def test_a_topic_that_is_created_on_no_broker_is_refused_and_not_written(
    world: QuorumWorld,
) -> None:
    before = world.records

    (refused,) = world.ask(topic("orders", partitions=1), tuple)

    assert refused.error.error is ErrorCode.invalid_replication_factor
    assert world.records == before
