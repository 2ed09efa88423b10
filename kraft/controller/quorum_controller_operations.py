"""Maps each request to the manager that handles it.

Source: the methods of Kafka's ``QuorumController`` that implement ``Controller``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.features import FinalizedControllerFeatures
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    AlterClientQuotas,
    AlterPartitionReassignments,
    AlterPartitions,
    AlterUserScramCredentials,
    AssignReplicasToDirs,
    ClusterWrite,
    ControllerRequest,
    CreateAcls,
    CreateDelegationToken,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DescribeConfigs,
    DescribeControllers,
    ElectLeaders,
    ExpireDelegationToken,
    FindAllTopicIds,
    FindTopicIds,
    FindTopicNames,
    GetFinalizedFeatures,
    IncrementalAlterConfigs,
    LegacyAlterConfigs,
    ListReassignments,
    ProcessBrokerHeartbeat,
    ReadRequest,
    RegisterBroker,
    RegisterController,
    RenewDelegationToken,
    SecurityWrite,
    SettingsWrite,
    TopicWrite,
    UnregisterBroker,
    UpdateFeatureLevels,
    WriteRequest,
)
from kraft.controller.quorum_controller_state import QuorumControllerState
from kraft.controller.quorum_features import KRAFT_VERSION
from kraft.controller.registrations import ControllerRegistration
from kraft.controller.result import ControllerResult
from kraft.controller.topic_requests import PartitionChangeQuota

AnyResult: TypeAlias = ControllerResult[Any]


@dataclass(slots=True)
class WriteOperation:
    """A write: generates records, then runs a step after they are appended."""

    name: str
    generate: Callable[[int], AnyResult]
    """Called with the time; changes nothing that records describe."""
    after_append: Callable[[int, int], None] | None = None
    """Called with an offset and the time.  The offset is that of the last generated record; without
    records, that of the last record in the log."""
    on_failure: Callable[[ApiException, int], None] | None = None
    """Called with the error for the client, and the time."""
    runs_in_premigration: bool = False


_OPERATION_NAMES: Final[Mapping[str, str]] = {
    "AlterPartitions": "alterPartition",
    "AllocateProducerIdBlock": "allocateProducerIds",
    "UpdateFeatureLevels": "updateFeatures",
    "ListReassignments": "listPartitionReassignments",
}


def operation_name(request: ControllerRequest) -> str:
    """Kafka's name for the operation: ``createTopics``."""
    name = type(request).__name__
    return _OPERATION_NAMES.get(name) or name[0].lower() + name[1:]


def is_empty(request: ControllerRequest) -> bool:
    """Whether the request has no entries, so that it needs no work."""
    match request:
        case AlterPartitions() | CreateTopics():
            return not request.request.topics
        case DeleteTopics() | FindTopicNames():
            return not request.topic_ids
        case FindTopicIds():
            return not request.names
        case CreatePartitions() | AlterPartitionReassignments():
            return not request.topics
        case ListReassignments():
            return request.topics == ()
        case ElectLeaders():
            return request.partitions == ()
        case IncrementalAlterConfigs():
            return not request.changes
        case LegacyAlterConfigs():
            return not request.new_configs
        case AlterClientQuotas():
            return not request.alterations
        case AlterUserScramCredentials():
            return not request.deletions and not request.upsertions
        case _:
            return False


def empty_response(request: ControllerRequest) -> object:
    """The response to a request without entries."""
    by_key = (
        DeleteTopics,
        FindTopicNames,
        FindTopicIds,
        IncrementalAlterConfigs,
        LegacyAlterConfigs,
        AlterClientQuotas,
        AlterUserScramCredentials,
    )
    return {} if isinstance(request, by_key) else ()


def read(state: QuorumControllerState, request: ReadRequest) -> object:
    """The response to a read, from the stable state."""
    epoch = state.offsets.last_stable_offset
    topics = state.replication.state
    match request:
        case FindTopicIds():
            return topics.find_topic_ids(request.names, epoch)
        case FindAllTopicIds():
            return topics.find_all_topic_ids(epoch)
        case FindTopicNames():
            return topics.find_topic_names(request.topic_ids, epoch)
        case DescribeConfigs():
            return state.configs.describe_configs(epoch, request.resources)
        case GetFinalizedFeatures():
            levels = state.features.finalized_features(epoch).levels
            return FinalizedControllerFeatures(levels, state.features.changed_at(epoch))
        case DescribeControllers():
            return _controllers(state, epoch)
        case ListReassignments():
            reassignments = state.replication.reassignments
            return reassignments.list_partition_reassignments(request.topics, epoch)
        case _:
            assert_never(request)


def _controllers(state: QuorumControllerState, epoch: int) -> Mapping[int, ControllerRegistration]:
    if not state.features.metadata_version_at(epoch).is_controller_registration_supported:
        raise ApiException(
            ErrorCode.unsupported_version,
            "Direct-to-controller communication is not supported with the current MetadataVersion.",
        )
    return state.cluster.controllers(epoch)


class WriteOperations:
    """Builds the operation for each write request."""

    def __init__(
        self,
        state: QuorumControllerState,
        kraft_version: Callable[[], int],
        reschedule_fencing: Callable[[], None],
        count_timed_out_heartbeat: Callable[[], None],
    ) -> None:
        """``reschedule_fencing`` schedules the check for brokers whose session has ended."""
        self._state = state
        self._kraft_version = kraft_version
        self._reschedule_fencing = reschedule_fencing
        self._count_timed_out_heartbeat = count_timed_out_heartbeat

    def operation(self, request: WriteRequest, apply_quota: PartitionChangeQuota) -> WriteOperation:
        """The operation for that request."""
        match request:
            case ProcessBrokerHeartbeat():
                return self._heartbeat(request)
            case RegisterBroker():
                return self._register_broker(request)
            case UnregisterBroker() | RegisterController():
                operation = self._operation(request, apply_quota)
                operation.runs_in_premigration = True
                return operation
            case _:
                return self._operation(request, apply_quota)

    def _operation(
        self, request: WriteRequest, apply_quota: PartitionChangeQuota
    ) -> WriteOperation:
        name = operation_name(request)
        return WriteOperation(name, lambda now_ms: self._generate(request, apply_quota, now_ms))

    def _generate(
        self, request: WriteRequest, apply_quota: PartitionChangeQuota, now_ms: int
    ) -> AnyResult:
        if isinstance(request, TopicWrite):
            return self._generate_for_topics(request, apply_quota)
        if isinstance(request, ClusterWrite):
            return self._generate_for_cluster(request, now_ms)
        if isinstance(request, SecurityWrite):
            return self._generate_for_security(request)
        return self._generate_for_settings(request)

    def _generate_for_topics(
        self, request: TopicWrite, apply_quota: PartitionChangeQuota
    ) -> AnyResult:
        replication = self._state.replication
        match request:
            case AlterPartitions():
                return replication.isr.alter(request.request, request.version)
            case CreateTopics():
                return replication.topics.create_topics(request.request, apply_quota)
            case DeleteTopics():
                return replication.topics.delete_topics(request.topic_ids, apply_quota)
            case CreatePartitions():
                created = replication.topics.create_partitions(request.topics, apply_quota)
                return _unless_validating(created, request.validate_only)
            case ElectLeaders():
                elections = replication.elections
                return elections.elect_leaders(request.election_type, request.partitions)
            case AlterPartitionReassignments():
                return replication.reassignments.alter_partition_reassignments(request.topics)
            case AssignReplicasToDirs():
                return replication.brokers.assign_replicas_to_dirs(
                    request.broker_id, request.broker_epoch, request.directories
                )
            case _:
                assert_never(request)

    def _generate_for_cluster(self, request: ClusterWrite, now_ms: int) -> AnyResult:
        state = self._state
        match request:
            case RegisterBroker():
                return state.cluster.register_broker(
                    request.request,
                    state.offsets.next_write_offset,
                    self._finalized_levels(),
                    state.replication.brokers,
                    now_ms,
                )
            case UnregisterBroker():
                return state.heartbeats.unregister_broker(request.broker_id)
            case ProcessBrokerHeartbeat():
                return state.heartbeats.process_broker_heartbeat(request.heartbeat, now_ms)
            case RegisterController():
                return state.cluster.register_controller(request.request)
            case _:
                assert_never(request)

    def _generate_for_settings(self, request: SettingsWrite) -> AnyResult:
        state = self._state
        match request:
            case IncrementalAlterConfigs():
                altered = state.configs.incremental_alter_configs(request.changes)
                return _unless_validating(altered, request.validate_only)
            case LegacyAlterConfigs():
                altered = state.configs.legacy_alter_configs(request.new_configs)
                return _unless_validating(altered, request.validate_only)
            case AlterClientQuotas():
                quotas = state.quotas.alter_client_quotas(request.alterations)
                return _unless_validating(quotas, request.validate_only)
            case AllocateProducerIdBlock():
                return state.producer_ids.generate_next_producer_id(
                    request.broker_id, request.broker_epoch
                )
            case UpdateFeatureLevels():
                return state.features.update_features(
                    request.updates, state.cluster, validate_only=request.validate_only
                )
            case _:
                assert_never(request)

    def _generate_for_security(self, request: SecurityWrite) -> AnyResult:
        state = self._state
        now_ms = state.wall_time_ms()
        match request:
            case CreateAcls():
                return state.acls.create_acls(request.acls)
            case DeleteAcls():
                return state.acls.delete_acls(request.filters)
            case AlterUserScramCredentials():
                return state.scram.alter_credentials(request.deletions, request.upsertions)
            case CreateDelegationToken():
                return state.tokens.create_delegation_token(
                    request.requester,
                    request.owner,
                    request.renewers,
                    request.max_lifetime_ms,
                    now_ms,
                )
            case RenewDelegationToken():
                return state.tokens.renew_delegation_token(
                    request.requester, request.token_hmac, request.renew_period_ms, now_ms
                )
            case ExpireDelegationToken():
                return state.tokens.expire_delegation_token(
                    request.requester, request.token_hmac, request.expiry_period_ms, now_ms
                )
            case _:
                assert_never(request)

    def _finalized_levels(self) -> Mapping[str, int]:
        levels = self._state.features.finalized_features().levels
        return {**levels, KRAFT_VERSION: self._kraft_version()}

    def _register_broker(self, request: RegisterBroker) -> WriteOperation:
        def generate(now_ms: int) -> AnyResult:
            result = self._generate_for_cluster(request, now_ms)
            self._reschedule_fencing()
            return result

        return WriteOperation("registerBroker", generate, runs_in_premigration=True)

    def _heartbeat(self, request: ProcessBrokerHeartbeat) -> WriteOperation:
        broker_id = request.heartbeat.broker_id
        is_stopping = False

        def generate(now_ms: int) -> AnyResult:
            nonlocal is_stopping
            result = self._generate_for_cluster(request, now_ms)
            is_stopping = result.response.in_controlled_shutdown
            self._reschedule_fencing()
            return result

        def after_append(offset: int, _now_ms: int) -> None:
            if is_stopping:
                heartbeats = self._state.cluster.heartbeats
                heartbeats.maybe_update_controlled_shutdown_offset(broker_id, offset)

        def on_failure(error: ApiException, now_ms: int) -> None:
            if is_timeout(error) and self._state.offsets.is_active:
                with contextlib.suppress(ApiException):
                    self._state.heartbeats.process_expired_broker_heartbeat(
                        request.heartbeat, now_ms
                    )
                    self._count_timed_out_heartbeat()

        return WriteOperation(
            "processBrokerHeartbeat",
            generate,
            after_append,
            on_failure,
            runs_in_premigration=True,
        )


def is_timeout(error: ApiException) -> bool:
    """Whether the error is REQUEST_TIMED_OUT: the request's deadline passed in the queue."""
    return error.error is ErrorCode.request_timed_out


def _unless_validating(result: AnyResult, validate_only: bool) -> AnyResult:
    return ControllerResult.of((), result.response) if validate_only else result
