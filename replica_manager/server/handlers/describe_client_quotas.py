"""DescribeClientQuotas (48): the quotas of users, client ids and addresses.

They are read from ZooKeeper for each request.

Source: Kafka ``KafkaApis.handleDescribeClientQuotasRequest`` (KIP-546).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.quota_filters import Described, QuotaFilter

API_KEY: Final = ApiKey.DESCRIBE_CLIENT_QUOTAS
VERSIONS: Final = (0, 1)


async def handle(
    request: request_types.DescribeClientQuotasRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with the quotas of every entity that matches the filter."""
    try:
        wanted = await aside(
            len(request.components),
            partial(QuotaFilter, request.components, is_strict=request.strict),
        )
    except RequestRefused as refused:
        return _refused(context, refused.error, refused.message)
    found = await broker.administration.admin.client_quotas(wanted)
    return await composed(len(found), lambda: _response(context, found))


def refuse(
    _request: request_types.DescribeClientQuotasRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _refused(context, error, None)


def _refused(context: RequestContext, error: ErrorCode, message: str | None) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, error_message=message, entries=None
    )


def _response(context: RequestContext, found: Sequence[Described]) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=ErrorCode.none,
        error_message="",  # not null, as in Kafka
        entries=tuple(
            schema.part(
                "EntryData",
                entity=tuple(
                    schema.part("EntityData", entity_type=entity_type, entity_name=name)
                    for entity_type, name in each.entity.items()
                ),
                values=tuple(
                    schema.part("ValueData", key=key, value=value)
                    for key, value in each.quotas.items()
                ),
            )
            for each in found
        ),
    )
