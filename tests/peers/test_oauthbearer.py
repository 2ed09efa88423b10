"""OAUTHBEARER at a broker of ours and one of Kafka's: the same tokens get the same responses.

They are one cluster whose brokers log in at each other by tokens, too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.model import ReplicaAssignment
from kafka_common.net.connection import Connection
from kafka_common.protocol.oauthbearer import ERROR_RECEIVED, OAUTHBEARER, ClientInitialResponse
from tests.peers.cluster import TOPIC_COMMAND, Cluster
from tests.peers.endpoints import endpoint
from tests.support.token_issuer import AUDIENCE, ISSUER, TokenIssuer, issuer_server
from zkcontroller.zookeeper.requests import Create, ZkCode
from zkcontroller.zookeeper.topic_znodes import TopicZnode

pytestmark = pytest.mark.peers

confluent_kafka: Any = pytest.importorskip("confluent_kafka")
OURS, KAFKA = 1, 2
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PROPERTIES: Final = {
    "listeners": "TOKENS://localhost:0",
    "advertised.listeners": "TOKENS://localhost:0",
    "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "TOKENS",
    "sasl.enabled.mechanisms": OAUTHBEARER,
    "sasl.mechanism.inter.broker.protocol": OAUTHBEARER,
    "listener.name.tokens.oauthbearer.sasl.jaas.config": (
        f'{MODULE} unsecuredLoginStringClaim_sub="broker" unsecuredLoginListClaim_scope=",kafka,x" '
        'unsecuredValidatorRequiredScope="kafka";'
    ),
}
HOUR_S: Final = 3_600
CLOSED: Final = "closed without a response"
LATER: Final = timedelta(seconds=2 * HOUR_S)
"""Lifetimes are compared by whether they are there, and how long about."""


def token(claims: object, header: object = {"alg": "none"}, signature: str = "") -> str:
    parts = (base64.b64encode(json.dumps(each).encode()).decode() for each in (header, claims))
    return ".".join([*(part.rstrip("=") for part in parts), signature])


def claims(**others: object) -> dict[str, object]:
    now_s = time.time()
    return {"sub": "alice", "scope": "kafka", "iat": now_s, "exp": now_s + HOUR_S, **others}


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in claims().items() if key != name}


def tokens() -> dict[str, str]:
    """What is shown, by name."""
    now_s = time.time()
    return {
        "valid": token(claims()),
        "a name beyond ASCII": token(claims(sub="ålice")),
        "scopes in a list": token(claims(scope=["x", " kafka "])),
        "whole seconds": token(claims(iat=int(now_s), exp=int(now_s) + HOUR_S)),
        "no time of issue": token(without("iat")),
        "a far end": token(claims(exp=1e10)),
        "expired": token(claims(iat=now_s - 20, exp=now_s - 10)),
        "issued later": token(claims(iat=now_s + 600)),
        "ends before its issue": token(claims(iat=now_s - 10, exp=now_s - 20)),
        "no end": token(without("exp")),
        "an end in words": token(claims(exp="tomorrow")),
        "an issue in words": token(claims(iat="today")),
        "no name": token(without("sub")),
        "a blank name": token(claims(sub=" ")),
        "a number as name": token(claims(sub=7)),
        "names in a list": token(claims(sub=["alice"])),
        "true as name": token(claims(sub=True)),
        "an object as name": token(claims(sub={"a": "b"})),
        "no scope": token(without("scope")),
        "another scope": token(claims(scope="billing")),
        "two scopes in a text": token(claims(scope="kafka billing")),
        "a number as scope": token(claims(scope=7)),
        "signed": token(claims(), {"alg": "HS256"}, "c2lnbmVk"),
        "signed with none": token(claims(), signature="c2lnbmVk"),
        "two segments": token(claims()).removesuffix("."),
        "four segments": token(claims()) + "a.b",
        "two dots": "a..b",
        "no base64": "a.b.",
        "no JSON": f"{token({}).split('.')[0]}.{base64.b64encode(b'no JSON').decode()}.",
        "a list of claims": token([1]),
    }


def messages() -> dict[str, bytes]:
    """First messages that are not what a client sends."""
    valid = token(claims())
    as_usual = ClientInitialResponse(valid).encode()
    return {
        "an extension": ClientInitialResponse(valid, extensions={"traceId": "a 1"}).encode(),
        "its own name": ClientInitialResponse(valid, "alice").encode(),
        "another name": ClientInitialResponse(valid, "bob").encode(),
        "small letters": as_usual.replace(b"Bearer", b"bearer"),
        "no space": as_usual.replace(b"Bearer ", b"Bearer"),
        "no auth": as_usual.replace(b"auth=", b"authentication="),
        "a number in a key": as_usual.replace(b"\x01\x01", b"\x01a1=b\x01\x01"),
        "no value": as_usual.replace(b"\x01\x01", b"\x01a=\x01\x01"),
        "not its end": as_usual[:-1],
        "two of them": as_usual * 2,
        "nothing": b"",
        "a received error, before there was one": ERROR_RECEIVED,
    }


def left_without_a_response() -> dict[str, bytes]:
    """First messages after which Kafka closes the connection: an exception of Java."""
    return {
        "another scheme": ClientInitialResponse(token(claims())).encode().replace(b"Bear", b"Wear"),
        "no algorithm": ClientInitialResponse(token(claims(), {})).encode(),
    }


async def exchange(bootstrap: str, shown: Sequence[bytes]) -> list[Any]:
    """What a broker responds to each of those messages; the last is that it has closed."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="peers")
    responses: list[Any] = []
    try:
        handshake: Any = await connection.request(SaslHandshakeRequest(mechanism=OAUTHBEARER))
        responses.append((handshake.error_code, handshake.mechanisms))
        for message in shown:
            response: Any = await connection.request(SaslAuthenticateRequest(auth_bytes=message))
            lifetime = response.session_lifetime
            about = "for ever" if lifetime > LATER else round(lifetime / timedelta(minutes=1))
            responses.append(
                (response.error_code, response.error_message, response.auth_bytes, about)
            )
            if response.error_code or not response.auth_bytes:
                return responses
    except (ConnectionError, EOFError):
        responses.append(CLOSED)
    finally:
        await connection.close()
    return responses


def responses_of(
    cluster: Cluster, broker_id: int, shown: Mapping[str, bytes], listener: str = "TOKENS"
) -> dict[str, list[Any]]:
    bootstrap = endpoint(cluster, broker_id, listener)

    async def each() -> list[list[Any]]:
        return await asyncio.gather(
            *(exchange(bootstrap, (message, ERROR_RECEIVED)) for message in shown.values())
        )

    return dict(zip(shown, asyncio.run(each()), strict=True))


def produce(bootstrap: str) -> None:
    """A record to the leader of each partition, by librdkafka's own tokens."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": OAUTHBEARER,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=alice scope=kafka",
        }
    )
    for partition in (0, 1):
        producer.produce("orders", b"a record", partition=partition)
    assert producer.flush(60) == 0


@pytest.fixture
def secured(cluster: Cluster) -> Cluster:
    cluster.start_ours(OURS, PROPERTIES)
    cluster.start_kafka(KAFKA, PROPERTIES)
    return cluster


def test_both_give_the_same_responses_to_all_tokens(secured: Cluster, tmp_path: Path) -> None:
    # Kafka's tool, with a login of its own making, creates a topic that lives on both.
    properties = tmp_path / "alice.properties"
    login = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginStringClaim_scope="kafka"'
    properties.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={OAUTHBEARER}\n"
        f"sasl.jaas.config={MODULE} {login};\n"
    )
    created = run_kafka_tool(
        TOPIC_COMMAND, "--bootstrap-server", endpoint(secured, OURS, "TOKENS"),
        "--command-config", str(properties), "--create", "--topic", "orders",
        "--replica-assignment", f"{OURS}:{KAFKA},{KAFKA}:{OURS}", timeout_s=120,
    )  # fmt: skip
    assert created.returncode == 0, created.stdout + created.stderr
    # Each broker logs in at the other to fetch.
    secured.wait_until_in_sync()
    for broker_id in (OURS, KAFKA):
        bootstrap = endpoint(secured, broker_id, "TOKENS")
        produce(bootstrap)
        zkctl = [sys.executable, "-m", "zkcontroller_cli", "-b", bootstrap]
        listed = subprocess.run(
            [*zkctl, "--command-config", str(properties), "topic", "list", "-o", "name"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert listed.stdout.split() == ["orders"], listed.stderr

    shown = {name: ClientInitialResponse(each).encode() for name, each in tokens().items()}
    shown |= messages()
    unanswered = left_without_a_response()
    shown |= unanswered
    ours, kafkas = (responses_of(secured, broker_id, shown) for broker_id in (OURS, KAFKA))

    handshake = (ErrorCode.none, (OAUTHBEARER,))
    for name in unanswered:
        assert kafkas.pop(name) == [handshake, CLOSED]
        *_, (error, _, _, _) = ours.pop(name)
        assert error is ErrorCode.sasl_authentication_failed
    differ = {name: (ours[name], kafkas[name]) for name in ours if ours[name] != kafkas[name]}
    assert not differ, "\n".join(f"{name}: {pair}" for name, pair in differ.items())


# Signed tokens


def signed_properties(keys: Path, log_in_by: str) -> dict[str, str]:
    """A listener for signed tokens; by its mechanism's login the brokers reach each other."""
    prefix = "listener.name.signed.oauthbearer."
    package = "org.apache.kafka.common.security.oauthbearer"
    return {
        "listeners": "SIGNED://localhost:0",
        "advertised.listeners": "SIGNED://localhost:0",
        "listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SIGNED",
        "sasl.enabled.mechanisms": OAUTHBEARER,
        "sasl.mechanism.inter.broker.protocol": OAUTHBEARER,
        f"{prefix}sasl.jaas.config": f'{MODULE} clientId="kafka" clientSecret="s+cret";',
        f"{prefix}sasl.server.callback.handler.class": (
            f"{package}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.token.endpoint.url": log_in_by,
        "sasl.oauthbearer.expected.audience": f"x,{AUDIENCE}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def signed_tokens(issuer: TokenIssuer) -> dict[str, str]:
    now_s = int(time.time())
    head, body, signature = issuer.token().split(".")
    return {
        "valid": issuer.token(),
        "RS512": issuer.token("rsa", "RS512"),
        "PS256": issuer.token("rsa", "PS256"),
        "ES256": issuer.token("ec"),
        "HS256": issuer.token("shared"),
        "no key id": issuer.token(headers={"kid": None}),
        "no key id, an unknown key": issuer.token("unknown", headers={"kid": None}),
        "an unknown key": issuer.token("unknown"),
        "a short key": issuer.token("short"),
        "a secret named as an RSA key": issuer.token("shared", headers={"kid": "rsa"}),
        "a wrong signature": f"{head}.{body}.{signature[:-4]}AAAA",
        "no signature": f"{head}.{body}.",
        "unsigned": f"eyJhbGciOiJub25lIn0.{body}.",
        "two segments": f"{head}.{body}",
        "nonsense": "a.b.c",
        "expired": issuer.token(iat=now_s - 600, exp=now_s - 300),
        "expired within the skew": issuer.token(iat=now_s - 600, exp=now_s - 10),
        "issued later": issuer.token(iat=now_s + 600),
        "ends before its issue": issuer.token(iat=now_s + 900, exp=now_s + 600),
        "not yet": issuer.token(nbf=now_s + 600),
        "no end": issuer.token(exp=None),
        "no issue": issuer.token(iat=None),
        "an end in words": issuer.token(exp="tomorrow"),
        "another audience": issuer.token(aud="billing"),
        "two audiences": issuer.token(aud=["billing", AUDIENCE]),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://other.example.org"),
        "no issuer": issuer.token(iss=None),
        "no name": issuer.token(sub=None),
        "a blank name": issuer.token(sub=" "),
        "a number as name": issuer.token(sub=7),
        "scopes": issuer.token(scope=["a", "b"]),
        "a scope twice": issuer.token(scope=["a", "a"]),
        "a blank scope": issuer.token(scope=" "),
        "a number as scope": issuer.token(scope=7),
    }


@pytest.mark.parametrize("source", ["file", "endpoint"])
def test_both_give_the_same_responses_to_signed_tokens(
    cluster: Cluster, tmp_path: Path, source: str
) -> None:
    """The brokers' own tokens come from a file or from a token endpoint."""
    issuer = TokenIssuer()
    keys, own = tmp_path / "keys.json", tmp_path / "token"
    keys.write_text(json.dumps(issuer.key_set()))
    own.write_text(issuer.token(sub="broker") + "\n")
    with issuer_server(issuer) as server:
        url = own.as_uri() if source == "file" else server.url("/token")
        cluster.start_ours(OURS, signed_properties(keys, url))
        cluster.start_kafka(KAFKA, signed_properties(keys, url))
        shown = {
            name: ClientInitialResponse(each).encode()
            for name, each in signed_tokens(issuer).items()
        }
        ours, kafkas = (
            responses_of(cluster, broker_id, shown, "SIGNED") for broker_id in (OURS, KAFKA)
        )
        create_topic(cluster)
        cluster.wait_until_in_sync("orders")

    differ = {name: (ours[name], kafkas[name]) for name in ours if ours[name] != kafkas[name]}
    assert not differ, "\n".join(f"{name}: {pair}" for name, pair in differ.items())


def create_topic(cluster: Cluster) -> None:
    """By a znode, as Kafka's first tools did: both brokers fetch from each other."""
    assigned = [ReplicaAssignment((OURS, KAFKA)), ReplicaAssignment((KAFKA, OURS))]
    znode = TopicZnode(None, dict(enumerate(assigned)))
    created = cluster.session.write(Create(TopicZnode.path("orders"), znode.encode()))
    assert not isinstance(created, ZkCode)
