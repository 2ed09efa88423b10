"""Reads the producers' state at a truncation offset, before the log is truncated.

After a truncation a log must know what its producers did up to its new end, for the next append is
held against that.  To learn it, records may have to be read again: up to a whole segment.  A plan
does so in a thread, while the log still is as it was; :meth:`UnifiedLog.truncate_to` then cuts
the log and takes the producers over in one step.  So at no moment a log has producers that do not
belong to its records.

Source: Kafka ``UnifiedLog.rebuildProducerState``, which runs in the fetcher's thread.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from replica_manager.log.log_recovery import replay_batches
from replica_manager.log.producer_snapshots import ProducerSnapshotFiles, decode_snapshot
from replica_manager.log.producer_state_manager import ProducerEntry, ProducerStateManager
from replica_manager.log.segment import LogSegment
from replica_manager.log.segments import Segments
from replica_manager.regular_files import read_file

READ_AT_ONCE_BYTES: Final = 256 * 1024
"""A truncation that reads no more needs no plan: some 5 ms of small batches."""

_log = logging.getLogger("kafka.log.UnifiedLog")


class SegmentPiece(NamedTuple):
    """Batches of one segment to read."""

    segment: LogSegment
    start_offset: int
    position: int
    end: int
    """The position after the last batch."""
    needs_snapshot: bool
    """Whether recovery wants to know the producers at ``start_offset``."""


class ProducerSnapshot(NamedTuple):
    """The producers at an offset, for a snapshot file."""

    offset: int
    entries: tuple[ProducerEntry, ...]


class Prepared(NamedTuple):
    """The result of a plan."""

    producers: ProducerStateManager
    """At the offset to which the log will be cut."""
    snapshots: tuple[ProducerSnapshot, ...]
    """To be written on the way there."""


@dataclass(slots=True)
class TruncationPlan:
    """What to run in a thread before a log is cut; ``UnifiedLog.plan_truncation`` makes it."""

    offset: int
    """The log's end once it is cut."""
    generation: int
    """The log's when the plan was made: after another truncation the plan is of no use."""
    log_start_offset: int
    snapshot_offset: int
    """Where the reading begins."""
    snapshot_path: Path | None
    """The producers at that offset; None if there is no snapshot."""
    pieces: list[SegmentPiece]
    expiration_ms: int
    now_ms: int
    is_done: bool = False
    prepared: Prepared | None = None
    """None before the plan has run, and if it could not find the producers out."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(piece.end - piece.position for piece in self.pieces)

    def fits(self, offset: int, generation: int, log_start_offset: int) -> bool:
        """Whether what the plan reads still matches the log before ``offset``."""
        return (self.offset, self.generation, self.log_start_offset) == (
            offset,
            generation,
            log_start_offset,
        )

    def run(self) -> None:
        """Reads the snapshot and the records after it.  Blocks; changes nothing of the log.

        After a failure nothing is prepared: the truncation itself reads then, and raises what it
        finds.
        """
        try:
            self.prepared = self._read()
        except Exception as failure:  # noqa: BLE001 - the truncation meets it again
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
    """The reads for the producers' state at ``offset``, which is in the log."""
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
) -> None:
    """Brings ``producers`` to ``offset``: as ``rebuild_producers``, with what a plan has read."""
    snapshots.remove_outside(log_start_offset, offset)
    latest = snapshots.latest
    snapshots.last_taken = log_start_offset if latest is None else latest
    for snapshot in prepared.snapshots:
        snapshots.take(snapshot.entries, snapshot.offset)
    producers.take_over(prepared.producers)
    snapshots.take(producers.entries.values(), offset)
