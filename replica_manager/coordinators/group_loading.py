"""Reads a partition of ``__consumer_offsets`` after this broker became its leader.

Where the records lie is decided on the event loop; reading and unpacking them is done in a thread.
What was read goes to the coordinator in steps of a few milliseconds, between which the event loop
serves others.

Source: Kafka ``GroupMetadataManager.doLoadGroupsAndOffsets``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple, Protocol

from kafka_common.errors import CorruptRecord, LimitReached, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.process.resource_limits import exhausted_limit
from replica_manager.coordinators.groups.batches import loaded_batches, next_offset
from replica_manager.coordinators.groups.events import LoadedBatch
from replica_manager.log.files import FileSlice
from replica_manager.log.local_log import LogRead
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.partition import Role
from replica_manager.replication.replica_manager import ReplicaManager

RECORDS_AT_ONCE: Final = 1_000
"""So many are given to the coordinator in one step, or one batch: some 5 ms."""

RETRY_S: Final = 1.0
"""After so long a read that a limit of the system has refused is tried again."""

_log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")


class OffsetsLog(Protocol):
    """The methods of a log that loading needs."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    def read(
        self, offset: int, max_bytes: int, isolation: FetchIsolation, *, min_one_message: bool
    ) -> LogRead:
        """Where the batches from that offset on are."""


def led_log(replicas: ReplicaManager, topic_partition: TopicPartition) -> UnifiedLog | None:
    """The log of a partition that this broker leads; None if it is not the leader."""
    partition = replicas.partitions.get(topic_partition)
    if partition is None or partition.role is not Role.LEADER:
        return None
    return partition.log if isinstance(partition.log, UnifiedLog) else None


class LeadershipLost(ZkControllerError):
    """This broker does not lead the partition any more."""


class _Chunk(NamedTuple):
    """One read and the start of the next; None if there was no whole batch."""

    batches: Sequence[LoadedBatch]
    next_offset: int | None


async def read_partition(
    led_log: Callable[[], OffsetsLog | None], buffer_bytes: int, executor: Executor
) -> AsyncIterator[tuple[LoadedBatch, ...]]:
    """Every batch, in pieces of RECORDS_AT_ONCE records or one batch.

    ``led_log`` gives the log while this broker leads it, else None.  Raises LeadershipLost
    when that is over; CorruptRecord, InvalidRecord, OffsetOutOfRange, KafkaStorage or OSError if
    the log cannot be read to its end.  A read that a limit of the system has refused is tried
    again after RETRY_S, as long as this broker leads.
    """
    loop = asyncio.get_running_loop()
    offset = 0
    while True:
        log = led_log()
        if log is None:
            raise LeadershipLost("this broker does not lead it any more")
        # Records may be deleted from the start while they are read.
        offset = max(offset, log.log_start_offset)
        if offset >= log.log_end_offset:
            return
        try:
            found = log.read(offset, buffer_bytes, FetchIsolation.LOG_END, min_one_message=True)
            piece = found.slice
            if piece is None:
                return
            chunk = await loop.run_in_executor(executor, _read, piece)
        except (LimitReached, OSError) as error:
            if isinstance(error, OSError) and exhausted_limit(error) is None:
                raise
            _log.warning("Loading waits %g s: %s", RETRY_S, error)
            await asyncio.sleep(RETRY_S)
            continue
        if piece.length > buffer_bytes:
            _log.warning(
                "Loaded offsets and group metadata with buffer larger (%d bytes) than configured"
                " offsets.load.buffer.size (%d bytes)",
                piece.length,
                buffer_bytes,
            )
        for batches in _portions(chunk.batches):
            yield batches
            await asyncio.sleep(0)
        if chunk.next_offset is None or chunk.next_offset <= offset:
            raise CorruptRecord(f"no whole batch at offset {offset}")
        offset = chunk.next_offset


def _read(piece: FileSlice) -> _Chunk:
    data = piece.read()
    return _Chunk(tuple(loaded_batches(data)), next_offset(data))


def _portions(batches: Iterable[LoadedBatch]) -> Iterator[tuple[LoadedBatch, ...]]:
    portion: list[LoadedBatch] = []
    count = 0
    for batch in batches:
        if portion and count + len(batch.records) > RECORDS_AT_ONCE:
            yield tuple(portion)
            portion, count = [], 0
        portion.append(batch)
        count += len(batch.records)
    if portion:
        yield tuple(portion)
