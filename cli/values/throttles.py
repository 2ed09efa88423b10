"""Throttles of moves: the configurations that a move needs, and their removal when it has ended.

Pure.  A move is throttled by a rate on every broker that takes part, and by two lists on the topic:
the replicas that send (``leader.replication.throttled.replicas``, the replicas before the move) and
those that fetch (``follower.…``, the new ones), as ``partition:broker`` pairs.  Pairs that are in a
list already are kept.  When a move has ended, only the pairs of its partition are removed.

Source: KIP-73, Kafka ``ReassignPartitionsCommand`` (which overwrites the lists, and deletes them).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zkcontroller_cli.console.command_lines import command_line
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
    """The brokers that send (sources) and fetch (destinations) in the move of one partition."""

    sources: frozenset[int]
    destinations: frozenset[int]


class ConfigEdit(NamedTuple):
    """A change of one configuration key of a topic or a broker; the field of the other is None."""

    topic: str | None
    broker_id: int | None
    key: str
    before: str | None
    value: str | None
    """None: the key is deleted."""

    @property
    def where(self) -> str:
        """The topic or the broker, as text."""
        return f"broker {self.broker_id}" if self.topic is None else f"topic {self.topic}"

    @property
    def text(self) -> str:
        """The change as text for the user."""
        if self.value is None:
            return f"{self.where}: delete {self.key} (was {self.before or 'empty'})"
        was = "" if self.before in (None, self.value) else f" (was {self.before or 'empty'})"
        return f"{self.where}: {self.key}={self.value or 'empty'}{was}"


@dataclass
class StandingThrottles:
    """The throttles that are set now: by topic or broker, the value of each key set there."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, dict[str, str]] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    """Brokers whose configuration could not be read, and why."""


class ThrottleRemoval(NamedTuple):
    """The changes that remove a throttle, and the parts that stay."""

    edits: list[ConfigEdit]
    waiting: list[str]
    """Rates that other moves need until they have ended."""
    foreign: list[str]
    """Lists that no move has set (``*``), as texts; they are not removed."""


def moving_replicas(
    current: Replicas, adding: Replicas, target: Replicas | None = None
) -> MovingReplicas:
    """The brokers that send and fetch in a move.

    ``current`` includes ``adding``, the adding replicas of a move in progress.  ``target``: the
    replicas after a move that is to start; None for a move in progress.
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
    """The changes that throttle these moves at ``rate`` bytes per second; empty if all are set.

    They also remove the pairs of ``ended`` partitions from the lists.
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
    """The changes that throttle moves between log directories at ``rate`` bytes per second."""
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
    """The changes that remove the throttle of ``ended`` partitions.

    ``others``: partitions that are being moved; if there are any, the rates of brokers stay.
    ``broker_keys``: the rates to remove.
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
    """The partitions whose list of throttled leader replicas names that broker."""
    return {
        NamedPartition(topic, int(partition))
        for topic, now in standing.topics.items()
        for pair in _pairs(now.get(LEADER_REPLICAS))
        for partition, colon, source in [pair.partition(":")]
        if colon and partition.isdecimal() and source == str(broker)
    }


def throttle_lines(standing: StandingThrottles) -> Iterator[str]:
    """One line for every throttle that is set."""
    for broker, now in sorted(standing.brokers.items()):
        for key, value in now.items():
            yield f"broker {broker}: {key}={value}"
    for topic, now in sorted(standing.topics.items()):
        for key, value in now.items():
            yield f"topic {topic}: {key}={value}"


def removal_command(edit: ConfigEdit) -> str:
    """The command line that makes the change, to remove or restore one key of a throttle."""
    kind, name = ("broker", edit.broker_id) if edit.topic is None else ("topic", edit.topic)
    if edit.value is None:
        return command_line(f"config unset {kind}", name, options=("--key", edit.key))
    value = f"{edit.key}={edit.value}"
    return command_line(f"config set {kind}", name, options=("--config", value))


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
