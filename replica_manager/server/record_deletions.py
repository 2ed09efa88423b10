"""DeleteRecords on the leader: raises the log start offset, then waits for the followers.

A follower gets the new log start offset with its next fetch, and reports it with the fetch after.
Retention deletes the segments below the log start offset later.

Source: Kafka ``ReplicaManager.deleteRecords``, ``Partition.deleteRecordsOnLeader`` (KIP-107).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError
from kafka_common.model import INTERNAL_TOPICS, TopicPartition
from kafka_common.protocol.error_codes import error_code_for
from replica_manager.log.log_manager import LogManager
from replica_manager.replication.delayed_delete_records import (
    DelayedDeleteRecords,
    DeletedRecords,
)
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.waiting_room import WaitingRoom
from replica_manager.server.slices import in_slices

HIGH_WATERMARK: Final = -1
"""The offset in a request that stands for the high watermark."""

_log = logging.getLogger("kafka.server.ReplicaManager")


class RecordDeletions:
    """Deletes records of partitions that this broker leads.  For the event loop."""

    def __init__(self, replicas: ReplicaManager, logs: LogManager) -> None:
        self._replicas = replicas
        self._logs = logs
        self._room: WaitingRoom[TopicPartition, DelayedDeleteRecords] = WaitingRoom()
        replicas.watch(self._room.check)

    def __len__(self) -> int:
        """The number of waiting requests, for the gauge ``PurgatorySize`` of DeleteRecords."""
        return len(self._room)

    async def delete(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, DeletedRecords]:
        """Deletes the records before the offsets.

        Waits until all live replicas have raised their log start offset, at most ``timeout_ms``.
        """
        raised: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, ErrorCode] = {}
        async for tp, offset in in_slices(offsets.items()):
            outcome = self._delete_here(tp, offset)
            if isinstance(outcome, ErrorCode):
                refused[tp] = outcome
            else:
                raised[tp] = outcome
        # No await in this loop: followers must get the log start offsets even if the client
        # disconnects.
        for tp in raised:
            self._replicas.partition_changed(tp)
        operation = DelayedDeleteRecords(raised, refused, self.low_watermark)
        await self._room.wait(operation, raised, timeout_ms)
        return operation.results

    def low_watermark(self, tp: TopicPartition) -> int | ErrorCode:
        """The smallest log start offset of the live replicas and of a future replica here."""
        partition = self._replicas.get_partition_or_error(tp)
        if partition is ErrorCode.not_leader_or_follower:
            return ErrorCode.unknown_topic_or_partition  # deleted since the request began
        if isinstance(partition, ErrorCode):
            return partition
        if not partition.is_leader:
            return ErrorCode.not_leader_or_follower
        future = self._logs.log(tp, is_future=True)
        low_watermark = partition.low_watermark
        return low_watermark if future is None else min(low_watermark, future.log_start_offset)

    def _delete_here(self, tp: TopicPartition, offset: int) -> int | ErrorCode:
        """Raises the log start offset; returns the offset that replicas must reach, or an error."""
        if tp.topic in INTERNAL_TOPICS:
            return ErrorCode.invalid_topic_exception
        partition = self._replicas.get_partition_or_error(tp)
        if isinstance(partition, ErrorCode):
            return partition
        log = self._logs.log(tp)
        if not partition.is_leader or log is None:
            return ErrorCode.not_leader_or_follower
        if not log.config.is_deleted:
            return ErrorCode.policy_violation
        wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            return ErrorCode.offset_out_of_range
        try:
            log.delete_records(wanted)
        except ZkControllerError as failure:
            _log.debug("Records of %s are not deleted: %s", tp, failure)
            return error_code_for(failure)
        return wanted
