"""The interface of the replicated log; the file-based log is in ``kraft.node``.

No method waits for a disk.  Records that must be on disk before they are acknowledged are flushed
by the caller, when it performs :class:`~kraft.raft.outputs.FlushLog`.

Source: Kafka ``ReplicatedLog``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from kafka_common.errors import RaftFatal
from kraft.raft.values import OffsetAndEpoch


class LogPosition(Enum):
    """The outcome when a replica's fetch position is checked against the log."""

    VALID = auto()
    DIVERGING = auto()
    """The replica has records that this log does not have: it must truncate first."""
    SNAPSHOT = auto()
    """This log has deleted the records at that offset: the replica must load a snapshot first."""


class ValidatedPosition(NamedTuple):
    """The result of :func:`validate_position`, with an offset and its epoch.

    VALID has the checked ones, DIVERGING the point where logs diverge, SNAPSHOT a snapshot's id.
    """

    verdict: LogPosition
    offset_and_epoch: OffsetAndEpoch


class RaftLog(Protocol):
    """The metadata log of one node, with its snapshots."""

    @property
    def start_offset(self) -> int:
        """The first offset in the log; above 0 only if a snapshot covers the records below it."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record.

        Without records: the epoch of the snapshot at the log's start, or 0 if there is none.
        """

    @property
    def high_watermark(self) -> int:
        """The offset last set by :meth:`update_high_watermark`; at least the start offset."""

    def append_as_leader(self, batches: bytes, epoch: int) -> None:
        """Appends whole batches of ``epoch`` whose offsets begin at the log's end."""

    def append_as_follower(self, batches: bytes, epoch: int) -> int:
        """Appends a leader's batches unchanged; returns how many bytes were appended.

        The first batch with an epoch above ``epoch``, and all after it, are left out.
        CorruptRecord or InvalidRecord if the bytes are no valid batches, UnexpectedAppendOffset if
        the first batch begins below the log's end: then nothing is appended.
        """

    def initialize_leader_epoch(self, epoch: int) -> None:
        """Records that ``epoch`` begins at the end of the log."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch in the log that is not above ``epoch``, and its end offset.

        If all epochs in the log are higher: the offset where the first one starts, with the epoch
        of the snapshot that ends there, or with ``epoch`` if there is none.  If all are lower, or
        the log has no records: the log's end and its last epoch.
        """

    def truncate_to(self, offset: int) -> None:
        """Deletes everything from ``offset`` on; never below the high watermark."""

    def update_high_watermark(self, offset: int) -> None:
        """Sets the high watermark, which must not fall and not be above the log's end."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """The batches from the one that contains ``offset`` on; empty at the log's end.

        The first one is whole, however large.  The last one may be cut short, as in Kafka: to find
        its beginning would cost a leader 0.2 s for 8 MiB of small batches, while its voters wait.
        """

    # Snapshots.

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot, None if there is none; also (0, 0), which formatting writes."""

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest snapshot that is kept, None if there is none."""

    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The size of that snapshot in bytes; None if this node does not have it."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """At most ``max_bytes`` of a snapshot; the part may begin and end within a record."""

    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        """Starts the download of a leader's snapshot; drops an earlier download."""

    def append_download(self, data: bytes) -> int:
        """Appends to the download; returns its size in bytes."""

    def finish_download(self) -> None:
        """Stores the downloaded snapshot, then continues the log behind it (:meth:`restart_at`)."""

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Deletes all records and continues the log behind that local snapshot.

        Afterwards the log's start and end and the high watermark are the snapshot's end offset.
        RaftFatal if the high watermark is above that offset, or a newer snapshot exists.
        """

    def drop_download(self) -> None:
        """Drops the download, if there is one."""

    def clean(self, now_ms: int) -> bool:
        """Deletes records and snapshots that newer snapshots cover; True if any was deleted."""


def validate_position(log: RaftLog, offset: int, epoch: int) -> ValidatedPosition:
    """Checks whether a replica whose log ends at ``offset`` in ``epoch`` may fetch from there.

    Source: Kafka ``ReplicatedLog.validateOffsetAndEpoch``.
    """
    if log.start_offset == 0 and offset == 0:
        return ValidatedPosition(LogPosition.VALID, OffsetAndEpoch(0, 0))
    earliest = log.earliest_snapshot_id
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        latest = log.latest_snapshot_id
        if latest is None:
            raise RaftFatal("a log with an earliest snapshot and no latest")
        return ValidatedPosition(LogPosition.SNAPSHOT, latest)
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return ValidatedPosition(LogPosition.DIVERGING, end)
    return ValidatedPosition(LogPosition.VALID, OffsetAndEpoch(offset, epoch))


def truncation_offset(log: RaftLog, diverging: OffsetAndEpoch) -> int:
    """The offset to which a follower truncates its log, which diverges at ``diverging``.

    Source: Kafka ``ReplicatedLog.truncateToEndOffset``.
    """
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    local = log.end_offset_for_epoch(diverging.epoch)
    if local.epoch == diverging.epoch:
        return min(local.offset, diverging.offset)
    return local.offset
