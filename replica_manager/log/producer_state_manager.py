"""Idempotent and transactional producers of a log: sequences, epochs, transactions.

Pure.  Before an append, :func:`advance` checks each batch and computes the producer's next state.
After the batch is written, that state is stored in :class:`ProducerStateManager`.

Source: Kafka ``ProducerStateManager``, ``ProducerAppendInfo``, ``ProducerStateEntry``; KIP-98,
KIP-890.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from kafka_common.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from kafka_common.protocol.record_batch import (
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    BatchHeader,
)
from kafka_common.protocol.records import NO_TIMESTAMP, EndTransactionMarker

BATCHES_TO_RETAIN: Final = 5
"""Batches remembered per producer; it may have as many in flight."""
NO_COORDINATOR_EPOCH: Final = -1

_log = logging.getLogger("org.apache.kafka.storage.internals.log.ProducerStateManager")


class AppendOrigin(Enum):
    """The origin of an append, which decides the checks.  Source: Kafka ``AppendOrigin``."""

    CLIENT = auto()
    REPLICATION = auto()
    COORDINATOR = auto()
    """The group or transaction coordinator of this broker."""


class BatchMetadata(NamedTuple):
    """One of a producer's last batches, to detect duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """The state of one producer in one log."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_first_offset: int | None = None
    """The first offset of the producer's open transaction, None if none is open."""
    batches: tuple[BatchMetadata, ...] = ()
    """The newest BATCHES_TO_RETAIN batches of the current producer epoch, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The remembered batch with the same sequences, None if the batch is no duplicate."""
        if header.producer_epoch != self.producer_epoch:
            return None
        last = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is about to be appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    is_aborted: bool


class Advance(NamedTuple):
    """A producer's state after a batch, and the transaction that the batch completes, if any."""

    entry: ProducerEntry
    completed: CompletedTransaction | None = None


class VerificationGuard:
    """Proof that the coordinator has confirmed a transaction; compared by identity.

    Source: Kafka ``VerificationGuard``; KIP-890.
    """


class _Verification(NamedTuple):
    guard: VerificationGuard
    started_ms: int
    lowest_sequence: int
    producer_epoch: int


def advance(
    entry: ProducerEntry,
    header: BatchHeader,
    base_offset: int,
    origin: AppendOrigin,
    *,
    partition: object,
    marker: EndTransactionMarker | None = None,
    lowest_verified_sequence: int | None = None,
) -> Advance:
    """The producer's state after a batch that will begin at ``base_offset``.

    ``marker`` is the transaction marker in a control batch.  Raises a RecordsRefused if the batch
    must not be appended.  Sequences are checked for CLIENT only; with REPLICATION an old producer
    epoch is only logged, because the leader has accepted the batch.
    """
    _check_epoch(entry, header, base_offset, origin, partition)
    if header.is_control:
        return (
            Advance(entry) if marker is None else _end(entry, header, base_offset, origin, marker)
        )
    if origin is AppendOrigin.CLIENT:
        _check_sequence(entry, header, base_offset, partition, lowest_verified_sequence)
    same_epoch = header.producer_epoch == entry.producer_epoch
    batch = BatchMetadata(
        header.last_sequence,
        base_offset + header.last_offset_delta,
        header.last_offset_delta,
        header.max_timestamp,
    )
    first_offset = entry.transaction_first_offset
    if first_offset is not None and not header.is_transactional:
        raise InvalidTxnState(
            f"Expected transactional write from producer {entry.producer_id} at offset "
            f"{base_offset} in partition {partition}"
        )
    if first_offset is None and header.is_transactional:
        first_offset = base_offset
    retained = entry.batches[1 - BATCHES_TO_RETAIN :] if same_epoch else ()
    return Advance(
        ProducerEntry(
            entry.producer_id,
            header.producer_epoch,
            entry.coordinator_epoch,
            header.max_timestamp,
            first_offset,
            (*retained, batch),
        )
    )


def _end(
    entry: ProducerEntry,
    header: BatchHeader,
    offset: int,
    origin: AppendOrigin,
    marker: EndTransactionMarker,
) -> Advance:
    if (
        entry.coordinator_epoch > marker.coordinator_epoch
        and origin is not AppendOrigin.REPLICATION
    ):
        raise TransactionCoordinatorFenced(
            f"Invalid coordinator epoch for producerId {entry.producer_id} at offset {offset}: "
            f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)"
        )
    completed = None
    if entry.transaction_first_offset is not None:
        completed = CompletedTransaction(
            entry.producer_id, entry.transaction_first_offset, offset, not marker.is_commit
        )
    same_epoch = header.producer_epoch == entry.producer_epoch
    ended = ProducerEntry(
        entry.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        header.max_timestamp,
        None,
        entry.batches if same_epoch else (),
    )
    return Advance(ended, completed)


def _check_epoch(
    entry: ProducerEntry, header: BatchHeader, offset: int, origin: AppendOrigin, partition: object
) -> None:
    if header.producer_epoch >= entry.producer_epoch:
        return
    message = (
        f"Epoch of producer {entry.producer_id} at offset {offset} in {partition} is "
        f"{header.producer_epoch}, which is smaller than the last seen epoch {entry.producer_epoch}"
    )
    if origin is not AppendOrigin.REPLICATION:
        raise InvalidProducerEpoch(message)
    _log.warning("%s", message)


def _check_sequence(
    entry: ProducerEntry,
    header: BatchHeader,
    offset: int,
    partition: object,
    lowest_verified_sequence: int | None,
) -> None:
    first = header.base_sequence
    where = f"producer {entry.producer_id} at offset {offset} in partition {partition}"
    if lowest_verified_sequence is not None and first > lowest_verified_sequence:
        raise OutOfOrderSequence(
            f"Out of order sequence number for {where}: {first} (incoming seq. number), "
            f"{lowest_verified_sequence} (earliest seen sequence)"
        )
    # The producer has no state, perhaps because all its records were deleted: accept any sequence.
    if entry.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if header.producer_epoch != entry.producer_epoch:
        if first != 0:
            raise OutOfOrderSequence(
                f"Invalid sequence number for new epoch of {where}: {header.producer_epoch} "
                f"(request epoch), {first} (seq. number), {entry.producer_epoch} (current producer "
                "epoch)"
            )
        return
    last = entry.last_sequence
    if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
        raise OutOfOrderSequence(
            f"Out of order sequence number for {where}: {first} (incoming seq. number), {last} "
            "(current end sequence number)"
        )


class ProducerStateManager:
    """The states of a log's producers after the records before ``end_offset``."""

    def __init__(self, expiration_ms: Callable[[], int]) -> None:
        """``expiration_ms``: the current ``producer.id.expiration.ms``."""
        self._expiration_ms = expiration_ms
        self.end_offset = 0
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        """Open transactions: first offset to producer id."""
        self._unreplicated: dict[int, int] = {}
        """Ended transactions whose marker is not replicated: first offset to the marker's."""
        self._verifications: dict[int, _Verification] = {}

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """The producers' states by producer id."""
        return self._entries

    def entry(self, producer_id: int) -> ProducerEntry:
        """The state of a producer; an empty entry if it has none."""
        return self._entries.get(producer_id) or ProducerEntry(producer_id)

    def load(self, entries: Iterable[ProducerEntry], end_offset: int, now_ms: int) -> None:
        """Replaces all states by the unexpired ones of a snapshot taken at ``end_offset``."""
        self.clear(end_offset)
        for entry in entries:
            if not self._is_expired(entry, now_ms):
                self._put(entry)

    def take_over(self, other: ProducerStateManager) -> None:
        """Replaces all states by those of ``other``, which must not be used after that."""
        self._entries, self._ongoing = other._entries, other._ongoing
        self._unreplicated = other._unreplicated
        self.end_offset = other.end_offset

    def put(self, advanced: Advance) -> None:
        """Stores a producer's state after its batch was appended."""
        self._put(advanced.entry)

    def _put(self, entry: ProducerEntry) -> None:
        self._entries[entry.producer_id] = entry
        if entry.transaction_first_offset is not None:
            self._ongoing[entry.transaction_first_offset] = entry.producer_id

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once ``completed`` has ended and its marker is replicated."""
        others = [first for first, pid in self._ongoing.items() if pid != completed.producer_id]
        return min(others, default=completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """Ends a transaction; its records stay unstable until the marker is replicated."""
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The lowest first offset of a transaction that is open or whose marker is not replicated.

        None if there is no such transaction.
        """
        return min((*self._ongoing, *self._unreplicated), default=None)

    def replicated_to(self, offset: int) -> None:
        """Marks transactions as replicated whose marker is before ``offset``.

        ``offset`` is the high watermark or the log start offset.
        """
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= offset
            }

    def has_late_transaction(self, before_ms: int) -> bool:
        """Whether the oldest open transaction got its last record before ``before_ms``."""
        # Metrics call this from any thread, so it works on a copy.
        first_offset = min(list(self._ongoing), default=None)
        if first_offset is None:
            return False
        entry = self._entries.get(self._ongoing.get(first_offset, -1))
        return entry is not None and 0 < entry.last_timestamp < before_ms

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        return self.entry(producer_id).transaction_first_offset is not None

    def clear(self, end_offset: int) -> None:
        """Removes every producer; the log continues at ``end_offset``."""
        self._entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def remove_expired(self, now_ms: int) -> None:
        """Removes producers without an open transaction past ``producer.id.expiration.ms``."""
        expired = [pid for pid, entry in self._entries.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        self._verifications = {
            pid: verification
            for pid, verification in self._verifications.items()
            if now_ms - verification.started_ms < self._expiration_ms()
        }

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.transaction_first_offset is None
            and now_ms - entry.last_timestamp >= self._expiration_ms()
        )

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, now_ms: int
    ) -> VerificationGuard | None:
        """The guard for a transaction's first write; None if the transaction is open already."""
        if self.has_ongoing_transaction(producer_id):
            return None
        known = self._verifications.get(producer_id)
        if known is None or producer_epoch > known.producer_epoch:
            known = _Verification(VerificationGuard(), now_ms, sequence, producer_epoch)
        elif producer_epoch == known.producer_epoch and sequence < known.lowest_sequence:
            known = known._replace(lowest_sequence=sequence)
        self._verifications[producer_id] = known
        return known.guard

    def is_verified(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether ``guard`` is the current one of the producer; False if it is None."""
        known = self._verifications.get(producer_id)
        return guard is not None and known is not None and known.guard is guard

    def lowest_verified_sequence(self, producer_id: int) -> int | None:
        """The lowest sequence of the batches that wait for verification, None if none waits."""
        known = self._verifications.get(producer_id)
        return None if known is None else known.lowest_sequence

    def clear_verification(self, producer_id: int) -> None:
        """Forgets the producer's guard, after its transaction has begun or ended."""
        self._verifications.pop(producer_id, None)
