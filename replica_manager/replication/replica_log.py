"""The interface of a replica's log, and the empty log of a replica without one.

Replication decides by offsets and epochs alone; what is in the records, and in which files they
lie, is the log's affair.

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
        """The bytes of the whole batches that were given."""

    @property
    def last_leader_epoch(self) -> int | None:
        """The epoch of the last appended record; None if there was none."""

    @property
    def is_flush_due(self) -> bool:
        """Whether ``flush.messages`` asks to bring the log to disk now."""


class PlannedTruncation(Protocol):
    """Reads the data that a log needs when it is truncated."""

    def run(self) -> None:
        """Reads, without changing the log.  Blocks; raises nothing."""


class ReplicaLog(Protocol):
    """A partition's log on this broker.  No method waits for anything but the disk."""

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record a client may read."""

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record gets."""

    @property
    def high_watermark(self) -> int:
        """Records below it are committed.  Between log start and log end offset."""

    @property
    def last_stable_offset(self) -> int:
        """Offset of the first record of an open transaction, else the high watermark."""

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch in the epoch cache; None if the cache is empty."""

    def end_offset_for_epoch(self, epoch: int, /) -> EpochEndOffset | None:
        """The largest known epoch that is not above ``epoch``, and its end offset.

        Of the newest epoch that is the log end offset.  An epoch below the first known one ends
        where the first one starts.  None if ``epoch`` is above all that is known.

        Source: Kafka ``LeaderEpochFileCache.endOffsetFor``.
        """

    def assign_epoch_start_offset(self, epoch: int, start_offset: int, /) -> None:
        """Adds the start of a leader epoch to the epoch cache before any record has it."""

    def maybe_increment_high_watermark(self, offset: int, /) -> bool:
        """Raises the high watermark to ``offset``, at most to the log end; True if it moved."""

    def update_high_watermark(self, offset: int, /) -> bool:
        """Takes over the leader's high watermark, within the log; True if it moved.

        It may fall: a new leader's lags behind until its followers have fetched.
        """

    def maybe_increment_log_start_offset(self, offset: int, reason: str, /) -> bool:
        """Raises the log start offset, True if it moved; OffsetOutOfRange above the HW."""

    def plan_truncation(self, offset: int, /) -> PlannedTruncation | None:
        """A read to run in a thread before ``truncate_to``; None if none is needed."""

    def truncate_to(self, offset: int, /) -> bool:
        """Deletes the records from ``offset`` on, and the epochs that start there.

        The high watermark falls to the new end if it was above.  At or above the log end no record
        goes, but the epochs from there on do: a leader without followers may have noted one.
        """

    def truncate_fully_and_start_at(self, offset: int, /) -> None:
        """Deletes every record; the next one gets ``offset``."""

    def append_as_follower(self, records: bytes | memoryview, /) -> FollowerAppend:
        """Appends batches with the offsets and epochs that the leader gave them.

        Raises CorruptRecord, UnexpectedAppendOffset, OffsetsOutOfOrder or KafkaStorage.
        """


class AbsentLog:
    """The log of a replica without one: always empty."""

    log_start_offset = log_end_offset = high_watermark = last_stable_offset = 0
    latest_epoch: int | None = None

    def end_offset_for_epoch(self, _: int) -> EpochEndOffset | None:
        """None: there are no epochs."""
        return None

    def assign_epoch_start_offset(self, _: int, __: int) -> None:
        """Does nothing: no record will have the epoch."""

    def maybe_increment_high_watermark(self, _: int) -> bool:
        """False: an empty log commits nothing."""
        return False

    def update_high_watermark(self, _: int) -> bool:
        """False: an empty log commits nothing."""
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
        """Never called: a replica without a log is not fetched."""
        raise AssertionError("records for a replica without a log")


ABSENT_LOG = AbsentLog()
