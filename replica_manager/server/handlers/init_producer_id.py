"""InitProducerId (22): allocates a producer id and epoch.

Any broker handles it for a producer without a transactional id.  For a transactional id, its
coordinator handles it and fences the earlier producer with that id.

Source: Kafka ``KafkaApis.handleInitProducerIdRequest``,
``TransactionCoordinator.handleInitProducerId`` (KIP-98, KIP-360, KIP-679).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import NO_PRODUCER_EPOCH
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.coordinators.transactions.requests import (
    InitProducerId,
    InitProducerIdResult,
    ProducerIdAndEpoch,
)
from replica_manager.request_errors import before_producer_fenced
from replica_manager.server.authorization import (
    is_allowed,
    is_allowed_on_any,
    is_cluster_allowed,
)
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.INIT_PRODUCER_ID
VERSIONS: Final = (0, 5)

_NO_PRODUCER_ID: Final = -1
_FENCED_SINCE: Final = 4
"""The first version whose clients know PRODUCER_FENCED."""
_MILLISECOND: Final = timedelta(milliseconds=1)


async def handle(
    request: request_types.InitProducerIdRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with a producer id and epoch.

    Without a transactional id, it is always a new producer id with epoch 0.
    """
    transactional_id = request.transactional_id
    denied = _denied(transactional_id, context, broker)
    if denied is not None:
        return refuse(request, context, denied)
    known_id = field_or(request, "producer_id", _NO_PRODUCER_ID)
    known_epoch = field_or(request, "producer_epoch", NO_PRODUCER_EPOCH)
    if (known_id == _NO_PRODUCER_ID) != (known_epoch == NO_PRODUCER_EPOCH):
        return refuse(request, context, ErrorCode.invalid_request)
    if transactional_id is None:
        return _response(context, ErrorCode.none, await broker.producer_ids.next_id(), 0)
    has_id = known_id != _NO_PRODUCER_ID
    asked = InitProducerId(
        broker.records.transactions.new_request_id(),
        transactional_id,
        request.transaction_timeout // _MILLISECOND,
        ProducerIdAndEpoch(known_id, known_epoch) if has_id else None,
    )
    result = await broker.records.transactions.ask(asked, InitProducerIdResult)
    error = result.error
    error = before_producer_fenced(error, context.api_version, _FENCED_SINCE)
    return _response(context, error, result.producer_id, result.producer_epoch)


def refuse(
    _request: request_types.InitProducerIdRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` and no producer id."""
    return _response(context, error, _NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def _denied(
    transactional_id: str | None, context: RequestContext, broker: BrokerContext
) -> ErrorCode | None:
    """The error if the client may not get a producer id; None if it may."""
    if transactional_id is not None:
        is_free = is_allowed(
            broker,
            context,
            AclOperation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            transactional_id,
        )
        return None if is_free else ErrorCode.transactional_id_authorization_failed
    # A client that may write to at least one topic may write idempotently (KIP-679).
    if is_cluster_allowed(
        broker, context, AclOperation.IDEMPOTENT_WRITE, log_if_denied=False
    ) or is_allowed_on_any(broker, context, AclOperation.WRITE, ResourceType.TOPIC):
        return None
    return ErrorCode.cluster_authorization_failed


def _response(
    context: RequestContext, error: ErrorCode, producer_id: int, producer_epoch: int
) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, producer_id=producer_id, producer_epoch=producer_epoch
    )
