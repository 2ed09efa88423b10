"""Properties files that no one should write: accepted, or refused with one sentence.

The sentence names a key that stands in the file, or one whose rule involves it, is short whatever
the value is, and repeats no secret.  Nothing here takes longer for a megabyte than to read it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from typing import Final, NoReturn
from uuid import uuid4

import pytest
from cryptography.x509.oid import NameOID

from kafka_common.errors import ConfigException, ConfigInvalid, ZkControllerError
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.described_config import described_config
from kraft.node.node_security import node_security
from replica_manager.broker.broker_settings import controller_settings, limits_of
from replica_manager.broker.zookeeper_broker import zookeeper_broker
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import BrokerConfig, read_properties_file
from replica_manager.configuration.config_keys import BLANKS, ConfigKey, parse_type, split_list
from replica_manager.configuration.properties import parse_properties
from replica_manager.configuration.topic_keys import TOPIC_KEYS
from replica_manager.coordinators.group_settings import group_settings
from replica_manager.coordinators.transaction_settings import transaction_settings
from replica_manager.security.client_properties import client_security_of
from replica_manager.security.delegation_tokens import token_settings
from replica_manager.security.dynamic_tls import ListenerSecurities
from tests.support.certificates import Authority
from zkcontroller.state_changes.record import StateChange

LONG: Final = 200_000
LONGEST_SENTENCE: Final = 1_700
SECRET: Final = "Gehe1mnis-4711"
HANGS_AFTER_S: Final = 20
PREFIX: Final = "listener.name.sasl_ssl."
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN: Final = f'{PLAIN_MODULE} required username="a" password="b" user_a="b";'
VALUES: Final = (
    *("", " ", "\t\f ", "0", "-1", "-2", "1", "2147483647", "2147483648", "-2147483648"),
    *(str(2**63 - 1), str(2**63), str(-(2**63)), "9" * 5000, "0" * 5000, "1.5", "1e400", "1_0"),
    *("NaN", "nan", "inf", "-Infinity", "0x10", "1d", "٣", "३३", "\u00a01", "TRUE", "yes"),
    *("a" * LONG, "x" + " " * LONG + "y", "," * LONG, "a," * LONG, "\0", "/a\0b", "😀", "a, ,b"),
    *("PLAINTEXT://:99999", "X://[::", "PLAINTEXT://:1,PLAINTEXT://:2", "PLAINTEXT://:٩", "A:B:C"),
    *("PLAINTEXT://" + ":" * LONG, "PLAINTEXT://" * LONG, ":PLAINTEXT", "1@:1", "1@h:99999", "/"),
    *("localhost:2181/" + "a/" * LONG, "localhost:2181/..", "[::1", "localhost:٢١٨١", "%s{}", "'"),
    *("RULE:" + "(" * 2000 + "/x/", "User:", "host:1," * 30_000, "h:-1", "SSL", "\r\n", "..", '"'),
)
SECRETS: Final = (
    *(SECRET, f'{SECRET}"', f"{SECRET} required;", f'"{SECRET}" required;', f"x={SECRET}"),
    *(f'org.X required user_a="{SECRET}', f"{PLAIN_MODULE} required {SECRET};", SECRET * 1000),
    *(f"{LOGIN[:-1]} c='{SECRET}", f'{LOGIN} x required y="{SECRET}";', f"/*{SECRET}" * 1000),
)
INVOLVED: Final = {
    "controller.listener.names": "listeners",
    "metadata.log.segment.min.bytes": "metadata.log.segment.bytes",
    "replica.fetch.wait.max.ms": "replica.socket.timeout.ms",
    "socket.request.max.bytes": "queued.max.request.bytes",
    "reserved.broker.max.id": "broker.id",
    "node.id": "broker.id",
    "log.cleaner.threads": "log.cleaner.dedupe.buffer.size",
    "log.retention.minutes": "log.retention.ms",
    "log.retention.hours": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
    "log.roll.jitter.hours": "log.roll.jitter.ms",
}
"""The key that a refusal names instead, because the two together are wrong."""


def _secured(directory: Path) -> dict[str, str]:
    """The security of a listener, with real stores."""
    authority = Authority()
    stores = authority.sign((NameOID.COMMON_NAME, "broker"), hosts=True).write(directory, "stores")
    trusted = directory / "trusted.pem"
    trusted.write_text(authority.identity.certificate_pem)
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": LOGIN,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(stores),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }


BROKER: Final = {"zookeeper.connect": "localhost:2181"}
SECURED_BROKER: Final = {
    **BROKER,
    "listeners": "SASL_SSL://localhost:9092",
    "inter.broker.listener.name": "SASL_SSL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
}
NODE: Final = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "SASL_SSL",
    "listeners": "SASL_SSL://localhost:9093",
    "sasl.mechanism.controller.protocol": "PLAIN",
}


class NoStateChanges:
    """Nothing is started here."""

    def write(self, records: Sequence[StateChange]) -> None:
        assert not records


def prepare_broker(properties: Mapping[str, str]) -> None:
    """What a broker does with its file before it connects to anything."""
    config = BrokerConfig.parse(properties)
    zookeeper_broker(config, state_changes=NoStateChanges())
    ListenerSecurities(config)
    limits_of(config)
    controller_settings(config, 1, trace_state_changes=False)
    token_settings(config.values)
    group_settings(config, 1)
    transaction_settings(config, 1)


def prepare_node(properties: Mapping[str, str]) -> None:
    """What a node of the quorum does with its file before it opens a directory."""
    config = ControllerServerConfig.parse(properties)
    config.check_voters_are_routable()
    node_security(config)
    described_config(config)


def check(
    prepare: Callable[[Mapping[str, str]], object], base: Mapping[str, str], key: str, value: str
) -> None:
    """Fails unless ``prepare`` takes the value, or refuses it with a good sentence."""
    try:
        prepare({**base, key: value})
    except ZkControllerError as refused:
        sentence = str(refused)
        assert len(sentence) <= LONGEST_SENTENCE, (key, value[:40])
        assert sentence.isprintable(), (key, value[:40], sentence)
        assert SECRET not in sentence or not _is_secret(key), (key, value[:40])
        assert key in sentence or INVOLVED.get(key, "?") in sentence, (key, value[:40], sentence)


def _is_secret(key: str) -> bool:
    return key.endswith(("password", "jaas.config", "keystore.key", "secret", "secret.key"))


@contextmanager
def bounded() -> Iterator[None]:
    """Ends a regular expression that takes for ever: no other thread would get a turn."""

    def give_up(*_: object) -> NoReturn:
        raise AssertionError("it takes too long")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.parametrize("part", range(8))
def test_every_key_of_a_broker_and_of_a_node_takes_or_refuses_hostile_values(part: int) -> None:
    node = {**NODE, "controller.listener.names": "C", "listeners": "C://localhost:9093"}

    for key in list(BROKER_KEYS)[part::8]:
        for value in Random(key).sample(VALUES, 20):
            with bounded():
                check(prepare_broker, BROKER, key, value)
                check(prepare_node, node, key, value)


def test_every_key_of_a_broker_and_of_a_topic_refuses_a_hostile_value_in_a_sentence() -> None:
    values = [value for value in (*VALUES, "{0}", "{key.x}", "{value}") if len(value) < 10_000]

    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        for value in values:
            sentence = refusal(key, value)
            assert sentence.isprintable(), (key.name, value[:40])
            assert not sentence or key.name in sentence, (key.name, value[:40])


def refusal(key: ConfigKey, value: str) -> str:
    """What is said of a value that is refused; nothing of one that is taken."""
    try:
        key.parse(value)
    except ConfigException as refused:
        return str(refused)
    return ""


@pytest.mark.attack
def test_the_keys_about_security_take_or_refuse_hostile_values(tmp_path: Path) -> None:
    secured = _secured(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    places = [str(tmp_path / "pipe"), str(tmp_path), str(tmp_path / "none"), "/dev/zero", "a\0b"]
    suffixes = ("password", "location", "jaas.config", "secret", "secret.key", "keystore.key")
    names = [key for key in BROKER_KEYS if key.startswith(("ssl.", "sasl."))]
    names += [key for key in BROKER_KEYS if key.endswith(suffixes) and key not in names]

    for key in names:
        values = Random(key).sample(VALUES, 3)
        values += SECRETS if _is_secret(key) else places if key.endswith("location") else ()
        for name in (key, PREFIX + key, *([f"{PREFIX}plain.{key}"] if "jaas" in key else [])):
            for value in values:
                with bounded():
                    if name.endswith(".type"):
                        continue  # what is then wrong is the store itself
                    check(prepare_broker, SECURED_BROKER | secured, name, value)
                    check(prepare_node, NODE | secured, name, value)
    for key in ("ssl.truststore.location", "sasl.jaas.config", "sasl.mechanism"):
        for value in (*VALUES, *SECRETS, *places):
            client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
            login = {"sasl.jaas.config": LOGIN, "ssl.truststore.type": "PEM"}
            with bounded():
                check(client_security_of, client | login, key, value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"ssl.key.password={SECRET}\\u12", "for ssl.key.password: four hexadecimal digits"),
        (f"ssl.key.password={SECRET}\\uzzzz{SECRET}", "for ssl.key.password: four hexadecimal"),
        ("a\\u1=b", "four hexadecimal digits"),
    ],
)
def test_a_bad_escape_names_its_key_and_shows_nothing_of_the_value(text: str, says: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_properties(text)

    assert says in str(refused.value)
    assert SECRET not in str(refused.value)


def test_lines_that_are_continued_a_hundred_thousand_times_are_one_line() -> None:
    with bounded():
        assert parse_properties("a=" + "b\\\n" * 100_000) == {"a": "b" * 100_000}
        assert parse_properties("a=1\\\n\\\n\\\n\nb=2\\") == {"a": "1", "b": "2"}
        assert parse_properties("a=1\nb=2\na=3") == {"a": "3", "b": "2"}
        assert parse_properties("\\") == {}


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("٣٤", "int", 34),
        ("0" * 100 + "7", "long", 7),
        ("\x007", "short", 7),
        ("-Infinity", "double", float("-inf")),
        ("5.e1F", "double", 50.0),
        ("a ,\t, b,", "list", ("a", "", "b", "")),
    ],
)
def test_java_takes_these_and_so_do_we(text: str, type_name: str, value: object) -> None:
    """Source: Java's ``Integer.parseInt``, ``Double.parseDouble``, ``String.trim``."""
    assert parse_type("key", text, type_name) == value


@pytest.mark.parametrize(
    ("text", "type_name"),
    [
        *(("1_0", "int"), ("\u00a01", "int"), ("²", "int"), ("+", "int"), ("--1", "int")),
        *(("nan", "double"), ("inf", "double"), ("1_0", "double"), ("٣", "double")),
    ],
)
def test_java_refuses_these_and_so_do_we(text: str, type_name: str) -> None:
    with pytest.raises(ConfigInvalid):
        parse_type("key", text, type_name)


def test_a_list_is_split_as_javas_regular_expression_splits_it() -> None:
    for seed in range(300):
        text = "".join(Random(seed).choices("ab,, \t", k=12))

        trimmed = text.strip(BLANKS)
        assert split_list(text) == (tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ())


def test_a_file_is_text_in_utf_8(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_bytes("broker.rack=Köln".encode())
    (tmp_path / "link").symlink_to(tmp_path / "server.properties")

    assert read_properties_file(tmp_path / "link") == {"broker.rack": "Köln"}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"a=\xe4")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", tmp_path / "latin", Path("a\0b")):
        with bounded(), pytest.raises(ConfigInvalid, match=r"for server\.properties: a "):
            read_properties_file(path)


@pytest.mark.attack
def test_the_commands_refuse_such_files_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    os.mkfifo(tmp_path / "pipe")
    (zkctl,) = (each for each in entry_points(group="console_scripts") if each.name == "zkctl")
    run = f"import sys; from {zkctl.module} import {zkctl.attr}; sys.exit({zkctl.attr}())"
    tool = [sys.executable, "-c", run]
    node = "\n".join(f"{key}={value}" for key, value in NODE.items())
    for command, text in (
        ([sys.executable, "-m", "replica_manager", str(file)], "zookeeper.connect=h:\\u0000"),
        ([sys.executable, "-m", "replica_manager", str(tmp_path / "pipe")], ""),
        ([*tool, "broker", "start", str(file)], f"ssl.key.password={SECRET}\\u1"),
        ([*tool, "quorum", "start", str(file)], node + "\nlisteners=X://[::"),
        ([*tool, "storage", "info", "-c", str(file)], "log.dirs=/a\\u0000b\nprocess.roles=broker"),
        ([*tool, "storage", "format", "-t", str(uuid4()), "-c", str(tmp_path / "pipe")], ""),
    ):
        file.write_text(text)

        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        assert ended.returncode != 0, command
        assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
        assert "invalid value" in ended.stderr
        assert SECRET not in ended.stderr
