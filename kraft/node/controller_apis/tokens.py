"""Delegation tokens (38, 39, 40): created, renewed, expired.

The client must be authenticated, by a login or by the broker that forwards the request.  A client
that logged in with a token may not send these requests.

Source: Kafka ``ControllerApis.handleCreateDelegationTokenRequest``, ``allowTokenRequests`` and
their neighbours (KIP-48, KIP-373, KIP-900).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.numeric_times import NO_TIME
from kafka_common.protocol.request_types import field_or
from kraft.controller.delegation_token_control import CreatedDelegationToken
from kraft.controller.quorum_controller_requests import (
    CreateDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
)
from kraft.node.controller_apis.call import Call, ControllerApi
from replica_manager.security.principals import USER, Principal
from replica_manager.server.token_requests import are_token_requests_allowed, numeric_response


async def _create(
    request: request_types.CreateDelegationTokenRequest, call: Call
) -> ResponsePayload:
    requester = call.context.principal
    owner = requester
    if name := field_or(request, "owner_principal_name", None):
        owner = Principal(field_or(request, "owner_principal_type", None) or USER, name)
    try:
        error = _denial(call, owner)
        if error is not ErrorCode.none:
            return _created(call, error, owner, time_ms=NO_TIME)
        created: CreatedDelegationToken = await call.ask(
            CreateDelegationToken(
                str(requester),
                str(owner),
                tuple((each.principal_type, each.principal_name) for each in request.renewers),
                request.max_lifetime,
            )
        )
    except ApiException as refused:
        return _created(call, refused.error, owner, time_ms=0)
    return _created(call, ErrorCode.none, owner, created=created)


def _denial(call: Call, owner: Principal) -> ErrorCode:
    if not _are_token_requests_allowed(call):
        return ErrorCode.delegation_token_request_not_allowed
    # Every client may create a token for itself.
    if owner != call.context.principal and not call.permissions.allow(
        AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.delegation_token_authorization_failed
    return ErrorCode.none


def _are_token_requests_allowed(call: Call) -> bool:
    context = call.context
    # A broker that forwards a request has checked the client's security protocol.
    return not context.is_token_authenticated and (
        context.is_forwarded
        or are_token_requests_allowed(
            context.security_protocol, context.principal, is_token_authenticated=False
        )
    )


def _created(
    call: Call,
    error: ErrorCode,
    owner: Principal,
    *,
    created: CreatedDelegationToken | None = None,
    time_ms: int = 0,
) -> ResponsePayload:
    """The response; every time in it is ``time_ms`` if no token was created."""
    requester = call.context.principal
    token = None if created is None else created.record
    return _response(
        ApiKey.CREATE_DELEGATION_TOKEN,
        call,
        error_code=error,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp=time_ms if token is None else token.issue_timestamp,
        expiry_timestamp=time_ms if token is None else token.expiration_timestamp,
        max_timestamp=time_ms if token is None else token.max_timestamp,
        token_id="" if token is None else token.token_id,
        hmac=b"" if created is None else created.hmac,
    )


async def _renew(request: request_types.RenewDelegationTokenRequest, call: Call) -> ResponsePayload:
    wanted = RenewDelegationToken(str(call.context.principal), request.hmac, request.renew_period)
    return await _expiring(ApiKey.RENEW_DELEGATION_TOKEN, call, wanted)


async def _expire(
    request: request_types.ExpireDelegationTokenRequest, call: Call
) -> ResponsePayload:
    wanted = ExpireDelegationToken(
        str(call.context.principal), request.hmac, request.expiry_time_period
    )
    return await _expiring(ApiKey.EXPIRE_DELEGATION_TOKEN, call, wanted)


async def _expiring(
    api_key: ApiKey, call: Call, wanted: RenewDelegationToken | ExpireDelegationToken
) -> ResponsePayload:
    """Changes a token's expiry time; the response has the new one."""
    if not _are_token_requests_allowed(call):
        error = ErrorCode.delegation_token_request_not_allowed
        return _response(api_key, call, error_code=error, expiry_timestamp=NO_TIME)
    try:
        expires_ms = await call.ask(wanted)
    except ApiException as refused:
        return _response(api_key, call, error_code=refused.error, expiry_timestamp=0)
    return _response(api_key, call, error_code=ErrorCode.none, expiry_timestamp=expires_ms)


def _response(api_key: ApiKey, call: Call, **values: object) -> ResponsePayload:
    return numeric_response(api_key, call.version, **values)


TOKEN_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: ControllerApi(0, 3, _create),
    ApiKey.RENEW_DELEGATION_TOKEN: ControllerApi(0, 2, _renew),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ControllerApi(0, 2, _expire),
}
