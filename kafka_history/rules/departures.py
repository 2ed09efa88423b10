"""What took brokers out of the cluster: deaths, ordered stops, pauses, lost sessions.

A departure has a beginning and an end. An ordered stop begins when the broker says that it is
shutting down, and gives its leaderships away before its process ends; a death begins and ends at
once; a pause begins when the process falls silent, long before its session runs out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafka_history.rules.broker_lives import CLEAN, FAILED_START, BrokerLife, SessionExpiry
from kafka_history.rules.event import Event
from kafka_history.rules.log_dir_failures import FailedLogDir

EXPIRED, PAUSED, DIRECTORY = "session_expired", "paused", "log_dir_failed"
"""The values of ``how``, beside those of the ``ended_by`` of a life."""
CLIENT: Final = frozenset({"zk-timeout", "zk-session"})
"""Lines of ZooKeeper's client that say for how long nothing came, and for how long that may be."""
PAUSE_MS: Final = 1_000
"""So much longer than the session's timeout must ZooKeeper be unheard to prove a pause."""
PINGS: Final = 3
"""ZooKeeper's client gets an answer of the server three times in a session's timeout."""
AWAKE_MS: Final = 200
"""What a process says this little before it notices the silence, it says after waking up."""
FAR_MS: Final = 60_000
"""A loss of the session later than this after waking up has another reason."""
_TIMEOUT: Final = re.compile(r"negotiated timeout = ([0-9]+)")


class ZooKeeperSilence(NamedTuple):
    """A time in which a client of ZooKeeper had no word of its server, too long for one that ran.

    A client that runs gives a silent server up before its session's timeout.
    """

    broker: int
    heard_ms: int
    to_ms: int
    ping_ms: float
    file: str
    line: int


class ProcessPause(NamedTuple):
    """A pause of a process that lasted longer than its ZooKeeper session."""

    broker: int
    from_ms: int
    """Of the silence; known to some seconds."""
    to_ms: int
    file: str
    """Where the broker notices it, as is the line."""
    line: int


class Departure(NamedTuple):
    """What took a broker, or a part of it, out of the cluster."""

    broker: int
    begun_ms: int
    """From when on effects are possible."""
    at_ms: int
    how: str
    since_ms: int | None
    """When the life began that ended; None: it went on."""
    until_ms: int | None
    """When the controller had surely missed it; None: unknown."""
    back_ms: int | None
    """When the broker was there again; None: never."""
    file: str | None
    line: int | None


def silences(events: Iterable[Event]) -> Iterator[ZooKeeperSilence]:
    """Every silence; ``events``, in order: at least those of ``CLIENT``."""
    timeouts: dict[int, int] = {}
    for event in events:
        broker = event.broker_id
        if broker is None or event.kind not in CLIENT:
            continue
        if (negotiated := _TIMEOUT.search(event.text or "")) is not None:
            timeouts[broker] = int(negotiated[1])
        timeout_ms, silent_ms = timeouts.get(broker), event.elapsed_ms
        if timeout_ms is None or silent_ms is None or silent_ms < timeout_ms + PAUSE_MS:
            continue
        if event.says("have not heard from server"):
            heard_ms, ping_ms = event.time_ms - silent_ms, timeout_ms / PINGS
            yield ZooKeeperSilence(broker, heard_ms, event.time_ms, ping_ms, event.file, event.line)


def wrote_within(silence: ZooKeeperSilence, broker: int | None, at_ms: int) -> bool:
    """Whether what a broker wrote then shows that it ran in spite of a silence."""
    return broker == silence.broker and silence.heard_ms < at_ms < silence.to_ms - AWAKE_MS


def pauses(events: Sequence[Event]) -> Iterator[ProcessPause]:
    """Every pause: a silence in which the process wrote nothing either.

    ``events``, in order: at least those of ``CLIENT``, and of the others the last one that was
    :func:`wrote_within` each silence.
    """
    for silence in silences(events):
        last_ms = max(
            (e.time_ms for e in events if wrote_within(silence, e.broker_id, e.time_ms)),
            default=silence.heard_ms,
        )
        # It began behind the last answer of ZooKeeper, and before the next one was due.
        if last_ms <= silence.heard_ms + silence.ping_ms + PAUSE_MS:
            from_ms = max(int(silence.heard_ms + silence.ping_ms / 2), last_ms)
            yield ProcessPause(silence.broker, from_ms, silence.to_ms, silence.file, silence.line)


def with_pauses(
    expiries: Iterable[SessionExpiry], paused: Sequence[ProcessPause]
) -> Iterator[SessionExpiry]:
    """The lost sessions, each with when the pause began that cost it."""
    lost = sorted(expiries, key=lambda each: each.at_ms)
    for at, expiry in enumerate(lost):
        # A pause costs one session: the first that is lost behind its beginning.
        before_ms = max(
            (each.at_ms for each in lost[:at] if each.broker == expiry.broker), default=-1
        )
        causes = (
            pause.from_ms
            for pause in paused
            if pause.broker == expiry.broker
            and before_ms < pause.from_ms <= expiry.at_ms <= pause.to_ms + FAR_MS
        )
        yield expiry._replace(paused_ms=max(causes, default=None))


def departures(
    lives: Iterable[BrokerLife],
    expiries: Iterable[SessionExpiry],
    failed_dirs: Iterable[FailedLogDir],
) -> Iterator[Departure]:
    """Everything that takes a broker out of the cluster.

    ``expiries``: what :func:`with_pauses` gave; ``failed_dirs`` take a part of a broker away.
    """
    joined = (life for life in lives if life.ended_by != FAILED_START)
    in_order = sorted(joined, key=lambda life: (life.broker, life.from_ms))
    for life, following in pairwise([*in_order, None]):
        assert life is not None
        if life.to_ms is None:
            continue
        begun_ms = life.to_ms
        if life.ended_by == CLEAN and life.stopping_ms is not None:
            begun_ms = min(life.stopping_ms, life.to_ms)
        back_ms = None
        if following is not None and following.broker == life.broker:
            # The next process may run before the session of this one has ended.
            back_ms = max(following.from_ms, life.missed_ms or 0)
        yield Departure(
            broker=life.broker,
            begun_ms=begun_ms,
            at_ms=life.to_ms,
            how=life.ended_by,
            since_ms=life.from_ms,
            until_ms=life.missed_ms,
            back_ms=back_ms,
            file=life.end_file,
            line=life.end_line,
        )
    for expiry in expiries:
        noticed_ms = expiry.at_ms if expiry.gone_ms is None else expiry.gone_ms
        # A session that ran out while the process stood still is a consequence of the pause.
        begun_ms = noticed_ms if expiry.paused_ms is None else expiry.paused_ms
        yield Departure(
            broker=expiry.broker,
            begun_ms=begun_ms,
            at_ms=begun_ms,
            how=EXPIRED if expiry.paused_ms is None else PAUSED,
            since_ms=None,
            until_ms=noticed_ms,
            back_ms=expiry.at_ms if expiry.back_ms is None else expiry.back_ms,
            file=expiry.file,
            line=expiry.line,
        )
    for failed in failed_dirs:
        if failed.is_last:
            continue  # the broker died of it: one departure, not two
        # The broker goes on without what was in the directory.
        at_ms = failed.at_ms
        yield Departure(
            failed.broker, at_ms, at_ms, DIRECTORY, None, None, None, failed.file, failed.line
        )
