"""TLS and SASL on real sockets: a broker's listeners, and how other brokers come in by them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v1.request import MetadataRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from typing_extensions import override

from kafka_common.net.client_security import ClientSecurity, Credentials
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import frame, parse_request_header, response_header
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from kafka_common.wall_time import wall_time_ms
from replica_manager.network.connection import Begun, ClientConnection, Peer, ResponseFrame
from replica_manager.security.client_values import ClientValues
from replica_manager.security.logins import credentials_of, module_of
from replica_manager.security.oauth_tokens import UnsecuredTokens
from replica_manager.security.principals import ANONYMOUS, SslPrincipalMapper
from replica_manager.security.settings import ListenerSecurity, SaslSettings
from tests.support.certificates import Authority, Identity
from tests.support.wire_peer import until
from tests.unit.replica_manager.security.listeners import (
    AUTHORITY,
    SERVER,
    USERS,
    Broker,
    context,
    listener,
    sasl,
    tls_listener,
)

ALICE = AUTHORITY.sign((NameOID.COMMON_NAME, "alice"))
STRANGER = Authority("Another").sign((NameOID.COMMON_NAME, "alice"))


async def ask(port: int, security: ClientSecurity, *, times: int = 1) -> None:
    connection = await Connection.open(
        "127.0.0.1", port, client_id="test", security=security, request_timeout_ms=20_000
    )
    try:
        for _ in range(times):
            await connection.request(MetadataRequest(topics=None))
            assert connection.is_usable()
    finally:
        await connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_broker_logs_in_at_another(protocol: str, mechanism: str) -> None:
    broker = Broker()
    has_tls = protocol == "SASL_SSL"
    security = ListenerSecurity(protocol, tls_listener() if has_tls else None, None, sasl())
    client = context(ssl.PROTOCOL_TLS_CLIENT, None) if has_tls else None
    credentials = Credentials(mechanism, "alice", USERS["alice"])
    async with listener(broker, security) as port:
        await ask(port, ClientSecurity(client, credentials), times=3)

    assert broker.peers == ["User:alice"] * 3


async def test_who_asks_before_the_login_is_known_to_be_outside() -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl())
    async with listener(broker, security) as port:
        connection = await Connection.open("127.0.0.1", port, client_id="test")
        await connection.request(ApiVersionsRequest())
        await connection.close()
        await ask(port, ClientSecurity(None, Credentials("PLAIN", "alice", USERS["alice"])))

    assert broker.are_in == [False, True]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("login", [("alice", "wrong"), ("mallory", "alice-secret")])
async def test_who_does_not_know_the_password_is_refused_and_reaches_no_handler(
    mechanism: str, login: tuple[str, str]
) -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl())
    async with listener(broker, security) as port:
        with pytest.raises(ConnectionError, match="SASL_AUTHENTICATION_FAILED") as refused:
            await ask(port, ClientSecurity(None, Credentials(mechanism, *login)))

    assert broker.peers == []
    assert login[1] not in str(refused.value)


async def test_a_mechanism_that_is_not_there_is_refused_with_those_that_are() -> None:
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl("PLAIN"))
    async with listener(Broker(), security) as port:
        credentials = Credentials("SCRAM-SHA-512", "alice", USERS["alice"])
        with pytest.raises(ConnectionError, match="but by: PLAIN"):
            await ask(port, ClientSecurity(None, credentials))


@pytest.mark.parametrize("scope", ["kafka", "billing"])
async def test_a_broker_logs_in_at_another_by_a_token(scope: str) -> None:
    key = "sasl.jaas.config"
    login = f"unsecuredLoginStringClaim_sub=alice unsecuredLoginStringClaim_scope={scope}"
    jaas = f"{module_of(OAUTHBEARER)} required {login};"
    credentials = credentials_of(key, OAUTHBEARER, jaas, ClientValues({}))
    tokens = UnsecuredTokens(key, {"unsecuredValidatorRequiredScope": "kafka"}, wall_time_ms)
    broker = Broker()
    by_token = SaslSettings((OAUTHBEARER,), {}, {}, 10_000, tokens.validate)
    async with listener(broker, ListenerSecurity("SASL_PLAINTEXT", sasl=by_token)) as port:
        refused = (
            nullcontext()
            if scope == "kafka"
            else pytest.raises(ConnectionError, match="insufficient_scope")
        )
        with refused:
            await ask(port, ClientSecurity(None, credentials))

    assert broker.peers == (["User:alice"] if scope == "kafka" else [])


@pytest.mark.parametrize(
    ("client_auth", "identity", "expected"),
    [
        (ssl.CERT_NONE, ALICE, "User:ANONYMOUS"),
        (ssl.CERT_OPTIONAL, None, "User:ANONYMOUS"),
        (ssl.CERT_OPTIONAL, ALICE, "User:CN=alice"),
        (ssl.CERT_REQUIRED, ALICE, "User:CN=alice"),
        (ssl.CERT_REQUIRED, None, None),
        (ssl.CERT_REQUIRED, STRANGER, None),
        (ssl.CERT_OPTIONAL, STRANGER, None),
    ],
)
async def test_a_certificate_is_a_name_if_it_is_asked_for_and_trusted(
    client_auth: ssl.VerifyMode, identity: Identity | None, expected: str | None
) -> None:
    broker = Broker()
    tls = tls_listener(client_auth)
    security = ListenerSecurity("SSL", tls, SslPrincipalMapper("DEFAULT"))
    client = ClientSecurity(context(ssl.PROTOCOL_TLS_CLIENT, identity))
    async with listener(broker, security) as port:
        if expected is None:
            with pytest.raises(ConnectionError):
                await ask(port, client)
        else:
            await ask(port, client)

    assert broker.peers == ([] if expected is None else [expected])


async def test_a_name_that_no_rule_maps_stays_outside(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    broker = Broker()
    mapper = SslPrincipalMapper("RULE:^CN=bob$/bob/")
    security = ListenerSecurity("SSL", tls_listener(ssl.CERT_REQUIRED), mapper)
    async with listener(broker, security) as port:
        with pytest.raises(ConnectionError):
            await ask(port, ClientSecurity(context(ssl.PROTOCOL_TLS_CLIENT, ALICE)))

    assert broker.peers == []
    assert "ssl.principal.mapping.rules" in caplog.text


async def test_a_broker_that_is_not_who_it_should_be_gets_no_password() -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_SSL", tls_listener(), None, sasl())
    distrusting = context(ssl.PROTOCOL_TLS_CLIENT, None, Authority("Another"))
    credentials = Credentials("PLAIN", "alice", USERS["alice"])
    async with listener(broker, security) as port:
        with pytest.raises(ConnectionError, match="verify failed"):
            await ask(port, ClientSecurity(distrusting, credentials))


async def test_a_large_answer_comes_whole_through_tls() -> None:
    size = 3_000_000

    class Large(Broker):
        @override
        async def respond(self, data: bytes, peer: Peer) -> ResponseFrame:
            assert peer.principal == ANONYMOUS
            header, _ = parse_request_header(data)
            head = response_header(header.api_key, header.api_version, header.correlation_id)
            return ResponseFrame(frame((head, b"x" * size)))

    async with listener(Large(), ListenerSecurity("SSL", tls_listener())) as port:
        client = ClientSecurity(context(ssl.PROTOCOL_TLS_CLIENT, None))
        connection = await Connection.open("127.0.0.1", port, client_id="test", security=client)
        assert await connection.call(3, 1, (b"y" * 200_000,)) == b"x" * size
        await connection.close()


async def test_a_login_that_is_about_to_end_is_renewed_before_the_next_request() -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl(max_reauth_ms=3_600_000))
    credentials = Credentials("SCRAM-SHA-512", "alice", USERS["alice"])
    async with listener(broker, security) as port:
        connection = await Connection.open(
            "127.0.0.1", port, client_id="a", security=ClientSecurity(None, credentials)
        )
        first_due_s = connection._log_in_again_at_s
        assert first_due_s is not None
        connection._log_in_again_at_s = 0.0
        await connection.request(MetadataRequest(topics=None))
        assert connection._log_in_again_at_s > first_due_s
        await connection.close()

    # The login is none of the requests.
    assert broker.peers == ["User:alice"]


async def test_a_login_that_has_ended_ends_the_connection() -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl(max_reauth_ms=1))
    credentials = Credentials("PLAIN", "alice", USERS["alice"])
    async with listener(broker, security) as port:
        connection = await Connection.open(
            "127.0.0.1", port, client_id="a", security=ClientSecurity(None, credentials)
        )
        connection._log_in_again_at_s = None
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionError):
            await connection.request(MetadataRequest(topics=None))

    assert broker.peers == []
    assert broker.expired_count == 1
    [counts] = (
        found for found in broker.metrics.snapshot().values() if "connection-count" in found
    )
    assert counts["expired-connections-killed-count"] == 1


async def test_no_record_is_appended_after_the_end_of_a_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even that of a request which has arrived, while the one before waits for replicas."""
    broker = Broker()
    may_answer = asyncio.Event()

    async def later() -> ResponseFrame:
        await may_answer.wait()
        return ResponseFrame(frame((b"acknowledged",)))

    async def respond(_: bytes, peer: Peer) -> Begun:
        broker.peers.append(str(peer.principal))
        # The login ends while the request is handled.
        monkeypatch.setattr(ClientConnection, "_now_ms", lambda _: 2**62)
        return later

    monkeypatch.setattr(broker, "respond", respond)
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl(max_reauth_ms=3_600_000))
    credentials = Credentials("PLAIN", "alice", USERS["alice"])
    async with listener(broker, security) as port:
        connection = await Connection.open(
            "127.0.0.1", port, client_id="a", security=ClientSecurity(None, credentials)
        )
        produce = frame((int(ApiKey.PRODUCE).to_bytes(2, "big"),))
        await connection._stream.send_all(produce + produce)
        await until(lambda: len(broker.peers) == 1)
        await asyncio.sleep(0.05)
        may_answer.set()
        while await connection._stream.receive(1_000):
            pass
        await connection.close()

    assert broker.peers == ["User:alice"]
    assert broker.expired_count == 1


async def test_a_handshake_on_a_session_without_an_end_is_an_ordinary_request() -> None:
    broker = Broker()
    security = ListenerSecurity("SASL_PLAINTEXT", sasl=sasl())
    credentials = Credentials("PLAIN", "alice", USERS["alice"])
    async with listener(broker, security) as port:
        connection = await Connection.open(
            "127.0.0.1", port, client_id="a", security=ClientSecurity(None, credentials)
        )
        response: Any = await connection.request(SaslHandshakeRequest(mechanism="PLAIN"))
        await connection.close()

    assert response.error_code is ErrorCode.illegal_sasl_state
    assert broker.peers == ["User:alice"]


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
@pytest.mark.parametrize(
    "nonsense",
    [b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\4abcd", b"GET / HTTP/1.1\r\n\r\n", b"\x16\3\1\0\5"],
)
async def test_nonsense_at_the_gate_closes_that_connection_alone(
    protocol: str, nonsense: bytes
) -> None:
    broker = Broker()
    security = ListenerSecurity(
        protocol,
        tls_listener() if "SSL" in protocol else None,
        None,
        sasl() if "SASL" in protocol else None,
    )
    async with listener(broker, security, max_idle_ms=5_000) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(nonsense)
        writer.write_eof()
        await reader.read()
        writer.close()
        client = context(ssl.PROTOCOL_TLS_CLIENT, None) if "SSL" in protocol else None
        login = Credentials("PLAIN", "alice", USERS["alice"]) if "SASL" in protocol else None
        await ask(port, ClientSecurity(client, login))

    assert len(broker.peers) == 1


def test_a_key_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    context(ssl.PROTOCOL_TLS_SERVER, SERVER)

    assert list(tmp_path.iterdir()) == []
