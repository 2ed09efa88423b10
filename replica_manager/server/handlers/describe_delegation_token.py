"""DescribeDelegationToken (41): the tokens that a client owns, may renew, or may describe.

Any broker handles it.

Source: Kafka ``KafkaApis.handleDescribeTokensRequest``, ``DelegationTokenManager.filterToken``
(KIP-48, KIP-373).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.security.delegation_tokens import KnownToken
from replica_manager.security.principals import Principal
from replica_manager.server.authorization import is_allowed
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.token_requests import is_allowed_here

API_KEY: Final = ApiKey.DESCRIBE_DELEGATION_TOKEN
VERSIONS: Final = (0, 3)


async def handle(
    request: request_types.DescribeDelegationTokenRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """The response with tokens and HMACs, of all owners if ``owners`` is null, none if empty."""
    if not is_allowed_here(context, broker):
        return refuse(request, context, ErrorCode.delegation_token_request_not_allowed)
    if broker.tokens is None:
        return refuse(request, context, ErrorCode.delegation_token_auth_disabled)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    visible = [
        token
        for token in broker.tokens.known.values()
        if _matches_owner(token, owners) and _may_see(token, context, broker)
    ]
    return _response(context, ErrorCode.none, visible)


def refuse(
    _request: request_types.DescribeDelegationTokenRequest,
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, error, ())


def _matches_owner(token: KnownToken, owners: set[str] | None) -> bool:
    return owners is None or any(token.znode.is_owner_or_renewer(owner) for owner in owners)


def _may_see(token: KnownToken, context: RequestContext, broker: BrokerContext) -> bool:
    znode = token.znode
    return (
        znode.is_owner_or_renewer(str(context.principal))
        or is_allowed(
            broker,
            context,
            AclOperation.DESCRIBE,
            ResourceType.DELEGATION_TOKEN,
            znode.token_id,
        )
        or is_allowed(broker, context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, znode.owner)
    )


def _response(
    context: RequestContext, error: ErrorCode, tokens: Iterable[KnownToken]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)

    def described(token: KnownToken) -> object:
        znode = token.znode
        owner, requester = _principal(znode.owner), _principal(znode.requester)
        return schema.part(
            "DescribedDelegationToken",
            principal_type=owner.principal_type,
            principal_name=owner.name,
            token_requester_principal_type=requester.principal_type,
            token_requester_principal_name=requester.name,
            issue_timestamp=znode.issue_timestamp,
            expiry_timestamp=znode.expiry_timestamp,
            max_timestamp=znode.max_timestamp,
            token_id=znode.token_id,
            hmac=token.hmac,
            renewers=tuple(
                schema.part(
                    "DescribedDelegationTokenRenewer",
                    principal_type=renewer.principal_type,
                    principal_name=renewer.name,
                )
                for renewer in map(_principal, znode.renewers)
            ),
        )

    return schema.response(error_code=error, tokens=tuple(map(described, tokens)))


def _principal(text: str) -> Principal:
    principal_type, _, name = text.partition(":")
    return Principal(principal_type, name)
