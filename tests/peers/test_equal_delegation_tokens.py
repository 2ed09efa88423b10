"""Delegation tokens at a controller: made, prolonged, ended and refused as Kafka's does it."""

from __future__ import annotations

import hmac
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read
from kafka_common.protocol.numeric_times import numeric_response_type
from replica_manager.security.principals import Principal
from tests.peers.controller_sides import Side, Sides
from tests.support.frames import parse_response_header

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SECRET: Final = "opensesame"
ALICE: Final = Principal("User", "alice")


def lasting(ms: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=ms))


def creation(version: int, owner: str | None = None) -> dict[str, object]:
    asked: dict[str, object] = {"renewers": (), "max_lifetime": lasting(-1)}
    if version >= 3:
        asked["owner_principal_type"] = owner and "User"
        asked["owner_principal_name"] = owner
    return asked


TOKEN_REQUESTS: Final = [
    *((ApiKey.CREATE_DELEGATION_TOKEN, version, creation(version)) for version in range(4)),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, creation(3, "bob")),
    *(
        (ApiKey.RENEW_DELEGATION_TOKEN, version, {"hmac": b"a", "renew_period": lasting(-1)})
        for version in range(3)
    ),
    *(
        (ApiKey.EXPIRE_DELEGATION_TOKEN, version, {"hmac": b"a", "expiry_time_period": lasting(-1)})
        for version in range(3)
    ),
]


@pytest.mark.parametrize(("api_key", "version", "values"), TOKEN_REQUESTS)
def test_without_a_secret_tokens_are_refused_alike(
    sides: Sides, api_key: ApiKey, version: int, values: dict[str, object]
) -> None:
    kafkas, ours = sides.ask(api_key, version, **values)
    assert ours == kafkas
    assert kafkas[1]["error_code"] == "delegation_token_request_not_allowed"
    for by_token in (False, True):
        kafkas, ours = (
            side.forward(ALICE, by_token, api_key, version, **values)
            for side in (sides.real, sides.ours)
        )
        # To the byte.
        assert ours == kafkas
        assert kafkas.response_data


def test_tokens_are_made_prolonged_and_ended_alike(kafka: Path, tmp_path: Path) -> None:  # noqa: ARG001
    sides = Sides(tmp_path, {"delegation.token.secret.key": SECRET})
    try:
        scenarios = [token_scenario(side) for side in (sides.real, sides.ours)]
    finally:
        sides.close()

    assert scenarios[0] == scenarios[1]


def token_scenario(side: Side) -> list[object]:
    """Creates, renews and expires a token; the results, without absolute times."""

    def ask(api_key: ApiKey, version: int, who: Principal, **values: object) -> Any:
        envelope = side.forward(who, False, api_key, version, **values)
        _, start = parse_response_header(int(api_key), version, envelope.response_data)
        return read(numeric_response_type(int(api_key), version), envelope.response_data, start)

    def renew(token: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
        period = {"renew_period": lasting(period_ms)}
        return ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, who, hmac=token, **period)

    def expire(token: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
        period = {"expiry_time_period": lasting(period_ms)}
        return ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, who, hmac=token, **period)

    token = ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, ALICE, **creation(3))
    assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), "sha512")

    def is_known() -> bool:
        # A controller of Kafka knows a token once it has read its own log.
        return ErrorCode(renew(token.hmac).error_code) is ErrorCode.none

    side.wait_until(is_known)
    renewed = renew(token.hmac, period_ms=60_000)
    scenario: list[object] = [
        ErrorCode(token.error_code),
        token.principal_name,
        token.expiry_timestamp - token.issue_timestamp,
        token.max_timestamp - token.issue_timestamp,
        len(token.token_id),
        ErrorCode(renewed.error_code),
        0 <= renewed.expiry_timestamp - token.issue_timestamp - 60_000 < 60_000,
        ErrorCode(renew(token.hmac, Principal("User", "eve")).error_code),
        ErrorCode(expire(token.hmac, Principal("User", "eve")).error_code),
        ErrorCode(renew(b"other").error_code),
        ErrorCode(expire(token.hmac).error_code),
    ]

    def is_gone() -> bool:
        ended = ErrorCode(renew(token.hmac).error_code)
        return ended is ErrorCode.delegation_token_not_found

    side.wait_until(is_gone)
    return scenario
