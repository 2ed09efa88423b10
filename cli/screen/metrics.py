"""Reads the controller's event queue from brokers' metrics in Prometheus' format.

Source: the gauges and histograms of Kafka's ``ControllerEventManager``, by the names that the JMX
exporter's example for Kafka gives them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from zkcontroller_cli.console.errors import CannotConnect, Refused
from zkcontroller_cli.screen.model import QueueNow

SCRAPE_S: Final = 2.0
"""Seconds that a broker may take to send its metrics."""
SCRAPE_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of metrics that are read from one broker."""
_CHUNK_BYTES: Final = 64 * 1024
_ACTIVE: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_SIZE: Final = "kafka_controller_controllereventmanager_eventqueuesize"
_TIME: Final = "kafka_controller_controllereventmanager_eventqueuetimems"
_MEDIANS: Final = ("0.5", "0.50")


def scraped(url: str) -> QueueNow | None:
    """The event queue of the broker with metrics at ``url``; None if it is not the controller.

    Blocks for some :data:`SCRAPE_S` at most.  CannotConnect if there is no response in time,
    Refused if the response is not metrics, or too large.
    """
    try:
        text = _get(url)
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise CannotConnect(f"no metrics at {url}: {reason}") from error
    try:
        return queue_in(text)
    except ValueError as error:
        raise Refused(f"what {url} serves are no metrics: {error}") from error


def queue_in(text: str) -> QueueNow | None:
    """The event queue in metrics of Prometheus' text format; None if not of the controller.

    ValueError if the text has another format.
    """
    values: dict[tuple[str, str | None], float] = {}
    wanted = "\n".join(_lines_of(text.splitlines(), (_ACTIVE, _SIZE, _TIME)))
    for family in text_string_to_metric_families(wanted + "\n"):
        for sample in family.samples:
            values[sample.name, sample.labels.get("quantile")] = sample.value
    if not values.get((_ACTIVE, None)) or (_SIZE, None) not in values:
        return None
    median = next((values[_TIME, each] for each in _MEDIANS if (_TIME, each) in values), None)
    return QueueNow(int(values[_SIZE, None]), median, values.get((_TIME, "0.99")))


def _lines_of(lines: Iterable[str], names: tuple[str, ...]) -> Iterator[str]:
    """The lines that begin with one of the names, so that thousands of others are not parsed."""
    return (line for line in lines if line.startswith(names))


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("the address begins neither with http:// nor with https://")
    end = time.monotonic() + SCRAPE_S
    chunks, size = [], 0
    with urlopen(url, timeout=SCRAPE_S) as response:
        while chunk := response.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > SCRAPE_BYTES:
                raise Refused(f"{url} serves more than {SCRAPE_BYTES} bytes of metrics")
            if time.monotonic() > end:
                raise TimeoutError("they did not come in time")
    return b"".join(chunks).decode()
