"""Configuration by environment variables, as Kafka's own images read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.environment import property_name, read_environment, variable_name

NO_SECRETS = Path("/nonexistent")


def properties_of(**variables: str) -> dict[str, str]:
    return dict(read_environment(variables, NO_SECRETS).properties)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        # The first three are those of Kafka's own test and guide.
        ("KAFKA_VALID_PROPERTY", "valid.property"),
        ("KAFKA_VALID___PROPERTY__ALL_CASES", "valid-property_all.cases"),
        ("KAFKA_ABC__DEF", "abc_def"),
        ("KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_zookeeper_Connect", "zookeeper.connect"),
        ("KAFKA_LISTENER_NAME_X_KAFKA_Y", "listener.name.x.y"),
        ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
    ],
)
def test_a_variable_is_the_key_that_kafkas_image_makes_of_it(variable: str, key: str) -> None:
    assert property_name(variable) == key


def test_every_key_of_a_broker_has_a_variable() -> None:
    without = {key for key in BROKER_KEYS if property_name(variable_name(key)) != key}

    # Kafka's image takes every KAFKA_ out of a name, and so these need a mounted file there, too.
    assert without == {"kafka.metrics.polling.interval.secs", "kafka.metrics.reporters"}
    assert property_name(variable_name("listener.name.a-b.x_y")) == "listener.name.a-b.x_y"


def test_variables_without_the_prefix_set_nothing() -> None:
    assert properties_of(PATH="/bin", BROKER_ID="1", KAFKA_BROKER_ID="7") == {"broker.id": "7"}


def test_a_value_is_read_as_in_a_file_with_its_escapes() -> None:
    found = properties_of(KAFKA_A=r"  C:\\x\ty=1", KAFKA_B="", KAFKA_C="one \\\n  two")

    assert found == {"a": "C:\\x\ty=1", "b": "", "c": "one two"}


def test_listeners_are_on_every_interface_at_the_ports_that_are_advertised() -> None:
    advertised = "INTERNAL://broker-1:9092,EXTERNAL://localhost:19092"

    derived = properties_of(KAFKA_ADVERTISED_LISTENERS=advertised, KAFKA_LISTENERS="")
    given = properties_of(KAFKA_ADVERTISED_LISTENERS=advertised, KAFKA_LISTENERS="INTERNAL://:1")

    assert derived["listeners"] == "INTERNAL://0.0.0.0:9092,EXTERNAL://0.0.0.0:19092"
    assert given["listeners"] == "INTERNAL://:1"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"KAFKA_SSL_KEY_PASSWORD": "s3cret\nbroker.id=9"}, "KAFKA_SSL_KEY_PASSWORD"),
        ({"KAFKA_SSL_KEY_PASSWORD": "s3cret\\"}, "KAFKA_SSL_KEY_PASSWORD"),
        ({"KAFKA_SSL_KEY_PASSWORD": r"s3cret\u12"}, "KAFKA_SSL_KEY_PASSWORD"),
        ({"KAFKA_SSL_KEY_PASSWORD": "s3cret", "KAFKA_SSL_key_PASSWORD": "s3cret"}, "one variable"),
        ({"KAFKA_": "s3cret"}, "the name of a key"),
        ({"KAFKA_A:B": "s3cret"}, "KAFKA_A:B"),
        ({"KAFKA_SSL_KEYSTORE_FILENAME": "missing.p12"}, "KAFKA_SSL_KEYSTORE_FILENAME"),
        ({"KAFKA_SSL_KEY_CREDENTIALS": ""}, "KAFKA_SSL_KEY_CREDENTIALS"),
        ({"KAFKA_LOG4J_LOGGERS": "kafka.controller"}, "LOGGER=LEVEL"),
        ({"KAFKA_LOG4J_ROOT_LOGLEVEL": "LOUD"}, "KAFKA_LOG4J_ROOT_LOGLEVEL"),
    ],
)
def test_a_bad_variable_is_named_and_its_secret_is_not_shown(
    variables: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read_environment(variables, NO_SECRETS)

    assert named in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_key_stores_and_their_passwords_are_files_among_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "broker.p12").write_bytes(b"")
    (tmp_path / "password").write_text("s3cret\n\n")

    found = read_environment(
        {
            "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "password",
            "KAFKA_SSL_KEY_CREDENTIALS": "password",
        },
        tmp_path,
    )

    assert found.properties == {
        "ssl.keystore.location": str(tmp_path / "broker.p12"),
        "ssl.keystore.password": "s3cret",
        "ssl.key.password": "s3cret",
    }
    assert found.variables["ssl.key.password"] == "KAFKA_SSL_KEY_CREDENTIALS"


def test_what_only_a_jvm_can_use_is_warned_about() -> None:
    found = read_environment(
        {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_PORT": "", "KAFKA_VERSION": "3.9.0"}, NO_SECRETS
    )

    assert found.properties == {}
    [warning] = found.warnings
    assert "KAFKA_HEAP_OPTS" in warning


def test_levels_of_loggers_are_those_of_log4j() -> None:
    found = read_environment(
        {
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "warn",
            "KAFKA_LOG4J_LOGGERS": "kafka.controller=INFO,state.change.logger=TRACE,",
        },
        NO_SECRETS,
    )

    assert found.log_levels == {
        "": "WARN",
        "kafka.controller": "INFO",
        "state.change.logger": "TRACE",
    }


@pytest.mark.parametrize(
    ("options", "but"),
    [("-Xmx1G", ""), ("-Djava.security.auth.login.config=/x", " but for its JAAS file")],
)
def test_options_of_the_jvm_have_no_effect_and_that_is_said(options: str, but: str) -> None:
    read = read_environment({"KAFKA_OPTS": options, "KAFKA_JMX_PORT": ""}, Path("/none"))

    said = f"KAFKA_OPTS has no effect{but}: there is no JVM in this process"
    assert read.warnings == (said,)
