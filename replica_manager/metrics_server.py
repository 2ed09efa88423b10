"""The broker's metrics over HTTP, in Prometheus' text format: ``GET /metrics``.

Kafka shows its metrics by JMX, and people scrape them through the JMX exporter, an agent inside the
process that listens on a port of its own.  Here that port needs no agent; the names are the same.
Every client that reaches the port can read all metrics and change nothing, so the server listens on
the loopback address unless another one is given.  Each scrape takes a thread and a descriptor of
the broker, so the number of scrapes at once is limited, and a silent client is disconnected.

Source: the JMX exporter's HTTP server.
"""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any, ClassVar, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import ProcessCollector, make_wsgi_app
from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from kafka_common.net.bounded_threads import BoundedThreads
from kafka_common.observability.exposition import registry_of
from kafka_common.observability.metrics import Metrics

LOOPBACK = "127.0.0.1"
MOST_SCRAPES: Final = 16
"""The most scrapes at once; a further connection is closed."""
SILENCE_S: Final = 10
"""Seconds after which a client that neither sends nor receives is disconnected."""
_log = logging.getLogger("kafka.server.KafkaServer")


class MetricsServer:
    """Serves one broker's metrics in threads of its own, from its creation to :meth:`close`.

    ``port`` 0 takes a free port.  Raises ConfigInvalid if it cannot listen at host and port.
    """

    def __init__(self, metrics: Metrics, port: int, host: str = LOOPBACK) -> None:
        registry = registry_of(metrics)
        ProcessCollector(registry=registry)
        app = make_wsgi_app(registry)
        try:
            server = _server_class(host, port)
            self._server = make_server(host, port, app, server, handler_class=_ScrapeHandler)
        except (OSError, OverflowError, UnicodeError) as failure:
            # UnicodeError is raised for a host name with an empty or too long label.
            raise ConfigInvalid(
                "--metrics-port", f"{host}:{port}", f"one to listen on ({failure})"
            ) from failure
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_port}/metrics"
        _log.info("Serving metrics at %s", self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _ScrapeServer(BoundedThreads, WSGIServer):
    """Runs each scrape in a thread of its own, at most :data:`MOST_SCRAPES` at once."""

    most_connections = MOST_SCRAPES

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs nothing, because a client may disconnect at any time."""


class _ScrapeServer6(_ScrapeServer):
    address_family = socket.AF_INET6


def _server_class(host: str, port: int) -> type[_ScrapeServer]:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return _ScrapeServer6 if family == socket.AF_INET6 else _ScrapeServer


class _ScrapeHandler(WSGIRequestHandler):
    timeout: ClassVar[float] = SILENCE_S

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because there is a scrape every few seconds."""
