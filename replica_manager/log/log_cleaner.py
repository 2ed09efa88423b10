"""Compacts one log: finds the dirty part and writes the new segments.

:func:`clean` reads inactive segments only and writes new ones beside them, so it may run in a
thread.  Then :meth:`~replica_manager.log.unified_log.UnifiedLog.replace_segments` replaces the old
segments by the new ones on the event loop, unless an old segment was deleted in between.

Source: Kafka ``LogCleaner``, ``Cleaner``, ``LogCleanerManager``.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from kafka_common.errors import CorruptRecord, ZkControllerError
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import BatchHeader, is_intact, read_header
from replica_manager.log.compaction import (
    CleaningRound,
    OffsetMap,
    TransactionTracker,
    cleaned_batch,
)
from replica_manager.log.files import CLEANED_SUFFIX, opened_directory
from replica_manager.log.index import MAX_RELATIVE_OFFSET, TimestampOffset
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_recovery import read_marker, whole_batches
from replica_manager.log.log_values import Replacement
from replica_manager.log.producer_state_manager import ProducerEntry
from replica_manager.log.segment import LogSegment
from replica_manager.log.transaction_index import AbortedTransaction
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.regular_files import sync_file


class CleaningAborted(ZkControllerError):
    """The log was deleted, moved or truncated while it was being cleaned."""


class AbortSwitch:
    """Aborts a cleaning that runs in a thread.

    After :meth:`abort` has returned, the cleaning uses no path any more: the log's folder may be
    renamed then, and a new log may have the old name.  The cleaning uses paths only within
    :meth:`paths`, where it never waits for the disk.

    Source: Kafka ``LogCleanerManager.abortCleaning``, ``checkCleaningAborted``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_aborted = False

    def abort(self) -> None:
        with self._lock:
            self.is_aborted = True

    def check(self) -> None:
        """Raises CleaningAborted if the cleaning was aborted."""
        if self.is_aborted:
            raise CleaningAborted

    @contextlib.contextmanager
    def paths(self) -> Iterator[None]:
        """Makes :meth:`abort` wait for the end of the block; CleaningAborted if already aborted."""
        with self._lock:
            self.check()
            yield


class Dirtiness(NamedTuple):
    """How much of a log can be compacted, computed without reading its records."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    needs_compaction_now: bool
    """Whether a dirty record is older than ``max.compaction.lag.ms``."""
    least_ratio: float
    """``min.cleanable.dirty.ratio``"""
    compaction_delay_ms: int = 0
    """Milliseconds since ``max.compaction.lag.ms`` passed for the oldest dirty segment; or 0."""

    @property
    def ratio(self) -> float:
        """The dirty ratio: cleanable bytes by clean and cleanable bytes, from 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.cleanable_bytes > 0 and (
            self.needs_compaction_now or self.ratio > self.least_ratio
        )


class CleaningJob(NamedTuple):
    """A snapshot of a log to compact, for a thread."""

    name: str
    segments: tuple[LogSegment, ...]
    """The inactive segments that begin before the first uncleanable offset."""
    dirtiness: Dirtiness
    config: LogConfig
    producers: Mapping[int, ProducerEntry]
    aborted: tuple[AbortedTransaction, ...]
    now_ms: int
    new_segment: Callable[[int, str], LogSegment]
    generation: int
    """The log's generation, which each truncation raises."""

    @property
    def first_dirty_offset(self) -> int:
        return self.dirtiness.first_dirty_offset

    @property
    def first_uncleanable_offset(self) -> int:
        return self.dirtiness.first_uncleanable_offset


class Cleaned(NamedTuple):
    """The new segments of a cleaning, with which the log is clean up to ``end_offset``."""

    end_offset: int
    replacements: tuple[Replacement, ...]
    generation: int
    """The log's generation when the cleaning began."""
    map_share: float
    """The used part of the offset map's memory, from 0 to 1."""
    indexed_bytes: int
    """Size of the dirty batches whose keys are in the offset map."""
    indexing_s: float
    read_records: int
    written_records: int


def dirtiness(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> Dirtiness:
    """The dirtiness of a log that is clean up to ``checkpoint``; None if it was never cleaned."""
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    if not start <= first_dirty <= log.log_end_offset:
        first_dirty = start
    inactive = [segment for segment in log.segments if segment is not log.active_segment]
    active = log.active_segment.base_offset
    dirty = _from(inactive, first_dirty, active)
    limits = [log.last_stable_offset, active]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        limits += [s.base_offset for s in dirty if s.largest_timestamp > now_ms - lag_ms][:1]
    # A segment is cleaned as a whole, or not at all.
    uncleanable = max(first_dirty, min(limits))
    uncleanable = next((s.base_offset for s in _from(inactive, uncleanable, active)), active)
    longest_ms = log.config.max_compaction_lag_ms
    # Read timestamps from the files only if max.compaction.lag.ms can be exceeded.
    began_ms = [s.first_batch_timestamp() for s in dirty] if longest_ms < now_ms else []
    delay_ms = max((now_ms - each for each in began_ms if each > 0), default=0) - longest_ms
    return Dirtiness(
        first_dirty,
        uncleanable,
        sum(segment.size for segment in inactive if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < uncleanable),
        delay_ms > 0,
        log.config.min_cleanable_dirty_ratio,
        max(delay_ms, 0),
    )


def cleaning_job(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> CleaningJob:
    """The compaction job of a log that is clean up to ``checkpoint``, None if never cleaned."""
    found = dirtiness(log, checkpoint, now_ms)
    uncleanable = found.first_uncleanable_offset
    segments = tuple(
        segment
        for segment in log.segments
        if segment is not log.active_segment and segment.base_offset < uncleanable
    )
    return CleaningJob(
        log.name,
        segments,
        found,
        log.config,
        dict(log.producers.entries),
        _aborted_in(log, segments),
        now_ms,
        log.new_segment,
        log.generation,
    )


def _aborted_in(log: UnifiedLog, segments: Sequence[LogSegment]) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions in the whole range of ``segments``, the first ones of the log.

    Segments are rewritten as a whole, with records below the log start and past the first
    uncleanable offset.  So the new transaction index needs every entry of the old ones.
    Source: Kafka ``Cleaner.cleanSegments``.
    """
    if not segments:
        return ()
    end = next(s.base_offset for s in log.segments if s.base_offset > segments[-1].base_offset)
    return log.aborted_transactions(segments[0].base_offset, end)


def _from(segments: Sequence[LogSegment], offset: int, end: int) -> list[LogSegment]:
    """The segments that may hold offsets from ``offset`` on; the last segment ends at ``end``."""
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    return [segment for segment, after in zip(segments, ends, strict=False) if after > offset]


def clean(job: CleaningJob, memory_bytes: int, switch: AbortSwitch | None = None) -> Cleaned:
    """Writes the compacted segments to disk as ``.cleaned`` files.  Blocks; for a thread.

    Raises OSError if the disk fails and CorruptRecord for a batch with a wrong checksum; both leave
    no files behind.  Raises CleaningAborted after an abort; then the files are deleted with the
    folder, or by the next start.
    """
    switch = AbortSwitch() if switch is None else switch
    began_s = perf_counter()
    offset_map, indexed_bytes = _build_offset_map(job, memory_bytes, switch)
    indexing_s = perf_counter() - began_s
    counts = _RecordCounts()
    end_offset = offset_map.latest_offset + 1
    around = CleaningRound(offset_map, job.now_ms, job.config.delete_retention_ms, job.producers)
    transactions = TransactionTracker(job.aborted)
    done: list[Replacement] = []
    try:
        for group in _grouped([s for s in job.segments if s.base_offset < end_offset], job):
            done += (_clean_group(group, job, around, transactions, counts, switch),)
    except BaseException:
        with contextlib.suppress(CleaningAborted), switch.paths():
            discard(done)
        raise
    map_share = len(offset_map) / offset_map.capacity
    return Cleaned(
        end_offset,
        tuple(done),
        job.generation,
        map_share,
        indexed_bytes,
        indexing_s,
        counts.read,
        counts.written,
    )


@dataclass
class _RecordCounts:
    read: int = 0
    written: int = 0


def _records_in(content: bytes, at: int, header: BatchHeader) -> int:
    if header.record_count >= 0:
        return header.record_count
    return sum(1 for _ in iterate_any(content, at, header))  # magic 0 and 1 have no count


def discard(replacements: Sequence[Replacement]) -> None:
    """Deletes the new segments of replacements that will not take place."""
    for replacement in replacements:
        for path in replacement.new.paths():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _build_offset_map(
    job: CleaningJob, memory_bytes: int, switch: AbortSwitch
) -> tuple[OffsetMap, int]:
    """The map, and the bytes of the batches that are in it."""
    indexed_bytes = 0
    offset_map = OffsetMap(memory_bytes)
    offset_map.latest_offset = job.first_dirty_offset - 1
    dirty = _from(job.segments, job.first_dirty_offset, job.first_uncleanable_offset)
    first = dirty[0].base_offset if dirty else job.first_uncleanable_offset
    transactions = TransactionTracker(a for a in job.aborted if a.last_offset >= first)
    ends = [*(segment.base_offset for segment in dirty[1:]), job.first_uncleanable_offset]
    for segment, end in zip(dirty, ends, strict=False):
        for place, content, at in whole_batches(segment):
            switch.check()
            header = place.header
            if offset_map.is_full:
                return offset_map, indexed_bytes
            _check(segment, header, content, at)
            is_aborted = _is_discardable(transactions, content, at, header)
            if header.last_offset < job.first_dirty_offset:
                continue
            indexed_bytes += header.size
            if not header.is_control and not is_aborted:
                for record in iterate_any(content, at, header):
                    if record.key is not None and record.offset >= job.first_dirty_offset:
                        offset_map.put(record.key, record.offset)
            offset_map.latest_offset = header.last_offset
        # The segment may end with a gap: what stood there was compacted in the leader's log.
        offset_map.latest_offset = max(offset_map.latest_offset, end - 1)
    return offset_map, indexed_bytes


def _check(segment: LogSegment, header: BatchHeader, content: bytes, at: int) -> None:
    if not is_intact(content, at, header):
        raise CorruptRecord(
            f"Batch at offset {header.base_offset} of {segment.file.path} is corrupt"
        )


def _is_discardable(
    transactions: TransactionTracker, content: bytes, at: int, header: BatchHeader
) -> bool:
    marker = read_marker(content, at, header) if header.is_control else None
    return transactions.is_discardable(header, None if marker is None else marker.is_commit)


def _grouped(segments: Sequence[LogSegment], job: CleaningJob) -> list[list[LogSegment]]:
    """Groups neighbouring segments that fit into one new segment."""
    groups: list[list[LogSegment]] = []
    for place, segment in enumerate(segments):
        after = segments[place + 1].base_offset if place + 1 < len(segments) else None
        last_offset = (job.first_uncleanable_offset if after is None else after) - 1
        if groups and _fits(groups[-1], segment, last_offset, job.config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[LogSegment], segment: LogSegment, last_offset: int, config: LogConfig
) -> bool:
    together = [*group, segment]
    return (
        sum(s.size for s in together) <= config.segment_bytes
        and sum(s.offset_index.size_in_bytes for s in together) <= config.index_bytes
        and sum(s.time_index.size_in_bytes for s in together) <= config.index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )


def _clean_group(
    group: list[LogSegment],
    job: CleaningJob,
    around: CleaningRound,
    transactions: TransactionTracker,
    counts: _RecordCounts,
    switch: AbortSwitch,
) -> Replacement:
    with switch.paths():
        new = job.new_segment(group[0].base_offset, CLEANED_SUFFIX)
    replacement = Replacement(new, tuple(group), sum(segment.size for segment in group))
    kept = len(transactions.kept)
    try:
        for segment in group:
            for place, content, at in whole_batches(segment):
                switch.check()
                _check(segment, place.header, content, at)
                counts.read += _records_in(content, at, place.header)
                left = cleaned_batch(content, at, place.header, around, transactions)
                if left is None:
                    continue
                header = read_header(left)
                assert header is not None, "a batch that was just built"
                counts.written += _records_in(left, 0, header)
                if header.last_offset - new.base_offset > MAX_RELATIVE_OFFSET:
                    raise CorruptRecord(f"Offset {header.last_offset} in {segment.file.path}")
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
                new.append((left,), len(left), header.last_offset, largest)
        with contextlib.ExitStack() as files:
            with switch.paths():
                for aborted in transactions.kept[kept:]:
                    new.transaction_index.append(aborted)
                new.deactivate()
                indexes = files.enter_context(new.opened_indexes())
                folder = files.enter_context(opened_directory(new.file.path.parent))
            # Flush the indexes, too: recovery does not rebuild those below the recovery point.
            new.flush(indexes)
            sync_file(folder)
        modified_ns = os.fstat(group[-1].file.fileno()).st_mtime_ns
        os.utime(new.file.fileno(), ns=(modified_ns, modified_ns))
    except BaseException:
        with contextlib.suppress(CleaningAborted), switch.paths():
            discard([replacement])
        raise
    return replacement
