"""Listeners of every security protocol."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from cryptography.x509.oid import NameOID
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from kafka_common.model import Endpoint
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.framing import frame, parse_request_header, response_header
from kafka_common.protocol.messages import response_type, write
from kafka_common.protocol.scram import ScramCredential, ScramMechanism, salt_password
from kafka_common.protocol.versioned_messages import made_of
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.network.listener import ServerLimits, SocketServer
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.security.key_material import KeyMaterial, use_key
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.settings import ListenerSecurity, SaslSettings
from tests.support.certificates import Authority, Identity

AUTHORITY = Authority()


SERVER = AUTHORITY.sign((NameOID.COMMON_NAME, "broker"), hosts=True)


USERS = {"alice": "alice-secret"}


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def context(
    protocol: ssl._SSLMethod, identity: Identity | None, authority: Authority = AUTHORITY
) -> ssl.SSLContext:
    made = ssl.SSLContext(protocol)
    made.load_verify_locations(cadata=authority.identity.certificate_pem)
    if identity is not None:
        key, chain = identity.key_pem().encode(), identity.certificate_pem.encode()
        use_key(made, KeyMaterial(key, chain, "ssl.keystore.key"))
    return made


def tls_listener(client_auth: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    made = context(ssl.PROTOCOL_TLS_SERVER, SERVER)
    made.verify_mode = client_auth
    return made


def sasl(*mechanisms: str, max_reauth_ms: int = 0) -> SaslSettings:
    named = mechanisms or ("PLAIN", "SCRAM-SHA-512")
    return SaslSettings(named, USERS, dict.fromkeys(named, max_reauth_ms), 10_000)


def scram_users() -> ScramCredentials:
    mechanism = ScramMechanism.SCRAM_SHA_512
    salted = salt_password(mechanism, USERS["alice"], b"salt", 4096)
    credential = ScramCredential.of_salted_password(mechanism, b"salt", salted, 4096)
    credentials = ScramCredentials()
    credentials.configure("users/alice", {"SCRAM-SHA-512": credential.encode()})
    return credentials


class Broker:
    """Answers Metadata, and remembers who asked."""

    def __init__(self) -> None:
        self.peers: list[str] = []
        self.are_in: list[bool] = []
        self.metrics = Metrics()
        self.expired_count = 0
        """Of the listener, once it is closed."""

    async def respond(self, data: bytes, peer: Peer) -> ResponseFrame:
        self.peers.append(str(peer.principal))
        self.are_in.append(peer.is_in)
        header, _ = parse_request_header(data)
        kind: Any = response_type(header.api_key, header.api_version)
        match header.api_key:
            case SaslHandshakeRequest.__api_key__:
                body = kind(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
            case ApiVersionsRequest.__api_key__:
                values = {
                    "error_code": ErrorCode.none,
                    "api_keys": (),
                    "throttle_time": timedelta(),
                }
                body = made_of(kind, values)
            case _:
                body = kind(brokers=(), controller_id=1, topics=())
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return ResponseFrame(frame((head, write(body))))


@asynccontextmanager
async def listener(broker: Broker, security: ListenerSecurity, **limits: Any) -> AsyncIterator[int]:
    """A listener so secured; its port."""
    server = SocketServer(
        (Endpoint("127.0.0.1", 0, "L", security.security_protocol),),
        ServerLimits(**limits),
        broker.respond,
        broker_id=1,
        protected_listener="L",
        authenticators={
            "L": ListenerAuthenticator(security, scram_users(), lambda _data, _error: None)
        },
        metrics=broker.metrics,
    )
    server.open()
    try:
        yield server.ports["L"]
    finally:
        await server.close()
        broker.expired_count = server.expired_count
