"""The state that the active controller keeps in memory; emptied when it resigns.

Source: Kafka ``ControllerContext``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from kafka_common.errors import IllegalState
from kafka_common.model import EPOCH_DURING_DELETE, NO_EPOCH, Broker, TopicPartition
from zkcontroller.core.partition_table import PartitionTable
from zkcontroller.core.states import PartitionState


class ControllerContext:
    """The controller's view of the cluster: brokers, topics, partitions, replicas.

    ``epoch`` and ``epoch_zk_version`` are 0 while this broker is not the controller: a late
    fenced write
    then fails its check on any real cluster, whose ``/controller_epoch`` is at version 1 or above.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Clears all state; a controller that is elected again reads everything from ZooKeeper."""
        self.epoch = 0
        self.epoch_zk_version = 0
        self.live_brokers: dict[int, Broker] = {}
        self.live_broker_epochs: dict[int, int] = {}
        self.shutting_down: set[int] = set()
        self.finalized_features: dict[str, int] = {}
        """Finalized features: name to the level that every broker must support (KIP-584)."""
        self.table = PartitionTable()
        self.topic_names: dict[UUID, str] = {}
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self.offline_dir_rows: dict[int, set[int]] = {}
        """Broker id to the rows whose replica is in a failed log directory of that broker."""
        self.offline_partition_count = 0
        self.refused_states: dict[TopicPartition, None] = {}
        """Partitions whose state ZooKeeper refused to write; it may have been written all the same.

        A write whose reply was lost is repeated, and the repetition may be refused.
        """

    # ------------------------------------------------------------------ brokers

    def set_live_brokers(self, brokers: Iterable[tuple[Broker, int]]) -> None:
        """Replace the live brokers by these (broker, broker_epoch) pairs."""
        self.live_brokers = {}
        self.live_broker_epochs = {}
        self.add_live_brokers(brokers)

    def add_live_brokers(self, brokers: Iterable[tuple[Broker, int]]) -> None:
        for broker, broker_epoch in brokers:
            self.live_brokers[broker.broker_id] = broker
            self.live_broker_epochs[broker.broker_id] = broker_epoch

    def is_compatible(self, broker: Broker) -> bool:
        """Whether the broker supports every finalized feature at its level."""
        return all(
            feature in broker.features
            and broker.features[feature][0] <= level <= broker.features[feature][1]
            for feature, level in self.finalized_features.items()
        )

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self.live_brokers.pop(broker_id, None)
            self.live_broker_epochs.pop(broker_id, None)

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered and not in controlled shutdown."""
        return broker_id in self.live_broker_epochs and broker_id not in self.shutting_down

    @property
    def live_broker_ids(self) -> list[int]:
        return [broker for broker in self.live_broker_epochs if broker not in self.shutting_down]

    @property
    def live_or_shutting_down_broker_ids(self) -> list[int]:
        return list(self.live_broker_epochs)

    def is_replica_online(
        self, broker_id: int, row: int, *, include_shutting_down: bool = False
    ) -> bool:
        """Whether the broker is live and the replica's log directory has not failed."""
        if include_shutting_down:
            is_up = broker_id in self.live_broker_epochs
        else:
            is_up = self.is_live(broker_id)
        return is_up and row not in self.offline_dir_rows.get(broker_id, ())

    def online_replicas(
        self, *, include_shutting_down: bool = False
    ) -> Callable[[int], Callable[[int], bool]]:
        """A faster :meth:`is_replica_online` for many rows.

        Returns a function that takes a row and returns a function that tests a broker id.
        """
        if any(self.offline_dir_rows.values()):
            return lambda row: (
                lambda broker_id: self.is_replica_online(
                    broker_id, row, include_shutting_down=include_shutting_down
                )
            )
        up = self.live_or_shutting_down_broker_ids
        is_up = frozenset(up if include_shutting_down else self.live_broker_ids).__contains__
        return lambda _row: is_up

    # ------------------------------------------------------------------ topics

    @property
    def topics_to_be_deleted(self) -> set[str]:
        """Topics queued for deletion."""
        return self.table.deleting

    def is_queued_for_deletion(self, row: int) -> bool:
        return self.table.topic_of[row] in self.table.deleting

    def queue_for_deletion(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.table.forget_imbalance(topic)

    def put_topic_id(self, topic: str, topic_id: UUID) -> None:
        """Remember a topic's id.

        Raises IllegalState if the topic is unknown, has another id, or the id is another topic's.
        """
        known = self.table.topics.get(topic)
        if known is None:
            raise IllegalState(f"topic {topic} is not known, so it cannot have an id")
        if known.topic_id not in (None, topic_id):
            raise IllegalState(f"topic {topic} has id {known.topic_id}, not {topic_id}")
        owner = self.topic_names.setdefault(topic_id, topic)
        if owner != topic:
            raise IllegalState(f"topic {topic} cannot have id {topic_id}, which is topic {owner}'s")
        known.topic_id = topic_id

    def remove_topic(self, topic: str) -> None:
        """Removes the topic with its partitions and replicas.

        Kafka keeps their states, so that a topic whose znode was removed by hand and created
        again has no leader until the next failover; ours starts afresh.
        """
        for row in self.table.rows_of(topic):
            if self.table.partition_state[row] == PartitionState.OFFLINE:
                self._count_offline(row, -1)
            for rows in self.offline_dir_rows.values():
                rows.discard(row)
        known = self.table.topics.get(topic)
        if known is not None and known.topic_id is not None:
            del self.topic_names[known.topic_id]
        self.table.remove_topic(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    # ------------------------------------------------------------------ partitions

    def put_initial_partition_states(self, states: bytes) -> None:
        """Sets the state of every row at once, at failover, before any row was freed."""
        assert len(states) == len(self.table), (len(states), len(self.table))
        self.table.partition_state[:] = states
        self.offline_partition_count = states.count(PartitionState.OFFLINE)

    def put_partition_state(self, row: int, state: PartitionState) -> None:
        before = self.table.partition_state[row]
        if before != state:
            if state == PartitionState.OFFLINE:
                self._count_offline(row, +1)
            elif before == PartitionState.OFFLINE:
                self._count_offline(row, -1)
            self.table.partition_state[row] = state

    def _count_offline(self, row: int, change: int) -> None:
        # The deletion of a topic takes its leaders offline: these partitions do not count.
        if self.table.topic_of[row] not in self.topics_with_deletion_started:
            self.offline_partition_count += change

    def rows_with_offline_leader(self) -> list[int]:
        """Rows whose leader is not online; topics under deletion are left out."""
        table = self.table
        live = set(self.live_broker_ids)
        suspects = [
            row
            for row, leader in enumerate(table.leader)
            if leader not in live and table.leader_epoch[row] >= 0
        ]
        for broker, rows in self.offline_dir_rows.items():
            suspects.extend(row for row in rows if table.leader[row] == broker and broker in live)
        return [row for row in suspects if table.topic_of[row] not in table.deleting]

    def rows_led_by(self, broker_id: int) -> list[int]:
        """Rows that the broker leads, with more than one replica and not under deletion."""
        table = self.table
        return [
            row
            for row, leader in enumerate(table.leader)
            if leader == broker_id
            and len(table.replicas[row]) > 1
            and table.topic_of[row] not in table.deleting
        ]

    def stop_replica_leader_epoch(self, row: int) -> int:
        """The leader epoch a StopReplica carries: a sentinel while the topic is being deleted."""
        if self.is_queued_for_deletion(row):
            return EPOCH_DURING_DELETE
        return self.table.leader_epoch[row] if self.table.has_leader_and_isr(row) else NO_EPOCH
