"""Counts what the connections of a listener do: ``socket-server-metrics``.

Kafka has such metrics for each network processor of a listener, which selects among some of its
connections.  Here one event loop serves all listeners, and each has the numbers of one processor,
as with ``num.network.threads=1``.  Rates are over the last one to two windows of 30 seconds.

Two things differ.  ``network-io`` counts whole requests and responses, because a large one takes
many steps.  There are no ``select-*`` and ``io-*``: ``NetworkProcessorAvgIdlePercent`` has the
share of time for which the loop waits.

Source: Kafka ``Selector.SelectorMetrics``, ``IntGaugeSuite``, ``SocketServer.Processor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kafka_common.errors import InvalidFrame
from kafka_common.observability.metrics import Metrics, tagged_mbean
from kafka_common.observability.sensors import MeterSensor, Sensor, SpanSensor, SumSensor
from kafka_common.protocol.api_versions import UNKNOWN_SOFTWARE, ApiKey, client_software
from kafka_common.protocol.framing import parse_request_header
from kafka_common.protocol.messages import read_request

KINDS_MAX: Final = 100
"""Most kinds of client software, and most ciphers, that a listener counts at once."""
_DOMAIN: Final = "kafka.server"
_TYPE: Final = "socket-server-metrics"
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS).to_bytes(2, "big")
_SIZE_BYTES: Final = 4
"""Bytes of the size before each request."""
_S = TypeVar("_S", bound=Sensor)

Kind = tuple[str, str]
"""A client's software and its version, or a cipher and the version of TLS."""


class SelectorMetrics:
    """The metrics of one listener's connections.  For the event loop; any thread may read them."""

    def __init__(self, metrics: Metrics, listener_name: str, processor: int) -> None:
        """``processor``: how many listeners there were before."""
        self._metrics = metrics
        tags = {"listener": listener_name, "networkProcessor": str(processor)}
        self._name = tagged_mbean(_DOMAIN, _TYPE, tags)
        self._opened = self._meter("connection-creation")
        self._closed = self._meter("connection-close")
        self._authenticated = self._meter("successful-authentication")
        self._reauthenticated = self._meter("successful-reauthentication")
        self._failed = self._meter("failed-authentication")
        self._failed_again = self._meter("failed-reauthentication")
        self._latency_ms = self._shown(SpanSensor("reauthentication-latency"))
        # To a selector what it receives is a response, and what it sends a request.
        self._received = self._meter("response")
        self._received_bytes = self._meter("incoming-byte")
        self._sent = self._meter("request")
        self._sent_bytes = self._meter("outgoing-byte")
        self._sent_size = self._shown(SpanSensor("request-size"))
        self._frames = self._meter("network-io")
        self._open = self._shown(SumSensor("connection-count"))
        self._cannot_renew = self._shown(SumSensor("successful-authentication-no-reauth-total"))
        self._expired = self._shown(SumSensor("expired-connections-killed-count"))
        self.software = Kinds(metrics, ("clientSoftwareName", "clientSoftwareVersion"), tags)
        """The connections by their clients' software (KIP-511)."""
        self.ciphers = Kinds(metrics, ("cipher", "protocol"), tags)
        """The TLS connections by their cipher, with OpenSSL's name, and version of TLS."""

    def _shown(self, sensor: _S) -> _S:
        return self._metrics.sensor(self._name, sensor)

    def _meter(self, name: str) -> MeterSensor:
        return self._shown(MeterSensor(name, total="total"))

    def opened(self) -> None:
        """Counts an accepted connection."""
        self._opened.record(1)
        self._open.record(1)

    def closed(self, *, is_expired: bool) -> None:
        """Counts a closed connection; ``is_expired``: its client did not re-authenticate."""
        self._closed.record(1)
        self._open.record(-1)
        self._expired.record(is_expired)

    def authenticated(self, *, can_reauthenticate: bool) -> None:
        """Counts a client that is authenticated, by TLS or SASL."""
        self._authenticated.record(1)
        self._cannot_renew.record(not can_reauthenticate)

    def reauthenticated(self, latency_ms: int) -> None:
        """Counts a client that has authenticated again (KIP-368)."""
        self._reauthenticated.record(1)
        self._latency_ms.record(latency_ms)

    def failed(self, *, is_again: bool) -> None:
        """Counts a client whose authentication has failed; ``is_again``: not the first."""
        (self._failed_again if is_again else self._failed).record(1)

    def received(self, request: bytes) -> None:
        """Counts a request without the size before it."""
        self._received.record(1)
        self._received_bytes.record(_SIZE_BYTES + len(request))
        self._frames.record(1)

    def sent(self, size: int) -> None:
        """Counts a response of so many bytes."""
        self._sent.record(1)
        self._sent_bytes.record(size)
        self._sent_size.record(size)
        self._frames.record(1)

    def remove(self) -> None:
        """Removes the metrics of a listener that is closed."""
        self._metrics.remove(self._name)
        self.software.remove()
        self.ciphers.remove()


class ConnectionMetrics:
    """Counts one connection, from its begin to its end."""

    def __init__(self, selector: SelectorMetrics) -> None:
        self.selector = selector
        self._software: Kind = UNKNOWN_SOFTWARE
        self._cipher: Kind | None = None
        selector.opened()
        selector.software.add(self._software)

    def received(self, request: bytes) -> None:
        """Counts a request after authentication."""
        self.selector.received(request)
        if request.startswith(_API_VERSIONS):
            self.named_software(request)

    def named_software(self, request: bytes) -> None:
        """Counts the connection among those of the software that an ApiVersions request names."""
        software = _software_of(request)
        if software is not None:
            self.selector.software.remove_one(self._software)
            self.selector.software.add(software)
            self._software = software

    def encrypted(self, cipher: Kind) -> None:
        """Counts the connection among those of this cipher."""
        self.selector.ciphers.add(cipher)
        self._cipher = cipher

    def closed(self, *, is_expired: bool) -> None:
        """Counts the end of the connection."""
        self.selector.closed(is_expired=is_expired)
        self.selector.software.remove_one(self._software)
        if self._cipher is not None:
            self.selector.ciphers.remove_one(self._cipher)


class Kinds:
    """How many connections there are of each kind, an MBean each.

    A kind without connections is shown until another needs its place.  If all :data:`KINDS_MAX`
    have connections, those of a further kind are not counted.

    Source: Kafka ``IntGaugeSuite``.
    """

    def __init__(self, metrics: Metrics, keys: Kind, tags: Mapping[str, str]) -> None:
        """``keys``: the tags by which a kind is shown, before those of its listener."""
        self._metrics = metrics
        self._keys = keys
        self._tags = tags
        self._counts: dict[Kind, SumSensor] = {}

    def add(self, kind: Kind) -> None:
        """Counts a connection of that kind."""
        count = self._counts.get(kind)
        if count is None:
            if len(self._counts) >= KINDS_MAX:
                unused = next((each for each, n in self._counts.items() if not n.total), None)
                if unused is None:
                    return
                self._forget(unused)
            count = self._metrics.sensor(self._name(kind), SumSensor("connections"))
            self._counts[kind] = count
        count.record(1)

    def remove_one(self, kind: Kind) -> None:
        """Counts a connection of that kind no longer."""
        count = self._counts.get(kind)
        if count is not None and count.total:
            count.record(-1)

    def remove(self) -> None:
        """Removes all of these metrics."""
        for kind in list(self._counts):
            self._forget(kind)

    def _forget(self, kind: Kind) -> None:
        del self._counts[kind]
        self._metrics.remove(self._name(kind))

    def _name(self, kind: Kind) -> str:
        named = dict(zip(self._keys, kind, strict=True))
        return tagged_mbean(_DOMAIN, _TYPE, named | dict(self._tags))


def _software_of(request: bytes) -> Kind | None:
    """The software that an ApiVersions request names; None if the request is not valid."""
    try:
        header, start = parse_request_header(request)
        body: Any = read_request(header.api_key, header.api_version, request, start)
    except InvalidFrame:
        return None
    return client_software(header.api_version, body)
