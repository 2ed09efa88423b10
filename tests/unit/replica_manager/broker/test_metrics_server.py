"""The port that Prometheus scrapes."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack

import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.observability.metrics import Metrics, mbean
from replica_manager import metrics_server
from replica_manager.metrics_server import MOST_SCRAPES, MetricsServer
from tests.integration.broker_processes import wait_for

ACTIVE = mbean("kafka.controller", "KafkaController", "ActiveControllerCount")


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        text: str = response.read().decode()
        return text


def test_what_the_metrics_say_is_read_over_http_at_the_moment_of_asking() -> None:
    metrics = Metrics()
    gauge = metrics.gauge(ACTIVE)
    gauge.set(0)
    with MetricsServer(metrics, 0) as server:
        assert "kafka_controller_kafkacontroller_activecontrollercount 0.0\n" in scrape(server.url)
        gauge.set(1)
        assert "kafka_controller_kafkacontroller_activecontrollercount 1.0\n" in scrape(server.url)


def test_it_listens_on_the_loopback_address_until_it_is_closed() -> None:
    server = MetricsServer(Metrics(), 0)
    assert server.url.startswith("http://127.0.0.1:")
    server.close()

    with pytest.raises(urllib.error.URLError):
        scrape(server.url)


def test_a_port_in_use_is_refused_with_a_sentence() -> None:
    with MetricsServer(Metrics(), 0) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigInvalid, match=f"127.0.0.1:{port}' for --metrics-port: one to"):
            MetricsServer(Metrics(), port)
    with pytest.raises(ConfigInvalid, match="--metrics-port"):
        MetricsServer(Metrics(), 70_000)


@pytest.mark.parametrize("host", ["a..b", "x" * 64, ""])
def test_a_host_that_cannot_be_looked_up_is_refused_with_a_sentence(host: str) -> None:
    with pytest.raises(ConfigInvalid, match="--metrics-port"):
        MetricsServer(Metrics(), 0, host)


def test_silent_clients_hold_no_more_than_a_few_threads() -> None:
    threads = threading.active_count()
    with MetricsServer(Metrics(), 0) as server, ExitStack() as sockets:
        port = int(server.url.split(":")[2].split("/")[0])
        clients = [
            sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            for _ in range(3 * MOST_SCRAPES)
        ]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")

        closed = [client for client in clients[MOST_SCRAPES:] if is_closed(client)]

        assert len(closed) == 2 * MOST_SCRAPES
        assert threading.active_count() <= threads + 1 + MOST_SCRAPES
        for client in clients:
            client.close()
        wait_for(lambda: is_scraped(server.url), "threads that served others end")


def test_a_silent_client_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._ScrapeHandler, "timeout", 0.05)
    with MetricsServer(Metrics(), 0) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET /metrics")

            assert is_closed(client)


def is_closed(client: socket.socket) -> bool:
    """Whether the server has ended the connection; waits until it does, or sends something."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def is_scraped(url: str) -> bool:
    try:
        scrape(url)
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
