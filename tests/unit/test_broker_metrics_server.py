"""The port that Prometheus scrapes."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from replica_manager.metrics_server import MetricsServer
from zkcontroller.errors import ConfigInvalid
from zkcontroller.runtime.metrics import Metrics, mbean

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
