"""A JAAS file in KAFKA_OPTS: whose logins a broker takes from it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import Credentials
from replica_manager.configuration.config import BrokerConfig
from replica_manager.security.client_values import ClientValues
from replica_manager.security.jaas import JaasEntry, parse_jaas
from replica_manager.security.jaas_file import JaasFile, read_jaas_file
from replica_manager.security.logins import credentials_of, login_entry

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
BOTH: Final = f"""
KafkaServer {{
    {PLAIN} required
        username="admin" /* by this one logs in */
        password="a-secret" // at the others
        user_admin="a-secret"
        user_alice='it is "hers"';
    {SCRAM} required;
}};
clients.KafkaServer {{ {PLAIN} required user_bob="b"; }};
Client {{ {DIGEST} required username="kafka" password="z:secret"; }};
"""


def broker(**properties: str) -> BrokerConfig:
    listeners = {
        "listeners": "CLIENTS://:9093,BROKERS://:9094,OPEN://:9095",
        "listener.security.protocol.map": (
            "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT,OPEN:PLAINTEXT"
        ),
        "inter.broker.listener.name": "OPEN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "zookeeper.connect": "localhost:2181",
    }
    renamed = {key.replace("__", "-").replace("_", "."): text for key, text in properties.items()}
    return BrokerConfig.parse({**listeners, **renamed})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(folder: Path, text: str, options: str = "") -> JaasFile:
    path = folder / "jaas.conf"
    path.write_text(text)
    opts = f"-Xmx1G -Djava.security.auth.login.config={path} {options}"
    found = read_jaas_file({"KAFKA_OPTS": opts})
    assert found is not None
    return found


def test_a_listener_takes_its_own_section_or_else_the_common_one(folder: Path) -> None:
    config = read(folder, BOTH).with_logins(broker())

    def users(listener: str) -> dict[str, str]:
        key = f"listener.name.{listener}.plain.sasl.jaas.config"
        return login_entry(key, "PLAIN", config.originals[key]).users

    assert users("brokers") == {"admin": "a-secret", "alice": 'it is "hers"'}
    assert users("clients") == {"bob": "b"}
    assert not any(key.startswith("listener.name.open.") for key in config.originals)


def test_what_the_properties_say_counts_before_the_file(folder: Path) -> None:
    said = f'{PLAIN} required user_carol="c";'

    config = read(folder, BOTH).with_logins(
        broker(listener_name_clients_plain_sasl_jaas_config=said)
    )

    assert config.originals["listener.name.clients.plain.sasl.jaas.config"] == said


def test_the_first_username_is_the_one_by_which_a_broker_logs_in(folder: Path) -> None:
    key = "listener.name.brokers.scram-sha-256.sasl.jaas.config"

    config = read(folder, BOTH).with_logins(broker())

    login = credentials_of(key, "SCRAM-SHA-256", config.originals[key], ClientValues({}))
    assert isinstance(login, Credentials)
    assert (login.username, login.password) == ("admin", "a-secret")


def test_a_file_without_a_module_of_the_mechanism_says_nothing_of_it(folder: Path) -> None:
    config = read(folder, f"KafkaServer {{ {SCRAM} required; }};").with_logins(broker())

    assert sorted(key for key in config.originals if key.startswith("listener.name.")) == [
        "listener.name.brokers.scram-sha-256.sasl.jaas.config",
        "listener.name.clients.scram-sha-256.sasl.jaas.config",
    ]


def test_without_logins_the_configuration_stays(folder: Path) -> None:
    config = BrokerConfig.parse({"zookeeper.connect": "localhost:2181"})

    assert read(folder, BOTH).with_logins(config) is config


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a'b", "line\nline", "\\063", "", "ü ; { = }"])
def test_a_login_stays_what_it_is_as_a_value_of_the_key(value: str) -> None:
    entry = JaasEntry(PLAIN, {"password": value, f"user_{value}": "p"})

    assert parse_jaas("key", entry.text) == entry


def test_the_broker_logs_in_at_zookeeper_by_its_section(folder: Path) -> None:
    assert read(folder, BOTH).zookeeper_auth() == (("sasl", "kafka:z:secret"),)
    assert read(folder, "Client { };").zookeeper_auth() == ()
    assert read(folder, BOTH, "-Dzookeeper.sasl.client=false").zookeeper_auth() == ()
    assert read(folder, BOTH, "-Dzookeeper.sasl.clientconfig=Other").zookeeper_auth() == ()
    other = BOTH.replace("Client {", "Other {")
    auth = read(folder, other, "-Dzookeeper.sasl.clientconfig=Other").zookeeper_auth()
    assert auth == (("sasl", "kafka:z:secret"),)


@pytest.mark.parametrize("options", ["", "-Xmx1G", "-Dzookeeper.sasl.client=false"])
def test_without_the_option_there_is_no_file(options: str) -> None:
    assert read_jaas_file({"KAFKA_OPTS": options}) is None
    assert read_jaas_file({}) is None


@pytest.mark.parametrize("sign", ["=", "=file:"])
def test_the_path_may_be_written_as_java_allows(folder: Path, sign: str) -> None:
    (folder / "jaas.conf").write_text(BOTH)
    option = f"-Djava.security.auth.login.config={sign}{folder}/jaas.conf"

    found = read_jaas_file({"KAFKA_OPTS": option})

    assert found is not None
    assert found.path == f"{folder}/jaas.conf"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("s3cret", "sections of login modules"),
        ("KafkaServer { s3cret", "LoginModule required"),
        (f'KafkaServer {{ {PLAIN} required a="s3cret"; }}', "sections of login modules"),
        (f'KafkaServer {{ {PLAIN} required a="s3cret" }};', "LoginModule required"),
        (f"KafkaServer {{ {PLAIN} s3cret; }};", "LoginModule required"),
        (f'A {{ {PLAIN} required; }};A {{ {PLAIN} required a="s3cret"; }};', "one section A"),
        (f'A {{ {PLAIN} required a="${{s3cret}}"; }};', "no ${property}"),
        ("{ s3cret };", "sections of login modules"),
    ],
)
def test_a_file_that_is_no_jaas_file_is_named_and_shows_nothing(
    folder: Path, text: str, allowed: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read(folder, text)

    assert "jaas.conf" in str(refused.value)
    assert allowed in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("module", [DIGEST, PLAIN, SCRAM])
def test_zookeepers_client_takes_the_password_of_any_module_that_has_one(
    folder: Path, module: str
) -> None:
    """As Kafka's images are often configured: one section is copied for the other."""
    text = f'Client {{ {module} required username="kafka" password="s" user_a="b"; }};'

    assert read(folder, text).zookeeper_auth() == (("sasl", "kafka:s"),)


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(ConfigInvalid, match="No such file"):
        read_jaas_file({"KAFKA_OPTS": f"-Djava.security.auth.login.config={folder}/none"})
    with pytest.raises(ConfigInvalid, match=r"KafkaServer or clients\.KafkaServer"):
        read(folder, "KafkaServer { };").with_logins(broker())
    with pytest.raises(ConfigInvalid, match=r"KafkaServer or clients\.KafkaServer"):
        read(folder, f"Client {{ {DIGEST} required; }};").with_logins(broker())
    with pytest.raises(ConfigInvalid, match=r"username and password of .*DigestLoginModule"):
        read(folder, f"Client {{ {DIGEST} required username=a; }};").zookeeper_auth()
    with pytest.raises(ConfigInvalid, match="DigestLoginModule"):
        read(
            folder, "Client { com.sun.security.auth.module.Krb5LoginModule required; };"
        ).zookeeper_auth()
