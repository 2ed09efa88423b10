"""What a leader does to a client's batches before they are written: checks them, assigns offsets.

Most batches are written as they came, behind a new header: neither copied nor unpacked and packed
again.  Each is looked through all the same, as in Kafka: a record that does not end where it should
would stop every consumer of the partition for good, and a wrong largest timestamp in the header
would mislead retention.  The look is at every length and timestamp
(:func:`~zkcontroller.protocol.records.largest_timestamp_delta`); compressed batches are unpacked
for it and dropped again.  Whole records are made only where a rule needs them: keys for compacted
topics, timestamps where their range is limited, another codec, messages of an old magic.

Source: Kafka ``LogValidator``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple

from replica_manager.log.log_config import MAX_LONG, LogConfig
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.log.producer_state import AppendOrigin
from zkcontroller.errors import (
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedForMessageFormat,
)
from zkcontroller.protocol.compression import Buffer, Codec
from zkcontroller.protocol.legacy_messages import iterate_any
from zkcontroller.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    assigned_header,
    encode_batch,
    iterate_batch,
    largest_timestamp,
    read_header,
    records_block,
)
from zkcontroller.protocol.records import NO_TIMESTAMP, Record, largest_timestamp_delta

_SHOWN_ERRORS: Final = 3
_INVALID_TIMESTAMP_MESSAGE: Final = (
    "One or more records have been rejected due to invalid timestamp"
)


class ValidatedBatch(NamedTuple):
    """A batch as it is to be written."""

    header: BatchHeader
    """With offsets and leader epoch assigned."""
    pieces: tuple[bytes | memoryview, ...]
    """Its bytes, in parts."""
    is_rewritten: bool
    """Whether its size may have changed."""
    conversions: RecordConversions = NO_CONVERSIONS


class Assignment(NamedTuple):
    """What a leader assigns to the batches of one append."""

    base_offset: int
    leader_epoch: int
    now_ms: int
    origin: AppendOrigin
    partition: object


def validate(
    data: Buffer, batches: Sequence[tuple[int, BatchHeader]], config: LogConfig, to: Assignment
) -> ValidatedBatch:
    """The one batch to write; InvalidRecord (or a subclass) says what is wrong with it.

    ``batches`` must be whole and intact.  Old messages become one batch, as do all that one
    request brings.
    """
    position, header = batches[0]
    if header.magic != MAGIC_2:
        return _converted(data, batches, config, to)
    if len(batches) > 1:
        raise InvalidRecord("Compressed outer record has more than one batch")
    _check_batch(header, to)
    target = header.codec if config.codec is None else config.codec
    if target is not header.codec and not header.is_control:
        return _recompressed(data, position, header, target, config, to)
    _check_timestamp_type(header, config)
    if config.is_compacted or _limits_timestamps(config):
        _check_records(iterate_batch(data, position, header), header, config, to)
    conversions = NO_CONVERSIONS
    if header.is_log_append_time and not config.is_log_append_time:
        largest = header.max_timestamp
    else:
        largest, unpacked_bytes = _look_through(data, position, header)
        if unpacked_bytes:
            conversions = RecordConversions(memory_bytes=unpacked_bytes)
        if config.is_log_append_time:
            largest = to.now_ms
    start = assigned_header(
        data,
        position,
        header,
        base_offset=to.base_offset,
        partition_leader_epoch=to.leader_epoch,
        max_timestamp=largest,
        is_log_append_time=config.is_log_append_time,
    )
    assigned = read_header(start)
    assert assigned is not None, "a header of full length"
    rest = memoryview(data)[position + HEADER_BYTES : position + header.size]
    return ValidatedBatch(assigned, (start, rest), is_rewritten=False, conversions=conversions)


def _look_through(data: Buffer, position: int, header: BatchHeader) -> tuple[int, int]:
    """The largest timestamp of a batch's records, and how much had to be unpacked to know it."""
    if header.codec is Codec.NONE:
        return largest_timestamp(data, position, header), 0
    if header.record_count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {header.record_count}")
    block, start = records_block(data, position, header)
    delta = largest_timestamp_delta(block, start, header.record_count)
    return header.base_timestamp + delta, len(block)


_APPEND_TIME_REFUSAL: Final = (
    "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
)


def _check_batch(header: BatchHeader, to: Assignment) -> None:
    if to.origin is not AppendOrigin.CLIENT:
        return
    where = f"in topic partition {to.partition}"
    if header.last_offset_delta < 0:
        raise InvalidRecord(
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] "
            f"{where}"
        )
    if header.record_count <= 0:
        raise InvalidRecord(
            f"Invalid reported count for record batch: {header.record_count} {where}"
        )
    if header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and "
            f"count of records {header.record_count} {where}"
        )
    if header.is_control:
        raise InvalidRecord(f"Clients are not allowed to write control records {where}")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id} {where}"
        )


def _check_timestamp_type(header: BatchHeader, config: LogConfig) -> None:
    """Only a broker sets LogAppendTime; with CreateTime the bit of a batch that has it is unset."""
    if header.is_log_append_time and (
        config.is_log_append_time or header.max_timestamp == NO_TIMESTAMP
    ):
        _refuse([(0, _APPEND_TIME_REFUSAL)], is_timestamp=True)


def _limits_timestamps(config: LogConfig) -> bool:
    return not config.is_log_append_time and (
        config.timestamp_before_max_ms < MAX_LONG or config.timestamp_after_max_ms < MAX_LONG
    )


def _check_records(
    records: Iterator[Record], header: BatchHeader, config: LogConfig, to: Assignment
) -> list[Record]:
    """The records, all of which the topic takes; InvalidRecord names the others by their place."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    needs_key = config.is_compacted and not header.is_control
    errors: list[tuple[int, str]] = []
    has_invalid_timestamp = False
    checked: list[Record] = []
    for index, record in enumerate(records):
        checked.append(record)
        age_ms = to.now_ms - record.timestamp
        if needs_key and record.key is None:
            errors.append(
                (
                    index,
                    "Compacted topic cannot accept message without key in topic partition "
                    f"{to.partition}",
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
                    f"of range. The timestamp should be within [{to.now_ms - before}, "
                    f"{to.now_ms + after}]",
                )
            )
    if errors:
        _refuse(errors, is_timestamp=has_invalid_timestamp)
    return checked


def _refuse(errors: Sequence[tuple[int, str]], *, is_timestamp: bool) -> None:
    if is_timestamp:
        raise InvalidTimestamp(_INVALID_TIMESTAMP_MESSAGE, tuple(errors))
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{message}')"
        for index, message in errors[:_SHOWN_ERRORS]
    )
    raise InvalidRecord(
        f"One or more records have been rejected due to {len(errors)} record errors in total, and "
        f"only showing the first three errors at most: [{shown}]",
        tuple(errors),
    )


def _recompressed(
    data: Buffer,
    position: int,
    header: BatchHeader,
    target: Codec,
    config: LogConfig,
    to: Assignment,
) -> ValidatedBatch:
    _check_timestamp_type(header, config)
    records = _check_records(iterate_batch(data, position, header), header, config, to)
    return _rebuilt(records, target, header, config, to)


def _converted(
    data: Buffer, batches: Sequence[tuple[int, BatchHeader]], config: LogConfig, to: Assignment
) -> ValidatedBatch:
    """Messages of magic 0 or 1 as one batch of magic 2."""
    first = batches[0][1]
    records: list[Record] = []
    source = Codec.NONE
    for position, header in batches:
        if header.magic != first.magic:
            raise InvalidRecord(
                f"Batch magic {header.magic} is not the same as the first batch's magic byte "
                f"{first.magic} in topic partition {to.partition}"
            )
        _check_timestamp_type(header, config)
        if header.codec is not Codec.NONE:
            source = header.codec
            if len(batches) > 1:
                raise InvalidRecord("Compressed outer record has more than one batch")
        records += iterate_any(data, position, header)
    if first.is_transactional or first.has_producer_id:
        raise UnsupportedForMessageFormat("Idempotent records need magic 2")
    _check_records(iter(records), first, config, to)
    return _rebuilt(records, source if config.codec is None else config.codec, None, config, to)


def _rebuilt(
    records: Sequence[Record],
    target: Codec,
    header: BatchHeader | None,
    config: LogConfig,
    to: Assignment,
) -> ValidatedBatch:
    began_ns = perf_counter_ns()
    numbered = [
        record._replace(offset=to.base_offset + place) for place, record in enumerate(records)
    ]
    if not numbered:
        raise InvalidRecord("Record batch has no records at all")
    batch = encode_batch(
        numbered,
        codec=target,
        level=config.compression_level,
        partition_leader_epoch=to.leader_epoch,
        producer_id=NO_PRODUCER_ID if header is None else header.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if header is None else header.producer_epoch,
        base_sequence=NO_SEQUENCE if header is None else header.base_sequence,
        is_transactional=header is not None and header.is_transactional,
        log_append_time=to.now_ms if config.is_log_append_time else None,
    )
    rebuilt = read_header(batch)
    assert rebuilt is not None, "a batch that was just built"
    conversions = RecordConversions(len(numbered), perf_counter_ns() - began_ns, len(batch))
    return ValidatedBatch(rebuilt, (batch,), is_rewritten=True, conversions=conversions)
