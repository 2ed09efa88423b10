# scripts/write_request_types.py writes this file.

from datetime import timedelta
from typing import Literal, TypeVar, overload
from uuid import UUID

_D = TypeVar("_D")

class ListOffsetsPartition:
    partition_index: int
    timestamp: int

class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]

class ListOffsetsRequest:
    replica_id: int
    topics: tuple[ListOffsetsTopic, ...]

class MetadataRequestTopic:
    name: str | None

class MetadataRequest:
    topics: tuple[MetadataRequestTopic, ...] | None

class LeaderAndIsrPartitionState:
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]

class LeaderAndIsrLiveLeader:
    broker_id: int
    host_name: str
    port: int

class LeaderAndIsrRequest:
    controller_id: int
    controller_epoch: int
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]

class LeaderAndIsrTopicState:
    topic_name: str
    partition_states: tuple[LeaderAndIsrPartitionState, ...]

class StopReplicaPartitionV0:
    topic_name: str
    partition_index: int

class StopReplicaRequest:
    controller_id: int
    controller_epoch: int

class StopReplicaTopicV1:
    name: str
    partition_indexes: tuple[int, ...]

class StopReplicaPartitionState:
    partition_index: int
    leader_epoch: int
    delete_partition: bool

class StopReplicaTopicState:
    topic_name: str
    partition_states: tuple[StopReplicaPartitionState, ...]

class UpdateMetadataPartitionState:
    partition_index: int
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]

class UpdateMetadataBroker:
    id_: int

class UpdateMetadataRequest:
    controller_id: int
    controller_epoch: int
    live_brokers: tuple[UpdateMetadataBroker, ...]

class UpdateMetadataEndpoint:
    port: int
    host: str
    security_protocol: int

class UpdateMetadataTopicState:
    topic_name: str
    partition_states: tuple[UpdateMetadataPartitionState, ...]

class ControlledShutdownRequest:
    broker_id: int

class OffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_metadata: str | None

class OffsetCommitRequestTopic:
    name: str
    partitions: tuple[OffsetCommitRequestPartition, ...]

class OffsetCommitRequest:
    group_id: str
    topics: tuple[OffsetCommitRequestTopic, ...]

class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[int, ...]

class OffsetFetchRequest: ...

class OffsetFetchRequestTopics:
    name: str
    partition_indexes: tuple[int, ...]

class OffsetFetchRequestGroup:
    group_id: str
    topics: tuple[OffsetFetchRequestTopics, ...] | None

class FindCoordinatorRequest: ...

class JoinGroupRequestProtocol:
    name: str
    metadata: bytes

class JoinGroupRequest:
    group_id: str
    session_timeout: timedelta
    member_id: str
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]

class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str

class LeaveGroupRequest:
    group_id: str

class MemberIdentity:
    member_id: str
    group_instance_id: str | None

class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes

class SyncGroupRequest:
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[SyncGroupRequestAssignment, ...]

class DescribeGroupsRequest:
    groups: tuple[str, ...]

class ListGroupsRequest: ...

class SaslHandshakeRequest:
    mechanism: str

class ApiVersionsRequest: ...

class CreatableReplicaAssignment:
    partition_index: int
    broker_ids: tuple[int, ...]

class CreatableTopicConfig:
    name: str
    value: str | None

class CreatableTopic:
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]

class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout: timedelta

class DeleteTopicsRequest:
    timeout: timedelta

class DeleteTopicState:
    name: str | None
    topic_id: UUID | None

class DeleteRecordsPartition:
    partition_index: int
    offset: int

class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]

class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: timedelta

class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout: timedelta

class OffsetForLeaderPartition:
    partition: int
    leader_epoch: int

class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]

class OffsetForLeaderEpochRequest:
    topics: tuple[OffsetForLeaderTopic, ...]

class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[int, ...]

class AddPartitionsToTxnRequest: ...

class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]

class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[int, ...]

class WritableTxnMarker:
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int

class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]

class TxnOffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_metadata: str | None

class TxnOffsetCommitRequestTopic:
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]

class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TxnOffsetCommitRequestTopic, ...]

class DescribeAclsRequest:
    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class AclCreation:
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int

class CreateAclsRequest:
    creations: tuple[AclCreation, ...]

class DeleteAclsFilter:
    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...]

class DescribeConfigsResource:
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None

class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]

class AlterConfigsAlterableConfig:
    name: str
    value: str | None

class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterConfigsAlterableConfig, ...]

class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool

class AlterReplicaLogDirTopic:
    name: str
    partitions: tuple[int, ...]

class AlterReplicaLogDir:
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]

class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]

class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...]

class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None

class SaslAuthenticateRequest:
    auth_bytes: bytes

class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...]

class CreatePartitionsTopic:
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None

class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: timedelta
    validate_only: bool

class CreatableRenewers:
    principal_type: str
    principal_name: str

class CreateDelegationTokenRequest:
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: int

class RenewDelegationTokenRequest:
    hmac: bytes
    renew_period: int

class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period: int

class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str

class DescribeDelegationTokenRequest:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None

class DeleteGroupsRequest:
    groups_names: tuple[str, ...]

class ElectLeadersTopicPartitions:
    topic: str
    partitions: tuple[int, ...]

class ElectLeadersRequest:
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None
    timeout: timedelta

class IncrementalAlterConfigsAlterableConfig:
    name: str
    config_operation: int
    value: str | None

class IncrementalAlterConfigsAlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsAlterableConfig, ...]

class IncrementalAlterConfigsRequest:
    resources: tuple[IncrementalAlterConfigsAlterConfigsResource, ...]
    validate_only: bool

class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None

class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]

class AlterPartitionReassignmentsRequest:
    timeout: timedelta
    topics: tuple[ReassignableTopic, ...]

class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[int, ...]

class ListPartitionReassignmentsRequest:
    timeout: timedelta
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

class OffsetDeleteRequestPartition:
    partition_index: int

class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]

class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]

class ComponentData:
    entity_type: str
    match_type: int
    match: str | None

class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool

class EntityData:
    entity_type: str
    entity_name: str | None

class OpData:
    key: str
    value: float
    remove: bool

class EntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]

class AlterClientQuotasRequest:
    entries: tuple[EntryData, ...]
    validate_only: bool

class UserName:
    name: str

class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None

class ScramCredentialDeletion:
    name: str
    mechanism: int

class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]

class AlterPartitionPartitionData:
    partition_index: int
    leader_epoch: int
    partition_epoch: int

class AlterPartitionTopicData:
    partitions: tuple[AlterPartitionPartitionData, ...]

class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    topics: tuple[AlterPartitionTopicData, ...]

class BrokerState:
    broker_id: int
    broker_epoch: int

class FeatureUpdateKey:
    feature: str
    max_version_level: int

class UpdateFeaturesRequest:
    timeout: timedelta
    feature_updates: tuple[FeatureUpdateKey, ...]

class EnvelopeRequest:
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

class DescribeClusterRequest:
    include_cluster_authorized_operations: bool

class TopicRequest:
    name: str
    partition_indexes: tuple[int, ...]

class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]

class BrokerRegistrationListener:
    name: str
    host: str
    port: int
    security_protocol: int

class BrokerRegistrationFeature:
    name: str
    min_supported_version: int
    max_supported_version: int

class BrokerRegistrationRequest:
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[BrokerRegistrationListener, ...]
    features: tuple[BrokerRegistrationFeature, ...]
    rack: str | None

class BrokerHeartbeatRequest:
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool

class UnregisterBrokerRequest:
    broker_id: int

class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]

class ListTransactionsRequest:
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]

class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int

class ConsumerGroupHeartbeatTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta
    subscribed_topic_names: tuple[str, ...] | None
    server_assignor: str | None
    topic_partitions: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None

class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool

class ControllerRegistrationListener:
    name: str
    host: str
    port: int
    security_protocol: int

class ControllerRegistrationFeature:
    name: str
    min_supported_version: int
    max_supported_version: int

class ControllerRegistrationRequest:
    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool
    listeners: tuple[ControllerRegistrationListener, ...]
    features: tuple[ControllerRegistrationFeature, ...]

class AssignReplicasToDirsPartitionData:
    partition_index: int

class AssignReplicasToDirsTopicData:
    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsPartitionData, ...]

class DirectoryData:
    id_: UUID | None
    topics: tuple[AssignReplicasToDirsTopicData, ...]

class AssignReplicasToDirsRequest:
    broker_id: int
    broker_epoch: int
    directories: tuple[DirectoryData, ...]

class AddRaftVoterListener:
    name: str
    host: str
    port: int

class AddRaftVoterRequest:
    cluster_id: str | None
    timeout: timedelta
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[AddRaftVoterListener, ...]

class RemoveRaftVoterRequest:
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None

class UpdateRaftVoterListener:
    name: str
    host: str
    port: int

class KRaftVersionFeature:
    min_supported_version: int
    max_supported_version: int

class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[UpdateRaftVoterListener, ...]
    k_raft_version_feature: KRaftVersionFeature

@overload
def field_or(
    message: ListOffsetsPartition, name: Literal["max_num_offsets"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: ListOffsetsPartition | OffsetForLeaderPartition,
    name: Literal["current_leader_epoch"],
    default: _D,
) -> _D | int: ...
@overload
def field_or(
    message: ListOffsetsRequest, name: Literal["isolation_level"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: MetadataRequestTopic
    | LeaderAndIsrTopicState
    | UpdateMetadataTopicState
    | AlterPartitionTopicData,
    name: Literal["topic_id"],
    default: None,
) -> UUID | None: ...
@overload
def field_or(
    message: MetadataRequest, name: Literal["allow_auto_topic_creation"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: MetadataRequest, name: Literal["include_cluster_authorized_operations"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: MetadataRequest, name: Literal["include_topic_authorized_operations"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: LeaderAndIsrPartitionState | UpdateMetadataPartitionState | AlterPartitionTopicData,
    name: Literal["topic_name"],
    default: _D,
) -> _D | str: ...
@overload
def field_or(
    message: LeaderAndIsrPartitionState, name: Literal["is_new"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: LeaderAndIsrPartitionState, name: Literal["adding_replicas"], default: _D
) -> _D | tuple[int, ...]: ...
@overload
def field_or(
    message: LeaderAndIsrPartitionState, name: Literal["removing_replicas"], default: _D
) -> _D | tuple[int, ...]: ...
@overload
def field_or(
    message: LeaderAndIsrPartitionState | AlterPartitionPartitionData,
    name: Literal["leader_recovery_state"],
    default: _D,
) -> _D | int: ...
@overload
def field_or(
    message: LeaderAndIsrRequest, name: Literal["ungrouped_partition_states"], default: _D
) -> _D | tuple[LeaderAndIsrPartitionState, ...]: ...
@overload
def field_or(
    message: LeaderAndIsrRequest
    | StopReplicaRequest
    | UpdateMetadataRequest
    | ControlledShutdownRequest,
    name: Literal["broker_epoch"],
    default: _D,
) -> _D | int: ...
@overload
def field_or(
    message: LeaderAndIsrRequest, name: Literal["topic_states"], default: _D
) -> _D | tuple[LeaderAndIsrTopicState, ...]: ...
@overload
def field_or(
    message: LeaderAndIsrRequest | UpdateMetadataRequest, name: Literal["type_"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest,
    name: Literal["is_k_raft_controller"],
    default: _D,
) -> _D | bool: ...
@overload
def field_or(
    message: StopReplicaRequest, name: Literal["delete_partitions"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: StopReplicaRequest, name: Literal["ungrouped_partitions"], default: _D
) -> _D | tuple[StopReplicaPartitionV0, ...]: ...
@overload
def field_or(
    message: StopReplicaRequest, name: Literal["topics"], default: _D
) -> _D | tuple[StopReplicaTopicV1, ...]: ...
@overload
def field_or(
    message: StopReplicaRequest, name: Literal["topic_states"], default: _D
) -> _D | tuple[StopReplicaTopicState, ...]: ...
@overload
def field_or(
    message: UpdateMetadataPartitionState, name: Literal["offline_replicas"], default: _D
) -> _D | tuple[int, ...]: ...
@overload
def field_or(message: UpdateMetadataBroker, name: Literal["v0_host"], default: _D) -> _D | str: ...
@overload
def field_or(message: UpdateMetadataBroker, name: Literal["v0_port"], default: _D) -> _D | int: ...
@overload
def field_or(
    message: UpdateMetadataBroker, name: Literal["endpoints"], default: _D
) -> _D | tuple[UpdateMetadataEndpoint, ...]: ...
@overload
def field_or(message: UpdateMetadataBroker, name: Literal["rack"], default: None) -> str | None: ...
@overload
def field_or(
    message: UpdateMetadataRequest, name: Literal["ungrouped_partition_states"], default: _D
) -> _D | tuple[UpdateMetadataPartitionState, ...]: ...
@overload
def field_or(
    message: UpdateMetadataRequest, name: Literal["topic_states"], default: _D
) -> _D | tuple[UpdateMetadataTopicState, ...]: ...
@overload
def field_or(
    message: UpdateMetadataEndpoint, name: Literal["listener"], default: _D
) -> _D | str: ...
@overload
def field_or(
    message: OffsetCommitRequestPartition, name: Literal["commit_timestamp"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    name: Literal["committed_leader_epoch"],
    default: _D,
) -> _D | int: ...
@overload
def field_or(
    message: OffsetCommitRequest, name: Literal["generation_id_or_member_epoch"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: OffsetCommitRequest | LeaveGroupRequest | TxnOffsetCommitRequest,
    name: Literal["member_id"],
    default: _D,
) -> _D | str: ...
@overload
def field_or(
    message: OffsetCommitRequest, name: Literal["retention_time"], default: _D
) -> _D | timedelta: ...
@overload
def field_or(
    message: OffsetCommitRequest
    | JoinGroupRequest
    | HeartbeatRequest
    | SyncGroupRequest
    | TxnOffsetCommitRequest,
    name: Literal["group_instance_id"],
    default: None,
) -> str | None: ...
@overload
def field_or(message: OffsetFetchRequest, name: Literal["group_id"], default: _D) -> _D | str: ...
@overload
def field_or(
    message: OffsetFetchRequest, name: Literal["topics"], default: None
) -> tuple[OffsetFetchRequestTopic, ...] | None: ...
@overload
def field_or(
    message: OffsetFetchRequest, name: Literal["require_stable"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: OffsetFetchRequest, name: Literal["groups"], default: _D
) -> _D | tuple[OffsetFetchRequestGroup, ...]: ...
@overload
def field_or(
    message: OffsetFetchRequestGroup, name: Literal["member_id"], default: None
) -> str | None: ...
@overload
def field_or(
    message: OffsetFetchRequestGroup, name: Literal["member_epoch"], default: _D
) -> _D | int: ...
@overload
def field_or(message: FindCoordinatorRequest, name: Literal["key"], default: _D) -> _D | str: ...
@overload
def field_or(
    message: FindCoordinatorRequest, name: Literal["key_type"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: FindCoordinatorRequest, name: Literal["coordinator_keys"], default: _D
) -> _D | tuple[str, ...]: ...
@overload
def field_or(
    message: JoinGroupRequest, name: Literal["rebalance_timeout"], default: _D
) -> _D | timedelta: ...
@overload
def field_or(
    message: JoinGroupRequest | MemberIdentity, name: Literal["reason"], default: None
) -> str | None: ...
@overload
def field_or(
    message: LeaveGroupRequest, name: Literal["members"], default: _D
) -> _D | tuple[MemberIdentity, ...]: ...
@overload
def field_or(
    message: SyncGroupRequest, name: Literal["protocol_type"], default: None
) -> str | None: ...
@overload
def field_or(
    message: SyncGroupRequest, name: Literal["protocol_name"], default: None
) -> str | None: ...
@overload
def field_or(
    message: DescribeGroupsRequest, name: Literal["include_authorized_operations"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: ListGroupsRequest, name: Literal["states_filter"], default: _D
) -> _D | tuple[str, ...]: ...
@overload
def field_or(
    message: ListGroupsRequest, name: Literal["types_filter"], default: _D
) -> _D | tuple[str, ...]: ...
@overload
def field_or(
    message: ApiVersionsRequest, name: Literal["client_software_name"], default: _D
) -> _D | str: ...
@overload
def field_or(
    message: ApiVersionsRequest, name: Literal["client_software_version"], default: _D
) -> _D | str: ...
@overload
def field_or(
    message: CreateTopicsRequest | UpdateFeaturesRequest,
    name: Literal["validate_only"],
    default: _D,
) -> _D | bool: ...
@overload
def field_or(
    message: DeleteTopicsRequest, name: Literal["topic_names"], default: _D
) -> _D | tuple[str, ...]: ...
@overload
def field_or(
    message: DeleteTopicsRequest, name: Literal["topics"], default: _D
) -> _D | tuple[DeleteTopicState, ...]: ...
@overload
def field_or(
    message: InitProducerIdRequest, name: Literal["producer_id"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: InitProducerIdRequest, name: Literal["producer_epoch"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: OffsetForLeaderEpochRequest, name: Literal["replica_id"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: AddPartitionsToTxnRequest, name: Literal["v3_and_below_transactional_id"], default: _D
) -> _D | str: ...
@overload
def field_or(
    message: AddPartitionsToTxnRequest, name: Literal["v3_and_below_producer_id"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: AddPartitionsToTxnRequest, name: Literal["v3_and_below_producer_epoch"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: AddPartitionsToTxnRequest, name: Literal["v3_and_below_topics"], default: _D
) -> _D | tuple[AddPartitionsToTxnTopic, ...]: ...
@overload
def field_or(
    message: AddPartitionsToTxnRequest, name: Literal["transactions"], default: _D
) -> _D | tuple[AddPartitionsToTxnTransaction, ...]: ...
@overload
def field_or(
    message: TxnOffsetCommitRequest, name: Literal["generation_id"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: DescribeAclsRequest | DeleteAclsFilter,
    name: Literal["pattern_type_filter"],
    default: _D,
) -> _D | int: ...
@overload
def field_or(
    message: AclCreation, name: Literal["resource_pattern_type"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: DescribeConfigsRequest, name: Literal["include_synonyms"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: DescribeConfigsRequest, name: Literal["include_documentation"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: CreateDelegationTokenRequest, name: Literal["owner_principal_type"], default: None
) -> str | None: ...
@overload
def field_or(
    message: CreateDelegationTokenRequest, name: Literal["owner_principal_name"], default: None
) -> str | None: ...
@overload
def field_or(
    message: ElectLeadersRequest, name: Literal["election_type"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: AlterPartitionPartitionData, name: Literal["new_isr"], default: _D
) -> _D | tuple[int, ...]: ...
@overload
def field_or(
    message: AlterPartitionPartitionData, name: Literal["new_isr_with_epochs"], default: _D
) -> _D | tuple[BrokerState, ...]: ...
@overload
def field_or(
    message: FeatureUpdateKey, name: Literal["allow_downgrade"], default: _D
) -> _D | bool: ...
@overload
def field_or(message: FeatureUpdateKey, name: Literal["upgrade_type"], default: _D) -> _D | int: ...
@overload
def field_or(
    message: DescribeClusterRequest, name: Literal["endpoint_type"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: BrokerRegistrationRequest, name: Literal["is_migrating_zk_broker"], default: _D
) -> _D | bool: ...
@overload
def field_or(
    message: BrokerRegistrationRequest, name: Literal["log_dirs"], default: _D
) -> _D | tuple[UUID | None, ...]: ...
@overload
def field_or(
    message: BrokerRegistrationRequest, name: Literal["previous_broker_epoch"], default: _D
) -> _D | int: ...
@overload
def field_or(
    message: BrokerHeartbeatRequest, name: Literal["offline_log_dirs"], default: _D
) -> _D | tuple[UUID | None, ...]: ...
@overload
def field_or(
    message: ListTransactionsRequest, name: Literal["duration_filter"], default: _D
) -> _D | int: ...
