"""The committed and pending offsets of one group.

An offset is committed once its record is in the log.  Until then it is *pending*: OffsetFetch does
not return it, it does not expire, and a client that requires stable offsets must retry.  Offsets of
a transaction are pending until its marker is written.  Of two commits the one with the higher
offset in the log counts, even if its write is acknowledged first: log compaction keeps it too.

Source: Kafka ``GroupMetadata``, ``CommitRecordMetadataAndOffset``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.records import OffsetAndMetadata

_NOT_WRITTEN: Final = -1
"""``batch_offset`` of an offset whose write is not acknowledged yet."""


class LoggedOffset(NamedTuple):
    """A committed offset, and the base offset of the batch with its record."""

    committed: OffsetAndMetadata
    batch_offset: int


class OffsetTable:
    """The committed and pending offsets of one group, by partition."""

    __slots__ = ("_logged", "_pending", "_pending_of_producers")

    def __init__(self) -> None:
        self._logged: dict[TopicPartition, LoggedOffset] = {}
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending_of_producers: dict[int, dict[TopicPartition, LoggedOffset]] = {}

    def __len__(self) -> int:
        return len(self._logged)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._logged)

    def __bool__(self) -> bool:
        """Whether there is a committed or pending offset."""
        return bool(self._logged or self._pending or self._pending_of_producers)

    def get(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        logged = self._logged.get(partition)
        return None if logged is None else logged.committed

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether the partition has a pending offset."""
        return partition in self._pending or any(
            partition in offsets for offsets in self._pending_of_producers.values()
        )

    def has_pending_of(self, producer_id: int) -> bool:
        """Whether there are pending offsets of the producer's transaction."""
        return producer_id in self._pending_of_producers

    def known_among(self, partitions: Mapping[TopicPartition, None]) -> Iterable[TopicPartition]:
        """The partitions among ``partitions`` that may have an offset here.

        A cluster may delete 100,000 partitions at once, but most groups have offsets for few.
        """
        own: tuple[Collection[TopicPartition], ...] = (
            self._logged,
            self._pending,
            *self._pending_of_producers.values(),
        )
        if sum(map(len, own)) >= len(partitions):
            return partitions
        return dict.fromkeys(
            partition for offsets in own for partition in offsets if partition in partitions
        )

    # ------------------------------------------------------------------ commits

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Marks offsets as pending: their records are being appended."""
        self._pending.update(offsets)

    def complete(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], batch_offset: int
    ) -> None:
        """Commits pending offsets, whose batch has the base offset ``batch_offset``."""
        for partition, committed in offsets.items():
            # If there is no pending offset, it was removed meanwhile and must stay removed.
            if partition in self._pending:
                self._put(partition, LoggedOffset(committed, batch_offset))
        self.fail(offsets)

    def fail(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Drops pending offsets whose append failed."""
        for partition, committed in offsets.items():
            # A later commit may have replaced the pending offset.
            if self._pending.get(partition) == committed:
                del self._pending[partition]

    def prepare_transactional(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Marks offsets of a producer's transaction as pending."""
        pending = self._pending_of_producers.setdefault(producer_id, {})
        for partition, committed in offsets.items():
            pending[partition] = LoggedOffset(committed, _NOT_WRITTEN)

    def complete_transactional(
        self,
        producer_id: int,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        batch_offset: int,
    ) -> None:
        """Stores the base offset of the batch with the offsets of a producer's transaction.

        They stay pending until the transaction's marker is written.
        """
        pending = self._pending_of_producers.get(producer_id, {})
        for partition, committed in offsets.items():
            if partition in pending and pending[partition].committed == committed:
                pending[partition] = LoggedOffset(committed, batch_offset)
        # The commit marker may have been written before this append was acknowledged.
        self.complete(
            {tp: each for tp, each in offsets.items() if self._pending.get(tp) == each},
            batch_offset,
        )

    def fail_transactional(
        self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Drops pending offsets of a producer's transaction whose append failed."""
        pending = self._pending_of_producers.get(producer_id, {})
        for partition, committed in offsets.items():
            if partition in pending and pending[partition].committed == committed:
                del pending[partition]
        if not pending:
            self._pending_of_producers.pop(producer_id, None)
        self.fail(offsets)

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Ends a producer's transaction: commits its offsets or drops them."""
        offsets = self._pending_of_producers.pop(producer_id, {})
        if is_commit:
            for partition, logged in offsets.items():
                if logged.batch_offset == _NOT_WRITTEN:
                    # The record is in the log before the marker, but is not acknowledged yet.
                    self._pending[partition] = logged.committed
                else:
                    self._put(partition, logged)

    def _put(self, partition: TopicPartition, logged: LoggedOffset) -> None:
        known = self._logged.get(partition)
        if known is None or known.batch_offset < logged.batch_offset:
            self._logged[partition] = logged

    # ------------------------------------------------------------------ loading and removal

    def load(
        self,
        logged: Mapping[TopicPartition, LoggedOffset],
        pending_of_producers: Mapping[int, dict[TopicPartition, LoggedOffset]],
    ) -> None:
        """Adds the group's offsets from the log; those of open transactions stay pending."""
        self._logged.update(logged)
        self._pending_of_producers.update(pending_of_producers)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Removes the offsets of partitions; returns the partitions that need tombstones.

        A pending commit may be in the log already, so it needs a tombstone too.
        """
        removed = []
        for partition in partitions:
            is_pending = self._pending.pop(partition, None) is not None
            for producer_id, offsets in list(self._pending_of_producers.items()):
                offsets.pop(partition, None)
                if not offsets:
                    del self._pending_of_producers[producer_id]
            if self._logged.pop(partition, None) is not None or is_pending:
                removed.append(partition)
        return removed

    def remove_all(self) -> list[TopicPartition]:
        """Removes all offsets; returns the partitions that need tombstones."""
        removed = self.remove(dict.fromkeys((*self._logged, *self._pending)))
        self._pending_of_producers.clear()
        return removed

    def remove_expired(
        self, is_expired: Callable[[TopicPartition, OffsetAndMetadata], bool]
    ) -> list[TopicPartition]:
        """Removes expired offsets, and returns their partitions.

        An offset stays if a newer commit is pending, unless that belongs to a transaction.
        """
        expired = [
            partition
            for partition, logged in self._logged.items()
            if partition not in self._pending and is_expired(partition, logged.committed)
        ]
        for partition in expired:
            del self._logged[partition]
        return expired
