"""ConsumerGroupDescribe (69): refused, as by Kafka's brokers in ZooKeeper mode.

An AdminClient asks for this first, and then for DescribeGroups.

Source: Kafka ``KafkaApis.handleConsumerGroupDescribe``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.CONSUMER_GROUP_DESCRIBE
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.ConsumerGroupDescribeRequest, context: RequestContext, _: BrokerContext
) -> ResponsePayload:
    """The response with UNSUPPORTED_VERSION for every group of the request."""
    return refuse(request, context, ErrorCode.unsupported_version)


def refuse(
    request: request_types.ConsumerGroupDescribeRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every group of the request."""
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        groups=tuple(
            schema.part(
                "DescribedGroup",
                error_code=error,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
            )
            for group_id in request.group_ids
        )
    )
