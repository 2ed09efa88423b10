"""Snapshots of a log's producers: the bytes, and the ``.snapshot`` files of a folder.

A snapshot holds the producers' states before the offset in its name.  The log takes a snapshot at
each roll and each shutdown.
Source: Kafka ``ProducerStateManager``, ``SnapshotFile``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final

from crc32c import crc32c

from kafka_common.errors import ZkControllerError
from replica_manager.log.files import (
    DELETED_SUFFIX,
    SNAPSHOT_SUFFIX,
    offset_file,
    offset_in_name,
)
from replica_manager.log.log_directory import partition_name
from replica_manager.log.producer_state_manager import BatchMetadata, ProducerEntry
from replica_manager.regular_files import open_regular, read_file, sync_file, undo

_log = logging.getLogger("org.apache.kafka.storage.internals.log.ProducerStateManager")
_file_log = logging.getLogger("org.apache.kafka.storage.internals.log.SnapshotFile")
_HEAD: Final = Struct(">hIi")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1
_CRC_END: Final = 6


class SnapshotCorrupt(ZkControllerError):
    """A snapshot cannot be read; recovery uses an older one, or the log itself."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The producers in Kafka's snapshot format."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body), len(packed)) + body[_COUNT.size :]


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The producers in a snapshot; SnapshotCorrupt if it is incomplete or its CRC is wrong."""
    if len(content) < _HEAD.size:
        raise SnapshotCorrupt(f"Snapshot of {len(content)} bytes")
    version, crc, count = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise SnapshotCorrupt(f"Snapshot contained an unknown file version {version}")
    computed = crc32c(content[_CRC_END:])
    if crc != computed:
        raise SnapshotCorrupt(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: "
            f"{computed}"
        )
    if not 0 <= count == (len(content) - _HEAD.size) / _ENTRY.size:
        raise SnapshotCorrupt(f"Snapshot of {len(content)} bytes with {count} entries")
    entries: list[ProducerEntry] = []
    for fields in _ENTRY.iter_unpack(content[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = (
            fields
        )
        batches = (
            (BatchMetadata(last_sequence, last_offset, delta, timestamp),)
            if last_offset >= 0
            else ()
        )
        entries.append(
            ProducerEntry(
                producer_id, epoch, coordinator, timestamp, first if first >= 0 else None, batches
            )
        )
    return entries


class ProducerSnapshotFiles:
    """The snapshot files in a log's folder, by their offsets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._prefix = f"[ProducerStateManager partition={partition_name(directory)}] "
        self._offsets: set[int] = set()
        for entry in directory.iterdir():
            offset = offset_in_name(entry.name)
            if entry.name.endswith(SNAPSHOT_SUFFIX) and offset is not None:
                self._offsets.add(offset)
        self._unsynced: set[int] = set()
        self.last_taken = 0
        """The offset of the last snapshot that was taken or loaded, or the log start offset."""

    @property
    def offsets(self) -> list[int]:
        return sorted(self._offsets)

    @property
    def latest(self) -> int | None:
        return max(self._offsets, default=None)

    def path(self, offset: int) -> Path:
        return offset_file(self.directory, offset, SNAPSHOT_SUFFIX)

    def take(self, entries: Collection[ProducerEntry], end_offset: int) -> Path | None:
        """Writes a snapshot, unless ``last_taken`` is at ``end_offset`` or later; does not sync it.

        Returns its path, None if not written.  OSError leaves no file behind.
        """
        if end_offset <= self.last_taken:
            return None
        path = self.path(end_offset)
        began_s = time.monotonic()
        rest = memoryview(encode_snapshot(entries))
        try:
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError:
            undo(path.unlink)
            raise
        self._offsets.add(end_offset)
        self._unsynced.add(end_offset)
        self.last_taken = end_offset
        _log.info(
            "%sWrote producer snapshot at offset %d with %d producer ids in %d ms.",
            self._prefix, end_offset, len(entries), (time.monotonic() - began_s) * 1000,
        )  # fmt: skip
        return path

    def forget_after(self, offset: int) -> None:
        """Deletes the snapshots past ``offset``, which the log has not reached."""
        for each in self.offsets:
            if each > offset:
                undo(partial(self.remove, each))
        self.last_taken = min(self.last_taken, self.latest or 0)

    def sync(self) -> None:
        """Syncs the snapshots taken since the last sync to disk.  Blocks."""
        while self._unsynced:
            offset = self._unsynced.pop()
            try:
                descriptor = open_regular(self.path(offset), os.O_RDONLY)
            except FileNotFoundError:
                continue  # the snapshot was deleted since it was taken
            except OSError:
                self._unsynced.add(offset)
                raise
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)

    def read(self, offset: int) -> list[ProducerEntry]:
        """The producers of the snapshot at ``offset``; SnapshotCorrupt if it cannot be read."""
        _log.info(
            "%sLoading producer state from snapshot file 'SnapshotFile(offset=%d, file=%s)'",
            self._prefix, offset, self.path(offset),
        )  # fmt: skip
        return decode_snapshot(read_file(self.path(offset)))

    def remove(self, offset: int) -> None:
        """Deletes a snapshot, if there is one."""
        if offset in self._offsets:
            self._offsets.discard(offset)
            self.path(offset).unlink(missing_ok=True)
            _file_log.info("Deleted producer state snapshot %s", self.path(offset))

    def remove_all(self) -> None:
        for offset in self.offsets:
            self.remove(offset)
        self.last_taken = 0

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Deletes the snapshots past ``end_offset``, and those at or before ``start_offset``."""
        for offset in self.offsets:
            if offset > end_offset or offset <= start_offset:
                self.remove(offset)

    def remove_stray(self, segment_base_offsets: Collection[int]) -> None:
        """Deletes the snapshots that are not at a segment's base offset.

        Keeps the last of these if it is not before the newest segment: a shutdown took it.
        """
        strays = [offset for offset in self.offsets if offset not in segment_base_offsets]
        newest_base = max(segment_base_offsets, default=-1)
        for offset in strays:
            if offset != strays[-1] or offset < newest_base:
                self.remove(offset)

    def mark_deleted(self, offset: int) -> Path | None:
        """Renames a deleted segment's snapshot; returns the file to delete later, None if none."""
        if offset not in self._offsets:
            return None
        self._offsets.discard(offset)
        path = self.path(offset)
        deleted = path.with_name(path.name + DELETED_SUFFIX)
        try:
            os.replace(path, deleted)
        except FileNotFoundError:
            return None
        return deleted
