"""Batches of ``__consumer_offsets``: decodes loaded batches, encodes appends.

For the coordinator's driver; the coordinator itself handles only records.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_common.protocol.compression import Codec
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    encode_batch,
    iterate_batches,
)
from kafka_common.protocol.records import Record
from replica_manager.coordinators.groups.events import AppendGroupRecords, LoadedBatch, LoadedRecord


def loaded_batches(data: bytes) -> Iterator[LoadedBatch]:
    """The complete batches in bytes of the log; an incomplete one at the end is left out.

    A topic that is older than Kafka 0.11, or was written in an older format, has messages of magic
    0 or 1, each of which is a batch.
    Raises CorruptRecord or InvalidRecord for a batch that cannot be read.
    """
    for position, header in iterate_batches(data):
        yield LoadedBatch(
            tuple(
                LoadedRecord(record.offset, record.key, record.value)
                for record in iterate_any(data, position, header)
            ),
            header.producer_id,
            header.is_transactional,
            header.is_control,
        )


def next_offset(data: bytes) -> int | None:
    """The offset after the last complete batch in bytes of the log; None if there is none."""
    following = None
    for _, header in iterate_batches(data):
        following = header.next_offset
    return following


def append_batch(append: AppendGroupRecords, codec: Codec = Codec.NONE) -> bytes:
    """The encoded batch to append; its offsets begin at 0, and the log assigns the real ones."""
    return encode_batch(
        [
            Record(offset, append.timestamp_ms, record.key, record.value)
            for offset, record in enumerate(append.records)
        ],
        codec=codec,
        producer_id=NO_PRODUCER_ID if append.producer is None else append.producer.producer_id,
        producer_epoch=(
            NO_PRODUCER_EPOCH if append.producer is None else append.producer.producer_epoch
        ),
        base_sequence=append.base_sequence,
        is_transactional=append.producer is not None,
    )
