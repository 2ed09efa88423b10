"""The differences between the brokers' clocks, and whether they matter.

Each broker stamps its lines with its own clock.  A request is handled after it was sent, and before
its response arrives.  So the handling broker's clock is ahead of the sender's by at most
*handled - sent* and at least *handled - response received*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event

SENT, RECEIVED, ANSWERED = "send-lisr-partition", "lisr-received", "recv-response"
KINDS: Final = frozenset({SENT, RECEIVED, ANSWERED})
REQUEST: Final = "LeaderAndIsr"
"""Only responses to this request are used."""
COLUMNS: Final = (
    "file", "line", "time_ms", "kind", "broker_id", "peer", "controller_id", "controller_epoch",
    "correlation_id", "request", "topic", "partition", "leader_epoch", "zk_version", "is_new",
)  # fmt: skip
"""The columns of an event that this module needs."""
DOUBTFUL_MS: Final = 100
"""Clocks that differ by more than this, network time excluded, are doubtful."""
ONE_REQUEST_MS: Final = 5_000
"""Lines with one correlation id that are this far apart belong to two requests.

Correlation ids begin again when a broker comes back.  So do those of two responses.
"""


class ComparedRequest(NamedTuple):
    """A request that both the controller and the broker logged."""

    controller: int
    broker: int
    low_ms: int | None
    """The broker's clock is ahead by at least this; None: the logs lack the response."""
    high_ms: int
    """The broker's clock is ahead by at most this."""


class ClockSkew(NamedTuple):
    """How far the clock of a broker is ahead of that of a controller that sent it requests."""

    broker: int
    controller: int
    pairs: int
    """Requests that were compared."""
    low_ms: int | None
    """The clock is ahead by at least this; None: no lower bound is known."""
    high_ms: int
    """The clock is ahead by at most this."""
    skew_ms: int
    """The middle of ``low_ms`` and ``high_ms``; ``high_ms`` if ``low_ms`` is None."""
    is_consistent: bool
    """False: no single value fits every request, so a clock was set meanwhile."""
    is_doubtful: bool
    """True: the clocks surely differ by more than :data:`DOUBTFUL_MS`, or are inconsistent."""


def clocks(requests: Iterable[ComparedRequest]) -> Iterator[ClockSkew]:
    """The difference between each broker's clock and each controller's clock."""
    found: defaultdict[tuple[int, int], list[ComparedRequest]] = defaultdict(list)
    for request in requests:
        if request.controller != request.broker:
            found[request.controller, request.broker].append(request)
    for (controller, broker), pairs in found.items():
        low_ms = max((each.low_ms for each in pairs if each.low_ms is not None), default=None)
        high_ms = min(each.high_ms for each in pairs)
        is_consistent = low_ms is None or low_ms <= high_ms
        is_ahead = low_ms is not None and low_ms > DOUBTFUL_MS
        yield ClockSkew(
            broker=broker,
            controller=controller,
            pairs=len(pairs),
            low_ms=low_ms,
            high_ms=high_ms,
            skew_ms=high_ms if low_ms is None else int((low_ms + high_ms) / 2),
            is_consistent=is_consistent,
            is_doubtful=is_ahead or high_ms < -DOUBTFUL_MS or not is_consistent,
        )


_Request: TypeAlias = tuple[int | None, int | None, int | None]
"""Controller, broker and controller epoch."""


def compared_requests(events: Iterable[Event]) -> Iterator[ComparedRequest]:
    """The requests that both the controller and the broker logged.

    ``events``, in any order, must hold all those of a sender, receiver and epoch (see
    :func:`ends`).  Responses are logged at TRACE only.
    """
    sent: defaultdict[tuple[object, ...], list[Event]] = defaultdict(list)
    received: defaultdict[tuple[object, ...], list[Event]] = defaultdict(list)
    answered: defaultdict[tuple[_Request, int | None], list[int]] = defaultdict(list)
    for event in events:
        request = ends(event)
        state = (event.topic, event.partition, event.leader_epoch, event.zk_version, event.is_new)
        if event.kind == SENT:
            sent[*request, *state].append(event)
        elif event.kind == RECEIVED:
            received[*request, *state].append(event)
        elif event.kind == ANSWERED and event.request == REQUEST:
            answered[request, event.correlation_id].append(event.time_ms)
    pairs: defaultdict[tuple[_Request, int | None], list[tuple[int, int]]] = defaultdict(list)
    for said, sendings in sent.items():
        receipts = received.get(said, [])
        # A broker that restarted may receive the same state twice: then lines cannot be matched.
        if None not in said and len(sendings) == len(receipts) == 1:
            key = ends(receipts[0]), receipts[0].correlation_id
            pairs[key].append((sendings[0].time_ms, receipts[0].time_ms))
    for key, times in pairs.items():
        (controller, broker, _), correlation_id = key
        sent_ms, handled_ms = zip(*times, strict=True)
        is_one = all(max(each) - min(each) < ONE_REQUEST_MS for each in (sent_ms, handled_ms))
        answers = [] if correlation_id is None else answered[key]
        if not is_one or len(answers) > 1 or controller is None or broker is None:
            continue
        low_ms = max(handled_ms) - answers[0] if answers else None
        yield ComparedRequest(controller, broker, low_ms, min(handled_ms) - max(sent_ms))


def ends(event: Event) -> _Request:
    """The controller, the broker and the controller epoch of the request in a line."""
    if event.kind == RECEIVED:
        return event.controller_id, event.broker_id, event.controller_epoch
    return event.broker_id, event.peer, event.controller_epoch
