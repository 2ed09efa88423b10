"""All kinds of client quotas, and their use by one request.

A client over a quota is answered at once, gets the throttle time in the response, and is not
listened to for that time, whatever version of the API it speaks (KIP-219).  If several quotas are
exceeded, the longest wait counts.

Nothing is recorded before some user or client id has a configuration: without quotas a request
costs the question whether there are any.

What a request takes of ``request_percentage`` is the time for which it held the event loop, in
percent of a second; 100 is all the time that there is.  By the time of the response that is reading
and handling the request.  Encoding the response and sending it is counted with the next one, as
Kafka counts its network threads.

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
    """Every kind of quota.  Lives on the event loop."""

    def __init__(
        self,
        controller_mutation: MutationQuotas,
        windows: QuotaWindows,
        metrics: Metrics,
        now_ms: Callable[[], int],
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """``now_ms``, ``now_ns``: clocks that never go back; the second measures requests."""
        self.controller_mutation = controller_mutation
        self.produce = RateQuotas(PRODUCE, windows, now_ms, metrics)
        self.fetch = RateQuotas(FETCH, windows, now_ms, metrics)
        self.request = RateQuotas(REQUEST, windows, now_ms, metrics)
        self.exempt = metrics.sensor(
            tagged_mbean(METRICS_DOMAIN, REQUEST.name, {}),
            RateSensor("exempt-request-time", now_ms=now_ms),
        )
        self.is_enabled = False
        """Whether a user or client id was ever configured: until the next start, as in Kafka."""
        self._now_ns = now_ns

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """The configuration of ``users/a``, ``clients/b`` or ``users/a/clients/b`` changed."""
        if entity_of(entity_path) is None:
            _log.error("Invalid quota entity path: %s", entity_path)
            return
        self.is_enabled = True
        for quotas in (self.produce, self.fetch, self.request, self.controller_mutation):
            quotas.configure(entity_path, config)

    def begin(self, user: str, client_id: str, size: int) -> RequestUsage | None:
        """Starts a request of so many bytes; None while there are no quotas."""
        if not self.is_enabled:
            return None
        return RequestUsage(self, user, client_id, size, LoopTime(self._now_ns))


class _Counted(Enum):
    """Whether the time of this request is counted already, and against whom."""

    NOT_YET = auto()
    CLIENTS = auto()
    NOBODYS = auto()


class RequestUsage:
    """The quota use of one request.

    Once, when its response is known, the request is :meth:`produced`, :meth:`fetched`,
    :meth:`requested` or :meth:`exempt`; and :meth:`finish` when the response has been sent.
    """

    def __init__(
        self, quotas: QuotaManagers, user: str, client_id: str, size: int, loop_time: LoopTime
    ) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._size = size
        self.loop_time = loop_time
        """The time that tasks spend on this request."""
        self._recorded_ns = 0
        self._counted = _Counted.NOT_YET
        self.throttle_ms = 0
        """How long the client has to wait; 0 until the request is counted."""
        self._blamed = quotas.request

    @property
    def is_counted(self) -> bool:
        return self._counted is not _Counted.NOT_YET

    def most_fetched(self) -> float:
        """The largest size of a Fetch response under the quota; infinite without one."""
        return self._quotas.fetch.most_at_once(self._user, self._client_id)

    def produced(self, *, is_answered: bool) -> int:
        """Counts a Produce request; with ``acks`` 0 only its bytes."""
        bytes_ms = self._quotas.produce.record(self._user, self._client_id, self._size)
        if is_answered:
            request_ms = self._record_time()
        else:
            self.exempt()
            request_ms = 0
        return self._throttle(self._quotas.produce, bytes_ms, request_ms)

    def fetched(self, size: int) -> int:
        """Counts a consumer's Fetch with a response of that size.

        If there is something to wait for, the response has to be empty, and nothing was fetched.
        """
        request_ms = self._record_time()
        bytes_ms = self._quotas.fetch.record(self._user, self._client_id, size)
        if max(bytes_ms, request_ms) > 0:
            self._quotas.fetch.record_only(self._user, self._client_id, -size)
        return self._throttle(self._quotas.fetch, bytes_ms, request_ms)

    def requested(self) -> int:
        """Counts any other request."""
        return self._throttle(self._quotas.request, 0, self._record_time())

    def exempt(self) -> None:
        """The request came from a broker: it is not counted, and brokers are not throttled."""
        self._counted = _Counted.NOBODYS
        self._quotas.exempt.record(self._unrecorded_percent())

    def finish(self) -> None:
        """Counts the time of sending the response, for the next request."""
        if self._counted is _Counted.CLIENTS:
            percent = self._unrecorded_percent()
            self._quotas.request.record_only(self._user, self._client_id, percent)
        elif self._counted is _Counted.NOBODYS:
            self._quotas.exempt.record(self._unrecorded_percent())

    def waiting(self) -> AbstractContextManager[None]:
        """Wraps the time during which the connection is muted."""
        return self._blamed.waiting()

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
            self._blamed = quotas if throttle_ms > request_ms else self._quotas.request
            self._blamed.record_throttle(self._user, self._client_id, self.throttle_ms)
        return self.throttle_ms
