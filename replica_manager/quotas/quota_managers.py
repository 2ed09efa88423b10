"""All kinds of client quotas, and their use by one request.

A client over a quota gets its response at once, with the throttle time in it.  Its connection is
then muted for that time, with every API version (KIP-219).  If several quotas are exceeded, the
longest throttle time is used.

Nothing is recorded until a user or client id is configured, so that a broker without quotas does
only one check per request.

A request uses ``request_percentage`` by its time on the event loop, in percent of a second; 100 is
all the time there is.  The time of reading and handling is counted before the response is sent.
The time of encoding and sending it is counted for the next request, as Kafka does for network
threads.

Source: Kafka ``QuotaFactory``, ``RequestHandlerHelper``, ``ClientRequestQuotaManager``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import Final

from kafka_common.observability.metrics import Metrics, tagged_mbean
from kafka_common.observability.sensors import RateSensor
from replica_manager.quotas.client_quotas import entity_of
from replica_manager.quotas.loop_time import LoopTime
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.quotas.rate_quotas import (
    FETCH,
    METRICS_DOMAIN,
    PRODUCE,
    REQUEST,
    QuotaWindows,
    RateQuotas,
)

_NS_TO_PERCENT: Final = 100 / 1_000_000_000
_log = logging.getLogger("kafka.server.ClientQuotaManager")


class QuotaManagers:
    """All kinds of quotas.  For the event loop."""

    def __init__(
        self,
        controller_mutation: MutationQuotas,
        windows: QuotaWindows,
        metrics: Metrics,
        now_ms: Callable[[], int],
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """``now_ms``, ``now_ns``: monotonic clocks; ``now_ns`` measures requests."""
        self.controller_mutation = controller_mutation
        self.produce = RateQuotas(PRODUCE, windows, now_ms, metrics)
        self.fetch = RateQuotas(FETCH, windows, now_ms, metrics)
        self.request = RateQuotas(REQUEST, windows, now_ms, metrics)
        self.exempt = metrics.sensor(
            tagged_mbean(METRICS_DOMAIN, REQUEST.name, {}),
            RateSensor("exempt-request-time", now_ms=now_ms),
        )
        self.is_enabled = False
        """Whether a user or client id was configured since the start; never reset, as in Kafka."""
        self._now_ns = now_ns

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of a path such as ``users/a/clients/b``."""
        if entity_of(entity_path) is None:
            _log.error("Invalid quota entity path: %s", entity_path)
            return
        self.is_enabled = True
        for quotas in (self.produce, self.fetch, self.request, self.controller_mutation):
            quotas.configure(entity_path, config)

    def begin(self, user: str, client_id: str, size: int) -> RequestUsage | None:
        """The quota use of a new request of ``size`` bytes; None without quotas."""
        if not self.is_enabled:
            return None
        return RequestUsage(self, user, client_id, size, LoopTime(self._now_ns))


class _Counted(Enum):
    """Whether the request's time was counted, and for which quota."""

    NOT_YET = auto()
    CLIENTS = auto()
    EXEMPT = auto()


class RequestUsage:
    """The quota use of one request.

    Call one of :meth:`produced`, :meth:`fetched`, :meth:`requested` and :meth:`exempt` once, when
    the response is known.  Call :meth:`finish` when it has been sent.
    """

    def __init__(
        self, quotas: QuotaManagers, user: str, client_id: str, size: int, loop_time: LoopTime
    ) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._size = size
        self.loop_time = loop_time
        """The event loop time of this request."""
        self._recorded_ns = 0
        self._counted = _Counted.NOT_YET
        self.throttle_ms = 0
        """The throttle time of the client; 0 until the request is counted."""
        self._throttling_quotas = quotas.request

    @property
    def is_counted(self) -> bool:
        return self._counted is not _Counted.NOT_YET

    def most_fetched(self) -> float:
        """The largest Fetch response in bytes that the quota allows; infinite without a quota."""
        return self._quotas.fetch.most_at_once(self._user, self._client_id)

    def produced(self, *, is_answered: bool) -> int:
        """Counts a Produce request; returns the throttle time in ms.

        With ``acks`` 0 (not ``is_answered``), only its bytes count.
        """
        bytes_ms = self._quotas.produce.record(self._user, self._client_id, self._size)
        if is_answered:
            request_ms = self._record_time()
        else:
            self.exempt()
            request_ms = 0
        return self._throttle(self._quotas.produce, bytes_ms, request_ms)

    def fetched(self, size: int) -> int:
        """Counts a consumer's Fetch with a response of ``size`` bytes; returns the throttle time.

        If it is above 0, the response must be empty, and its bytes do not count.
        """
        request_ms = self._record_time()
        bytes_ms = self._quotas.fetch.record(self._user, self._client_id, size)
        if max(bytes_ms, request_ms) > 0:
            self._quotas.fetch.record_only(self._user, self._client_id, -size)
        return self._throttle(self._quotas.fetch, bytes_ms, request_ms)

    def requested(self) -> int:
        """Counts a request of any other API; returns the throttle time in ms."""
        return self._throttle(self._quotas.request, 0, self._record_time())

    def exempt(self) -> None:
        """Counts the request's time as exempt from quotas, for requests of brokers."""
        self._counted = _Counted.EXEMPT
        self._quotas.exempt.record(self._unrecorded_percent())

    def finish(self) -> None:
        """Counts the time of sending the response, which affects the next request."""
        if self._counted is _Counted.CLIENTS:
            percent = self._unrecorded_percent()
            self._quotas.request.record_only(self._user, self._client_id, percent)
        elif self._counted is _Counted.EXEMPT:
            self._quotas.exempt.record(self._unrecorded_percent())

    def waiting(self) -> AbstractContextManager[None]:
        """A context manager for the time in which the connection is muted."""
        return self._throttling_quotas.waiting()

    def _record_time(self) -> int:
        self._counted = _Counted.CLIENTS
        percent = self._unrecorded_percent()
        return self._quotas.request.record(self._user, self._client_id, percent)

    def _unrecorded_percent(self) -> float:
        total_ns = self.loop_time.total_ns
        percent = (total_ns - self._recorded_ns) * _NS_TO_PERCENT
        self._recorded_ns = total_ns
        return percent

    def _throttle(self, quotas: RateQuotas, throttle_ms: int, request_ms: int) -> int:
        self.throttle_ms = max(throttle_ms, request_ms)
        if self.throttle_ms > 0:
            self._throttling_quotas = quotas if throttle_ms > request_ms else self._quotas.request
            self._throttling_quotas.record_throttle(self._user, self._client_id, self.throttle_ms)
        return self.throttle_ms
