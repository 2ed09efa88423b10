"""``zkctl metrics`` reads Prometheus' text format, and says what is wrong with another page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

import pytest
from typing_extensions import override

PAGE: Any = import_module("zkcontroller_cli.wire.metrics_page")
ERRORS: Any = import_module("zkcontroller_cli.console.errors")

EXPORTED = """\
# HELP kafka_server_replicamanager_leadercount Attribute exposed for management
# TYPE kafka_server_replicamanager_leadercount gauge
kafka_server_replicamanager_leadercount 3.0
# TYPE kafka_log_log_size gauge
kafka_log_log_size{partition="0",topic="or\\"ders"} 1.5
kafka_log_log_size{partition="1",topic="orders"} NaN
# TYPE requests_total counter
requests_total 12
"""


@contextmanager
def served(body: str, status: int = 200) -> Iterator[str]:
    """The address of a server that answers everything with that page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_every_sample_of_a_page_is_a_row() -> None:
    with served(EXPORTED) as address:
        rows = PAGE.read_metrics(address, 10)

    assert [(row["metric"], row["labels"], row["value"], row["type"]) for row in rows] == [
        ("kafka_server_replicamanager_leadercount", {}, 3, "gauge"),
        ("kafka_log_log_size", {"partition": "0", "topic": 'or"ders'}, 1.5, "gauge"),
        ("kafka_log_log_size", {"partition": "1", "topic": "orders"}, None, "gauge"),
        ("requests_total", {}, 12, "counter"),
    ]
    assert rows[0]["meaning"] == "Attribute exposed for management"
    assert rows[-1]["meaning"] is None


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ("<html>no metrics</html>", 200, "are no metrics"),
        ("a{b=", 200, "are no metrics"),
        ("", 200, "the page is empty"),
        ("gone", 404, "answers with HTTP status 404"),
    ],
)
def test_another_page_is_refused_with_a_sentence(body: str, status: int, sentence: str) -> None:
    with served(body, status) as address, pytest.raises(ERRORS.Refused, match=sentence):
        PAGE.read_metrics(address, 10)


@pytest.mark.parametrize("text", ["", "host", "host:port", ":7071", "host:7071/metrics", "[::1"])
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ERRORS.BadUsage, match="is no HOST:PORT"):
        PAGE.read_metrics(text, 10)
