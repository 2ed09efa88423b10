"""Delegation tokens at a controller: who gets them, how long they live, and who ends them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta
from typing_extensions import override

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read, write
from kafka_common.protocol.numeric_times import numeric_response_type
from kafka_common.protocol.versioned_messages import request_schema
from kafka_common.wall_time import set_wall_time_offset
from kraft.node.controller_apis.call import (
    Call,
    Controller,
    ControllerRequestContext,
    ControllerServices,
    LocalNode,
)
from kraft.node.controller_apis.tokens import TOKEN_APIS
from kraft.node.described_config import UNCONFIGURED
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import ANONYMOUS, Principal
from tests.support.envelopes import principal_bytes
from tests.support.frames import parse_response_header, request_header
from tests.support.quorum import in_the_end
from tests.unit.kraft.node.controller_client import Client, client_of_voter

ALICE: Final = Principal("User", "alice")
BOB: Final = Principal("User", "bob")
DAY_MS: Final = 24 * 3_600_000
SECRET: Final = {"delegation.token.secret.key": "opensesame"}
NEWEST: Final = {
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
}


def lasting(ms: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=ms))


async def direct(client: Client, api_key: ApiKey, version: int, **values: object) -> Any:
    """The answer to a client that asks the controller itself."""
    body = write(request_schema(api_key, version).request(**values))
    response = await client.connection.call(int(api_key), version, (body,))
    return read(numeric_response_type(int(api_key), version), response)


async def forwarded(
    client: Client, api_key: ApiKey, who: Principal, *, by_token: bool = False, **values: object
) -> Any:
    """The answer to a client whose broker forwards what it asks."""
    version = NEWEST[api_key]
    envelope = await client.ask(
        ApiKey.ENVELOPE,
        0,
        request_data=request_header(int(api_key), version, 42, "client")
        + write(request_schema(api_key, version).request(**values)),
        request_principal=principal_bytes(who, is_token_authenticated=by_token),
        client_host_address=b"\x7f\0\0\1",
    )
    assert ErrorCode(envelope.error_code) is ErrorCode.none
    _, start = parse_response_header(int(api_key), version, envelope.response_data)
    return read(numeric_response_type(int(api_key), version), envelope.response_data, start)


async def create(
    client: Client,
    who: Principal = ALICE,
    owner: Principal | None = None,
    renewers: tuple[tuple[str, str], ...] = (),
    max_lifetime_ms: int = -1,
    *,
    by_token: bool = False,
) -> Any:
    schema = request_schema(ApiKey.CREATE_DELEGATION_TOKEN, 3)
    return await forwarded(
        client,
        ApiKey.CREATE_DELEGATION_TOKEN,
        who,
        by_token=by_token,
        owner_principal_type=owner and owner.principal_type,
        owner_principal_name=owner and owner.name,
        renewers=tuple(
            schema.part("CreatableRenewers", principal_type=kind, principal_name=name)
            for kind, name in renewers
        ),
        max_lifetime=lasting(max_lifetime_ms),
    )


async def renew(client: Client, hmac: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
    return await forwarded(
        client, ApiKey.RENEW_DELEGATION_TOKEN, who, hmac=hmac, renew_period=lasting(period_ms)
    )


async def expire(client: Client, hmac: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
    return await forwarded(
        client,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        who,
        hmac=hmac,
        expiry_time_period=lasting(period_ms),
    )


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.error_code)


async def test_a_token_is_made_prolonged_and_ended(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, properties=SECRET) as client:
        token = await create(client)

        assert error_of(token) is ErrorCode.none
        assert (token.principal_type, token.principal_name) == ALICE
        assert (token.token_requester_principal_type, token.token_requester_principal_name) == ALICE
        assert token.expiry_timestamp - token.issue_timestamp == DAY_MS
        assert token.max_timestamp - token.issue_timestamp == 7 * DAY_MS
        assert (len(token.hmac), len(token.token_id)) == (64, 22)

        renewed = await renew(client, token.hmac, period_ms=3_600_000)
        assert error_of(renewed) is ErrorCode.none
        assert 3_600_000 <= renewed.expiry_timestamp - token.issue_timestamp < DAY_MS

        ended = await expire(client, token.hmac)
        assert error_of(ended) is ErrorCode.none
        assert ended.expiry_timestamp >= token.issue_timestamp
        assert error_of(await renew(client, token.hmac)) is ErrorCode.delegation_token_not_found


async def test_the_older_name_of_the_secret_counts_too_and_lifetimes_are_the_configurations(
    tmp_path: Path,
) -> None:
    properties = {
        "delegation.token.master.key": "opensesame",
        "delegation.token.max.lifetime.ms": "5000",
        "delegation.token.expiry.time.ms": "1000",
    }
    async with client_of_voter(tmp_path, properties=properties) as client:
        token = await create(client)
        short = await create(client, max_lifetime_ms=700)

        assert token.expiry_timestamp - token.issue_timestamp == 1_000
        assert token.max_timestamp - token.issue_timestamp == 5_000
        assert short.expiry_timestamp - short.issue_timestamp == 700


async def test_only_the_owner_and_the_renewers_prolong_a_token(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, properties=SECRET) as client:
        token = await create(client, renewers=(("User", "bob"),))
        eve = Principal("User", "eve")

        assert error_of(await renew(client, token.hmac, BOB)) is ErrorCode.none
        mismatch = ErrorCode.delegation_token_owner_mismatch
        assert error_of(await renew(client, token.hmac, eve)) is mismatch
        assert error_of(await expire(client, token.hmac, eve)) is mismatch
        refused = await create(client, renewers=(("Group", "all"),))
        assert error_of(refused) is ErrorCode.invalid_principal_type


async def test_a_token_for_another_principal_is_his(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, properties=SECRET) as client:
        token = await create(client, owner=BOB)

        assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
        mismatch = ErrorCode.delegation_token_owner_mismatch
        assert error_of(await renew(client, token.hmac, ALICE)) is mismatch
        assert error_of(await renew(client, token.hmac, BOB)) is ErrorCode.none

    # Without an authorizer everyone may.


async def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        disabled = ErrorCode.delegation_token_auth_disabled
        token = await create(client)

        assert error_of(token) is disabled
        assert (token.principal_name, token.issue_timestamp, token.hmac) == ("alice", 0, b"")
        for response in (await renew(client, b"abc"), await expire(client, b"abc")):
            assert (error_of(response), response.expiry_timestamp) == (disabled, 0)


async def test_a_token_begets_no_token(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, properties=SECRET) as client:
        refused = await create(client, by_token=True)

        assert error_of(refused) is ErrorCode.delegation_token_request_not_allowed
        assert (refused.principal_name, refused.issue_timestamp) == ("alice", -1)


@pytest.mark.parametrize("version", range(4))
async def test_who_has_not_logged_in_gets_none(tmp_path: Path, version: int) -> None:
    async with client_of_voter(tmp_path, properties=SECRET) as client:
        refused = await direct(
            client,
            ApiKey.CREATE_DELEGATION_TOKEN,
            version,
            owner_principal_type=None,
            owner_principal_name=None,
            renewers=(),
            max_lifetime=lasting(-1),
        )
        assert error_of(refused) is ErrorCode.delegation_token_request_not_allowed
        assert (refused.principal_name, refused.max_timestamp) == (ANONYMOUS.name, -1)
        if version < 3:
            for api_key, period in (
                (ApiKey.RENEW_DELEGATION_TOKEN, "renew_period"),
                (ApiKey.EXPIRE_DELEGATION_TOKEN, "expiry_time_period"),
            ):
                values: Mapping[str, object] = {"hmac": b"abc", period: lasting(-1)}
                refused = await direct(client, api_key, version, **values)
                assert error_of(refused) is ErrorCode.delegation_token_request_not_allowed
                assert refused.expiry_timestamp == -1


async def test_a_token_whose_time_is_over_is_swept_away(tmp_path: Path) -> None:
    async with client_of_voter(
        tmp_path, properties=SECRET | {"delegation.token.expiry.check.interval.ms": "50"}
    ) as client:
        token = await create(client)

        async def is_gone() -> bool:
            ended = error_of(await expire(client, token.hmac, period_ms=0))
            gone = ErrorCode.delegation_token_not_found
            assert ended in (ErrorCode.none, ErrorCode.delegation_token_expired, gone)
            return ended is gone

        await in_the_end(is_gone, "the token is removed")


async def test_tokens_go_by_the_machines_clock_whatever_it_was_at_the_start(tmp_path: Path) -> None:
    try:
        async with client_of_voter(tmp_path, properties=SECRET) as client:
            token = await create(client)
            set_wall_time_offset(2 * DAY_MS)

            assert error_of(await renew(client, token.hmac)) is ErrorCode.delegation_token_expired
            later = await create(client)
            assert later.issue_timestamp - token.issue_timestamp >= 2 * DAY_MS

            set_wall_time_offset(0)
            assert error_of(await renew(client, token.hmac)) is ErrorCode.none
    finally:
        set_wall_time_offset(0)


async def test_the_sweep_of_tokens_goes_by_the_machines_clock(tmp_path: Path) -> None:
    try:
        async with client_of_voter(
            tmp_path, properties=SECRET | {"delegation.token.expiry.check.interval.ms": "50"}
        ) as client:
            token = await create(client)
            set_wall_time_offset(2 * DAY_MS)

            async def is_gone() -> bool:
                return (
                    error_of(await renew(client, token.hmac))
                    is ErrorCode.delegation_token_not_found
                )

            await in_the_end(is_gone, "the token is removed")
    finally:
        set_wall_time_offset(0)


class NobodysController(Controller):
    """Must not be asked."""

    @override
    async def ask(
        self, request: object, timeout_ms: int | None = None, apply_quota: object = None
    ) -> Any:
        raise AssertionError(f"{request} within {timeout_ms}")


def asked(
    api_key: ApiKey, protocol: str, who: Principal, authorizer: Authorizer | None = None
) -> Call:
    """A call at a controller that must not be asked; of its node nothing is looked at."""
    context = ControllerRequestContext(
        int(api_key), NEWEST[api_key], principal=who, security_protocol=protocol
    )
    node = LocalNode("cluster", "CONTROLLER", UNCONFIGURED, None)  # type: ignore[arg-type] # see above
    return Call(context, ControllerServices(NobodysController(), node, authorizer))


async def test_a_token_for_another_principal_needs_a_rule() -> None:
    request = request_schema(ApiKey.CREATE_DELEGATION_TOKEN, 3).request(
        owner_principal_type="User",
        owner_principal_name="bob",
        renewers=(),
        max_lifetime=lasting(-1),
    )
    call = asked(ApiKey.CREATE_DELEGATION_TOKEN, "SASL_SSL", ALICE, Authorizer(AclCache({})))

    response: Any = await TOKEN_APIS[ApiKey.CREATE_DELEGATION_TOKEN].respond(request, call)

    assert error_of(response) is ErrorCode.delegation_token_authorization_failed
    assert (response.principal_name, response.issue_timestamp) == ("bob", -1)


@pytest.mark.parametrize(
    ("protocol", "principal", "is_allowed"),
    [
        ("PLAINTEXT", ANONYMOUS, False),
        ("SSL", ANONYMOUS, False),
        ("SSL", ALICE, True),
        ("SASL_PLAINTEXT", ALICE, True),
        ("SASL_SSL", ALICE, True),
    ],
)
async def test_which_connections_are_trusted_with_tokens(
    protocol: str, principal: Principal, is_allowed: bool
) -> None:
    request = request_schema(ApiKey.RENEW_DELEGATION_TOKEN, 2).request(
        hmac=b"abc", renew_period=lasting(-1)
    )
    call = asked(ApiKey.RENEW_DELEGATION_TOKEN, protocol, principal)

    response = TOKEN_APIS[ApiKey.RENEW_DELEGATION_TOKEN].respond(request, call)

    if is_allowed:
        with pytest.raises(AssertionError, match="RenewDelegationToken"):
            await response
    else:
        assert error_of(await response) is ErrorCode.delegation_token_request_not_allowed
