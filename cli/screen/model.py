"""Compares two readings of a cluster: what has changed between them, and how fast moves go on.

Pure: a reading is a value with its time in it (:mod:`.reader` takes them).  A part that was not
read is None and yields no changes, so an unanswered request is no change of the cluster.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kafka_common.model import NO_LEADER
from zkcontroller_cli.znodes.cluster_view import ControllerView
from zkcontroller_cli.znodes.partitions import PartitionView

CHANGES_KEPT: Final = 2_000
"""The number of latest changes that are kept."""
CHANGES_A_READING: Final = 500
"""The most changes of one reading that are kept; the rest is counted in one line."""
RATE_WINDOW_MS: Final = 30_000
"""The longest time over which the rate of a move is measured."""

Name: TypeAlias = tuple[str, int]
"""Topic and partition."""


class BrokerNow(NamedTuple):
    """A live broker; without ZooKeeper its epoch and its registration time are None."""

    broker_id: int
    host: str | None
    port: int | None
    rack: str | None = None
    broker_epoch: int | None = None
    registered_at_ms: int | None = None


class GroupNow(NamedTuple):
    """A group as its coordinator describes it."""

    group: str
    coordinator: int
    state: str | None
    protocol_type: str
    partitions: int | None = None
    """The number of partitions with a committed offset; None if not asked for, or refused."""
    lag: int | None = None
    """The sum in records over the partitions whose end is known; None if not asked for."""
    unknown: int = 0
    """The number of partitions whose high watermark is not known."""
    note: str | None = None
    """Why there is no lag; None if there is one."""


class QueueNow(NamedTuple):
    """The controller's event queue, from the metrics of its broker."""

    size: int
    median_ms: float | None
    """The median time that events waited in the queue; None if not known."""
    p99_ms: float | None


@dataclass(frozen=True, repr=False)
class Reading:
    """One reading of a cluster; a part that was not read is None.

    It has no repr of its fields, as asyncio would write out every partition when its loop ends.
    """

    at_ms: int
    took_ms: int = 0
    source: str | None = None
    """Where the partitions were read: ``ZooKeeper`` or ``brokers``."""
    cluster_id: str | None = None
    controller: ControllerView | None = None
    brokers: Mapping[int, BrokerNow] | None = None
    topics: Mapping[str, UUID | None] | None = None
    """The id of every topic; None if it has no id, or could not be read."""
    partitions: Mapping[Name, PartitionView] | None = None
    deletions: Mapping[str, int] | None = None
    """Topics to delete, and when the deletion was requested, ms since 1970."""
    sizes: Mapping[int, Mapping[Name, int]] | None = None
    """By broker that answered, the size in bytes of each of its replicas."""
    moving_bytes: Mapping[tuple[int, Name], int] | None = None
    """The size in bytes of leaders and added replicas in moves, by broker and partition."""
    groups: Sequence[GroupNow] | None = None
    queue: QueueNow | None = None
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""


class ChangeKind(StrEnum):
    """What a change is about."""

    CONTROLLER = "controller"
    BROKER = "broker"
    TOPIC = "topic"
    LEADER = "leader"
    ISR = "isr"
    MOVE = "move"
    DELETION = "deletion"


class Change(NamedTuple):
    """A change of the cluster between two readings; ``at_ms`` is the time of the later one."""

    at_ms: int
    kind: ChangeKind
    what: str
    text: str
    is_bad: bool = False


def changes(before: Reading, after: Reading) -> list[Change]:
    """The changes between two readings: the cluster's first, then those of topics and partitions.

    Several changes of one partition between the readings appear as one change; its leader epochs
    show how many elections there were.
    """
    at_ms = after.at_ms
    found = [
        *_of_controller(before, after),
        *_of_brokers(before, after),
        *_of_deletions(before, after),
        *_of_topics(before, after),
        *_of_partitions(before, after),
    ]
    return [change._replace(at_ms=at_ms) for change in found]


def _change(kind: ChangeKind, what: str, text: str, *, is_bad: bool = False) -> Change:
    return Change(0, kind, what, text, is_bad)


def _of_controller(before: Reading, after: Reading) -> Iterator[Change]:
    was, now = before.controller, after.controller
    if was is None or now is None:
        return
    epochs = ""
    if was.controller_epoch is not None and now.controller_epoch is not None:
        if was.controller_epoch != now.controller_epoch:
            epochs = f", epoch {was.controller_epoch} → {now.controller_epoch}"
    elif was.controller_id == now.controller_id:
        return  # one reading has no epoch: a new election of the same broker cannot be seen
    if now.controller_id is None:
        if was.controller_id is not None:
            yield _change(
                ChangeKind.CONTROLLER,
                "controller",
                f"{was.controller_id} → none{epochs}",
                is_bad=True,
            )
    elif was.controller_id != now.controller_id:
        was_id = "none" if was.controller_id is None else was.controller_id
        yield _change(
            ChangeKind.CONTROLLER, "controller", f"{was_id} → {now.controller_id}{epochs}"
        )
    elif epochs or was.elected_at_ms != now.elected_at_ms:
        yield _change(
            ChangeKind.CONTROLLER, "controller", f"{now.controller_id} elected again{epochs}"
        )


def _of_brokers(before: Reading, after: Reading) -> Iterator[Change]:
    if before.brokers is None or after.brokers is None:
        return
    for broker_id in sorted(before.brokers.keys() | after.brokers.keys()):
        was, now = before.brokers.get(broker_id), after.brokers.get(broker_id)
        what = f"broker {broker_id}"
        if now is None:
            yield _change(ChangeKind.BROKER, what, "gone", is_bad=True)
        elif was is None:
            yield _change(ChangeKind.BROKER, what, "registered")
        elif None not in (was.broker_epoch, now.broker_epoch) and (
            was.broker_epoch != now.broker_epoch
        ):
            yield _change(ChangeKind.BROKER, what, "gone and registered again")


def _of_deletions(before: Reading, after: Reading) -> Iterator[Change]:
    if before.deletions is None or after.deletions is None:
        return
    for topic in sorted(after.deletions.keys() - before.deletions.keys()):
        yield _change(ChangeKind.DELETION, topic, "deletion ordered")
    for topic in sorted(before.deletions.keys() - after.deletions.keys()):
        if after.topics is not None and topic in after.topics:
            yield _change(
                ChangeKind.DELETION, topic, "deletion no longer ordered, the topic stands"
            )


def _of_topics(before: Reading, after: Reading) -> Iterator[Change]:
    if before.topics is None or after.topics is None:
        return
    had, has = _partition_counts(before), _partition_counts(after)
    for topic in sorted(before.topics.keys() | after.topics.keys()):
        count = _counted(has.get(topic, 0))
        if topic not in after.topics:
            yield _change(ChangeKind.TOPIC, topic, "deleted")
        elif topic not in before.topics:
            yield _change(ChangeKind.TOPIC, topic, f"created{count and f', {count}'}")
        elif _is_another(topic, before, after):
            yield _change(
                ChangeKind.TOPIC, topic, f"deleted and created again{count and f', {count}'}"
            )
        elif had.get(topic) and has.get(topic) and had[topic] != has[topic]:
            yield _change(ChangeKind.TOPIC, topic, f"{count}, had {had[topic]}")


def _is_another(topic: str, before: Reading, after: Reading) -> bool:
    """Whether the topic was deleted and created again, so that its id differs."""
    was = (before.topics or {}).get(topic)
    now = (after.topics or {}).get(topic)
    return was is not None and now is not None and was != now


def _counted(count: int) -> str:
    return "" if not count else "1 partition" if count == 1 else f"{count} partitions"


def _partition_counts(reading: Reading) -> Mapping[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for topic, _ in reading.partitions or ():
        counts[topic] += 1
    return counts


def _of_partitions(before: Reading, after: Reading) -> Iterator[Change]:
    if before.partitions is None or after.partitions is None or before.source != after.source:
        return  # a broker's cache may be older than an earlier reading of ZooKeeper
    others: dict[str, bool] = {}
    for name, now in after.partitions.items():
        was = before.partitions.get(name)
        if was is None or was is now or was == now:
            continue
        topic = name[0]
        if topic not in others:
            others[topic] = _is_another(topic, before, after)
        if not others[topic]:
            yield from _of_partition(f"{topic}-{name[1]}", was, now)


def _of_partition(what: str, was: PartitionView, now: PartitionView) -> Iterator[Change]:
    if was.state is not None and now.state is not None:
        yield from _of_leader(
            what,
            (was.state.leader, was.state.leader_epoch),
            (now.state.leader, now.state.leader_epoch),
        )
        old, new = was.state.in_sync_replicas, now.state.in_sync_replicas
        if set(old) != set(new):
            is_bad = not set(old) <= set(new)
            yield _change(ChangeKind.ISR, what, f"ISR {_ids(old)} → {_ids(new)}", is_bad=is_bad)
    if was.assignment == now.assignment:
        return
    old_ones, new_ones = was.assignment, now.assignment
    if new_ones.is_being_reassigned:
        if (old_ones.adding_replicas, old_ones.removing_replicas) != (
            new_ones.adding_replicas,
            new_ones.removing_replicas,
        ):
            parts = [
                f"{word} {_ids(those)}"
                for word, those in (
                    ("adding", new_ones.adding_replicas),
                    ("removing", new_ones.removing_replicas),
                )
                if those
            ]
            yield _change(ChangeKind.MOVE, what, f"reassignment: {', '.join(parts)}")
        return
    if old_ones.is_being_reassigned:
        is_done = set(new_ones.replicas) == set(old_ones.target_replicas)
        word = "reassigned" if is_done else "reassignment ended otherwise"
        yield _change(ChangeKind.MOVE, what, f"{word}: replicas {_ids(new_ones.replicas)}")
    else:
        text = f"replicas {_ids(old_ones.replicas)} → {_ids(new_ones.replicas)}"
        yield _change(ChangeKind.MOVE, what, text)


def _of_leader(what: str, was: tuple[int, int], now: tuple[int, int]) -> Iterator[Change]:
    if was == now:
        return
    (old, old_epoch), (new, new_epoch) = was, now
    epochs = "" if old_epoch == new_epoch else f", epoch {old_epoch} → {new_epoch}"
    if old == new:
        yield _change(ChangeKind.LEADER, what, f"leader {_leader(new)} stays{epochs}")
        return
    text = f"leader {_leader(old)} → {_leader(new)}{epochs}"
    yield _change(ChangeKind.LEADER, what, text, is_bad=new == NO_LEADER)


def _leader(broker_id: int) -> str:
    return "none" if broker_id == NO_LEADER else str(broker_id)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


class ReassignmentProgress(NamedTuple):
    """The progress of a partition's reassignment; None for bytes and rates that are not known."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    in_sync: int
    """The number of adding replicas that are in sync."""
    copied_bytes: int | None
    total_bytes: int | None
    bytes_per_s: float | None = None
    remaining_s: float | None = None


def moves(now: Reading, then: Reading | None = None) -> list[ReassignmentProgress]:
    """Every reassignment, by topic and partition.

    With an earlier reading ``then`` it has the rate and the remaining time.  An in-sync replica
    counts as fully copied; another one with the size of its log, at most the leader's.
    """
    found = []
    for name, view in (now.partitions or {}).items():
        if not view.assignment.is_being_reassigned:
            continue
        move = _move(name, view, now.moving_bytes or {})
        if then is not None and then.at_ms < now.at_ms and move.copied_bytes is not None:
            move = _with_rate(move, name, now, then)
        found.append(move)
    return sorted(found)


def _move(
    name: Name, view: PartitionView, sizes: Mapping[tuple[int, Name], int]
) -> ReassignmentProgress:
    adding = view.assignment.adding_replicas
    state = view.state
    in_sync = [b for b in adding if state is not None and b in state.in_sync_replicas]
    size = None if state is None else sizes.get((state.leader, name))
    copied, total = None, None
    if size is not None:
        behind = {b: sizes.get((b, name)) for b in adding if b not in in_sync}
        if None not in behind.values():
            total = size * len(adding)
            copied = size * len(in_sync) + sum(min(each or 0, size) for each in behind.values())
    return ReassignmentProgress(
        *name,
        view.assignment.replicas,
        adding,
        view.assignment.removing_replicas,
        len(in_sync),
        copied,
        total,
    )


def _with_rate(
    move: ReassignmentProgress, name: Name, now: Reading, then: Reading
) -> ReassignmentProgress:
    view = (then.partitions or {}).get(name)
    if view is None or view.assignment.adding_replicas != move.adding_replicas:
        return move
    earlier = _move(name, view, then.moving_bytes or {}).copied_bytes
    assert move.copied_bytes is not None, "asked before"
    if earlier is None or move.total_bytes is None:
        return move
    rate = max(0.0, (move.copied_bytes - earlier) * 1000 / (now.at_ms - then.at_ms))
    left = move.total_bytes - move.copied_bytes
    remaining = 0.0 if left == 0 else left / rate if rate else None
    return move._replace(bytes_per_s=rate, remaining_s=remaining)


def growth(now: Reading, then: Reading) -> dict[int, float]:
    """By broker, the growth of its logs in bytes per second; negative after deletions."""
    seconds = (now.at_ms - then.at_ms) / 1000
    if now.sizes is None or then.sizes is None or seconds <= 0:
        return {}
    return {
        broker: (sum(sizes.values()) - sum(then.sizes[broker].values())) / seconds
        for broker, sizes in now.sizes.items()
        if broker in then.sizes
    }


def lag_rates(now: Reading, then: Reading) -> dict[str, float]:
    """By group, the growth of its lag in records per second; negative when it catches up."""
    seconds = (now.at_ms - then.at_ms) / 1000
    if now.groups is None or then.groups is None or seconds <= 0:
        return {}
    earlier = {each.group: each for each in then.groups}
    return {
        each.group: (each.lag - was.lag) / seconds
        for each in now.groups
        if each.lag is not None
        and (was := earlier.get(each.group)) is not None
        and was.lag is not None
        and (was.partitions, was.unknown) == (each.partitions, each.unknown)
    }


@dataclass
class Monitor:
    """Takes one reading after the other; keeps the latest value of each part, and the changes."""

    latest: Reading | None = None
    """The newest reading; a part that it lacks is taken from the reading before."""
    stale: dict[str, int] = field(default_factory=dict)
    """By part that the newest reading lacks, the time of the shown value, ms since 1970."""
    log: deque[Change] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    """The latest changes, the newest last."""
    growth: Mapping[int, float] = field(default_factory=dict)
    lag_rates: Mapping[str, float] = field(default_factory=dict)
    moves: Sequence[ReassignmentProgress] = ()
    _baselines: dict[str | None, Reading] = field(default_factory=dict)
    """The last reading of each source."""
    _since: deque[Reading] = field(default_factory=deque)
    _sized: Reading | None = None
    _grouped: Reading | None = None

    def take(self, reading: Reading) -> list[Change]:
        """Take the next reading, and return the changes that it shows."""
        merged = reading if self.latest is None else self._merged(self.latest, reading)
        found = self._changes(merged)
        self._log(found, reading.at_ms)
        if reading.sizes is not None:
            if self._sized is not None:
                self.growth = growth(reading, self._sized)
            self._sized = replace(reading, partitions=None)
        if reading.groups is not None:
            if self._grouped is not None:
                self.lag_rates = lag_rates(reading, self._grouped)
            self._grouped = replace(reading, partitions=None)
        self._take_moves(merged)
        self.latest = self._baselines[merged.source] = merged
        return found

    def _changes(self, reading: Reading) -> list[Change]:
        """The changes since the last reading of the same source.

        If brokers were read while ZooKeeper did not answer, changes that their readings showed are
        not repeated.
        """
        before = self._baselines.get(reading.source)
        if before is None:
            return []
        found = changes(before, reading)
        if before is not self.latest:
            said = {change[1:] for change in self.log if change.at_ms > before.at_ms}
            found = [change for change in found if change[1:] not in said]
        return found

    def _merged(self, before: Reading, reading: Reading) -> Reading:
        kept = {}
        for part in fields(reading):
            if part.name in _NEVER_CARRIED_OVER or getattr(reading, part.name) is not None:
                self.stale.pop(part.name, None)
            elif (value := getattr(before, part.name)) is not None:
                self.stale.setdefault(part.name, before.at_ms)
                kept[part.name] = value
        return replace(reading, **kept)

    def _log(self, found: Sequence[Change], at_ms: int) -> None:
        self.log.extend(found[:CHANGES_A_READING])
        if left := found[CHANGES_A_READING:]:
            counts: defaultdict[ChangeKind, int] = defaultdict(int)
            for change in left:
                counts[change.kind] += 1
            text = ", ".join(f"{count} of kind {kind}" for kind, count in counts.items())
            first = left[0]
            self.log.append(Change(at_ms, first.kind, f"{len(left)} more", text))

    def _take_moves(self, reading: Reading) -> None:
        while self._since and self._since[0].at_ms < reading.at_ms - RATE_WINDOW_MS:
            self._since.popleft()
        under_way = {
            name: view
            for name, view in (reading.partitions or {}).items()
            if view.assignment.is_being_reassigned
        }
        # Keep only partitions that move: else the window would hold all partitions ten times.
        slim = Reading(reading.at_ms, partitions=under_way, moving_bytes=reading.moving_bytes)
        self.moves = [self._rated(move, slim) for move in moves(slim)]
        if "moving_bytes" not in self.stale:
            self._since.append(slim)

    def _rated(self, move: ReassignmentProgress, now: Reading) -> ReassignmentProgress:
        """The move with its rate since the oldest reading in the window that has it."""
        if move.copied_bytes is None:
            return move
        name = (move.topic, move.partition)
        for then in self._since:
            if then.at_ms < now.at_ms and name in (then.partitions or {}):
                rated = _with_rate(move, name, now, then)
                if rated.bytes_per_s is not None:
                    return rated
        return move


_NEVER_CARRIED_OVER: Final = frozenset({"at_ms", "took_ms", "problems", "queue"})
"""Fields of a reading that are never carried over."""
