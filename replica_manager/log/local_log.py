"""The files of one log: segments appended to, read, rolled, truncated and deleted.

Leader epochs, producers and the high watermark are in
:class:`~replica_manager.log.unified_log.UnifiedLog`.
Source: Kafka ``LocalLog``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import IllegalState, KafkaStorage, LimitReached, OffsetOutOfRange
from kafka_common.process.resource_limits import exhausted_limit
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    FileSlice,
    LogFile,
    offset_file,
    sync_directory,
)
from replica_manager.log.index import OffsetPosition, TimestampOffset
from replica_manager.log.log_config import LogConfig
from replica_manager.log.segment import LogSegment, RollLimits
from replica_manager.log.segments import Segments
from replica_manager.log.transaction_index import AbortedTransaction
from replica_manager.regular_files import open_regular, sync_file, undo

_log = logging.getLogger("kafka.log.LocalLog")

UNKNOWN_POSITION: Final = -1
RECENT_ENDS: Final = 32
"""The positions of this many newest appends are kept in memory, to save index lookups."""


class LogOffsetMetadata(NamedTuple):
    """An offset and its position in the log; the position is -1 if only the offset is known.

    Source: Kafka ``LogOffsetMetadata``.
    """

    message_offset: int
    segment_base_offset: int = UNKNOWN_POSITION
    relative_position: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        return self.segment_base_offset == UNKNOWN_POSITION

    def is_on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether its segment is before that of ``other``; both positions must be known."""
        return self.segment_base_offset < other.segment_base_offset

    def bytes_until(self, later: LogOffsetMetadata) -> int | None:
        """Bytes between two positions in one segment, None if they are in different segments."""
        if self.is_offset_only or self.segment_base_offset != later.segment_base_offset:
            return None
        return later.relative_position - self.relative_position


class LogRead(NamedTuple):
    """The result of a read."""

    start: LogOffsetMetadata
    """The requested offset, and the position where its batch begins."""
    slice: FileSlice | None
    """The batches, of which the last may be incomplete.  None if there is nothing to read."""
    is_first_batch_incomplete: bool = False
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    """The aborted transactions in the slice; None unless only committed records are read."""

    @property
    def size(self) -> int:
        return 0 if self.slice is None else self.slice.length


class FlushPlan(NamedTuple):
    """A flush of the log up to ``offset``, to be run in a thread."""

    offset: int
    generation: int
    """The log's generation: after a truncation, other records may have these offsets."""
    files: tuple[LogFile, ...]
    paths: tuple[Path, ...]
    directory: Path | None
    """The folder to sync, if files in it are new; else None."""
    before: Callable[[], None]
    """Writes the files that must be on disk before: leader epochs and producer snapshots."""
    on_flush: Callable[[float], None]
    """Called with the milliseconds that the flush took."""

    def run(self) -> None:
        """Flushes the files to disk.  Blocks; for an executor.  OSError if the disk fails."""
        began_ns = time.monotonic_ns()
        self.before()
        for file in self.files:
            file.flush()
        for path in self.paths:
            try:
                if path.stat().st_size == 0:
                    continue
                descriptor = open_regular(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                sync_file(descriptor)
            finally:
                os.close(descriptor)
        # If the log was deleted since, it needs no flush.
        if self.directory is not None:
            with contextlib.suppress(FileNotFoundError):
                sync_directory(self.directory)
        self.on_flush((time.monotonic_ns() - began_ns) / 1e6)


class _Guard:
    """The context manager of :meth:`LocalLog.guarded`; a class, because it is faster per append."""

    __slots__ = ("_doing", "_log")

    def __init__(self, log: LocalLog, doing: str) -> None:
        self._log = log
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, OSError):
            log = self._log
            raise log.fail(f"{self._doing} {log.name} in dir {log.log_dir}", error) from (error)


def _change_suffixes(segments: Sequence[LogSegment], old: str, new: str) -> None:
    """Renames the files of all segments; OSError leaves every name as it was."""
    changed: list[LogSegment] = []
    try:
        for segment in segments:
            segment.change_suffix(old, new)
            changed.append(segment)
    except OSError:
        for segment in changed:
            undo(partial(segment.change_suffix, new, old))
        raise


class LocalLog:
    """The segments in a directory.  For the event loop; returned plans run in threads."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        segments: Segments,
        recovery_point: int,
        end: LogOffsetMetadata,
    ) -> None:
        self.directory = directory
        self.log_dir = directory.parent
        """The log directory that contains the log's folder."""
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        """The offset before which all records are on disk."""
        self.end = end
        """The log end offset, where the next record is appended, with its position."""
        self.last_flushed_ms = environment.monotonic_ms()
        # Positions of the newest log end offsets: high watermarks, and readers near the log's end.
        self._recent_ends: dict[int, LogOffsetMetadata] = {}
        self.generation = 0
        """The number of truncations since the log was opened."""
        self._environment = environment

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.directory.name

    @property
    def log_end_offset(self) -> int:
        return self.end.message_offset

    @property
    def unflushed_messages(self) -> int:
        return self.end.message_offset - self.recovery_point

    def fail(self, message: str, error: OSError) -> KafkaStorage:
        """Reports that the log directory failed; returns the error to raise.

        A reached limit (memory, open files) is no failure of the directory: the log stays online.
        """
        limit = exhausted_limit(error)
        if limit is not None:
            _log.error("%s: %s", message, limit)
            return LimitReached(f"{message}: {limit}")
        self._environment.on_failure(self.log_dir, message, error)
        return KafkaStorage(f"{message}: {error}")

    def guarded(self, doing: str) -> _Guard:
        """A context manager that passes an OSError to :meth:`fail` and raises its result."""
        return _Guard(self, doing)

    def append(
        self,
        pieces: Sequence[bytes | memoryview],
        size: int,
        last_offset: int,
        largest: TimestampOffset,
    ) -> None:
        """Writes batches that end with ``last_offset`` to the active segment."""
        active = self.segments.active
        active.append(pieces, size, last_offset, largest)
        self.end = LogOffsetMetadata(last_offset + 1, active.base_offset, active.file.size)
        recent = self._recent_ends
        recent[last_offset + 1] = self.end
        if len(recent) > RECENT_ENDS:
            del recent[next(iter(recent))]

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: LogOffsetMetadata,
        *,
        min_one_message: bool,
        with_aborted: bool,
    ) -> LogRead:
        """Batches from the one with ``offset`` up to ``limit``; OffsetOutOfRange past the end."""
        segment = self.segments.floor(offset)
        if offset > self.end.message_offset or segment is None:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.name}, but we only have "
                f"log segments upto {self.end.message_offset}."
            )
        nothing = () if with_aborted else None
        if offset >= limit.message_offset:
            at = limit if offset == limit.message_offset else self.locate(offset)
            return LogRead(at, None, aborted_transactions=nothing)
        following: LogSegment | None = segment
        while following is not None:
            found = following.read(
                offset,
                max_bytes,
                self._max_position(following, limit),
                min_one_message=min_one_message,
                from_position=self._known_position(offset, following),
            )
            if found is not None:
                start = LogOffsetMetadata(offset, following.base_offset, found.position)
                aborted = (
                    self._aborted(start, following, found.slice.length) if with_aborted else None
                )
                return LogRead(start, found.slice, found.is_first_batch_incomplete, aborted)
            following = self.segments.higher(following.base_offset)
        return LogRead(self.end, None, aborted_transactions=nothing)

    def _known_position(self, offset: int, segment: LogSegment) -> int:
        """A known start of the offset's batch in the file, 0 if none is remembered."""
        recent = self._recent_ends.get(offset)
        if recent is None or recent.segment_base_offset != segment.base_offset:
            return 0
        return recent.relative_position

    def _max_position(self, segment: LogSegment, limit: LogOffsetMetadata) -> int | None:
        if segment.base_offset < limit.segment_base_offset:
            return segment.size
        if segment.base_offset == limit.segment_base_offset:
            return limit.relative_position
        return None

    def locate(self, offset: int) -> LogOffsetMetadata:
        """The offset with its position; OffsetOutOfRange if the log does not have it."""
        if offset == self.end.message_offset:
            return self.end
        if (recent := self._recent_ends.get(offset)) is not None:
            return recent
        segment = self.segments.floor(offset)
        while segment is not None and offset < self.end.message_offset:
            place = segment.find_batch(offset)
            if place is not None:
                return LogOffsetMetadata(offset, segment.base_offset, place.position)
            segment = self.segments.higher(segment.base_offset)
        if self.segments.first.base_offset <= offset < self.end.message_offset:
            return self.end  # compaction removed every record from this offset on
        raise OffsetOutOfRange(f"Offset {offset} is not in {self.name}")

    def _aborted(
        self, start: LogOffsetMetadata, segment: LogSegment, size: int
    ) -> tuple[AbortedTransaction, ...]:
        upper = segment.upper_bound_offset(
            OffsetPosition(start.message_offset, start.relative_position), size
        )
        if upper is None:
            higher = self.segments.higher(segment.base_offset)
            upper = self.log_end_offset if higher is None else higher.base_offset
        return self.collect_aborted(start.message_offset, upper)

    def collect_aborted(self, offset: int, upper_bound: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that overlap with ``offset`` to ``upper_bound`` (exclusive)."""
        collected: list[AbortedTransaction] = []
        for segment in self.segments.from_offset(offset):
            found, is_complete = segment.transaction_index.collect(offset, upper_bound)
            collected += found
            if is_complete:
                break
        return tuple(collected)

    @property
    def roll_limits(self) -> RollLimits:
        return RollLimits(self.config.segment_bytes, self.config.max_segment_ms)

    def new_segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        """A new empty segment, ready for appends; OSError leaves no ``.log`` file behind."""
        if suffix == CLEANED_SUFFIX:
            # An aborted cleaning may have left files of that name.
            for kind in (LOG_SUFFIX, *INDEX_SUFFIXES):
                offset_file(self.directory, base_offset, kind + suffix).unlink(missing_ok=True)
        try:
            segment = LogSegment(
                self.directory,
                base_offset,
                index_interval_bytes=self.config.index_interval_bytes,
                index_bytes=self.config.index_bytes,
                now_ms=self._environment.now_ms(),
                roll_jitter_ms=self._environment.jitter_ms(self.config.most_jitter_ms),
                suffix=suffix,
            )
            segment.activate(self.config.index_bytes)
        except OSError:
            # An empty file would be the log's last segment after a restart.
            undo(offset_file(self.directory, base_offset, LOG_SUFFIX + suffix).unlink)
            raise
        return segment

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Begins a segment at the log end offset, or at ``expected_next_offset`` if that is larger.

        OSError leaves the log and its files as they were.
        """
        started_ms = self._environment.monotonic_ms()
        base_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active
        if active.size == 0 and base_offset <= active.base_offset:
            # An index without room for a single entry is full from the beginning (KAFKA-6388).
            # Or a roll to a later offset was done, and the append after it was refused.
            segment = self._replace_all([active], base_offset)
        else:
            if base_offset <= active.base_offset:
                raise IllegalState(f"{self.name} cannot roll at {base_offset} after {active}")
            active.prepare_deactivation()
            self._remove_leftovers(base_offset)
            segment = self.new_segment(base_offset)
            active.finish_deactivation()
            self.segments.add(segment)
        self._end_at(self.log_end_offset)
        _log.info(
            "[LocalLog partition=%s, dir=%s] Rolled new log segment at offset %d in %d ms.",
            self.name,
            self.log_dir,
            base_offset,
            self._environment.monotonic_ms() - started_ms,
        )
        return segment

    def _replace_all(self, old: Sequence[LogSegment], base_offset: int) -> LogSegment:
        """Replaces segments by one new segment; they stay if the new one cannot be opened."""
        _change_suffixes(old, "", DELETED_SUFFIX)
        try:
            self._remove_leftovers(base_offset)
            new = self.new_segment(base_offset)
        except OSError:
            for segment in old:
                undo(partial(segment.change_suffix, DELETED_SUFFIX, ""))
            raise
        for segment in old:
            self.segments.remove(segment)
        self.delete_later([path for segment in old for path in segment.paths()])
        self.segments.add(new)
        return new

    def _remove_leftovers(self, base_offset: int) -> None:
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            offset_file(self.directory, base_offset, suffix).unlink(missing_ok=True)

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Removes all records from ``offset`` on; returns the segments that were deleted."""
        deleted = [s for s in self.segments if s.base_offset > offset]
        active = self.segments.floor(offset)
        if active is None:
            raise IllegalState(f"{self.name} begins after offset {offset}")
        # Opens files first: if a limit forbids that, nothing has changed yet.
        active.activate(self.config.index_bytes)
        active.transaction_index.prepare_truncation(offset)
        _change_suffixes(deleted, "", DELETED_SUFFIX)
        self.generation += 1
        for segment in deleted:
            self.segments.remove(segment)
            self.delete_later(segment.paths())
        try:
            active.truncate_to(offset, self._environment.now_ms())
        except OSError as error:
            # Segments are deleted already, and the end of this one is unknown.  So even a lack of
            # memory counts as a failed disk here, and recovery repairs the log at the next start.
            raise OSError(errno.EIO, f"{active} cannot be cut at {offset}: {error}") from error
        self._end_at(offset)
        return deleted

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Removes all records; the next one gets ``offset``.  Returns the deleted segments."""
        deleted = list(self.segments)
        self._replace_all(deleted, offset)
        self.generation += 1
        self._end_at(offset)
        return deleted

    def _end_at(self, offset: int) -> None:
        active = self.segments.active
        self._recent_ends.clear()
        self.end = LogOffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

    def replace(self, new: LogSegment, old: Sequence[LogSegment]) -> None:
        """Replaces ``old`` segments by the compacted segment ``new``, which is on disk already.

        The old files are deleted only after the renames are on disk.  OSError leaves the old
        segments in service, and the new files with their ``.cleaned`` suffix.
        """
        new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
        try:
            _change_suffixes(old, "", DELETED_SUFFIX)
            try:
                new.change_suffix(SWAP_SUFFIX, "")
            except OSError:
                for segment in old:
                    undo(partial(segment.change_suffix, DELETED_SUFFIX, ""))
                raise
        except OSError:
            undo(partial(new.change_suffix, SWAP_SUFFIX, CLEANED_SUFFIX))
            raise
        self._recent_ends.clear()
        for segment in old:
            self.segments.remove(segment)
        self.segments.add(new)
        paths = [path for segment in old for path in segment.paths()]
        self.delete_later(paths, is_directory_synced=True)

    def remove_segments(self, segments: Iterable[LogSegment]) -> None:
        """Removes segments from the log; their files are deleted after ``file.delete.delay.ms``."""
        removed = list(segments)
        for segment in removed:
            segment.change_suffix("", DELETED_SUFFIX)
            self.segments.remove(segment)
        self.delete_later(
            [path for segment in removed for path in segment.paths()], ",".join(map(str, removed))
        )

    def delete_later(
        self, paths: Sequence[Path], segments: str = "", *, is_directory_synced: bool = False
    ) -> None:
        """Deletes files after ``file.delete.delay.ms``; syncs the directory first if asked.

        ``segments``: the text of those whose files they are, for the log.
        """
        log_dir = self.log_dir

        def delete() -> None:
            if segments:
                _log.info(
                    "[LocalLog partition=%s, dir=%s] Deleting segment files %s",
                    self.name, log_dir, segments,
                )  # fmt: skip
            if is_directory_synced:
                with contextlib.suppress(FileNotFoundError):  # the folder was renamed or deleted
                    sync_directory(self.directory)
            for path in paths:
                # The folder may have been renamed since; its own deletion removes these files.
                path.unlink(missing_ok=True)

        self.later("delete-file", delete, self.config.file_delete_delay_ms)

    def later(
        self,
        name: str,
        action: Callable[[], None],
        delay_ms: int = 0,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Defers ``action`` to a thread for ``delay_ms``; ``after`` then runs on the event loop."""
        environment = self._environment
        due_ms = environment.monotonic_ms() + delay_ms
        environment.deferred_tasks.add(name, self.name, self.log_dir, due_ms, action, after)

    def plan_flush(self, offset: int, before: Callable[[], None]) -> FlushPlan | None:
        """The flush of all records before ``offset``; None if they are on disk already.

        A log that was emptied up to ``offset`` has none, and its new segment must be on disk.
        """
        if offset <= self.recovery_point:
            return None
        segments = [
            s for s in self.segments.from_offset(self.recovery_point) if s.base_offset < offset
        ]
        has_new_files = not segments or segments[-1].base_offset >= self.recovery_point
        for segment in segments:
            segment.write_indexes()
        return FlushPlan(
            offset,
            self.generation,
            tuple(segment.file for segment in segments),
            tuple(path for segment in segments for path in segment.paths()[1:]),
            self.directory if has_new_files else None,
            before,
            self._environment.on_flush,
        )

    def mark_flushed(self, plan: FlushPlan) -> None:
        """Moves the recovery point after a flush, unless the log was truncated since its plan."""
        self.last_flushed_ms = self._environment.monotonic_ms()
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.offset)

    def close(self) -> None:
        """Writes the active segment's indexes to their files."""
        self.segments.active.deactivate()

    def move_to(self, directory: Path) -> None:
        """Renames the log's folder to ``directory``."""
        self.directory.replace(directory)
        self.directory = directory
        self.log_dir = directory.parent
        for segment in self.segments:
            segment.move_to(directory)
