"""Snapshot files of the metadata log, named by end offset and epoch.

``<offset>-<epoch>.checkpoint`` holds the state before ``offset``; ``epoch`` is that of the last
record in it.  A snapshot is written to a ``.part`` file and gets its name when it is complete and
on disk; then it is read-only.  A snapshot that is no longer needed is renamed to ``.deleted`` at
once and removed later, because it may still be read.

Source: Kafka ``Snapshots``, ``FileRawSnapshotWriter``, ``FileRawSnapshotReader``.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import CorruptRecord, InvalidRecord, KafkaStorage
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from kafka_common.protocol.record_batch import iterate_batch, iterate_batches
from kraft.raft.control_records import SnapshotHeader, decode_control_record
from kraft.raft.values import OffsetAndEpoch
from replica_manager.log.files import sync_directory
from replica_manager.regular_files import sync_file

_log = logging.getLogger("kafka.raft.KafkaMetadataLog")

SUFFIX: Final = ".checkpoint"
PARTIAL_SUFFIX: Final = f"{SUFFIX}.part"
DELETED_SUFFIX: Final = f"{SUFFIX}.deleted"

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(?:-.*)?(\.checkpoint(?:\.part|\.deleted)?)")
_MAX_OFFSET: Final = 2**63 - 1
_MAX_EPOCH: Final = 2**31 - 1
_FROZEN_MODE: Final = 0o400
_HEADER_BATCH_BYTES: Final = 4096
"""The bytes to read for the first batch of a snapshot, which is always smaller."""


class SnapshotName(NamedTuple):
    """Offset, epoch and kind in the name of a snapshot's file."""

    snapshot_id: OffsetAndEpoch
    is_partial: bool
    is_deleted: bool


def snapshot_path(directory: Path, snapshot_id: OffsetAndEpoch) -> Path:
    """The file's path; its name is ``00000000000000000042-0000000003.checkpoint`` for (42, 3)."""
    return directory / f"{snapshot_id.file_stem}{SUFFIX}"


def parse_name(name: str) -> SnapshotName | None:
    """The parsed name; None if it is not the name of a snapshot's file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    snapshot_id = OffsetAndEpoch(int(found[1]), int(found[2]))
    if snapshot_id.offset > _MAX_OFFSET or snapshot_id.epoch > _MAX_EPOCH:
        return None
    return SnapshotName(snapshot_id, found[3] == PARTIAL_SUFFIX, found[3] == DELETED_SUFFIX)


def by_age(snapshot_id: OffsetAndEpoch) -> tuple[int, int]:
    """The order of snapshots: by epoch, then by offset.  Source: Kafka ``OffsetAndEpoch``."""
    return snapshot_id.epoch, snapshot_id.offset


class SnapshotWriter:
    """A snapshot being written; may be used in another thread than the log's."""

    def __init__(self, directory: Path, snapshot_id: OffsetAndEpoch) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.snapshot_id = snapshot_id
        self.size = 0
        """Bytes written so far."""
        self.synced_size = 0
        """Bytes that are on disk."""
        self.is_frozen = False
        prefix = f"{snapshot_id.file_stem}-"
        descriptor, path = SPARE_DESCRIPTORS.opening(
            lambda: tempfile.mkstemp(PARTIAL_SUFFIX, prefix, directory)
        )
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._path = Path(path)

    def append(self, data: bytes | memoryview) -> int:
        """Appends to the page cache; returns the size in bytes.  OSError if the disk fails."""
        assert not self.is_frozen, f"{self._path} is frozen"
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            view = view[written:]
            self.size += written
        return self.size

    def sync(self) -> None:
        """Blocks until what was appended is on disk; OSError if that fails."""
        size = self.size
        sync_file(self._file.fileno())
        self.synced_size = size

    def freeze(self) -> None:
        """Completes the snapshot.  Blocks until it is on disk; OSError if that fails."""
        assert not self.is_frozen, f"{self._path} is frozen"
        sync_file(self._file.fileno())
        os.fchmod(self._file.fileno(), _FROZEN_MODE)
        self._file.close()
        directory = self._path.parent
        self._path.replace(snapshot_path(directory, self.snapshot_id))
        sync_directory(directory)
        self.is_frozen = True

    def close(self) -> None:
        """Closes the file, and deletes it unless it is frozen; may be called again."""
        self._file.close()
        if not self.is_frozen:
            self._path.unlink(missing_ok=True)


class _OpenSnapshot:
    """A frozen file that stays readable until this object is released."""

    __slots__ = ("_descriptor", "size")

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._descriptor = SPARE_DESCRIPTORS.opening(lambda: os.open(path, flags))
        self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, position: int, max_bytes: int) -> bytes:
        return os.pread(self._descriptor, max_bytes, position)


class MetadataSnapshotFiles:
    """The valid snapshots in the log's directory."""

    def __init__(self, directory: Path, snapshot_ids: Iterable[OffsetAndEpoch] = ()) -> None:
        self.directory = directory
        self._ids = sorted(set(snapshot_ids), key=by_age)
        self._open: dict[OffsetAndEpoch, _OpenSnapshot] = {}

    @property
    def ids(self) -> tuple[OffsetAndEpoch, ...]:
        """The ids, oldest first."""
        return tuple(self._ids)

    @property
    def earliest(self) -> OffsetAndEpoch | None:
        return self._ids[0] if self._ids else None

    @property
    def latest(self) -> OffsetAndEpoch | None:
        return self._ids[-1] if self._ids else None

    def __contains__(self, snapshot_id: OffsetAndEpoch) -> bool:
        return snapshot_id in self._ids

    def add(self, snapshot_id: OffsetAndEpoch) -> None:
        """Adds a frozen snapshot."""
        if snapshot_id not in self._ids:
            self._ids = sorted((*self._ids, snapshot_id), key=by_age)

    def size_of(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The size of a snapshot in bytes; None if this node does not have it."""
        found = self._opened(snapshot_id)
        return None if found is None else found.size

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot, fewer bytes at its end; KafkaStorage if the file is missing."""
        found = self._opened(snapshot_id)
        if found is None:
            raise KafkaStorage(f"Snapshot {snapshot_id.file_stem} is not in {self.directory}")
        return found.read(position, max_bytes)

    def last_contained_log_timestamp(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The timestamp in the snapshot's header; None if this node does not have the snapshot.

        CorruptRecord if it has no header.
        """
        found = self._opened(snapshot_id)
        if found is None:
            return None
        try:
            return _timestamp_in(found.read(0, min(found.size, _HEADER_BATCH_BYTES)))
        except InvalidRecord as wrong:
            raise CorruptRecord(f"Snapshot {snapshot_id.file_stem}: {wrong}") from wrong

    def forget_before(self, snapshot_id: OffsetAndEpoch) -> list[Path]:
        """Marks older snapshots as deleted; returns the files to be removed later."""
        older = [known for known in self._ids if by_age(known) < by_age(snapshot_id)]
        self._ids = self._ids[len(older) :]
        return [path for known in older if (path := self._mark_deleted(known)) is not None]

    def discard(self, snapshot_id: OffsetAndEpoch) -> list[Path]:
        """Marks a frozen snapshot as deleted, as it is not needed; returns the file to remove."""
        path = self._mark_deleted(snapshot_id)
        return [] if path is None else [path]

    def _mark_deleted(self, snapshot_id: OffsetAndEpoch) -> Path | None:
        self._open.pop(snapshot_id, None)
        deleted = self.directory / f"{snapshot_id.file_stem}{DELETED_SUFFIX}"
        try:
            snapshot_path(self.directory, snapshot_id).replace(deleted)
        except FileNotFoundError:
            return None
        return deleted

    def _opened(self, snapshot_id: OffsetAndEpoch) -> _OpenSnapshot | None:
        if snapshot_id not in self._ids:
            return None
        if snapshot_id not in self._open:
            path = snapshot_path(self.directory, snapshot_id)
            try:
                self._open[snapshot_id] = _OpenSnapshot(path)
            except FileNotFoundError:
                _log.warning("Couldn't read a snapshot; expected to find snapshot file %s", path)
                self._ids.remove(snapshot_id)
                return None
        return self._open[snapshot_id]


def _timestamp_in(start: bytes) -> int:
    """The timestamp in the header record; InvalidRecord if there is none."""
    first = next(iterate_batches(start), None)
    if first is not None and first[1].is_control:
        record = next(iterate_batch(start, *first), None)
        header = None if record is None else decode_control_record(record.key, record.value)
        if isinstance(header, SnapshotHeader):
            return header.last_contained_log_timestamp
    raise InvalidRecord("it does not begin with a snapshot header")


def list_snapshots(directory: Path) -> list[tuple[Path, SnapshotName]]:
    """Every snapshot file in a directory, also incomplete or deleted ones."""
    found = [(entry, parse_name(entry.name)) for entry in directory.iterdir()]
    return [(path, name) for path, name in found if name is not None]
