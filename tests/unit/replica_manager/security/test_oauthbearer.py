"""SASL/OAUTHBEARER: which tokens a client makes, and which a server accepts."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping

import orjson
import pytest

from kafka_common.errors import ConfigInvalid, SaslRefused
from kafka_common.protocol.oauthbearer import ERROR_RECEIVED, OAUTHBEARER, ClientInitialResponse
from kafka_common.protocol.sasl_client import OAuthBearerClient
from replica_manager.security.client_values import ClientValues
from replica_manager.security.logins import credentials_of, module_of
from replica_manager.security.oauth_tokens import (
    LOGIN_EXTENSION,
    IllegalToken,
    UnsecuredTokens,
    extensions_of,
    unsecured_token,
)
from replica_manager.security.sasl_mechanisms import (
    MAX_LIFETIME_MS,
    LoginFailed,
    OAuthBearerServer,
)

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
ALICE = {"unsecuredLoginStringClaim_sub": "alice"}
KEY = "sasl.jaas.config"


def now_ms() -> int:
    return NOW_MS


def validator(**options: str) -> UnsecuredTokens:
    prefixed = {f"unsecuredValidator{name}": value for name, value in options.items()}
    return UnsecuredTokens(KEY, prefixed, now_ms)


def made_of(*segments: object) -> str:
    return ".".join(
        each if isinstance(each, str) else base64.b64encode(orjson.dumps(each)).decode().rstrip("=")
        for each in segments
    )


def token(header: object = None, signature: str = "", **claims: object) -> str:
    known = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, **claims}
    kept = {name: value for name, value in known.items() if value is not None}
    return made_of({"alg": "none"} if header is None else header, kept, signature)


def server(validate: UnsecuredTokens | None = None) -> OAuthBearerServer:
    return OAuthBearerServer((validate or validator()).validate, now_ms)


# Messages


def test_a_message_is_what_rfc_7628_shows() -> None:
    message = ClientInitialResponse("a.b.", "user@example.com", {"host": "server", "port": "143"})
    encoded = b"n,a=user@example.com,\x01auth=Bearer a.b.\x01host=server\x01port=143\x01\x01"

    assert message.encode() == encoded
    assert ClientInitialResponse.decode(encoded) == message


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"": "x"}, {"trace1": "x"}, {"trace": ""}, {"trace": "\x01"}]
)
def test_an_extension_that_would_break_the_message_is_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(SaslRefused, match="xtension"):
        ClientInitialResponse("a.b.", extensions=extensions).encode()


# The token of a client


def test_a_client_makes_the_token_that_its_options_describe() -> None:
    options = {
        "unsecuredLoginPrincipalClaimName": "name",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginStringClaim_name": "alice",
        "unsecuredLoginNumberClaim_level": "7",
        "unsecuredLoginListClaim_scope": "|kafka||billing",
        "unsecuredLoginListClaim_none": "|",
        "unsecuredLoginExtension_traceId": "1",
    }

    header, claims, signature = unsecured_token(KEY, options, NOW_MS).split(".")

    assert orjson.loads(base64.b64decode(header + "==")) == {"alg": "none"}
    assert orjson.loads(base64.b64decode(claims + "==")) == {
        "exp": NOW_S + 60,
        "iat": NOW_S,
        "name": "alice",
        "level": 7,
        "scope": ["kafka", "", "billing", ""],
        "none": [],
    }
    assert signature == ""
    assert extensions_of(options, LOGIN_EXTENSION) == {"traceId": "1"}


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginStringClaim_sub": " "}, "unsecuredLoginStringClaim_sub"),
        (ALICE | {"unsecuredLoginPrincipalClaimName": "name"}, "unsecuredLoginStringClaim_name"),
        (ALICE | {"unsecuredLoginLifetimeSeconds": "long"}, "whole number"),
        (ALICE | {"unsecuredLoginNumberClaim_level": "high"}, "as a number"),
        (ALICE | {"unsecuredLoginStringClaim_exp": "7"}, "other claims"),
        (ALICE | {"unsecuredLoginExtension_auth": "x"}, "other extensions"),
    ],
)
def test_options_that_describe_no_token_are_refused_at_the_start(
    options: dict[str, str], allowed: str
) -> None:
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    login = f"{module_of(OAUTHBEARER)} required {text};"
    with pytest.raises(ConfigInvalid, match=allowed):
        credentials_of(KEY, OAUTHBEARER, login, ClientValues({}))


# The tokens that a server accepts


@pytest.mark.parametrize(
    "shown",
    [
        token(),
        token(iat=None),
        token(exp=NOW_S + 60.0),
        token(iat=NOW_S - 60, exp=NOW_S + 0.001),
        unsecured_token(KEY, ALICE, NOW_MS),
    ],
)
def test_a_valid_token_names_its_principal(shown: str) -> None:
    assert validator().validate(shown).principal_name == "alice"


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (token(exp=NOW_S, iat=None), "has expired"),
        (token(iat=NOW_S + 1), "in the future"),
        (token(iat=NOW_S - 10, exp=NOW_S - 20), "has expired"),
        (token(exp=None), "No expiration time"),
        (token(exp="tomorrow"), "not of type Number"),
        (token(iat="today"), "not of type Number"),
        (token(sub=None), "No principal name"),
        (token(sub=" "), "No principal name"),
        (token(sub=7), "not of type str"),
        (token(sub=["alice"]), "not of type str"),
        (token(sub={"a": "b"}), "No principal name"),
        (token(scope=7), "not of type list"),
        (token({"alg": "HS256"}), "'none' for an algorithm"),
        (token({}), "'none' for an algorithm"),
        (token(signature="eA"), "digital signature"),
        (token().removesuffix("."), "3 dot-separated"),
        (token() + "a.b", "3 dot-separated"),
        ("a..b", "'..'"),
        ("a.b.", "malformed Base64"),
        ("_-_-.b.", "malformed Base64"),
        (made_of(base64.b64encode(b"no JSON.").decode().rstrip("="), {}, ""), "malformed JSON"),
        (made_of({"alg": "none"}, [1], ""), "No principal name"),
    ],
)
def test_any_other_token_is_refused(shown: str, reason: str) -> None:
    with pytest.raises(IllegalToken, match=reason) as refused:
        validator().validate(shown)
    assert refused.value.scope is None


def test_clocks_may_differ_by_the_allowed_skew() -> None:
    lenient = validator(AllowableClockSkewMs="2000")
    for shown in (token(iat=NOW_S + 2), token(iat=NOW_S - 9, exp=NOW_S - 1)):
        assert lenient.validate(shown).principal_name == "alice"


@pytest.mark.parametrize(
    ("scope", "is_accepted"),
    [
        ("kafka", False),
        (["billing", " kafka "], True),
        (["kafka"], False),
        ("kafka billing", False),
        (None, False),
    ],
)
def test_every_required_scope_must_be_there(scope: object, is_accepted: bool) -> None:
    strict = validator(RequiredScope=" kafka  billing ")
    if is_accepted:
        assert strict.validate(token(scope=scope)).principal_name == "alice"
    else:
        with pytest.raises(IllegalToken) as refused:
            strict.validate(token(scope=scope))
        assert refused.value.scope == "[kafka, billing]"


def test_principal_and_scope_may_be_other_claims() -> None:
    other = validator(PrincipalClaimName="name", ScopeClaimName="roles", RequiredScope="kafka")

    assert other.validate(token(sub=None, name="bob", roles="kafka")).principal_name == "bob"


@pytest.mark.parametrize(
    "options",
    [{"AllowableClockSkewMs": "-1"}, {"AllowableClockSkewMs": "x"}, {"RequiredScope": 'a"b'}],
)
def test_a_validator_needs_valid_options(options: Mapping[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match="unsecuredValidator"):
        validator(**options)


def test_what_a_stranger_writes_into_a_token_is_one_short_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        validator().validate(token(sub="a\n[2026-01-01] INFO b", note="x" * 100_000))

    [line] = [each.getMessage() for each in caplog.records if "Successfully" in each.getMessage()]
    assert line.isprintable()
    assert line.startswith("Successfully validated token with principal a\\n[2026-01-01] INFO b: {")
    assert len(line) < 2_200


# A login


def test_a_login_takes_one_message_and_ends_with_the_token() -> None:
    client, asked = OAuthBearerClient(ClientInitialResponse(token())), server()

    assert client.step(asked.step(client.first())) == b""

    assert client.is_complete
    assert (asked.username, asked.lifetime_ms) == ("alice", 60_000)


def test_a_token_that_never_ends_has_a_lifetime_that_can_be_sent() -> None:
    asked = server()
    asked.step(ClientInitialResponse(token(exp=1e300)).encode())
    assert asked.lifetime_ms == MAX_LIFETIME_MS


@pytest.mark.parametrize(
    ("validate", "error"),
    [
        (validator(), '{"status":"invalid_token"}'),
        (
            validator(RequiredScope="kafka"),
            '{"status":"insufficient_scope", "scope":"[kafka]"}',
        ),
    ],
)
def test_a_refusal_takes_two_messages(validate: UnsecuredTokens, error: str) -> None:
    shown = token() if "scope" in error else token(exp=1)
    client, asked = OAuthBearerClient(ClientInitialResponse(shown)), server(validate)

    challenge = asked.step(client.first())
    assert challenge == error.encode()
    with pytest.raises(LoginFailed) as refused:
        asked.step(client.step(challenge))

    assert refused.value.client_text == error
    assert not client.is_complete
    assert asked.username is None


def test_only_the_principal_itself_may_be_meant() -> None:
    server().step(ClientInitialResponse(token(), "alice").encode())
    with pytest.raises(LoginFailed, match=r"authorization id \(bob\\nINFO\)") as refused:
        server().step(ClientInitialResponse(token(), "bob\nINFO").encode())
    assert "(bob\nINFO)" in str(refused.value.client_text)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        ERROR_RECEIVED,
        b"n,,\x01auth=Bearer a.b.\x01",
        b"n,,\x01trace=x\x01\x01",
        b"n,,\x01auth=Basic a.b.\x01\x01",
        b"n,,\x01auth=Bearera.b.\x01\x01",
        b"y,,\x01auth=Bearer a.b.\x01\x01",
        b"n,a=a=b,\x01auth=Bearer a.b.\x01\x01",
        b"\xff\xfe",
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslRefused, match="Invalid OAUTHBEARER"):
        server().step(message)
