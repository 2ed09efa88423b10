"""Files of a log: names, append-only files with slices, small files replaced as a whole.

A :class:`LogFile` owns its descriptor and closes it when the last reference to the object is gone.
So a :class:`FileSlice` that waits to be sent stays readable when its segment is deleted, and never
uses a descriptor number that the system has given to another file.

Source: Kafka ``LogFileUtils``, ``FileRecords``, ``CheckpointFile``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from kafka_common.errors import IllegalState
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from replica_manager.regular_files import open_regular, sync_file, undo

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_OFFSET_DIGITS: Final = 20


def offset_file(directory: Path, offset: int, suffix: str) -> Path:
    """``00000000000000000042.log`` for 42 and ``.log``."""
    return directory / f"{offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_in_name(name: str) -> int | None:
    """The offset that a file's name begins with, None if it begins with none."""
    digits = name.partition(".")[0]
    is_offset = len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_offset else None


class LogFile:
    """An open append-only file; ``size`` is the length in use."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor; it lives as long as this object."""
        return self._descriptor

    def append(self, pieces: Sequence[bytes | bytearray | memoryview], size: int) -> None:
        """Writes the pieces, ``size`` bytes in total, at the end; OSError changes nothing."""
        try:
            written = os.pwritev(self._descriptor, pieces, self.size)
            if written < size:
                self._append_rest(b"".join(pieces)[written:], self.size + written)
        except OSError:
            undo(lambda: os.ftruncate(self._descriptor, self.size))
            raise
        self.size += size

    def _append_rest(self, rest: bytes, position: int) -> None:
        while rest:
            written = os.pwrite(self._descriptor, rest, position)
            position += written
            rest = rest[written:]

    def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``, fewer at the end of the file."""
        return os.pread(self._descriptor, length, position)

    def truncate(self, size: int) -> int:
        """Truncates the file to ``size`` bytes and returns how many were removed."""
        if not 0 <= size <= self.size:
            raise IllegalState(f"{self.path} of {self.size} bytes cannot be cut to {size}")
        cut = self.size - size
        if cut:
            os.ftruncate(self._descriptor, size)
            self.size = size
        return cut

    def flush(self) -> None:
        """Returns when everything written is on disk.  Blocks."""
        sync_file(self._descriptor)

    def last_modified_ms(self) -> int:
        """When the file was last written, in milliseconds since 1970."""
        return os.fstat(self._descriptor).st_mtime_ns // 1_000_000


class FileSlice(Struct, frozen=True):
    """A range of a log file, to be sent or read; it keeps its file open."""

    file: LogFile
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes.  Blocks if they are not in the page cache."""
        return self.file.read(self.position, self.length)


def replace_file(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replaces a file's content; after a crash the file has the old or the new content.

    ``mode``: the file's permissions, None for the default.  Blocks until the content is on disk.
    """
    beside = path.with_name(path.name + ".tmp")
    descriptor = open_regular(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)  # before the content can be read by others
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes creations, renames and deletions in a directory survive a crash.  Blocks."""
    with opened_directory(directory) as descriptor:
        sync_file(descriptor)


@contextlib.contextmanager
def opened_directory(directory: Path) -> Iterator[int]:
    """A descriptor of the directory, to be synced."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    descriptor = SPARE_DESCRIPTORS.opening(lambda: os.open(directory, flags))
    try:
        yield descriptor
    finally:
        os.close(descriptor)
