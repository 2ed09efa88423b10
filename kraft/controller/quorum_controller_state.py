"""The controller's state: one snapshot registry and the managers that share it.

Source: Kafka ``QuorumController.replay`` and its constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.java import parse_int
from kafka_common.model import ConfigResourceType
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller.acl_control import AclControlManager
from kraft.controller.client_quota_control import ClientQuotaControlManager
from kraft.controller.cluster_control import ClusterControlManager
from kraft.controller.config_schema import (
    AlterConfigPolicy,
    ConfigResource,
    ConfigSchema,
    ConfigurationValidator,
)
from kraft.controller.configuration_control import ConfigurationControlManager
from kraft.controller.delegation_token_control import DelegationTokenControlManager
from kraft.controller.features import FeatureControlManager
from kraft.controller.heartbeat_control import HeartbeatControl
from kraft.controller.offsets import OffsetControlManager
from kraft.controller.producer_id_control import ProducerIdControlManager
from kraft.controller.quorum_features import QuorumFeatures
from kraft.controller.replica_placer import ReplicaPlacer
from kraft.controller.replication_control import (
    ReplicationConfig,
    ReplicationControlManager,
)
from kraft.controller.scram_control import ScramControlManager
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

DEFAULT_SESSION_TIMEOUT_MS: Final = 9_000
DEFAULT_IMBALANCE_CHECK_INTERVAL_MS: Final = 300_000
DEFAULT_MAX_IDLE_INTERVAL_MS: Final = 500
DEFAULT_UNCLEAN_ELECTION_INTERVAL_MS: Final = 300_000
DEFAULT_TOKEN_CHECK_INTERVAL_MS: Final = 3_600_000

SecurityRecord: TypeAlias = (
    ClientQuotaRecord
    | ProducerIdsRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
)


@dataclass(frozen=True, slots=True)
class QuorumControllerConfig:
    """The controller's configuration; an interval of None switches its task off."""

    node_id: int
    cluster_id: str
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    leader_imbalance_check_interval_ms: int | None = DEFAULT_IMBALANCE_CHECK_INTERVAL_MS
    max_idle_interval_ms: int | None = DEFAULT_MAX_IDLE_INTERVAL_MS
    unclean_leader_election_interval_ms: int = DEFAULT_UNCLEAN_ELECTION_INTERVAL_MS
    static_config: Mapping[str, str] | None = None
    replication: ReplicationConfig | None = None
    delegation_tokens: DelegationTokenConfig | None = None
    delegation_token_check_interval_ms: int = DEFAULT_TOKEN_CHECK_INTERVAL_MS


@dataclass(frozen=True, slots=True)
class ControllerEnvironment:
    """What the caller provides: configuration schema, policies and random sources."""

    quorum_features: QuorumFeatures
    config_schema: ConfigSchema
    config_validator: ConfigurationValidator
    placer: ReplicaPlacer
    new_uuid: Callable[[], UUID]
    """Returns a random UUID."""
    is_resolvable: Callable[[str], bool]
    """Returns whether a text is an address or a host name."""
    wall_time_ms: Callable[[], int]
    """The machine's clock, by which tokens expire; deadlines use a clock that never goes back."""
    nano_time: Callable[[], int]
    """A clock in nanoseconds that never goes back, for log lines that say how long a thing took."""
    alter_config_policy: AlterConfigPolicy | None = None


class QuorumControllerState:
    """All managers of the controller."""

    def __init__(self, config: QuorumControllerConfig, environment: ControllerEnvironment) -> None:
        self.registry = SnapshotRegistry(f"[QuorumController id={config.node_id}] ")
        self.offsets = OffsetControlManager(self.registry)
        self.features = FeatureControlManager(self.registry, environment.quorum_features)
        self.cluster = ClusterControlManager(
            self.registry,
            config.cluster_id,
            self.features,
            session_timeout_ms=config.session_timeout_ms,
        )
        self.configs = ConfigurationControlManager(
            self.registry,
            environment.config_schema,
            environment.config_validator,
            static_config=config.static_config or {},
            node_id=config.node_id,
            existence_checker=self._check_exists,
            alter_config_policy=environment.alter_config_policy,
        )
        self.replication = ReplicationControlManager(
            self.registry,
            self.cluster,
            self.configs,
            lambda: self.features.metadata_version,
            environment.placer,
            environment.new_uuid,
            config.replication,
        )
        self.quotas = ClientQuotaControlManager(self.registry, environment.is_resolvable)
        self.producer_ids = ProducerIdControlManager(self.registry, self.cluster)
        self.acls = AclControlManager(self.registry, environment.new_uuid)
        self.scram = ScramControlManager(self.registry, lambda: self.features.metadata_version)
        self.wall_time_ms = environment.wall_time_ms
        self.tokens = DelegationTokenControlManager(
            self.registry,
            lambda: self.features.metadata_version,
            lambda: uuid_text(environment.new_uuid()),
            config.delegation_tokens or DelegationTokenConfig(),
        )
        self.heartbeats = HeartbeatControl(
            self.cluster,
            self.features,
            self.replication.brokers,
            self.replication.state.logger,
        )

    def replay(self, record: MetadataRecord, offset: int, now_ms: int) -> None:
        """Replays one record in the manager that owns it, and raises that manager's errors."""
        match record:
            case (
                RegisterBrokerRecord()
                | UnregisterBrokerRecord()
                | FenceBrokerRecord()
                | UnfenceBrokerRecord()
                | BrokerRegistrationChangeRecord()
                | RegisterControllerRecord()
            ):
                self.cluster.replay(record, offset, now_ms)
            case TopicRecord() | PartitionRecord() | PartitionChangeRecord() | RemoveTopicRecord():
                self.replication.replay(record)
            case ConfigRecord():
                self.configs.replay(record)
            case FeatureLevelRecord() | ZkMigrationStateRecord():
                self.features.replay(record, offset)
            case EndTransactionRecord():
                self.features.transaction_ended(self.offsets.transaction_start_offset, offset)
                self.offsets.replay(record, offset)
            case BeginTransactionRecord() | AbortTransactionRecord():
                self.offsets.replay(record, offset)
            case NoOpRecord():
                pass
            case _:
                self._replay_security(record)

    def _replay_security(self, record: SecurityRecord) -> None:
        match record:
            case ClientQuotaRecord():
                self.quotas.replay(record)
            case ProducerIdsRecord():
                self.producer_ids.replay(record)
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self.acls.replay(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self.scram.replay(record)
            case DelegationTokenRecord() | RemoveDelegationTokenRecord():
                self.tokens.replay(record)
            case _:
                assert_never(record)

    def _check_exists(self, resource: ConfigResource) -> None:
        if resource.resource_type == ConfigResourceType.TOPIC:
            if resource.name not in self.replication.state.topics_by_name:
                message = f"The topic '{resource.name}' does not exist."
                raise ApiException(ErrorCode.unknown_topic_or_partition, message)
        elif resource.resource_type == ConfigResourceType.BROKER and resource.name:
            node_id = parse_int(resource.name)
            if node_id is None:
                message = f"{resource.name} is no id of a node"
                raise ApiException(ErrorCode.invalid_request, message)
            is_broker = self.cluster.registration(node_id) is not None
            if not is_broker and not self.features.is_controller_id(node_id):
                message = f"No node with id {node_id} found."
                raise ApiException(ErrorCode.broker_id_not_registered, message)
