"""Partitions that have no leader because ZooKeeper refused what their election needed.

Nothing else would elect for them until a broker starts or fails, or another controller comes: the
controller tries again by itself, after a pause that doubles as long as ZooKeeper goes on refusing.
Kafka logs the failed state change and waits for the next such event.
"""

from __future__ import annotations

from typing import Final

from zkcontroller.core.desk import Desk
from zkcontroller.core.effects import Put
from zkcontroller.core.events import RefusedElectionRetry
from zkcontroller.core.journal import PARTITION_STATE_MACHINE
from zkcontroller.core.partition_table import NO_ROW, PartitionState
from zkcontroller.model import TopicPartition

FIRST_RETRY_MS: Final = 5_000
"""The pause before the first retry."""
LONGEST_RETRY_MS: Final = 300_000
"""The longest pause between two retries."""


class RefusedElections:
    """Collects the partitions, and has at most one retry waiting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._partitions: dict[TopicPartition, None] = {}
        self._pause_ms = FIRST_RETRY_MS
        self._is_waiting = False

    def forget(self) -> None:
        """Begins anew: the controller takes or leaves its office, and no delayed event is left."""
        self._partitions.clear()
        self._pause_ms = FIRST_RETRY_MS
        self._is_waiting = False

    def add(self, row: int) -> None:
        """ZooKeeper refused this partition; one that has a leader can do without."""
        table = self._desk.context.table
        if table.partition_state[row] in (PartitionState.NEW, PartitionState.OFFLINE):
            self._partitions[table.topic_partition(row)] = None

    def schedule(self) -> None:
        """Schedules the retry if one is needed and none is waiting."""
        if self._is_waiting or not self._partitions:
            return
        self._desk.journal.warn(
            f"ZooKeeper refused the election of {len(self._partitions)} partitions without a"
            f" leader; trying again in {self._pause_ms} ms",
            PARTITION_STATE_MACHINE,
        )
        self._desk.outbox.append(Put(RefusedElectionRetry(), self._pause_ms))
        self._pause_ms = min(2 * self._pause_ms, LONGEST_RETRY_MS)
        self._is_waiting = True

    def take(self) -> list[int]:
        """The retry has come: the rows that still have no leader.

        The caller that elects for them adds those that are refused again.
        """
        table = self._desk.context.table
        rows = [
            row
            for topic, partition in self._partitions
            if topic not in table.deleting
            and (row := table.row(topic, partition)) != NO_ROW
            and table.partition_state[row] in (PartitionState.NEW, PartitionState.OFFLINE)
        ]
        self._partitions.clear()
        self._is_waiting = False
        return rows

    def retried(self) -> None:
        """Starts again with the shortest pause if nothing was refused any more."""
        if not self._partitions:
            self._pause_ms = FIRST_RETRY_MS
