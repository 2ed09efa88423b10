"""Reads the producers' states at a truncation offset, before the log is truncated.

After a truncation, a log needs the producers' states at its new end to check the next append.  To
rebuild them, up to a whole segment of records must be read.  A plan reads them in a thread before
the truncation.  Then :meth:`UnifiedLog.truncate_to` truncates the log and replaces the producers'
states in one step, so that the states always match the records.

Source: Kafka ``UnifiedLog.rebuildProducerState``, which runs in the fetcher's thread.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from replica_manager.log.log_recovery import log_rebuild, log_rebuilt, log_reload, replay_batches
from replica_manager.log.producer_snapshots import ProducerSnapshotFiles, decode_snapshot
from replica_manager.log.producer_state_manager import ProducerEntry, ProducerStateManager
from replica_manager.log.segment import LogSegment
from replica_manager.log.segments import Segments
from replica_manager.regular_files import read_file

READ_AT_ONCE_BYTES: Final = 256 * 1024
"""A truncation that reads at most this many bytes needs no plan: some 5 ms of small batches."""

_log = logging.getLogger("kafka.log.UnifiedLog")


class SegmentPiece(NamedTuple):
    """A range of batches in one segment to read."""

    segment: LogSegment
    start_offset: int
    position: int
    end: int
    """The position after the last batch."""
    needs_snapshot: bool
    """Whether to take a producer snapshot at ``start_offset``."""


class ProducerSnapshot(NamedTuple):
    """The producers' states at an offset, for a snapshot file."""

    offset: int
    entries: tuple[ProducerEntry, ...]


class Prepared(NamedTuple):
    """The producers' states that a plan has read."""

    producers: ProducerStateManager
    """The producers' states at the truncation offset."""
    snapshots: tuple[ProducerSnapshot, ...]
    """The snapshots to write at segment starts before the truncation offset."""


@dataclass(slots=True)
class TruncationPlan:
    """The reads for a truncation, to run in a thread; made by ``UnifiedLog.plan_truncation``."""

    offset: int
    """The offset to truncate to: the log end offset after the truncation."""
    generation: int
    """The log's generation at the time of the plan: another truncation makes it invalid."""
    log_start_offset: int
    snapshot_offset: int
    """The offset from which records are read."""
    snapshot_path: Path | None
    """The snapshot file of that offset; None if there is none."""
    pieces: list[SegmentPiece]
    expiration_ms: int
    now_ms: int
    is_done: bool = False
    prepared: Prepared | None = None
    """The result; None before the plan has run, and if its reads failed."""

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return sum(piece.end - piece.position for piece in self.pieces)

    def fits(self, offset: int, generation: int, log_start_offset: int) -> bool:
        """Whether the plan is for this truncation and the log was not truncated since."""
        return (self.offset, self.generation, self.log_start_offset) == (
            offset,
            generation,
            log_start_offset,
        )

    def run(self) -> None:
        """Reads the snapshot and the records after it.  Blocks; does not change the log.

        After a failure, ``prepared`` is None: the truncation then reads the records itself, and
        raises the error.
        """
        try:
            self.prepared = self._read()
        except Exception as failure:  # noqa: BLE001 - the truncation raises it
            _log.warning("Could not prepare a truncation to offset %d: %s", self.offset, failure)
        self.pieces.clear()  # they keep files open
        self.is_done = True

    def _read(self) -> Prepared:
        producers = ProducerStateManager(lambda: self.expiration_ms)
        producers.clear(self.snapshot_offset)
        if self.snapshot_path is not None:
            entries = decode_snapshot(read_file(self.snapshot_path))
            producers.load(entries, self.snapshot_offset, self.now_ms)
        snapshots: list[ProducerSnapshot] = []
        for piece in self.pieces:
            if piece.needs_snapshot:
                snapshots.append(
                    ProducerSnapshot(piece.start_offset, tuple(producers.entries.values()))
                )
            replay_batches(producers, piece.segment, piece.position, piece.end, self.offset)
        producers.end_offset = self.offset
        return Prepared(producers, tuple(snapshots))


def plan_truncation(
    snapshots: ProducerSnapshotFiles,
    segments: Segments,
    *,
    offset: int,
    generation: int,
    log_start_offset: int,
    expiration_ms: int,
    now_ms: int,
) -> TruncationPlan:
    """The reads for the producers' states at ``offset``, which must be in the log."""
    usable = [each for each in snapshots.offsets if log_start_offset < each <= offset]
    start = usable[-1] if usable else log_start_offset
    newest = [base for base in segments.base_offsets if base <= offset][-2:]
    pieces: list[SegmentPiece] = []
    for segment in segments.from_offset(start):
        if segment.base_offset >= offset:
            break
        piece_start = max(segment.base_offset, start)
        place, end = segment.find_batch(piece_start), segment.find_batch(offset)
        position = segment.size if place is None else place.position
        pieces.append(
            SegmentPiece(
                segment,
                piece_start,
                position,
                segment.size if end is None else max(position, end.position),
                segment.base_offset in newest,
            )
        )
    path = snapshots.path(start) if usable else None
    return TruncationPlan(
        offset, generation, log_start_offset, start, path, pieces, expiration_ms, now_ms
    )


def take_over(
    prepared: Prepared,
    producers: ProducerStateManager,
    snapshots: ProducerSnapshotFiles,
    log_start_offset: int,
    offset: int,
    *,
    prefix: str,
) -> None:
    """Sets ``producers`` to the states at ``offset`` that a plan has read; takes snapshots.

    The result is that of ``rebuild_producers``, and so are the lines, which have ``prefix``.
    """
    log_rebuild(prefix, offset)
    log_reload(prefix, offset)
    began_s = time.monotonic()
    snapshots.remove_outside(log_start_offset, offset)
    latest = snapshots.latest
    snapshots.last_taken = log_start_offset if latest is None else latest
    for snapshot in prepared.snapshots:
        snapshots.take(snapshot.entries, snapshot.offset)
    producers.take_over(prepared.producers)
    snapshots.take(producers.entries.values(), offset)
    log_rebuilt(prefix, offset, 0.0, time.monotonic() - began_s)
