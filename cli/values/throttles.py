"""Throttles of moves: which configurations a move needs, and what remains when it has ended.

Pure.  A move is throttled by a rate on every broker that takes part, and by two lists on the topic:
the replicas that send (``leader.replication.throttled.replicas``, the replicas before the move) and
those that fetch (``follower.…``, the new ones), as ``partition:broker`` pairs.  What stands in a
list already stays there, whatever wrote it; the pairs of partitions that do not move are taken out
again, and no others.

Source: KIP-73, Kafka ``ReassignPartitionsCommand`` (which overwrites the lists, and deletes them).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC_KEYS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
BROKER_KEYS: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
EVERY_REPLICA: Final = "*"

Replicas = tuple[int, ...]


class MovingReplicas(NamedTuple):
    """The replicas that take part in the move of one partition."""

    sources: frozenset[int]
    destinations: frozenset[int]


class ConfigEdit(NamedTuple):
    """One key of a topic, or of a broker, that changes."""

    topic: str | None
    broker_id: int | None
    key: str
    before: str | None
    value: str | None
    """None: the key is deleted."""

    @property
    def where(self) -> str:
        """The topic or the broker."""
        return f"broker {self.broker_id}" if self.topic is None else f"topic {self.topic}"

    @property
    def text(self) -> str:
        """As it is shown before it is sent."""
        if self.value is None:
            return f"{self.where}: delete {self.key} (was {self.before or 'empty'})"
        was = "" if self.before in (None, self.value) else f" (was {self.before or 'empty'})"
        return f"{self.where}: {self.key}={self.value or 'empty'}{was}"


@dataclass
class StandingThrottles:
    """What topics and brokers have now: by key its value, where it is set on them."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, dict[str, str]] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    """Brokers whose configuration could not be read, and why."""


class ThrottleRemoval(NamedTuple):
    """What is to be changed to end a throttle, and what stays for a reason."""

    edits: list[ConfigEdit]
    waiting: list[str]
    """Rates that other moves need until they have ended."""
    foreign: list[str]
    """What no move has set, and so none takes away."""


def moving_replicas(
    current: Replicas, adding: Replicas, target: Replicas | None = None
) -> MovingReplicas:
    """Who sends and who fetches.

    ``current`` includes ``adding``, the new replicas of a move that is under way.  ``target`` is
    that of a move which is to begin; None: the one under way goes on.
    """
    sources = frozenset(current) - frozenset(adding)
    goal = frozenset(adding if target is None else target)
    return MovingReplicas(sources, goal - sources)


def throttle_edits(
    moving: Mapping[NamedPartition, MovingReplicas],
    standing: StandingThrottles,
    rate: int,
    *,
    ended: Set[NamedPartition] = frozenset(),
) -> list[ConfigEdit]:
    """What throttles these moves at ``rate`` bytes a second, without what stands so already.

    The pairs of ``ended`` partitions are taken out of the lists.
    """
    edits = []
    moving_by_topic: defaultdict[str, dict[int, MovingReplicas]] = defaultdict(dict)
    for (topic, partition), replicas in moving.items():
        moving_by_topic[topic][partition] = replicas
    gone_by_topic = _by_topic(ended)
    for topic in dict.fromkeys((*moving_by_topic, *sorted(gone_by_topic))):
        now = standing.topics.get(topic, {})
        for key, side in ((LEADER_REPLICAS, "sources"), (FOLLOWER_REPLICAS, "destinations")):
            wanted = {
                f"{partition}:{broker}"
                for partition, replicas in moving_by_topic.get(topic, {}).items()
                for broker in getattr(replicas, side)
            }
            value = _merged(_without(now.get(key), gone_by_topic.get(topic, set())), wanted)
            edits.append(ConfigEdit(topic, None, key, now.get(key), value or None))
    brokers = sorted({b for each in moving.values() for b in each.sources | each.destinations})
    for broker in brokers:
        edits += _rate_edits(standing, broker, (LEADER_RATE, FOLLOWER_RATE), rate)
    return [each for each in edits if each.before != each.value]


def log_dir_throttle_edits(
    brokers: Iterable[int], standing: StandingThrottles, rate: int
) -> list[ConfigEdit]:
    """What throttles moves between log directories of these brokers."""
    edits = [
        edit
        for broker in sorted(brokers)
        for edit in _rate_edits(standing, broker, (LOG_DIR_RATE,), rate)
    ]
    return [each for each in edits if each.before != each.value]


def removal_of(
    ended: Set[NamedPartition],
    others: Set[NamedPartition],
    standing: StandingThrottles,
    broker_keys: Sequence[str] = BROKER_KEYS,
) -> ThrottleRemoval:
    """What ends the throttle of partitions that do not move.

    ``others`` are being moved: while there are any, the rates of brokers stay.  ``broker_keys``:
    the rates that are taken away.
    """
    edits: list[ConfigEdit] = []
    waiting: list[str] = []
    foreign: list[str] = []
    gone_by_topic = _by_topic(ended)
    for topic, now in sorted(standing.topics.items()):
        gone = gone_by_topic.get(topic, set())
        for key, value in now.items():
            if gone and value.strip() == EVERY_REPLICA:
                foreign.append(f"topic {topic}: {key}=* names every replica, and is no move's own")
                continue
            left = _without(value, gone)
            if left != value:
                edits.append(ConfigEdit(topic, None, key, value, left or None))
    rates = [
        ConfigEdit(None, broker, key, value, None)
        for broker, now in sorted(standing.brokers.items())
        for key, value in now.items()
        if key in broker_keys
    ]
    if others and rates:
        first = min(others)
        waiting += [f"{each.where}: {each.key}={each.before}" for each in rates]
        waiting.append(
            f"these rates stay while {len(others)} other partitions are being moved, "
            f"{first.topic}-{first.partition} among them"
        )
    else:
        edits += rates
    return ThrottleRemoval(edits, waiting, foreign)


def partitions_throttled_from(standing: StandingThrottles, broker: int) -> set[NamedPartition]:
    """The partitions of which a list names the replica on that broker as a source."""
    return {
        NamedPartition(topic, int(partition))
        for topic, now in standing.topics.items()
        for pair in _pairs(now.get(LEADER_REPLICAS))
        for partition, colon, source in [pair.partition(":")]
        if colon and partition.isdecimal() and source == str(broker)
    }


def throttle_lines(standing: StandingThrottles) -> Iterator[str]:
    """Every throttle that stands, a line each."""
    for broker, now in sorted(standing.brokers.items()):
        for key, value in now.items():
            yield f"broker {broker}: {key}={value}"
    for topic, now in sorted(standing.topics.items()):
        for key, value in now.items():
            yield f"topic {topic}: {key}={value}"


def removal_command(edit: ConfigEdit) -> str:
    """The command that takes away one key of a throttle."""
    where = f"broker {edit.broker_id}" if edit.topic is None else f"topic {edit.topic}"
    if edit.value is None:
        return f"zkctl config unset {where} --key {edit.key}"
    return f"zkctl config set {where} --config {edit.key}={edit.value}"


def _by_topic(partitions: Iterable[NamedPartition]) -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for topic, partition in partitions:
        found[topic].add(partition)
    return dict(found)


def _rate_edits(
    standing: StandingThrottles, broker: int, keys: tuple[str, ...], rate: int
) -> Iterator[ConfigEdit]:
    now = standing.brokers.get(broker, {})
    for key in keys:
        yield ConfigEdit(None, broker, key, now.get(key), str(rate))


def _pairs(value: str | None) -> list[str]:
    return [pair.strip() for pair in (value or "").split(",") if pair.strip()]


def _merged(standing: str | None, wanted: Set[str]) -> str:
    pairs = _pairs(standing)
    if EVERY_REPLICA in pairs:
        return EVERY_REPLICA
    if wanted <= set(pairs):
        return standing or ""
    # Sorted as text, as Kafka's tool has them.
    return ",".join(sorted({*pairs, *wanted} - {"none"}))


def _without(value: str | None, partitions: Set[int]) -> str:
    pairs = _pairs(value)
    left = [pair for pair in pairs if not _names(pair, partitions)]
    return (value or "") if len(left) == len(pairs) else ",".join(left)


def _names(pair: str, partitions: Set[int]) -> bool:
    partition, colon, _ = pair.partition(":")
    return bool(colon) and partition.isdecimal() and int(partition) in partitions
