"""PLAIN and SCRAM, message by message, and the login of which they are a part."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame, SaslRefused
from kafka_common.protocol import scram
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.sasl_client import PlainClient, ScramClient
from kafka_common.protocol.scram import ScramCredential, ScramMechanism, salt_password
from replica_manager.security.principals import Principal
from replica_manager.security.sasl_authenticator import Login, SaslAuthenticator, Step
from replica_manager.security.sasl_mechanisms import (
    LoginFailed,
    PlainServer,
    SaslServer,
    ScramServer,
)
from replica_manager.security.scram_credentials import ScramCredentials
from tests.support.frames import parse_response_header, request_header

SHA_256 = ScramMechanism.SCRAM_SHA_256
PASSWORDS = {"alice": "alice-secret"}
ALICE = Principal("User", "alice")


def credential(
    password: str = "pencil", mechanism: ScramMechanism = SHA_256, iterations: int = 4096
) -> ScramCredential:
    salted = salt_password(mechanism, password, b"salt", iterations)
    return ScramCredential.of_salted_password(mechanism, b"salt", salted, iterations)


# Mechanisms


def test_scram_says_what_the_example_of_rfc_7677_says() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salt_password(SHA_256, "pencil", salt, 4096)
    known = ScramCredential.of_salted_password(SHA_256, salt, salted, 4096)
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    server = ScramServer(SHA_256, {"user": known}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")

    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.step(client.first())
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = client.step(challenge)
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    signature = server.step(proof)
    assert signature == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.username == "user"
    assert client.step(signature) == b""
    assert client.is_complete


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_a_name_with_commas_and_equals_signs_comes_in(mechanism: ScramMechanism) -> None:
    name = "a=b,c=2C"
    client = ScramClient(mechanism, name, "pencil", "nonce")
    server = ScramServer(mechanism, {name: credential(mechanism=mechanism)}.get, "other")

    client.step(server.step(client.step(server.step(client.first()))))

    assert (server.username, client.is_complete) == (name, True)


def test_a_token_is_named_as_one_in_the_first_message() -> None:
    client = ScramClient(SHA_256, "token-id", "hmac", "nonce", is_token=True)
    server = scram.ClientFirst.decode(client.first())

    assert client.first() == b"n,,n=token-id,r=nonce,tokenauth=true"
    assert server.is_token


def test_a_wrong_password_is_no_proof() -> None:
    client = ScramClient(SHA_256, "alice", "wrong", "nonce")
    server = ScramServer(SHA_256, {"alice": credential()}.get, "other")
    proof = client.step(server.step(client.first()))

    with pytest.raises(LoginFailed) as failed:
        server.step(proof)

    assert failed.value.client_text is None
    assert server.username is None


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"n,,n=mallory,r=nonce", None),
        (b"n,a=bob,n=alice,r=nonce", "Authentication failed: Client requested an authorization id"),
        (b"n,,n=alice,r=nonce,tokenauth=true", None),
        (b"n,,n=weak,r=nonce", None),
        (b"y,,n=alice,r=nonce", None),
        (b"n,,m=must,n=alice,r=nonce", None),
        (b"n,,n=alice,r=", None),
        (b"\xff" * 40, None),
        (b"", None),
    ],
)
def test_who_begins_wrong_does_not_get_on(first: bytes, told: str | None) -> None:
    known = {"alice": credential(), "weak": credential(iterations=100)}
    server = ScramServer(SHA_256, known.get, "other")

    with pytest.raises(SaslRefused) as refused:
        server.step(first)

    said = getattr(refused.value, "client_text", None)
    assert said is None if told is None else told in str(said)


def test_a_client_that_sends_its_part_of_the_nonce_twice_comes_in_as_it_does_in_kafka() -> None:
    server = ScramServer(SHA_256, {"alice": credential()}.get, "other")
    challenge = server.step(b"n,,n=alice,r=nonce").decode()
    salted = salt_password(SHA_256, "pencil", b"salt", 4096)

    # librdkafka before 2.7
    without_proof = "c=biws,r=noncenonceother"
    auth_message = f"n=alice,r=nonce,{challenge},{without_proof}"
    proof = scram.client_proof(SHA_256, salted, auth_message)
    server.step(scram.client_final(without_proof, proof))

    assert server.username == "alice"


def test_another_nonce_than_the_servers_is_refused() -> None:
    server = ScramServer(SHA_256, {"alice": credential()}.get, "other")
    server.step(b"n,,n=alice,r=nonce")

    with pytest.raises(LoginFailed, match="nonce"):
        server.step(b"c=biws,r=nonceelse,p=" + base64.b64encode(b"x" * 32))


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=else,s=c2FsdA==,i=4096",
        b"r=nonceother,s=c2FsdA==,i=4095",
        b"r=nonceother,s=c2FsdA==,i=999999999",
        b"e=unknown-user",
        b"",
    ],
)
def test_a_client_does_not_trust_every_server(challenge: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "pencil", "nonce")
    client.first()

    with pytest.raises(SaslRefused):
        client.step(challenge)


def test_a_server_that_does_not_know_the_user_is_found_out() -> None:
    client = ScramClient(SHA_256, "alice", "pencil", "nonce")
    client.first()
    client.step(b"r=nonceother,s=c2FsdA==,i=4096")

    with pytest.raises(SaslRefused, match="does not know"):
        client.step(scram.server_final(b"x" * 32))
    assert not client.is_complete


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0pass", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0alice-secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_plain_tells_what_is_wrong_but_not_whether_a_user_exists(token: bytes, told: str) -> None:
    server = PlainServer(PASSWORDS)

    with pytest.raises(LoginFailed) as failed:
        server.step(token)

    assert failed.value.client_text == told
    assert server.username is None


def test_a_credential_is_kept_as_kafka_keeps_it_and_shows_nothing() -> None:
    # Written by kafka-configs of Kafka 3.9.1.
    text = (
        "salt=c2FsdA==,stored_key=dGhpcyBpcyBub3QgYSBrZXk=,server_key=bm9yIGlzIHRoaXM=,"
        "iterations=8192"
    )

    known = ScramCredential.decode(text)

    assert (known.salt, known.iterations, known.encode()) == (b"salt", 8192, text)
    assert "not a key" not in repr(known)
    for wrong in (
        "",
        "salt=a",
        text + ",more=1",
        text.replace("8192", "x"),
        text.replace("c2", "!"),
    ):
        with pytest.raises(ValueError, match="SCRAM credential") as refused:
            ScramCredential.decode(wrong)
        assert "dGhpcyB" not in str(refused.value)


def test_credentials_follow_what_is_configured(caplog: pytest.LogCaptureFixture) -> None:
    credentials = ScramCredentials()
    text = credential().encode()

    credentials.configure("users/alice%40home", {"SCRAM-SHA-256": text, "producer_byte_rate": "1"})
    credentials.configure("users/bob/clients/c", {"SCRAM-SHA-256": text})
    credentials.configure("users/eve", {"SCRAM-SHA-256": "rubbish-secret"})

    assert credentials.of("SCRAM-SHA-256", "alice@home") == credential()
    assert credentials.of("SCRAM-SHA-512", "alice@home") is None
    assert credentials.of("SCRAM-SHA-256", "bob") is None
    assert credentials.of("SCRAM-SHA-256", "eve") is None
    assert "rubbish-secret" not in caplog.text
    credentials.configure("users/alice%40home", {})
    assert credentials.of("SCRAM-SHA-256", "alice@home") is None


# The login


class Connected:
    """A client that sends frames to an authenticator."""

    def __init__(self, *, before: Login | None = None, max_reauth_ms: int = 0) -> None:
        servers: Mapping[str, Callable[[], SaslServer]] = {
            "PLAIN": lambda: PlainServer(PASSWORDS),
            "SCRAM-SHA-256": lambda: ScramServer(SHA_256, {"alice": credential()}.get, "other"),
        }
        self.refused: list[ErrorCode] = []
        self.authenticator = SaslAuthenticator(
            servers,
            max_reauth_ms=dict.fromkeys(servers, max_reauth_ms),
            refusal=self._refusal,
            before=before,
        )
        self.now_ms = 1_000

    def _refusal(self, _data: bytes, error: ErrorCode) -> bytes:
        self.refused.append(error)
        return b"refusal"

    def send(self, data: bytes) -> Step:
        return self.authenticator.receive(data, self.now_ms)

    def ask(self, api: str, version: int, **fields: Any) -> tuple[Any, Step]:
        """Sends a request; returns its response (None if refused or unanswered) and the step."""
        module: Any = import_module(f"kio.schema.{api}.v{version}.request")
        kind = getattr(module, "".join(map(str.capitalize, api.split("_"))) + "Request")
        key = int(kind.__api_key__)
        step = self.send(request_header(key, version, 7, "test") + write(kind(**fields)))
        if step.reply is None or step.reply == b"refusal":
            return None, step
        correlation_id, start = parse_response_header(key, version, step.reply[4:])
        assert correlation_id == 7
        return read_response(key, version, step.reply[4:], start), step

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        response, step = self.ask("sasl_handshake", version, mechanism=mechanism)
        return response.error_code, response.mechanisms, step.failure

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        response, step = self.ask("sasl_authenticate", version, auth_bytes=token)
        return response, step.failure


def test_plain_comes_in_by_one_token() -> None:
    client = Connected()

    assert client.handshake("PLAIN") == (ErrorCode.none, ("PLAIN", "SCRAM-SHA-256"), None)
    response, failure = client.authenticate(PlainClient("alice", "alice-secret").first())

    assert (response.error_code, response.auth_bytes, failure) == (ErrorCode.none, b"", None)
    assert response.error_message == ""  # as Kafka, not null
    assert client.authenticator.login == Login(ALICE, "PLAIN", None, can_reauthenticate=True)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_scram_comes_in_by_two(version: int) -> None:
    client, sasl = Connected(), ScramClient(SHA_256, "alice", "pencil", "nonce")
    client.handshake("SCRAM-SHA-256")

    first, _ = client.authenticate(sasl.first(), version)
    assert client.authenticator.login is None
    final, _ = client.authenticate(sasl.step(first.auth_bytes), version)

    sasl.step(final.auth_bytes)
    assert sasl.is_complete
    assert client.authenticator.login == Login(
        ALICE, "SCRAM-SHA-256", None, can_reauthenticate=version > 0
    )


def test_after_version_0_of_the_handshake_tokens_come_bare() -> None:
    client, sasl = Connected(), ScramClient(SHA_256, "alice", "pencil", "nonce")
    client.handshake("SCRAM-SHA-256", version=0)

    challenge = client.send(sasl.first()).reply
    assert challenge is not None
    assert struct.unpack(">i", challenge[:4])[0] == len(challenge) - 4
    final = client.send(sasl.step(challenge[4:])).reply

    assert final is not None
    sasl.step(final[4:])
    assert client.authenticator.login == Login(ALICE, "SCRAM-SHA-256", None)


def test_a_login_that_fails_after_version_0_gets_no_answer() -> None:
    client = Connected()
    client.handshake("PLAIN", version=0)

    step = client.send(b"\0alice\0wrong")

    assert step.reply is None
    assert step.failure == "Authentication failed: Invalid username or password"


def test_a_refused_login_tells_no_more_than_it_must() -> None:
    plain = Connected()
    plain.handshake("PLAIN")
    response, failure = plain.authenticate(b"\0alice\0wrong")
    assert response.error_code is ErrorCode.sasl_authentication_failed
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert failure is not None

    unknown = Connected()
    unknown.handshake("SCRAM-SHA-256")
    response, failure = unknown.authenticate(b"n,,n=mallory,r=nonce")
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )
    assert failure == "Authentication failed: Invalid user credentials"
    assert unknown.authenticator.login is None


def test_an_unknown_mechanism_is_answered_with_those_there_are() -> None:
    error, mechanisms, failure = Connected().handshake("GSSAPI")

    assert error is ErrorCode.unsupported_sasl_mechanism
    assert mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert failure == "Unsupported SASL mechanism"


def test_api_versions_may_come_once_before_the_handshake() -> None:
    client = Connected()
    software = {"client_software_name": "test", "client_software_version": "1"}
    odd = {"client_software_name": "-", "client_software_version": "1"}

    # An error does not use up the one that is allowed.
    assert client.ask("api_versions", 3, **odd)[1] == Step(is_for_dispatcher=True)
    assert client.send(struct.pack(">hhi", 18, 99, 1) + b"\0\0\0") == Step(is_for_dispatcher=True)
    assert client.ask("api_versions", 3, **software)[1] == Step(is_for_dispatcher=True)
    assert client.ask("api_versions", 3, **software)[1].failure is not None


def test_any_other_request_ends_it() -> None:
    early = Connected()
    _, step = early.ask("metadata", 1, topics=None)
    assert step.reply is None
    assert step.failure == "Unexpected Kafka request of type METADATA during SASL handshake."

    late = Connected()
    late.handshake("PLAIN")
    _, step = late.ask("metadata", 1, topics=None)
    assert (step.reply, late.refused) == (b"refusal", [ErrorCode.illegal_sasl_state])
    assert step.failure == "Unexpected Kafka request of type METADATA during SASL authentication."


@pytest.mark.parametrize(
    "data", [b"", b"\x60\x82", struct.pack(">hhi", 999, 0, 1), struct.pack(">hhih", 17, 9, 1, -1)]
)
def test_what_is_no_request_is_no_login(data: bytes) -> None:
    with pytest.raises(InvalidFrame):
        Connected().send(data)


def test_a_session_has_a_life_and_is_renewed_by_the_same_user_and_mechanism() -> None:
    first = Connected(max_reauth_ms=60_000)
    first.handshake("PLAIN")
    response, _ = first.authenticate(b"\0alice\0alice-secret")
    login = first.authenticator.login

    assert response.session_lifetime.total_seconds() == 60
    assert login == Login(ALICE, "PLAIN", 61_000, can_reauthenticate=True)

    again = Connected(max_reauth_ms=60_000, before=login)
    again.now_ms = 50_000
    again.handshake("PLAIN")
    again.authenticate(b"\0alice\0alice-secret")
    assert again.authenticator.login == Login(ALICE, "PLAIN", 110_000, can_reauthenticate=True)

    other_mechanism = Connected(before=login)
    other_mechanism.handshake("SCRAM-SHA-256")
    assert other_mechanism.send(b"anything").failure is not None

    other_user = Connected(before=Login(Principal("User", "bob"), "PLAIN", 1))
    other_user.handshake("PLAIN")
    response, failure = other_user.authenticate(b"\0alice\0alice-secret")
    assert response.error_message == (
        "Cannot change principals during re-authentication from User.bob: User.alice"
    )
    assert failure is not None
    assert other_user.authenticator.login is None
