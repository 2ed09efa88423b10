"""DescribeCluster (60) of a controller: the controllers, which clients may then ask directly.

The response names the registered controllers that have the client's listener.  Before 3.7-IV0 no
controller can register, and the request gets UNSUPPORTED_VERSION.

Source: Kafka ``ControllerApis.handleDescribeCluster``, ``ControllerRegistrationsPublisher``,
``AuthHelper.computeDescribeClusterResponse`` (KIP-919).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiError, ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.quorum_controller_requests import DescribeControllers
from kraft.controller.registrations import ControllerRegistration
from kraft.node.controller_apis.call import Call, ControllerApi
from replica_manager.security.authorizer import CLUSTER_NAME

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NO_CONTROLLER: Final = -1
_NOT_ASKED: Final = -(2**31)
"""The value of ``cluster_authorized_operations`` if the client did not ask for them."""


async def _describe(request: request_types.DescribeClusterRequest, call: Call) -> ResponsePayload:
    try:
        # Ask first: a client without permission gets the error for that, whatever it requests.
        registered = await call.ask(DescribeControllers())
    except ApiException as refused:
        return _refusal(call, refused.to_error())
    endpoint_type = field_or(request, "endpoint_type", _BROKERS)
    if endpoint_type != _CONTROLLERS:
        return _refusal(call, _wrong_endpoint(endpoint_type, call.version))
    schema = response_schema(ApiKey.DESCRIBE_CLUSTER, call.version)
    controllers = _on_listener(registered, call.context.listener_name)
    leader_id = call.services.node.leader_id
    return schema.response(
        error_code=ErrorCode.none,
        endpoint_type=_CONTROLLERS,
        cluster_id=call.services.node.cluster_id,
        # A leader that is not in the list would only confuse the client.
        controller_id=leader_id if leader_id in controllers else _NO_CONTROLLER,
        brokers=tuple(
            schema.part("DescribeClusterBroker", broker_id=node_id, host=host, port=port, rack=None)
            for node_id, (host, port) in controllers.items()
        ),
        cluster_authorized_operations=_operations(call)
        if request.include_cluster_authorized_operations
        else _NOT_ASKED,
    )


def _on_listener(
    registered: Mapping[int, ControllerRegistration], listener_name: str
) -> dict[int, tuple[str, int]]:
    """The host and port of each controller on that listener, by node id."""
    return {
        node_id: (endpoint.host, endpoint.port)
        for node_id, registration in registered.items()
        if (endpoint := registration.listeners.get(listener_name)) is not None
    }


def _operations(call: Call) -> int:
    if not call.permissions.allow_on_cluster(AclOperation.DESCRIBE):
        return 0
    return call.permissions.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _wrong_endpoint(endpoint_type: int, version: int) -> ApiError:
    if endpoint_type == _BROKERS:
        error = ErrorCode.mismatched_endpoint_type
        message = (
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of "
            "type BROKER"
        )
    else:
        error = ErrorCode.unsupported_endpoint_type
        message = f"Unsupported endpoint type {endpoint_type}"
    # Version 0 has no field for the endpoint type, and its clients do not know these errors.
    return ApiError(ErrorCode.invalid_request if version == 0 else error, message)


def _refusal(call: Call, error: ApiError) -> ResponsePayload:
    return response_schema(ApiKey.DESCRIBE_CLUSTER, call.version).response(
        error_code=error.error, error_message=error.message, cluster_id="", brokers=()
    )


DESCRIBE_CLUSTER_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.DESCRIBE_CLUSTER: ControllerApi(0, 1, _describe, AclOperation.ALTER),
}
