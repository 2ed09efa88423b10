"""Counts requests by API and measures their times: ``RequestMetrics``.

Unlike Kafka's, this broker has no request queue, so some metrics have another meaning:

- ``RequestQueueTimeMs``: from the last byte of a request until its handler begins, which includes
  the decoding of a large request in a thread.
- ``LocalTimeMs``: the time on the event loop of the handler and of the response's encoding.
- ``RemoteTimeMs``: the other time until the response is complete: waiting for replicas, records,
  the controller, ZooKeeper or the event loop.
- ``ResponseSendTimeMs``: until the socket has taken the last byte of the response.

``ResponseQueueTimeMs`` and ``ResponseQueueSize`` do not exist, because a complete response is sent
directly.  ``RequestQueueSize`` counts the requests whose handler has not begun.  Also counted are
every error code in every response, NONE included, and for Produce and Fetch the cost of message
conversions.

All this takes some twenty microseconds per request, so it is done only if metrics are exported.

Source: Kafka ``RequestChannel.Request.updateRequestMetrics``, ``RequestChannel
.updateErrorMetrics``, ``RequestMetrics``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.observability.instruments import Histogram, Meter
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.error_codes import error_name
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.quotas.loop_time import LoopTime, Timed
from replica_manager.server.error_counts import ErrorCounts

T = TypeVar("T")

_HISTOGRAMS: Final = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseSendTimeMs",
    "TotalTimeMs",
    "RequestBytes",
)
_CONVERSIONS: Final = ("MessageConversionsTimeMs", "TemporaryMemoryBytes")
_CONVERTING: Final = frozenset((APIS[ApiKey.PRODUCE].name, APIS[ApiKey.FETCH].name))
_NS_PER_MS: Final = 1_000_000


class RequestMetrics:
    """The metrics of all APIs; those of an API are created with its first request."""

    def __init__(self, metrics: Metrics, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._metrics = metrics
        self.now_ns = now_ns
        self._histograms: dict[str, tuple[Histogram, ...]] = {}
        self._meters: dict[tuple[str, int], Meter] = {}
        self._error_meters: dict[tuple[str, ErrorCode], Meter] = {}
        self._waiting: set[RequestTimes] = set()
        metrics.gauge(
            mbean("kafka.network", "RequestChannel", "RequestQueueSize"),
            lambda: len(self._waiting),
        )

    def begin(self, size: int) -> RequestTimes:
        """Starts to measure a request of ``size`` bytes.

        The request is in ``RequestQueueSize`` until its handler begins, or :meth:`leave` is called.
        """
        times = RequestTimes(self, size)
        self._waiting.add(times)
        return times

    def leave(self, times: RequestTimes) -> None:
        """Removes the request from ``RequestQueueSize``."""
        self._waiting.discard(times)

    def record(self, name: str, version: int, values: tuple[int, ...]) -> None:
        """Counts a request of an API; ``values`` are in the order of its histograms.

        The last two values, for conversions, are used for Produce and Fetch only.
        """
        meter = self._meters.get((name, version))
        if meter is None:
            meter = self._meters[name, version] = self._metrics.meter(
                _mbean("RequestsPerSec", name, version=version), "requests"
            )
        meter.mark()
        for histogram, value in zip(self._histograms_of(name), values, strict=False):
            histogram.update(value)

    def record_errors(self, name: str, errors: ErrorCounts) -> None:
        """Counts the error codes in a response of an API."""
        for error, count in errors.items():
            if not count:
                continue
            meter = self._error_meters.get((name, error))
            if meter is None:
                meter = self._error_meters[name, error] = self._metrics.meter(
                    _mbean("ErrorsPerSec", name, error=error_name(error)), "requests"
                )
            meter.mark(count)

    def _histograms_of(self, name: str) -> tuple[Histogram, ...]:
        histograms = self._histograms.get(name)
        if histograms is None:
            kinds = _HISTOGRAMS + (_CONVERSIONS if name in _CONVERTING else ())
            histograms = self._histograms[name] = tuple(
                self._metrics.histogram(_mbean(each, name)) for each in kinds
            )
        return histograms


class RequestTimes:
    """Measures the times of one request."""

    def __init__(self, metrics: RequestMetrics, size: int) -> None:
        self._metrics = metrics
        self._size = size
        self._names: tuple[str, ...] = ()
        self._version = -1
        self._begun_ns = self._handled_ns = self._completed_ns = metrics.now_ns()
        self._local = LoopTime(metrics.now_ns)
        self._conversions = NO_CONVERSIONS

    def begin_handling(self, api_key: int, version: int, request: Any) -> None:
        """Marks the request as decoded: the time of its handler begins."""
        self.leave_queue()
        name = APIS[api_key].name
        self._names = (name,)
        if api_key == ApiKey.FETCH:
            self._names = ("FetchFollower" if request.replica_id >= 0 else "FetchConsumer", name)
        self._version = version
        self._handled_ns = self._metrics.now_ns()

    def leave_queue(self) -> None:
        """Removes the request from ``RequestQueueSize``; may be called twice."""
        self._metrics.leave(self)

    def timed(self, handling: Coroutine[Any, Any, T]) -> Timed[T]:
        """Wraps the handler's coroutine to measure its time on the event loop."""
        return Timed(handling, self._local)

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """A context manager that measures the encoding of the response."""
        with self._local.turn():
            yield
        self._completed_ns = self._metrics.now_ns()

    def answered(self, errors: ErrorCounts, conversions: RecordConversions) -> None:
        """Records the errors in the response and the cost of its message conversions."""
        self._conversions = conversions
        if self._names:
            self._metrics.record_errors(self._names[-1], errors)

    def sent(self, throttle_ms: int) -> None:
        """Records all times after the response was sent; ``throttle_ms`` is its throttle time."""
        ended_ns, local_ns = self._metrics.now_ns(), self._local.total_ns
        values = (
            _ms(self._handled_ns - self._begun_ns),
            _ms(local_ns),
            _ms(self._completed_ns - self._handled_ns - local_ns),
            throttle_ms,
            _ms(ended_ns - self._completed_ns),
            _ms(ended_ns - self._begun_ns),
            self._size,
            _ms(self._conversions.duration_ns),
            self._conversions.memory_bytes,
        )
        for name in self._names:
            self._metrics.record(name, self._version, values)


def _ms(duration_ns: int) -> int:
    """Nanoseconds in milliseconds, rounded to the nearest as in Kafka."""
    return (max(duration_ns, 0) + _NS_PER_MS // 2) // _NS_PER_MS


def _mbean(name: str, request: str, **tags: object) -> str:
    return mbean("kafka.network", "RequestMetrics", name, {"request": request, **tags})
