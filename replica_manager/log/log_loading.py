"""Opens a log's folder, however it was left: clean, killed while writing, half compacted.

In order: files of interrupted deletions and compactions are removed or brought to their end; every
segment is opened, and those whose indexes are missing or wrong are recovered; after an unclean
stop every segment from the recovery point on is recovered too, and cut off at the first batch that
is not whole; then leader epochs and producers are brought in line with what is left.

Source: Kafka ``LogLoader``, ``LogSegment.recover``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from replica_manager.log.environment import LogEnvironment
from replica_manager.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SWAP_SUFFIX,
    offset_file,
    offset_in_name,
)
from replica_manager.log.index import MAX_RELATIVE_OFFSET, IndexCorrupt, TimestampOffset
from replica_manager.log.leader_epochs import LeaderEpochs
from replica_manager.log.local_log import LocalLog, LogOffsetMetadata
from replica_manager.log.log_config import LogConfig
from replica_manager.log.producer_snapshots import SnapshotCorrupt, SnapshotFiles
from replica_manager.log.producer_state import AppendOrigin, ProducerStates, advance
from replica_manager.log.segment import BatchPlace, LogSegment
from replica_manager.log.segments import Segments
from replica_manager.log.transaction_index import AbortedTransaction
from zkcontroller.errors import CorruptRecord, InvalidRecord
from zkcontroller.protocol.record_batch import (
    MAGIC_2,
    BatchHeader,
    is_intact,
    iterate_batch,
    read_header,
)
from zkcontroller.protocol.records import EndTransactionMarker

_CHUNK_BYTES: Final = 1024 * 1024

_log = logging.getLogger("kafka.log.LogLoader")


class RecoveryProgress(NamedTuple):
    """How far the recovery of one log is."""

    directory: Path
    recovered_segments: int
    segments: int


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A log as it was found, or as it could be saved."""

    local: LocalLog
    log_start_offset: int
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: SnapshotFiles


def _no_progress(progress: RecoveryProgress) -> None:
    del progress


class LogLoader:
    """Loads one log; used once.  Blocks on the disk: for an executor, or before serving."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        epochs: LeaderEpochs,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        had_clean_shutdown: bool = True,
        on_progress: Callable[[RecoveryProgress], None] = _no_progress,
    ) -> None:
        self._directory = directory
        self._config = config
        self._environment = environment
        self._epochs = epochs
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._had_clean_shutdown = had_clean_shutdown
        self._on_progress = on_progress
        self._segments = Segments()
        self._prefix = f"[LogLoader partition={directory.name}, dir={directory.parent}]"
        self._snapshots = SnapshotFiles(directory)

    def load(self) -> LoadedLog:
        """The log; OSError if the disk fails."""
        self._finish_interrupted_swaps()
        # The snapshots are listed again: a swap may have removed some.
        self._snapshots = SnapshotFiles(self._directory)
        self._load_segments()
        recovery_point, end_offset = self._recover()
        active = self._segments.active
        active.activate(self._config.index_bytes)
        self._epochs.truncate_from_end(end_offset)
        log_start = max(self._log_start_offset, self._segments.first.base_offset)
        self._epochs.truncate_from_start(log_start)
        self._snapshots.remove_stray(self._segments.base_offsets)
        producers = ProducerStates(self._environment.producer_id_expiration_ms)
        rebuild_producers(
            producers,
            self._snapshots,
            self._segments,
            log_start,
            end_offset,
            self._environment.now_ms(),
            skip_without_snapshot=self._had_clean_shutdown,
        )
        local = LocalLog(
            self._directory,
            self._config,
            self._environment,
            self._segments,
            recovery_point,
            LogOffsetMetadata(end_offset, active.base_offset, active.size),
        )
        return LoadedLog(local, log_start, self._epochs, producers, self._snapshots)

    def _finish_interrupted_swaps(self) -> None:
        """Removes what was being written or deleted, and completes what was being replaced."""
        files = [entry for entry in self._directory.iterdir() if entry.is_file()]
        cleaned = [path for path in files if path.name.endswith(CLEANED_SUFFIX)]
        first_cleaned = min((_offset_of(path) for path in cleaned), default=None)
        swaps: list[Path] = []
        for path in files:
            is_swap = path.name.endswith(SWAP_SUFFIX)
            if path.name.endswith(DELETED_SUFFIX) or path in cleaned:
                path.unlink(missing_ok=True)
            elif is_swap and first_cleaned is not None and _offset_of(path) >= first_cleaned:
                # Part of a split that did not come to its end.
                path.unlink(missing_ok=True)
            elif is_swap:
                swaps.append(path)
        self._remove_what_is_replaced(swaps)
        for path in swaps:
            _log.info(
                "%s Recovering file %s by renaming from .swap files.", self._prefix, path.name
            )
            path.replace(path.with_name(path.name.removesuffix(SWAP_SUFFIX)))

    def _remove_what_is_replaced(self, swaps: list[Path]) -> None:
        logs = [path for path in swaps if path.name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        if not logs:
            return
        first = min(_offset_of(path) for path in logs)
        end = max(self._open(_offset_of(path), SWAP_SUFFIX).next_offset() for path in logs)
        for path in self._directory.iterdir():
            offset = offset_in_name(path.name)
            if offset is None or path.name.endswith(SWAP_SUFFIX) or not first <= offset < end:
                continue
            _log.info(
                "%s Deleting segment files %s that is compacted but has not been deleted yet.",
                self._prefix,
                path.name,
            )
            path.unlink()

    def _open(self, base_offset: int, suffix: str = "") -> LogSegment:
        return LogSegment(
            self._directory,
            base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
            index_bytes=self._config.index_bytes,
            now_ms=self._environment.now_ms(),
            suffix=suffix,
        )

    def _load_segments(self) -> None:
        names = {entry.name for entry in self._directory.iterdir() if entry.is_file()}
        for name in sorted(names):
            offset = offset_in_name(name)
            if offset is None:
                continue
            if name.endswith(INDEX_SUFFIXES):
                if offset_file(self._directory, offset, LOG_SUFFIX).name not in names:
                    _log.warning(
                        "%s Found an orphaned index file %s, with no corresponding log file.",
                        self._prefix,
                        self._directory / name,
                    )
                    (self._directory / name).unlink(missing_ok=True)
            elif name.endswith(LOG_SUFFIX):
                self._load_segment(offset)

    def _load_segment(self, base_offset: int) -> None:
        segment = self._open(base_offset)
        try:
            if not segment.had_offset_index:
                raise IndexCorrupt(
                    f"{offset_file(self._directory, base_offset, OFFSET_INDEX_SUFFIX)} is missing"
                )
            if not segment.had_time_index and segment.size:
                raise IndexCorrupt(f"The time index of segment {base_offset} is missing")
            segment.offset_index.check()
            if segment.offset_index.last().position > segment.size:
                raise IndexCorrupt(f"{segment.offset_index.path} points past the segment's end")
            segment.time_index.check()
            segment.transaction_index.check()
        except IndexCorrupt as corrupt:
            # What lies past the recovery point after a crash is scanned anyway.
            if self._had_clean_shutdown or base_offset < self._recovery_point:
                _log.warning(
                    "%s Found a corrupted index file corresponding to log file %s due to %s, "
                    "recovering segment and rebuilding index files...",
                    self._prefix,
                    segment.file.path,
                    corrupt,
                )
            self._recover_segment(segment)
        self._segments.add(segment)

    def _recover(self) -> tuple[int, int]:
        """Recovery point and end offset of what is left."""
        if not self._had_clean_shutdown:
            self._recover_unflushed()
        end_offset = None
        if len(self._segments):
            end_offset = self._segments.active.next_offset()
            if end_offset < self._log_start_offset:
                _log.warning(
                    "%s Deleting all segments because logEndOffset (%d) is smaller than "
                    "logStartOffset %d. This could happen if segment files were deleted from the "
                    "file system.",
                    self._prefix,
                    end_offset,
                    self._log_start_offset,
                )
                self._delete(list(self._segments))
                self._epochs.clear()
                self._snapshots.remove_all()
                end_offset = None
        if end_offset is None:
            segment = self._open(self._log_start_offset)
            self._segments.add(segment)
            end_offset = self._log_start_offset
        elif self._had_clean_shutdown:
            return end_offset, end_offset
        return min(self._recovery_point, end_offset), end_offset

    def _recover_unflushed(self) -> None:
        unflushed = self._segments.from_offset(self._recovery_point)
        for number, segment in enumerate(unflushed):
            self._on_progress(RecoveryProgress(self._directory, number, len(unflushed)))
            _log.info(
                "%s Recovering unflushed segment %d. %d/%d recovered for %s.",
                self._prefix,
                segment.base_offset,
                number,
                len(unflushed),
                self._directory.name,
            )
            if self._recover_segment(segment):
                _log.warning(
                    "%s Corruption found in segment %d, truncating to offset %d",
                    self._prefix,
                    segment.base_offset,
                    segment.next_offset(),
                )
                self._delete(unflushed[number + 1 :])
                break
        self._on_progress(RecoveryProgress(self._directory, len(unflushed), len(unflushed)))

    def _delete(self, segments: list[LogSegment]) -> None:
        """Deletes segments at once: nobody reads them yet."""
        for segment in segments:
            self._segments.remove(segment)
            self._snapshots.remove(segment.base_offset)
            for path in segment.paths():
                path.unlink(missing_ok=True)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Builds a segment's indexes again; gives the bytes that had to be cut off."""
        producers = ProducerStates(self._environment.producer_id_expiration_ms)
        # In a copy, for what is found here counts only up to this segment.
        rebuild_producers(
            producers,
            self._snapshots,
            self._segments,
            self._log_start_offset,
            segment.base_offset,
            self._environment.now_ms(),
            skip_without_snapshot=False,
        )
        cut = recover_segment(segment, producers, self._epochs, self._config)
        self._snapshots.take(producers.entries.values(), producers.end_offset)
        return cut


def _offset_of(path: Path) -> int:
    offset = offset_in_name(path.name)
    if offset is None:
        raise OSError(f"{path} is not a file of a log")
    return offset


def recover_segment(
    segment: LogSegment, producers: ProducerStates, epochs: LeaderEpochs, config: LogConfig
) -> int:
    """Reads every batch, builds the indexes again and cuts the file off at the first bad one.

    Producers and epochs learn from the batches what they do not know yet.  Gives the bytes cut.
    """
    segment.offset_index.activate(config.index_bytes)
    segment.time_index.activate(config.index_bytes)
    segment.offset_index.reset()
    segment.time_index.reset()
    segment.transaction_index.reset()
    largest = TimestampOffset(-1, segment.base_offset)
    valid = last_indexed = 0
    try:
        for place, content, at in whole_batches(segment):
            header = place.header
            if not is_intact(content, at, header):
                raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc})")
            if not 0 <= header.last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
                raise CorruptRecord(f"Offset {header.last_offset} does not belong to the segment")
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
            if valid - last_indexed > config.index_interval_bytes:
                segment.offset_index.append(header.last_offset, valid)
                segment.time_index.maybe_append(*largest)
                last_indexed = valid
            if header.magic == MAGIC_2:
                epoch, latest = header.partition_leader_epoch, epochs.latest_epoch
                if epoch >= 0 and (latest is None or epoch > latest):
                    epochs.assign(epoch, header.base_offset)
                _replay(segment, producers, content, at, header)
            valid += header.size
    except (CorruptRecord, InvalidRecord) as failure:
        _log.warning(
            "Found invalid messages in log segment %s at byte offset %d: %s",
            segment.file.path,
            valid,
            failure,
        )
    cut = segment.file.truncate(valid)
    segment.note_recovered(largest)
    segment.deactivate()
    return cut


def whole_batches(
    segment: LogSegment, position: int = 0, end: int | None = None
) -> Iterator[tuple[BatchPlace, bytes, int]]:
    """Every batch with bytes that hold it and its place in them, read in large pieces.

    Ends before a batch that is cut off; CorruptRecord for one that cannot be.
    """
    end = segment.size if end is None else end
    while position < end:
        content = segment.file.read(position, min(_CHUNK_BYTES, end - position))
        at = 0
        while (header := read_header(content, at)) is not None:
            if header.size > end - position - at:
                return
            if header.size > len(content) - at:
                break
            yield BatchPlace(position + at, header), content, at
            at += header.size
        if header is None and at == 0:
            return
        if at == 0:
            assert header is not None, "a batch larger than a piece"
            content = segment.file.read(position, header.size)
            if len(content) < header.size:
                return
            yield BatchPlace(position, header), content, 0
            at = header.size
        position += at


def read_marker(content: bytes, at: int, header: BatchHeader) -> EndTransactionMarker | None:
    """What a control batch says of a transaction, None if nothing."""
    record = next(iterate_batch(content, at, header), None) if header.record_count > 0 else None
    return None if record is None else EndTransactionMarker.decode(record)


def _replay(
    segment: LogSegment | None,
    producers: ProducerStates,
    content: bytes,
    at: int,
    header: BatchHeader,
) -> None:
    """Takes a batch that is in the log already into the producers' state."""
    if header.has_producer_id:
        marker = read_marker(content, at, header) if header.is_control else None
        advanced = advance(
            producers.entry(header.producer_id),
            header,
            header.base_offset,
            AppendOrigin.REPLICATION,
            partition="log",
            marker=marker,
        )
        producers.put(advanced)
        if advanced.completed is not None:
            if segment is not None and advanced.completed.is_aborted:
                completed = advanced.completed
                segment.transaction_index.append(
                    AbortedTransaction(
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        producers.last_stable_offset_after(completed),
                    )
                )
            producers.complete(advanced.completed)
    producers.end_offset = header.next_offset


def rebuild_producers(
    producers: ProducerStates,
    snapshots: SnapshotFiles,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    skip_without_snapshot: bool,
) -> None:
    """Brings the producers' state to ``end_offset``: the newest snapshot, and the log after it.

    With ``skip_without_snapshot`` a log that has none was closed before there were idempotent
    producers, and is not read.  Takes a snapshot at the end.
    """
    newest = segments.base_offsets[-2:]
    if snapshots.latest is None and skip_without_snapshot:
        for offset in (*newest, end_offset):
            producers.end_offset = offset
            snapshots.take(producers.entries.values(), offset)
        return
    was_empty = not producers.entries and producers.end_offset >= end_offset
    snapshots.remove_outside(log_start_offset, end_offset)
    if end_offset != producers.end_offset:
        _load_newest_snapshot(producers, snapshots, log_start_offset, now_ms)
    else:
        producers.replicated_to(log_start_offset)
        producers.end_offset = max(producers.end_offset, log_start_offset)
        snapshots.last_taken = log_start_offset if snapshots.latest is None else snapshots.latest
    if end_offset > producers.end_offset and not was_empty:
        for segment in segments.from_offset(producers.end_offset):
            if segment.base_offset >= end_offset:
                break
            start = max(segment.base_offset, producers.end_offset, log_start_offset)
            producers.end_offset = start
            if segment.base_offset in newest:
                snapshots.take(producers.entries.values(), start)
            place = segment.find_batch(start)
            if place is None:
                continue
            for found, content, at in whole_batches(segment, place.position):
                if found.header.base_offset >= end_offset:
                    break
                if found.header.magic == MAGIC_2:
                    _replay(None, producers, content, at, found.header)
    producers.end_offset = end_offset
    snapshots.take(producers.entries.values(), end_offset)


def _load_newest_snapshot(
    producers: ProducerStates, snapshots: SnapshotFiles, log_start_offset: int, now_ms: int
) -> None:
    while (latest := snapshots.latest) is not None:
        with contextlib.suppress(FileNotFoundError):
            try:
                producers.load(snapshots.read(latest), latest, now_ms)
            except SnapshotCorrupt as corrupt:
                _log.warning(
                    "Failed to load producer snapshot from '%s': %s",
                    snapshots.path(latest),
                    corrupt,
                )
            else:
                snapshots.last_taken = latest
                return
        snapshots.remove(latest)
    producers.clear(log_start_offset)
    snapshots.last_taken = log_start_offset


def remove_log_files(directory: Path) -> None:
    """Deletes a log's folder with everything in it.  Blocks."""
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            Path(entry.path).unlink(missing_ok=True)
        directory.rmdir()
