"""Opens a log's directory after a clean or unclean shutdown.

1. Interrupted deletions and replacements of segments are completed or undone.
2. Every segment is opened.  Those with missing or wrong indexes are recovered.
3. After an unclean shutdown, every segment from the recovery point on is recovered, too.  The log
   is truncated at the first batch that is incomplete or corrupt.
4. Leader epochs and producer states are made to match the log.

Source: Kafka ``LogLoader``, ``LogSegment.recover``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from kafka_common.errors import CorruptRecord
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_file,
    offset_in_name,
)
from replica_manager.log.index import IndexCorrupt
from replica_manager.log.leader_epoch_file_cache import LeaderEpochFileCache
from replica_manager.log.local_log import LocalLog, LogOffsetMetadata
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_directory import partition_name
from replica_manager.log.log_recovery import (
    SegmentOverflow,
    rebuild_producers,
    recover_segment,
    split_segment,
)
from replica_manager.log.producer_snapshots import ProducerSnapshotFiles
from replica_manager.log.producer_state_manager import ProducerStateManager
from replica_manager.log.segment import LogSegment
from replica_manager.log.segments import Segments
from replica_manager.regular_files import refuse_link

_log = logging.getLogger("kafka.log.LogLoader")


class RecoveryProgress(NamedTuple):
    """The progress of one log's recovery, in segments."""

    directory: Path
    recovered_segments: int
    segments: int


class LoadedLog(Struct, frozen=True):
    """The parts of a loaded log, for :class:`~replica_manager.log.unified_log.UnifiedLog`."""

    local: LocalLog
    log_start_offset: int
    epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    snapshots: ProducerSnapshotFiles


def _no_progress(progress: RecoveryProgress) -> None:
    del progress


class LogLoader:
    """Loads one log; used once.  Blocks, so it runs in a thread."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        epochs: LeaderEpochFileCache,
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
        self._log_start_offset = max(0, log_start_offset)
        self._recovery_point = recovery_point
        self._had_clean_shutdown = had_clean_shutdown
        self._on_progress = on_progress
        self._segments = Segments()
        self._prefix = f"[LogLoader partition={partition_name(directory)}, dir={directory.parent}]"
        self._snapshots = ProducerSnapshotFiles(directory)

    def load(self) -> LoadedLog:
        """Loads and recovers the log; OSError if the disk fails."""
        self._finish_interrupted_swaps()
        # List the snapshots again: completed swaps may have deleted some.
        self._snapshots = ProducerSnapshotFiles(self._directory)
        recovery_point, end_offset = self._load_and_recover()
        active = self._segments.active
        active.activate(self._config.index_bytes)
        self._epochs.truncate_from_end(end_offset)
        log_start = max(self._log_start_offset, self._segments.first.base_offset)
        self._epochs.truncate_from_start(log_start)
        self._snapshots.remove_stray(self._segments.base_offsets)
        producers = ProducerStateManager(self._environment.producer_id_expiration_ms)
        rebuild_producers(
            producers,
            self._snapshots,
            self._segments,
            log_start,
            end_offset,
            self._environment.now_ms(),
            prefix=self._prefix,
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

    def _load_and_recover(self) -> tuple[int, int]:
        """Opens and recovers the segments; returns recovery point and log end offset.

        Splits a segment whose offsets are too large for its index, and starts again.
        """
        while True:
            try:
                self._load_segments()
                return self._recover()
            except SegmentOverflow as overflow:
                _log.info("%s %s. Split segment and retry.", self._prefix, overflow)
                split_segment(overflow.segment, self._new)
                self._segments.clear()

    def _finish_interrupted_swaps(self) -> None:
        """Removes unfinished and deleted files, and completes interrupted replacements."""
        files = [entry for entry in self._directory.iterdir() if entry.is_file()]
        cleaned = [path for path in files if path.name.endswith(CLEANED_SUFFIX)]
        first_cleaned = min((_offset_of(path) for path in cleaned), default=None)
        swaps: list[Path] = []
        for path in files:
            is_swap = path.name.endswith(SWAP_SUFFIX)
            if path.name.endswith(DELETED_SUFFIX) or path in cleaned:
                path.unlink(missing_ok=True)
            elif is_swap and first_cleaned is not None and _offset_of(path) >= first_cleaned:
                # The file is part of an interrupted split: the old segment is still there.
                path.unlink(missing_ok=True)
            elif is_swap:
                swaps.append(path)
        self._delete_replaced_files(swaps)
        for path in swaps:
            _log.info(
                "%s Found log file %s from interrupted swap operation, which is recoverable from "
                "%s files by renaming.",
                self._prefix,
                path,
                SWAP_SUFFIX,
            )
            path.replace(path.with_name(path.name.removesuffix(SWAP_SUFFIX)))

    def _delete_replaced_files(self, swaps: list[Path]) -> None:
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
            roll_jitter_ms=self._environment.jitter_ms(self._config.most_jitter_ms),
            suffix=suffix,
        )

    def _new(self, base_offset: int, suffix: str) -> LogSegment:
        segment = self._open(base_offset, suffix)
        segment.activate(self._config.index_bytes)
        return segment

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
                self._segments.add(self._open(offset))
        # After a crash, _recover() scans the segments past the recovery point anyway.
        unflushed = [] if self._had_clean_shutdown else self._unflushed()
        for segment in list(self._segments):
            if segment not in unflushed:
                self._check_segment(segment)

    def _unflushed(self) -> list[LogSegment]:
        return self._segments.from_offset(self._recovery_point)

    def _check_segment(self, segment: LogSegment) -> None:
        try:
            if not segment.had_offset_index:
                raise IndexCorrupt(f"{segment.offset_index.path} is missing")
            if not segment.had_time_index and segment.size:
                raise IndexCorrupt(f"{segment.time_index.path} is missing")
            segment.offset_index.check()
            if segment.offset_index.last().position > segment.size:
                raise IndexCorrupt(f"{segment.offset_index.path} points past the segment's end")
            segment.time_index.check()
            segment.transaction_index.check()
        except IndexCorrupt as corrupt:
            _log.warning(
                "%s Found a corrupted index file corresponding to log file %s due to %s, "
                "recovering segment and rebuilding index files...",
                self._prefix,
                segment.file.path,
                corrupt,
            )
            self._recover_segment(segment)

    def _recover(self) -> tuple[int, int]:
        """Recovers unflushed segments; returns recovery point and log end offset."""
        if not self._had_clean_shutdown:
            self._recover_unflushed()
        end_offset = None
        if len(self._segments):
            end_offset = self._end_of(self._segments.active)
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

    def _end_of(self, segment: LogSegment) -> int:
        """The offset after the segment's last record; truncates bytes after the last whole batch.

        Such bytes are not expected after a clean shutdown.  If they stayed, no reader could find
        the batches appended after them.
        """
        try:
            end_offset, position = segment.end()
            if position == segment.size:
                return end_offset
            reason = f"{segment.size - position} bytes follow the last batch"
        except CorruptRecord as corrupt:
            reason = str(corrupt)
        _log.warning("%s Recovering segment %s: %s", self._prefix, segment.file.path, reason)
        self._recover_segment(segment)
        return segment.next_offset()

    def _recover_unflushed(self) -> None:
        unflushed = self._unflushed()
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
        """Deletes segments and their snapshots without delay: the log has no readers yet."""
        for segment in segments:
            self._segments.remove(segment)
            self._snapshots.remove(segment.base_offset)
            for path in segment.paths():
                path.unlink(missing_ok=True)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Rebuilds a segment's indexes; returns the number of truncated bytes."""
        producers = ProducerStateManager(self._environment.producer_id_expiration_ms)
        # A separate manager: the log's own producers are rebuilt after all segments.
        rebuild_producers(
            producers,
            self._snapshots,
            self._segments,
            self._log_start_offset,
            segment.base_offset,
            self._environment.now_ms(),
            prefix=self._prefix,
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


def remove_log_files(directory: Path) -> None:
    """Deletes a log's folder with all its files.  Blocks."""
    with contextlib.suppress(FileNotFoundError):
        refuse_link(directory)
        for entry in os.scandir(directory):
            Path(entry.path).unlink(missing_ok=True)
        directory.rmdir()
