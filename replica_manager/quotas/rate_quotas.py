"""Rate quotas of clients and their throttle times.

Pure except for its metrics.  Each client has a rate over ``quota.window.num`` windows of
``quota.window.size.seconds``.  All traffic is recorded, even above the quota.  A client over its
quota is throttled until its average rate is down to the quota: ``(rate - quota) / quota`` times the
length of the windows.

There are three: for produced bytes, for fetched bytes and for request time.

Source: Kafka ``ClientQuotaManager``, ``ClientRequestQuotaManager``, ``QuotaUtils`` (KIP-13, KIP-55,
KIP-124).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafka_common.observability.metrics import Metrics, tagged_mbean
from kafka_common.observability.sensors import AverageSensor, RateSensor
from kafka_common.sanitizer import desanitize
from replica_manager.configuration.config_keys import text_of
from replica_manager.quotas.client_quotas import (
    ClientKey,
    ClientQuotas,
    QuotaEntity,
    RecentClients,
    entity_of,
    whole_throttle_ms,
)

METRICS_DOMAIN: Final = "kafka.server"
_UNLIMITED: Final = 2**63 - 1
"""What Kafka names as the bound of clients without a quota."""


class QuotaWindows(NamedTuple):
    """The windows of rates: ``quota.window.num``, and ``quota.window.size.seconds`` in ms."""

    samples: int = 11
    sample_ms: int = 1_000


class QuotaKind(NamedTuple):
    """A kind of quota, with Kafka's names."""

    name: str
    """The type of its MBeans."""
    quota_key: str
    rate_attribute: str
    is_whole: bool = True
    """Whether the quota is a whole number."""
    is_bounded: bool = False
    """Whether the throttle time is at most one window."""


PRODUCE: Final = QuotaKind("Produce", "producer_byte_rate", "byte-rate")
FETCH: Final = QuotaKind("Fetch", "consumer_byte_rate", "byte-rate")
REQUEST: Final = QuotaKind(
    "Request", "request_percentage", "request-time", is_whole=False, is_bounded=True
)


def throttle_ms(rate: float, bound: float, window_ms: int, longest_ms: float = math.inf) -> int:
    """The throttle time in ms after which a rate over a window is down to ``bound`` again."""
    if rate <= bound:
        return 0
    excess = (rate - bound) / bound if bound > 0 else math.inf
    return whole_throttle_ms(min(excess * window_ms, longest_ms))


class _Queue:
    """A metric: the number of clients being throttled."""

    def __init__(self) -> None:
        self._size = 0

    def record(self, value: float) -> None:
        self._size += int(value)

    def attributes(self) -> dict[str, float]:
        return {"queue-size": self._size}


class _Client:
    """A client's rate, quota and throttle times; ``bound`` is None without a quota."""

    __slots__ = ("bound", "rate", "throttle_time")

    def __init__(self, bound: float | None, rate: RateSensor, throttle_time: AverageSensor) -> None:
        self.bound = bound
        self.rate = rate
        self.throttle_time = throttle_time


class RateQuotas:
    """One kind of quota, with the rates of all clients.  For the event loop."""

    def __init__(
        self,
        kind: QuotaKind,
        windows: QuotaWindows,
        now_ms: Callable[[], int],
        metrics: Metrics,
    ) -> None:
        """``now_ms``: a monotonic clock."""
        self.quotas = ClientQuotas(kind.quota_key, is_whole=kind.is_whole)
        self._kind = kind
        self._windows = windows
        self._now_ms = now_ms
        self._metrics = metrics
        self._longest_ms = windows.sample_ms if kind.is_bounded else math.inf
        self._clients: RecentClients[ClientKey, _Client] = RecentClients(self._make, self._forget)
        self._queue = _Queue()
        metrics.sensor(tagged_mbean(METRICS_DOMAIN, kind.name, {}), self._queue)

    def __len__(self) -> int:
        return len(self._clients)

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of a path such as ``users/a/clients/b``."""
        self.quotas.configure(entity_path, config)
        entity = entity_of(entity_path)
        is_single = self.quotas.has_one_level and entity is not None and not entity.has_default
        for key, client in self._clients:
            before, client.bound = client.bound, self.quotas.bound(key)
            if is_single and entity == QuotaEntity(key.user or None, key.client_id or None):
                self._log_sensor(f"{entity} already exists. Changing", client.bound)
            elif not is_single and client.bound != before:
                whose = f"quota-id {_tags_text(key)}"
                self._log_sensor(f"{whose} already exists. Setting", client.bound)

    def _log_sensor(self, change: str, bound: float | None) -> None:
        text = text_of(float(_UNLIMITED if bound is None else bound))
        self.quotas.log.info("Sensor for %s quota to %s in MetricConfig", change, text)

    def record(self, user: str, client_id: str, value: float) -> int:
        """Records a value (bytes, or percent of a second); returns the throttle time in ms."""
        now_ms = self._now_ms()
        client = self._client(user, client_id, now_ms)
        rate, window_ms = client.rate.record_at(value, now_ms)
        if client.bound is None:
            return 0
        return throttle_ms(rate, client.bound, window_ms, self._longest_ms)

    def record_only(self, user: str, client_id: str, value: float) -> None:
        """Records a value without a throttle time; a negative value cancels an earlier one."""
        now_ms = self._now_ms()
        self._client(user, client_id, now_ms).rate.record_at(value, now_ms)

    def record_throttle(self, user: str, client_id: str, duration_ms: int) -> None:
        """Records a throttle time of the client for the metrics."""
        self._client(user, client_id, self._now_ms()).throttle_time.record(duration_ms)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A context manager for the time in which a client is throttled."""
        self._queue.record(1)
        try:
            yield
        finally:
            self._queue.record(-1)

    def most_at_once(self, user: str, client_id: str) -> float:
        """The largest single value that the quota allows; infinite without a quota."""
        bound = self._client(user, client_id, self._now_ms()).bound
        if bound is None:
            return math.inf
        return bound * (self._windows.samples - 1) * self._windows.sample_ms / 1000

    def _client(self, user: str, client_id: str, now_ms: int) -> _Client:
        return self._clients.use(self.quotas.key(user, client_id), now_ms)

    def _make(self, key: ClientKey) -> _Client:
        name = self._mbean(key)
        rate = RateSensor(self._kind.rate_attribute, *self._windows, self._now_ms)
        throttle_time = AverageSensor("throttle-time", now_ms=self._now_ms)
        return _Client(
            self.quotas.bound(key),
            self._metrics.sensor(name, rate),
            self._metrics.sensor(name, throttle_time),
        )

    def _forget(self, key: ClientKey) -> None:
        self._metrics.remove(self._mbean(key))

    def _mbean(self, key: ClientKey) -> str:
        return tagged_mbean(METRICS_DOMAIN, self._kind.name, _tags(key))


def _tags(key: ClientKey) -> dict[str, str]:
    return {"user": key.user, "client-id": desanitize(key.client_id)}


def _tags_text(key: ClientKey) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in _tags(key).items()) + "}"
