"""Topics and partitions for which ZooKeeper refused an operation, to be retried.

Five operations are retried:

* an election without which a partition has no leader;
* the last write of a reassignment;
* the content of a topic's znode;
* the end of a topic's deletion;
* any other write of a partition's state.  The state in ZooKeeper is then unknown, because a write
  whose reply was lost is repeated, and only the repetition may be refused.  The brokers also lack
  the new state.  The leader epoch of such a partition is raised, so that ZooKeeper, controller and
  brokers agree again.

A corrupt state is retried like a refused one, because no watch reports when it is valid again.

The pause before a retry doubles as long as ZooKeeper goes on refusing.  Kafka does not retry: it
logs the failure, and the refusal lasts until a broker starts or fails, or the controller changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka_common.model import TopicPartition
from zkcontroller.core.effects import Put
from zkcontroller.core.events import RefusedPartitionRetry
from zkcontroller.core.journal import PARTITION_STATE_MACHINE
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.states import PartitionState
from zkcontroller.core.tools import ControllerTools

FIRST_RETRY_MS: Final = 5_000
"""The pause before the first retry."""
LONGEST_RETRY_MS: Final = 300_000
"""The longest pause between two retries."""


class RefusedRows(NamedTuple):
    """The rows of the partitions to retry, by the kind of the refused operation."""

    states: list[int]
    elections: list[int]
    assignments: list[int]


class RefusedPartitions:
    """Collects the partitions, and has at most one retry waiting."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools
        self.topics: dict[str, None] = {}
        """Topics whose znode could not be read, or not be deleted.

        The table has what was known of them before.
        """
        self._elections: dict[TopicPartition, None] = {}
        self._assignments: dict[TopicPartition, None] = {}
        self._pause_ms = FIRST_RETRY_MS
        self._is_waiting = False

    def forget(self) -> None:
        """Clears everything when this broker becomes or ceases to be controller."""
        self.topics.clear()
        self._elections.clear()
        self._assignments.clear()
        self._pause_ms = FIRST_RETRY_MS
        self._is_waiting = False

    def add_election(self, row: int) -> None:
        """Adds a partition whose election ZooKeeper refused; one with a leader needs no retry."""
        if self._has_no_leader(row):
            self._elections[self._tools.context.table.topic_partition(row)] = None

    def add_assignment(self, row: int) -> None:
        """Adds a partition whose final assignment, after a reassignment, ZooKeeper refused."""
        self._assignments[self._tools.context.table.topic_partition(row)] = None

    def schedule(self) -> None:
        """Schedules the retry if one is needed and none is waiting."""
        if self._is_waiting or not self._is_needed():
            return
        states = self._tools.context.refused_states
        self._tools.journal.warn(
            f"ZooKeeper refused {len(self.topics)} topics, {len(self._elections)} elections of"
            f" partitions without a leader, {len(self._assignments)} assignments and"
            f" {len(states)} states, or they are corrupt; trying again in {self._pause_ms} ms",
            PARTITION_STATE_MACHINE,
        )
        self._tools.outbox.append(Put(RefusedPartitionRetry(), self._pause_ms))
        self._pause_ms = min(2 * self._pause_ms, LONGEST_RETRY_MS)
        self._is_waiting = True

    def take(self) -> RefusedRows:
        """The rows that still need the retry, which is due now; add those that fail again."""
        table = self._tools.context.table
        elections = [row for row in self._rows(self._elections) if self._has_no_leader(row)]
        electing = frozenset(elections)
        rows = RefusedRows(
            [
                row
                for row in self._rows(self._tools.context.refused_states)
                if table.has_leader_and_isr(row) and row not in electing
            ],
            elections,
            # A reassignment that has begun since has written the topic's znode already.
            [
                row
                for row in self._rows(self._assignments)
                if not table.assignment(row).is_being_reassigned
            ],
        )
        self._elections.clear()
        self._assignments.clear()
        self._tools.context.refused_states.clear()
        self._is_waiting = False
        return rows

    def retried(self) -> None:
        """Ends the retry; if nothing was refused again, the next pause is the shortest one."""
        if not self._is_needed():
            self._pause_ms = FIRST_RETRY_MS

    def _is_needed(self) -> bool:
        return bool(
            self.topics
            or self._elections
            or self._assignments
            or self._tools.context.refused_states
        )

    def _rows(self, partitions: Iterable[TopicPartition]) -> list[int]:
        """Rows of the partitions that are still there."""
        table = self._tools.context.table
        kept = (each for each in partitions if each.topic not in table.deleting)
        return [row for each in kept if (row := table.row(*each)) != NO_ROW]

    def _has_no_leader(self, row: int) -> bool:
        state = self._tools.context.table.partition_state[row]
        return state in (PartitionState.NEW, PartitionState.OFFLINE)
