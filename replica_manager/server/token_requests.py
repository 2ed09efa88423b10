"""What the APIs of delegation tokens have in common, on brokers and on controllers of a quorum.

Source: Kafka ``KafkaApis.allowTokenRequests``, ``ControllerApis.allowTokenRequests`` (KIP-48).
"""

from __future__ import annotations

from typing import Final, cast

from kio.static.protocol import ResponsePayload

from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.schema import NO_THROTTLE
from zkcontroller.protocol.numeric_times import numeric_response_type
from zkcontroller.protocol.versioned_messages import made_of

_PLAINTEXT: Final = "PLAINTEXT"
_SSL: Final = "SSL"


def are_token_requests_allowed(
    security_protocol: str, principal: Principal, *, is_token_authenticated: bool
) -> bool:
    """Whether a client is sure to be itself, by a login that is none by a token."""
    if is_token_authenticated or security_protocol == _PLAINTEXT:
        return False
    return security_protocol != _SSL or principal != ANONYMOUS


def is_allowed_here(context: RequestContext, broker: BrokerContext) -> bool:
    """The same of a request to this broker."""
    protocols = {
        endpoint.listener_name: endpoint.security_protocol
        for endpoint in broker.config().listeners.bound
    }
    # A listener that is being closed is none that a client can be sure by.
    protocol = protocols.get(context.listener_name, _PLAINTEXT)
    return are_token_requests_allowed(
        protocol, context.principal, is_token_authenticated=context.is_token_authenticated
    )


def numeric_response(api_key: int, version: int, **values: object) -> ResponsePayload:
    """A response whose points in time are numbers."""
    kind = numeric_response_type(api_key, version)
    return cast(ResponsePayload, made_of(kind, {"throttle_time": NO_THROTTLE} | values))
