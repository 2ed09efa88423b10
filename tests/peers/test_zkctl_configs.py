"""``zkctl config``, ``quota``, ``user`` and ``kafka-configs`` agree on Kafka 3.9.1 and 2.8.2.

Each way round: what one has set, the other describes.  Kafka's tool is that of 3.9.1 on both.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.kafka_peer import kafka_tool
from kafka_common.sanitizer import desanitize
from replica_manager.security.password_encoder import PasswordEncoder
from tests.peers.real_cluster import BROKER, RealCluster, started_real_cluster
from tests.support.cli_world import zkctl_here
from tests.support.stored_configs import accepts
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CONFIG_TOOL: Final = str(Path(__file__).with_name("ConfigTool.java"))
SOURCES: Final = {
    "topic": "DYNAMIC_TOPIC_CONFIG",
    "dynamic_broker": "DYNAMIC_BROKER_CONFIG",
    "dynamic_default_broker": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "static_broker": "STATIC_BROKER_CONFIG",
    "default": "DEFAULT_CONFIG",
}
PASSWORD: Final = "geheim"
NAMED: Final = re.compile(r"(user-principal|client-id|ip) '([^']*)'|the default ([a-z-]+)")
PARTS: Final = {"user-principal": "user", "client-id": "client_id", "ip": "ip"}
LOGGER: Final = "kafka.controller.KafkaController"


class ConfiguredCluster(NamedTuple):
    """One broker of Kafka's, and Kafka's tool in a process of its own."""

    real: RealCluster
    tool: subprocess.Popen[str]

    def ask(self, *lines: str) -> dict[str, list[str]]:
        """By line what the tool prints for it."""
        return {line: self._answer(line) for line in lines}

    def _answer(self, line: str) -> list[str]:
        assert self.tool.stdin is not None
        assert self.tool.stdout is not None
        self.tool.stdin.write(f"{line}\n")
        self.tool.stdin.flush()
        printed = list(iter(self.tool.stdout.readline, "### end\n"))
        assert f"### {line}\n" in printed, printed
        return [each.rstrip("\n") for each in printed[printed.index(f"### {line}\n") + 1 :]]


@pytest.fixture(scope="module", params=["3.9.1", "2.8.2"])
def cluster(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConfiguredCluster]:
    version = request.param
    chroot = f"{zookeeper.connect}/configs-{version}"
    with started_real_cluster(version, chroot, tmp_path_factory.mktemp("configs"), {}) as real:
        for topic in ("ours", "theirs"):
            real.zkctl("topic", "create", topic, "--partitions", "1")
        tool = subprocess.Popen(
            kafka_tool(CONFIG_TOOL, real.bootstrap_servers, real.zookeeper),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with tool:
            try:
                yield ConfiguredCluster(real, tool)
            finally:
                tool.kill()


def by_brokers(cluster: ConfiguredCluster, *arguments: str) -> Any:
    """What ``zkctl`` says that is given brokers alone."""
    at = ("-b", cluster.real.bootstrap_servers, "-o", "json", "--timeout", "60")
    result = zkctl_here(*at, *arguments)
    assert result.exit_code == 0, result.stderr
    return result.json


def in_zookeeper(cluster: ConfiguredCluster, *arguments: str, password: str = "") -> Any:
    """What ``zkctl`` says that is given ZooKeeper alone."""
    at = ("-z", cluster.real.zookeeper, "-o", "json")
    result = zkctl_here(*at, *arguments, **({"ZKCTL_USER_PASSWORD": password} if password else {}))
    assert result.exit_code == 0, result.stderr
    return result.json


def entries_of(printed: list[str]) -> list[tuple[str, str, bool, list[str]]]:
    """Name, value, whether it is secret, and synonyms of each line of a description."""
    found = []
    for line in printed:
        if " synonyms={" not in line:
            continue
        entry, _, synonyms = line.strip().removesuffix("}").partition(" synonyms={")
        setting, _, is_sensitive = entry.rpartition(" sensitive=")
        name, _, value = setting.partition("=")
        listed = re.split(r", (?=[A-Z_]+_CONFIG:)", synonyms) if synonyms else []
        found.append((name, value, is_sensitive == "true", listed))
    return sorted(found)


def entries_by_us(rows: list[dict[str, Any]]) -> list[tuple[str, str, bool, list[str]]]:
    """Our rows, as Kafka's tool prints them."""
    return sorted(
        (
            row["name"],
            text_of(row["value"]),
            row["is_sensitive"],
            [
                f"{SOURCES[each['source']]}:{each['name']}={text_of(each['value'])}"
                for each in row["synonyms"]
            ],
        )
        for row in rows
    )


def text_of(value: str | None) -> str:
    return "null" if value is None else value


def quotas_of(printed: list[str]) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Entity and quotas of each line of a description."""
    found = []
    for line in printed:
        if line.startswith("Quota configs for "):
            whose, _, quotas = line.removeprefix("Quota configs for ").partition(" are ")
            names: dict[str, str | None] = dict.fromkeys(PARTS.values())
            for kind, name, default in NAMED.findall(whose):
                names[PARTS[kind or default]] = name if kind else "<default>"
            pairs = (each.split("=") for each in quotas.split(", "))
            found.append((names, {name: float(value) for name, value in pairs}))
    return sorted(found, key=repr)


def quotas_by_us(
    rows: list[dict[str, Any]],
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    return sorted(
        (
            (
                {key: row[key] for key in PARTS.values()},
                {
                    key: float(row[key])
                    for key in row
                    if key not in PARTS.values() and row[key] is not None
                },
            )
            for row in rows
        ),
        key=repr,
    )


DESCRIBE_QUOTAS: Final = (
    "brokers --describe --entity-type users",
    "brokers --describe --entity-type users --entity-type clients",
    "brokers --describe --entity-type clients",
    "brokers --describe --entity-type ips",
)


def all_quotas(printed: Mapping[str, list[str]]) -> Any:
    found = [each for line in DESCRIBE_QUOTAS for each in quotas_of(printed[line])]
    return sorted(found, key=repr)


def credentials_of(printed: list[str]) -> dict[str, str]:
    """User to the credentials that a description names."""
    pattern = re.compile(r"SCRAM credential configs for user-principal '([^']*)' are (.*)")
    return {match[1]: match[2] for line in printed if (match := pattern.fullmatch(line))}


def stored_of(printed: list[str]) -> dict[str, str]:
    """Name to text of what the tool reads from ZooKeeper."""
    [line] = [each for each in printed if each.startswith("Configs for ")]
    # A value may have commas of its own, but no such name behind one.
    texts = re.split(r",(?=(?:SCRAM-SHA-\d+|[\w-]+\.[\w.-]+)=)", line.partition(" are ")[2])
    return dict(each.partition("=")[::2] for each in texts)


def test_what_zkctl_sets_kafkas_tool_describes(cluster: ConfiguredCluster, tmp_path: Path) -> None:
    change = ("--append", "cleanup.policy=compact", "--config", "retention.ms=60000", "--yes")
    topic = by_brokers(cluster, "config", "set", "topic", "ours", *change)
    one = by_brokers(
        cluster, "config", "set", "broker", "1", "--config", "log.cleaner.threads=2", "--yes"
    )
    every = ("config", "set", "broker", "--default", "--yes", "--config")
    default = by_brokers(
        cluster, *every, "max.connections=500", "--config", "log.retention.ms=90000"
    )
    level = by_brokers(
        cluster, "config", "set", "logger", "1", "--config", f"{LOGGER}=ERROR", "--yes"
    )
    for entity in (
        ("--user", "CN=alice", "--client", "a/b", "producer_byte_rate=1000"),
        ("--user", "CN=alice", "--client-defaults", "request_percentage=12.5"),
        ("--user-defaults", "consumer_byte_rate=2000", "controller_mutation_rate=3"),
        ("--user-defaults", "--client-defaults", "producer_byte_rate=7"),
        ("--client", "app", "--client-defaults", "consumer_byte_rate=9"),
        ("--ip", "10.0.0.1", "--ip-defaults", "connection_creation_rate=5000"),
    ):
        done = by_brokers(cluster, "quota", "set", *entity, "--yes")
        assert {row["is_done"] for row in done} == {True}
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    by_brokers(cluster, "user", "set", "CN=alice", "--password-file", str(file), "--yes")
    in_zookeeper(cluster, "user", "set", "bob", "--iterations", "8192", "--yes", password=PASSWORD)
    encoder, secret = tmp_path / "encoder", tmp_path / "secret"
    encoder.write_text("password.encoder.secret=s3\n")
    name = "listener.name.external.ssl.keystore.password"
    secret.write_text(f"{name}={PASSWORD}\n")
    stopped = ("config", "set", "broker", "9", "--config", "log.retention.ms=7", "--yes")
    files = ("--from-file", str(secret), "--password-encoder-file", str(encoder))
    in_zookeeper(cluster, *stopped, *files)

    described = (
        "brokers --describe --entity-type topics --entity-name ours --all",
        "brokers --describe --entity-type brokers --entity-name 1",
        "brokers --describe --entity-type brokers --entity-name 1 --all",
        "brokers --describe --entity-type brokers --entity-default",
        "brokers --describe --entity-type broker-loggers --entity-name 1",
    )
    stored = (
        "zookeeper --describe --entity-type users --entity-name bob",
        "zookeeper --describe --entity-type users --entity-name CN=alice",
        "zookeeper --describe --entity-type brokers --entity-name 9",
    )
    by_kafka = cluster.ask(*described, *DESCRIBE_QUOTAS, *stored)

    assert {row["is_done"] for row in (*topic, *one, *default, *level)} == {True}
    of_topic, of_own, of_broker, of_default, of_loggers = (by_kafka[line] for line in described)
    assert entries_of(of_topic) == entries_by_us(
        by_brokers(cluster, "config", "get", "topic", "ours", "--all")
    )
    assert [entry[:2] for entry in entries_of(of_own)] == [("log.cleaner.threads", "2")]
    assert entries_of(of_broker) == entries_by_us(
        by_brokers(cluster, "config", "get", "broker", str(BROKER), "--all")
    )
    assert entries_of(of_default) == entries_by_us(
        by_brokers(cluster, "config", "get", "broker", "--default")
    )
    assert (LOGGER, "ERROR") in [entry[:2] for entry in entries_of(of_loggers)]
    assert all_quotas(by_kafka) == quotas_by_us(by_brokers(cluster, "quota", "list"))
    # Before 3.5 Kafka lists the names of znodes.
    credentials = credentials_of(by_kafka[DESCRIBE_QUOTAS[0]])
    assert {desanitize(user): text for user, text in credentials.items()} == {
        "CN=alice": "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096",
        "bob": "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=8192",
    }
    listed = by_brokers(cluster, "user", "list")
    assert [row["user"] for row in listed] == ["CN=alice", "CN=alice", "bob", "bob"]
    assert listed == in_zookeeper(cluster, "user", "list")
    for line in stored[:2]:
        credentials = stored_of(by_kafka[line])
        assert set(credentials) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        assert all(accepts(text, name, PASSWORD) for name, text in credentials.items())
    of_stopped = stored_of(by_kafka[stored[2]])
    assert of_stopped["log.retention.ms"] == "7"
    assert PasswordEncoder("s3").decode(of_stopped[name]) == PASSWORD


def test_what_kafkas_tool_sets_zkctl_describes_and_takes_away(cluster: ConfiguredCluster) -> None:
    users = "--entity-type users --entity-name"
    done = cluster.ask(
        "brokers --alter --entity-type topics --entity-name theirs"
        " --add-config retention.ms=70000,cleanup.policy=[compact,delete]",
        "brokers --alter --entity-type brokers --entity-name 1 --add-config max.connections=600",
        f"brokers --alter --entity-type broker-loggers --entity-name 1 --add-config {LOGGER}=WARN",
        f"brokers --alter {users} O=theirs --add-config producer_byte_rate=10",
        f"brokers --alter {users} O=theirs --entity-type clients --entity-name x/y"
        " --add-config consumer_byte_rate=20,request_percentage=1.5",
        "brokers --alter --entity-type ips --entity-name 10.0.0.2"
        " --add-config connection_creation_rate=30",
        f"brokers --alter {users} dora --add-config SCRAM-SHA-256=[iterations=8192,password=hers]",
        f"zookeeper --alter {users} emil --add-config SCRAM-SHA-512=[password=his]",
        "zookeeper --alter --entity-type brokers --entity-name 8 --add-config log.roll.ms=80000",
    )
    assert all(result[-1].startswith("Completed updating") for result in done.values()), done

    topic = by_brokers(cluster, "config", "get", "topic", "theirs")
    by_znodes = in_zookeeper(cluster, "config", "get", "topic", "theirs")
    broker = by_brokers(cluster, "config", "get", "broker", "1", "--key", "max.connections")
    [level] = by_brokers(cluster, "config", "get", "logger", "1", "--key", LOGGER)
    quotas = by_brokers(cluster, "quota", "list")
    user = by_brokers(cluster, "config", "get", "user", "O=theirs", "--client", "x/y")
    credentials = by_brokers(cluster, "user", "describe", "dora", "emil")
    stopped = in_zookeeper(cluster, "config", "get", "broker", "8")

    values = {("cleanup.policy", "compact,delete"), ("retention.ms", "70000")}
    assert {(row["name"], row["value"]) for row in topic} == values
    assert {(row["name"], row["value"]) for row in by_znodes} == values
    assert [(row["value"], row["source"]) for row in broker] == [("600", "dynamic_broker")]
    assert level["value"] == "WARN"
    assert quotas == in_zookeeper(cluster, "quota", "list")
    mine = {"O=theirs", "10.0.0.2"}
    assert [
        [row[key] for key in ("user", "client_id", "ip") if row[key] is not None]
        for row in quotas
        if mine & {row["user"], row["ip"]}
    ] == [["O=theirs"], ["O=theirs", "x/y"], ["10.0.0.2"]]
    assert {row["name"]: row["value"] for row in user} == {
        "consumer_byte_rate": "20",
        "request_percentage": "1.5",
    }
    assert [(row["user"], row["mechanism"], row["iterations"]) for row in credentials] == [
        ("dora", "SCRAM-SHA-256", 8192),
        ("emil", "SCRAM-SHA-512", 4096),
    ]
    assert [(row["name"], row["value"]) for row in stopped] == [("log.roll.ms", "80000")]

    by_brokers(cluster, "config", "unset", "topic", "theirs", "--key", "retention.ms", "--yes")
    by_brokers(cluster, "config", "unset", "broker", "1", "--key", "max.connections", "--yes")
    pair = ("--user", "O=theirs", "--client", "x/y")
    by_brokers(
        cluster, "quota", "unset", *pair, "consumer_byte_rate", "request_percentage", "--yes"
    )
    by_brokers(cluster, "user", "delete", "dora", "--yes")
    in_zookeeper(cluster, "user", "delete", "emil", "--yes")
    in_zookeeper(cluster, "config", "unset", "broker", "8", "--key", "log.roll.ms", "--yes")
    after = cluster.ask(
        "brokers --describe --entity-type topics --entity-name theirs",
        "brokers --describe --entity-type brokers --entity-name 1",
        f"brokers --describe {users} O=theirs --entity-type clients --entity-name x/y",
        f"brokers --describe {users} dora",
        f"zookeeper --describe {users} emil",
        "zookeeper --describe --entity-type brokers --entity-name 8",
    )

    of_topic, of_broker, of_pair, of_dora, of_emil, of_stopped = after.values()
    assert [entry[0] for entry in entries_of(of_topic)] == ["cleanup.policy"]
    assert "max.connections" not in [entry[0] for entry in entries_of(of_broker)]
    assert quotas_of(of_pair) == []
    assert credentials_of(of_dora) == {}
    assert "Configs for user-principal 'emil' are " in of_emil
    assert "Configs for brokers '8' are " in of_stopped
