"""The requests to the quorum controller: one value for each operation.

Only the active controller accepts a *write*; it responds once the records are committed.
Any controller responds to a *read*, from the newest stable state that it has.

Source: Kafka ``Controller``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from kafka_common.model import ElectionType
from kraft.controller.acl_control import AclFilters, StandardAcl
from kraft.controller.alter_partition import AlterPartitionRequest
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.cluster_requests import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperations
from kraft.controller.features import FeatureLevelUpdate
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.reassignment_control import ReassignableTopic
from kraft.controller.scram_control import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.controller.topic_requests import (
    CreatePartitionsTopic,
    CreateTopicsRequest,
)

# ---------------------------------------------------------------------- writes


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """Change the ISRs that a broker proposes as their leader (AlterPartition)."""

    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Create topics (CreateTopics)."""

    request: CreateTopicsRequest


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Delete topics by id."""

    topic_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Add partitions to topics."""

    topics: tuple[CreatePartitionsTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elect leaders for these partitions; None means all partitions."""

    election_type: ElectionType
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments:
    """Start or cancel partition reassignments."""

    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirs:
    """Record in which log directories a broker's replicas are."""

    broker_id: int
    broker_epoch: int
    directories: tuple[AssignedDirectory, ...]


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs:
    """Change single keys of configurations."""

    changes: Mapping[ConfigResource, ConfigOperations]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class LegacyAlterConfigs:
    """Replace whole configurations."""

    new_configs: Mapping[ConfigResource, Mapping[str, str | None]]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """Change client quotas."""

    alterations: tuple[ClientQuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIdBlock:
    """Allocate a block of producer ids for a broker."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Create ACLs."""

    acls: tuple[StandardAcl, ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Delete ACLs by filters."""

    filters: AclFilters


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials:
    """Set or delete SCRAM credentials of users."""

    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@dataclass(frozen=True, slots=True)
class CreateDelegationToken:
    """Create a delegation token for the requester, or for ``owner``."""

    requester: str
    owner: str | None
    renewers: tuple[tuple[str, str], ...]
    max_lifetime_ms: int


@dataclass(frozen=True, slots=True)
class RenewDelegationToken:
    """Renew a delegation token."""

    requester: str
    token_hmac: bytes = field(repr=False)
    renew_period_ms: int


@dataclass(frozen=True, slots=True)
class ExpireDelegationToken:
    """Change the expiry time of a token; a negative period deletes it at once."""

    requester: str
    token_hmac: bytes = field(repr=False)
    expiry_period_ms: int


@dataclass(frozen=True, slots=True)
class UpdateFeatureLevels:
    """Change finalized feature levels."""

    updates: Mapping[str, FeatureLevelUpdate]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """Register a broker that has started."""

    request: BrokerRegistrationRequest


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """Unregister a broker."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ProcessBrokerHeartbeat:
    """Process a broker's heartbeat."""

    heartbeat: BrokerHeartbeat


@dataclass(frozen=True, slots=True)
class RegisterController:
    """Register a controller."""

    request: ControllerRegistrationRequest


TopicWrite: TypeAlias = (
    AlterPartitions
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | ElectLeaders
    | AlterPartitionReassignments
    | AssignReplicasToDirs
)
SettingsWrite: TypeAlias = (
    IncrementalAlterConfigs
    | LegacyAlterConfigs
    | AlterClientQuotas
    | AllocateProducerIdBlock
    | UpdateFeatureLevels
)
SecurityWrite: TypeAlias = (
    CreateAcls
    | DeleteAcls
    | AlterUserScramCredentials
    | CreateDelegationToken
    | RenewDelegationToken
    | ExpireDelegationToken
)
ClusterWrite: TypeAlias = (
    RegisterBroker | UnregisterBroker | ProcessBrokerHeartbeat | RegisterController
)
WriteRequest: TypeAlias = TopicWrite | SettingsWrite | SecurityWrite | ClusterWrite


# ---------------------------------------------------------------------- reads


@dataclass(frozen=True, slots=True)
class FindTopicIds:
    """Find the ids of these topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindAllTopicIds:
    """Find the ids of all topics."""


@dataclass(frozen=True, slots=True)
class FindTopicNames:
    """Find the names of these topic ids."""

    topic_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class DescribeConfigs:
    """Describe the keys that are set for resources; an empty list of keys means every key."""

    resources: Mapping[ConfigResource, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GetFinalizedFeatures:
    """Read the finalized feature levels and the offset of their last change."""


@dataclass(frozen=True, slots=True)
class DescribeControllers:
    """List the registered controllers; UNSUPPORTED_VERSION before 3.7-IV0 (KIP-919)."""


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """List the reassignments in progress of these partitions; None means all partitions."""

    topics: tuple[tuple[str, tuple[int, ...]], ...] | None


ReadRequest: TypeAlias = (
    FindTopicIds
    | FindAllTopicIds
    | FindTopicNames
    | DescribeConfigs
    | GetFinalizedFeatures
    | DescribeControllers
    | ListReassignments
)

ControllerRequest: TypeAlias = WriteRequest | ReadRequest
