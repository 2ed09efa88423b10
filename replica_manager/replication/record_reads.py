"""Reads records for Fetch requests, immediately or after waiting for enough bytes.

A read finds the position in a segment file and the number of bytes to send; no bytes are copied.  A
follower's read shows its log end offset, which may raise the high watermark and add the follower to
the ISR.  A request that finds too few bytes waits in the purgatory.  It is read again when enough
bytes have come or its time is over.

Source: Kafka ``ReplicaManager.fetchMessages`` and ``readFromLog``, ``Partition.fetchRecords``;
KIP-392 for consumers that read from a follower.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.errors import KafkaStorage, OffsetOutOfRange
from kafka_common.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.files import FileSlice
from replica_manager.log.local_log import LogOffsetMetadata
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.delayed_fetch import (
    DelayedFetch,
    FetchPartitionStatus,
    must_respond_at_once,
)
from replica_manager.replication.fetch_values import FetchPartitionData, TopicIdPartition
from replica_manager.replication.isr import PendingIsr
from replica_manager.replication.partition import Partition
from replica_manager.replication.partition_reads import (
    CONSUMER_REPLICA_ID,
    LogReadInfo,
    check_read,
    diverges,
    prepare_read,
)
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.throttle import ReplicationThrottle
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.replication.waiting_room import WaitingRoom

_log = logging.getLogger("kafka.server.ReplicaManager")

PARTITIONS_AT_ONCE: Final = 100
"""Partitions that are read before other tasks run: some 3 ms."""


class FetchParams(Struct, frozen=True):
    """The fields of a Fetch request that apply to all its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK
    replica_id: int = CONSUMER_REPLICA_ID
    replica_epoch: int = UNKNOWN_BROKER_EPOCH
    has_hard_limit: bool = False
    """The response never exceeds ``max_bytes``, even for one batch: versions 0 to 2."""
    is_leader_only: bool = True
    """Only the leader may serve the request: it is a follower's, or older than version 11."""
    preferred_replica: Callable[[Partition, int], int | None] = lambda _, __: None
    """Returns the broker id of the replica to read an offset from; None: this broker."""

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


class RecordReads:
    """Reads the records for Fetch requests.  Runs on the event loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        stats: BrokerTopicStats,
        now_ms: Callable[[], int],
        propose: Callable[[Partition, PendingIsr], None],
        on_expired: Callable[[bool], None] = lambda _: None,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """``propose`` sends an ISR change to the controller.

        ``on_expired`` is called when a waiting request times out, with True for a follower's.
        ``now_ms`` must be the clock of ``replicas``; ``throttle`` limits what is sent to followers.
        """
        self._replicas = replicas
        self._stats = stats
        self._now_ms = now_ms
        self._propose = propose
        self._on_expired = on_expired
        self._throttle = throttle or ReplicationThrottle(now_ms)
        self.waiting: WaitingRoom[TopicPartition, DelayedFetch[LogOffsetMetadata]] = WaitingRoom()
        replicas.watch(self._partition_changed)

    async def fetch_messages(
        self, params: FetchParams, fetch_infos: Mapping[TopicIdPartition, FetchPartition]
    ) -> dict[TopicIdPartition, FetchPartitionData]:
        """Reads the partitions of a request; one result per partition, in the same order."""
        starts: dict[TopicIdPartition, LogOffsetMetadata] = {}
        fetched = await self._read_all(params, fetch_infos, starts, {})
        for topic, count in Counter(partition.topic for partition in fetch_infos).items():
            assert topic is not None, "an unknown one is refused before"
            self._stats.mark(topic, "total_fetch_requests", count)
        if must_respond_at_once(
            fetched.values(), max_wait_ms=params.max_wait_ms, min_bytes=params.min_bytes
        ):
            return fetched
        statuses = [
            FetchPartitionStatus(partition, starts[partition], fetch_info)
            for partition, fetch_info in fetch_infos.items()
        ]
        delayed = DelayedFetch(
            statuses,
            params.min_bytes,
            lambda status: self._readable_end(params, status),
            self._has_diverged,
        )
        if not await self.waiting.wait(delayed, delayed.partitions, params.max_wait_ms):
            self._on_expired(params.is_from_follower)
        same = {
            partition: fetched[partition]
            for tp, (partition, *_) in delayed.partitions.items()
            if tp not in delayed.touched
            and not fetched[partition].records
            and not self._throttle.is_throttled(tp)
        }
        return await self._read_all(params, fetch_infos, None, same)

    def _partition_changed(self, tp: TopicPartition) -> None:
        for delayed in self.waiting.purgatory.watching(tp):
            delayed.changed(tp)
        self.waiting.check(tp)

    async def _read_all(
        self,
        params: FetchParams,
        fetch_infos: Mapping[TopicIdPartition, FetchPartition],
        starts: dict[TopicIdPartition, LogOffsetMetadata] | None,
        same: Mapping[TopicIdPartition, FetchPartitionData],
    ) -> dict[TopicIdPartition, FetchPartitionData]:
        """Reads one partition after the other within ``max_bytes``.

        Stores the start of each read in ``starts``; ``starts`` is None for a second read, which
        records no fetch of a follower.  Partitions in ``same`` have not changed since the first
        read; their results are used again.
        """
        fetched: dict[TopicIdPartition, FetchPartitionData] = {}
        left = params.max_bytes
        # The first batch is sent even if it is larger than the limits, so that reads progress.
        min_one_message = not params.has_hard_limit
        count = 0
        for partition, fetch_info in fetch_infos.items():
            if partition in same:
                fetched[partition] = same[partition]
                continue
            count += 1
            if count % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                found = self._read(
                    params, partition, fetch_info, left, starts, min_one=min_one_message
                )
            except Exception:  # noqa: BLE001 - one log must not stop the reads of the others
                tp = partition.topic_partition
                _log.exception("Error processing fetch on partition %s: %s", tp, fetch_info)
                self._stats.mark(tp.topic, "failed_fetch_requests")
                found = FetchPartitionData(ErrorCode.unknown_server_error)
            fetched[partition] = found
            size = len(found.records)
            if size:
                min_one_message = False
                left = max(0, left - size)
        return fetched

    def _read(
        self,
        params: FetchParams,
        partition: TopicIdPartition,
        fetch_info: FetchPartition,
        max_bytes: int,
        starts: dict[TopicIdPartition, LogOffsetMetadata] | None,
        *,
        min_one: bool,
    ) -> FetchPartitionData:
        tp = partition.topic_partition
        hosted = self._replicas.get_partition_or_error(tp)
        if isinstance(hosted, ErrorCode):
            return FetchPartitionData(hosted)
        if partition.topic_id is not None and hosted.topic_id not in (None, partition.topic_id):
            return FetchPartitionData(ErrorCode.inconsistent_topic_id)
        preferred = params.preferred_replica(hosted, fetch_info.fetch_offset)
        if preferred is not None:
            return _preferred_replica_response(hosted, fetch_info, preferred)
        read_info = prepare_read(
            hosted, fetch_info, replica_id=params.replica_id, leader_only=params.is_leader_only
        )
        if isinstance(read_info, FetchPartitionData):
            return read_info
        log = hosted.log
        assert isinstance(log, UnifiedLog), "who has offsets to read has a log"
        try:
            read = log.read(
                fetch_info.fetch_offset,
                min(fetch_info.partition_max_bytes, max_bytes),
                params.isolation,
                min_one_message=min_one,
            )
        except OffsetOutOfRange:
            return FetchPartitionData(ErrorCode.offset_out_of_range)
        except KafkaStorage:
            return FetchPartitionData(ErrorCode.kafka_storage_error)
        if starts is not None:
            starts[partition] = read.start
            if params.is_from_follower:
                self._record(params, hosted, fetch_info, read_info)
        is_useless = read.is_first_batch_incomplete and not params.has_hard_limit
        if is_useless or read.slice is None or self._is_held_back(params, hosted):
            records: bytes | FileSlice = b""
        else:
            records = read.slice
            if params.is_from_follower and self._throttle.is_throttled(tp):
                self._throttle.record(len(records))
        return FetchPartitionData(
            ErrorCode.none,
            read_info.high_watermark,
            read_info.last_stable_offset,
            read_info.log_start_offset,
            records,
            aborted_transactions=read.aborted_transactions,
        )

    def _is_held_back(self, params: FetchParams, partition: Partition) -> bool:
        """Whether the throttle (KIP-73) withholds records from a follower that is not in sync."""
        return (
            params.is_from_follower
            and self._throttle.is_throttled(partition.topic_partition)
            and params.replica_id not in partition.in_sync_replicas
            and self._throttle.is_exceeded
        )

    def _record(
        self,
        params: FetchParams,
        partition: Partition,
        fetch_info: FetchPartition,
        read_info: LogReadInfo,
    ) -> None:
        """Records a follower's fetch, and acts on its effects."""
        effect = partition.record_fetch(
            params.replica_id,
            fetch_info.fetch_offset,
            fetch_info.log_start_offset,
            read_info.log_end_offset,
            self._now_ms(),
            params.replica_epoch,
        )
        if effect.proposal is not None:
            self._propose(partition, effect.proposal)
        if effect.high_watermark_moved or effect.low_watermark_moved:
            self._replicas.partition_changed(partition.topic_partition)

    # Waiting

    def _readable_end(
        self, params: FetchParams, status: FetchPartitionStatus[LogOffsetMetadata]
    ) -> LogOffsetMetadata | ErrorCode:
        hosted = self._replicas.get_partition_or_error(status.partition.topic_partition)
        if isinstance(hosted, ErrorCode):
            return hosted
        error = check_read(
            hosted, status.fetch_info.current_leader_epoch, leader_only=params.is_leader_only
        )
        if error is not ErrorCode.none:
            return error
        if self._is_held_back(params, hosted):
            return status.start_offset_metadata
        log = hosted.log
        assert isinstance(log, UnifiedLog), "it was read before"
        match params.isolation:
            case FetchIsolation.LOG_END:
                return log.log_end_offset_metadata
            case FetchIsolation.HIGH_WATERMARK:
                return log.high_watermark_metadata
            case FetchIsolation.TXN_COMMITTED:
                return log.last_stable_offset_metadata

    def _has_diverged(self, status: FetchPartitionStatus[LogOffsetMetadata]) -> bool:
        hosted = self._replicas.get_partition_or_error(status.partition.topic_partition)
        if isinstance(hosted, ErrorCode):
            return True
        end = hosted.log.end_offset_for_epoch(status.fetch_info.last_fetched_epoch)
        return end is None or diverges(status.fetch_info, end)


def _preferred_replica_response(
    partition: Partition, fetch_info: FetchPartition, preferred: int
) -> FetchPartitionData:
    error = check_read(partition, fetch_info.current_leader_epoch, leader_only=False)
    if error is not ErrorCode.none:
        return FetchPartitionData(error)
    log = partition.log
    return FetchPartitionData(
        ErrorCode.none,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        preferred_read_replica=preferred,
    )
