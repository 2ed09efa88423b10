"""Validates batches before an append, and computes the producers' next states.

Source: Kafka ``UnifiedLog.analyzeAndValidateRecords`` and ``analyzeAndValidateProducerState``.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kafka_common.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTxnState,
    MessageTooLarge,
    OffsetsOutOfOrder,
)
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.record_batch import (
    MAGIC_2,
    BatchHeader,
    MemoryRecords,
    is_intact,
    iterate_batches,
)
from kafka_common.protocol.records import NO_TIMESTAMP
from replica_manager.log.index import TimestampOffset
from replica_manager.log.log_recovery import read_marker
from replica_manager.log.producer_state_manager import (
    Advance,
    AppendOrigin,
    BatchMetadata,
    ProducerEntry,
    ProducerStateManager,
    VerificationGuard,
    advance,
)

_log: Final = logging.getLogger("kafka.log.UnifiedLog")


class ValidRecords(NamedTuple):
    """Validated batches with assigned offsets, ready to be appended."""

    headers: Sequence[BatchHeader]
    pieces: Sequence[bytes | memoryview]
    """The bytes of the batches, in consecutive parts."""
    size: int
    largest: TimestampOffset
    """The largest timestamp, and the last offset of the first batch that has it."""

    @property
    def last_offset(self) -> int:
        return self.headers[-1].last_offset


def check_size(header: BatchHeader, max_message_bytes: int, partition: str) -> None:
    """Raises MessageTooLarge for a batch of more than ``max_message_bytes``."""
    if header.size > max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size in the append to {partition} is {header.size} bytes which "
            f"exceeds the maximum configured value of {max_message_bytes}."
        )


Batches: TypeAlias = list[tuple[int, BatchHeader]]
"""Batch headers, each after its position in the buffer."""

BATCHES_AT_ONCE: Final = 200
"""Batches checked before the generator yields: about a millisecond of work."""


def leader_batches(
    records: MemoryRecords,
    origin: AppendOrigin,
    max_message_bytes: int,
    partition: str,
    most: int | None = None,
) -> Generator[None, None, Batches]:
    """The complete batches for an append as leader, checked; yields between slices of work.

    Raises the error of the first invalid batch, and MessageTooLarge for more than ``most``
    batches; None is no limit.
    """
    batches: Batches = []
    for position, header in records.batches():
        if len(batches) == most:
            raise MessageTooLarge(f"More than {most} batches in the append to {partition}")
        if len(batches) % BATCHES_AT_ONCE == BATCHES_AT_ONCE - 1:
            yield
        if header.magic == MAGIC_2 and origin is AppendOrigin.CLIENT and header.base_offset != 0:
            raise InvalidRecord(
                f"The baseOffset of the record batch in the append to {partition} should be 0, "
                f"but it is {header.base_offset}"
            )
        check_size(header, max_message_bytes, partition)
        _check_intact(records.buffer, position, header, partition)
        batches.append((position, header))
    return batches


def follower_records(
    records: Buffer, partition: str, last_epoch: int | None = None
) -> ValidRecords | None:
    """The complete batches for an append as follower, of any size; None if there is none.

    Ends before the first batch whose leader epoch is above ``last_epoch``, the replica's current
    epoch; None is no limit.  Raises OffsetsOutOfOrder if offsets do not rise, and CorruptRecord.
    Source: Kafka 3.9.1 ``UnifiedLog.analyzeAndValidateRecords`` (KAFKA-18723).
    """
    headers: list[BatchHeader] = []
    last_offset = -1
    largest = TimestampOffset(NO_TIMESTAMP, -1)
    size = 0
    for position, header in iterate_batches(records):
        if last_epoch is not None and header.partition_leader_epoch > last_epoch:
            _log.info(
                "Skipping batch at offset %d because its partition leader epoch %d is higher than "
                "the replica's current leader epoch %d",
                header.base_offset,
                header.partition_leader_epoch,
                last_epoch,
            )
            break
        if header.last_offset <= last_offset:
            raise OffsetsOutOfOrder(
                f"Out of order offsets found in append to {partition}: {header.last_offset} after "
                f"{last_offset}"
            )
        _check_intact(records, position, header, partition)
        last_offset = header.last_offset
        if header.max_timestamp > largest.timestamp:
            largest = TimestampOffset(header.max_timestamp, last_offset)
        size += header.size
        headers.append(header)
    if not headers:
        return None
    return ValidRecords(headers, (memoryview(records)[:size],), size, largest)


def _check_intact(records: Buffer, position: int, header: BatchHeader, partition: str) -> None:
    if not is_intact(records, position, header):
        raise CorruptRecord(
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {partition}."
        )


def producer_advances(
    producers: ProducerStateManager,
    headers: Sequence[BatchHeader],
    source: Buffer,
    origin: AppendOrigin,
    guard: VerificationGuard | None,
    *,
    verifies_transactions: bool,
    partition: str,
) -> tuple[list[Advance], BatchMetadata | None]:
    """The producers' states after the batches, or the earlier batch that they duplicate.

    ``source`` holds the batches as they came, from which control records are read.
    """
    advances: list[Advance] = []
    pending: dict[int, ProducerEntry] = {}
    position = 0
    for header in headers:
        if header.has_producer_id:
            producer_id = header.producer_id
            entry = pending.get(producer_id) or producers.entry(producer_id)
            if origin is AppendOrigin.CLIENT:
                duplicate = entry.duplicate_of(header)
                if duplicate is not None:
                    return [], duplicate
            if (
                verifies_transactions
                and origin is not AppendOrigin.REPLICATION
                and header.is_transactional
                and not header.is_control
                and entry.transaction_first_offset is None
                and not producers.is_verified(producer_id, guard)
            ):
                raise InvalidTxnState("Record was not part of an ongoing transaction")
            advanced = advance(
                entry,
                header,
                header.base_offset,
                origin,
                partition=partition,
                marker=read_marker(source, position, header) if header.is_control else None,
                lowest_verified_sequence=producers.lowest_verified_sequence(producer_id),
            )
            pending[producer_id] = advanced.entry
            advances.append(advanced)
        position += header.size
    return advances, None
