"""The two sparse indexes of a segment: offset to file position, timestamp to offset.

The indexes of the active segment are kept in memory and written when the segment is flushed, rolled
or closed; after a crash before that, recovery rebuilds them.  The indexes of older segments are
memory-mapped during each lookup only.  Kafka keeps all indexes mapped and preallocates the active
ones with zeros; the files after a clean shutdown are the same.

Source: Kafka ``AbstractIndex``, ``OffsetIndex``, ``TimeIndex``.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from typing_extensions import override

from kafka_common.errors import ZkControllerError
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from replica_manager.regular_files import open_regular, read_file

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class IndexCorrupt(ZkControllerError):
    """An index file is corrupt and must be rebuilt."""


class OffsetPosition(NamedTuple):
    """An index entry: an offset, and the file position of the append that ends with it."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class _Index:
    """An index file: entries of equal size, sorted by their first field."""

    __slots__ = (
        "_entries",
        "_is_stale",
        "_max_entries",
        "_written",
        "base_offset",
        "count",
        "path",
    )

    entry: Struct

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._max_entries = max_bytes // self.entry.size
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = 0
        self.count = size // self.entry.size
        self._entries: bytearray | None = None
        self._written = self.count * self.entry.size
        """Bytes of the entries that are in the file already."""
        self._is_stale = size != self._written
        """Whether the file has more bytes than the first ``_written``, which must be cut off."""

    @property
    def is_full(self) -> bool:
        return self.count >= self._max_entries

    @property
    def size_in_bytes(self) -> int:
        """The size of the entries in bytes."""
        return self.count * self.entry.size

    def activate(self, max_bytes: int) -> None:
        """Reads the entries into memory, for appends."""
        self._max_entries = max_bytes // self.entry.size
        if self._entries is None:
            self._entries = bytearray(self._read())

    def free(self) -> None:
        """Frees the entries' memory, once :meth:`write` has run; later reads use the file."""
        self._entries = None

    def write(self) -> None:
        """Writes the new entries to the file, without waiting for the disk."""
        entries = self._entries
        size = self.count * self.entry.size
        if entries is None or (self._written == size and not self._is_stale and self.path.exists()):
            return
        descriptor = open_regular(self.path, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(descriptor, self._written)
            rest = bytes(entries[self._written : size])
            position = self._written
            while rest:
                done = os.pwrite(descriptor, rest, position)
                position += done
                rest = rest[done:]
        finally:
            os.close(descriptor)
        self._written = size
        self._is_stale = False

    def reset(self) -> None:
        """Removes every entry, so that the index can be rebuilt."""
        self._keep(0)

    def _read(self) -> bytes:
        if self.count == 0:
            return b""
        return read_file(self.path)[: self.count * self.entry.size]

    def _append(self, *fields: int) -> None:
        if self._entries is None:
            self._entries = bytearray(self._read())
        self._entries += self.entry.pack(*fields)
        self.count += 1

    def _keep(self, count: int) -> None:
        if self._entries is None:
            self._entries = bytearray(self._read())
        size = count * self.entry.size
        del self._entries[size:]
        self.count = count
        self._is_stale = True
        self._written = min(self._written, size)

    @contextlib.contextmanager
    def _view(self) -> Iterator[bytearray | mmap.mmap | bytes]:
        if self._entries is not None or self.count == 0:
            yield self._entries or b""
            return
        descriptor = open_regular(self.path, os.O_RDONLY)
        try:
            # mmap duplicates the descriptor, so this takes one more for a moment.
            mapped = SPARE_DESCRIPTORS.opening(
                lambda: mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            )
        except ValueError:
            raise IndexCorrupt(f"{self.path} has become empty") from None
        finally:
            os.close(descriptor)
        with mapped:
            yield mapped

    def _fields(self, place: int) -> tuple[int, ...]:
        with self._view() as view:
            return self.entry.unpack_from(view, place * self.entry.size)

    def _find(self, key: int, field: int = 0) -> int:
        """The number of entries whose ``field`` is at most ``key``; entries are sorted by it."""
        unpack, size = self.entry.unpack_from, self.entry.size
        with self._view() as view:
            return bisect_right(
                range(self.count), key, key=lambda place: unpack(view, place * size)[field]
            )

    def _check_size(self) -> None:
        size = self.path.stat().st_size if self.path.exists() else 0
        if size % self.entry.size:
            raise IndexCorrupt(
                f"Index file {self.path} is corrupt, found {size} bytes which is neither positive "
                f"nor a multiple of {self.entry.size}"
            )


class OffsetIndex(_Index):
    """Maps offsets to file positions: the last offset of an append to where the append starts."""

    __slots__ = ()
    entry = Struct(">ii")

    def append(self, offset: int, position: int) -> None:
        """Adds an entry; ``offset`` must be larger than the last one."""
        self._append(offset - self.base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or before ``offset``; the start of the segment if there is none."""
        place = self._find(offset - self.base_offset) if self.count else 0
        return self.entry_at(place - 1)

    def entry_at(self, place: int) -> OffsetPosition:
        """The entry at index ``place``; the start of the segment for -1."""
        if place < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self._fields(place)
        return OffsetPosition(self.base_offset + relative, position)

    def last(self) -> OffsetPosition:
        return self.entry_at(self.count - 1)

    def upper_bound(self, start: OffsetPosition, size: int) -> int | None:
        """The first indexed offset at least ``size`` bytes past ``start``, None if none is."""
        place = self._find(start.position + size - 1, field=1)
        return None if place >= self.count else self.entry_at(place).offset

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or past ``offset``."""
        self._keep(self._find(offset - self.base_offset - 1))

    def check(self) -> None:
        """IndexCorrupt if the file cannot be an index of this segment."""
        self._check_size()
        # Kafka preallocates the index with zeros, which a crash leaves at its end.
        if self.count and (self.last().offset < self.base_offset or self.last().position <= 0):
            raise IndexCorrupt(
                f"Corrupt index found, index file ({self.path}) has non-zero size but the last "
                f"offset is {self.last().offset} which is no greater than the base offset "
                f"{self.base_offset}."
            )


class TimeIndex(_Index):
    """Maps timestamps to offsets; both rise."""

    __slots__ = ()
    entry = Struct(">qi")

    @property
    @override
    def is_full(self) -> bool:
        # The last entry is reserved for the largest timestamp, added when the segment is closed.
        return self.count >= self._max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if ``timestamp`` is larger than that of the last entry."""
        if timestamp > self.last().timestamp:
            self._append(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry with at most ``timestamp``; (-1, base offset) if there is none."""
        return self.entry_at((self._find(timestamp) if self.count else 0) - 1)

    def entry_at(self, place: int) -> TimestampOffset:
        if place < 0:
            return TimestampOffset(-1, self.base_offset)
        timestamp, relative = self._fields(place)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def last(self) -> TimestampOffset:
        return self.entry_at(self.count - 1)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or past ``offset``."""
        self._keep(self._find(offset - self.base_offset - 1, field=1))

    def check(self) -> None:
        """IndexCorrupt if the file cannot be an index of this segment."""
        self._check_size()
        if self.count and (
            self.last().offset < self.base_offset
            or (self.count > 1 and self.last().timestamp <= self.entry_at(0).timestamp)
        ):
            raise IndexCorrupt(
                f"Corrupt time index found, time index file ({self.path}) has non-zero size but "
                f"the last offset is {self.last().offset} which is less than the first offset "
                f"{self.base_offset}"
            )
