"""The files of one log: segments appended to, read, rolled, truncated and deleted.

What its records mean (epochs, producers, high watermark) is for
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
"""So many of the newest appends are found without a look into the index."""


class LogOffsetMetadata(NamedTuple):
    """An offset and its position; the position is -1 if only the offset is known.

    Source: Kafka ``LogOffsetMetadata``.
    """

    message_offset: int
    segment_base_offset: int = UNKNOWN_POSITION
    relative_position: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        return self.segment_base_offset == UNKNOWN_POSITION

    def is_on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether it is in a segment before that of ``other``; both places must be known."""
        return self.segment_base_offset < other.segment_base_offset

    def bytes_until(self, later: LogOffsetMetadata) -> int | None:
        """How many bytes lie between two places in one segment, None if they are in two."""
        if self.is_offset_only or self.segment_base_offset != later.segment_base_offset:
            return None
        return later.relative_position - self.relative_position


class LogRead(NamedTuple):
    """The result of a read."""

    start: LogOffsetMetadata
    """The offset asked for, and where its batch begins."""
    slice: FileSlice | None
    """The batches; the last one may be cut off.  None if there is nothing to read."""
    is_first_batch_incomplete: bool = False
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    """For a read of committed records only."""

    @property
    def size(self) -> int:
        return 0 if self.slice is None else self.slice.length


class FlushPlan(NamedTuple):
    """A flush of the log up to ``offset``."""

    offset: int
    generation: int
    """Of the log: after a truncation other records may have taken these offsets."""
    files: tuple[LogFile, ...]
    paths: tuple[Path, ...]
    directory: Path | None
    """The folder, if files in it are new."""
    before: Callable[[], None]
    """Writes the small files that must be there first."""
    on_flush: Callable[[float], None]
    """Called with the milliseconds that it took."""

    def run(self) -> None:
        """Flushes to disk.  Blocks; for an executor.  OSError if the disk fails."""
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
        # A log deleted meanwhile needs no flush.
        if self.directory is not None:
            with contextlib.suppress(FileNotFoundError):
                sync_directory(self.directory)
        self.on_flush((time.monotonic_ns() - began_ns) / 1e6)


class _Guard:
    """See :meth:`LocalLog.guarded`; a class, for every append needs one."""

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
    """Renames the files of all segments; OSError leaves all as they were."""
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
    """The segments in a directory.  For the event loop, except what is returned to be run."""

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
        """The log directory that the folder is in."""
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        """Everything before it is on disk."""
        self.end = end
        """Where the next record goes."""
        self.last_flushed_ms = environment.monotonic_ms()
        # Where high watermarks and readers that keep up are looked for.
        self._recent_ends: dict[int, LogOffsetMetadata] = {}
        self.generation = 0
        """How often the log was truncated."""
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

        A limit that was reached is no failure of the directory: the log stays as it is.
        """
        limit = exhausted_limit(error)
        if limit is not None:
            _log.error("%s: %s", message, limit)
            return LimitReached(f"{message}: {limit}")
        self._environment.on_failure(self.log_dir, message, error)
        return KafkaStorage(f"{message}: {error}")

    def guarded(self, doing: str) -> _Guard:
        """Turns an OSError in its block into KafkaStorage, by :meth:`fail`."""
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
        """Batches from the one with ``offset`` on, up to ``limit``; OffsetOutOfRange past all."""
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
        """Where to look for the offset's batch: readers that keep up need no search."""
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
        """The position of an offset; OffsetOutOfRange if the log does not have it."""
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
            return self.end  # compaction has taken every record from there on
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
        """The aborted transactions that overlap with the offsets."""
        collected: list[AbortedTransaction] = []
        for segment in self.segments.from_offset(offset):
            found, is_complete = segment.transaction_index.collect(offset, upper_bound)
            collected += found
            if is_complete:
                break
        return tuple(collected)

    @property
    def roll_limits(self) -> RollLimits:
        return RollLimits(self.config.segment_bytes, self.config.segment_ms)

    def new_segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        """An empty segment, ready for appends; OSError leaves no file of it."""
        if suffix == CLEANED_SUFFIX:
            # A cleaning that was aborted may have left files of that name.
            for kind in (LOG_SUFFIX, *INDEX_SUFFIXES):
                offset_file(self.directory, base_offset, kind + suffix).unlink(missing_ok=True)
        jitter = self.config.segment_jitter_ms
        try:
            segment = LogSegment(
                self.directory,
                base_offset,
                index_interval_bytes=self.config.index_interval_bytes,
                index_bytes=self.config.index_bytes,
                now_ms=self._environment.now_ms(),
                roll_jitter_ms=self._environment.random.randrange(jitter) if jitter else 0,
                suffix=suffix,
            )
            segment.activate(self.config.index_bytes)
        except OSError:
            # An empty file would be the log's last segment after a restart.
            undo(offset_file(self.directory, base_offset, LOG_SUFFIX + suffix).unlink)
            raise
        return segment

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Begins a segment at the log's end, or further on if an append does.

        OSError leaves log and files as they were.
        """
        started_ms = self._environment.monotonic_ms()
        base_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active
        if active.size == 0 and base_offset <= active.base_offset:
            # An index without room for a single entry is full from the beginning (KAFKA-6388).
            # Or an append further on was refused when its segment had begun.
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
        """Begins a segment in the place of others, which stay if it cannot be opened."""
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
        """Drops everything from ``offset`` on; returns the segments removed as a whole."""
        deleted = [s for s in self.segments if s.base_offset > offset]
        active = self.segments.floor(offset)
        if active is None:
            raise IllegalState(f"{self.name} begins after offset {offset}")
        # Opens files; if a limit forbids it nothing has changed yet.
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
            # Segments are gone already, and where this one ends is not known.  So this is a failed
            # disk, also where memory is what was lacking: recovery finds out.
            raise OSError(errno.EIO, f"{active} cannot be cut at {offset}: {error}") from error
        self._end_at(offset)
        return deleted

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Drops everything; returns the removed segments."""
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
        """Replaces segments by the compacted segment made of them, which is on disk already.

        The old files are deleted only when the renames are on disk, too.  OSError leaves the old
        segments in their place, and the new files with the suffix that they had.
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
        """Takes segments out of the log and deletes their files."""
        for segment in segments:
            segment.change_suffix("", DELETED_SUFFIX)
            self.segments.remove(segment)
            self.delete_later(segment.paths())

    def delete_later(self, paths: Sequence[Path], *, is_directory_synced: bool = False) -> None:
        """Deletes files after ``file.delete.delay.ms``, once the directory is synced if asked."""

        def delete() -> None:
            if is_directory_synced:
                with contextlib.suppress(FileNotFoundError):  # the folder was renamed or deleted
                    sync_directory(self.directory)
            for path in paths:
                # The folder may have been renamed since; its own deletion takes these along.
                path.unlink(missing_ok=True)

        self.later("delete-file", delete, self.config.file_delete_delay_ms)

    def later(
        self,
        name: str,
        action: Callable[[], None],
        delay_ms: int = 0,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Adds deferred work."""
        environment = self._environment
        due_ms = environment.monotonic_ms() + delay_ms
        environment.deferred_tasks.add(name, self.name, self.log_dir, due_ms, action, after)

    def plan_flush(self, offset: int, before: Callable[[], None]) -> FlushPlan | None:
        """The flush that makes everything before ``offset`` durable; None if it is."""
        if offset <= self.recovery_point:
            return None
        segments = [
            s for s in self.segments.from_offset(self.recovery_point) if s.base_offset < offset
        ]
        if not segments:
            return None
        for segment in segments:
            segment.write_indexes()
        return FlushPlan(
            offset,
            self.generation,
            tuple(segment.file for segment in segments),
            tuple(path for segment in segments for path in segment.paths()[1:]),
            self.directory if segments[-1].base_offset >= self.recovery_point else None,
            before,
            self._environment.on_flush,
        )

    def mark_flushed(self, plan: FlushPlan) -> None:
        """The flush has run: its offset is on disk, unless the log was truncated since."""
        self.last_flushed_ms = self._environment.monotonic_ms()
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.offset)

    def close(self) -> None:
        """Writes what the indexes hold in memory."""
        self.segments.active.deactivate()

    def move_to(self, directory: Path) -> None:
        """Renames the directory."""
        self.directory.replace(directory)
        self.directory = directory
        self.log_dir = directory.parent
        for segment in self.segments:
            segment.move_to(directory)
