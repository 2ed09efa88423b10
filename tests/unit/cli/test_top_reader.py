"""``zkctl top --once``: one reading of ZooKeeper, whatever brokers and metrics do meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any, Final

import pytest
from typing_extensions import override

from kafka_common.net.client_security import PLAINTEXT
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import SetData
from zkcontroller.zookeeper.znodes import (
    ClusterIdZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    TopicZnode,
)

errors: Any = import_module("zkcontroller_cli.console.errors")
metrics: Any = import_module("zkcontroller_cli.screen.metrics")
reader: Any = import_module("zkcontroller_cli.screen.reader")
AT: Final = ("-z", "zk:1", "top", "--once", "-o", "json")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def put(zkctl: Zkctl, path: str, data: bytes) -> None:
    zkctl.session().write(SetData(path, data))


def test_once_shows_what_zookeeper_holds_though_no_broker_answers(zkctl: Zkctl) -> None:
    furnish(zkctl)
    zkctl.create(ClusterIdZnode.PATH, ClusterIdZnode("the-cluster").encode())
    zkctl.create(DeleteTopicZnode.path("orders"))

    result = zkctl(*AT)

    shown = result.json
    assert result.exit_code == 0
    assert result.stderr == ""
    assert shown["cluster_id"] == "the-cluster"
    assert (shown["controller_id"], shown["controller_epoch"]) == (1, 7)
    assert shown["elected_at_ms"] == 1_700_000_000_123
    assert (shown["partition_count"], shown["offline_count"]) == (3, 1)
    assert (shown["under_replicated_count"], shown["not_preferred_count"]) == (2, 1)
    assert [each["topic"] for each in shown["deletions"]] == ["orders"]
    alive = {each["broker_id"]: each["is_alive"] for each in shown["brokers"]}
    assert alive == {1: True, 2: True, 3: False}
    assert len(shown["problems"]) == 2
    assert all("cannot connect to 127.0.0.1:909" in each for each in shown["problems"])


def test_corrupt_znodes_are_problems_of_the_reading(zkctl: Zkctl) -> None:
    furnish(zkctl)
    for number in range(3):
        put(zkctl, PartitionStateZnode.path("orders", number), b"{")
    zkctl.create(TopicZnode.path("broken"), b"{")

    result = zkctl(*AT)

    named = [each for each in result.json["problems"] if "/brokers/topics" in each]
    assert result.stderr == ""
    assert len(named) == reader.WARNINGS_SHOWN
    assert "1 more znodes are corrupt" in result.json["problems"]
    assert result.json["topic_count"] == 2
    assert result.json["offline_count"] == 3


def test_nothing_that_can_be_read_is_an_error(zkctl: Zkctl) -> None:
    result = zkctl("-b", "127.0.0.1:1", "top", "--once")

    assert result.exit_code == errors.ExitCode.CANNOT_CONNECT
    assert "cannot connect to 127.0.0.1:1" in result.stderr


def test_a_cluster_without_topics_is_a_cluster(zkctl: Zkctl) -> None:
    zkctl.create("/brokers/ids")

    result = zkctl(*AT)

    assert result.json["partition_count"] == result.json["topic_count"] == 0
    assert result.json["problems"] == []


def test_a_slow_part_is_read_more_rarely() -> None:
    pace = reader.ReadingPace(10.0)
    assert pace.is_due(0.0)

    pace.done(100.0, 100.5)
    assert not pace.is_due(109.9)
    assert pace.is_due(110.0)

    pace.done(200.0, 204.0)
    assert not pace.is_due(219.9)
    assert pace.is_due(200.0 + 4.0 * reader.SHARE)


CONTROLLER: Final = """
# TYPE kafka_controller_kafkacontroller_activecontrollercount gauge
kafka_controller_kafkacontroller_activecontrollercount 1.0
kafka_controller_controllereventmanager_eventqueuesize 4.0
kafka_controller_controllereventmanager_eventqueuetimems{quantile="0.50"} 1.5
kafka_controller_controllereventmanager_eventqueuetimems{quantile="0.99"} 20.25
kafka_controller_controllereventmanager_eventqueuetimems_count 17.0
"""


@pytest.fixture
def served() -> Iterator[Any]:
    """Serves ``texts["metrics"]`` on a port of its own."""
    texts: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(texts["metrics"].encode())

        @override
        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield texts, f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


def test_the_controllers_event_queue_is_read_from_its_metrics(served: Any) -> None:
    texts, url = served
    texts["metrics"] = CONTROLLER

    assert metrics.scraped(url) == (4, 1.5, 20.25)


def test_a_broker_that_is_not_the_controller_has_no_queue(served: Any) -> None:
    texts, url = served
    texts["metrics"] = CONTROLLER.replace("activecontrollercount 1.0", "activecontrollercount 0.0")

    assert metrics.scraped(url) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kafka_controller_controllereventmanager_eventqueuesize{ 4", "are no metrics"),
        ("x" * (metrics.SCRAPE_BYTES + 1), f"more than {metrics.SCRAPE_BYTES} bytes"),
    ],
)
def test_what_are_no_metrics_or_too_many_is_refused(served: Any, text: str, reason: str) -> None:
    texts, url = served
    texts["metrics"] = text

    with pytest.raises(errors.Refused, match=reason):
        metrics.scraped(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/metrics", "file:///etc/passwd", "nonsense"])
def test_metrics_that_cannot_be_reached_are_named(url: str) -> None:
    with pytest.raises(errors.CannotConnect, match="no metrics at"):
        metrics.scraped(url)


def test_metrics_that_cannot_be_read_are_a_problem_and_not_the_end(zkctl: Zkctl) -> None:
    zkctl.create("/brokers/ids")

    result = zkctl(*AT, "--metrics", "http://127.0.0.1:1/metrics")

    assert result.exit_code == 0
    assert result.json["event_queue_size"] is None
    assert any("no metrics at" in each for each in result.json["problems"])


def test_a_silent_broker_is_asked_no_second_question(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: Any = import_module("zkcontroller_cli.screen.brokers")
    wire: Any = import_module("zkcontroller_cli.wire.requests")
    asked: list[int] = []

    @asynccontextmanager
    async def connected(addresses: Any, *_: Any) -> AsyncIterator[Any]:
        asked.append(addresses[0].port)
        if addresses[0].port == 2:
            raise errors.TimedOut("broker b:2 did not answer in time")
        yield None

    async def nothing(*_: Any) -> Any:
        return {}

    async def no_groups(*_: Any) -> Any:
        return []

    monkeypatch.setattr(brokers, "connected", connected)
    monkeypatch.setattr(brokers, "replica_sizes", nothing)
    monkeypatch.setattr(brokers, "_groups", no_groups)
    addresses = {number: wire.BrokerAddress("b", number) for number in (1, 2)}
    both = brokers.BrokerReader(addresses, PLAINTEXT)

    async def ask() -> None:
        await both.read_sizes()
        await both.read_groups(lambda _: None)

    asyncio.run(ask())

    assert asked == [1, 2, 1]
    assert both.reading.sizes == {1: {}}
    assert both.reading.problems == ["broker 2, sizes: broker b:2 did not answer in time"]
