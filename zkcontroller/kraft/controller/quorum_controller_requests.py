"""What can be asked of the quorum controller: one value for each operation.

A *write* goes to the active controller alone and is answered once its records are committed.
A *read* is answered by any controller, from the newest stable state that it has.

Source: Kafka ``Controller``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from zkcontroller.kraft.controller.acl_control import AclBindingFilter, StandardAcl
from zkcontroller.kraft.controller.alter_partition import AlterPartitionRequest
from zkcontroller.kraft.controller.broker_changes import AssignedDirectory
from zkcontroller.kraft.controller.client_quota_control import ClientQuotaAlteration
from zkcontroller.kraft.controller.cluster_requests import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from zkcontroller.kraft.controller.config_schema import ConfigResource
from zkcontroller.kraft.controller.configuration_control import ConfigOperations
from zkcontroller.kraft.controller.features import FeatureUpdate
from zkcontroller.kraft.controller.heartbeats import BrokerHeartbeat
from zkcontroller.kraft.controller.leader_elections import ElectionType
from zkcontroller.kraft.controller.reassignment_control import ReassignableTopic
from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.controller.scram_control import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from zkcontroller.kraft.controller.topic_requests import (
    CreatePartitionsTopic,
    CreateTopicsRequest,
)

# ---------------------------------------------------------------------- writes


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """A leader proposes ISRs; named so as not to be the value within."""

    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Topics come."""

    request: CreateTopicsRequest


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Topics go."""

    topic_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Topics get more partitions."""

    topics: tuple[CreatePartitionsTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Partitions, None for all of them, get leaders of one kind."""

    election_type: ElectionType
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments:
    """Partitions move, or stop moving."""

    topics: tuple[ReassignableTopic, ...]


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirs:
    """A broker says in which directories its replicas are."""

    broker_id: int
    broker_epoch: int
    directories: tuple[AssignedDirectory, ...]


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs:
    """Keys of configurations change."""

    changes: Mapping[ConfigResource, ConfigOperations]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class LegacyAlterConfigs:
    """Whole configurations are replaced."""

    new_configs: Mapping[ConfigResource, Mapping[str, str | None]]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """Quotas change."""

    alterations: tuple[ClientQuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    """A broker wants a block of producer ids."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class CreateAcls:
    """Rules come."""

    acls: tuple[StandardAcl, ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Rules go."""

    filters: tuple[AclBindingFilter, ...]


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials:
    """Users' passwords change."""

    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@dataclass(frozen=True, slots=True)
class CreateDelegationToken:
    """Somebody wants a token, for himself or (``owner``) for somebody else."""

    requester: str
    owner: str | None
    renewers: tuple[tuple[str, str], ...]
    max_lifetime_ms: int


@dataclass(frozen=True, slots=True)
class RenewDelegationToken:
    """A token shall live on."""

    requester: str
    token_hmac: bytes = field(repr=False)
    renew_period_ms: int


@dataclass(frozen=True, slots=True)
class ExpireDelegationToken:
    """A token shall end at another time; at once for a negative period."""

    requester: str
    token_hmac: bytes = field(repr=False)
    expiry_period_ms: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Feature levels change."""

    updates: Mapping[str, FeatureUpdate]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker has started."""

    request: BrokerRegistrationRequest


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """A broker shall be forgotten."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ProcessBrokerHeartbeat:
    """A broker is alive."""

    heartbeat: BrokerHeartbeat


@dataclass(frozen=True, slots=True)
class RegisterController:
    """A controller tells about itself."""

    request: ControllerRegistrationRequest


@dataclass(frozen=True, slots=True)
class WriteMigrationRecords:
    """Records of a migration from ZooKeeper; :mod:`.migration_state` has what frames them.

    Source: Kafka ``ZkRecordConsumer``.
    """

    records: tuple[VersionedRecord, ...]


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
    | AllocateProducerIds
    | UpdateFeatures
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
    RegisterBroker
    | UnregisterBroker
    | ProcessBrokerHeartbeat
    | RegisterController
    | WriteMigrationRecords
)
WriteRequest: TypeAlias = TopicWrite | SettingsWrite | SecurityWrite | ClusterWrite


# ---------------------------------------------------------------------- reads


@dataclass(frozen=True, slots=True)
class FindTopicIds:
    """The ids of topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindAllTopicIds:
    """The ids of all topics."""


@dataclass(frozen=True, slots=True)
class FindTopicNames:
    """The names of topics."""

    topic_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class DescribeConfigs:
    """What is set for resources; of an empty list of keys, every key."""

    resources: Mapping[ConfigResource, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GetFinalizedFeatures:
    """The finalized feature levels, and where the log changed them last."""


@dataclass(frozen=True, slots=True)
class DescribeControllers:
    """The controllers that have registered; UNSUPPORTED_VERSION before 3.7-IV0 (KIP-919)."""


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """Which of these partitions, None for all of them, are moving."""

    topics: tuple[tuple[str, tuple[int, ...]], ...] | None


ReadRequest: TypeAlias = (
    FindTopicIds
    | FindAllTopicIds
    | FindTopicNames
    | DescribeConfigs
    | GetFinalizedFeatures
    | DescribeControllers
    | ListPartitionReassignments
)

ControllerRequest: TypeAlias = WriteRequest | ReadRequest
