"""Encodes and decodes the quorum's messages in the supported versions.

A request is sent in the highest version that both sides support.  A received request is read in any
offered version.  One for another cluster or partition is refused here and never reaches the raft
step.

Source: Kafka ``KafkaRaftClient`` (``hasValidClusterId``, ``hasValidTopicPartition``),
``KafkaNetworkChannel``, ``ControllerApis``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.protocol import messages
from kafka_common.protocol.api_versions import ApiKey
from kraft.raft.messages import AnyRaftResponse, RaftRequest
from kraft.raft.wire_requests import api_key_of, request_payload, request_value
from kraft.raft.wire_responses import (
    refusal_payload,
    response_payload,
    response_value,
    unknown_partitions_payload,
)

__all__ = (
    "OFFERED",
    "RefusedRequest",
    "api_key_of",
    "common_version",
    "read_request",
    "read_response",
    "write_refusal",
    "write_request",
    "write_response",
)

OFFERED: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.FETCH: (0, 17),
    ApiKey.VOTE: (0, 1),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}
"""The first and last version of each request that a quorum node serves, by API key."""

_SENT: Final[Mapping[int, tuple[int, int]]] = {
    **OFFERED,
    # The quorum accepts only a Fetch that names the topic by its id, as versions from 13 on do.
    ApiKey.FETCH: (13, 17),
}


class RefusedRequest(NamedTuple):
    """A request that is refused before the raft step; ``body`` is the response to send."""

    body: bytes


def common_version(api_key: int, peer: Mapping[int, tuple[int, int]]) -> int | None:
    """The highest version that this node and a peer support; None if there is none.

    ``peer``: first and last version by API key, from the peer's ApiVersions response.
    """
    if api_key not in peer:
        return None
    first, last = peer[api_key]
    least, most = _SENT[api_key]
    version = min(last, most)
    return version if version >= max(first, least) else None


def write_request(request: RaftRequest, version: int) -> bytes:
    """The body of a request, without the fields that the version does not have."""
    return messages.write(request_payload(request, version))


def read_request(
    api_key: int, version: int, data: bytes, offset: int, *, cluster_id: str
) -> RaftRequest | RefusedRequest:
    """The request whose body starts at ``offset``, or a refusal with the response to send.

    ``cluster_id`` is this node's.  InvalidFrame if the bytes are no such request.
    """
    payload = messages.read_request(api_key, version, data, offset)
    if getattr(payload, "cluster_id", None) not in (None, cluster_id):
        return _refused(api_key, version, ErrorCode.inconsistent_cluster_id)
    value = request_value(api_key, payload)
    return _about_another_partition(api_key, version, payload) if value is None else value


def write_response(response: AnyRaftResponse, version: int) -> bytes:
    """The body of a response."""
    return messages.write(response_payload(response, version))


def write_refusal(api_key: int, version: int, error: ErrorCode) -> bytes:
    """The body of a response that refuses the whole request."""
    return messages.write(refusal_payload(api_key, version, error))


def read_response(api_key: int, version: int, body: bytes) -> AnyRaftResponse:
    """The response in ``body``; InvalidFrame if invalid or not about the metadata partition."""
    return response_value(api_key, messages.read_response(api_key, version, body))


def _refused(api_key: int, version: int, error: ErrorCode) -> RefusedRequest:
    return RefusedRequest(write_refusal(api_key, version, error))


def _about_another_partition(api_key: int, version: int, payload: Any) -> RefusedRequest:
    names_some = bool(payload.topics) and bool(payload.topics[0].partitions)
    if api_key == ApiKey.DESCRIBE_QUORUM or (api_key == ApiKey.FETCH_SNAPSHOT and names_some):
        response = unknown_partitions_payload(api_key, version, payload)
        return RefusedRequest(messages.write(response))
    return _refused(api_key, version, ErrorCode.invalid_request)
