"""The batches of a snapshot: a header, the records, a footer; offsets count from 0 within it.

Source: Kafka ``RecordsSnapshotWriter``, ``BatchAccumulator`` (KIP-630).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kraft.metadata.codec import encode_record
from kraft.metadata.metadata_batches import encode_control_batch, encode_value_batch
from kraft.metadata.records import VersionedRecord
from kraft.raft.config import MAX_BATCH_BYTES
from kraft.raft.control_records import ControlRecord, SnapshotFooter, SnapshotHeader

_BATCH_OVERHEAD: Final = 64
_RECORD_OVERHEAD: Final = 32
"""More than stands around a record's value, and around a batch's records."""


class SnapshotBatches:
    """Builds the batches of one snapshot; the methods are called in order."""

    def __init__(self, epoch: int) -> None:
        """``epoch``: the epoch of the last record in the snapshot."""
        self._epoch = epoch
        self._next_offset = 0

    def header(self, last_contained_log_timestamp: int, now_ms: int) -> bytes:
        """The header batch; its timestamp is that of the last record in the snapshot."""
        return self._control(SnapshotHeader(last_contained_log_timestamp), now_ms)

    def data(
        self, records: Sequence[VersionedRecord], now_ms: int, max_bytes: int = MAX_BATCH_BYTES
    ) -> bytes:
        """The records, at least one, in batches of at most ``max_bytes`` if possible.

        Raises as :func:`~kraft.metadata.codec.encode_record`.
        """
        values = [encode_record(record, version) for record, version in records]
        return b"".join(self._values(each, now_ms) for each in _fitting(values, max_bytes))

    def footer(self, now_ms: int) -> bytes:
        """The footer batch, which marks the snapshot as complete."""
        return self._control(SnapshotFooter(), now_ms)

    def _control(self, record: ControlRecord, now_ms: int) -> bytes:
        return encode_control_batch(
            [record], base_offset=self._advance(1), epoch=self._epoch, timestamp=now_ms
        )

    def _values(self, values: Sequence[bytes], now_ms: int) -> bytes:
        base_offset = self._advance(len(values))
        return encode_value_batch(
            values, base_offset=base_offset, epoch=self._epoch, timestamp=now_ms
        )

    def _advance(self, count: int) -> int:
        base_offset = self._next_offset
        self._next_offset += count
        return base_offset


def _fitting(values: Sequence[bytes], max_bytes: int) -> Iterator[Sequence[bytes]]:
    first, size = 0, _BATCH_OVERHEAD
    for place, value in enumerate(values):
        needed = len(value) + _RECORD_OVERHEAD
        if place > first and size + needed > max_bytes:
            yield values[first:place]
            first, size = place, _BATCH_OVERHEAD
        size += needed
    yield values[first:]
