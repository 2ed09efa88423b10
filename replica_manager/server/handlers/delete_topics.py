"""DeleteTopics (20): marks topics for deletion; waits until the metadata cache has removed them.

Only the active controller handles it.  From version 6 on, a request may have topic ids.

Source: Kafka ``KafkaApis.handleDeleteTopicsRequest``, ``ZkAdminManager.deleteTopics``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.quotas.mutation_quotas import MutationQuota
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, RequestContext, Throttled
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DELETE_TOPICS
VERSIONS: Final = (0, 6)
_TOPIC_IDS_SINCE: Final = 6
_DISABLED_ERROR_SINCE: Final = 3
_STRICT_QUOTA_SINCE: Final = 5
_MILLISECOND: Final = timedelta(milliseconds=1)
_log = logging.getLogger("kafka.server.ZkAdminManager")


class _Named(NamedTuple):
    name: str | None
    topic_id: UUID | None


async def handle(
    request: request_types.DeleteTopicsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | Throttled:
    """The response with one result per topic, in the request's order."""
    if not broker.administration.controller.is_active:
        raise RequestRefused(ErrorCode.not_controller)
    if not broker.config().is_enabled("delete.topic.enable"):
        knows_disabled = context.api_version >= _DISABLED_ERROR_SINCE
        raise RequestRefused(
            ErrorCode.topic_deletion_disabled if knows_disabled else ErrorCode.invalid_request
        )
    snapshot = broker.metadata_cache.snapshot
    topics = [
        _resolved(topic, snapshot.topic_names) async for topic in in_slices(_named_in(request))
    ]
    quota = broker.quotas.controller_mutation.of(
        context.client_id,
        is_strict=context.api_version >= _STRICT_QUOTA_SINCE,
        user=context.principal.name,
    )
    errors: dict[str, ErrorCode] = {}
    names = [topic.name async for topic in in_slices(topics) if topic.name is not None]
    describable = await allowed_names(
        broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, names
    )
    deletable = await allowed_names(broker, context, AclOperation.DELETE, ResourceType.TOPIC, names)
    meant = {
        topic.name: None
        async for topic in in_slices(topics)
        if topic.name is not None and not _is_hidden(topic, describable)
    }
    async for name in in_slices(meant):
        if name not in deletable:
            errors[name] = ErrorCode.topic_authorization_failed
        elif name not in snapshot.partitions:
            errors[name] = ErrorCode.unknown_topic_or_partition
        else:
            errors[name] = await _delete(name, len(snapshot.partitions[name]), quota, broker)
    await _await_deletion(errors, request.timeout // _MILLISECOND, broker)
    throttle_ms = quota.throttle_ms
    response = await composed(
        len(topics),
        lambda: _response(
            context, [_result(topic, errors, describable) for topic in topics], throttle_ms
        ),
    )
    return Throttled(response, throttle_ms)


def _result(
    topic: _Named, errors: Mapping[str, ErrorCode], describable: Mapping[str, None]
) -> tuple[_Named, ErrorCode]:
    if topic.name is None:
        return topic, ErrorCode.unknown_topic_id
    if _is_hidden(topic, describable):
        return _Named(None, topic.topic_id), ErrorCode.topic_authorization_failed
    return topic, errors[topic.name]


def _is_hidden(topic: _Named, describable: Mapping[str, None]) -> bool:
    """Whether the client has sent the topic's id, but may not learn its name."""
    return topic.topic_id is not None and topic.name is not None and topic.name not in describable


def refuse(
    request: request_types.DeleteTopicsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every topic of the request."""
    return _response(context, [(topic, error) for topic in _named_in(request)])


def _named_in(request: request_types.DeleteTopicsRequest) -> Iterator[_Named]:
    names = field_or(request, "topic_names", None)
    if names is not None:
        return (_Named(name, None) for name in names)
    return (_Named(topic.name, topic.topic_id) for topic in field_or(request, "topics", ()))


def _resolved(topic: _Named, topic_names: Mapping[UUID, str]) -> _Named:
    if topic.topic_id is None:
        return topic
    if topic.name is not None:
        raise RequestRefused(
            ErrorCode.invalid_request, "Topic name and topic ID can not both be specified."
        )
    return _Named(topic_names.get(topic.topic_id), topic.topic_id)


async def _delete(
    name: str, partitions: int, quota: MutationQuota, broker: BrokerContext
) -> ErrorCode:
    try:
        quota.charge(partitions)
        await broker.administration.topics.delete(name)
    except RequestRefused as refused:
        return refused.error
    except ZkControllerError as failure:
        _log.error(
            "[Admin Manager on Broker %d]: Error processing delete topic request for topic %s: %s",
            broker.broker_id,
            name,
            failure,
        )
        return error_code_for(failure)
    return ErrorCode.none


async def _await_deletion(
    errors: dict[str, ErrorCode], timeout_ms: int, broker: BrokerContext
) -> None:
    deleted = [name for name, error in errors.items() if error is ErrorCode.none]
    if deleted and timeout_ms > 0:
        await broker.administration.topics.waiters.wait(
            deleted,
            lambda: not any(name in broker.metadata_cache.snapshot.partitions for name in deleted),
            timeout_ms,
        )
    for name in deleted:
        if timeout_ms <= 0 or name in broker.metadata_cache.snapshot.partitions:
            errors[name] = ErrorCode.request_timed_out


def _response(
    context: RequestContext, results: Sequence[tuple[_Named, ErrorCode]], throttle_ms: int = 0
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    has_ids = context.api_version >= _TOPIC_IDS_SINCE
    return schema.response(
        throttle_time=throttle_ms * _MILLISECOND,
        responses=tuple(
            schema.part(
                "DeletableTopicResult",
                # The name may be null from version 6 on only.
                name=topic.name if has_ids else topic.name or "",
                topic_id=topic.topic_id,
                error_code=error,
            )
            for topic, error in results
        ),
    )
