"""The broker's view of the whole cluster, from the controller's UpdateMetadata requests.

A :class:`MetadataSnapshot` never changes; an update replaces the snapshot (copy on write: only the
topics it touches are copied).  A handler takes the snapshot once for each request.

The cache is used only on the event loop: ``ReplicaManager.update_metadata`` updates it; handlers,
replication and coordinators read it.  Other threads get a snapshot and never use the cache.

Source: Kafka ``ZkMetadataCache`` (``updateMetadata``).  The KRaft migration's full update, which
deletes the topics that a request leaves out, is not supported: a ZooKeeper controller never sends
one.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct, field

from kafka_common.model import LEADER_DURING_DELETE, Broker, Endpoint, TopicPartition
from kafka_common.observability.java_values import node
from zkcontroller.state_changes.record import Kind, StateChange

_FULL_UPDATE: Final = 2
_log = logging.getLogger("kafka.server.metadata.ZkMetadataCache")
_state_change_log = logging.getLogger("state.change.logger")


class PartitionMetadata(NamedTuple):
    """One partition as UpdateMetadata describes it."""

    controller_epoch: int
    leader: int
    """-1: no leader.  -2: the topic is being deleted; only in an update, never in a snapshot."""
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """The partitions of one topic in an update; ``topic_id`` is None if the topic has no id."""

    topic: str
    topic_id: UUID | None
    partitions: Sequence[tuple[int, PartitionMetadata]]


class MetadataUpdate(Struct, frozen=True):
    """An UpdateMetadata request of any version."""

    api_version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics: Sequence[TopicMetadata]
    live_brokers: Sequence[Broker]
    is_kraft_controller: bool = False
    update_type: int = 0


class MetadataSnapshot(Struct, frozen=True):
    """The cluster at one moment.  The mappings must not be changed."""

    partitions: Mapping[str, Mapping[int, PartitionMetadata]] = field(default_factory=dict)
    """The state of each partition, by topic name and partition number."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    controller_id: int | None = None
    """Broker id of the controller; None if it is unknown or there is no controller."""
    live_brokers: Mapping[int, Broker] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """The partition's state; None if the cache does not have it."""
        return self.partitions.get(topic, {}).get(partition)

    def endpoint(self, broker_id: int, listener_name: str) -> Endpoint | None:
        """A broker's address on a listener; None if the broker is dead or lacks the listener."""
        broker = self.live_brokers.get(broker_id)
        return None if broker is None else broker.endpoint(listener_name)


class ZkMetadataCache:
    """Holds the newest :class:`MetadataSnapshot`.  Updated on the broker's event loop only."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.snapshot = MetadataSnapshot()

    def update(
        self, update: MetadataUpdate, correlation_id: int, *, trace: bool
    ) -> Generator[None, None, tuple[list[TopicPartition], list[StateChange]]]:
        """Applies ``update``; returns the deleted partitions and the records for the log.

        Yields between topics; the snapshot is replaced in one step.  The live brokers are
        replaced, the partitions are merged.  ``trace`` adds one record per partition.
        """
        old = self.snapshot
        self._complain_of_full_update(update)
        records: list[StateChange] = []
        topic_ids = yield from _merged_topic_ids(old.topic_ids, update.topics)
        live_brokers = {broker.broker_id: broker for broker in update.live_brokers}
        self._complain_of_different_listeners(live_brokers)
        partitions: Mapping[str, Mapping[int, PartitionMetadata]] = old.partitions
        deleted: list[TopicPartition] = []
        if any(topic.partitions for topic in update.topics):
            partitions, deleted, details = yield from self._merged_partitions(
                topic_ids, update, correlation_id, trace=trace
            )
            sent = sum(len(topic.partitions) for topic in update.topics)
            records = details
            records.append(
                StateChange(
                    Kind.METADATA_CACHED,
                    "broker",
                    self._broker_id,
                    update.controller_epoch,
                    update.controller_id,
                    count=sent - len(deleted),
                    other_count=len(deleted),
                    correlation_id=correlation_id,
                )
            )
        topic_names: dict[UUID, str] = {}
        for topic, topic_id in topic_ids.items():
            yield
            topic_names[topic_id] = topic
        replaced = list(old.partitions.values())
        del old
        self.snapshot = MetadataSnapshot(
            partitions,
            topic_ids,
            topic_names,
            update.controller_id if update.controller_id >= 0 else None,
            live_brokers,
        )
        while replaced:  # freed topic by topic: all at once they would hold the event loop
            replaced.pop()
            yield
        return deleted, records

    def _merged_partitions(
        self,
        topic_ids: dict[str, UUID],
        update: MetadataUpdate,
        correlation_id: int,
        *,
        trace: bool,
    ) -> Generator[
        None,
        None,
        tuple[dict[str, Mapping[int, PartitionMetadata]], list[TopicPartition], list[StateChange]],
    ]:
        merged = dict(self.snapshot.partitions)
        # A request may name a topic any number of times: its partitions are copied once.
        copies: dict[str, dict[int, PartitionMetadata]] = {}
        deleted: dict[TopicPartition, None] = {}
        records: list[StateChange] = []
        for topic, _, states in update.topics:
            yield
            if not states:
                continue
            own = copies.get(topic)
            if own is None:
                own = copies[topic] = dict(merged.get(topic, {}))
            for partition, state in states:
                if trace:
                    yield
                if state.leader == LEADER_DURING_DELETE:
                    own.pop(partition, None)
                    deleted[TopicPartition(topic, partition)] = None
                else:
                    own[partition] = state
                    if deleted:
                        deleted.pop(TopicPartition(topic, partition), None)
                if trace:
                    records.append(
                        self._trace_record(update, correlation_id, topic, partition, state)
                    )
            if own:
                merged[topic] = own
            else:
                merged.pop(topic, None)
                topic_ids.pop(topic, None)
        return merged, list(deleted), records

    def _trace_record(
        self,
        update: MetadataUpdate,
        correlation_id: int,
        topic: str,
        partition: int,
        state: PartitionMetadata,
    ) -> StateChange:
        is_deleted = state.leader == LEADER_DURING_DELETE
        return StateChange(
            Kind.METADATA_DELETED_PARTITION if is_deleted else Kind.METADATA_CACHED_PARTITION,
            "broker",
            self._broker_id,
            update.controller_epoch,
            update.controller_id,
            topic=topic,
            partition=partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.in_sync_replicas,
            zk_version=state.zk_version,
            state_controller_epoch=state.controller_epoch,
            replicas=state.replicas,
            offline_replicas=state.offline_replicas,
            correlation_id=correlation_id,
        )

    def _complain_of_full_update(self, update: MetadataUpdate) -> None:
        if update.is_kraft_controller and update.update_type == _FULL_UPDATE:
            _state_change_log.error(
                "[Broker id=%d] Received UpdateMetadataRequest with Type=FULL (2), but ZK "
                "migrations are not enabled on this broker. Not treating this as a full "
                "metadata update",
                self._broker_id,
            )

    def _complain_of_different_listeners(self, live_brokers: Mapping[int, Broker]) -> None:
        names = {
            broker_id: {endpoint.listener_name for endpoint in broker.endpoints}
            for broker_id, broker in live_brokers.items()
        }
        own = names.get(self._broker_id)
        if own is not None and any(others != own for others in names.values()):
            _log.error(
                "[MetadataCache brokerId=%d] Listeners are not identical across brokers: "
                "LongMap(%s)",
                self._broker_id,
                ", ".join(
                    f"{each.broker_id} -> {_nodes_text(each)}" for each in live_brokers.values()
                ),
            )


def _nodes_text(broker: Broker) -> str:
    """``Map(ListenerName(CLIENTS) -> 127.0.0.1:9092 (id: 1 rack: null))``."""
    nodes = (
        f"ListenerName({each.listener_name}) -> {node(broker.broker_id, each.address, broker.rack)}"
        for each in broker.endpoints
    )
    return f"Map({', '.join(nodes)})"


def _merged_topic_ids(
    old: Mapping[str, UUID], topics: Sequence[TopicMetadata]
) -> Generator[None, None, dict[str, UUID]]:
    """The topic ids after an update; a topic without an id in the update loses its id.

    A topic that the update names both with and without an id has the id.  Yields between topics.
    """
    merged = dict(old)
    for topic, topic_id, _ in topics:
        yield
        if topic_id is None:
            merged.pop(topic, None)
    for topic, topic_id, _ in topics:
        yield
        if topic_id is not None:
            merged[topic] = topic_id
    return merged
