"""Responses of the quorum: values to kio's messages of any version, and back.

A response with a top-level error has no topics.  An older version only leaves out fields.

Source: Kafka ``RaftUtil``, ``FetchResponse``, ``DescribeQuorumResponse``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import MessageSchema, response_schema
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    RaftResponse,
    ReplicaProgress,
    VoteResponse,
)
from kraft.raft.values import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NodeAddress,
    OffsetAndEpoch,
    ReplicaKey,
)
from kraft.raft.wire_schema import (
    endpoints_of,
    id_on_wire,
    id_or_none,
    listeners_of,
    of_metadata,
    response_partition,
)

_NONE: Final = ErrorCode.none
_NO_THROTTLE: Final = timedelta(0)
_NO_POSITION: Final = OffsetAndEpoch(-1, -1)
_ENDPOINTS_IN_FETCH: Final = 17
"""The first Fetch version that names the leader's endpoint; its field in version 16 is empty."""

_ERROR_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.not_leader_or_follower: (
        "For requests intended only for the leader, this error indicates that the broker is not "
        "the current leader. For requests intended for any replica, this error indicates that the "
        "broker is not a replica of the topic partition."
    ),
}
"""Kafka's error messages for a refused DescribeQuorum."""

_API_KEYS: Final[Mapping[type, ApiKey]] = {
    VoteResponse: ApiKey.VOTE,
    BeginQuorumEpochResponse: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochResponse: ApiKey.END_QUORUM_EPOCH,
    FetchResponse: ApiKey.FETCH,
    FetchSnapshotResponse: ApiKey.FETCH_SNAPSHOT,
    DescribeQuorumResponse: ApiKey.DESCRIBE_QUORUM,
}


def response_payload(response: AnyRaftResponse, version: int) -> Any:
    """The response as kio's message of that version."""
    api_key = _API_KEYS[type(response)]
    if response.top_level_error is not _NONE:
        return refusal_payload(api_key, version, response.top_level_error)
    schema = response_schema(api_key, version)
    match response:
        case VoteResponse():
            values = {**_common(response), "vote_granted": response.vote_granted}
            return _epoch_response(schema, response, values)
        case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
            return _epoch_response(schema, response, _common(response))
        case FetchResponse():
            return _fetch(schema, response)
        case FetchSnapshotResponse():
            return _fetch_snapshot(schema, response)
        case DescribeQuorumResponse():
            return _describe(schema, response)
        case _:
            assert_never(response)


def refusal_payload(api_key: int, version: int, error: ErrorCode) -> Any:
    """The response that refuses a whole request."""
    schema = response_schema(ApiKey(api_key), version)
    return schema.whole(
        throttle_time=_NO_THROTTLE,
        error_code=error,
        error_message=_ERROR_MESSAGES.get(error, ""),
        topics=(),
        responses=(),
        nodes=(),
    )


def unknown_partitions_payload(api_key: int, version: int, request: Any) -> Any:
    """The response to a DescribeQuorum or FetchSnapshot for another partition."""
    schema = response_schema(ApiKey(api_key), version)
    error = ErrorCode.unknown_topic_or_partition
    if api_key == ApiKey.DESCRIBE_QUORUM:
        topics = tuple(_unknown_topic(schema, topic, error) for topic in request.topics)
        return schema.whole(error_code=_NONE, error_message="", topics=topics, nodes=())
    # As in Kafka, the response names only the first partition of the request.
    [topic, *_] = request.topics
    partition = _snapshot_part(
        schema, FetchSnapshotResponse(error=error), topic.partitions[0].partition
    )
    return _snapshot_response(schema, topic.name, partition, ())


def _unknown_topic(schema: MessageSchema, topic: Any, error: ErrorCode) -> Any:
    partitions = tuple(
        _described(schema, asked.partition_index, DescribeQuorumResponse(error=error))
        for asked in topic.partitions
    )
    return schema.part("TopicData", topic_name=topic.topic_name, partitions=partitions)


def _common(response: RaftResponse) -> dict[str, Any]:
    return {
        "error_code": response.error,
        "leader_id": id_on_wire(response.leader_id),
        "leader_epoch": response.leader_epoch,
    }


def _epoch_response(schema: MessageSchema, response: RaftResponse, values: dict[str, Any]) -> Any:
    return schema.whole(
        error_code=_NONE,
        topics=of_metadata(schema, **values),
        node_endpoints=_node_endpoints(schema, response),
    )


def _node_endpoints(schema: MessageSchema, response: RaftResponse) -> tuple[Any, ...]:
    leader_id, endpoint = response.leader_id, response.leader_endpoint
    if leader_id is None or endpoint is None or not schema.has("NodeEndpoint"):
        return ()
    return (schema.part("NodeEndpoint", node_id=leader_id, host=endpoint.host, port=endpoint.port),)


def _current_leader(schema: MessageSchema, response: RaftResponse) -> Any:
    return schema.part(
        "LeaderIdAndEpoch",
        leader_id=id_on_wire(response.leader_id),
        leader_epoch=response.leader_epoch,
    )


def _fetch(schema: MessageSchema, response: FetchResponse) -> Any:
    diverging = response.diverging_epoch or _NO_POSITION
    snapshot_id = response.snapshot_id or _NO_POSITION
    partition = schema.part(
        "PartitionData",
        partition_index=METADATA_PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging_epoch=schema.part(
            "EpochEndOffset", epoch=diverging.epoch, end_offset=diverging.offset
        ),
        current_leader=_current_leader(schema, response),
        snapshot_id=schema.part(
            "SnapshotId", end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        ),
        aborted_transactions=(),
        records=response.records,
    )
    topic = schema.part(
        "FetchableTopicResponse", topic_id=METADATA_TOPIC_ID, partitions=(partition,)
    )
    has_endpoints = schema.version >= _ENDPOINTS_IN_FETCH
    return schema.whole(
        throttle_time=_NO_THROTTLE,
        error_code=_NONE,
        responses=(topic,),
        node_endpoints=_node_endpoints(schema, response) if has_endpoints else (),
    )


def _fetch_snapshot(schema: MessageSchema, response: FetchSnapshotResponse) -> Any:
    partition = _snapshot_part(schema, response, METADATA_PARTITION)
    return _snapshot_response(schema, METADATA_TOPIC, partition, _node_endpoints(schema, response))


def _snapshot_part(schema: MessageSchema, response: FetchSnapshotResponse, index: int) -> Any:
    snapshot_id = response.snapshot_id
    return schema.part(
        "PartitionSnapshot",
        index=index,
        error_code=response.error,
        snapshot_id=schema.part(
            "SnapshotId", end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        ),
        current_leader=_current_leader(schema, response),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )


def _snapshot_response(
    schema: MessageSchema, name: str, partition: Any, node_endpoints: tuple[Any, ...]
) -> Any:
    return schema.whole(
        throttle_time=_NO_THROTTLE,
        error_code=_NONE,
        topics=(schema.part("TopicSnapshot", name=name, partitions=(partition,)),),
        node_endpoints=node_endpoints,
    )


def _describe(schema: MessageSchema, response: DescribeQuorumResponse) -> Any:
    partition = _described(schema, METADATA_PARTITION, response)
    topic = schema.part("TopicData", topic_name=METADATA_TOPIC, partitions=(partition,))
    nodes: tuple[Any, ...] = ()
    if schema.has("Node"):
        nodes = tuple(
            schema.part(
                "Node", node_id=node_id, listeners=listeners_of(schema, "Listener", endpoints)
            )
            for node_id, endpoints in response.nodes.items()
        )
    return schema.whole(error_code=_NONE, error_message="", topics=(topic,), nodes=nodes)


def _described(schema: MessageSchema, index: int, response: DescribeQuorumResponse) -> Any:
    is_refused = response.error is not _NONE
    return schema.part(
        "PartitionData",
        partition_index=index,
        error_code=response.error,
        error_message=_ERROR_MESSAGES.get(response.error, ""),
        # Kafka leaves these fields at zero beside an error.
        leader_id=0 if is_refused else id_on_wire(response.leader_id),
        leader_epoch=0 if is_refused else response.leader_epoch,
        high_watermark=0 if is_refused else response.high_watermark,
        current_voters=_replicas(schema, response.voters),
        observers=_replicas(schema, response.observers),
    )


def _replicas(schema: MessageSchema, replicas: tuple[ReplicaProgress, ...]) -> tuple[Any, ...]:
    return tuple(
        schema.part(
            "ReplicaState",
            replica_id=each.replica.id,
            replica_directory_id=each.replica.directory_id,
            log_end_offset=each.log_end_offset,
            last_fetch_timestamp=each.last_fetch_timestamp,
            last_caught_up_timestamp=each.last_caught_up_timestamp,
        )
        for each in replicas
    )


def response_value(api_key: int, payload: Any) -> AnyRaftResponse:
    """The response in a message; InvalidFrame unless it is about the metadata partition."""
    error = getattr(payload, "error_code", _NONE)
    if error is not _NONE:
        return _RESPONSES[api_key](top_level_error=error)
    topics = payload.responses if api_key == ApiKey.FETCH else payload.topics
    return _READERS[api_key](payload, response_partition(topics))


def _vote_value(payload: Any, partition: Any) -> VoteResponse:
    return VoteResponse(
        **_common_values(payload, partition, partition), vote_granted=partition.vote_granted
    )


def _begin_value(payload: Any, partition: Any) -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(**_common_values(payload, partition, partition))


def _end_value(payload: Any, partition: Any) -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(**_common_values(payload, partition, partition))


def _fetch_value(payload: Any, partition: Any) -> FetchResponse:
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        **_common_values(payload, partition, partition.current_leader),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        records=partition.records or b"",
        diverging_epoch=_position(diverging.end_offset, diverging.epoch),
        snapshot_id=_position(snapshot_id.end_offset, snapshot_id.epoch),
    )


def _fetch_snapshot_value(payload: Any, partition: Any) -> FetchSnapshotResponse:
    snapshot_id = partition.snapshot_id
    return FetchSnapshotResponse(
        **_common_values(payload, partition, partition.current_leader),
        snapshot_id=OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


def _describe_value(payload: Any, partition: Any) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        **_common_values(payload, partition, partition),
        high_watermark=partition.high_watermark,
        voters=_progress(partition.current_voters),
        observers=_progress(partition.observers),
        nodes={
            int(node.node_id): endpoints_of(node.listeners)
            for node in getattr(payload, "nodes", ())
        },
    )


def _progress(replicas: Any) -> tuple[ReplicaProgress, ...]:
    return tuple(
        ReplicaProgress(
            ReplicaKey(int(each.replica_id), getattr(each, "replica_directory_id", None)),
            each.log_end_offset,
            getattr(each, "last_fetch_timestamp", -1),
            getattr(each, "last_caught_up_timestamp", -1),
        )
        for each in replicas
    )


class _CommonValues(TypedDict):
    error: ErrorCode
    leader_id: int | None
    leader_epoch: int
    leader_endpoint: NodeAddress | None


def _common_values(payload: Any, partition: Any, leader: Any) -> _CommonValues:
    leader_id = id_or_none(leader.leader_id)
    endpoints = {
        int(each.node_id): NodeAddress(each.host, int(each.port))
        for each in getattr(payload, "node_endpoints", ())
    }
    return _CommonValues(
        error=partition.error_code,
        leader_id=leader_id,
        leader_epoch=leader.leader_epoch,
        leader_endpoint=None if leader_id is None else endpoints.get(leader_id),
    )


def _position(offset: int, epoch: int) -> OffsetAndEpoch | None:
    """The offset and epoch in a message; None if both are -1."""
    place = OffsetAndEpoch(offset, epoch)
    return None if place == _NO_POSITION else place


_RESPONSES: Final[Mapping[int, Callable[..., AnyRaftResponse]]] = {
    ApiKey.VOTE: VoteResponse,
    ApiKey.BEGIN_QUORUM_EPOCH: BeginQuorumEpochResponse,
    ApiKey.END_QUORUM_EPOCH: EndQuorumEpochResponse,
    ApiKey.FETCH: FetchResponse,
    ApiKey.FETCH_SNAPSHOT: FetchSnapshotResponse,
    ApiKey.DESCRIBE_QUORUM: DescribeQuorumResponse,
}
_READERS: Final[Mapping[int, Callable[[Any, Any], AnyRaftResponse]]] = {
    ApiKey.VOTE: _vote_value,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_value,
    ApiKey.END_QUORUM_EPOCH: _end_value,
    ApiKey.FETCH: _fetch_value,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot_value,
    ApiKey.DESCRIBE_QUORUM: _describe_value,
}
