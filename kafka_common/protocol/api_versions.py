"""The APIs and versions that a Kafka 3.9 broker in ZooKeeper mode offers; ApiVersions.

One table holds the key, the name and the versions of each API.  The versions are those that Kafka
3.9 advertises.  KRaft's own APIs are in the table too, marked as not advertised.
Source: Kafka ``ApiKeys``, ``ApiVersionsRequest``, ``ApiVersionsResponse``, KIP-511, KIP-482.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta, i64
from kio.static.protocol import ResponsePayload

from kafka_common.errors import UnsupportedVersion
from kafka_common.protocol.messages import response_type


class ApiKey(IntEnum):
    """Every API key of Kafka 3.9."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CLIENT_METRICS_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87


class Api(NamedTuple):
    """One API: its versions, and the first of them that is flexible (KIP-482)."""

    key: ApiKey
    name: str
    """The name in Kafka's schemas, such as ``LeaderAndIsr``."""
    min_version: int
    max_version: int
    flexible_from: int | None
    """The first flexible version (KIP-482); None if no version is flexible."""
    is_advertised: bool = True
    """Whether Kafka's broker in ZooKeeper mode offers this API."""

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


_TABLE: Final = (
    Api(ApiKey.PRODUCE, "Produce", 0, 11, 9),
    Api(ApiKey.FETCH, "Fetch", 0, 17, 12),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 0, 9, 6),
    Api(ApiKey.METADATA, "Metadata", 0, 12, 9),
    Api(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4),
    Api(ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2),
    Api(ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6),
    Api(ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 0, 9, 8),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 0, 9, 6),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 5, 5),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 0, 7, 5),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 0, 6, 4),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 0, 4, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    Api(ApiKey.END_TXN, "EndTxn", 0, 4, 3),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 0, 1, 1),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 4, 3),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 0, 3, 2),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 0, 3, 2),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 0, 3, 2),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 0, 4, 4),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 0, 2, 2),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 0, 4, 2),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 0, 3, 2),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 0, 2, 2),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 0, 2, 2),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 0, 3, 2),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 0, 0),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    Api(ApiKey.VOTE, "Vote", 0, 1, 0, is_advertised=False),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", 0, 1, 1, is_advertised=False),
    Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", 0, 1, 1, is_advertised=False),
    Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0, is_advertised=False),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 1, 0),
    Api(ApiKey.ENVELOPE, "Envelope", 0, 0, 0),
    Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, 0, is_advertised=False),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 1, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, 0, is_advertised=False),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 1, 0, is_advertised=False),
    Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0, is_advertised=False),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 1, 0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 0, 0),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 0, 0),
    Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", 0, 0, 0, is_advertised=False),
    Api(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        "GetTelemetrySubscriptions",
        0,
        0,
        0,
        is_advertised=False,
    ),
    Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0, is_advertised=False),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, 0, is_advertised=False),
    Api(
        ApiKey.LIST_CLIENT_METRICS_RESOURCES,
        "ListClientMetricsResources",
        0,
        0,
        0,
        is_advertised=False,
    ),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0, is_advertised=False),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 0, 0, 0, is_advertised=False),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 0, 0, 0, is_advertised=False),
    Api(ApiKey.SHARE_FETCH, "ShareFetch", 0, 0, 0, is_advertised=False),
    Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 0, 0, 0, is_advertised=False),
    Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 0, 0, is_advertised=False),
    Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0, is_advertised=False),
    Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", 0, 0, 0, is_advertised=False),
    Api(
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        "InitializeShareGroupState",
        0,
        0,
        0,
        is_advertised=False,
    ),
    Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0, is_advertised=False),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 0, 0, is_advertised=False),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0, is_advertised=False),
    Api(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        "ReadShareGroupStateSummary",
        0,
        0,
        0,
        is_advertised=False,
    ),
)

APIS: Final[Mapping[int, Api]] = {api.key: api for api in _TABLE}
"""Every API of Kafka 3.9 by key."""

NO_FEATURES_EPOCH: Final = -1
"""The finalized features epoch when ``/feature`` is missing or disabled."""

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")
"""The software, and its version, of a client that has not named them."""
_NAMES_SOFTWARE_SINCE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api(api_key: int) -> Api:
    """The table row of an API key; raises UnsupportedVersion if Kafka 3.9 has no such API."""
    try:
        return APIS[api_key]
    except KeyError:
        raise UnsupportedVersion(f"no API has the key {api_key}") from None


def request_header_version(api_key: int, version: int) -> int:
    """The header version of a request: 0, 1 or 2.

    Raises UnsupportedVersion if Kafka 3.9 has no such API.  An API version that Kafka does not know
    has a header version too, because the header of such a request must still be readable.
    """
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if api(api_key).is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """The header version of a response, 0 or 1; UnsupportedVersion if Kafka 3.9 has no such API."""
    # A client must read an ApiVersions response before it knows the broker's versions (KIP-511).
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api(api_key).is_flexible(version) else 0


def is_valid_software(text: str) -> bool:
    """Whether a client software name or version is valid in ApiVersions 3 and later (KIP-511)."""
    return _SOFTWARE.fullmatch(text) is not None


def client_software(version: int, request: Any) -> tuple[str, str] | None:
    """The name and version of the software that sent an ApiVersions request; None if invalid.

    ``version`` is the request's: before version 3 it names none (KIP-511).
    """
    if version < _NAMES_SOFTWARE_SINCE:
        return UNKNOWN_SOFTWARE
    software = request.client_software_name, request.client_software_version
    return software if all(map(is_valid_software, software)) else None


def api_versions_response(
    version: int,
    offered: Mapping[int, tuple[int, int]],
    *,
    finalized_features_epoch: int = NO_FEATURES_EPOCH,
) -> ResponsePayload:
    """The response to an ApiVersions request; ``offered`` maps API key to (min, max) version.

    Each offered range is cut to the versions in the table; a key that the table lacks raises
    UnsupportedVersion.  A broker in ZooKeeper mode supports no features, so none are finalized.
    """
    keys = []
    for key in sorted(offered):
        row = api(key)
        least, most = offered[key]
        keys.append((key, max(least, row.min_version), min(most, row.max_version)))
    return _response(version, ErrorCode.none, keys, finalized_features_epoch)


def api_versions_error(version: int, error: ErrorCode) -> ResponsePayload:
    """The response to a refused ApiVersions request, for example with an invalid client name."""
    return _response(version, error, [], NO_FEATURES_EPOCH)


def unsupported_api_versions_response() -> ResponsePayload:
    """The response, always of version 0, to an ApiVersions request of an unknown version.

    Its one entry holds the ApiVersions versions that the client may send (KIP-511).
    """
    row = api(ApiKey.API_VERSIONS)
    entry = (int(row.key), row.min_version, row.max_version)
    return _response(0, ErrorCode.unsupported_version, [entry], NO_FEATURES_EPOCH)


def _response(
    version: int, error: ErrorCode, keys: list[tuple[int, int, int]], features_epoch: int
) -> ResponsePayload:
    response_class = response_type(ApiKey.API_VERSIONS, version)
    entry_class: Any = vars(sys.modules[response_class.__module__])["ApiVersion"]
    fields: dict[str, object] = {
        "error_code": error,
        "api_keys": tuple(
            entry_class(api_key=i16(key), min_version=i16(least), max_version=i16(most))
            for key, least, most in keys
        ),
    }
    if version >= 1:
        fields["throttle_time"] = i32Timedelta.parse(timedelta(0))
    if version >= 3:
        fields["finalized_features_epoch"] = i64(features_epoch)
    return response_class(**fields)
