"""docs/containers.md on a real Docker daemon: the compose file, its brokers, Prometheus, Spark."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.container.dockers import docker, run, wait_for, wait_for_status
from tests.container.page import ENVIRONMENT, PROJECT, commands, perform
from tests.support.monitoring import alerts
from tests.support.paths import ROOT

pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]

client: Any = pytest.importorskip("confluent_kafka")

SECTIONS: Final = commands()
BOOTSTRAP: Final = "localhost:19092,localhost:19093,localhost:19094"
PROMETHEUS: Final = "http://localhost:19090/api/v1"
BUILT: Final = "Build them"
STARTED: Final = "A cluster"
DEATH: Final = "A broker dies"
STOPPED: Final = "Stop it"


@pytest.fixture(scope="module")
def printed() -> Iterator[dict[str, str]]:
    """What each command printed that builds the images and starts the cluster, while it runs."""
    try:
        yield {command: perform(command) for command in SECTIONS[BUILT] + SECTIONS[STARTED]}
    finally:
        for command in SECTIONS[STOPPED]:
            perform(command)
        left = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={PROJECT}")
        assert left == "", f"containers that are left: {left}"


def container(service: str) -> str:
    """The id of a service's container."""
    label = f"label=com.docker.compose.service={service}"
    project = f"label=com.docker.compose.project={PROJECT}"
    return docker("ps", "-aq", "--filter", label, "--filter", project)


def test_the_cluster_of_the_page_comes_up_and_has_its_topic(printed: dict[str, str]) -> None:
    [shown] = [text for command, text in printed.items() if "partition list" in command]
    [seen] = [text for command, text in printed.items() if command.startswith("zkctl ")]

    assert shown.count("orders") == 3
    assert "orders" in seen
    for service in ("zookeeper-1", "zookeeper-2", "zookeeper-3", "broker-1", "broker-2"):
        wait_for_status(container(service), "healthy")


def test_records_are_written_and_read_while_a_broker_dies_and_comes_back(
    printed: dict[str, str],
) -> None:
    assert printed
    producer = client.Producer(
        {"bootstrap.servers": BOOTSTRAP, "acks": "all", "enable.idempotence": True}
    )
    acknowledged: list[bytes] = []

    def written(error: object, message: Any) -> None:
        if error is None:
            acknowledged.append(message.value())

    def write(word: str) -> None:
        for number in range(100):
            producer.produce("orders", f"{word}-{number}".encode(), on_delivery=written)

    write("before")
    assert producer.flush(60) == 0
    for command in SECTIONS[DEATH]:
        write(command)
        perform(command)
    assert producer.flush(60) == 0

    assert len(acknowledged) == 100 * (1 + len(SECTIONS[DEATH]))
    assert set(read("orders", len(acknowledged))) == set(acknowledged)


def read(topic: str, count: int) -> list[bytes]:
    consumer = client.Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": "page", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(values)} of {count} records"
        assert message.error() is None, message.error()
        values.append(message.value())
    consumer.close()
    return values


def test_a_broker_joins_by_hand(printed: dict[str, str]) -> None:
    assert printed
    try:
        shown = [perform(command) for command in SECTIONS["One more broker, by hand"]]
    finally:
        run("docker", "rm", "-f", "-v", f"{PROJECT}-broker-4")

    assert any("broker-4:9092" in text for text in shown)


def test_prometheus_scrapes_the_brokers_and_has_its_rules(printed: dict[str, str]) -> None:
    assert printed
    for command in SECTIONS["Metrics"]:
        perform(command)
    wait_for_status(container("prometheus"), "healthy")

    wait_for(lambda: targets() == ["up", "up", "up"], lambda: str(targets()))
    rules = ask("rules")["groups"]
    loaded = {rule["name"] for group in rules for rule in group["rules"]}
    query = "sum(kafka_controller_kafkacontroller_activecontrollercount)"

    assert loaded == {alert["alert"] for alert in alerts()}
    assert ask(f"query?query={query}")["result"][0]["value"][1] == "1"


def targets() -> list[str]:
    return [target["health"] for target in ask("targets")["activeTargets"]]


def ask(path: str) -> Any:
    with urllib.request.urlopen(f"{PROMETHEUS}/{path}", timeout=10) as response:
        return json.load(response)["data"]


def test_spark_says_who_was_controller(printed: dict[str, str]) -> None:
    assert printed
    [command] = SECTIONS["What happened"]

    heading, first, *_ = perform(command).splitlines()

    assert heading.split()[:2] == ["CONTROLLER_EPOCH", "BROKER"]
    assert first.split()[0] == "1"


def test_the_compose_file_keeps_brokers_from_writing_and_from_rights() -> None:
    services = yaml.safe_load((ROOT / "compose" / "compose.yaml").read_text())["services"]

    for name in ("broker-1", "broker-2", "broker-3", "history"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    assert ENVIRONMENT["COMPOSE_FILE"].endswith("compose.yaml")
