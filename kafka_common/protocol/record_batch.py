"""Record batches: the 61-byte header as a value, and the fields that may be changed in place.

A log, a Produce request and a Fetch response all hold record batches one after the other.  The
checksum does not cover base offset, length and partition leader epoch, so that a leader can assign
them without touching the records.  Messages of magic 0 and 1, which clients wrote before Kafka
0.11, get a header too (one message is one batch), so that an old log can be served.
:mod:`kafka_common.protocol.legacy_messages` reads and writes their records.

Source: Kafka ``DefaultRecordBatch``, ``ByteBufferLogInputStream``, ``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kafka_common.errors import CorruptRecord, InvalidRecord
from kafka_common.protocol.compression import Buffer, Codec, codec_of, pack, unpack
from kafka_common.protocol.records import (
    NO_TIMESTAMP,
    Record,
    encode_records,
    iterate_records,
)

LOG_OVERHEAD: Final = 12
"""Bytes of base offset and length, which the batch length does not include."""
HEADER_BYTES: Final = 61
MAGIC_PREFIX_BYTES: Final = 17
"""Bytes from the start of a batch to the end of its magic."""
MAX_BATCH_BYTES: Final = 2**31 - 1

MAGIC_0: Final = 0
MAGIC_1: Final = 1
MAGIC_2: Final = 2

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_HEADER: Final = Struct(">qiibIhiqqqhii")
_PREFIX: Final = Struct(">qiib")
_BODY: Final = Struct(">hiqqqhii")
_CRC: Final = Struct(">I")
_LEGACY: Final = Struct(">qiIbb")
_INT64: Final = Struct(">q")

_CRC_END: Final = 21
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_MIN_LEGACY_BYTES: Final = 14
"""The shortest message of magic 0: crc, magic, attributes, and the lengths of key and value."""
_LEGACY_V1_EXTRA: Final = 8
_LEGACY_CRC_END: Final = 16

assert _HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    """The header of a batch.

    In magic 0 and 1 ``base_offset`` is the message's only offset (that of its last inner message if
    it wraps compressed messages), and ``record_count`` is -1, unknown.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """The compression codec; CorruptRecord if no codec has the number in the attributes."""
        return codec_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without an idempotent producer.

        Sequence 0 follows 2^31-1.
        """
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may delete tombstones and markers, in ms since 1970; None if not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def encode(self) -> bytes:
        """The 61 bytes of a header of magic 2."""
        return _HEADER.pack(*self)


def read_header(data: Buffer, position: int = 0) -> BatchHeader | None:
    """The header at ``position``; None if it is incomplete.

    Raises CorruptRecord for a length that is too small and for an unknown magic.  The caller must
    check that the rest of the batch is complete.
    """
    if len(data) - position < MAGIC_PREFIX_BYTES:
        return None
    offset, length, _, magic = _PREFIX.unpack_from(data, position)
    if length < _MIN_LEGACY_BYTES:
        raise CorruptRecord(
            f"Record size {length} is less than the minimum record overhead ({_MIN_LEGACY_BYTES})"
        )
    if magic == MAGIC_2:
        if length < HEADER_BYTES - LOG_OVERHEAD:
            raise CorruptRecord(f"A batch of {length} bytes is shorter than its header")
        if len(data) - position < HEADER_BYTES:
            return None
        return BatchHeader._make(_HEADER.unpack_from(data, position))
    if magic not in (MAGIC_0, MAGIC_1):
        raise CorruptRecord(f"Invalid magic found in record: {magic}")
    return _legacy_header(data, position, offset, length)


def _legacy_header(data: Buffer, position: int, offset: int, length: int) -> BatchHeader | None:
    if len(data) - position < _LEGACY.size + _LEGACY_V1_EXTRA:
        return None
    _, _, crc, magic, attributes = _LEGACY.unpack_from(data, position)
    timestamp = NO_TIMESTAMP
    if magic == MAGIC_1:
        if length < _MIN_LEGACY_BYTES + _LEGACY_V1_EXTRA:
            raise CorruptRecord(f"A message of magic 1 in {length} bytes")
        (timestamp,) = _INT64.unpack_from(data, position + _LEGACY.size)
    return BatchHeader(
        offset, length, NO_PARTITION_LEADER_EPOCH, magic, crc, attributes & 0x0F, 0,
        timestamp, timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, -1,
    )  # fmt: skip


def iterate_batches(data: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each complete batch from ``position``, with its position.

    Raises CorruptRecord as :func:`read_header`.
    """
    while (header := read_header(data, position)) is not None:
        if header.size > len(data) - position:
            return
        yield position, header
        position += header.size


class MemoryRecords:
    """The record batches of one partition, in memory; the first header is parsed once.

    A Produce request from version 3 on has one batch per partition.  The request's handler, the
    verification of its transaction and the log need its header.  Source: Kafka ``MemoryRecords``.
    """

    __slots__ = ("_first_header", "buffer")

    def __init__(self, buffer: Buffer) -> None:
        """``buffer`` may end within a batch."""
        self.buffer = buffer
        self._first_header: BatchHeader | None = None

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def first_header(self) -> BatchHeader | None:
        """The header of the first batch; None if it is incomplete.

        Raises CorruptRecord as :func:`read_header`.  The rest of the batch may be missing.
        """
        if self._first_header is None:
            self._first_header = read_header(self.buffer)
        return self._first_header

    def batches(self) -> Iterator[tuple[int, BatchHeader]]:
        """Each complete batch, with its position; as :func:`iterate_batches`."""
        first = self.first_header
        if first is not None and first.size <= len(self.buffer):
            yield 0, first
            yield from iterate_batches(self.buffer, first.size)


def is_intact(data: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum of the batch is correct; ``data`` must hold the whole batch."""
    end = position + header.size
    with memoryview(data) as view:
        if header.magic == MAGIC_2:
            return crc32c(view[position + _CRC_END : end]) == header.crc
        return zlib.crc32(view[position + _LEGACY_CRC_END : end]) == header.crc


def is_intact_in_pieces(header: BatchHeader, start: bytes, rest: Iterable[bytes]) -> bool:
    """Whether the checksum is correct, for a batch of magic 2 that is too large for memory.

    ``start`` is the batch's first 61 bytes, ``rest`` yields the others.
    """
    crc = crc32c(start[_CRC_END:HEADER_BYTES])
    for piece in rest:
        crc = crc32c(piece, crc)
    return crc == header.crc


def records_block(data: Buffer, position: int, header: BatchHeader) -> tuple[bytes, int]:
    """Bytes with the uncompressed records, and the position in them where the records begin.

    Raises CorruptRecord if the records cannot be decompressed.
    """
    start, end = position + HEADER_BYTES, position + header.size
    codec = header.codec
    if codec is not Codec.NONE:
        with memoryview(data) as view:
            return unpack(codec, view[start:end]), 0
    if isinstance(data, bytes) and end == len(data):
        return data, start
    return bytes(data[start:end]), 0


def iterate_batch(data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch of magic 2; CorruptRecord or InvalidRecord if they are malformed."""
    block, start = records_block(data, position, header)
    records = iterate_records(
        block, start, header.record_count, header.base_offset, header.base_timestamp
    )
    if header.is_log_append_time:
        return (record._replace(timestamp=header.max_timestamp) for record in records)
    return records


def assigned_header(
    data: Buffer,
    position: int,
    header: BatchHeader,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    max_timestamp: int,
    is_log_append_time: bool = False,
) -> BatchHeader:
    """The batch's header with the fields that the leader assigns; ``data`` is not changed.

    The checksum is computed again only if ``max_timestamp`` or the timestamp type changes.
    """
    attributes = header.attributes & ~LOG_APPEND_TIME
    if is_log_append_time:
        attributes |= LOG_APPEND_TIME
    crc = header.crc
    if max_timestamp != header.max_timestamp or attributes != header.attributes:
        body = _BODY.pack(
            attributes, header.last_offset_delta, header.base_timestamp, max_timestamp, *header[9:]
        )
        with memoryview(data) as view:
            crc = crc32c(view[position + HEADER_BYTES : position + header.size], crc32c(body))
    return BatchHeader(
        base_offset, header.batch_length, partition_leader_epoch, MAGIC_2, crc, attributes,
        header.last_offset_delta, header.base_timestamp, max_timestamp, *header[9:],
    )  # fmt: skip


def encode_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    last_offset: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of magic 2 with these records, whose offsets must rise.

    ``base_offset`` and ``last_offset`` are given when compaction removed the first or last records
    but keeps the offset range; None means those of the records.  ``log_append_time`` becomes the
    timestamp of all records.  ``max_timestamp`` is given if all records of the batch were removed.
    """
    assert records or (base_offset is not None and last_offset is not None)
    base = records[0].offset if base_offset is None else base_offset
    last = records[-1].offset if last_offset is None else last_offset
    first_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = (
        int(codec)
        | (LOG_APPEND_TIME if log_append_time is not None else 0)
        | (TRANSACTIONAL if is_transactional else 0)
        | (CONTROL if is_control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    block = pack(codec, encode_records(records, base, base_timestamp), level) if records else b""
    body = _BODY.pack(
        attributes, last - base, base_timestamp,
        max_timestamp if log_append_time is None else log_append_time,
        producer_id, producer_epoch, base_sequence, len(records),
    ) + block  # fmt: skip
    length = _CRC_END - LOG_OVERHEAD + len(body)
    if length + LOG_OVERHEAD > MAX_BATCH_BYTES:
        raise InvalidRecord(f"A batch of {length} bytes")
    prefix = _PREFIX.pack(base, length, partition_leader_epoch, MAGIC_2) + _CRC.pack(crc32c(body))
    return prefix + body
