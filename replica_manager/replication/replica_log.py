"""The interface of a replica's log, and the empty log of a replica without one.

Replication uses only offsets and leader epochs; the log hides the content of records and their
files.

Source: Kafka ``UnifiedLog``, as ``Partition`` and ``ReplicaFetcherThread`` use it.
"""

from __future__ import annotations

from typing import Protocol

from replica_manager.log.leader_epoch_file_cache import EpochEndOffset


class FollowerAppend(Protocol):
    """The result of an append to a follower's log."""

    @property
    def last_offset(self) -> int:
        """The offset of the last appended record; undefined if ``valid_bytes`` is 0."""

    @property
    def valid_bytes(self) -> int:
        """The bytes of the complete batches in the records to append."""

    @property
    def last_leader_epoch(self) -> int | None:
        """The epoch of the last appended record; None if there was none."""

    @property
    def is_flush_due(self) -> bool:
        """Whether ``flush.messages`` requires to flush the log now."""


class PlannedTruncation(Protocol):
    """Reads the data that a log needs when it is truncated."""

    def run(self) -> None:
        """Reads, without changing the log.  Blocks; raises nothing."""


class ReplicaLog(Protocol):
    """A partition's log on this broker.  Methods may block on the disk, on nothing else."""

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record a client may read."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """Records below this offset are committed; between log start and log end offset."""

    @property
    def last_stable_offset(self) -> int:
        """Offset of the first record of an open transaction, else the high watermark."""

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch in the epoch cache; None if the cache is empty."""

    def end_offset_for_epoch(self, epoch: int, /) -> EpochEndOffset | None:
        """The largest known epoch that is not above ``epoch``, and its end offset.

        The newest epoch ends at the log end offset.  If ``epoch`` is below all known epochs, the
        result is ``epoch`` and the start of the first one.  None if ``epoch`` is above all of them.

        Source: Kafka ``LeaderEpochFileCache.endOffsetFor``.
        """

    def assign_epoch_start_offset(self, epoch: int, start_offset: int, /) -> None:
        """Adds the start offset of a leader epoch to the epoch cache, before the first record."""

    def maybe_increment_high_watermark(self, offset: int, /) -> bool:
        """Raises the high watermark to ``offset``, at most to the log end; True if it moved."""

    def update_high_watermark(self, offset: int, /) -> bool:
        """Sets the high watermark to the leader's, within the log's bounds; True if it moved.

        It may fall: a new leader's high watermark lags until its followers have fetched.
        """

    def maybe_increment_log_start_offset(self, offset: int, reason: str, /) -> bool:
        """Raises the log start offset, True if it moved; OffsetOutOfRange above the HW."""

    def plan_truncation(self, offset: int, /) -> PlannedTruncation | None:
        """A read to run in a thread before ``truncate_to``; None if none is needed."""

    def truncate_to(self, offset: int, /) -> bool:
        """Deletes the records from ``offset`` on, and the epochs that start there.

        A higher high watermark falls to the new end.  If ``offset`` is at or above the log end
        offset, no record is deleted and the result is False, but the epochs from ``offset`` on are
        deleted: the broker may have led in an epoch without records.
        """

    def truncate_fully_and_start_at(self, offset: int, /) -> None:
        """Deletes all records; ``offset`` is the offset of the next record."""

    def append_as_follower(self, records: bytes | memoryview, /) -> FollowerAppend:
        """Appends batches with the offsets and epochs that the leader gave them.

        Raises CorruptRecord, UnexpectedAppendOffset, OffsetsOutOfOrder or KafkaStorage.
        """


class AbsentLog:
    """The log of a replica that has no log: always empty."""

    log_start_offset = log_end_offset = high_watermark = last_stable_offset = 0
    latest_epoch: int | None = None

    def end_offset_for_epoch(self, _: int) -> EpochEndOffset | None:
        """Returns None: an empty log has no epochs."""
        return None

    def assign_epoch_start_offset(self, _: int, __: int) -> None:
        """Does nothing: no record of the epoch will be appended."""

    def maybe_increment_high_watermark(self, _: int) -> bool:
        """Returns False: the high watermark of an empty log stays 0."""
        return False

    def update_high_watermark(self, _: int) -> bool:
        """Returns False: the high watermark of an empty log stays 0."""
        return False

    def maybe_increment_log_start_offset(self, _: int, __: str) -> bool:
        """False: an empty log starts where it ends."""
        return False

    def plan_truncation(self, _: int) -> None:
        """None: nothing to read."""

    def truncate_to(self, _: int) -> bool:
        """False: there is nothing to delete."""
        return False

    def truncate_fully_and_start_at(self, _: int) -> None:
        """Does nothing: there is nothing to delete."""

    def append_as_follower(self, _: bytes | memoryview) -> FollowerAppend:
        """Never called: this broker fetches no records for a replica that has no log."""
        raise AssertionError("records for a replica without a log")


ABSENT_LOG = AbsentLog()
