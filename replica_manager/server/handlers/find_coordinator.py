"""FindCoordinator (10): the broker that coordinates a group or a transactional id.

A coordinator is the leader of the group's partition of ``__consumer_offsets``, or of the
transactional id's partition of ``__transaction_state``.  The first request creates that topic.
Share groups have no coordinator here.

Source: Kafka ``KafkaApis.handleFindCoordinatorRequest``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import MALFORMED
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import is_allowed, is_cluster_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.FIND_COORDINATOR
VERSIONS: Final = (0, 6)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_SINCE: Final = 6
_SEVERAL_KEYS_SINCE: Final = 4

_NO_BROKER: Final = -1
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTION_TOPIC}

_SENTENCES: Final = {
    # Kafka's message if there is no error.
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.invalid_request: MALFORMED,
}


class _Coordinator(NamedTuple):
    """A coordinator's address, or an error code."""

    error: ErrorCode
    broker_id: int = _NO_BROKER
    host: str = ""
    port: int = _NO_BROKER
    is_topic_missing: bool = False


async def handle(
    request: request_types.FindCoordinatorRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the coordinator of each key and its endpoint on the client's listener."""
    key_type = field_or(request, "key_type", _GROUP)
    keys = dict.fromkeys(_keys(request, context))
    found: dict[str, _Coordinator] = {}
    is_topic_requested = False
    async for key in in_slices(keys):
        found[key] = _find(key, key_type, context, broker)
        if found[key].is_topic_missing and not is_topic_requested:
            # Request the topic once, for all keys: a second attempt would not create it sooner.
            is_topic_requested = True
            await _create(_TOPICS[key_type], context, broker)
    return await composed(len(found), lambda: _response(context, found))


def refuse(
    request: request_types.FindCoordinatorRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``, and its message, for every key."""
    return _response(
        context, dict.fromkeys(_keys(request, context), _Coordinator(error)), _message(error)
    )


def _keys(
    request: request_types.FindCoordinatorRequest, context: RequestContext
) -> tuple[str, ...]:
    if context.api_version >= _SEVERAL_KEYS_SINCE:
        return field_or(request, "coordinator_keys", ())
    return (field_or(request, "key", ""),)


async def _create(topic: str, context: RequestContext, broker: BrokerContext) -> None:
    # As in Kafka, the topic counts for the mutation quota, but does not throttle this request.
    quota = broker.quotas.controller_mutation.of(
        context.client_id, is_strict=False, user=context.principal.name
    )
    await broker.auto_creation.create((topic,), quota.charge)


def _find(key: str, key_type: int, context: RequestContext, broker: BrokerContext) -> _Coordinator:
    refusal = _refusal(key, key_type, context, broker)
    if refusal is not None:
        return refusal
    snapshot = broker.metadata_cache.snapshot
    topic = _TOPICS[key_type]
    if topic not in snapshot.partitions:
        return _Coordinator(ErrorCode.coordinator_not_available, is_topic_missing=True)
    if key_type == _TRANSACTION:
        partition = snapshot.partition(topic, broker.records.transactions.partition_for(key))
    else:
        partition = snapshot.partition(topic, broker.records.groups.partition_for(key))
    if partition is None:
        return _Coordinator(ErrorCode.coordinator_not_available)
    endpoint = snapshot.endpoint(partition.leader, context.listener_name)
    if endpoint is None:
        return _Coordinator(ErrorCode.coordinator_not_available)
    return _Coordinator(ErrorCode.none, partition.leader, endpoint.host, endpoint.port)


def _refusal(
    key: str, key_type: int, context: RequestContext, broker: BrokerContext
) -> _Coordinator | None:
    """The error for a key that the client may not look up; None if it may."""

    def may_describe(resource_type: ResourceType) -> bool:
        return is_allowed(broker, context, AclOperation.DESCRIBE, resource_type, key)

    if key_type == _GROUP:
        is_visible = may_describe(ResourceType.GROUP)
        return None if is_visible else _Coordinator(ErrorCode.group_authorization_failed)
    if key_type == _TRANSACTION:
        is_visible = may_describe(ResourceType.TRANSACTIONAL_ID)
        denied = ErrorCode.transactional_id_authorization_failed
        return None if is_visible else _Coordinator(denied)
    if key_type == _SHARE:
        if context.api_version < _SHARE_SINCE:
            return _Coordinator(ErrorCode.invalid_request)
        if not is_cluster_allowed(broker, context, AclOperation.CLUSTER_ACTION):
            return _Coordinator(ErrorCode.cluster_authorization_failed)
        return _Coordinator(ErrorCode.coordinator_not_available)
    raise RequestRefused(ErrorCode.invalid_request)


def _response(
    context: RequestContext, found: dict[str, _Coordinator], message: str = ""
) -> ResponsePayload:
    """``message``: of each key, since there are several in a response."""
    schema = response_schema(API_KEY, context.api_version)
    if context.api_version < _SEVERAL_KEYS_SINCE:
        [coordinator] = found.values()
        return schema.response(**_fields(coordinator, _message(coordinator.error)))
    return schema.response(
        coordinators=tuple(
            schema.part("Coordinator", key=key, **_fields(each, message))
            for key, each in found.items()
        )
    )


def _message(error: ErrorCode) -> str:
    return _SENTENCES.get(error, error.name.upper())


def _fields(coordinator: _Coordinator, message: str) -> dict[str, object]:
    return {
        "error_code": coordinator.error,
        "error_message": message,
        "node_id": coordinator.broker_id,
        "host": coordinator.host,
        "port": coordinator.port,
    }
