"""Reads a log's batches to repair a segment or to rebuild the producers' states.

Source: Kafka ``LogSegment.recover``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from kafka_common.errors import CorruptRecord, InvalidRecord, ZkControllerError
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_2,
    BatchHeader,
    is_intact,
    is_intact_in_pieces,
    iterate_batch,
    read_header,
)
from kafka_common.protocol.records import EndTransactionMarker
from replica_manager.log.files import CLEANED_SUFFIX, SWAP_SUFFIX, sync_directory
from replica_manager.log.index import MAX_RELATIVE_OFFSET, TimestampOffset
from replica_manager.log.leader_epoch_file_cache import LeaderEpochFileCache
from replica_manager.log.log_config import LogConfig
from replica_manager.log.producer_snapshots import ProducerSnapshotFiles, SnapshotCorrupt
from replica_manager.log.producer_state_manager import AppendOrigin, ProducerStateManager, advance
from replica_manager.log.segment import BatchPosition, LogSegment
from replica_manager.log.segments import Segments
from replica_manager.log.transaction_index import AbortedTransaction

_CHUNK_BYTES: Final = 1024 * 1024
_LARGE_BYTES: Final = 8 * 1024 * 1024
"""A batch of more bytes is checked before it is read at once: its length may be corrupt."""

_log = logging.getLogger("kafka.log.LogLoader")
_unified_log = logging.getLogger("kafka.log.UnifiedLog$")


class SegmentOverflow(ZkControllerError):
    """A segment has offsets too large for its index, as written by Kafka before 2.0."""

    def __init__(self, segment: LogSegment, offset: int) -> None:
        super().__init__(f"Detected offset overflow at offset {offset} in segment {segment}")
        self.segment = segment


def _record_epoch(epochs: LeaderEpochFileCache, epoch: int, offset: int) -> None:
    """Records a batch's epoch if the cache does not have it, or has another epoch at that offset.

    The checkpoint file is written some time after the log.  After a kill, it may still have an
    epoch whose records were truncated, and lack the older epoch whose records were appended since.
    """
    latest, listed = epochs.latest_epoch, epochs.epoch_for_offset(offset)
    is_new = latest is None or epoch > latest or (listed is not None and listed != epoch)
    if epoch >= 0 and is_new:
        epochs.assign(epoch, offset)


def recover_segment(
    segment: LogSegment,
    producers: ProducerStateManager,
    epochs: LeaderEpochFileCache,
    config: LogConfig,
) -> int:
    """Rebuilds the indexes, truncates the file at the first bad batch; returns the bytes removed.

    Adds the batches' producer states and unknown leader epochs to ``producers`` and ``epochs``.
    Raises SegmentOverflow for a segment that must be split.
    """
    segment.offset_index.activate(config.index_bytes)
    segment.time_index.activate(config.index_bytes)
    segment.offset_index.reset()
    segment.time_index.reset()
    segment.transaction_index.reset()
    largest = TimestampOffset(-1, segment.base_offset)
    valid = last_indexed = 0
    last_offset = segment.base_offset - 1
    try:
        for place, content, at in whole_batches(segment):
            header = place.header
            if not is_intact(content, at, header):
                raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc})")
            if header.base_offset < segment.base_offset:
                raise CorruptRecord(f"Offset {header.base_offset} is before the segment's first")
            if header.last_offset <= last_offset:
                raise CorruptRecord(f"Offset {header.last_offset} follows offset {last_offset}")
            if header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                raise SegmentOverflow(segment, header.last_offset)
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
            if valid - last_indexed > config.index_interval_bytes:
                segment.offset_index.append(header.last_offset, valid)
                segment.time_index.maybe_append(*largest)
                last_indexed = valid
            if header.magic == MAGIC_2:
                _record_epoch(epochs, header.partition_leader_epoch, header.base_offset)
                _replay(segment, producers, content, at, header)
            valid += header.size
            last_offset = header.last_offset
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
) -> Iterator[tuple[BatchPosition, bytes, int]]:
    """Every complete batch: its position in the file, bytes that contain it, its place in those.

    Reads the file in large pieces.  Ends before an incomplete batch.  Raises CorruptRecord for a
    large batch with a wrong checksum, or a header that cannot be valid.
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
            yield BatchPosition(position + at, header), content, at
            at += header.size
        if header is None and at == 0:
            return
        if at == 0:
            assert header is not None, "a batch larger than a piece"
            _check_large(segment, position, header)
            content = segment.file.read(position, header.size)
            if len(content) < header.size:
                return
            yield BatchPosition(position, header), content, 0
            at = header.size
        position += at


def _check_large(segment: LogSegment, position: int, header: BatchHeader) -> None:
    """Raises CorruptRecord for a large batch with a wrong checksum, before it is read whole."""
    if header.size <= _LARGE_BYTES or header.magic != MAGIC_2:
        return
    end = position + header.size
    start = segment.file.read(position, HEADER_BYTES)
    pieces = (
        segment.file.read(place, min(_CHUNK_BYTES, end - place))
        for place in range(position + HEADER_BYTES, end, _CHUNK_BYTES)
    )
    if not is_intact_in_pieces(header, start, pieces):
        raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc})")


def read_marker(content: Buffer, at: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The transaction marker in a control batch; None if it has no record or another kind."""
    record = next(iterate_batch(content, at, header), None) if header.record_count > 0 else None
    return None if record is None else EndTransactionMarker.decode(record)


def _replay(
    segment: LogSegment | None,
    producers: ProducerStateManager,
    content: bytes,
    at: int,
    header: BatchHeader,
) -> None:
    """Updates the producers' states with a batch that is in the log already."""
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


def replay_batches(
    producers: ProducerStateManager, segment: LogSegment, position: int, end: int, end_offset: int
) -> None:
    """Updates the producers' states with the batches between two positions, before an offset."""
    for found, content, at in whole_batches(segment, position, end):
        if found.header.base_offset >= end_offset:
            break
        if found.header.magic == MAGIC_2:
            _replay(None, producers, content, at, found.header)


def rebuild_producers(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshotFiles,
    segments: Segments,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    prefix: str,
    skip_without_snapshot: bool,
) -> None:
    """Rebuilds the producers' states at ``end_offset`` from the newest snapshot and the log.

    With ``skip_without_snapshot``, a log without a snapshot is not read: it was written before
    Kafka had idempotent producers.  Takes a snapshot at ``end_offset``.
    ``prefix``: of the lines about it.
    """
    log_rebuild(prefix, end_offset)
    newest = segments.base_offsets[-2:]
    if snapshots.latest is None and skip_without_snapshot:
        for offset in (*newest, end_offset):
            producers.end_offset = offset
            snapshots.take(producers.entries.values(), offset)
        return
    log_reload(prefix, end_offset)
    began_s = time.monotonic()
    was_empty = not producers.entries and producers.end_offset >= end_offset
    snapshots.remove_outside(log_start_offset, end_offset)
    if end_offset != producers.end_offset:
        _load_newest_snapshot(producers, snapshots, log_start_offset, now_ms)
    else:
        producers.replicated_to(log_start_offset)
        producers.end_offset = max(producers.end_offset, log_start_offset)
        snapshots.last_taken = log_start_offset if snapshots.latest is None else snapshots.latest
    loaded_s = time.monotonic()
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
            replay_batches(producers, segment, place.position, segment.size, end_offset)
    producers.end_offset = end_offset
    snapshots.take(producers.entries.values(), end_offset)
    log_rebuilt(prefix, end_offset, loaded_s - began_s, time.monotonic() - loaded_s)


def log_rebuild(prefix: str, end_offset: int) -> None:
    """Writes that the producers' states are needed at ``end_offset``."""
    text = "%s Loading producer state till offset %d with message format version 2"
    _unified_log.info(text, prefix, end_offset)


def log_reload(prefix: str, end_offset: int) -> None:
    """Writes that a snapshot and the log are read for them."""
    text = "%s Reloading from producer snapshot and rebuilding producer state from offset %d"
    _unified_log.info(text, prefix, end_offset)


def log_rebuilt(prefix: str, end_offset: int, load_s: float, recovery_s: float) -> None:
    """Writes how long both took."""
    _unified_log.info(
        "%s Producer state recovery took %dms for snapshot load and %dms for segment recovery "
        "from offset %d",
        prefix, load_s * 1000, recovery_s * 1000, end_offset,
    )  # fmt: skip


def _load_newest_snapshot(
    producers: ProducerStateManager,
    snapshots: ProducerSnapshotFiles,
    log_start_offset: int,
    now_ms: int,
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


def split_segment(
    segment: LogSegment, new_segment: Callable[[int, str], LogSegment]
) -> list[LogSegment]:
    """Replaces a segment by several, in each of which the offsets fit into the index.

    Drops everything from the first batch on whose offset does not rise: no reader could find it.
    ``new_segment`` makes a segment from a base offset and a suffix.  After a crash in between, the
    next start loads either the old segment or all new ones.
    Source: Kafka ``LocalLog.splitOverflowedSegment``; KAFKA-6264.
    """
    pieces: list[LogSegment] = []
    last_offset = segment.base_offset - 1
    for place, content, at in whole_batches(segment):
        header = place.header
        if header.last_offset <= last_offset:
            _log.warning(
                "Dropping the end of log segment %s from byte offset %d on: offset %d follows "
                "offset %d",
                segment.file.path,
                place.position,
                header.last_offset,
                last_offset,
            )
            break
        last_offset = header.last_offset
        if not pieces or header.last_offset - pieces[-1].base_offset > MAX_RELATIVE_OFFSET:
            pieces.append(new_segment(header.base_offset, CLEANED_SUFFIX))
        batch = memoryview(content)[at : at + header.size]
        largest = TimestampOffset(header.max_timestamp, header.last_offset)
        pieces[-1].append((batch,), header.size, header.last_offset, largest)
    for piece in pieces:
        piece.deactivate()
        with piece.opened_indexes() as indexes:
            piece.flush(indexes)
    sync_directory(segment.file.path.parent)
    # Rename the last piece first: the next start uses a .swap file only if no .cleaned file has a
    # lower or equal offset.
    for piece in reversed(pieces):
        piece.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
    for path in segment.paths():
        path.unlink(missing_ok=True)
    for piece in pieces:
        piece.change_suffix(SWAP_SUFFIX, "")
    return pieces
