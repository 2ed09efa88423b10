"""How long brokers took for the controller's LeaderAndIsr requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from kafka_history.rules.event import Event

FINISHED: Final = "lisr-finished"
SLOW_MS: Final = 1_000


class RequestDurations(NamedTuple):
    """The requests that one broker handled."""

    broker: int | None
    requests: int
    p50_ms: int
    p99_ms: int
    max_ms: int
    slow: int
    """How many took :data:`SLOW_MS` or longer."""
    at_ms: int
    """End of the slowest request; the fields below describe the same request."""
    controller: int | None
    partitions: int | None
    file: str
    line: int


def request_times(events: Sequence[Event]) -> Iterator[RequestDurations]:
    """Sums up the requests of each broker; ``events``: at least those of kind ``FINISHED``.

    Kafka 2.7 and newer log how long a request took. 2.6 logs only its arrival, older versions
    neither.
    """
    finished: defaultdict[int | None, list[tuple[int, Event]]] = defaultdict(list)
    for event in events:
        if event.kind == FINISHED and event.elapsed_ms is not None:
            finished[event.broker_id].append((event.elapsed_ms, event))
    for broker, requests in finished.items():
        times_ms = sorted(took_ms for took_ms, _ in requests)
        _, slowest = max(requests, key=lambda each: (each[0], each[1].time_ms))
        yield RequestDurations(
            broker=broker,
            requests=len(requests),
            p50_ms=times_ms[ceil(len(times_ms) * 0.5) - 1],
            p99_ms=times_ms[ceil(len(times_ms) * 0.99) - 1],
            max_ms=times_ms[-1],
            slow=sum(took_ms >= SLOW_MS for took_ms in times_ms),
            at_ms=slowest.time_ms,
            controller=slowest.controller_id,
            partitions=slowest.count,
            file=slowest.file,
            line=slowest.line,
        )
