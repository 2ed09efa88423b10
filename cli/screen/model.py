"""What two readings of a cluster say: what has happened between them, and how fast moves go on.

Pure: a reading is a value (:mod:`.reader` takes them), its time is in it.  A part that a
reading lacks is None, and nothing is said of it: silence of a broker or of ZooKeeper is no change
of the cluster.
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
"""So many changes are remembered, the latest ones."""
CHANGES_A_READING: Final = 500
"""So many changes of one reading are kept; the rest is counted in one line."""
RATE_WINDOW_MS: Final = 30_000
"""Rates are over no more than this."""

Name: TypeAlias = tuple[str, int]
"""Topic and partition."""


class BrokerNow(NamedTuple):
    """A live broker; without ZooKeeper neither its epoch nor its age is known."""

    broker_id: int
    host: str | None
    port: int | None
    rack: str | None = None
    broker_epoch: int | None = None
    registered_at_ms: int | None = None


class GroupNow(NamedTuple):
    """A group as its coordinator tells of it."""

    group: str
    coordinator: int
    state: str | None
    protocol_type: str
    partitions: int | None = None
    """With a committed offset; None if the offsets were not asked for, or not given."""
    lag: int | None = None
    """The sum over the partitions whose end is known."""
    unknown: int = 0
    """Partitions whose end is not known: their leader did not answer."""
    note: str | None = None
    """Why there is no lag."""


class QueueNow(NamedTuple):
    """The controller's event queue, from the metrics of its broker."""

    size: int
    median_ms: float | None
    """How long events waited."""
    p99_ms: float | None


@dataclass(frozen=True, repr=False)
class Reading:
    """One look at a cluster; None where a part was not read.

    It has no repr of its fields: asyncio would write down every partition when its loop ends.
    """

    at_ms: int
    took_ms: int = 0
    source: str | None = None
    """Who answered for the partitions: ``ZooKeeper`` or ``brokers``."""
    cluster_id: str | None = None
    controller: ControllerView | None = None
    brokers: Mapping[int, BrokerNow] | None = None
    topics: Mapping[str, UUID | None] | None = None
    """Every topic there is, also those that could not be read."""
    partitions: Mapping[Name, PartitionView] | None = None
    deletions: Mapping[str, int] | None = None
    """Topics to delete, and when that was ordered, ms since 1970."""
    sizes: Mapping[int, Mapping[Name, int]] | None = None
    """By broker that answered: the bytes of each of its replicas."""
    moving_bytes: Mapping[tuple[int, Name], int] | None = None
    """The bytes of replicas that take part in moves, by broker and partition."""
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
    """Something that happened between two readings; the time is that of the later one."""

    at_ms: int
    kind: ChangeKind
    what: str
    text: str
    is_bad: bool = False


def changes(before: Reading, after: Reading) -> list[Change]:
    """What has happened, the cluster first, then topics and partitions by name.

    Several changes of one partition between the two show as one; its epochs tell how many elections
    there were.
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
        return  # one of the two does not know the epoch: nothing can be compared
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
    """The name stands for another topic than before: the ids differ."""
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
        return  # a broker's cache may be older than what ZooKeeper said before
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
    """A partition under reassignment, and how far it is; None where sizes are not known."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    in_sync: int
    """So many of the adding replicas are in sync."""
    copied_bytes: int | None
    total_bytes: int | None
    bytes_per_s: float | None = None
    remaining_s: float | None = None


def moves(now: Reading, then: Reading | None = None) -> list[ReassignmentProgress]:
    """Every reassignment, by name; with an earlier reading also its rate and what time it needs.

    A replica is copied when it is in sync; until then it has as many bytes as its log, at most the
    leader's.
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
    """By broker, by how many bytes a second its logs have grown; deletion makes it negative."""
    seconds = (now.at_ms - then.at_ms) / 1000
    if now.sizes is None or then.sizes is None or seconds <= 0:
        return {}
    return {
        broker: (sum(sizes.values()) - sum(then.sizes[broker].values())) / seconds
        for broker, sizes in now.sizes.items()
        if broker in then.sizes
    }


def lag_rates(now: Reading, then: Reading) -> dict[str, float]:
    """By group, by how many records a second its lag has grown; it catches up below zero."""
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
    """Takes one reading after the other; knows the latest of each part, and what has happened."""

    latest: Reading | None = None
    """The newest reading; a part that it lacks is that of the reading before."""
    stale: dict[str, int] = field(default_factory=dict)
    """Parts that the newest reading lacks, and of when what is shown is, ms since 1970."""
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
        """Take the next reading; the changes that it shows."""
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

        While ZooKeeper is silent brokers may answer; what they said is not said again afterwards.
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
            if part.name in _OWN or getattr(reading, part.name) is not None:
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
        # Only what moves need: the window would hold every partition some ten times.
        slim = Reading(reading.at_ms, partitions=under_way, moving_bytes=reading.moving_bytes)
        self.moves = [self._rated(move, slim) for move in moves(slim)]
        if "moving_bytes" not in self.stale:
            self._since.append(slim)

    def _rated(self, move: ReassignmentProgress, now: Reading) -> ReassignmentProgress:
        """With the rate since the oldest reading in the window that knows this move."""
        if move.copied_bytes is None:
            return move
        name = (move.topic, move.partition)
        for then in self._since:
            if then.at_ms < now.at_ms and name in (then.partitions or {}):
                rated = _with_rate(move, name, now, then)
                if rated.bytes_per_s is not None:
                    return rated
        return move


_OWN: Final = frozenset({"at_ms", "took_ms", "problems", "queue"})
"""Fields of a reading that are never carried over."""
