"""Batches of the metadata log: bytes to records, and records to bytes.

All records of a batch have its one timestamp, and they are either all data or all control records.
A batch that breaks a rule is refused whole: a controller that skipped a record would have another
state than the rest of the quorum.

Source: Kafka 3.9 ``RecordsIterator``, ``BatchBuilder``, ``Batch``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import override

from kafka_common.errors import CorruptRecord, InvalidRecord
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.record_batch import (
    MAGIC_2,
    BatchHeader,
    encode_batch,
    is_intact,
    iterate_batches,
    read_header,
    records_block,
)
from kafka_common.protocol.records import Record, iterate_records
from kraft.metadata.codec import decode_record, type_of_record
from kraft.metadata.records import MetadataRecord, VersionedRecord
from kraft.raft.control_records import (
    ControlRecord,
    decode_control_record,
    encode_control_record,
)


@dataclass(frozen=True, slots=True)
class MetadataBatchPlace:
    """Offset, epoch, time and size of a batch."""

    base_offset: int
    epoch: int
    """Of the leader that wrote it."""
    append_timestamp: int
    """Milliseconds since 1970."""
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class DataBatch:
    """Records of the metadata, at consecutive offsets."""

    place: MetadataBatchPlace
    records: Collection[VersionedRecord]

    @property
    def last_offset(self) -> int:
        return self.place.base_offset + len(self.records) - 1


@dataclass(frozen=True, slots=True)
class ControlBatch:
    """Records of the raft layer, at consecutive offsets."""

    place: MetadataBatchPlace
    records: tuple[ControlRecord, ...]

    @property
    def last_offset(self) -> int:
        return self.place.base_offset + len(self.records) - 1


MetadataBatch: TypeAlias = DataBatch | ControlBatch


class UndecodedRecords(Collection[VersionedRecord]):
    """The records of an intact batch of data, decoded whenever they are iterated.

    InvalidRecord, then, if one breaks a rule or is unknown.
    """

    __slots__ = ("_data", "_header", "_position")

    def __init__(self, data: Buffer, position: int, header: BatchHeader) -> None:
        self._data = data
        self._position = position
        self._header = header

    @override
    def __len__(self) -> int:
        return self._header.record_count

    @override
    def __iter__(self) -> Iterator[VersionedRecord]:
        return map(_data_record, _checked_records(self._data, self._position, self._header))

    @override
    def __contains__(self, record: object) -> bool:
        return any(each == record for each in self)


def iterate_undecoded_batches(data: Buffer) -> Iterator[MetadataBatch]:
    """Each complete batch, those of data with :class:`UndecodedRecords`.

    CorruptRecord and InvalidRecord as :func:`read_metadata_batch`, but for a record of data.
    """
    for position, header in iterate_batches(data):
        if header.is_control:
            yield _read(data, position, header)
        else:
            _check(data, position, header)
            yield DataBatch(_place(header), UndecodedRecords(data, position, header))


def iterate_metadata_batches(data: Buffer, position: int = 0) -> Iterator[MetadataBatch]:
    """Each complete batch from ``position``; an incomplete one at the end is left out.

    Raises as :func:`read_metadata_batch`.
    """
    for place, header in iterate_batches(data, position):
        yield _read(data, place, header)


def read_metadata_batch(data: Buffer, position: int = 0) -> MetadataBatch:
    """The batch at ``position``.

    CorruptRecord if none is there as a whole, or its checksum is not that of its bytes;
    InvalidRecord if one of its records breaks a rule or is unknown.
    """
    header = read_header(data, position)
    if header is None or header.size > len(data) - position:
        raise CorruptRecord(f"{len(data) - position} bytes are no whole batch of the metadata log")
    return _read(data, position, header)


def iterate_records_of(
    data: Buffer, types: Iterable[type[MetadataRecord]], first_offset: int = 0
) -> Iterator[MetadataRecord]:
    """The records of these types, from that offset on, of each whole batch.

    Records of other types are checked but not decoded, since decoding is most of the work.  Raises
    as :func:`read_metadata_batch`.
    """
    wanted = frozenset(types)
    for position, header in iterate_batches(data):
        _check(data, position, header)
        if header.is_control:
            continue
        for record in _checked_records(data, position, header):
            assert record.value is not None, "checked before"
            if record.offset >= first_offset and type_of_record(record.value) in wanted:
                yield _data_record(record).record


def _check(data: Buffer, position: int, header: BatchHeader) -> None:
    if header.magic != MAGIC_2:
        raise InvalidRecord(f"A batch of magic {header.magic} in the metadata log")
    if not is_intact(data, position, header):
        raise CorruptRecord(f"The batch at offset {header.base_offset} has another checksum")
    count = header.record_count
    if count < 1 or header.last_offset_delta != count - 1:
        raise InvalidRecord(
            f"The batch at offset {header.base_offset} has {count} records "
            f"and ends {header.last_offset_delta} offsets later"
        )


def _read(data: Buffer, position: int, header: BatchHeader) -> MetadataBatch:
    _check(data, position, header)
    place = _place(header)
    records = _checked_records(data, position, header)
    if header.is_control:
        return ControlBatch(place, tuple(_control_record(record) for record in records))
    return DataBatch(place, tuple(_data_record(record) for record in records))


def _place(header: BatchHeader) -> MetadataBatchPlace:
    return MetadataBatchPlace(
        header.base_offset, header.partition_leader_epoch, header.max_timestamp, header.size
    )


def _checked_records(data: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records; InvalidRecord if one does not have the form of a metadata record.

    The timestamp deltas are checked even if the batch has LogAppendTime.
    """
    block, start = records_block(data, position, header)
    records = iterate_records(
        block, start, header.record_count, header.base_offset, header.base_timestamp
    )
    for offset, record in enumerate(records, header.base_offset):
        if record.timestamp != header.base_timestamp:
            delta = record.timestamp - header.base_timestamp
            raise InvalidRecord(f"The record at offset {offset} has timestamp delta {delta}, not 0")
        if record.offset != offset:
            raise InvalidRecord(f"Offset {record.offset} stands where {offset} is due")
        if record.headers:
            raise InvalidRecord(f"The record at offset {offset} has headers")
        if not record.value:
            raise InvalidRecord(f"The record at offset {offset} has no value, or an empty one")
        yield record


def _data_record(record: Record) -> VersionedRecord:
    if record.key is not None:
        raise InvalidRecord(f"The record at offset {record.offset} has a key")
    assert record.value is not None, "checked before"
    return decode_record(record.value)


def _control_record(record: Record) -> ControlRecord:
    return decode_control_record(record.key, record.value)


def encode_value_batch(
    values: Sequence[bytes], *, base_offset: int, epoch: int, timestamp: int
) -> bytes:
    """A batch of records that are encoded already, at least one."""
    return encode_batch(
        [
            Record(offset, timestamp, None, value)
            for offset, value in enumerate(values, base_offset)
        ],
        partition_leader_epoch=epoch,
    )


def encode_control_batch(
    records: Sequence[ControlRecord], *, base_offset: int, epoch: int, timestamp: int
) -> bytes:
    """A batch of these control records, at least one."""
    return encode_batch(
        [
            Record(offset, timestamp, *encode_control_record(record))
            for offset, record in enumerate(records, base_offset)
        ],
        partition_leader_epoch=epoch,
        is_control=True,
    )
