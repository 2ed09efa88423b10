"""Why brokers left the cluster: deaths, controlled shutdowns, pauses, lost sessions.

A departure has a beginning and an end. A controlled shutdown begins when the broker logs that it is
shutting down; its leaderships move before its process ends. A death begins and ends at once. A
pause begins when the process stops writing, long before its session expires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kafka_history.rules.broker_lives import (
    CLEAN,
    FAILED_START,
    BrokerLife,
    SessionExpiry,
    session_timeout_ms,
)
from kafka_history.rules.event import Event
from kafka_history.rules.log_dir_failures import FailedLogDir

EXPIRED, PAUSED, DIRECTORY = "session_expired", "paused", "log_dir_failed"
"""Values of ``how``, in addition to those of :attr:`BrokerLife.ended_by`."""
CLIENT: Final = frozenset({"zk-timeout", "zk-session"})
"""ZooKeeper client lines that name the session timeout, or the time without data from ZooKeeper."""
PAUSE_MS: Final = 1_000
"""A silence proves a pause only if it exceeds the session timeout by at least this."""
PINGS: Final = 3
"""The ZooKeeper client gets a response to a ping this many times in a session timeout."""
AWAKE_MS: Final = 200
"""Lines at most this long before the silence is logged were written after the process woke up."""
FAR_MS: Final = 60_000
"""A session lost later than this after the end of a pause was lost for another reason."""


class ZooKeeperSilence(NamedTuple):
    """A time without data from ZooKeeper that is too long for a running client.

    A running client closes a silent connection before its session times out.
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
    """Beginning of the pause, accurate to a few seconds."""
    to_ms: int
    file: str
    """File and line in which the broker logs the silence."""
    line: int


class Departure(NamedTuple):
    """The departure of a broker, or of one of its log directories."""

    broker: int
    begun_ms: int
    """Effects are possible from this moment on."""
    at_ms: int
    how: str
    since_ms: int | None
    """When the process that ended had started; None: the process did not end."""
    until_ms: int | None
    """By when the controller knew that the broker was missing; None: unknown."""
    back_ms: int | None
    """When the broker was back; None: never."""
    file: str | None
    line: int | None


def silences(events: Iterable[Event]) -> Iterator[ZooKeeperSilence]:
    """Each time that a broker got no data from ZooKeeper for its session timeout and a second more.

    ``events`` must be in order, with all events of the kinds in :data:`CLIENT`.  Clients up to
    ZooKeeper 3.5 (Kafka 2.8) write two lines about each.
    """
    timeouts: dict[int, int] = {}
    known_to_ms: dict[int, int] = {}
    for event in events:
        broker = event.broker_id
        if broker is None or event.kind not in CLIENT:
            continue
        if (negotiated_ms := session_timeout_ms(event)) is not None:
            timeouts[broker] = negotiated_ms
        timeout_ms, silent_ms = timeouts.get(broker), event.elapsed_ms
        if timeout_ms is None or silent_ms is None or silent_ms < timeout_ms + PAUSE_MS:
            continue
        heard_ms, ping_ms = event.time_ms - silent_ms, timeout_ms / PINGS
        is_new = heard_ms >= known_to_ms.get(broker, heard_ms)
        if event.says("have not heard from server") and is_new:
            known_to_ms[broker] = event.time_ms
            yield ZooKeeperSilence(broker, heard_ms, event.time_ms, ping_ms, event.file, event.line)


def wrote_within(silence: ZooKeeperSilence, broker: int | None, at_ms: int) -> bool:
    """Whether a line that a broker wrote at ``at_ms`` shows that it ran during the silence."""
    return broker == silence.broker and silence.heard_ms < at_ms < silence.to_ms - AWAKE_MS


def pauses(events: Sequence[Event]) -> Iterator[ProcessPause]:
    """Every pause: a silence in which the process wrote no line either.

    ``events`` must be in order and hold at least those of ``CLIENT`` and, for each silence, the
    last other event for which :func:`wrote_within` is true.
    """
    for silence in silences(events):
        last_ms = max(
            (e.time_ms for e in events if wrote_within(silence, e.broker_id, e.time_ms)),
            default=silence.heard_ms,
        )
        # The pause began after ZooKeeper's last response, and before the next one was due.
        if last_ms <= silence.heard_ms + silence.ping_ms + PAUSE_MS:
            from_ms = max(int(silence.heard_ms + silence.ping_ms / 2), last_ms)
            yield ProcessPause(silence.broker, from_ms, silence.to_ms, silence.file, silence.line)


def with_pauses(
    expiries: Iterable[SessionExpiry], paused: Sequence[ProcessPause]
) -> Iterator[SessionExpiry]:
    """The lost sessions, each with the beginning of the pause that caused it, if any."""
    lost = sorted(expiries, key=lambda each: each.at_ms)
    for at, expiry in enumerate(lost):
        # A pause costs one session: the first one lost after the pause began.
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
    """All departures: ended lives, lost sessions and failed log directories.

    ``expiries``: as :func:`with_pauses` returns them.
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
        # If a pause cost the session, the departure begins with the pause.
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
            continue  # the broker halted: its ended life is this departure already
        # The broker continues without the replicas of this directory.
        at_ms = failed.at_ms
        yield Departure(
            failed.broker, at_ms, at_ms, DIRECTORY, None, None, None, failed.file, failed.line
        )
