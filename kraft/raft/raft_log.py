"""The interface of the replicated log; the file-based log is in ``kraft.node``.

No method waits for anything but the page cache.  What must be on disk before it is acknowledged
is flushed by the caller that performs :class:`~kraft.raft.outputs.FlushLog`.

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
    """The replica has records that this log has not: it must truncate first."""
    SNAPSHOT = auto()
    """The records there are gone: it must load a snapshot first."""


class ValidatedPosition(NamedTuple):
    """The outcome and the position to go on from: as asked, diverging, or a snapshot's id."""

    verdict: LogPosition
    offset_and_epoch: OffsetAndEpoch


class RaftLog(Protocol):
    """The metadata log of one node, with its snapshots."""

    @property
    def start_offset(self) -> int:
        """The first offset; above zero only behind a snapshot."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; without records, of the snapshot at the start, else 0."""

    @property
    def high_watermark(self) -> int:
        """As last set by :meth:`update_high_watermark`; at least the start offset."""

    def append_as_leader(self, batches: bytes, epoch: int) -> None:
        """Appends whole batches whose offsets begin at the end and whose epoch is ``epoch``."""

    def append_as_follower(self, batches: bytes, epoch: int) -> int:
        """Appends a leader's batches unchanged; returns how many bytes were appended.

        Those from the first batch of an epoch above ``epoch`` on are left out.  CorruptRecord or
        InvalidRecord for what is no batch: nothing of it is appended.  UnexpectedAppendOffset if
        the first one begins below the end.
        """

    def initialize_leader_epoch(self, epoch: int) -> None:
        """Records that ``epoch`` begins at the end of the log."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch in the log that is not above ``epoch``, and its end offset.

        Below the first one: where the first one starts, under the epoch of the snapshot there if
        the log begins with one, else under ``epoch``.  Of a log without records, or above all of
        them: its end and its last epoch.
        """

    def truncate_to(self, offset: int) -> None:
        """Deletes everything from ``offset`` on; never below the high watermark."""

    def update_high_watermark(self, offset: int) -> None:
        """Records below ``offset`` are committed; it never falls and is not above the end."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """The batches from the one with ``offset`` on, that one whole if there is one.

        The last of them may be cut short, as in Kafka: to look for its beginning would cost a
        leader 0.2 s for 8 MiB of small batches, while its voters wait.
        """

    # Snapshots.

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot, if any; that of a format, (0, 0), counts."""

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest snapshot that is kept."""

    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The size of that snapshot; None if it does not exist here."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A part of a snapshot; records may be cut anywhere."""

    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        """Starts the download of a leader's snapshot; drops an earlier download."""

    def append_download(self, data: bytes) -> int:
        """Appends to the download; returns its size."""

    def finish_download(self) -> None:
        """Stores the snapshot under its id and restarts the log behind it: :meth:`restart_at`."""

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Deletes all records and continues the log behind that local snapshot.

        The start, the end and the high watermark are the snapshot's end afterwards.  RaftFatal if
        what is known to be committed lies behind it.
        """

    def drop_download(self) -> None:
        """Drops the download, if there is one."""

    def clean(self, now_ms: int) -> bool:
        """Deletes records and snapshots that newer snapshots cover; True if any was deleted."""


def validate_position(log: RaftLog, offset: int, epoch: int) -> ValidatedPosition:
    """Whether a replica whose log ends at ``offset`` in ``epoch`` may fetch from there.

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
    """The offset to which a follower truncates; the logs diverge at ``diverging``.

    Source: Kafka ``ReplicatedLog.truncateToEndOffset``.
    """
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    local = log.end_offset_for_epoch(diverging.epoch)
    if local.epoch == diverging.epoch:
        return min(local.offset, diverging.offset)
    return local.offset
