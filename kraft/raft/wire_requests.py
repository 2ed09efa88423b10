"""Requests of the quorum: kio's messages of any version to values, and back.

Source: Kafka ``RaftUtil``, ``KafkaRaftClient`` (its checks of topic and partition).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, assert_never

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import MessageSchema, request_schema
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RaftRequest,
    VoteRequest,
)
from kraft.raft.values import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    OffsetAndEpoch,
    ReplicaKey,
)
from kraft.raft.wire_schema import (
    endpoints_of,
    id_on_wire,
    listeners_of,
    metadata_partition,
    of_metadata,
    replica_key,
)

_API_KEYS: Final[Mapping[type, ApiKey]] = {
    VoteRequest: ApiKey.VOTE,
    BeginQuorumEpochRequest: ApiKey.BEGIN_QUORUM_EPOCH,
    EndQuorumEpochRequest: ApiKey.END_QUORUM_EPOCH,
    FetchRequest: ApiKey.FETCH,
    FetchSnapshotRequest: ApiKey.FETCH_SNAPSHOT,
    DescribeQuorumRequest: ApiKey.DESCRIBE_QUORUM,
}


def api_key_of(request: RaftRequest) -> ApiKey:
    """The API key of a request."""
    return _API_KEYS[type(request)]


def request_payload(request: RaftRequest, version: int) -> Any:
    """The request as kio's message, without the fields that the version does not have."""
    schema = request_schema(api_key_of(request), version)
    match request:
        case VoteRequest():
            return _vote(schema, request)
        case BeginQuorumEpochRequest():
            return _begin(schema, request)
        case EndQuorumEpochRequest():
            return _end(schema, request)
        case FetchRequest():
            return _fetch(schema, request)
        case FetchSnapshotRequest():
            return _fetch_snapshot(schema, request)
        case DescribeQuorumRequest():
            return schema.whole(topics=of_metadata(schema))
        case _:
            assert_never(request)


def _vote(schema: MessageSchema, request: VoteRequest) -> Any:
    voter = request.voter or ReplicaKey(id_on_wire(None))
    return schema.whole(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=of_metadata(
            schema,
            candidate_epoch=request.candidate_epoch,
            candidate_id=request.candidate.id,
            candidate_directory_id=request.candidate.directory_id,
            voter_directory_id=voter.directory_id,
            last_offset_epoch=request.log_end.epoch,
            last_offset=request.log_end.offset,
        ),
    )


def _begin(schema: MessageSchema, request: BeginQuorumEpochRequest) -> Any:
    voter = request.voter or ReplicaKey(id_on_wire(None))
    values = {} if schema.version == 0 else {"leader_endpoints": _leader_endpoints(schema, request)}
    return schema.whole(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=of_metadata(
            schema,
            voter_directory_id=voter.directory_id,
            leader_id=request.leader_id,
            leader_epoch=request.leader_epoch,
        ),
        **values,
    )


def _end(schema: MessageSchema, request: EndQuorumEpochRequest) -> Any:
    candidates = request.preferred_candidates
    values: dict[str, object] = {"preferred_successors": tuple(each.id for each in candidates)}
    endpoints = {}
    if schema.version >= 1:
        values["preferred_candidates"] = tuple(
            schema.part(
                "ReplicaInfo", candidate_id=each.id, candidate_directory_id=each.directory_id
            )
            for each in candidates
        )
        endpoints["leader_endpoints"] = _leader_endpoints(schema, request)
    return schema.whole(
        cluster_id=request.cluster_id,
        topics=of_metadata(
            schema, leader_id=request.leader_id, leader_epoch=request.leader_epoch, **values
        ),
        **endpoints,
    )


def _leader_endpoints(
    schema: MessageSchema, request: BeginQuorumEpochRequest | EndQuorumEpochRequest
) -> tuple[Any, ...]:
    return listeners_of(schema, "LeaderEndpoint", request.leader_endpoints)


def _fetch(schema: MessageSchema, request: FetchRequest) -> Any:
    replica = request.replica or ReplicaKey(id_on_wire(None))
    values: dict[str, object] = {"replica_id": replica.id}
    if schema.has("ReplicaState"):
        values["replica_state"] = schema.part("ReplicaState", replica_id=replica.id)
    partition = schema.part(
        "FetchPartition",
        partition=METADATA_PARTITION,
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        # Not used: ``max_bytes`` limits the whole response.
        partition_max_bytes=0,
        replica_directory_id=replica.directory_id,
    )
    return schema.whole(
        cluster_id=request.cluster_id,
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=(schema.part("FetchTopic", topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
        **values,
    )


def _fetch_snapshot(schema: MessageSchema, request: FetchSnapshotRequest) -> Any:
    replica = request.replica or ReplicaKey(id_on_wire(None))
    snapshot_id = request.snapshot_id
    partition = schema.part(
        "PartitionSnapshot",
        partition=METADATA_PARTITION,
        current_leader_epoch=request.leader_epoch,
        snapshot_id=schema.part(
            "SnapshotId", end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=replica.directory_id,
    )
    return schema.whole(
        cluster_id=request.cluster_id,
        replica_id=replica.id,
        max_bytes=request.max_bytes,
        topics=(schema.part("TopicSnapshot", name=METADATA_TOPIC, partitions=(partition,)),),
    )


def request_value(api_key: int, payload: Any) -> RaftRequest | None:
    """The request in a message; None unless it names the metadata partition and no other."""
    partition = metadata_partition(payload.topics)
    return None if partition is None else _READERS[api_key](payload, partition)


def _vote_value(payload: Any, partition: Any) -> VoteRequest:
    return VoteRequest(
        payload.cluster_id,
        _voter(payload, partition),
        partition.candidate_epoch,
        # A negative id is refused where the request is handled, not here.
        ReplicaKey(int(partition.candidate_id), getattr(partition, "candidate_directory_id", None)),
        OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
    )


def _begin_value(payload: Any, partition: Any) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(
        payload.cluster_id,
        _voter(payload, partition),
        int(partition.leader_id),
        partition.leader_epoch,
        endpoints_of(getattr(payload, "leader_endpoints", ())),
    )


def _end_value(payload: Any, partition: Any) -> EndQuorumEpochRequest:
    if hasattr(partition, "preferred_candidates"):
        candidates = tuple(
            ReplicaKey(int(each.candidate_id), each.candidate_directory_id)
            for each in partition.preferred_candidates
        )
    else:
        candidates = tuple(ReplicaKey(int(each)) for each in partition.preferred_successors)
    return EndQuorumEpochRequest(
        payload.cluster_id,
        int(partition.leader_id),
        partition.leader_epoch,
        candidates,
        endpoints_of(getattr(payload, "leader_endpoints", ())),
    )


def _fetch_value(payload: Any, partition: Any) -> FetchRequest:
    state = getattr(payload, "replica_state", payload)
    return FetchRequest(
        payload.cluster_id,
        replica_key(state.replica_id, getattr(partition, "replica_directory_id", None)),
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        payload.max_wait // timedelta(milliseconds=1),
        payload.max_bytes,
    )


def _fetch_snapshot_value(payload: Any, partition: Any) -> FetchSnapshotRequest:
    wanted = partition.snapshot_id
    return FetchSnapshotRequest(
        payload.cluster_id,
        replica_key(payload.replica_id, getattr(partition, "replica_directory_id", None)),
        partition.current_leader_epoch,
        OffsetAndEpoch(wanted.end_offset, wanted.epoch),
        partition.position,
        payload.max_bytes,
    )


def _describe_value(_payload: Any, _partition: Any) -> DescribeQuorumRequest:
    return DescribeQuorumRequest()


def _voter(payload: Any, partition: Any) -> ReplicaKey | None:
    if not hasattr(payload, "voter_id"):
        return None
    return replica_key(payload.voter_id, partition.voter_directory_id)


_READERS: Final[Mapping[int, Callable[[Any, Any], RaftRequest]]] = {
    ApiKey.VOTE: _vote_value,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_value,
    ApiKey.END_QUORUM_EPOCH: _end_value,
    ApiKey.FETCH: _fetch_value,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot_value,
    ApiKey.DESCRIBE_QUORUM: _describe_value,
}
