"""Messages of magic 0 and 1, as clients wrote them before Kafka 0.11.

A message stands alone, or its value wraps compressed messages; then its offset is the last one's,
and in magic 1 theirs count from zero.  Produce requests up to version 2 still bring such messages.

Source: Kafka ``LegacyRecord``, ``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from zkcontroller.errors import CorruptRecord, InvalidRecord
from zkcontroller.protocol.compression import Buffer, Codec, unpack
from zkcontroller.protocol.record_batch import (
    LOG_OVERHEAD,
    MAGIC_1,
    MAGIC_2,
    BatchHeader,
    iterate_batch,
    iterate_batches,
)
from zkcontroller.protocol.records import NO_TIMESTAMP, Record

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 12
_CRC_END: Final = 16
_ATTRIBUTES_END: Final = 18


def iterate_any(data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch of any magic; CorruptRecord or InvalidRecord if they are malformed."""
    if header.magic == MAGIC_2:
        return iterate_batch(data, position, header)
    return iterate_message(data, position, header)


def iterate_message(data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """The message, or the messages that it wraps, with their own offsets and timestamps."""
    message = _message(data, position, header)
    if header.codec is Codec.NONE:
        yield message
        return
    if header.codec is Codec.ZSTD:
        raise InvalidRecord(f"zstd is not allowed in messages of magic {header.magic}")
    if message.value is None:
        raise InvalidRecord("Found invalid compressed record set with null value")
    inner = list(_wrapped(unpack(header.codec, message.value), header))
    if not inner:
        raise InvalidRecord("Found invalid compressed record set with no inner records")
    # The wrapper has the last one's absolute offset; before Kafka 0.10 inner offsets were absolute.
    shift = header.base_offset - inner[-1].offset if header.magic == MAGIC_1 else 0
    for record in inner:
        timestamp = header.max_timestamp if header.is_log_append_time else record.timestamp
        yield record._replace(offset=record.offset + shift, timestamp=timestamp)


def _wrapped(data: bytes, wrapper: BatchHeader) -> Iterator[Record]:
    end = 0
    for position, header in iterate_batches(data):
        if header.magic != wrapper.magic:
            raise InvalidRecord(
                f"Compressed message magic {wrapper.magic} does not match its inner message's "
                f"magic {header.magic}"
            )
        if header.codec is not Codec.NONE:
            raise InvalidRecord("Inner messages must not be compressed")
        (crc,) = _CRC.unpack_from(data, position + _CRC_AT)
        if crc != zlib.crc32(data[position + _CRC_END : position + header.size]):
            raise CorruptRecord("An inner message is corrupt")
        yield _message(data, position, header)
        end = position + header.size
    if end != len(data):
        raise CorruptRecord("A compressed message ends within an inner one")


def _message(data: Buffer, position: int, header: BatchHeader) -> Record:
    end = position + header.batch_length + LOG_OVERHEAD
    place = position + _ATTRIBUTES_END
    timestamp = NO_TIMESTAMP
    if header.magic == MAGIC_1:
        (timestamp,) = _INT64.unpack_from(data, place)
        place += _INT64.size
    key, place = _field(data, place, end)
    value, place = _field(data, place, end)
    return Record(header.base_offset, timestamp, key, value)


def _field(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    if position + _INT32.size > end:
        raise CorruptRecord("A message ends within a field's length")
    (size,) = _INT32.unpack_from(data, position)
    position += _INT32.size
    if size < 0:
        return None, position
    if size > end - position:
        raise CorruptRecord(f"A field of {size} bytes, {end - position} are left in the message")
    return bytes(data[position : position + size]), position + size
