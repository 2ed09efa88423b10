"""Batches of the metadata log, from records that nothing has encoded yet."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.metadata.codec import encode_record
from kraft.metadata.metadata_batches import encode_value_batch
from kraft.metadata.records import VersionedRecord


def encode_data_batch(
    records: Sequence[VersionedRecord], *, base_offset: int, epoch: int, timestamp: int
) -> bytes:
    """A batch of these records, at least one.

    Raises as :func:`~kraft.metadata.codec.encode_record`.
    """
    values = [encode_record(record, version) for record, version in records]
    return encode_value_batch(values, base_offset=base_offset, epoch=epoch, timestamp=timestamp)
