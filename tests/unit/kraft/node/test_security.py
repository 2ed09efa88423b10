"""Nodes of a quorum log in at one another, and refuse a node that does not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.x509.oid import NameOID
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import PLAINTEXT, Credentials
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from kafka_common.protocol.scram import ScramMechanism, salt_password
from kafka_common.protocol.versioned_messages import request_schema
from kraft.metadata.bootstrap import BOOTSTRAP_FILE, BootstrapMetadata, encode_bootstrap
from kraft.metadata.metadata_version import LATEST_PRODUCTION
from kraft.node.node_security import node_security
from kraft.node.scram_arguments import parse_scram
from kraft.raft.messages import DescribeQuorumRequest, RaftRequest, VoteRequest
from kraft.raft.values import OffsetAndEpoch, ReplicaKey
from kraft.raft.wire import api_key_of, write_request
from replica_manager.security.logins import module_of
from tests.support.certificates import Authority
from tests.support.quorum import CLUSTER_ID, QUICK, eventually, in_the_end
from tests.support.secured_quorum import (
    AUTHORIZED,
    PASSWORDS,
    SASL,
    SecuredNode,
    SecuredQuorum,
    secured_node,
)

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
TOKENS: Final = {
    "sasl.enabled.mechanisms": OAUTHBEARER,
    "sasl.mechanism.controller.protocol": OAUTHBEARER,
    "listener.name.controller.oauthbearer.sasl.jaas.config": (
        f"{module_of(OAUTHBEARER)} required unsecuredLoginStringClaim_sub=controller;"
    ),
}
"""Voters that log in by tokens instead of passwords."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The properties of a node that shows a certificate, and wants to see one."""
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority()
    (directory / "trusted.pem").write_text(authority.identity.certificate_pem)
    node = authority.sign((NameOID.COMMON_NAME, "node"), hosts=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node.write(directory, "node")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "trusted.pem"),
        "listener.name.controller.ssl.client.auth": "required",
    }


def of_protocol(protocol: str, certificates: Mapping[str, str]) -> dict[str, str]:
    return {
        "listener.security.protocol.map": f"CONTROLLER:{protocol}",
        **(certificates if protocol.endswith("SSL") else {}),
        **(SASL if protocol.startswith("SASL") else {}),
    }


@pytest.mark.parametrize(
    ("protocol", "others"), [*((each, {}) for each in PROTOCOLS), ("SASL_PLAINTEXT", TOKENS)]
)
async def test_secured_voters_elect_a_leader_and_commit(
    tmp_path: Path, certificates: Mapping[str, str], protocol: str, others: Mapping[str, str]
) -> None:
    properties = {**of_protocol(protocol, certificates), **others}
    quorum = SecuredQuorum(tmp_path, properties, (1, 2, 3))
    try:
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        epoch = quorum.nodes[leader].driver.node.epoch

        assert epoch > 0
        with pytest.raises(ConnectionError):
            await spoken_plainly(quorum.voters.endpoints[leader].port)
    finally:
        await quorum.close()


async def spoken_plainly(port: int) -> Any:
    """A request of a client that neither shows a certificate nor logs in."""
    connection = await Connection.open("127.0.0.1", port, client_id="test", security=PLAINTEXT)
    try:
        body = write_request(DescribeQuorumRequest(), 2)
        return await connection.call(ApiKey.DESCRIBE_QUORUM, 2, (body,))
    finally:
        await connection.close()


async def test_a_voter_with_another_password_is_none(tmp_path: Path) -> None:
    quorum = SecuredQuorum(tmp_path, of_protocol("SASL_PLAINTEXT", {}), (1, 2))
    module = SASL["listener.name.controller.plain.sasl.jaas.config"]
    quorum.own[2] = {
        "listener.name.controller.plain.sasl.jaas.config": module.replace(
            'username="controller" password="controller', 'username="controller" password="x'
        )
    }
    try:
        await quorum.start(1, 2, quorum=QUICK)
        # Each asks for votes, again and again, and 2 is not let in by 1; 1 is let in by 2,
        # whose answer to a Fetch it would get, but 2 as a follower cannot fetch from 1.
        await eventually(
            lambda: all(node.driver.node.epoch > 3 for node in quorum.nodes.values()),
            "elections fail",
        )
        assert all((n.driver.node.high_watermark or 0) == 0 for n in quorum.nodes.values())
    finally:
        await quorum.close()


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"listener.security.protocol.map": "CONTROLLER:SSL"}, "ssl.keystore.location"),
        ({**AUTHORIZED, "sasl.mechanism.controller.protocol": "GSSAPI"}, "sasl.mechanism.controll"),
        ({**AUTHORIZED, "sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms"),
        ({**AUTHORIZED, "authorizer.class.name": "org.example.Mine"}, "authorizer.class.name"),
        ({**AUTHORIZED, "super.users": "admin"}, "super.users"),
    ],
)
def test_what_a_node_cannot_do_it_does_not_seem_to_do(
    tmp_path: Path, properties: Mapping[str, str], key: str
) -> None:
    with pytest.raises(ConfigInvalid, match=key):
        SecuredQuorum(tmp_path, properties).settings(1)


async def test_who_does_not_know_the_password_does_not_come_in(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        with pytest.raises(ConnectionError, match="SASL_AUTHENTICATION_FAILED"):
            async with node.client("alice", "guessed"):
                pass
        with pytest.raises(ConnectionError, match="SASL_AUTHENTICATION_FAILED"):
            async with node.client("alice", mechanism="SCRAM-SHA-256"):
                pass
        async with node.client("alice") as alice:
            versions = request_schema(ApiKey.API_VERSIONS, 0).request()
            assert (await alice.ask(versions)).error_code is ErrorCode.none


async def test_who_has_logged_in_cannot_do_so_as_if_for_the_first_time(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        authenticate = request_schema(ApiKey.SASL_AUTHENTICATE, 2).request(auth_bytes=b"")
        async with node.client("alice") as alice:
            response = await alice.ask(authenticate)
            assert response.error_code is ErrorCode.illegal_sasl_state


async def test_credentials_of_scram_are_those_of_the_log(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        salt, iterations = b"salt" * 4, 4096
        salted = salt_password(ScramMechanism.SCRAM_SHA_256, "carols-own", salt, iterations)
        schema = request_schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
        upsertion = schema.part(
            "ScramCredentialUpsertion",
            name="carol",
            mechanism=i8(1),
            iterations=i32(iterations),
            salt=salt,
            salted_password=salted,
        )
        deletion = schema.part("ScramCredentialDeletion", name="carol", mechanism=i8(1))
        versions = request_schema(ApiKey.API_VERSIONS, 0).request()

        async with node.client("admin") as admin:
            await admin.ask(schema.request(deletions=(), upsertions=(upsertion,)))
            async with node.client("carol", "carols-own", "SCRAM-SHA-256") as carol:
                assert (await carol.ask(versions)).error_code is ErrorCode.none

            await admin.ask(schema.request(deletions=(deletion,), upsertions=()))
            with pytest.raises(ConnectionError, match="SASL_AUTHENTICATION_FAILED"):
                async with node.client("carol", "carols-own", "SCRAM-SHA-256"):
                    pass


async def test_who_was_there_at_the_format_can_log_in(tmp_path: Path) -> None:
    quorum = SecuredQuorum(tmp_path, AUTHORIZED)
    carol = parse_scram("SCRAM-SHA-256=[name=carol,password=carols-own]", os.urandom)
    formatted = BootstrapMetadata.from_versions(LATEST_PRODUCTION, scram_credentials=(carol,))
    folder = tmp_path / "node-1"
    folder.mkdir()
    (folder / BOOTSTRAP_FILE).write_bytes(encode_bootstrap(formatted, now_ms=0))
    try:
        await quorum.start(1)

        async def comes_in() -> bool:
            try:
                async with SecuredNode(quorum).client("carol", "carols-own", "SCRAM-SHA-256"):
                    return True
            except ConnectionError:
                return False  # the credential is not committed yet

        await in_the_end(comes_in, "carol comes in")
    finally:
        await quorum.close()


def test_each_listener_is_secured_in_its_own_way(tmp_path: Path) -> None:
    properties = {
        **AUTHORIZED,
        "controller.listener.names": "CONTROLLER,ADMIN,OPEN",
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for port, name in enumerate(("ADMIN", "CONTROLLER", "OPEN"), 19_093)
        ),
        "listener.security.protocol.map": (
            "CONTROLLER:SASL_PLAINTEXT,ADMIN:SASL_PLAINTEXT,OPEN:PLAINTEXT"
        ),
        "listener.name.admin.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.admin.connections.max.reauth.ms": "60000",
    }

    security = node_security(SecuredQuorum(tmp_path, properties).config(1))

    sasl = {name: authenticator.sasl for name, authenticator in security.authenticators.items()}
    assert set(sasl) == {"CONTROLLER", "ADMIN"}
    assert sasl["CONTROLLER"] is not None
    assert set(sasl["CONTROLLER"].mechanisms) == {"PLAIN", "SCRAM-SHA-256"}
    assert sasl["ADMIN"] is not None
    assert sasl["ADMIN"].mechanisms == ("SCRAM-SHA-512",)
    assert sasl["ADMIN"].max_reauth_ms == {"SCRAM-SHA-512": 60_000}
    # The quorum talks by the first of the names, whatever the order of the listeners.
    assert security.client.credentials == Credentials(
        "PLAIN", "controller", PASSWORDS["controller"]
    )


@pytest.mark.parametrize(
    ("user", "error"),
    [("controller", ErrorCode.none), ("alice", ErrorCode.cluster_authorization_failed)],
)
async def test_only_who_may_act_for_the_cluster_speaks_to_the_quorum(
    tmp_path: Path, user: str, error: ErrorCode
) -> None:
    vote = VoteRequest(CLUSTER_ID, ReplicaKey(1), 1, ReplicaKey(2), OffsetAndEpoch(0, 0))
    requests: list[tuple[RaftRequest, int]] = [(DescribeQuorumRequest(), 2), (vote, 1)]

    async with secured_node(tmp_path) as node, node.client(user) as client:
        for request, version in requests:
            api_key = api_key_of(request)
            body = await client.call(api_key, version, write_request(request, version))
            response: Any = read_response(api_key, version, body)
            assert ErrorCode(response.error_code) is error
