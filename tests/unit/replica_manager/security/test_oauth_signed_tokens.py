"""Signed tokens of OAUTHBEARER: keys from files and over HTTP, and tokens of a token endpoint."""

from __future__ import annotations

import gc
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ConfigInvalid, SaslRefused
from kafka_common.net.client_security import OAuthBearerCredentials
from kafka_common.protocol.oauthbearer import OAUTHBEARER, ClientInitialResponse
from replica_manager.security.client_values import ClientValues
from replica_manager.security.logins import credentials_of, module_of
from replica_manager.security.oauth_http import HttpFailed, Retries, fetched
from replica_manager.security.oauth_settings import (
    HANDLERS,
    LOGIN_HANDLER,
    SERVER_HANDLER,
    token_validator,
)
from replica_manager.security.oauth_signed_tokens import SignedTokens
from replica_manager.security.oauth_tokens import IllegalToken
from tests.support.token_issuer import AUDIENCE, ISSUER, IssuerServer, TokenIssuer, issuer_server
from tests.unit.replica_manager.security.listeners import AUTHORITY, SERVER, context
from zkcontroller_testing.waiting import until

KEY = "sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"
SECRETS = {"clientId": "kafka", "clientSecret": "s+cret"}
THREAD = "oauth-jwks-refresh"
FAR = 10_000_000_000
"""A time that no test run reaches, in seconds since 1970."""


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture
def server(issuer: TokenIssuer) -> Iterator[IssuerServer]:
    with issuer_server(issuer) as running:
        yield running


def accepting(url: str, **values: str) -> SignedTokens:
    """The validator of a listener with those values of ``sasl.oauthbearer.…``."""
    handler = {SERVER_HANDLER: HANDLERS[SERVER_HANDLER][0], URL: url}
    others = {
        f"sasl.oauthbearer.{name.replace('__', '.')}": value for name, value in values.items()
    }
    validate = token_validator(ClientValues(handler | others), KEY, {})
    accepted = getattr(validate, "__self__", None)
    assert isinstance(accepted, SignedTokens)
    return accepted


@pytest.fixture
def usual(issuer: TokenIssuer, tmp_path: Path) -> SignedTokens:
    """Accepts tokens of the issuer for this audience; the keys are in a file."""
    path = tmp_path / "key set.json"
    path.write_text(json.dumps(issuer.key_set()))
    return accepting(path.as_uri(), expected__audience=f"x,{AUDIENCE}", expected__issuer=ISSUER)


@pytest.mark.parametrize(
    ("key_id", "algorithm"),
    [("rsa", "RS256"), ("rsa", "RS512"), ("rsa", "PS256"), ("ec", "ES256"), ("shared", "HS256")],
)
def test_a_token_signed_by_a_key_of_the_set_is_accepted(
    usual: SignedTokens, issuer: TokenIssuer, key_id: str, algorithm: str
) -> None:
    token = issuer.token(key_id, algorithm, sub=" alice ", aud=["y", AUDIENCE], scope=["a", "b"])

    assert usual.validate(token).principal_name == "alice"


def test_a_key_need_not_be_named(usual: SignedTokens, issuer: TokenIssuer) -> None:
    assert usual.validate(issuer.token("rsa", headers={"kid": None})).principal_name == "alice"
    with pytest.raises(IllegalToken, match="Signature"):
        usual.validate(issuer.token("unknown", headers={"kid": None}))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "ExpiredSignature"),
        ({"exp": None}, '"exp"'),
        ({"iat": None}, '"iat"'),
        ({"iat": FAR + 9, "exp": FAR}, "before it is issued"),
        ({"nbf": FAR}, "not yet valid"),
        ({"aud": "billing"}, "Audience"),
        ({"aud": None}, '"aud"'),
        ({"iss": "https://other.example.org"}, "Issuer"),
        ({"iss": None}, '"iss"'),
        ({"sub": None}, "sub value"),
        ({"sub": 7}, "sub value"),
        ({"sub": " "}, "sub value"),
        ({"scope": ["a", "a"]}, "without duplicates"),
        ({"scope": ""}, "non-empty"),
        ({"exp": "tomorrow"}, "exp"),
        ({"exp": [1]}, "exp"),
        ({"exp": 1e300}, ""),
    ],
)
def test_a_token_must_say_what_is_expected(
    usual: SignedTokens, issuer: TokenIssuer, claims: dict[str, Any], reason: str
) -> None:
    token = issuer.token(**claims)
    if not reason:
        assert usual.validate(token).principal_name == "alice"
        return
    with pytest.raises(IllegalToken, match=reason):
        usual.validate(token)


def test_who_cannot_sign_gets_no_token_accepted(
    usual: SignedTokens, issuer: TokenIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    token = issuer.token()
    head, body, signature = token.split(".")
    unsigned = issuer.token("shared", headers={"kid": "rsa"})  # by a secret, named as an RSA key
    for shown, reason in (
        (issuer.token("unknown"), "no key for algorithm RS256"),
        (issuer.token("short"), "less than 2048 bits"),
        (unsigned, "no key for algorithm HS256"),
        (f"{head}.{body}.{signature[:-4]}AAAA", "Signature"),
        (f"{head}.{body}.", "Signature"),
        (f"eyJhbGciOiJub25lIn0.{body}.", "no key for algorithm none"),
        (f"{head}.{body}", "Not enough segments"),
        ("a.b.c", "Invalid"),
        (issuer.token("rsa", headers={"kid": "a\nINFO b"}), "key id a"),
        ("", "Not enough segments"),
    ):
        with pytest.raises(IllegalToken, match=reason):
            usual.validate(shown)
    assert all(line.isprintable() for line in caplog.messages)


def test_claims_may_have_other_names_and_clocks_may_differ(
    issuer: TokenIssuer, tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(issuer.key_set()))
    now_s = int(time.time())
    token = issuer.token(name="bob", sub=7, aud=None, iat=now_s - 90, exp=now_s - 60)

    def accepted(skew_s: str) -> SignedTokens:
        return accepting(path.as_uri(), sub__claim__name="name", clock__skew__seconds=skew_s)

    assert accepted("600").validate(token).principal_name == "bob"
    with pytest.raises(IllegalToken, match="Expired"):
        accepted("30").validate(token)


@pytest.mark.parametrize(
    ("url", "text", "reason"),
    [
        ("", "", "begins with"),
        ("ftp://example.org/keys", "", "begins with"),
        ("keys.json", "", "begins with"),
        ("file:///no/such/keys.json", "", "No such file"),
        ("FILE", "no JSON", "not a JSON Web Key Set"),
        ("FILE", "[1]", "not a JSON Web Key Set"),
        ("FILE", '{"keys": 7}', "without keys"),
        ("http://127.0.0.1:1/keys", "", "an address|the address"),
    ],
)
def test_a_listener_does_not_begin_without_keys(
    tmp_path: Path, url: str, text: str, reason: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match=reason):
        accepting(path.as_uri() if url == "FILE" else url)


def test_the_keys_are_read_again_when_a_token_names_an_unknown_one(
    issuer: TokenIssuer, server: IssuerServer
) -> None:
    accepted = accepting(server.url("/keys"))
    token = issuer.token("unknown", aud=None)
    issuer.published.append("unknown")
    try:
        assert not is_accepted(accepted, token)
        until(lambda: is_accepted(accepted, token) or None, lambda: "the new key is known", 20)
    finally:
        issuer.published.remove("unknown")

    # Once in a minute for each key id, however often it is named.
    for _ in range(3):
        assert not is_accepted(accepted, issuer.token("rsa", headers={"kid": "x"}))
        until(lambda: len(server.requests) == 3 or None, lambda: "the keys are read once more", 20)
    assert not is_accepted(accepted, issuer.token("rsa", headers={"kid": "x" * 2_000}))
    assert server.requests == ["/keys"] * 3


def test_the_keys_are_read_again_from_time_to_time_until_they_are_no_longer_used(
    issuer: TokenIssuer, server: IssuerServer
) -> None:
    others = set(threading.enumerate())
    accepted = accepting(server.url("/keys"), jwks__endpoint__refresh__ms="20")
    until(lambda: len(server.requests) > 3 or None, lambda: "they are read again and again", 20)
    # A failure leaves the keys that there are.
    server.failures += [404] * 1_000
    read = len(server.requests)
    until(lambda: len(server.requests) > read + 2 or None, lambda: "they are asked for in vain", 20)
    assert is_accepted(accepted, issuer.token(aud=None))

    del accepted
    gc.collect()
    until(
        lambda: (
            all(each in others or each.name != THREAD for each in threading.enumerate()) or None
        ),
        lambda: "the thread has ended",
        20,
    )


def is_accepted(accepted: SignedTokens, token: str) -> bool:
    try:
        return accepted.validate(token).principal_name == "alice"
    except IllegalToken:
        return False


# The token of a client


def credentials(url: str, options: dict[str, str]) -> OAuthBearerCredentials:
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    values = ClientValues(
        {
            LOGIN_HANDLER: HANDLERS[LOGIN_HANDLER][1],
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.login.retry.backoff.ms": "1",
            "sasl.login.retry.backoff.max.ms": "100",
        }
    )
    login = f"{module_of(OAUTHBEARER)} required {text};"
    found = credentials_of(KEY, OAUTHBEARER, login, values)
    assert isinstance(found, OAuthBearerCredentials)
    return found


def test_a_token_is_fetched_once_for_most_of_its_life(server: IssuerServer) -> None:
    login = credentials(server.url("/token"), SECRETS | {"scope": "a b", "extension_traceId": "7"})
    server.failures.append(503)

    first = ClientInitialResponse.decode(login.client().first())
    second = ClientInitialResponse.decode(login.client().first())

    assert first == second
    assert first.extensions == {"traceId": "7"}
    assert server.requests == ["/token a b"] * 2  # 503 and a success


@pytest.mark.parametrize("expires_s", [1, "never"])
def test_a_token_that_ends_at_once_is_fetched_again(
    server: IssuerServer, issuer: TokenIssuer, monkeypatch: pytest.MonkeyPatch, expires_s: object
) -> None:
    token = issuer.token(exp=expires_s)
    monkeypatch.setattr(issuer, "token", lambda **_: token)
    login = credentials(server.url("/token"), SECRETS)

    assert login.token() == login.token() == token
    assert server.requests == ["/token"] * 2


def test_a_token_endpoint_that_refuses_is_asked_once(server: IssuerServer) -> None:
    login = credentials(server.url("/token"), SECRETS | {"clientSecret": "wrong"})
    with pytest.raises(SaslRefused, match="HTTP response 401") as refused:
        login.client()

    assert server.requests == ["/token"]
    assert "wrong" not in str(refused.value)


def test_a_secret_goes_to_no_other_address(server: IssuerServer) -> None:
    login = credentials(server.url("/moved"), SECRETS)
    with pytest.raises(SaslRefused, match="HTTP response 302"):
        login.token()

    assert set(server.requests) == {"/moved"}


def test_whom_to_trust_at_an_address_says_the_login_module(
    server: IssuerServer, tmp_path: Path
) -> None:
    server.socket = context(ssl.PROTOCOL_TLS_SERVER, SERVER).wrap_socket(
        server.socket, server_side=True
    )
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(AUTHORITY.identity.certificate_pem)
    url = server.url("/token").replace("http:", "https:")
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}

    assert credentials(url, SECRETS | trust).token().count(".") == 2
    with pytest.raises(SaslRefused, match="CERTIFICATE_VERIFY_FAILED"):
        credentials(url, SECRETS).token()


def test_a_token_may_be_in_a_file_that_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    login = credentials(path.as_uri(), {})
    with pytest.raises(SaslRefused, match="no token in"):
        login.token()
    path.write_text("a.b.c\n")
    assert login.token() == "a.b.c"


@pytest.mark.parametrize("options", [{}, {"clientId": "kafka"}, {"clientSecret": "x"}])
def test_a_token_endpoint_needs_an_id_and_a_secret(options: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match="clientId and clientSecret"):
        credentials("https://example.org/token", options)


def test_a_response_is_read_up_to_a_bound(server: IssuerServer, issuer: TokenIssuer) -> None:
    key_set = issuer.key_set
    issuer.key_set = lambda: {"keys": ["x" * 1_000_001]}  # type: ignore[method-assign]
    try:
        with pytest.raises(HttpFailed, match="more than 1000000 bytes"):
            fetched(server.url("/keys"), Retries(1, 0))
    finally:
        issuer.key_set = key_set  # type: ignore[method-assign]
