"""Changes of in-sync replicas: brokers that left and joined, and minutes with many shrinks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from kafka_history.rules.partition_states import State

STORM_STEP_MS: Final = 60_000
STORM_CHANGES: Final = 20
"""A storm is a minute with at least this many shrinks that leaders asked for."""
COMMON_SHARE: Final = 0.6
"""A follower is common to a storm if it is in at least this share of its shrinks."""
SHRINK, EXPAND = "shrink", "expand"
CONTROLLER, LEADER = "controller", "leader"
_BY_CONTROLLER: Final = ("partition-shrunk-offline", "ctl-isr-new")


class InSyncChange(NamedTuple):
    """A broker that left or joined an ISR."""

    topic: str
    partition: int
    at_ms: int
    change: str
    """``shrink`` or ``expand``."""
    broker: int
    leader: int | None
    by: str
    """``controller``: it removed a dead or stopping replica, or elected a leader.  ``leader``: a
    follower fell behind or caught up."""
    file: str | None
    line: int | None


class Storm(NamedTuple):
    """A minute in which leaders removed many replicas from ISRs.

    ``common_share`` is the share of its shrinks that the most frequent follower has.
    ``common_follower`` is that follower; None: its share is less than :data:`COMMON_SHARE`.
    """

    at_ms: int
    shrinks: int
    partitions: int
    leaders: int
    common_follower: int | None
    common_share: float
    file: str | None
    line: int | None


def isr_changes(states: Iterable[State]) -> Iterator[InSyncChange]:
    """Each broker that left or joined an ISR, given the states of partitions."""
    for state in states:
        before, now = state.previous_isr, state.isr
        if state.is_deleted or before is None or now is None:
            continue
        # A write raises the leader epoch only if the controller made it.
        is_new_epoch = (
            state.is_epoch_told
            and state.previous_epoch is not None
            and state.leader_epoch != state.previous_epoch
        )
        by = CONTROLLER if state.kind in _BY_CONTROLLER or is_new_epoch else LEADER
        for change, some, others in ((SHRINK, before, now), (EXPAND, now, before)):
            for broker in dict.fromkeys(some):
                if broker not in others:
                    yield InSyncChange(
                        state.topic, state.partition, state.time_ms, change, broker, state.leader,
                        by, state.file, state.line,
                    )  # fmt: skip


def isr_storms(changes: Iterable[InSyncChange]) -> Iterator[Storm]:
    """Each minute with many shrinks that leaders asked for."""
    minutes: defaultdict[int, list[InSyncChange]] = defaultdict(list)
    for each in changes:
        if each.change == SHRINK and each.by == LEADER:
            minutes[each.at_ms // STORM_STEP_MS].append(each)
    for asked in minutes.values():
        if len(asked) < STORM_CHANGES:
            continue
        shrinks = Counter(each.broker for each in asked)
        common = min(shrinks, key=lambda broker: (-shrinks[broker], broker))
        share = shrinks[common] / len(asked)
        first = min(asked, key=lambda each: (each.at_ms, each.file or "", each.line or 0))
        yield Storm(
            at_ms=first.at_ms,
            shrinks=len(asked),
            partitions=len({(each.topic, each.partition) for each in asked}),
            leaders=len({each.leader for each in asked} - {None}),
            common_follower=common if share >= COMMON_SHARE else None,
            common_share=float(Decimal(str(share)).quantize(Decimal("0.001"), ROUND_HALF_UP)),
            file=first.file,
            line=first.line,
        )
