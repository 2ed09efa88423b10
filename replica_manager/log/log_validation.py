"""Validates a client's batches on the leader, and assigns their offsets.

Most batches are written as they came with a new header, neither copied nor recompressed.  Still
each is validated, as in Kafka: a record with a wrong length would stop every consumer of the
partition, and a wrong largest timestamp in the header would mislead retention.  The validation
reads the length and timestamp of each record
(:func:`~kafka_common.protocol.record_walk.walk_records`).  A compressed batch is decompressed for
that only.  Record objects are made only where a rule needs them: keys in compacted topics, limits
of timestamps, recompression, and messages of an old magic.

A small batch can take long to validate.  So :func:`examine` is a generator: it yields after each
slice of work, and before work that cannot be divided.  After it, :func:`assign` sets the offsets.

Source: Kafka ``LogValidator``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final, NamedTuple, TypeAlias

from kafka_common.errors import (
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnpackedTooLarge,
)
from kafka_common.protocol.compression import Buffer, Codec, unpack, unpack_aside
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    MemoryRecords,
    assigned_header,
    encode_batch,
    iterate_batch,
    read_header,
    records_block,
)
from kafka_common.protocol.record_walk import walk_records
from kafka_common.protocol.records import NO_TIMESTAMP, Record
from replica_manager.log.index import TimestampOffset
from replica_manager.log.log_appends import Batches, ValidRecords, check_size, leader_batches
from replica_manager.log.log_config import MAX_LONG, LogConfig
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.log.producer_state_manager import AppendOrigin

MOST_RECORDS: Final = 500_000
"""The most records in one client's batch, or messages of an old magic for one partition.

Kafka has no limit.  Above it, the response is MESSAGE_TOO_LARGE; Kafka's client then splits the
batch.
"""
UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""The most bytes that a batch may decompress to, or ``max.message.bytes`` if that is more."""
UNPACKED_BYTES_PER_REQUEST: Final = 256 * 1024 * 1024
"""The most bytes that all batches of a request may decompress to; else MESSAGE_TOO_LARGE."""
RECORDS_PER_REQUEST: Final = 10 * MOST_RECORDS
"""The most records in all batches of magic 2 of one request, compressed or not."""
UNPACKED_AT_ONCE_BYTES: Final = 1024 * 1024
"""A batch that decompresses to at most this many bytes needs no pause: a millisecond or two."""
PACKED_AT_ONCE_BYTES: Final = 256 * 1024
"""A batch of more compressed bytes is decompressed only after a pause."""
_RECORDS_AT_ONCE: Final = 200
"""Record objects made between two pauses: about a millisecond of work."""

_SHOWN_ERRORS: Final = 3
_OFFSETS: Final = "invalid_offset_or_sequence_records"
_INVALID_TIMESTAMP_MESSAGE: Final = (
    "One or more records have been rejected due to invalid timestamp"
)


class Examined(NamedTuple):
    """A validated batch whose offsets are not assigned yet."""

    header: BatchHeader
    data: Buffer
    """The buffer that contains the batch at ``position``."""
    position: int
    largest_timestamp: int
    is_log_append_time: bool
    is_rewritten: bool = False
    """Whether the batch was encoded anew: recompressed, renumbered or converted."""
    conversions: RecordConversions = NO_CONVERSIONS


Examination: TypeAlias = Generator[None, None, Examined | None]
"""A validation in steps; its result is None if there is no complete batch."""


@dataclass(slots=True)
class Allowance:
    """The bytes and records that the batches of one request may still use.

    Refused batches count, too.  Kafka has no limit.
    """

    unpacked_bytes: int = UNPACKED_BYTES_PER_REQUEST
    records: int = RECORDS_PER_REQUEST

    def limit(self, most_bytes: int) -> int:
        """The most bytes that the next batch may decompress to: ``most_bytes``, or less."""
        return max(0, min(most_bytes, self.unpacked_bytes))


class AppendSource(NamedTuple):
    """Where the batches come from and go to; ``now_ms`` is the time in ms since 1970."""

    origin: AppendOrigin
    partition: str
    now_ms: int
    allowance: Allowance


def examine(records: MemoryRecords, config: LogConfig, source: AppendSource) -> Examination:
    """Validates ``records`` and returns the one batch to append, in steps.

    Raises a RecordsRefused (kafka_common.errors) if invalid.  ``records`` may end with an
    incomplete batch, which is ignored.  All messages of magic 0 or 1 become one batch; more than
    one batch of magic 2 is invalid.
    """
    is_client = source.origin is AppendOrigin.CLIENT
    data = records.buffer
    batches = yield from leader_batches(
        records,
        source.origin,
        config.max_message_bytes,
        source.partition,
        MOST_RECORDS if is_client else None,
    )
    if not batches:
        return None
    position, header = batches[0]
    if header.magic != MAGIC_2:
        return (yield from _converted(data, batches, config, source))
    if len(batches) > 1:
        raise InvalidRecord("Compressed outer record has more than one batch")
    _check_batch(header, source)
    target = header.codec if config.codec is None else config.codec
    is_recompressed = target is not header.codec and not header.is_control
    _check_timestamp_type(header, config)
    needs_values = is_recompressed or config.is_compacted or _limits_timestamps(config)
    has_known_largest = header.is_log_append_time and not config.is_log_append_time
    if source.origin is AppendOrigin.COORDINATOR and not is_recompressed:
        # This broker has just encoded the batch, with keys and current timestamps: to validate
        # thousands of committed offsets would only block the event loop.
        needs_values, has_known_largest = False, header.codec is Codec.NONE
    largest, unpacked_bytes = header.max_timestamp, 0
    if needs_values or not has_known_largest or header.codec is not Codec.NONE:
        # First check the batch's form and limits; records are decoded only after that.
        found = yield from _look_through(data, position, header, config, source)
        unpacked_bytes = found.unpacked_bytes
        if not has_known_largest:
            largest = found.largest_timestamp
        if not found.is_counted and not header.is_control:
            # Some clients give wrong offset deltas in compressed batches: encode it anew.
            is_recompressed = needs_values = True
    if needs_values and header.record_count > _RECORDS_AT_ONCE:
        yield
    if is_recompressed:
        checked = iterate_batch(data, position, header)
        kept = yield from _check_records(checked, header, config, source, keeps=True)
        return _rebuilt(kept, target, header, config, source)
    if needs_values:
        checked = iterate_batch(data, position, header)
        yield from _check_records(checked, header, config, source, keeps=False)
    conversions = NO_CONVERSIONS
    if unpacked_bytes:
        conversions = RecordConversions(memory_bytes=unpacked_bytes)
    return Examined(
        header,
        data,
        position,
        largest,
        config.is_log_append_time,
        conversions=conversions,
    )


def assign(examined: Examined, *, base_offset: int, leader_epoch: int, now_ms: int) -> ValidRecords:
    """The batch with offsets and leader epoch; with LogAppendTime, ``now_ms`` as its timestamp."""
    header, data, position = examined.header, examined.data, examined.position
    assigned = assigned_header(
        data,
        position,
        header,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        max_timestamp=now_ms if examined.is_log_append_time else examined.largest_timestamp,
        is_log_append_time=examined.is_log_append_time,
    )
    rest = memoryview(data)[position + HEADER_BYTES : position + header.size]
    largest = TimestampOffset(assigned.max_timestamp, assigned.last_offset)
    return ValidRecords((assigned,), (assigned.encode(), rest), assigned.size, largest)


class _Found(NamedTuple):
    """The result of checking the records of a batch."""

    largest_timestamp: int
    unpacked_bytes: int
    is_counted: bool
    """Whether the offset deltas of a compressed batch are 0, 1, 2…"""


def _look_through(
    data: Buffer, position: int, header: BatchHeader, config: LogConfig, source: AppendSource
) -> Generator[None, None, _Found]:
    """Checks the form of a batch's records, and the offset deltas if it is compressed."""
    count = header.record_count
    if count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {count}")
    if header.codec is Codec.NONE:
        block, start = records_block(data, position, header)
        walked = yield from walk_records(block, start, len(block), count)
        return _Found(header.base_timestamp + walked.largest_delta, 0, walked.is_counted)
    allowance = source.allowance
    limit = allowance.limit(max(UNPACKED_BYTES, config.max_message_bytes))
    packed = memoryview(data)[position + HEADER_BYTES : position + header.size]
    try:
        if len(packed) <= PACKED_AT_ONCE_BYTES:
            try:
                block = unpack(header.codec, packed, min(limit, UNPACKED_AT_ONCE_BYTES))
            except UnpackedTooLarge:
                if limit <= UNPACKED_AT_ONCE_BYTES:
                    raise
            else:
                allowance.unpacked_bytes -= len(block)
                walked = yield from walk_records(block, 0, len(block), count, counts=True)
                largest = header.base_timestamp + walked.largest_delta
                return _Found(largest, len(block), walked.is_counted)
        yield
        pages, size = unpack_aside(header.codec, packed, limit)
    except UnpackedTooLarge as refused:
        allowance.unpacked_bytes -= limit
        raise MessageTooLarge(f"{refused}, in the append to {source.partition}") from None
    allowance.unpacked_bytes -= size
    try:
        walked = yield from walk_records(pages, 0, size, count, counts=True)
    finally:
        pages.close()
    return _Found(header.base_timestamp + walked.largest_delta, size, walked.is_counted)


_APPEND_TIME_REFUSAL: Final = (
    "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
)


def _check_batch(header: BatchHeader, source: AppendSource) -> None:
    if source.origin is not AppendOrigin.CLIENT:
        return
    where = f"in topic partition {source.partition}"
    if header.last_offset_delta < 0:
        raise InvalidRecord(
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] "
            f"{where}",
            meter=_OFFSETS,
        )
    if header.record_count <= 0:
        raise InvalidRecord(
            f"Invalid reported count for record batch: {header.record_count} {where}",
            meter=_OFFSETS,
        )
    if header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and "
            f"count of records {header.record_count} {where}",
            meter=_OFFSETS,
        )
    if header.record_count > MOST_RECORDS:
        raise MessageTooLarge(
            f"A batch of {header.record_count} records in the append to {source.partition}; "
            f"{MOST_RECORDS} are allowed"
        )
    source.allowance.records -= header.record_count
    if source.allowance.records < 0:
        raise MessageTooLarge(
            f"The records of one request, up to the append to {source.partition}, are too many; "
            f"{RECORDS_PER_REQUEST} are allowed"
        )
    if header.is_control:
        raise InvalidRecord(
            f"Clients are not allowed to write control records {where}", meter=_OFFSETS
        )
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id} {where}",
            meter=_OFFSETS,
        )


def _check_timestamp_type(header: BatchHeader, config: LogConfig) -> None:
    """Refuses a producer's batch with LogAppendTime, if the topic has it or the time is missing.

    In a topic with CreateTime, :func:`assign` clears the batch's LogAppendTime bit.
    """
    if header.is_log_append_time and (
        config.is_log_append_time or header.max_timestamp == NO_TIMESTAMP
    ):
        _refuse([(0, _APPEND_TIME_REFUSAL)], is_timestamp=True)


def _limits_timestamps(config: LogConfig) -> bool:
    return not config.is_log_append_time and (
        config.timestamp_before_max_ms < MAX_LONG or config.timestamp_after_max_ms < MAX_LONG
    )


def _check_records(
    records: Iterator[Record],
    header: BatchHeader,
    config: LogConfig,
    source: AppendSource,
    *,
    keeps: bool,
) -> Generator[None, None, list[Record]]:
    """Checks keys and timestamps; returns the records if ``keeps``, else an empty list.

    Raises InvalidRecord or InvalidTimestamp with the index and error of each invalid record.
    """
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    needs_key = config.is_compacted and not header.is_control
    errors: list[tuple[int, str]] = []
    has_invalid_timestamp, without_key = False, 0
    checked: list[Record] = []
    for index, record in enumerate(records):
        if index % _RECORDS_AT_ONCE == _RECORDS_AT_ONCE - 1:
            yield
        if keeps:
            checked.append(record)
        age_ms = source.now_ms - record.timestamp
        if needs_key and record.key is None:
            without_key += 1
            errors.append(
                (
                    index,
                    "Compacted topic cannot accept message without key in topic partition "
                    f"{source.partition}",
                )
            )
        elif config.is_log_append_time or record.timestamp == NO_TIMESTAMP:
            continue
        elif age_ms > before or -age_ms > after:
            has_invalid_timestamp = True
            errors.append(
                (
                    index,
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out "
                    f"of range. The timestamp should be within [{source.now_ms - before}, "
                    f"{source.now_ms + after}]",
                )
            )
    if errors:
        _refuse(errors, without_key, is_timestamp=has_invalid_timestamp)
    return checked


def _refuse(errors: Sequence[tuple[int, str]], without_key: int = 0, *, is_timestamp: bool) -> None:
    meter = "no_key_compacted_topic_records" if without_key else ""
    if is_timestamp:
        raise InvalidTimestamp(
            _INVALID_TIMESTAMP_MESSAGE, tuple(errors), meter=meter, count=without_key
        )
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{message}')"
        for index, message in errors[:_SHOWN_ERRORS]
    )
    raise InvalidRecord(
        f"One or more records have been rejected due to {len(errors)} record errors in total, and "
        f"only showing the first three errors at most: [{shown}]",
        tuple(errors),
        meter=meter,
        count=without_key,
    )


def _converted(
    data: Buffer, batches: Batches, config: LogConfig, source: AppendSource
) -> Generator[None, None, Examined]:
    """Messages of magic 0 or 1 as one batch of magic 2."""
    first = batches[0][1]
    codec = Codec.NONE
    for _, header in batches:
        if header.magic != first.magic:
            raise InvalidRecord(
                f"Batch magic {header.magic} is not the same as the first batch's magic byte "
                f"{first.magic} in topic partition {source.partition}",
                meter="invalid_magic_number_records",
            )
        _check_timestamp_type(header, config)
        if header.codec is not Codec.NONE:
            codec = header.codec
            if len(batches) > 1:
                raise InvalidRecord("Compressed outer record has more than one batch")
    if len(batches) > _RECORDS_AT_ONCE or codec is not Codec.NONE:
        yield
    records = yield from _check_records(
        _messages(data, batches, source), first, config, source, keeps=True
    )
    return _rebuilt(records, codec if config.codec is None else config.codec, None, config, source)


def _messages(data: Buffer, batches: Batches, source: AppendSource) -> Iterator[Record]:
    count = 0
    allowance = source.allowance
    for position, header in batches:
        limit = 0 if header.codec is Codec.NONE else allowance.limit(UNPACKED_BYTES)
        # For a refused batch it is unknown how much was decompressed, so it uses up the limit.
        allowance.unpacked_bytes -= limit
        try:
            for record in iterate_any(data, position, header, limit):
                count += 1
                if count > MOST_RECORDS:
                    raise MessageTooLarge(
                        f"More than {MOST_RECORDS} messages in the append to {source.partition}"
                    )
                limit -= len(record.key or b"") + len(record.value or b"")
                yield record
        except UnpackedTooLarge as refused:
            raise MessageTooLarge(f"{refused}, in the append to {source.partition}") from None
        if header.codec is not Codec.NONE:
            allowance.unpacked_bytes += limit


def _rebuilt(
    records: Sequence[Record],
    target: Codec,
    header: BatchHeader | None,
    config: LogConfig,
    source: AppendSource,
) -> Examined:
    """The records encoded as a new batch, whose first offset is 0."""
    began_ns = perf_counter_ns()
    numbered = [record._replace(offset=place) for place, record in enumerate(records)]
    if not numbered:
        raise InvalidRecord("Record batch has no records at all")
    batch = encode_batch(
        numbered,
        codec=target,
        level=config.compression_level,
        producer_id=NO_PRODUCER_ID if header is None else header.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if header is None else header.producer_epoch,
        base_sequence=NO_SEQUENCE if header is None else header.base_sequence,
        is_transactional=header is not None and header.is_transactional,
    )
    rebuilt = read_header(batch)
    assert rebuilt is not None, "a batch that was just built"
    check_size(rebuilt, config.max_message_bytes, source.partition)
    conversions = RecordConversions(len(numbered), perf_counter_ns() - began_ns, len(batch))
    return Examined(
        rebuilt,
        batch,
        0,
        rebuilt.max_timestamp,
        config.is_log_append_time,
        is_rewritten=True,
        conversions=conversions,
    )
