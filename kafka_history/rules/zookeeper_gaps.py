"""Times in which brokers had no connection to ZooKeeper: a restart, an outage, a cut network.

A gap begins when a broker's client notices that the connection is lost, and ends when its session
is established again, or another in place of one that has expired.  A broker with an authorizer has
two sessions (Kafka's ``AclAuthorizer``): its gap ends when both are back.  Overlapping gaps of
several brokers are one gap: then ZooKeeper itself was away.  A lost connection that a paused
process notices when it wakes up is no gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_history.rules.broker_lives import SessionExpiry
from kafka_history.rules.departures import ProcessPause
from kafka_history.rules.event import Event

KINDS: Final = frozenset({"zk-timeout", "zk-state", "zk-session", "server-life"})
EXPIRY_MS: Final = 60_000
"""A lost session is logged at most this long after the connection is back."""
_EVER: Final = 2**62


class ZooKeeperGap(NamedTuple):
    """A time in which one or more brokers had no connection to ZooKeeper."""

    from_ms: int
    to_ms: int | None
    """None: until the end of the logs."""
    brokers: list[int]
    is_all: bool
    """True: several brokers, or the only one in the logs; then ZooKeeper itself was away."""
    sessions_lost: int
    file: str
    line: int


def zookeeper_gaps(
    events: Sequence[Event],
    pauses: Iterable[ProcessPause],
    expiries: Iterable[SessionExpiry],
    broker_count: int,
) -> Iterator[ZooKeeperGap]:
    """Every gap, by its beginning.

    ``events`` must be in order and hold at least those of ``KINDS``.  ``broker_count``: the number
    of brokers that have logs.
    """
    woken = {(pause.broker, pause.to_ms) for pause in pauses}
    lost = [(each.broker, each.at_ms) for each in expiries if each.paused_ms is None]
    apart = (gap for gap in _of_each_broker(events) if (gap.broker, gap.from_ms) not in woken)
    together: list[list[_Gap]] = []
    end_ms = -1
    for gap in sorted(apart, key=lambda gap: (gap.from_ms, gap.broker, gap.file, gap.line)):
        if gap.from_ms > end_ms:
            together.append([])
        together[-1].append(gap)
        end_ms = max(end_ms, gap.to_ms)
    # A lost session is logged when the connection is back, so it belongs to the latest gap.
    costs = Counter(
        max(
            (at for at, gaps in enumerate(together) if _can_cost(gaps, broker, at_ms)),
            default=None,
        )
        for broker, at_ms in lost
    )
    for at, gaps in enumerate(together):
        first = min(gaps, key=lambda gap: (gap.from_ms, gap.file, gap.line))
        to_ms = max(gap.to_ms for gap in gaps)
        brokers = sorted({gap.broker for gap in gaps})
        yield ZooKeeperGap(
            from_ms=first.from_ms,
            to_ms=to_ms if to_ms < _EVER else None,
            brokers=brokers,
            is_all=len(brokers) > 1 or len(brokers) == broker_count,
            sessions_lost=costs[at],
            file=first.file,
            line=first.line,
        )


class _Gap(NamedTuple):
    """The gap of one broker."""

    broker: int
    from_ms: int
    to_ms: int
    file: str
    line: int


def _can_cost(gaps: Sequence[_Gap], broker: int, at_ms: int) -> bool:
    """Whether a session of the broker that was lost at ``at_ms`` belongs to these gaps."""
    from_ms, to_ms = min(gap.from_ms for gap in gaps), max(gap.to_ms for gap in gaps)
    is_near = from_ms <= at_ms <= to_ms + EXPIRY_MS
    return is_near and any(gap.broker == broker for gap in gaps)


@dataclass
class _Down:
    """A broker without a connection."""

    begin: Event
    lost: dict[str | None, bool] = field(default_factory=dict)
    """By session whether it has expired; None instead of an id where the line says none."""


def _of_each_broker(events: Iterable[Event]) -> Iterator[_Gap]:
    downs: dict[int, _Down] = {}
    for event in events:
        if event.broker_id is None or (is_down := _is_down(event)) is None:
            continue
        session = event.value("session")
        if is_down:
            down = downs.setdefault(event.broker_id, _Down(event))
            down.lost[session] = down.lost.get(session, False) or event.says("has expired")
            if session is None and down.lost[session]:
                # Our brokers do not say whose session has expired: they have but one.
                down.lost = dict.fromkeys(down.lost, True)
        elif (known := downs.get(event.broker_id)) is not None:
            _restore(known.lost, session)
            if not known.lost:
                begin = downs.pop(event.broker_id).begin
                yield _Gap(event.broker_id, begin.time_ms, event.time_ms, begin.file, begin.line)
    for broker, down in downs.items():
        yield _Gap(broker, down.begin.time_ms, _EVER, down.begin.file, down.begin.line)


def _restore(lost: dict[str | None, bool], session: str | None) -> None:
    """Take out of the lost sessions the one that is back, or those that it replaces."""
    expired = [each for each, is_expired in lost.items() if is_expired]
    if session in lost and session is not None:
        replaced = [session, None]
    elif session is not None and expired:
        replaced = [expired[0], None]
    else:
        replaced = list(lost)
    for each in replaced:
        lost.pop(each, None)


def _is_down(event: Event) -> bool | None:
    """True: the connection is lost; False: it is back or no longer needed; None: no statement."""
    match event.kind:
        case "zk-timeout" if event.says(
            "have not heard", "losing socket connection", "Unable to read", "unexpected error",
            "Closing socket connection", "Socket error occurred", "has expired",
        ):  # fmt: skip
            return True
        case "zk-state" if event.says("Disconnected"):
            return True
        case "zk-session" if event.says("Session establishment complete"):
            return False
        case "zk-state" if event.says("SyncConnected"):
            return False
        # The gap of a process ends at the latest when the next process starts.
        case "server-life" if event.ends_with("starting"):
            return False
        case _:
            return None
