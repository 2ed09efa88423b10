"""DescribeCluster (60): brokers and controller, for admin clients.

Source: Kafka ``KafkaApis.handleDescribeCluster``, ``AuthHelper.computeDescribeClusterResponse``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.authorization import cluster_operations
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.DESCRIBE_CLUSTER
VERSIONS: Final = (0, 1)
_OF_BROKERS: Final = 1
_OF_CONTROLLERS: Final = 2
_NO_CONTROLLER: Final = -1


async def handle(
    request: request_types.DescribeClusterRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with the live brokers that have the listener of the client's connection."""
    endpoint_type = field_or(request, "endpoint_type", _OF_BROKERS)
    if endpoint_type != _OF_BROKERS:
        return _wrong_endpoint(endpoint_type, context)
    schema = response_schema(API_KEY, context.api_version)
    snapshot = broker.metadata_cache.snapshot
    brokers = tuple(
        schema.part(
            "DescribeClusterBroker",
            broker_id=live.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=live.rack,
        )
        for live in snapshot.live_brokers.values()
        if (endpoint := live.endpoint(context.listener_name)) is not None
    )
    # The controller is named only if it is among the brokers of the response.
    is_shown = any(shown.broker_id == snapshot.controller_id for shown in brokers)
    return schema.response(
        error_code=ErrorCode.none,
        cluster_id=broker.cluster_id,
        controller_id=snapshot.controller_id if is_shown else _NO_CONTROLLER,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(
            broker, context, is_asked=request.include_cluster_authorized_operations
        ),
    )


def refuse(
    _request: request_types.DescribeClusterRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _refusal(context, error, None)


def _wrong_endpoint(endpoint_type: int, context: RequestContext) -> ResponsePayload:
    if endpoint_type == _OF_CONTROLLERS:
        return _refusal(
            context,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        )
    return _refusal(
        context,
        ErrorCode.unsupported_endpoint_type,
        f"Unsupported endpoint type {endpoint_type}",
    )


def _refusal(context: RequestContext, error: ErrorCode, message: str | None) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, error_message=message, cluster_id="", brokers=()
    )
