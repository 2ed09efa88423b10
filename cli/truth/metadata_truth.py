"""Compares brokers' responses with the expected values: the znodes, or what brokers agree on.

The expected values come from the znodes.  If only brokers can be asked, they are what the brokers
agree on: for a partition the state with the highest leader epoch, else what most brokers say.

This module is pure: :mod:`.metadata_look` asks the brokers, and passes in their responses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kafka_common.model import NO_LEADER, ReplicaAssignment, address_text
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
)
from zkcontroller_cli.wire.metadata_responses import (
    CachedState,
    ReportedMetadata,
    expected_state,
    is_other_topic,
    unlike_brokers,
)
from zkcontroller_cli.znodes.partitions import PartitionView
from zkcontroller_cli.znodes.topics import topic_id_text

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.metadata import HeldReplicas

_V = TypeVar("_V", bound="str | int | UUID | None")
_K = TypeVar("_K", str, int)

Value: TypeAlias = str | int | tuple[int, ...] | None

METADATA: Final = "Metadata"
LOG_DIRS: Final = "DescribeLogDirs"
EPOCHS: Final = "OffsetForLeaderEpoch"


class Difference(NamedTuple):
    """One value in a broker's response that differs from the expected value."""

    what: str
    topic: str | None
    partition: int | None
    subject: int | None
    """The broker that the value is about; None if it is not about a broker."""
    broker_id: int
    """The broker that was asked."""
    request: str
    expected: Value
    path: str | None
    """The znode with the expected value, without the chroot; None if there is no such znode."""
    found: Value

    @property
    def key(self) -> tuple[str | int | None, ...]:
        """Identifies this difference in another look, also with another expected value."""
        return self[:6]


class KnownBroker(NamedTuple):
    """A live broker; its addresses are those of all its listeners."""

    addresses: frozenset[tuple[str, int]]
    rack: str | None


@dataclass
class ClusterTruth:
    """The values that every broker's responses should have."""

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, KnownBroker]
    topic_ids: Mapping[str, UUID | None]
    partitions: Mapping[tuple[str, int], PartitionView]
    deleting: frozenset[str] = frozenset()
    """Topics that are being deleted: brokers may or may not know them."""
    is_controller_compared: bool = True
    """False if a KRaft controller holds ``/controller``, as brokers do not name it to clients."""
    zk_versions: Mapping[str, int] = field(default_factory=dict)
    """By path, the versions of znodes; those of partition states are in ``partitions``."""
    source: str = "ZooKeeper"
    is_of_znodes: bool = True
    """False if these are the values on which brokers agree, and no znode was read."""

    def held_by(self, broker_id: int) -> dict[tuple[str, int], PartitionView]:
        """The partitions that have a state and a replica on this broker.

        Leaves out topics that are being deleted.
        """
        return {
            key: view
            for key, view in self.partitions.items()
            if view.state is not None
            and broker_id in view.assignment.replicas
            and view.topic not in self.deleting
        }

    def version_of(self, difference: Difference) -> int | None:
        """The version of the znode that a difference names; None if it names none."""
        topic, partition, path = difference.topic, difference.partition, difference.path
        if path is None:
            return None
        if topic is not None and partition is not None:
            view = self.partitions.get((topic, partition))
            if view is not None and path == PartitionStateZnode.path(topic, partition):
                return view.zk_version
        return self.zk_versions.get(path)


class TopicFilter(NamedTuple):
    """Topics by glob; None: every topic."""

    pattern: str | None = None

    def takes(self, topic: str) -> bool:
        return self.pattern is None or fnmatchcase(topic, self.pattern)


# Metadata.


def metadata_differences(
    truth: ClusterTruth,
    broker_id: int,
    response: ReportedMetadata,
    unknown: Iterable[str],
    wanted: TopicFilter,
) -> Iterator[Difference]:
    """Where a broker's Metadata response differs from ZooKeeper.

    ``unknown``: topics that the broker does not know.  Of the topics that only the broker has,
    those that pass ``wanted`` are reported.
    """
    if not response.brokers:
        # The broker has received no UpdateMetadata since it started, so its cache is empty.
        yield _cluster_row(broker_id, "brokers", tuple(sorted(truth.brokers)), None, ())
        return
    yield from _of_cluster(truth, broker_id, response)
    yield from _of_brokers(truth, broker_id, response)
    yield from _of_topics(truth, broker_id, response, unknown, wanted)
    for key, view in truth.partitions.items():
        if view.topic in truth.deleting or view.state is None:
            continue
        cached = response.partitions.get(key)
        if cached is not None:
            yield from _of_partition(view, broker_id, cached)


def _of_cluster(
    truth: ClusterTruth, broker_id: int, response: ReportedMetadata
) -> Iterator[Difference]:
    if response.cluster_id != truth.cluster_id:
        yield _cluster_row(
            broker_id, "cluster_id", truth.cluster_id, ClusterIdZnode.PATH, response.cluster_id
        )
    controller = None if response.controller_id == NO_LEADER else response.controller_id
    if truth.is_controller_compared and controller != truth.controller_id:
        yield _cluster_row(
            broker_id, "controller_id", truth.controller_id, ControllerZnode.PATH, controller
        )


def _of_brokers(
    truth: ClusterTruth, broker_id: int, response: ReportedMetadata
) -> Iterator[Difference]:
    missing, extra = unlike_brokers(response.brokers, truth.brokers)
    for subject in missing:
        yield _broker_row(broker_id, "broker", subject, "registered", None)
    for subject in extra:
        yield _broker_row(broker_id, "broker", subject, None, "live")
    for subject, known in truth.brokers.items():
        found = response.brokers.get(subject)
        if found is None:
            continue
        if (found.host, found.port) not in known.addresses:
            there = ",".join(address_text(*address) for address in sorted(known.addresses))
            here = address_text(found.host, found.port)
            yield _broker_row(broker_id, "address", subject, there, here)
        if found.rack != known.rack:
            yield _broker_row(broker_id, "rack", subject, known.rack, found.rack)


def _of_topics(
    truth: ClusterTruth,
    broker_id: int,
    response: ReportedMetadata,
    unknown: Iterable[str],
    wanted: TopicFilter,
) -> Iterator[Difference]:
    def row(what: str, topic: str, expected: Value, found: Value) -> Difference:
        path = TopicZnode.path(topic)
        return Difference(what, topic, None, None, broker_id, METADATA, expected, path, found)

    for topic in unknown:
        yield row("topic", topic, "there", None)
    known = response.topics
    for topic in sorted(known - truth.topic_ids.keys() - truth.deleting):
        if wanted.takes(topic):
            yield row("topic", topic, None, "there")
    for topic, topic_id in truth.topic_ids.items():
        found = response.topic_ids.get(topic)
        if topic not in truth.deleting and is_other_topic(found, topic_id):
            yield row("topic_id", topic, topic_id_text(topic_id), topic_id_text(found))
    yield from _of_partition_numbers(truth, broker_id, response, known)


def _of_partition_numbers(
    truth: ClusterTruth, broker_id: int, response: ReportedMetadata, known: set[str]
) -> Iterator[Difference]:
    """Partitions missing at the broker, and those it should not have, of topics that it knows."""

    def row(key: tuple[str, int], expected: Value, found: Value) -> Difference:
        path = TopicZnode.path(key[0])
        return Difference("partition", *key, None, broker_id, METADATA, expected, path, found)

    for key, view in truth.partitions.items():
        # A missing topic is one difference of its own; a partition without state is being created.
        if key in response.partitions or view.topic not in known or view.state is None:
            continue
        if view.topic not in truth.deleting:
            yield row(key, "there", None)
    for key in sorted(response.partitions.keys() - truth.partitions.keys()):
        if key[0] in truth.topic_ids and key[0] not in truth.deleting:
            yield row(key, None, "there")


def _of_partition(view: PartitionView, broker_id: int, cached: CachedState) -> Iterator[Difference]:
    path = PartitionStateZnode.path(view.topic, view.partition)

    def row(what: str, expected: Value, found: Value, at: str = path) -> Difference:
        place = (view.topic, view.partition, None, broker_id)
        return Difference(what, *place, METADATA, expected, at, found)

    expected = expected_state(view, cached)
    if expected is not None:
        if expected.leader != cached.leader:
            yield row("leader", expected.leader, cached.leader)
        if expected.leader_epoch != cached.leader_epoch:
            yield row("leader_epoch", expected.leader_epoch, cached.leader_epoch)
        if set(expected.isr) != set(cached.isr):
            yield row("isr", tuple(sorted(expected.isr)), tuple(sorted(cached.isr)))
    if view.assignment.replicas != cached.replicas:
        yield row(
            "replicas", view.assignment.replicas, cached.replicas, TopicZnode.path(view.topic)
        )


def _cluster_row(
    broker_id: int, what: str, expected: Value, path: str | None, found: Value
) -> Difference:
    return Difference(what, None, None, None, broker_id, METADATA, expected, path, found)


def _broker_row(
    broker_id: int, what: str, subject: int, expected: Value, found: Value
) -> Difference:
    path = BrokerIdZnode.path(subject)
    return Difference(what, None, None, subject, broker_id, METADATA, expected, path, found)


# What a broker has from LeaderAndIsr requests.


def log_differences(
    truth: ClusterTruth, broker_id: int, held: HeldReplicas, wanted: TopicFilter
) -> Iterator[Difference]:
    """Replicas that are missing at a broker, not assigned to it, unused, or lagging while in sync.

    If a log directory failed, no replica counts as missing, as it may be in that directory.
    """
    assigned = truth.held_by(broker_id)

    def row(
        what: str, key: tuple[str, int], path: str, expected: Value, found: Value
    ) -> Difference:
        return Difference(what, *key, None, broker_id, LOG_DIRS, expected, path, found)

    for key, view in assigned.items():
        log = held.current.get(key)
        path = TopicZnode.path(view.topic)
        if log is None and not held.failed_dirs:
            yield row("replica", key, path, "assigned", None)
        if log is None or view.state is None:
            continue
        if log[1] < 0:
            yield row("replica", key, path, "in use", "log without LeaderAndIsr")
        elif log[1] > 0 and broker_id in view.state.in_sync_replicas:
            state = PartitionStateZnode.path(*key)
            yield row("offset_lag", key, state, 0, log[1])
    for key in sorted(held.current.keys() | held.future.keys()):
        topic, _ = key
        known = truth.partitions.get(key)
        if topic in truth.deleting or not wanted.takes(topic):
            continue
        if known is None or broker_id not in known.assignment.replicas:
            log_dir = held.current[key][0] if key in held.current else held.future[key]
            yield row("replica", key, TopicZnode.path(topic), None, log_dir)
        elif key not in held.current and not held.failed_dirs:
            yield row("future_replica", key, TopicZnode.path(topic), None, held.future[key])


def epoch_differences(
    truth: ClusterTruth, broker_id: int, responses: Mapping[tuple[str, int], ErrorCode]
) -> Iterator[Difference]:
    """Differences in leader and leader epoch, from the broker's error for each partition."""
    for key, code in responses.items():
        view = truth.partitions[key]
        assert view.state is not None, "only partitions with a state are asked about"
        path = PartitionStateZnode.path(*key)
        epoch, leader = view.state.leader_epoch, view.state.leader
        expected: Value = leader
        found: Value
        match code.name:
            case "none" if leader != broker_id:
                what, found = "leader", broker_id
            case "not_leader_or_follower" if leader == broker_id:
                what, found = "leader", "does not lead"
            case "unknown_leader_epoch":
                what, expected, found = "leader_epoch", epoch, f"below {epoch}"
            case "fenced_leader_epoch":
                what, expected, found = "leader_epoch", epoch, f"above {epoch}"
            case "kafka_storage_error" if broker_id in view.state.in_sync_replicas:
                what, expected, found = "replica", "in sync", code.name.upper()
            case _:
                continue
        yield Difference(what, *key, None, broker_id, EPOCHS, expected, path, found)


# Brokers against each other.


def agreed(responses: Mapping[int, ReportedMetadata], wanted: TopicFilter) -> ClusterTruth:
    """The values on which the brokers agree.

    A broker whose response names no broker has an empty cache, and does not count.
    """
    answered = {
        broker_id: response for broker_id, response in responses.items() if response.brokers
    }
    brokers = {
        broker_id: _agreed_broker(broker_id, answered.values())
        for broker_id in _most_common_set(
            [response.brokers.keys() for response in answered.values()]
        )
    }
    topics = _most_common_set([response.topics for response in answered.values()])
    chosen = {topic for topic in topics if wanted.takes(topic)}
    controllers = [response.controller_id for response in answered.values()]
    controller = _most_common(controllers) if controllers else NO_LEADER
    return ClusterTruth(
        _most_common([response.cluster_id for response in answered.values()]) if answered else None,
        None if controller == NO_LEADER else controller,
        brokers,
        {
            topic: _most_common(
                [
                    response.topic_ids.get(topic)
                    for response in answered.values()
                    if topic in response.topics
                ]
            )
            for topic in sorted(chosen)
        },
        _agreed_partitions(answered.values(), chosen, frozenset(brokers)),
        source=f"brokers {','.join(map(str, sorted(answered)))}",
        is_of_znodes=False,
    )


def _agreed_broker(broker_id: int, responses: Iterable[ReportedMetadata]) -> KnownBroker:
    """A broker with its addresses in all responses: each has that of the listener it came from."""
    found = [response.brokers[broker_id] for response in responses if broker_id in response.brokers]
    return KnownBroker(
        frozenset((each.host, each.port) for each in found),
        _most_common([each.rack for each in found]),
    )


def _agreed_partitions(
    responses: Iterable[ReportedMetadata], topics: set[str], live: frozenset[int]
) -> dict[tuple[str, int], PartitionView]:
    votes: defaultdict[tuple[str, int], Counter[CachedState]] = defaultdict(Counter)
    for response in responses:
        for key, state in response.partitions.items():
            if key[0] in topics:
                votes[key][state._replace(isr=tuple(sorted(state.isr)))] += 1
    partitions = {}
    for key in sorted(votes):
        # A higher leader epoch is newer, even if only one broker has it.
        state = max(votes[key].items(), key=lambda item: (item[0].leader_epoch, item[1]))[0]
        leads = state.leader in live and not state.is_leader_hidden
        partitions[key] = PartitionView(
            *key,
            ReplicaAssignment(state.replicas),
            PartitionStateZnode(state.leader, state.leader_epoch, state.isr, 0),
            None,
            leads,
        )
    return partitions


def _most_common(values: list[_V]) -> _V:
    [(value, _)] = Counter(values).most_common(1)
    return value


def _most_common_set(sets: Sequence[Collection[_K]]) -> list[_K]:
    """The values that at least half of the sets have, sorted."""
    counts = Counter(each for one in sets for each in one)
    return sorted(each for each, count in counts.items() if 2 * count >= len(sets))
