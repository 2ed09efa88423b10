"""One segment of a log: a file of batches from a base offset on, with its indexes.

Source: Kafka ``LogSegment``, ``FileRecords``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from kafka_common.errors import CorruptRecord, IllegalState
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import BatchHeader, read_header
from replica_manager.log.files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    FileSlice,
    LogFile,
    offset_file,
)
from replica_manager.log.index import (
    MAX_RELATIVE_OFFSET,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from replica_manager.log.transaction_index import TransactionIndex
from replica_manager.regular_files import open_regular, sync_file, undo

_SCAN_BYTES: Final = 8 * 1024
"""Bytes read at a time to find batch headers; there is an index entry for about every 4 KiB."""
_UNKNOWN_TIMESTAMP: Final = TimestampOffset(-1, -1)


class BatchPosition(NamedTuple):
    """A batch header and the batch's position in the file."""

    position: int
    header: BatchHeader


class TimestampedOffset(NamedTuple):
    """A record's timestamp, offset and leader epoch; the epoch is None if unknown."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class SegmentRead(NamedTuple):
    """The result of a read of one segment."""

    position: int
    """The file position of the batch that contains the requested offset."""
    slice: FileSlice
    is_first_batch_incomplete: bool


class RollLimits(NamedTuple):
    """The topic's ``segment.bytes`` and ``segment.ms``."""

    segment_bytes: int
    segment_ms: int


class LogSegment:
    """Batches from ``base_offset`` on.  Only one method of a segment may run at a time.

    Any method may raise OSError; the caller then takes the log directory offline.
    """

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        index_interval_bytes: int,
        index_bytes: int,
        now_ms: int,
        roll_jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.roll_jitter_ms = roll_jitter_ms
        self.had_offset_index = offset_file(
            directory, base_offset, OFFSET_INDEX_SUFFIX + suffix
        ).exists()
        self.had_time_index = offset_file(
            directory, base_offset, TIME_INDEX_SUFFIX + suffix
        ).exists()
        self.file = LogFile(offset_file(directory, base_offset, LOG_SUFFIX + suffix))
        self.offset_index = OffsetIndex(
            offset_file(directory, base_offset, OFFSET_INDEX_SUFFIX + suffix),
            base_offset,
            index_bytes,
        )
        self.time_index = TimeIndex(
            offset_file(directory, base_offset, TIME_INDEX_SUFFIX + suffix),
            base_offset,
            index_bytes,
        )
        self.transaction_index = TransactionIndex(
            offset_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX + suffix), base_offset
        )
        self._index_interval_bytes = index_interval_bytes
        self._created_ms = now_ms
        self._first_batch_timestamp: int | None = None
        self._largest: TimestampOffset | None = None
        self._bytes_since_index_entry = 0

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def largest_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp of a batch and that batch's last offset.

        The timestamp is -1 if no batch has one.
        """
        if self._largest is None:
            self._largest = self.time_index.last()
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """The time for retention in ms: the largest record timestamp, or else the file's time."""
        timestamp = self.largest_timestamp_so_far.timestamp
        return timestamp if timestamp >= 0 else self.file.last_modified_ms()

    def append(
        self,
        pieces: Sequence[bytes | bytearray | memoryview],
        size: int,
        last_offset: int,
        largest: TimestampOffset,
    ) -> None:
        """Writes batches that end with ``last_offset``."""
        position = self.file.size
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise IllegalState(f"Offset {last_offset} is too far from the start of {self}")
        if position == 0:
            self._first_batch_timestamp = largest.timestamp
        self.file.append(pieces, size)
        if largest.timestamp > self.largest_timestamp_so_far.timestamp:
            self._largest = largest
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*self.largest_timestamp_so_far)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size

    def should_roll(
        self, limits: RollLimits, size: int, largest_timestamp: int, last_offset: int, now_ms: int
    ) -> bool:
        """Whether batches of ``size`` bytes must go to a new segment."""
        return (
            self.file.size > limits.segment_bytes - size
            or (
                self.file.size > 0
                and self.waited_for_roll_ms(now_ms, largest_timestamp)
                > limits.segment_ms - self.roll_jitter_ms
            )
            or self.offset_index.is_full
            or self.time_index.is_full
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        )

    def waited_for_roll_ms(self, now_ms: int, largest_timestamp: int) -> int:
        """The age for ``segment.ms``: from the first batch's timestamp to ``largest_timestamp``.

        Without a first timestamp: from the segment's creation to ``now_ms``.
        """
        first = self._first_timestamp()
        if first is not None and first >= 0:
            return largest_timestamp - first
        return now_ms - self._created_ms

    def _first_timestamp(self) -> int | None:
        if self._first_batch_timestamp is None and self.file.size > 0:
            place = next(self.batches_from(0, self.file.size), None)
            if place is not None:
                self._first_batch_timestamp = place.header.max_timestamp
        return self._first_batch_timestamp

    def first_batch_timestamp(self) -> int:
        """The first batch's largest timestamp; 2**63 - 1 if it has none."""
        first = self._first_timestamp()
        return first if first is not None and first >= 0 else 2**63 - 1

    def batches_from(self, position: int, end: int | None = None) -> Iterator[BatchPosition]:
        """The complete batches from ``position``, where a batch must begin, to ``end``.

        ``end`` is the end of the file if not given.
        """
        end = self.file.size if end is None else min(end, self.file.size)
        chunk, start = b"", position
        while position < end:
            header = read_header(chunk, position - start) if position >= start else None
            if header is None:
                chunk, start = self.file.read(position, _SCAN_BYTES), position
                header = read_header(chunk, 0)
            if header is None or header.size > end - position:
                return
            yield BatchPosition(position, header)
            position += header.size

    def find_batch(self, offset: int, from_position: int = 0) -> BatchPosition | None:
        """The first batch whose last offset is at least ``offset``; None if there is none."""
        start = max(self.offset_index.lookup(offset).position, from_position)
        for place in self.batches_from(start):
            if place.header.base_offset + place.header.last_offset_delta >= offset:
                return place
        return None

    def read(
        self,
        offset: int,
        max_bytes: int,
        max_position: int | None,
        *,
        min_one_message: bool,
        from_position: int = 0,
    ) -> SegmentRead | None:
        """A slice of at most ``max_bytes`` from the batch with ``offset`` to ``max_position``.

        None if the segment ends before ``offset``.  The slice is empty if ``max_position`` is None.
        With ``min_one_message``, ``max_bytes`` is raised to the size of the first batch.
        The search begins at ``from_position``, where a batch must begin.
        """
        place = self.find_batch(offset, from_position)
        if place is None:
            return None
        size = place.header.size
        if min_one_message:
            max_bytes = max(max_bytes, size)
        if max_position is None:
            max_bytes = 0
        else:
            max_bytes = max(0, min(max_position - place.position, max_bytes))
        return SegmentRead(
            place.position, FileSlice(self.file, place.position, max_bytes), max_bytes < size
        )

    def read_batch(self, place: BatchPosition) -> bytes:
        """The bytes of a batch; CorruptRecord if the file ends within the batch."""
        content = self.file.read(place.position, place.header.size)
        if len(content) < place.header.size:
            raise CorruptRecord(f"{self.file.path} ends within a batch")
        return content

    def next_offset(self) -> int:
        """The offset after the last record; the base offset if there is none."""
        return self.end()[0]

    def end(self) -> tuple[int, int]:
        """The offset after the last record, and the file position after the last whole batch."""
        next_offset, position = self.base_offset, self.offset_index.last().position
        for place in self.batches_from(position):
            next_offset, position = place.header.next_offset, place.position + place.header.size
        return next_offset, position

    def find_offset_by_timestamp(
        self, timestamp: int, starting_offset: int
    ) -> TimestampedOffset | None:
        """The first record from ``starting_offset`` on with at least ``timestamp``; None if none.

        Decodes only batches whose largest timestamp is at least ``timestamp``.
        """
        indexed = self.time_index.lookup(timestamp).offset
        position = self.offset_index.lookup(max(indexed, starting_offset)).position
        for place in self.batches_from(position):
            header = place.header
            if header.max_timestamp < timestamp:
                continue
            for record in iterate_any(self.read_batch(place), 0, header):
                if record.timestamp >= timestamp and record.offset >= starting_offset:
                    epoch = header.partition_leader_epoch
                    return TimestampedOffset(
                        record.timestamp, record.offset, epoch if epoch >= 0 else None
                    )
        return None

    def find_offset_of_largest_timestamp(self) -> TimestampedOffset | None:
        """The first record with the segment's largest timestamp; None if no record has one."""
        largest = self.largest_timestamp_so_far
        for place in self.batches_from(self.offset_index.lookup(largest.offset).position):
            header = place.header
            if header.max_timestamp != largest.timestamp:
                continue
            epoch = header.partition_leader_epoch
            for record in iterate_any(self.read_batch(place), 0, header):
                if record.timestamp == largest.timestamp:
                    return TimestampedOffset(
                        record.timestamp, record.offset, epoch if epoch >= 0 else None
                    )
        return None

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Removes the batch that contains ``offset`` and all later ones; returns their bytes."""
        place = self.find_batch(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        cut = 0 if place is None else self.file.truncate(place.position)
        if self.file.size == 0:
            self._created_ms = now_ms
            self._first_batch_timestamp = None
        self._bytes_since_index_entry = 0
        self._largest = self._read_largest_timestamp()
        return cut

    def _read_largest_timestamp(self) -> TimestampOffset:
        largest = self.time_index.last()
        for place in self.batches_from(self.offset_index.lookup(largest.offset).position):
            if place.header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(place.header.max_timestamp, place.header.last_offset)
        return largest

    def note_recovered(self, largest: TimestampOffset) -> None:
        """Sets the largest timestamp that recovery found."""
        self._largest = largest
        self._bytes_since_index_entry = 0
        self._first_batch_timestamp = None

    def upper_bound_offset(self, position: OffsetPosition, size: int) -> int | None:
        """An offset past all records in ``size`` bytes from ``position``.

        None if the index has no entry that far.
        """
        return self.offset_index.upper_bound(position, size)

    def activate(self, index_bytes: int) -> None:
        """Prepares the segment for appends: reads its indexes into memory."""
        self.offset_index.activate(index_bytes)
        self.time_index.activate(index_bytes)

    def deactivate(self) -> None:
        """Ends appends: adds the largest timestamp to the time index and writes the indexes."""
        self.prepare_deactivation()
        self.finish_deactivation()

    def prepare_deactivation(self) -> None:
        """The part of :meth:`deactivate` that may fail; appends are still possible after it."""
        self.time_index.maybe_append(*self.largest_timestamp_so_far)
        self.write_indexes()

    def finish_deactivation(self) -> None:
        """The part of :meth:`deactivate` that cannot fail: frees the indexes' memory."""
        self.offset_index.free()
        self.time_index.free()

    def write_indexes(self) -> None:
        """Writes the indexes' new entries to their files, without waiting for the disk."""
        self.offset_index.write()
        self.time_index.write()

    @contextlib.contextmanager
    def opened_indexes(self) -> Iterator[list[int]]:
        """Opens the existing index files and yields their descriptors, to be synced by flush()."""
        with contextlib.ExitStack() as opened:
            descriptors: list[int] = []
            for path in self.paths()[1:]:
                with contextlib.suppress(FileNotFoundError):
                    descriptors.append(open_regular(path, os.O_RDONLY))
                    opened.callback(os.close, descriptors[-1])
            yield descriptors

    def flush(self, index_descriptors: Iterable[int]) -> None:
        """Syncs the records and the given index files to disk.  Blocks.

        Source: Kafka ``LogSegment.flush``.
        """
        self.file.flush()
        for descriptor in index_descriptors:
            sync_file(descriptor)

    def paths(self) -> tuple[Path, ...]:
        """The path of every file of the segment, the ``.log`` file first; a file may not exist."""
        return (
            self.file.path,
            self.offset_index.path,
            self.time_index.path,
            self.transaction_index.path,
        )

    def change_suffix(self, old: str, new: str) -> None:
        """Renames the segment's files: ``….log.cleaned`` to ``….log.swap`` and so on.

        OSError leaves every file with its old name.
        """
        renamed: list[tuple[Path, Path]] = []
        try:
            for path in self.paths():
                if path == self.file.path or path.exists():
                    other = path.with_name(path.name.removesuffix(old) + new)
                    os.replace(path, other)
                    renamed.append((path, other))
        except OSError:
            for path, other in renamed:
                undo(partial(os.replace, other, path))
            raise
        directory, name = self.file.path.parent, self.file.path.name
        self.file.path = directory / (name.removesuffix(old) + new)
        self._move_to(directory, old, new)

    def move_to(self, directory: Path) -> None:
        """Sets the paths after the log's folder was renamed to ``directory``."""
        self.file.path = directory / self.file.path.name
        self._move_to(directory, "", "")

    def _move_to(self, directory: Path, old: str, new: str) -> None:
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path = directory / (index.path.name.removesuffix(old) + new)

    @override
    def __str__(self) -> str:
        largest = self.largest_timestamp_so_far.timestamp
        return (
            f"LogSegment(baseOffset={self.base_offset}, size={self.size}, "
            f"lastModifiedTime={self.file.last_modified_ms()}, largestRecordTimestamp={largest})"
        )
