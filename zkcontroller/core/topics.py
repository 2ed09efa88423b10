"""Topics are created, extended and deleted: watches ``/brokers/topics`` and each topic's znode.

Source: Kafka ``KafkaController.processTopicChange``, ``processPartitionModifications``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafka_common.errors import IllegalState, ZnodeCorrupt
from kafka_common.model import ReplicaAssignment
from kafka_common.protocol.uuid_text import usable_uuid, uuid_text
from kafka_common.topic_names import invalid_name_reason
from zkcontroller.core.effects import Procedure, Put
from zkcontroller.core.elections import OfflineElection
from zkcontroller.core.events import TopicDeletion
from zkcontroller.core.journal import csv, scala_hash_set, scala_set, scala_small_map
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW, TopicRows
from zkcontroller.core.reassignment_znode import ReassignmentZnode
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.state_znodes import Unreadable
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import SetData, Written, ZkCode
from zkcontroller.zookeeper.znodes import (
    TopicPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)


class _Read(NamedTuple):
    topic: str
    znode: TopicZnode
    zk_version: int


class TopicChanges:
    """Keeps the table of partitions equal to the assignments in ZooKeeper."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._replicas = replicas
        self._new_uuid = new_uuid
        self._ignored: frozenset[str] = frozenset()
        """Invalid names that were reported."""
        self._orders = ReassignmentZnode(tools)

    # ------------------------------------------------------------------ events

    def process_topic_change(self) -> Procedure[list[int]]:
        """Handles a change of the children of ``/brokers/topics``; returns the rows of new ones."""
        table = self._context.table
        names = yield from self.names()
        present = set(names)
        new = [topic for topic in names if topic not in table.topics]
        deleted = [topic for topic in table.topics if topic not in present]
        rows = yield from self.load(new)
        yield from self._orders.remove_topics(deleted)
        if self._context.topics_to_be_deleted.intersection(deleted):
            # The topic's znode was deleted by hand; its znode under delete_topics must go, too.
            self._tools.outbox.append(Put(TopicDeletion()))
        for topic in deleted:
            self._context.remove_topic(topic)
        self._journal.info(
            f"New topics: [{scala_set(new)}], deleted topics: [{scala_hash_set(deleted)}],"
            f" new partition replica assignment [{scala_set(self._describe(t) for t in new)}]"
        )
        if rows:
            yield from self._create_partitions(rows)
        return rows

    def names(self) -> Procedure[list[str]]:
        """The topics under ``/brokers/topics``; leaves a watch.

        An invalid name is reported once and ignored: no broker can have a folder of that name.
        Kafka sends it to the brokers, and each of them fails.
        """
        names = yield from self._tools.children(TopicsZnode.PATH, watch=True)
        invalid = {
            name: reason for name in names if (reason := invalid_name_reason(name)) is not None
        }
        for name, reason in invalid.items():
            if name not in self._ignored:
                self._journal.error(f"Ignoring a child of {TopicsZnode.PATH}: {reason}")
        self._ignored = frozenset(invalid)
        return [name for name in names if name not in invalid]

    def process_partition_modifications(self, topic: str) -> Procedure[list[int]]:
        """Handles a change of a topic's znode, which may add partitions; returns their rows."""
        table = self._context.table
        known = table.topics.get(topic)
        read = (yield from self._read([topic]))[0]
        if known is None or not isinstance(read, _Read):
            return []
        znode = read.znode
        if known.topic_id is not None and znode.topic_id is None:
            # A tool rewrote the znode without the id.  The next controller would assign another id,
            # and brokers refuse a topic whose id differs from that in partition.metadata.
            self._journal.warn(f"The znode of topic {topic} has lost its id; writing it back")
            yield from self._assign_ids([read])
        elif known.topic_id is None:
            # The znode was corrupt when it was first read, or changed while its id was written.
            if znode.topic_id is not None:
                self._remember_id(read)
            elif self._tools.config.is_topic_id_supported:
                yield from self._assign_ids([read])
        to_add = {
            partition: assignment
            for partition, assignment in znode.partitions.items()
            if (row := known.row(partition)) == NO_ROW or not table.replicas[row]
        }
        if topic in self._context.topics_to_be_deleted:
            if to_add:
                self._journal.warn(
                    f"Skipping adding partitions {csv(to_add)} for topic {topic} since it is"
                    " currently being deleted"
                )
                yield from self._restore(topic)
            else:
                self._journal.info(
                    "Ignoring partition change during topic deletion as no new partitions are added"
                )
            return []
        rows: list[int] = []
        if to_add:
            added = scala_small_map((f"{topic}-{p}", assignment_text(to_add[p])) for p in to_add)
            self._journal.info(f"New partitions to be added {added}")
            rows = [self._add(topic, p, assignment) for p, assignment in to_add.items()]
            yield from self._create_partitions(rows)
        return rows

    def read_again(self) -> Procedure[list[int]]:
        """Reads the topics whose znode ZooKeeper refused; returns the rows of new partitions."""
        topics = list(self._partitions.refused.topics)
        self._partitions.refused.topics.clear()
        rows: list[int] = []
        for topic in topics:
            if topic in self._context.table.topics:
                rows += yield from self.process_partition_modifications(topic)
        if any(topic not in self._context.table.topics for topic in topics):
            rows += yield from self.process_topic_change()
        return rows

    def _restore(self, topic: str) -> Procedure[None]:
        """Writes the topic znode back without partitions that were added during deletion."""
        self._journal.info(f"Restoring the partition replica assignment for topic {topic}")
        table = self._context.table
        known = table.topics[topic]
        existing = yield from self._tools.children(TopicPartitionsZnode.path(topic))
        partitions = {
            int(name): table.assignment(known.row(int(name)))
            for name in existing
            if name.isdecimal() and known.row(int(name)) != NO_ROW
        }
        yield from self._tools.write(
            [SetData(TopicZnode.path(topic), TopicZnode(known.topic_id, partitions).encode())]
        )

    # ------------------------------------------------------------------ loading

    def load(self, topics: Sequence[str]) -> Procedure[list[int]]:
        """Reads topics, watches them, assigns missing ids; returns the rows of their partitions.

        A topic that vanished meanwhile is left out (the watch on its parent reports it).  A znode
        that is corrupt or refused is logged with its path: the topic has no partitions until it is
        mended, or is left out until it can be read.
        """
        rows: list[int] = []
        nameless: list[_Read] = []
        for topic, read in zip(topics, (yield from self._read(topics)), strict=True):
            if isinstance(read, ZkCode):
                continue
            known = self._context.table.add_topic(topic, None)
            if isinstance(read, _Read):
                self._remember_id(read)
                rows.extend(self._add_all(known, read.znode.partitions))
                if read.znode.topic_id is None:
                    nameless.append(read)
        if self._tools.config.is_topic_id_supported:
            yield from self._assign_ids(nameless)
        return rows

    def _read(self, topics: Sequence[str]) -> Procedure[list[_Read | Unreadable]]:
        """Each topic's znode, or why there is none; what was refused is read again later."""
        found: list[_Read | Unreadable] = []
        results = yield from self._tools.try_read([TopicZnode.path(t) for t in topics], watch=True)
        for topic, znode in zip(topics, results, strict=True):
            if isinstance(znode, ZkCode):
                found.append(znode)
                if znode is not ZkCode.NO_NODE:
                    self._journal.error(
                        f"Cannot read {TopicZnode.path(topic)}: {znode.name}; going on without it"
                    )
                    self._partitions.refused.topics[topic] = None
                continue
            try:
                found.append(_Read(topic, TopicZnode.decode(topic, znode.data), znode.zk_version))
            except ZnodeCorrupt as corrupt:
                self._journal.error(f"{corrupt}; leaving it as it is")
                found.append(corrupt)
        return found

    def _remember_id(self, read: _Read) -> None:
        if read.znode.topic_id is None:
            return
        try:
            self._context.put_topic_id(read.topic, read.znode.topic_id)
        except IllegalState as contradiction:
            # Two znodes have the same id, written by hand.  The topic is used without an id, like
            # one that was created before topics had ids.
            self._journal.error(str(contradiction))

    def _add_all(
        self, topic: TopicRows, partitions: Mapping[int, ReplicaAssignment]
    ) -> Sequence[int]:
        if topic.rows:
            return [self._add(topic.name, p, assignment) for p, assignment in partitions.items()]
        ordered = sorted(partitions)
        assignments = [partitions[partition] for partition in ordered]
        table = self._context.table
        rows = table.add_topic_rows(topic, ordered, [each.replicas for each in assignments])
        for row, assignment in zip(rows, assignments, strict=True):
            if assignment.is_being_reassigned:
                table.put_assignment(row, assignment)
        return rows

    def _add(self, topic: str, partition: int, assignment: ReplicaAssignment) -> int:
        table = self._context.table
        rows = table.add_topic(topic, None)
        row = rows.row(partition)
        if row == NO_ROW:
            row = table.add(rows, partition, assignment.replicas)
        if assignment.is_being_reassigned or table.replicas[row] != assignment.replicas:
            table.put_assignment(row, assignment)
        return row

    def _assign_ids(self, topics: Sequence[_Read]) -> Procedure[None]:
        """Writes a topic id into each znode that has none: the known id, else a random one.

        A znode that has changed since it was read is not overwritten; the id is written when the
        watch for that change has fired.  Kafka overwrites the change.  If the reply to a write was
        lost, the repeated write fails with BAD_VERSION.  The znode is then read again, because it
        may have the id already.

        Source: KIP-516.
        """
        known = self._context.table.topics
        ids = [known[read.topic].topic_id or usable_uuid(self._new_uuid) for read in topics]
        results = yield from self._tools.write(
            [
                SetData(
                    TopicZnode.path(read.topic),
                    TopicZnode(topic_id, read.znode.partitions).encode(),
                    read.zk_version,
                )
                for read, topic_id in zip(topics, ids, strict=True)
            ]
        )
        for read, topic_id, result in zip(topics, ids, results, strict=True):
            if isinstance(result, Written):
                self._context.put_topic_id(read.topic, topic_id)
        raced = [
            read.topic
            for read, result in zip(topics, results, strict=True)
            if result is ZkCode.BAD_VERSION
        ]
        for found in (yield from self._read(raced)) if raced else ():
            if isinstance(found, _Read):
                self._remember_id(found)

    # ------------------------------------------------------------------ new partitions

    def _create_partitions(self, rows: Sequence[int]) -> Procedure[None]:
        """Writes first leader and ISR of new partitions and sends them to the replicas."""
        table = self._context.table
        self._journal.info(
            f"New partition creation callback for {csv(table.text(row) for row in rows)}"
        )
        yield from self._partitions.handle_state_changes(rows, PartitionState.NEW)
        yield from self._replicas.handle_state_changes(self._by_broker(rows), ReplicaState.NEW)
        yield from self._partitions.handle_state_changes(
            rows, PartitionState.ONLINE, OfflineElection()
        )
        yield from self._replicas.handle_state_changes(self._by_broker(rows), ReplicaState.ONLINE)

    def _by_broker(self, rows: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for row in rows:
            for broker in self._context.table.replicas[row]:
                found.setdefault(broker, []).append(row)
        return found

    def _describe(self, topic: str) -> str:
        table = self._context.table
        known = table.topics.get(topic)
        if known is None:
            return f"TopicIdReplicaAssignment({topic},None,Map())"
        topic_id = "None" if known.topic_id is None else f"Some({uuid_text(known.topic_id)})"
        parts = scala_small_map(
            (table.text(row), assignment_text(table.assignment(row))) for row in known.rows
        )
        return f"TopicIdReplicaAssignment({topic},{topic_id},{parts})"


def assignment_text(assignment: ReplicaAssignment) -> str:
    """``ReplicaAssignment(replicas=1,2,3, addingReplicas=, removingReplicas=)``."""
    return (
        f"ReplicaAssignment(replicas={csv(assignment.replicas)},"
        f" addingReplicas={csv(assignment.adding_replicas)},"
        f" removingReplicas={csv(assignment.removing_replicas)})"
    )
