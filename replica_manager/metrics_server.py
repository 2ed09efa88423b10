"""The broker's metrics over HTTP, in Prometheus' text format: ``GET /metrics``.

Kafka shows its metrics by JMX, and people scrape them through the JMX exporter, an agent inside the
process that listens on a port of its own.  Here that port needs no agent; the names are the same.
Whoever reaches it reads everything and changes nothing, so it is on the loopback address unless
another is asked for.

Source: the JMX exporter's HTTP server.
"""

from __future__ import annotations

import logging
from typing import Self

from prometheus_client import start_http_server

from zkcontroller.errors import ConfigInvalid
from zkcontroller.runtime.metrics import Metrics

LOOPBACK = "127.0.0.1"
_log = logging.getLogger("kafka.server.KafkaServer")


class MetricsServer:
    """Serves one broker's metrics from threads of its own, from now until :meth:`close`.

    ``port`` 0 takes a free one.  Raises ConfigInvalid when host and port cannot be listened on.
    """

    def __init__(self, metrics: Metrics, port: int, host: str = LOOPBACK) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except (OSError, OverflowError) as failure:
            raise ConfigInvalid(
                "--metrics-port", f"{host}:{port}", f"one to listen on ({failure})"
            ) from failure
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
