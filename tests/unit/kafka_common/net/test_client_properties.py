"""``--command-config``: what Kafka's client properties come to, and what is refused and how."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import PLAINTEXT, Credentials
from replica_manager.configuration.config import read_properties
from replica_manager.configuration.properties import format_properties
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.security.client_properties import client_security_of
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.settings import ListenerSecurity
from replica_manager.server.dispatch import refusal
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.certificates import Authority
from tests.support.cli_world import Zkctl, installed_zkctl
from tests.support.quorum import Quorum

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
AUTHORITY = Authority()
TRUSTED = {
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": AUTHORITY.identity.certificate_pem,
}
USAGE = 2


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def test_a_file_that_says_nothing_of_security_means_plaintext() -> None:
    assert client_security_of({}) is PLAINTEXT
    assert client_security_of({"request.timeout.ms": "x", "ssl.keystore.type": "?"}) is PLAINTEXT
    # Names are taken as Kafka takes them: in any case.
    assert client_security_of({"security.protocol": "plaintext"}) is PLAINTEXT


def test_a_login_is_the_mechanism_and_its_module() -> None:
    security = client_security_of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM} username="alice" password="se;cret";',
        }
    )

    assert security.credentials == Credentials("SCRAM-SHA-256", "alice", "se;cret")
    assert security.tls is None
    assert security.protocol == "SASL_PLAINTEXT"


def test_a_login_by_a_token_is_one() -> None:
    text = f'{SCRAM} username="id" password="hmac" tokenauth="true";'
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}

    security = client_security_of(properties | {"sasl.jaas.config": text})

    assert security.credentials == Credentials("SCRAM-SHA-256", "id", "hmac", is_token=True)


def test_tls_is_strict_unless_it_is_configured_otherwise() -> None:
    strict = client_security_of({"security.protocol": "ssl", **TRUSTED})
    lax = client_security_of(
        {
            "security.protocol": "SSL",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.3",
            **TRUSTED,
        }
    )

    assert strict.tls is not None
    assert lax.tls is not None
    assert strict.protocol == "SSL"
    assert (strict.tls.check_hostname, lax.tls.check_hostname) == (True, False)
    assert strict.tls.verify_mode is lax.tls.verify_mode is ssl.CERT_REQUIRED
    assert lax.tls.minimum_version is ssl.TLSVersion.TLSv1_3


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
BY_TOKEN = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH};"}
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"security.protocol": "TLS"}, "security.protocol", "SASL_SSL"),
    ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism", "SCRAM-SHA-512"),
    (SASL | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "OAUTHBEARER"),
    (
        SASL | {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH};"},
        "jaas",
        "Claim_sub",
    ),
    (SASL, "sasl.jaas.config", "is missing: expected the login module"),
    (SASL | {"sasl.jaas.config": "x"}, "sasl.jaas.config", "semicolon"),
    (SASL | {"sasl.jaas.config": f'{SCRAM} username="a" password="secret";'}, "jaas", "Plain"),
    (SASL | {"sasl.jaas.config": f'{PLAIN} username="a";'}, "sasl.jaas.config", "password"),
    (SASL | {"sasl.login.class": "a.B"}, "sasl.login.class", "Java"),
    ({"security.protocol": "SSL", "ssl.truststore.location": "/no"}, "location", "readable file"),
    ({"security.protocol": "SSL", "ssl.truststore.password": "secret"}, "password", "location"),
    ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv9"}, "protocols", "TLSv1.3"),
    ({"security.protocol": "SSL", "ssl.keystore.key": "secret"}, "ssl.keystore.key", "PEM"),
    (
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"},
        "ssl.endpoint.identification.algorithm",
        "https",
    ),
    ({"security.protocol": "SSL", "ssl.engine.factory.class": "a.B"}, "ssl.engine", "Java"),
]


@pytest.mark.parametrize(("properties", "key", "allowed"), WRONG, ids=[w[1] for w in WRONG])
def test_what_makes_no_sense_is_one_sentence_for_the_person_who_types(
    properties: dict[str, str], key: str, allowed: str, zkctl: Zkctl, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(format_properties(properties))

    result = zkctl("-b", "127.0.0.1:1", "--command-config", str(file), "topic", "list")

    assert result.exit_code == USAGE
    assert key in result.stderr
    assert allowed in result.stderr
    assert "secret" not in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "UTF-8"),
        (b"a=\\u12", "behind each \\u"),
        (b"#" * (16 * 1024 * 1024 + 1), "16777216 bytes"),
    ],
    ids=["missing", "no text", "half a character", "endless"],
)
def test_a_file_that_cannot_be_read_is_named(
    data: bytes | None, said: str, zkctl: Zkctl, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if data is not None:
        file.write_bytes(data)

    for arguments in (
        ("-b", "127.0.0.1:1", "topic", "list", "--command-config", str(file)),
        ("quorum", "describe", "--bootstrap-controller", "a:1", "--command-config", str(file)),
    ):
        result = zkctl(*arguments)
        assert result.exit_code == USAGE
        assert said in result.stderr
        assert result.stderr.count("\n") == 1


def test_the_environment_names_the_file_too(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZKCTL_COMMAND_CONFIG", str(tmp_path / "nowhere"))

    assert "nowhere" in zkctl("-b", "127.0.0.1:1", "topic", "list").stderr


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="--command-config"):
        read_properties(tmp_path, "--command-config")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "security.protocol",
                "sasl.mechanism",
                "sasl.jaas.config",
                "ssl.truststore.type",
                "ssl.truststore.certificates",
                "ssl.truststore.password",
                "ssl.keystore.key",
                "ssl.keystore.type",
                "ssl.enabled.protocols",
            ]
        ),
        st.sampled_from(["", "PEM", "SSL", "SASL_SSL", "PLAIN", "TLSv1.3", f"{PLAIN} a=b;", "\0"])
        | st.text(max_size=20),
    )
)
def test_nothing_but_a_clear_refusal_comes_of_any_text(properties: dict[str, str]) -> None:
    with contextlib.suppress(ConfigInvalid):
        protocol = client_security_of(properties).protocol
        assert protocol == properties.get("security.protocol", "PLAINTEXT").upper()


async def test_a_login_in_the_clear_at_kafkas_tls_is_refused_with_the_key_to_look_at(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    """Kafka answers with a TLS alert, whose first bytes read as a length."""

    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(bytes.fromhex("15030300020250"))
        await writer.drain()
        writer.close()

    file = tmp_path / "client.properties"
    module = f'{PLAIN} username="alice" password="secret";'
    file.write_text(format_properties({**SASL, "sasl.jaas.config": module}))
    async with await asyncio.start_server(alert, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        words = ("-b", f"127.0.0.1:{port}", "--command-config", str(file), "topic", "list")
        response = await asyncio.to_thread(zkctl, *words)

    assert response.exit_code == 3
    assert "is security.protocol=SASL_PLAINTEXT right for this listener?" in response.stderr


async def test_a_quorum_behind_tls_is_described(zkctl: Zkctl, tmp_path: Path) -> None:
    identity = AUTHORITY.sign((NameOID.COMMON_NAME, "controller"), hosts=True)
    pem = identity.write(tmp_path, "controller")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    authenticator = ListenerAuthenticator(
        ListenerSecurity("SSL", context), ScramCredentials(), partial(refusal, HANDLERS)
    )
    file = tmp_path / "client.properties"
    file.write_text(format_properties({"security.protocol": "SSL", **TRUSTED}))

    quorum = Quorum(tmp_path, (1, 2, 3))
    peers = client_security_of({"security.protocol": "SSL", **TRUSTED})
    await quorum.start(1, 2, 3, authenticators={"CONTROLLER": authenticator}, security=peers)
    try:
        leader = await quorum.leader()
        follower = next(each for each in quorum.voters if each != leader)
        endpoint = quorum.voters.endpoints[follower]
        words = (
            "quorum", "describe", "--bootstrap-controller", f"127.0.0.1:{endpoint.port}",
        )  # fmt: skip
        described = await asyncio.to_thread(
            zkctl, *words, "--command-config", str(file), "-o", "json"
        )
        plain = await asyncio.to_thread(zkctl, *words)
    finally:
        for node_id in list(quorum.nodes):
            await quorum.kill(node_id)

    assert described.exit_code == 0, described.stderr
    assert described.json["leader_id"] == leader
    assert plain.exit_code == 3
    assert "--command-config" in plain.stderr
