"""Messages of magic 0 and 1, as clients wrote them before Kafka 0.11.

A message is a single record, or its value holds compressed inner messages.  A wrapping message has
the offset of its last inner message, and in magic 1 the inner offsets count from zero.  Produce
requests up to version 2 still carry messages of magic 0 or 1, and Fetch requests up to version 3
still expect them in the response.

Source: Kafka ``LegacyRecord``, ``AbstractLegacyRecordBatch``, ``RecordsUtil``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kafka_common.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from kafka_common.protocol.compression import (
    MAX_UNPACKED_BYTES,
    Buffer,
    Codec,
    pack,
    pack_lz4_of_magic_0,
    unpack,
    unpack_lz4_of_magic_0,
)
from kafka_common.protocol.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_0,
    MAGIC_1,
    MAGIC_2,
    BatchHeader,
    iterate_batch,
    iterate_batches,
)
from kafka_common.protocol.records import NO_TIMESTAMP, Record

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 12
_CRC_END: Final = 16
_ATTRIBUTES_END: Final = 18
_CHUNK_BYTES: Final = 128 * 1024
"""The bytes of batches that are converted at once."""


def iterate_any(
    data: Buffer, position: int, header: BatchHeader, limit: int = MAX_UNPACKED_BYTES
) -> Iterator[Record]:
    """The records of a batch of any magic; CorruptRecord or InvalidRecord if they are malformed."""
    if header.magic == MAGIC_2:
        return iterate_batch(data, position, header)
    return iterate_message(data, position, header, limit)


def iterate_message(
    data: Buffer, position: int, header: BatchHeader, limit: int = MAX_UNPACKED_BYTES
) -> Iterator[Record]:
    """The message, or the messages that it wraps, with their own offsets and timestamps.

    UnpackedTooLarge for more than ``limit`` bytes of wrapped messages.
    """
    message = _message(data, position, header)
    if header.codec is Codec.NONE:
        yield message
        return
    if header.codec is Codec.ZSTD:
        raise InvalidRecord(f"zstd is not allowed in messages of magic {header.magic}")
    if message.value is None:
        raise InvalidRecord("Found invalid compressed record set with null value")
    if header.codec is Codec.LZ4 and header.magic == MAGIC_0:
        unpacked = unpack_lz4_of_magic_0(message.value, limit)
    else:
        unpacked = unpack(header.codec, message.value, limit)
    inner = list(_wrapped(unpacked, header))
    if not inner:
        raise InvalidRecord("Found invalid compressed record set with no inner records")
    # The wrapper's offset is that of its last inner message; in magic 0 inner ones are absolute.
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


class DownConverted(NamedTuple):
    """Batches in an older format."""

    data: bytes
    record_count: int
    """How many records were converted; not those that had an older format already."""


def down_converted(data: Buffer, magic: int, first_offset: int) -> DownConverted:
    """The batches as messages of an older magic, from ``first_offset`` on, for an old consumer.

    A compressed batch is converted whole, as in Kafka, also if it begins before ``first_offset``.
    Record headers are lost and control batches left out.  No old consumer knows zstd: the messages
    end before a batch of it, and a batch of it that is the first raises UnsupportedCompressionType.
    Malformed batches raise CorruptRecord or InvalidRecord.

    The size is that of ``data`` or, if that is larger, of the first batch: what does not fit is cut
    off, and what is missing is filled with the head of a batch that is too large for the response,
    which consumers skip.  Where nothing but control batches was read, there is only such a head: a
    consumer takes it for a record that is larger than what it asked for.

    Source: Kafka ``LazyDownConversionRecords``, ``LazyDownConversionRecordsSend``.
    """
    batches = list(iterate_batches(data))
    if not batches:
        return DownConverted(b"", 0)
    left = iter(batches)
    first = DownConverted(b"", 0)
    while not first.data and (batch := next(left, None)):
        first = _down_converted([batch], data, magic, first_offset)
    size = max(len(data), len(first.data)) if first.data else LOG_OVERHEAD
    converted, record_count = bytearray(first.data), first.record_count
    for chunk in _chunks(left):
        if len(converted) >= size:
            break
        try:
            more = _down_converted(chunk, data, magic, first_offset)
        except UnsupportedCompressionType:
            break
        converted += more.data
        record_count += more.record_count
    while (missing := size - len(converted)) > 0:
        head = _INT64.pack(-1) + _INT32.pack(max(missing + 1, HEADER_BYTES))
        converted += head.ljust(min(missing, _CHUNK_BYTES), b"\0")[:missing]
    return DownConverted(bytes(converted[:size]), record_count)


def _chunks(
    batches: Iterable[tuple[int, BatchHeader]],
) -> Iterator[list[tuple[int, BatchHeader]]]:
    """Batches that are converted at once, or not at all: at least one, else ``_CHUNK_BYTES``."""
    chunk: list[tuple[int, BatchHeader]] = []
    size = 0
    for position, header in batches:
        if chunk and size + header.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append((position, header))
        size += header.size
    if chunk:
        yield chunk


def _down_converted(
    batches: Iterable[tuple[int, BatchHeader]], data: Buffer, magic: int, first_offset: int
) -> DownConverted:
    pieces: list[bytes] = []
    record_count = 0
    for position, header in batches:
        if header.is_control:
            continue
        if header.codec is Codec.ZSTD:
            raise UnsupportedCompressionType(
                "Down-conversion of zstandard-compressed batches is not supported"
            )
        if header.magic <= magic:
            pieces.append(bytes(data[position : position + header.size]))
            continue
        is_whole = header.codec is not Codec.NONE
        records = [
            record
            for record in iterate_any(data, position, header)
            if is_whole or record.offset >= first_offset
        ]
        if records:
            is_append_time = header.magic != MAGIC_0 and header.is_log_append_time
            pieces.append(
                encode_messages(records, magic, header.codec, is_log_append_time=is_append_time)
            )
            record_count += len(records)
    return DownConverted(b"".join(pieces), record_count)


def encode_messages(
    records: Sequence[Record],
    magic: int,
    codec: Codec = Codec.NONE,
    *,
    is_log_append_time: bool = False,
) -> bytes:
    """The records as messages of magic 0 or 1, wrapped in one message if a codec is given.

    Record headers are lost.
    """
    attributes = LOG_APPEND_TIME if is_log_append_time and magic == MAGIC_1 else 0
    if codec is Codec.NONE:
        return b"".join(_encoded(record, record.offset, magic, attributes) for record in records)
    first = records[0].offset if magic == MAGIC_1 else 0
    inner = b"".join(
        _encoded(record, record.offset - first, magic, attributes) for record in records
    )
    newest = max(record.timestamp for record in records)
    is_lz4_of_magic_0 = codec is Codec.LZ4 and magic == MAGIC_0
    packed = pack_lz4_of_magic_0(inner) if is_lz4_of_magic_0 else pack(codec, inner)
    wrapper = Record(records[-1].offset, newest, None, packed)
    return _encoded(wrapper, wrapper.offset, magic, attributes | codec)


def _encoded(record: Record, offset: int, magic: int, attributes: int) -> bytes:
    body = bytes((magic, attributes))
    if magic == MAGIC_1:
        body += _INT64.pack(record.timestamp)
    for field in (record.key, record.value):
        body += _INT32.pack(-1) if field is None else _INT32.pack(len(field)) + field
    return (
        _INT64.pack(offset)
        + _INT32.pack(len(body) + _CRC.size)
        + _CRC.pack(zlib.crc32(body))
        + body
    )
