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
"""Read at once when headers are looked through: an index entry stands for some 4 KiB."""
_UNKNOWN_TIMESTAMP: Final = TimestampOffset(-1, -1)


class BatchPosition(NamedTuple):
    """A batch and where it is in the file."""

    position: int
    header: BatchHeader


class TimestampedOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class SegmentRead(NamedTuple):
    """What a read of one segment gives."""

    position: int
    """Of the batch that holds the offset asked for."""
    slice: FileSlice
    is_first_batch_incomplete: bool


class RollLimits(NamedTuple):
    """The limits of the active segment; see the topic's ``segment.*`` keys."""

    segment_bytes: int
    segment_ms: int


class LogSegment:
    """Batches from ``base_offset`` on.  The methods of one segment must not run at the same time.

    Any OSError means that the log directory is in trouble; the caller takes it offline.
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
        """The largest timestamp of a batch and that batch's last offset; -1 if there is none."""
        if self._largest is None:
            self._largest = self.time_index.last()
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """The time for retention: of the records, or of the file if they have none."""
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
        """The segment's age: between its first batch's timestamp and the newest one's, if known."""
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
        """The first batch's timestamp, or a number without meaning beyond all others."""
        first = self._first_timestamp()
        return first if first is not None and first >= 0 else 2**63 - 1

    def batches_from(self, position: int, end: int | None = None) -> Iterator[BatchPosition]:
        """Headers from ``position``, which must be a batch's start, as far as they are whole."""
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
        """The first batch that reaches up to ``offset``; None if none does."""
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
        """At most ``max_bytes`` from the batch with ``offset``, up to ``max_position``.

        None if the segment ends before ``offset``.  Without a ``max_position`` the slice is empty.
        With ``min_one_message``, ``max_bytes`` counts as no less than the size of that batch.
        The batch does not begin before ``from_position``, where a batch must begin.
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
        """The bytes of a batch; CorruptRecord if the file ends before."""
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
        """The first record from ``starting_offset`` on with at least ``timestamp``.

        Unpacks the one batch that it is in.
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
        """The first record with the largest timestamp; unpacks the batch that it is in."""
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
        """Drops the batches from ``offset`` on, and the one that holds it; gives the bytes cut."""
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
        """Takes over the values that recovery found."""
        self._largest = largest
        self._bytes_since_index_entry = 0
        self._first_batch_timestamp = None

    def upper_bound_offset(self, position: OffsetPosition, size: int) -> int | None:
        """An offset past everything in ``size`` bytes from there; None if the index ends before."""
        return self.offset_index.upper_bound(position, size)

    def activate(self, index_bytes: int) -> None:
        """Prepares for appends."""
        self.offset_index.activate(index_bytes)
        self.time_index.activate(index_bytes)

    def deactivate(self) -> None:
        """No more appends come: notes the largest timestamp and writes the indexes."""
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
        """Brings the index files up to date, without waiting for the disk."""
        self.offset_index.write()
        self.time_index.write()

    @contextlib.contextmanager
    def opened_indexes(self) -> Iterator[list[int]]:
        """Descriptors of the index files that exist, to be synced; nothing waits for the disk."""
        with contextlib.ExitStack() as opened:
            descriptors: list[int] = []
            for path in self.paths()[1:]:
                with contextlib.suppress(FileNotFoundError):
                    descriptors.append(open_regular(path, os.O_RDONLY))
                    opened.callback(os.close, descriptors[-1])
            yield descriptors

    def flush(self, index_descriptors: Iterable[int]) -> None:
        """Returns when the records and those indexes are on disk.  Blocks.

        Source: Kafka ``LogSegment.flush``.
        """
        self.file.flush()
        for descriptor in index_descriptors:
            sync_file(descriptor)

    def paths(self) -> tuple[Path, ...]:
        """Every file of the segment, whether it exists or not."""
        return (
            self.file.path,
            self.offset_index.path,
            self.time_index.path,
            self.transaction_index.path,
        )

    def change_suffix(self, old: str, new: str) -> None:
        """Renames every file that exists: ``….log.cleaned`` to ``….log.swap`` and so on.

        OSError leaves all of them as they were.
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
        """Takes over the new name of the segment's directory."""
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
