"""The smallest and greatest numbers in every field of every request leave a controller at work.

So does any text as the configuration of brokers that topics inherit: it is stored unchecked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final
from uuid import UUID

import pytest

from kafka_common.api_error import ApiException
from kafka_common.model import ConfigResourceType, ElectionType, OpType
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig, token_hmac
from kraft.controller.alter_partition import (
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.cluster_requests import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.features import FeatureLevelUpdate
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    AlterClientQuotas,
    AlterPartitionReassignments,
    AlterPartitions,
    AlterUserScramCredentials,
    AssignReplicasToDirs,
    ControllerRequest,
    CreateDelegationToken,
    CreatePartitions,
    CreateTopics,
    ElectLeaders,
    ExpireDelegationToken,
    IncrementalAlterConfigs,
    ListReassignments,
    ProcessBrokerHeartbeat,
    RegisterBroker,
    RegisterController,
    RenewDelegationToken,
    UnregisterBroker,
    UpdateFeatureLevels,
)
from kraft.controller.quorum_controller_state import (
    DEFAULT_SESSION_TIMEOUT_MS,
    QuorumControllerConfig,
)
from kraft.controller.reassignment_control import ReassignablePartition, ReassignableTopic
from kraft.controller.scram_control import ScramCredentialDeletion, ScramCredentialUpsertion
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from tests.support.quorum_controller_world import CLUSTER_ID, SCHEMA, QuorumWorld

SECRET: Final = "secret"
TOKEN: Final = token_hmac(SECRET, "token")
EXTREMES: Final[Mapping[int, tuple[int, ...]]] = {
    bits: (-(1 << bits - 1), -2, -1, 0, (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)
}
BITS: Final = {
    **dict.fromkeys(("mechanism", "leader_recovery_state"), 8),
    **dict.fromkeys(("replication_factor", "security_protocol", "level"), 16),
    **dict.fromkeys(("min_supported_version", "max_supported_version"), 16),
    **dict.fromkeys(("broker_epoch", "current_metadata_offset"), 64),
    **dict.fromkeys(("max_lifetime_ms", "renew_period_ms", "expiry_period_ms"), 64),
}
"""The width of the numbers that have not 32 bits, by field."""


def started() -> QuorumWorld:
    tokens = DelegationTokenConfig(secret_key=SECRET)
    world = QuorumWorld.led(config=QuorumControllerConfig(0, CLUSTER_ID, delegation_tokens=tokens))
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", (1, 2), (2, 3))
    return world


def requests(world: QuorumWorld) -> list[ControllerRequest]:
    """One of each kind that holds numbers; all but those of tokens are carried out as they are."""
    topic_id = world.active.state.replication.state.topics_by_name["orders"]
    epochs = {each.id: each.epoch for each in world.active.state.cluster.registrations()}
    proposed = ProposedPartition(0, 0, 0, (IsrMember(1, epochs[1]), IsrMember(2, epochs[2])))
    moved = ReassignablePartition(0, (2, 3))
    directory, feature = UUID(int=(1 << 64) + 4), BrokerFeature(FEATURE_NAME, 1, 23)
    listeners = (BrokerEndpoint("PLAINTEXT", "h", 9092, 0),)
    registration = BrokerRegistrationRequest(
        4, CLUSTER_ID, UUID(int=4), listeners, (feature,), log_dirs=(directory,)
    )
    created = CreatableTopic("new", 2, 1)
    assigned = CreatableTopic("new", assignments=(CreatableReplicaAssignment(0, (1, 2)),))
    broker = ConfigResource(ConfigResourceType.BROKER, "")
    return [
        AlterPartitions(
            AlterPartitionRequest(1, epochs[1], (ProposedTopic((proposed,), topic_id),)), 3
        ),
        CreateTopics(CreateTopicsRequest((created,))),
        CreateTopics(CreateTopicsRequest((assigned,))),
        CreatePartitions((CreatePartitionsTopic("orders", 3, ((1,),)),)),
        ElectLeaders(ElectionType.PREFERRED, (("orders", (0,)),)),
        AlterPartitionReassignments((ReassignableTopic("orders", (moved,)),)),
        AssignReplicasToDirs(
            1, epochs[1], (AssignedDirectory(UUID(int=(1 << 64) + 1), ((topic_id, (0,)),)),)
        ),
        IncrementalAlterConfigs({broker: {"log.retention.ms": ConfigOperation(OpType.SET, "1")}}),
        AlterClientQuotas(
            (ClientQuotaAlteration((("user", "a"),), (("producer_byte_rate", 1.0),)),)
        ),
        AllocateProducerIdBlock(1, epochs[1]),
        AlterUserScramCredentials(
            (ScramCredentialDeletion("a", 1),),
            (ScramCredentialUpsertion("b", 1, 4096, b"s", b"p"),),
        ),
        CreateDelegationToken("User:a", None, (), 1_000),
        RenewDelegationToken("User:a", TOKEN, 1_000),
        ExpireDelegationToken("User:a", TOKEN, 1_000),
        UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(21)}),
        RegisterBroker(registration),
        UnregisterBroker(3),
        ProcessBrokerHeartbeat(BrokerHeartbeat(1, epochs[1], 1_000)),
        RegisterController(
            ControllerRegistrationRequest(3000, UUID(int=1), False, listeners, (feature,))
        ),
        ListReassignments((("orders", (0,)),)),
    ]


def extreme(value: object, name: str = "") -> Iterator[object]:
    """The value with an extreme in place of each of its numbers in turn."""
    if name == "version" or isinstance(value, bool | Enum):
        return  # one of a few, when it reaches the controller
    if isinstance(value, float):
        yield from (-float("inf"), -1.0, 0.0, 5e-324, 1.7e308, float("inf"), float("nan"))
    elif isinstance(value, int):
        yield from EXTREMES[BITS.get(name, 32)]
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from ({**value, key: other} for other in extreme(each))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for other in extreme(getattr(value, field.name), field.name):
                yield replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        names = getattr(value, "_fields", (name,) * len(value))
        for place, each in enumerate(value):
            for other in extreme(each, names[place]):
                changed = [*value[:place], other, *value[place + 1 :]]
                yield type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)


KINDS: Final = len(requests(started()))


@pytest.mark.parametrize("kind", range(KINDS))
def test_extreme_numbers_leave_the_controller_at_work(kind: int) -> None:
    usual = requests(started())[kind]
    for asked in [usual, *extreme(usual)]:
        world = started()
        world.send(asked, 3000)  # type: ignore[arg-type] # of the same kind
        world.advance(1_000)

        assert world.faults == [], asked
        world.start_brokers(5)
        world.create_topic("later", (5, 1), (1, 5))
        world.ask(ElectLeaders(ElectionType.PREFERRED, None), tuple)
        assert world.rafts[3000].resigned == [], asked


INHERITED: Final = sorted({each.name for key in SCHEMA.topic_keys() for each in key.synonyms})
ODD: Final = ("", " ", "abc", "-1", "1e9", "1_0", "9" * 400, "9" * 5_000, str(2**63), "\0")


@pytest.mark.parametrize("name", INHERITED)
def test_odd_configurations_of_brokers_leave_the_controller_at_work(name: str) -> None:
    broker = ConfigResource(ConfigResourceType.BROKER, "")
    for text in ODD:
        world = started()
        change = {name: ConfigOperation(OpType.SET, text)}
        (stored,) = world.ask(IncrementalAlterConfigs({broker: change}), dict).values()
        assert not stored.is_failure

        world.create_topic("later", (1, 2), (2, 1))
        world.advance(DEFAULT_SESSION_TIMEOUT_MS + 1)
        world.start_brokers(1, 2)
        world.ask(ElectLeaders(ElectionType.PREFERRED, None), tuple)

        assert (world.faults, world.rafts[3000].resigned) == ([], []), text
        assert world.active.state.configs.min_in_sync_replicas("later") < 2


@pytest.mark.parametrize("duration_ms", [1, 2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize(
    "name",
    [
        "session_timeout_ms",
        "leader_imbalance_check_interval_ms",
        "max_idle_interval_ms",
        "unclean_leader_election_interval_ms",
        "delegation_token_check_interval_ms",
        "max_lifetime_ms",
        "expiry_time_ms",
    ],
)
def test_extreme_durations_leave_the_controller_at_work(name: str, duration_ms: int) -> None:
    tokens = DelegationTokenConfig(secret_key=SECRET)
    config = QuorumControllerConfig(0, CLUSTER_ID, delegation_tokens=tokens)
    change: dict[str, Any] = {name: duration_ms}
    if hasattr(tokens, name):
        change = {"delegation_tokens": replace(tokens, **change)}
    config = replace(config, **change)
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    world.create_topic("orders", (1, 2))
    world.send(CreateDelegationToken("User:a", None, (), -1))

    world.advance(1_000)
    world.start_brokers(1, 2)
    world.create_topic("later", (1, 2))

    assert (world.faults, world.rafts[3000].resigned) == ([], [])
    assert not any(isinstance(each, ApiException) for each in world.responses.values())
