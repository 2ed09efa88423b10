"""Counts requests by kind and measures their times: ``RequestMetrics``.

Nothing queues here between a socket and its handler as it does in Kafka, so some of Kafka's times
are others of ours:

- ``RequestQueueTimeMs``: from the last byte of a request until its handler begins; what takes
  time is to read a large one in a thread.
- ``LocalTimeMs``: what the handler and the encoding of the response held the event loop.
- ``RemoteTimeMs``: the rest until the response was complete: waiting for replicas, for records, for
  the controller, for ZooKeeper, or for a turn on the loop.
- ``ResponseSendTimeMs``: until the last byte of the response was taken by the socket.

``ResponseQueueTimeMs`` and ``ResponseQueueSize`` do not exist: a response that is complete is sent
by who made it.  ``RequestQueueSize`` counts the requests whose ``RequestQueueTimeMs`` runs.  Beside
the times, every error in every response is counted, NONE included, and for Produce and Fetch what
it cost to give records another form.

All this costs some twenty microseconds a request, so it is done only where it can be read.

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
    """The meters of every kind of request, created with the first request of the kind."""

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
        """Starts the times of a request of so many bytes.

        It counts as waiting until its handler begins, or :meth:`leave` is called.
        """
        times = RequestTimes(self, size)
        self._waiting.add(times)
        return times

    def leave(self, times: RequestTimes) -> None:
        """The request does not wait for its handler any more."""
        self._waiting.discard(times)

    def record(self, name: str, version: int, values: tuple[int, ...]) -> None:
        """Counts a request of that name; ``values`` in the order of the histograms.

        The last two are of those only that may convert records.
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
        """Counts what a response to a request of that name tells."""
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
    """The times of one request."""

    def __init__(self, metrics: RequestMetrics, size: int) -> None:
        self._metrics = metrics
        self._size = size
        self._names: tuple[str, ...] = ()
        self._version = -1
        self._begun_ns = self._handled_ns = self._completed_ns = metrics.now_ns()
        self._local = LoopTime(metrics.now_ns)
        self._conversions = NO_CONVERSIONS

    def begin_handling(self, api_key: int, version: int, request: Any) -> None:
        """The request was read; it is counted from now on."""
        self.leave_queue()
        name = APIS[api_key].name
        self._names = (name,)
        if api_key == ApiKey.FETCH:
            self._names = ("FetchFollower" if request.replica_id >= 0 else "FetchConsumer", name)
        self._version = version
        self._handled_ns = self._metrics.now_ns()

    def leave_queue(self) -> None:
        """The request does not wait for its handler, or not any more."""
        self._metrics.leave(self)

    def timed(self, handling: Coroutine[Any, Any, T]) -> Timed[T]:
        """Wraps ``handling``, which is awaited, to measure it."""
        return Timed(handling, self._local)

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """Wraps the encoding of the response."""
        with self._local.turn():
            yield
        self._completed_ns = self._metrics.now_ns()

    def answered(self, errors: ErrorCounts, conversions: RecordConversions) -> None:
        """Records the errors in the response and its message conversion times."""
        self._conversions = conversions
        if self._names:
            self._metrics.record_errors(self._names[-1], errors)

    def sent(self, throttle_ms: int) -> None:
        """The response was sent; the connection is muted for ``throttle_ms``."""
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
    """Rounded to the nearest, as Kafka rounds."""
    return (max(duration_ns, 0) + _NS_PER_MS // 2) // _NS_PER_MS


def _mbean(name: str, request: str, **tags: object) -> str:
    return mbean("kafka.network", "RequestMetrics", name, {"request": request, **tags})
