"""Limits the new connections per second of a broker, a listener and an address (KIP-612).

Pure except for its metrics.  A connection over the broker's or the listener's rate is accepted
later: the acceptor waits, and delays all later connections.  A connection over the rate of its
address is not served: it stays open without being read for its throttle time, and is then closed,
so that a client gains nothing by connecting again at once.  No connection waits longer than one
window.

Connections on a listener that only brokers use do not count for the broker's rate.

Source: Kafka ``ConnectionQuotas``, ``ConnectionQuotaEntity``, ``IpConfigHandler``.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.java import java_address
from kafka_common.observability.metrics import Metrics, tagged_mbean
from kafka_common.observability.sensors import AverageSensor, RateSensor
from kafka_common.sanitizer import DEFAULT_ENTITY, desanitize
from replica_manager.quotas.client_quotas import RecentClients
from replica_manager.quotas.rate_quotas import METRICS_DOMAIN, QuotaWindows, throttle_ms

QUOTA_KEY: Final = "connection_creation_rate"
_TYPE: Final = "socket-server-metrics"
_RATE: Final = "connection-accept-rate"
_DIGITS: Final = re.compile("[0-9]{1,10}")
_MOST: Final = 2**31 - 1
"""The rate of an address without a limit."""

_log = logging.getLogger("kafka.network.ConnectionQuotas")


class _Listener:
    """The metrics of one listener: its rate, and the throttle times of it and of addresses."""

    def __init__(self, name: str, rates: ConnectionRates) -> None:
        self.rate = rates.sensor(_RATE, {"listener": name})
        self.throttle_time = rates.average("connection-accept-throttle-time", name)
        self.ip_throttle_time = rates.average("ip-connection-accept-throttle-time", name)


class ConnectionRates:
    """The connection rates of one broker.  For the event loop."""

    def __init__(
        self, windows: QuotaWindows, now_ms: Callable[[], int], metrics: Metrics, protected: str
    ) -> None:
        """``protected``: the listener that only brokers use; empty if there is none."""
        self._windows = windows
        self._now_ms = now_ms
        self._metrics = metrics
        self._protected = protected
        self._broker = self.sensor(f"broker-{_RATE}", {})
        self._listeners: dict[str, _Listener] = {}
        self._ip_bounds: dict[str, int] = {}
        self._default_ip_bound: int | None = None
        self._ips: RecentClients[str, RateSensor] = RecentClients(
            lambda address: self.sensor(_RATE, {"ip": address}),
            lambda address: metrics.remove(tagged_mbean(METRICS_DOMAIN, _TYPE, {"ip": address})),
        )

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of ``ips/192.0.2.1`` or ``ips/<default>``.

        An invalid address or rate is logged and changes nothing.
        """
        name = entity_path.removeprefix("ips/")
        try:
            bound = _bound_in(config)
            address = None if name == DEFAULT_ENTITY else _address(desanitize(name))
        except ConfigInvalid as refused:
            _log.error("The connection rate of %s stays as it was: %s", entity_path, refused)
            return
        if address is None:
            self._default_ip_bound = bound
            rate = _MOST if bound is None else bound
            _log.info("Updated default max IP connection rate to %d", rate)
            return
        shown = java_address(address)
        if bound is None:
            _log.info("Removing max connection rate override for %s", shown)
            self._ip_bounds.pop(address, None)
        else:
            _log.info("Updating max connection rate override for %s to %d", shown, bound)
            self._ip_bounds[address] = bound
        if address in self._ips:
            bound = self._ip_bounds.get(address, self._default_ip_bound)
            log_rate(_MOST if bound is None else bound)

    def accept(self, listener_name: str, broker_bound: int, listener_bound: int) -> int:
        """Records a new connection; returns how many milliseconds the acceptor must wait."""
        now_ms = self._now_ms()
        listener = self._listener(listener_name)
        wait_ms = 0
        if listener_name != self._protected:
            wait_ms = self._record(self._broker, broker_bound, now_ms)
        wait_ms = max(wait_ms, self._record(listener.rate, listener_bound, now_ms))
        if wait_ms > 0:
            listener.throttle_time.record(wait_ms)
        return wait_ms

    def refuse(self, listener_name: str, address: str) -> int:
        """Checks the rate of an address; returns after how many ms to close it, 0 to accept it."""
        bound = self._ip_bounds.get(address, self._default_ip_bound)
        if bound is None:
            return 0
        now_ms = self._now_ms()
        sensor = self._ips.use(address, now_ms)
        refused_ms = self._record(sensor, bound, now_ms)
        if refused_ms == 0:
            return 0
        # A refused connection must not count for any rate.
        listener = self._listener(listener_name)
        listener.ip_throttle_time.record(refused_ms)
        sensor.record_at(-1, now_ms)
        listener.rate.record_at(-1, now_ms)
        if listener_name != self._protected:
            self._broker.record_at(-1, now_ms)
        return refused_ms

    def sensor(self, name: str, tags: Mapping[str, str]) -> RateSensor:
        """A rate sensor over the quota windows, shown as a metric."""
        sensor = RateSensor(name, *self._windows, self._now_ms)
        return self._metrics.sensor(tagged_mbean(METRICS_DOMAIN, _TYPE, tags), sensor)

    def average(self, name: str, listener_name: str) -> AverageSensor:
        """An average sensor of a listener, shown as a metric."""
        sensor = AverageSensor(name, now_ms=self._now_ms)
        tags = {"listener": listener_name}
        return self._metrics.sensor(tagged_mbean(METRICS_DOMAIN, _TYPE, tags), sensor)

    def _listener(self, name: str) -> _Listener:
        found = self._listeners.get(name)
        if found is None:
            found = self._listeners[name] = _Listener(name, self)
        return found

    def _record(self, sensor: RateSensor, bound: int, now_ms: int) -> int:
        rate, window_ms = sensor.record_at(1, now_ms)
        return throttle_ms(rate, bound, window_ms, self._windows.sample_ms)


def log_rate(rate: int) -> None:
    """Writes Kafka's line about the rate of a listener or an address."""
    _log.info("Updated %s max connection creation rate to %d", _RATE, rate)


def _bound_in(config: Mapping[str, str]) -> int | None:
    text = config.get(QUOTA_KEY)
    if text is None:
        return None
    if not _DIGITS.fullmatch(text) or int(text) > _MOST:
        raise ConfigInvalid(QUOTA_KEY, text, "a whole number of connections a second, 0 or more")
    return int(text)


def _address(text: str) -> str:
    """The address as sockets show it; ConfigInvalid for a host name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ConfigInvalid("ips", text, "an address; names are not looked up") from None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
