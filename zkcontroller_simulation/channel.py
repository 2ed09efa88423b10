"""A controller's channel to one broker: a queue, and one request that is sent until it succeeds.

Source: Kafka ``RequestSendThread``: a request that fails is sent again after 100 ms, without limit;
until the channel is removed, and then the queued requests are lost.  A request that is already on
its way to the broker still arrives, even if the controller is dead by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zkcontroller.core.broker_requests import event_for_response
from zkcontroller.core.effects import SendControlRequest
from zkcontroller_simulation.control_requests import ReceivedStopReplica, decode
from zkcontroller_simulation.timeline import Lane

if TYPE_CHECKING:
    from zkcontroller_simulation.process import BrokerProcess
    from zkcontroller_simulation.world import World

RETRY_MS: Final = 100
REQUEST_TIMEOUT_MS: Final = 30_000
NAMES: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}


class Channel:
    """The channel from the controller in ``owner`` to any incarnation of broker ``broker_id``."""

    def __init__(self, world: World, owner: BrokerProcess, broker_id: int) -> None:
        self._world = world
        self._owner = owner
        self._broker_id = broker_id
        self._queue: deque[SendControlRequest] = deque()
        self._to_broker = Lane(world.timeline)
        self._from_broker = Lane(world.timeline)
        self._attempt = 0  # a response to an earlier attempt is ignored
        self._is_busy = False
        self.is_closed = False

    @property
    def unanswered(self) -> Sequence[SendControlRequest]:
        """The request in flight, and those behind it."""
        return tuple(self._queue)

    def put(self, send: SendControlRequest) -> None:
        """Queues a request behind the others."""
        self._queue.append(send)
        self._next()

    def close(self) -> None:
        """Drops the queued requests and ignores every later response."""
        self.is_closed = True
        self._attempt += 1
        self._queue.clear()

    def _next(self) -> None:
        if self._queue and not self._is_busy and not self.is_closed:
            self._is_busy = True
            self._transmit()

    def _transmit(self) -> None:
        timeline, weather = self._world.timeline, self._world.weather
        self._attempt += 1
        attempt, send = self._attempt, self._queue[0]
        if timeline.happens(weather.lost_request):
            self._retry_later(attempt)
            return
        delay_ms = timeline.within(weather.network_delay_ms)
        self._to_broker.send(delay_ms, lambda: self._arrive(attempt, send))
        timeline.after(
            REQUEST_TIMEOUT_MS,
            lambda: self._owner.run(lambda: self._retry(attempt)),
            background=True,
        )

    def _arrive(self, attempt: int, send: SendControlRequest) -> None:
        target = self._world.living.get(self._broker_id)
        if target is None or not target.is_listening:
            self._retry_later(attempt)
        else:
            target.run(lambda: self._handle(target, attempt, send))

    def _handle(self, target: BrokerProcess, attempt: int, send: SendControlRequest) -> None:
        timeline, weather = self._world.timeline, self._world.weather
        request = decode(send.api_key, send.api_version, b"".join(send.body))
        if isinstance(request, ReceivedStopReplica) and timeline.happens(weather.partial_answer):
            known = {tp: each for tp, each in request.partitions.items() if timeline.happens(0.5)}
            timeline.tell(f"{target.name} overlooks {len(request.partitions) - len(known)} of them")
            request = replace(request, partitions=known)
        error, body = target.broker.handle(request)
        if self._world.observer is not None:
            self._world.observer.request_arrives(target, send, error)
        name = NAMES[send.api_key]
        timeline.tell(
            f"{target.name} gets {name} of controller {self._owner.broker_id} "
            f"epoch {send.controller_epoch} for {len(request.partitions)} partitions"
            + (f": refused with {error}" if error else "")
        )
        if timeline.happens(weather.lost_response):
            self._retry_later(attempt)
            return
        delay_ms = timeline.within(weather.network_delay_ms)
        self._from_broker.send(
            delay_ms, lambda: self._owner.run(lambda: self._answered(attempt, send, body))
        )

    def _answered(self, attempt: int, send: SendControlRequest, body: bytes) -> None:
        if attempt != self._attempt or self.is_closed:
            return
        self._queue.popleft()
        self._is_busy = False
        event = event_for_response(send, body)
        if event is not None:
            self._owner.put(event)
        self._next()

    def _retry_later(self, attempt: int) -> None:
        self._world.timeline.after(RETRY_MS, lambda: self._owner.run(lambda: self._retry(attempt)))

    def _retry(self, attempt: int) -> None:
        if attempt == self._attempt and self._is_busy and not self.is_closed:
            self._transmit()
