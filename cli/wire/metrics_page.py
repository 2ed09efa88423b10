"""Reads a page in Prometheus' text format, as a broker or a JMX exporter serves it."""

from __future__ import annotations

import math
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from zkcontroller_cli.console.errors import BadUsage, CannotConnect, Refused, TimedOut

PATH: Final = "/metrics"
MOST_BYTES: Final = 256 * 1024 * 1024
"""The largest page that is read; with ten thousand partitions a page has some 10 MB."""


def read_metrics(address: str, timeout_s: float) -> list[dict[str, Any]]:
    """Every metric sample at ``HOST:PORT``, one record each, in the order of the page.

    BadUsage if ``address`` is no address, CannotConnect if nothing answers there, TimedOut if the
    response is late, Refused if there are no metrics.
    """
    from prometheus_client.parser import text_string_to_metric_families

    text = _page(address, timeout_s)
    try:
        families = list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError) as error:
        raise Refused(f"what {address}{PATH} serves are no metrics: {error}") from error
    if not families:
        raise Refused(f"{address}{PATH} serves no metrics: the page is empty")
    return [
        {
            "metric": sample.name,
            "labels": dict(sample.labels),
            "value": _number(float(sample.value)),
            "type": family.type,
            "meaning": family.documentation or None,
        }
        for family in families
        for sample in family.samples
    ]


def _page(address: str, timeout_s: float) -> str:
    host, port = _host_and_port(address)
    # Not urllib: it would send the request to a proxy that the environment names.
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", PATH, headers={"Accept": "text/plain; version=0.0.4"})
        response = connection.getresponse()
        body = response.read(MOST_BYTES + 1)
    except TimeoutError as error:
        raise TimedOut(f"{address} did not answer within {timeout_s:g} s") from error
    except HTTPException as error:
        raise Refused(
            f"{address} does not speak HTTP: a metrics port is none of the broker's listeners"
        ) from error
    except (OSError, UnicodeError) as error:
        raise CannotConnect(
            f"no metrics are served at {address} ({error}): a broker serves them if it was started "
            "with --metrics-port PORT"
        ) from error
    finally:
        connection.close()
    if response.status != 200:
        raise Refused(f"{address}{PATH} answers with HTTP status {response.status}")
    if len(body) > MOST_BYTES:
        raise Refused(f"{address}{PATH} has more than {MOST_BYTES} bytes")
    return body.decode("utf-8", "replace")


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        split = urlsplit(f"//{address}")
        host, port, rest = split.hostname, split.port, split.path or split.query
    except ValueError:
        host, port, rest = None, None, ""
    if host is None or port is None or rest:
        raise BadUsage(f"{address!r} is no HOST:PORT, in --address")
    return host, port


def _number(value: float) -> float | int | None:
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
