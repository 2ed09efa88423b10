"""The records that compaction keeps of a batch.

Pure.  Kept records keep their offsets.  A batch that loses all its records may stay as a header
alone: if it holds the last sequence of a producer.

Source: Kafka ``Cleaner.cleanInto``, ``MemoryRecords.filterTo``, ``CleanedTransactionMetadata``;
KIP-534 for the delete horizon.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import MAGIC_2, BatchHeader, encode_batch
from kafka_common.protocol.records import Record
from replica_manager.log.log_recovery import read_marker
from replica_manager.log.producer_state_manager import ProducerEntry
from replica_manager.log.transaction_index import AbortedTransaction

ENTRY_BYTES: Final = 192
"""Bytes of memory for one key in an offset map, measured; Kafka's own map takes 24."""
_DIGEST_BYTES: Final = 16


class OffsetMap:
    """The last offset of each key in the dirty part of a log.

    Stores a digest of 16 bytes for each key, as Kafka does; a shorter key is stored as it is.  Its
    capacity is the number of keys that fit into ``memory_bytes``.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.capacity = max(1, memory_bytes // ENTRY_BYTES)
        self.latest_offset = -1
        """The last offset that was read for the map, of records with or without a key."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_digest(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of the key in the dirty part, -1 if it is not there."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    # No digest equals a short key: a digest has 16 bytes, and a short key has fewer.
    if len(key) < _DIGEST_BYTES:
        return bytes(key)
    return hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()


class TransactionTracker:
    """Tracks transactions through a part of a log, batch by batch, from its beginning.

    Records of an aborted transaction can be removed at once; a marker only when no record of its
    transaction is left.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction.first_offset)
        self._place = 0
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """By producer id: the current aborted transaction, and whether a batch of it was seen."""
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions that had batches in this part, in the order of their markers."""

    def is_discardable(self, header: BatchHeader, is_commit: bool | None) -> bool:
        """Whether compaction can drop the batch: aborted records, or a marker that is not needed.

        ``is_commit`` says which marker a control batch holds; None for any other batch.
        """
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if header.is_control:
            return is_commit is None or self._ends(producer_id, is_commit=is_commit)
        if not header.is_transactional:
            return False
        if producer_id in self._aborted:
            transaction, _ = self._aborted[producer_id]
            self._aborted[producer_id] = (transaction, True)
            return True
        self._committed.add(producer_id)
        return False

    def _ends(self, producer_id: int, *, is_commit: bool) -> bool:
        if is_commit:
            if producer_id in self._committed:
                self._committed.discard(producer_id)
                return False
            return True
        transaction, was_seen = self._aborted.pop(producer_id, (None, False))
        if transaction is not None and was_seen:
            self.kept.append(transaction)
            return False
        return True

    def _begin_up_to(self, offset: int) -> None:
        while self._place < len(self._coming):
            transaction = self._coming[self._place]
            if transaction.first_offset > offset:
                return
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
            self._place += 1


class CleaningRound(NamedTuple):
    """The data that decides which records one cleaning round keeps."""

    offset_map: OffsetMap
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, ProducerEntry]
    """The active producers by id; the last sequence of each must not be lost."""


def cleaned_batch(
    data: bytes,
    position: int,
    header: BatchHeader,
    around: CleaningRound,
    transactions: TransactionTracker,
) -> bytes | None:
    """The batch without the removed records, None if it is removed; unchanged if all stay."""
    marker = None
    if header.is_control and header.magic == MAGIC_2:
        marker = read_marker(data, position, header)
    is_discardable = transactions.is_discardable(
        header, None if marker is None else marker.is_commit
    )
    horizon = header.delete_horizon_ms
    is_past_horizon = horizon is not None and horizon <= around.now_ms
    if header.is_control:
        records = [] if is_discardable and is_past_horizon else _records(data, position, header)
        needs_horizon = is_discardable
    elif is_discardable:
        records, needs_horizon = [], False
    else:
        keeps_tombstones = not is_past_horizon
        records = [
            record
            for record in _records(data, position, header)
            if _is_kept(record, around.offset_map, keeps_tombstones=keeps_tombstones)
        ]
        needs_horizon = any(record.value is None for record in records)
    if not records:
        return _empty(header) if _must_stay(header, around) else None
    new_horizon = horizon
    if needs_horizon and horizon is None:
        new_horizon = around.now_ms + around.delete_retention_ms
    if len(records) == header.record_count and new_horizon == horizon:
        return data[position : position + header.size]
    return _rebuilt(records, header, new_horizon)


def _records(data: bytes, position: int, header: BatchHeader) -> list[Record]:
    return list(iterate_any(data, position, header))


def _is_kept(record: Record, offset_map: OffsetMap, *, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.latest_offset:
        return True
    if record.key is None:
        return False
    is_last = record.offset >= offset_map.get(record.key)
    return is_last and (record.value is not None or keeps_tombstones)


def _must_stay(header: BatchHeader, around: CleaningRound) -> bool:
    if header.magic != MAGIC_2:
        return False
    entry = around.producers.get(header.producer_id) if header.has_producer_id else None
    if entry is None:
        return False
    if entry.last_offset >= 0:
        return entry.last_offset == header.last_offset
    return header.is_control and entry.producer_epoch == header.producer_epoch


def _empty(header: BatchHeader) -> bytes:
    return encode_batch(
        [],
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
        max_timestamp=header.max_timestamp,
    )


def _rebuilt(records: list[Record], header: BatchHeader, horizon: int | None) -> bytes:
    is_new = header.magic == MAGIC_2
    return encode_batch(
        records,
        codec=header.codec,
        base_offset=header.base_offset if is_new else None,
        last_offset=header.last_offset if is_new else None,
        partition_leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=horizon,
    )
