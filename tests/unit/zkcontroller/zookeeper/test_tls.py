"""``zookeeper.ssl.*``: what the keys come to, and what is refused and how."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID

from kafka_common.errors import ConfigInvalid, ZooKeeperUnavailable
from replica_manager.broker.broker_settings import zookeeper_settings
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.properties import format_properties
from replica_manager.security.zookeeper_tls import tls_of_file, zookeeper_tls
from tests.support.certificates import Authority
from tests.support.cli_world import Zkctl, installed_zkctl

AUTHORITY = Authority()
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
USAGE = 2
ENABLED = {"zookeeper.ssl.client.enable": "true", "zookeeper.clientCnxnSocket": NETTY}


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """A folder with a trust store, and a key in a store of each kind."""
    kafka = AUTHORITY.sign((NameOID.COMMON_NAME, "kafka"))
    (tmp_path / "trusted.pem").write_text(AUTHORITY.identity.certificate_pem)
    (tmp_path / "open.pem").write_text(kafka.key_pem() + kafka.certificate_pem)
    (tmp_path / "kafka.pem").write_text(kafka.key_pem("storepass") + kafka.certificate_pem)
    (tmp_path / "kafka.store").write_text(kafka.key_pem("storepass") + kafka.certificate_pem)
    (tmp_path / "kafka.p12").write_bytes(kafka.pkcs12("storepass"))
    return tmp_path


def config(properties: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.parse({"zookeeper.connect": "z:1", **properties})


def made(properties: dict[str, str]) -> ssl.SSLContext | None:
    return zookeeper_tls(config(properties).values)


def test_without_a_word_there_is_no_tls() -> None:
    assert made({}) is None
    assert made({"zookeeper.ssl.keystore.location": "/nowhere.p12"}) is None


def test_the_defaults_are_zookeepers(stores: Path) -> None:
    context = made(ENABLED | {"zookeeper.ssl.truststore.location": str(stores / "trusted.pem")})

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    # One protocol, unless more are named.
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    assert len(context.get_ca_certs()) == 1


def test_protocols_and_the_check_of_names_are_what_is_said() -> None:
    context = made(
        ENABLED
        | {
            "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
            "zookeeper.ssl.endpoint.identification.algorithm": "",
        }
    )

    assert context is not None
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("kafka.p12", {"password": "storepass"}),
        ("kafka.pem", {"password": "storepass"}),
        ("kafka.store", {"password": "storepass", "type": "pem"}),
        ("open.pem", {}),
    ],
)
def test_a_key_store_is_known_by_its_type_or_its_name(
    name: str, others: dict[str, str], stores: Path
) -> None:
    properties = {f"zookeeper.ssl.keystore.{key}": value for key, value in others.items()}
    properties["zookeeper.ssl.keystore.location"] = str(stores / name)

    assert made(ENABLED | properties) is not None
    if others:
        with pytest.raises(ConfigInvalid) as refused:
            made(ENABLED | properties | {"zookeeper.ssl.keystore.password": "guessed"})
        assert refused.value.key.startswith("zookeeper.ssl.key")
        assert "guessed" not in str(refused.value)


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"zookeeper.clientCnxnSocket": ""}, "zookeeper.clientCnxnSocket", NETTY),
    ({"zookeeper.clientCnxnSocket": "x.ClientCnxnSocketNIO"}, "zookeeper.clientCnxnSocket", NETTY),
    ({"zookeeper.ssl.cipher.suites": "X"}, "zookeeper.ssl.cipher.suites", "OpenSSL"),
    ({"zookeeper.ssl.crl.enable": "true"}, "zookeeper.ssl.crl.enable", "false"),
    ({"zookeeper.ssl.ocsp.enable": "true"}, "zookeeper.ssl.ocsp.enable", "false"),
    ({"zookeeper.ssl.protocol": "SSLv3"}, "zookeeper.ssl.enabled.protocols", "TLSv1.3"),
    (
        {"zookeeper.ssl.truststore.location": "/no/such.p12"},
        "zookeeper.ssl.truststore.location",
        "readable file",
    ),
    (
        {"zookeeper.ssl.endpoint.identification.algorithm": "ldap"},
        "zookeeper.ssl.endpoint.identification.algorithm",
        "https",
    ),
]


@pytest.mark.parametrize(("properties", "key", "allowed"), WRONG, ids=[w[1] for w in WRONG])
def test_what_makes_no_sense_is_refused_with_its_key(
    properties: dict[str, str], key: str, allowed: str, zkctl: Zkctl, tmp_path: Path
) -> None:
    with pytest.raises(ConfigInvalid, match=allowed) as refused:
        made(ENABLED | properties)
    assert refused.value.key == key

    file = tmp_path / "zookeeper.properties"
    file.write_text(format_properties(ENABLED | properties))
    result = zkctl("-z", "z:1", "controller", "show", "--zk-tls-config-file", str(file))
    assert result.exit_code == USAGE
    assert key in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("properties", [{}, {"zookeeper.ssl.client.enable": "false"}])
def test_a_tools_file_is_there_for_tls(properties: dict[str, str]) -> None:
    others = {"security.protocol": "SSL", "zookeeper.connect": "elsewhere:1"}

    with pytest.raises(ConfigInvalid, match="--zk-tls-config-file"):
        tls_of_file(properties | others, "--zk-tls-config-file")
    assert tls_of_file(ENABLED | others, "--zk-tls-config-file").check_hostname


def test_a_tools_file_that_is_missing_is_named(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = str(tmp_path / "nowhere")
    by_option = zkctl("-z", "z:1", "controller", "show", "--zk-tls-config-file", missing)
    monkeypatch.setenv("ZKCTL_ZK_TLS_CONFIG_FILE", missing)
    by_environment = zkctl("-z", "z:1", "controller", "show")

    assert by_option.exit_code == by_environment.exit_code == USAGE
    assert missing in by_option.stderr
    assert missing in by_environment.stderr


def test_where_a_brokers_file_says_how_to_connect_a_tools_file_is_not_looked_at(
    tmp_path: Path,
) -> None:
    settings = import_module("zkcontroller_cli.console.options").Settings
    open_zookeeper = import_module("zkcontroller_cli.znodes.session").open_zookeeper
    given = settings("127.0.0.1:1", zk_tls_config_flag=tmp_path / "nowhere", timeout_s=0.1)

    with pytest.raises(ConfigInvalid, match="zk-tls-config-file"), open_zookeeper(given):
        pass
    refused = import_module("zkcontroller_cli.console.errors").CannotConnect
    with pytest.raises(refused), open_zookeeper(given, connect="127.0.0.1:1"):
        pass
    with (
        pytest.raises(ZooKeeperUnavailable),
        open_zookeeper(given, connect="127.0.0.1:1", is_new=True),
    ):
        pass


def test_znodes_are_protected_for_the_identity_that_zookeeper_knows(stores: Path) -> None:
    protected = {"zookeeper.set.acl": "true"}
    shown = ENABLED | {
        "zookeeper.ssl.keystore.location": str(stores / "kafka.p12"),
        "zookeeper.ssl.keystore.password": "storepass",
    }

    assert zookeeper_settings(config(protected), (("sasl", "kafka:x"),)).set_acl
    assert zookeeper_settings(config(protected | shown), ()).set_acl
    for anonymous in ({}, ENABLED):
        with pytest.raises(ConfigInvalid, match="ZKCONTROLLER_ZOOKEEPER_AUTH"):
            zookeeper_settings(config(protected | anonymous), ())
