"""Reads a partition of ``__consumer_offsets`` after this broker became its leader.

The event loop finds the position of the records; a thread reads and decompresses them.  The
coordinator gets the records in steps of a few milliseconds, between which other tasks run.

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
"""Records that the coordinator gets in one step, or one larger batch: some 5 ms."""

RETRY_S: Final = 1.0
"""Pause before a read that failed at a limit of the operating system is tried again."""

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
        """The position in a file of the batches from ``offset`` on."""


def led_log(replicas: ReplicaManager, topic_partition: TopicPartition) -> UnifiedLog | None:
    """The partition's log; None if this broker is not the leader."""
    partition = replicas.partitions.get(topic_partition)
    if partition is None or partition.role is not Role.LEADER:
        return None
    return partition.log if isinstance(partition.log, UnifiedLog) else None


class LeadershipLost(ZkControllerError):
    """This broker is no longer the leader of the partition that it loads."""


class _Chunk(NamedTuple):
    """The batches of one read; ``next_offset`` is None if there was no complete batch."""

    batches: Sequence[LoadedBatch]
    next_offset: int | None


async def read_partition(
    led_log: Callable[[], OffsetsLog | None],
    buffer_bytes: int,
    executor: Executor,
    on_larger: Callable[[int], None],
) -> AsyncIterator[tuple[LoadedBatch, ...]]:
    """Yields every batch of a partition, in pieces of RECORDS_AT_ONCE records or one batch.

    ``led_log`` returns the log if this broker leads the partition, else None.  Raises
    LeadershipLost if this broker is no longer the leader; CorruptRecord, InvalidRecord,
    OffsetOutOfRange, KafkaStorage or OSError if the log cannot be read to its end.  A read that
    fails at a limit of the operating system is tried again after RETRY_S.  ``on_larger`` gets the
    bytes of each read of more than ``buffer_bytes``, which is one batch.
    """
    loop = asyncio.get_running_loop()
    offset = 0
    while True:
        log = led_log()
        if log is None:
            raise LeadershipLost("this broker does not lead it any more")
        # Meanwhile records may be deleted at the start of the log.
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
            on_larger(piece.length)
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
