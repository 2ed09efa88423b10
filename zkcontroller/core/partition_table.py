"""All partitions of the cluster, stored in columns instead of objects.

A controller holds up to a million partitions.  Dictionaries keyed by topic-partition cost some 700
bytes for each; columns cost about 60, and a question such as "which partitions does broker 7 lead?"
is one pass over an array.  A *row* is the int by which the core names a partition, valid from
:meth:`PartitionTable.add` until the topic is removed.  The core makes values of a row
(``LeaderAndIsr``, ``TopicPartition``) only where it needs all data of one partition.

The states of a partition's replicas are one ``bytes``, in the order of its replica list.  Tuples
and ``bytes`` are interned, because thousands of partitions share the same few.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter, lt
from typing import Final, TypeVar
from uuid import UUID

from kafka_common.errors import IllegalState
from kafka_common.model import NO_LEADER, LeaderAndIsr, ReplicaAssignment, TopicPartition
from zkcontroller.core.states import PartitionState, ReplicaState

NO_ROW: Final = sys.maxsize
"""No row: a column that is asked for it raises IndexError.  -1 would be the last partition."""
LEAST_INTERNED: Final = 4_096
"""Unused interned values are dropped only when there are at least this many values."""
SLICE_ROWS: Final = 10_000
"""The most values that one call into C handles, because no other thread runs meanwhile."""
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
_REPLICA_STATES = {state.value: state for state in ReplicaState}
_NO_LEADER_AND_ISR = -1  # in the leader_epoch column: no state znode is known
_NOTHING: tuple[int, int, tuple[int, ...], int, int] = (NO_LEADER, _NO_LEADER_AND_ISR, (), 0, 0)


def pick(column: Sequence[T] | Mapping[int, T], rows: Sequence[int]) -> Sequence[T]:
    """The column's values at these rows, in a tenth of the time of a loop."""
    if len(rows) < 2:
        return [column[row] for row in rows]
    if len(rows) <= SLICE_ROWS:
        values: tuple[T, ...] = itemgetter(*rows)(column)
        return values
    found: list[T] = []
    for part in _slices(rows):
        found += pick(column, part)
    return found


def in_slices(values: Iterable[T]) -> list[T]:
    """The values as a list; other threads run after each :data:`SLICE_ROWS` of them."""
    found: list[T] = []
    for part in _slices(values):
        found += part
    return found


def distinct(values: Iterable[H]) -> set[H]:
    """The different values; other threads run after each :data:`SLICE_ROWS` of them."""
    found: set[H] = set()
    for part in _slices(values):
        found.update(part)
    return found


def _slices(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while part := list(islice(rest, SLICE_ROWS)):
        yield part


def is_ascending(rows: Sequence[int]) -> bool:
    """Whether each row is greater than the one before it."""
    parts = (rows[at : at + SLICE_ROWS + 1] for at in range(0, len(rows), SLICE_ROWS))
    return all(all(map(lt, part, islice(part, 1, None))) for part in parts)


class TopicRows:
    """The rows of one topic: partition ids in ascending order beside their rows."""

    __slots__ = ("is_one_run", "name", "partitions", "rows", "topic_id")

    def __init__(self, name: str, topic_id: UUID | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = array("i")
        self.rows = array("i")
        self.is_one_run = True
        """Whether each row follows the one before, as long as no rows of deleted topics are used
        again and no partitions were added."""

    def row(self, partition: int) -> int:
        """Row of a partition, NO_ROW if the topic has no such partition."""
        partitions = self.partitions
        # Partition ids are 0..n-1 in every cluster that was not edited by hand.
        if 0 <= partition < len(partitions) and partitions[partition] == partition:
            return self.rows[partition]
        at = bisect_left(partitions, partition)
        if at < len(partitions) and partitions[at] == partition:
            return self.rows[at]
        return NO_ROW

    def insert(self, partition: int, row: int) -> None:
        if not self.partitions or partition > self.partitions[-1]:
            self.is_one_run &= not self.rows or row == self.rows[-1] + 1
            self.partitions.append(partition)
            self.rows.append(row)
            return
        self.is_one_run = False
        at = bisect_left(self.partitions, partition)
        self.partitions.insert(at, partition)
        self.rows.insert(at, row)


class PartitionTable:
    """Columns over all partitions, with the counters that Kafka's gauges show.

    The imbalance of a topic in ``deleting`` does not count.  The owner calls
    :meth:`forget_imbalance` when it queues a topic for deletion.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicRows] = {}
        self.topic_of: list[str] = []
        self.partition_of = array("i")
        self.replicas: list[tuple[int, ...]] = []
        self.partition_state = bytearray()
        self.replica_states: list[bytes] = []
        self.leader = array("i")
        self.leader_epoch = array("i")
        self.in_sync_replicas: list[tuple[int, ...]] = []
        self.zk_version = array("i")
        self.state_controller_epoch = array("i")
        self.leader_recovery_state = bytearray()
        self.reassigning: dict[int, ReplicaAssignment] = {}
        """Rows whose assignment has adding or removing replicas."""
        self._departing: dict[int, dict[int, ReplicaState]] = {}
        """By row: the states of replicas that left the assignment but are not deleted yet."""
        self.with_leader_and_isr = 0
        """Number of partitions whose state znode is known."""
        self.imbalanced = 0
        """Number of partitions not led by their preferred leader (deleting topics left out)."""
        self.deleting: set[str] = set()
        """Topics queued for deletion; in the table because the imbalance must not count them."""
        self._free: list[int] = []
        self._tuples: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._most_tuples = LEAST_INTERNED
        self._states: dict[bytes, bytes] = {}
        self._most_states = LEAST_INTERNED

    # ------------------------------------------------------------------ rows

    def __len__(self) -> int:
        return len(self.topic_of) - len(self._free)

    def add_topic(self, topic: str, topic_id: UUID | None) -> TopicRows:
        """The topic's rows; adds a topic without partitions if it is unknown."""
        known = self.topics.get(topic)
        if known is None:
            known = self.topics[topic] = TopicRows(topic, topic_id)
        elif topic_id is not None:
            known.topic_id = topic_id
        return known

    def add(self, topic: TopicRows, partition: int, replicas: Sequence[int]) -> int:
        """A new row for a partition that the topic does not have yet."""
        shared = self.interned(replicas)
        states = self.interned_states(bytes((ReplicaState.NON_EXISTENT,)) * len(shared))
        if self._free:
            row = self._free.pop()
            self.topic_of[row] = topic.name
            self.partition_of[row] = partition
            self.replicas[row] = shared
            self.partition_state[row] = PartitionState.NON_EXISTENT
            self.replica_states[row] = states
            self.leader[row] = NO_LEADER
            self.leader_epoch[row] = _NO_LEADER_AND_ISR
            self.in_sync_replicas[row] = ()
            self.zk_version[row] = 0
            self.state_controller_epoch[row] = 0
            self.leader_recovery_state[row] = 0
        else:
            row = len(self.topic_of)
            self.topic_of.append(topic.name)
            self.partition_of.append(partition)
            self.replicas.append(shared)
            self.partition_state.append(PartitionState.NON_EXISTENT)
            self.replica_states.append(states)
            self.leader.append(NO_LEADER)
            self.leader_epoch.append(_NO_LEADER_AND_ISR)
            self.in_sync_replicas.append(())
            self.zk_version.append(0)
            self.state_controller_epoch.append(0)
            self.leader_recovery_state.append(0)
        topic.insert(partition, row)
        return row

    def add_topic_rows(
        self, topic: TopicRows, partitions: Sequence[int], replicas: Sequence[tuple[int, ...]]
    ) -> Sequence[int]:
        """Rows for all partitions of a topic that has none yet; ``partitions`` ascending."""
        if topic.rows:
            raise IllegalState(f"topic {topic.name} has partitions already")
        count = len(partitions)
        if self._free:
            for partition, each in zip(partitions, replicas, strict=True):
                self.add(topic, partition, each)
            return topic.rows
        intern, states = self._tuples.setdefault, self._states.setdefault
        gone = ReplicaState.NON_EXISTENT.to_bytes()
        by_size = {size: states(gone * size, gone * size) for size in set(map(len, replicas))}
        topic.rows = array("i", range(len(self.topic_of), len(self.topic_of) + count))
        topic.partitions = array("i", partitions)
        self.topic_of.extend([topic.name] * count)
        self.partition_of.extend(topic.partitions)
        self.replicas.extend([intern(each, each) for each in replicas])
        self.partition_state.extend(bytes((PartitionState.NON_EXISTENT,)) * count)
        self.replica_states.extend([by_size[len(each)] for each in replicas])
        self.leader.extend(array("i", (NO_LEADER,)) * count)
        self.leader_epoch.extend(array("i", (_NO_LEADER_AND_ISR,)) * count)
        self.in_sync_replicas.extend([()] * count)
        zeros = array("i", (0,)) * count
        self.zk_version.extend(zeros)
        self.state_controller_epoch.extend(zeros)
        self.leader_recovery_state.extend(bytes(count))
        return topic.rows

    def remove_topic(self, topic: str) -> None:
        """Removes a topic, its partitions and the states of their replicas."""
        gone = self.topics.pop(topic, None)
        if gone is None:
            self.deleting.discard(topic)  # queued by its request alone
            return
        # Freed rows are used again from the end of the list.  In reverse order they are one
        # ascending run for the next topic of this size.
        for row in reversed(gone.rows):
            if self.has_leader_and_isr(row):
                self.imbalanced -= self._counts_as_imbalanced(row)
                self.with_leader_and_isr -= 1
            self.topic_of[row] = ""
            self.replicas[row] = ()
            self.replica_states[row] = b""
            self.in_sync_replicas[row] = ()
            self.leader[row] = NO_LEADER
            self.leader_epoch[row] = _NO_LEADER_AND_ISR
            self.partition_state[row] = PartitionState.NON_EXISTENT
            self.reassigning.pop(row, None)
            self._departing.pop(row, None)
            self._free.append(row)
        self.deleting.discard(topic)

    def row(self, topic: str, partition: int) -> int:
        """Row of a partition, NO_ROW if it is unknown."""
        known = self.topics.get(topic)
        return NO_ROW if known is None else known.row(partition)

    def rows_of(self, topic: str) -> Sequence[int]:
        """Rows of a topic in partition order; empty if it is unknown."""
        known = self.topics.get(topic)
        return () if known is None else known.rows

    def all_rows(self) -> Iterator[int]:
        """Every row in use, topic by topic."""
        for topic in self.topics.values():
            yield from topic.rows

    def topic_partition(self, row: int) -> TopicPartition:
        return TopicPartition(self.topic_of[row], self.partition_of[row])

    def text(self, row: int) -> str:
        """The partition as ``topic-N``."""
        return f"{self.topic_of[row]}-{self.partition_of[row]}"

    def replica_text(self, row: int, broker_id: int) -> str:
        """``[Topic=topic,Partition=N,Replica=M]``."""
        return (
            f"[Topic={self.topic_of[row]},Partition={self.partition_of[row]},Replica={broker_id}]"
        )

    # ------------------------------------------------------------------ interning

    def interned(self, ids: Sequence[int]) -> tuple[int, ...]:
        if len(self._tuples) >= self._most_tuples:
            self._forget_unused_tuples()
        key = tuple(ids)
        return self._tuples.setdefault(key, key)

    def interned_states(self, states: bytes) -> bytes:
        if len(self._states) >= self._most_states:
            self._states = {each: each for each in self.replica_states}
            self._most_states = max(LEAST_INTERNED, 2 * len(self._states))
        return self._states.setdefault(states, states)

    def _forget_unused_tuples(self) -> None:
        """Drops interned tuples that no partition uses; the limit is twice the number in use.

        Every move of a partition leaves several replica lists behind, and every change of an ISR
        one.
        """
        self._tuples = {each: each for each in chain(self.replicas, self.in_sync_replicas)}
        self._most_tuples = max(LEAST_INTERNED, 2 * len(self._tuples))

    # ------------------------------------------------------------------ assignment

    def assignment(self, row: int) -> ReplicaAssignment:
        """Full assignment, adding and removing replicas included."""
        return self.reassigning.get(row) or ReplicaAssignment(self.replicas[row])

    def put_assignment(self, row: int, assignment: ReplicaAssignment) -> None:
        """Replaces the assignment; replicas keep their states until they are deleted."""
        before: dict[int, int] = dict(self._departing.pop(row, {}))
        before.update(zip(self.replicas[row], self.replica_states[row], strict=True))
        departing = {
            broker: ReplicaState(state)
            for broker, state in before.items()
            if broker not in assignment.replicas and state != ReplicaState.NON_EXISTENT
        }
        if departing:
            self._departing[row] = departing
        if self.has_leader_and_isr(row):
            self.imbalanced -= self._counts_as_imbalanced(row)
        self.replicas[row] = self.interned(assignment.replicas)
        self.replica_states[row] = self.interned_states(
            bytes(before.get(broker, ReplicaState.NON_EXISTENT) for broker in assignment.replicas)
        )
        if assignment.is_being_reassigned:
            self.reassigning[row] = assignment
        else:
            self.reassigning.pop(row, None)
        if self.has_leader_and_isr(row):
            self.imbalanced += self._counts_as_imbalanced(row)

    def rows_on_broker(self, broker_id: int) -> list[int]:
        """Rows that have a replica on the broker."""
        # Few distinct replica lists exist: decide once for each, then scan by identity of the hash.
        holding = {replicas for replicas in self._tuples if broker_id in replicas}
        return [row for row, replicas in enumerate(self.replicas) if replicas in holding]

    # ------------------------------------------------------------------ leader and ISR

    def has_leader_and_isr(self, row: int) -> bool:
        """Whether the partition's state znode is known."""
        return self.leader_epoch[row] != _NO_LEADER_AND_ISR

    def leader_and_isr(self, row: int) -> LeaderAndIsr:
        """The content of the partition's state znode; IllegalState if it is not known."""
        if self.leader_epoch[row] == _NO_LEADER_AND_ISR:
            raise IllegalState(f"the state of {self.text(row)} is not known")
        fields = (
            self.leader[row],
            self.leader_epoch[row],
            self.in_sync_replicas[row],
            self.zk_version[row],
            self.state_controller_epoch[row],
            self.leader_recovery_state[row],
        )
        return tuple.__new__(LeaderAndIsr, fields)  # a failed broker causes 40,000 of these

    def put_leader_and_isr(self, states: Mapping[int, LeaderAndIsr]) -> None:
        """Stores the content of these partitions' state znodes."""
        before = self._imbalanced_among(states)
        if len(self._tuples) >= self._most_tuples:
            self._forget_unused_tuples()
        intern = self._tuples.setdefault
        for row, state in states.items():
            leader, leader_epoch, isr, zk_version, controller_epoch, recovery = state
            if self.leader_epoch[row] == _NO_LEADER_AND_ISR:
                self.with_leader_and_isr += 1
            self.leader[row] = leader
            self.leader_epoch[row] = leader_epoch
            self.in_sync_replicas[row] = intern(isr, isr)
            self.zk_version[row] = zk_version
            self.state_controller_epoch[row] = controller_epoch
            self.leader_recovery_state[row] = recovery
        self.imbalanced += self._imbalanced_among(states) - before

    def _imbalanced_among(self, rows: Iterable[int]) -> int:
        """The number of these rows that count as imbalanced."""
        leader, leader_epoch, replicas = self.leader, self.leader_epoch, self.replicas
        if self.deleting or self.reassigning:
            led = (row for row in rows if leader_epoch[row] != _NO_LEADER_AND_ISR)
            return sum(map(self._counts_as_imbalanced, led))
        return sum(
            [
                leader_epoch[row] != _NO_LEADER_AND_ISR and leader[row] != replicas[row][0]
                for row in rows
                if replicas[row]
            ]
        )

    def load_leader_and_isr(
        self,
        first_row: int,
        states: Sequence[tuple[int, int, tuple[int, ...], int, int] | None],
        zk_versions: Sequence[int],
    ) -> None:
        """Stores the first leader and ISR of neighbouring rows, column by column, at failover.

        A state is (leader, leader_epoch, in_sync_replicas, controller_epoch,
        leader_recovery_state), None where no state znode is known.
        """
        if not states:
            return
        rows = slice(first_row, first_row + len(states))
        columns = zip(*(_NOTHING if state is None else state for state in states), strict=True)
        leaders, leader_epochs, in_sync, controller_epochs, recovery = columns
        self.leader[rows] = array("i", leaders)
        self.leader_epoch[rows] = array("i", leader_epochs)
        self.in_sync_replicas[rows] = in_sync
        self.zk_version[rows] = array("i", zk_versions)
        self.state_controller_epoch[rows] = array("i", controller_epochs)
        self.leader_recovery_state[rows] = bytes(recovery)
        self.with_leader_and_isr += len(states) - leader_epochs.count(_NO_LEADER_AND_ISR)
        self.imbalanced += sum(
            self._counts_as_imbalanced(row)
            for row, leader, replicas in zip(
                range(first_row, rows.stop), leaders, self.replicas[rows], strict=True
            )
            if (leader != replicas[0] or row in self.reassigning) and self.has_leader_and_isr(row)
        )

    def forget_imbalance(self, topic: str) -> None:
        """Subtracts the partitions of a topic queued for deletion from the imbalanced ones."""
        if topic in self.deleting:
            return
        for row in self.rows_of(topic):
            if self.has_leader_and_isr(row):
                self.imbalanced -= self._counts_as_imbalanced(row)
        self.deleting.add(topic)

    def _counts_as_imbalanced(self, row: int) -> int:
        if self.topic_of[row] in self.deleting:
            return 0
        replicas = self.replicas[row]
        if not replicas:
            return 0
        preferred = replicas[0]
        reassignment = self.reassigning.get(row)
        if reassignment is not None and preferred in reassignment.adding_replicas:
            # Balanced until the new preferred leader has caught up, imbalanced from then on.
            return int(preferred in self.in_sync_replicas[row])
        return int(self.leader[row] != preferred)

    # ------------------------------------------------------------------ replica states

    def replica_state(self, row: int, broker_id: int) -> ReplicaState:
        """State of the broker's replica; NON_EXISTENT where it has none."""
        replicas = self.replicas[row]
        if broker_id not in replicas:
            return self._departing.get(row, {}).get(broker_id, ReplicaState.NON_EXISTENT)
        return _REPLICA_STATES[self.replica_states[row][replicas.index(broker_id)]]

    def put_replica_state(self, row: int, broker_id: int, state: ReplicaState) -> None:
        replicas = self.replicas[row]
        if broker_id not in replicas:
            self._put_departing(row, broker_id, state)
            return
        states = bytearray(self.replica_states[row])
        states[replicas.index(broker_id)] = state
        self.replica_states[row] = self.interned_states(bytes(states))

    def put_replica_states(self, rows: Sequence[int], broker_id: int, state: ReplicaState) -> None:
        """As :meth:`put_replica_state` for many rows."""
        # Few distinct combinations exist: each is changed once.
        changed: dict[tuple[tuple[int, ...], bytes], bytes] = {}
        for row in rows:
            before = (self.replicas[row], self.replica_states[row])
            after = changed.get(before)
            if after is not None:
                self.replica_states[row] = after
                continue
            self.put_replica_state(row, broker_id, state)
            if broker_id in before[0]:
                changed[before] = self.replica_states[row]

    def _put_departing(self, row: int, broker_id: int, state: ReplicaState) -> None:
        departing = self._departing.setdefault(row, {})
        if state is ReplicaState.NON_EXISTENT:
            departing.pop(broker_id, None)
        else:
            departing[broker_id] = state
        if not departing:
            del self._departing[row]

    def is_any_replica_in(self, topic: str, state: ReplicaState) -> bool:
        return any(state in self.replica_states[row] for row in self.rows_of(topic))

    def are_all_replicas_in(self, topic: str, state: ReplicaState) -> bool:
        """Whether all replicas of the topic are in that state; True for an unknown topic too."""
        return all(
            self.replica_states[row].count(state) == len(self.replica_states[row])
            for row in self.rows_of(topic)
        )

    def replicas_in(self, topics: Iterable[str], state: ReplicaState) -> dict[int, list[int]]:
        """Broker to rows: the topics' replicas that are in that state."""
        found: dict[int, list[int]] = {}
        for topic in topics:
            for row in self.rows_of(topic):
                states = self.replica_states[row]
                if state in states:
                    for broker, each in zip(self.replicas[row], states, strict=True):
                        if each == state:
                            found.setdefault(broker, []).append(row)
        return found
