"""Leaders that were dead before the controller knew it.

The controller elects another leader only after the dead leader's session has timed out. Until then
the state of the partition still names the dead leader, but no client can write to the partition. So
the time without a leader begins with the death, not with the controller's reaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from kafka_history.rules.departures import Departure
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State, incarnations

DEAD: Final = ("killed", "lost", "clean_shutdown", "paused")
"""Departures after which a broker no longer serves; one that only lost its session still does."""
CAUSES: Final = {
    "killed": "died",
    "lost": "went away",
    "clean_shutdown": "was stopped",
    "open": "was stopped",
    "paused": "was paused",
    "log_dir_failed": "lost a log directory",
    "session_expired": "lost its ZooKeeper session",
}
LEADER_KIND: Final = "leader-starts"
RETURN_MS: Final = 2_000
"""The controller may still react to a departure this long after the broker is back."""
EVER: Final = 2**62


class Window(NamedTuple):
    """A time in which a partition had no leader."""

    topic: str
    partition: int
    incarnation: int | None
    from_ms: int
    noticed_ms: int | None
    """When the controller noticed that there was no leader; None: it did not."""
    cause: str
    """Why there was no leader, such as ``broker 3 died``."""
    cause_broker: int | None
    cause_ms: int | None
    next_leader: int | None
    next_epoch: int | None
    end_file: str | None
    end_line: int | None
    file: str | None
    line: int | None
    to_ms: int | None
    """None: there is no leader when the logs end."""


def in_words(broker: int, how: str) -> str | None:
    """A departure in words, such as ``broker 3 died``; None for other values of ``how``."""
    return f"broker {broker} {CAUSES[how]}" if how in CAUSES else None


def dead_leaders(
    states: Iterable[State], events: Sequence[Event], gone: Iterable[Departure]
) -> Iterator[Window]:
    """The spans in which the leader of one partition was dead, stopped or paused.

    ``events``: those of ``LEADER_KIND`` about this partition.
    """
    dead = [each for each in gone if each.how in DEAD]
    for _, its in incarnations(states):
        for state, following in zip_longest(its, its[1:]):
            for lost in dead:
                if lost.broker == state.leader and _is_lost_in(state, following, lost):
                    window = _window(state, following, lost, events)
                    if window.to_ms is None or window.to_ms > window.from_ms:
                        yield window


def _is_lost_in(state: State, following: State | None, lost: Departure) -> bool:
    """Whether the broker was away while the state named it as leader."""
    return (
        (following is None or lost.at_ms < following.time_ms)
        and (lost.back_ms is None or state.time_ms < lost.back_ms)
        # A controller that knows the broker is gone does not elect it. But it may write a state
        # for another replica before it replaces the leader.
        and (
            lost.until_ms is None
            or state.time_ms <= lost.until_ms
            or state.leader == state.previous_leader
        )
    )


def _window(
    state: State, following: State | None, lost: Departure, events: Iterable[Event]
) -> Window:
    back_ms, late_ms = lost.back_ms, 0
    if back_ms is not None:
        # A broker that is back leads again when it logs so; this needs no new state.
        starts = [
            event.time_ms
            for event in events
            if event.kind == LEADER_KIND
            and event.broker_id == lost.broker
            and event.time_ms > lost.at_ms
        ]
        back_ms = max(back_ms, min(starts, default=back_ms))
        # The controller may still be about to elect another leader.
        late_ms = 0 if starts else RETURN_MS
    if following is not None and back_ms is not None and following.time_ms > back_ms + late_ms:
        following = None
    to_ms = back_ms if following is None else following.time_ms
    next_leader = None if to_ms is None else lost.broker
    evidence: Departure | State = lost if following is None else following
    return Window(
        topic=state.topic,
        partition=state.partition,
        incarnation=state.incarnation,
        from_ms=max(state.time_ms, lost.at_ms),
        noticed_ms=None if following is None else following.time_ms,
        cause=in_words(lost.broker, lost.how) or "",
        cause_broker=lost.broker,
        cause_ms=lost.begun_ms,
        next_leader=next_leader if following is None else following.leader,
        next_epoch=None if following is None else following.leader_epoch,
        end_file=None if following is None else following.file,
        end_line=None if following is None else following.line,
        file=evidence.file,
        line=evidence.line,
        to_ms=to_ms,
    )
