"""Creates, describes, renews and expires delegation tokens by requests to brokers.

Source: KIP-48, KIP-373, Kafka ``DelegationTokenCommand``, ``KafkaApis``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kio.schema.create_delegation_token.v3.request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from replica_manager.security.principals import Principal
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.wire.requests import Deadline, connected, parse_bootstrap, raise_for_code
from zkcontroller_cli.wire.versions import BrokerConnection

_NEXT_STEPS: Final = {
    ErrorCode.delegation_token_auth_disabled: (
        "the brokers have no tokens: set delegation.token.secret.key, the same on every broker, "
        "and restart them (before Kafka 3.0 it is delegation.token.master.key)"
    ),
    ErrorCode.delegation_token_request_not_allowed: (
        "tokens are for users who have logged in, and not by a token: connect by SASL, or by TLS "
        "with a certificate, and say how with --command-config FILE"
    ),
    ErrorCode.delegation_token_authorization_failed: (
        "this user may not create tokens for that owner: zkctl acl add --allow-principal USER "
        "--operation create_tokens --user-principal OWNER allows it"
    ),
    ErrorCode.delegation_token_owner_mismatch: (
        "only the owner of a token and its renewers may renew and expire it"
    ),
    ErrorCode.delegation_token_not_found: (
        "the brokers do not know the token; zkctl token list shows those that this user may see"
    ),
    ErrorCode.delegation_token_expired: "the token has expired, create another",
    ErrorCode.invalid_principal_type: "owners and renewers are of type User",
}


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token as brokers describe it; the requester is None before Kafka 3.3."""

    token_id: str
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int
    hmac: bytes = field(repr=False)


async def create_token(
    bootstrap: Bootstrap,
    deadline: Deadline,
    owner: Principal | None,
    renewers: Sequence[Principal],
    max_lifetime_ms: int,
) -> DelegationToken:
    """Create a token; without ``owner`` it belongs to the user who asks.

    ``max_lifetime_ms`` is -1 for the brokers' own limit.
    """
    response = await _asked(
        bootstrap,
        deadline,
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.principal_type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=tuple(
                CreatableRenewers(principal_type=each.principal_type, principal_name=each.name)
                for each in renewers
            ),
            max_lifetime=_period(max_lifetime_ms),
        ),
    )
    return DelegationToken(
        response.token_id,
        str(Principal(response.principal_type, response.principal_name)),
        _requester(response),
        tuple(map(str, renewers)),
        int(response.issue_timestamp),
        int(response.expiry_timestamp),
        int(response.max_timestamp),
        bytes(response.hmac),
    )


async def renew_token(bootstrap: Bootstrap, deadline: Deadline, hmac: bytes, period_ms: int) -> int:
    """Renew a token; returns its new expiry in milliseconds since 1970.

    ``period_ms`` is -1 for the brokers' own period.
    """
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period=_period(period_ms))
    return int((await _asked(bootstrap, deadline, request)).expiry_timestamp)


async def expire_token(
    bootstrap: Bootstrap, deadline: Deadline, hmac: bytes, period_ms: int
) -> int:
    """Let a token expire after ``period_ms``; returns its new expiry in milliseconds since 1970.

    A negative period ends it at once.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=_period(period_ms))
    return int((await _asked(bootstrap, deadline, request)).expiry_timestamp)


async def _asked(
    bootstrap: Bootstrap,
    deadline: Deadline,
    request: CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest,
) -> Any:
    """The response, with times in milliseconds; Refused with the next step for an error code."""
    addresses = parse_bootstrap(bootstrap.servers)
    async with connected(addresses, deadline, bootstrap.security) as connection:
        response = await connection.request_numeric(request)
    _raise_for_tokens(ErrorCode(response.error_code))
    return response


def _raise_for_tokens(code: ErrorCode) -> None:
    if code in _NEXT_STEPS:
        raise Refused(f"{_NEXT_STEPS[code]} ({code.name.upper()})")
    raise_for_code("delegation token", code)


def _period(milliseconds: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=milliseconds))


async def describe_tokens(
    bootstrap: Bootstrap, deadline: Deadline, owners: Sequence[Principal] | None = None
) -> list[DelegationToken]:
    """The tokens that this user may see, sorted by id; only those of ``owners`` unless it is None.

    Refused if the brokers have tokens disabled, or if the connection may not ask for tokens.
    """
    addresses = parse_bootstrap(bootstrap.servers)
    async with connected(addresses, deadline, bootstrap.security) as connection:
        return await _described(connection, owners)


async def _described(
    connection: BrokerConnection, owners: Sequence[Principal] | None
) -> list[DelegationToken]:
    response = await connection.request(
        DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else tuple(
                DescribeDelegationTokenOwner(
                    principal_type=each.principal_type, principal_name=each.name
                )
                for each in owners
            )
        )
    )
    assert isinstance(response, DescribeDelegationTokenResponse), "request() answers in kind"
    _raise_for_tokens(response.error_code)
    return sorted(map(_token, response.tokens), key=lambda each: each.token_id)


def _token(described: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        described.token_id,
        str(Principal(described.principal_type, described.principal_name)),
        _requester(described),
        tuple(
            str(Principal(each.principal_type, each.principal_name)) for each in described.renewers
        ),
        int(described.issue_timestamp),
        int(described.expiry_timestamp),
        int(described.max_timestamp),
        bytes(described.hmac),
    )


def _requester(response: Any) -> str | None:
    name = response.token_requester_principal_name
    return str(Principal(response.token_requester_principal_type, name)) if name else None


def missed_token(
    token_id: str, expires_at_ms: int | None
) -> Callable[[BrokerConnection], Awaitable[set[str]]]:
    """For :func:`asked_until_shown`: the token id, if a broker shows another expiry of the token.

    ``expires_at_ms`` is None if the token should not exist any more.
    """

    async def missed_by(connection: BrokerConnection) -> set[str]:
        found = {each.token_id: each.expires_at_ms for each in await _described(connection, None)}
        return set() if found.get(token_id) == expires_at_ms else {token_id}

    return missed_by
