"""The log of one replica: reads, truncation, retention and flushes; appends are inherited.

Everything here is decided on the event loop and none of it waits for the disk: an append goes to
the page cache, a read gives a :class:`~replica_manager.log.files.FileSlice` for the connection to
send.  Only opening, closing and :class:`~replica_manager.log.local_log.FlushPlan.run` block; what
else must is deferred (:mod:`replica_manager.log.environment`).

A failing disk is reported to the environment, then raised as KafkaStorage; the log is unusable
then.

Source: Kafka ``UnifiedLog``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import assert_never

from replica_manager.log.appending_log import AppendingLog
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.leader_epochs import LeaderEpochs
from replica_manager.log.local_log import FlushPlan, LogOffsetMetadata, LogRead
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_loading import LogLoader, RecoveryProgress
from replica_manager.log.log_recovery import rebuild_producers
from replica_manager.log.log_state import read_epoch_file
from replica_manager.log.log_values import (
    FetchIsolation,
    Replacement,
)
from replica_manager.log.offsets_by_time import (
    TimestampSearch,
    legacy_offsets_before,
    offset_by_timestamp,
)
from replica_manager.log.retention import SegmentFacts, breaches
from replica_manager.log.segment import LogSegment, TimestampedOffset
from replica_manager.log.transaction_index import AbortedTransaction
from replica_manager.log.truncation_plans import (
    READ_AT_ONCE_BYTES,
    Prepared,
    TruncationPlan,
    plan_truncation,
)
from replica_manager.regular_files import refuse_link
from zkcontroller.errors import IllegalState, KafkaStorage, OffsetOutOfRange

_log = logging.getLogger("kafka.log.UnifiedLog")


class UnifiedLog(AppendingLog):
    """One replica's log.  For the event loop."""

    @staticmethod
    def open(
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        had_clean_shutdown: bool = True,
        on_progress: Callable[[RecoveryProgress], None] | None = None,
    ) -> UnifiedLog:
        """Opens the log in a directory, creating it if needed.  Blocks while it recovers.

        ``log_start_offset`` and ``recovery_point`` are from the directory's checkpoints.
        """
        refuse_link(directory)
        directory.mkdir(parents=True, exist_ok=True)
        epochs = LeaderEpochs(read_epoch_file(directory))
        loader = LogLoader(
            directory,
            config,
            environment,
            epochs,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            had_clean_shutdown=had_clean_shutdown,
            **({} if on_progress is None else {"on_progress": on_progress}),
        )
        return UnifiedLog(loader.load(), environment)

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        *,
        min_one_message: bool,
    ) -> LogRead:
        """The position of the batches from ``offset`` on, up to what the reader may see.

        The first batch may begin before ``offset`` and the last one may be cut off.  With
        ``min_one_message`` the first is whole, however large.  OffsetOutOfRange outside of the log.
        """
        if offset < self._log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.name}, but we only have "
                f"log segments starting from offset: {self._log_start_offset}."
            )
        match isolation:
            case FetchIsolation.LOG_END:
                limit = self._local.end
            case FetchIsolation.HIGH_WATERMARK:
                limit = self.high_watermark_metadata
            case FetchIsolation.TXN_COMMITTED:
                limit = self.last_stable_offset_metadata
            case _:
                assert_never(isolation)
        with self._local.guarded("Exception while reading from"):
            return self._local.read(
                offset,
                max_bytes,
                limit,
                min_one_message=min_one_message,
                with_aborted=isolation is FetchIsolation.TXN_COMMITTED,
            )

    def search_offset_by_timestamp(self, timestamp: int) -> TimestampedOffset | TimestampSearch:
        """What ListOffsets answers to its special values; else a search to be run in a thread.

        LATEST_TIMESTAMP gives the log's end; how far the client may see is the caller's business.
        """
        return offset_by_timestamp(self._local, self._epochs, self._log_start_offset, timestamp)

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The same, with the search.  Blocks; KafkaStorage if the disk fails."""
        found = self.search_offset_by_timestamp(timestamp)
        if isinstance(found, TimestampedOffset):
            return found
        with self._local.guarded("Error while fetching offset by timestamp for"):
            return found.run()

    def search_failed(self, error: OSError) -> KafkaStorage:
        """The error to raise after a failed search; reports the directory."""
        return self._local.fail(
            f"Error while fetching offset by timestamp for {self.name} in dir {self.log_dir}", error
        )

    def legacy_offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Segments' base offsets, newest first, as ListOffsets v0 wants them."""
        return legacy_offsets_before(
            self._local, self._log_start_offset, timestamp, max_count, self._environment.now_ms()
        )

    # Shortening.

    def plan_truncation(self, offset: int) -> TruncationPlan | None:
        """Reads to run in a thread before :meth:`truncate_to`; None if there is little to read.

        Nothing has changed after that: the truncation is still to be asked for.
        """
        if not self._producers.entries or not (
            self._local.segments.first.base_offset <= offset < self.log_end_offset
        ):
            return None
        planned = self._truncation_plan
        if planned is not None and planned.is_done and self._is_of_use(planned, offset):
            return None
        with self._local.guarded("Error while planning a truncation of"):
            plan = plan_truncation(
                self._snapshots,
                self._local.segments,
                offset=offset,
                generation=self.generation,
                log_start_offset=min(offset, self._log_start_offset),
                expiration_ms=self._environment.producer_id_expiration_ms(),
                now_ms=self._environment.now_ms(),
            )
        self._truncation_plan = plan if plan.size > READ_AT_ONCE_BYTES else None
        return self._truncation_plan

    def _is_of_use(self, plan: TruncationPlan, offset: int) -> bool:
        """Whether the plan's data still match the log before ``offset``."""
        return (plan.offset, plan.generation, plan.log_start_offset) == (
            offset,
            self.generation,
            min(offset, self._log_start_offset),
        )

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from ``offset`` on; returns whether there was anything.

        A batch that holds ``offset`` in its middle goes as a whole.
        """
        if offset < 0:
            raise IllegalState(f"{self.name} cannot be truncated to offset {offset}")
        if offset < self.log_end_offset:
            self._environment.before_truncation(self.directory)
        plan, self._truncation_plan = self._truncation_plan, None
        prepared = None
        if plan is not None and self._is_of_use(plan, offset):
            prepared = plan.prepared
        with self._local.guarded("Error while truncating log to an offset for"):
            if offset >= self.log_end_offset:
                _log.info(
                    "%s Truncating to %d has no effect as the largest offset in the log is %d",
                    self._prefix,
                    offset,
                    self.log_end_offset - 1,
                )
                # Epochs that this broker began as a leader without a record go all the same.
                self._truncate_epochs(offset)
                return False
            _log.info("%s Truncating to offset %d", self._prefix, offset)
            if self._local.segments.first.base_offset > offset:
                self._truncate_fully(offset, offset)
                return True
            recovery_point = self._local.recovery_point
            self._delete_snapshots(self._local.truncate_to(offset))
            self._truncate_epochs(offset)
            self._log_start_offset = min(offset, self._log_start_offset)
            if prepared is None:
                self._rebuild_producers(offset)
            else:
                self._take_producers(prepared, offset)
            if self._high_watermark.message_offset >= offset:
                self._set_high_watermark(self._local.end)
            self._environment.after_truncation(
                self.directory,
                self.active_segment.base_offset,
                self._local.recovery_point < recovery_point,
            )
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the next record gets ``offset``."""
        self._environment.before_truncation(self.directory)
        with self._local.guarded("Error while truncating the entire log for"):
            self._truncate_fully(offset, offset if log_start_offset is None else log_start_offset)

    def _truncate_fully(self, offset: int, log_start_offset: int) -> None:
        recovery_point = self._local.recovery_point
        self._delete_snapshots(self._local.truncate_fully_and_start_at(offset))
        if self._epochs.entries:
            self._epochs.clear()
            self._write_epochs_later()
        self._producers.clear(offset)
        self._snapshots.remove_all()
        self._log_start_offset = log_start_offset
        self._rebuild_producers(offset)
        self._set_high_watermark(self._local.end)
        self._environment.after_truncation(
            self.directory, offset, self._local.recovery_point < recovery_point
        )

    def _truncate_epochs(self, offset: int) -> None:
        self._epochs.truncate_from_end(offset)
        if self._epochs.is_dirty:
            self._write_epochs_later()

    def _rebuild_producers(self, offset: int) -> None:
        rebuild_producers(
            self._producers,
            self._snapshots,
            self._local.segments,
            self._log_start_offset,
            offset,
            self._environment.now_ms(),
            skip_without_snapshot=False,
        )

    def _take_producers(self, prepared: Prepared, offset: int) -> None:
        """As :meth:`_rebuild_producers`, with data read before."""
        self._snapshots.remove_outside(self._log_start_offset, offset)
        latest = self._snapshots.latest
        self._snapshots.last_taken = self._log_start_offset if latest is None else latest
        for snapshot in prepared.snapshots:
            self._snapshots.take(snapshot.entries, snapshot.offset)
        self._producers.take_over(prepared.producers)
        self._snapshots.take(self._producers.entries.values(), offset)

    def _delete_snapshots(self, segments: Iterable[LogSegment]) -> None:
        deleted = [self._snapshots.mark_deleted(segment.base_offset) for segment in segments]
        paths = [path for path in deleted if path is not None]
        if paths:
            self._local.delete_later(paths)

    def delete_records(self, offset: int) -> int:
        """Raises the log start for DeleteRecords and gives it; the segments go with retention.

        OffsetOutOfRange past the high watermark.
        """
        self.maybe_increment_log_start_offset(offset, "client delete records request")
        return self._log_start_offset

    def maybe_increment_log_start_offset(
        self, offset: int, reason: str = "leader offset incremented"
    ) -> bool:
        """Raises the log start; says whether it was lower.  OffsetOutOfRange past the watermark."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.name} since "
                f"it is larger than the high watermark {self.high_watermark}"
            )
        if offset <= self._log_start_offset:
            return False
        self._log_start_offset = offset
        self._local.recovery_point = max(self._local.recovery_point, offset)
        _log.info("%s Incremented log start offset to %d due to %s", self._prefix, offset, reason)
        self._epochs.truncate_from_start(offset)
        if self._epochs.is_dirty:
            self._write_epochs_later()
        self._producers.replicated_to(offset)
        self._producers.end_offset = max(self._producers.end_offset, offset)
        return True

    def delete_segments(self, segments: Sequence[LogSegment], reason: str) -> None:
        """Deletes the log's oldest segments, raising the log start; one segment always remains."""
        doomed = list(segments)
        for segment in doomed:
            _log.info("%s Deleting segment %s due to %s", self._prefix, segment, reason)
        with self._local.guarded("Error while deleting segments for"):
            if doomed and len(doomed) == len(self._local.segments):
                fresh = self._roll(self.log_end_offset)
                doomed = [segment for segment in doomed if segment.base_offset != fresh.base_offset]
            if doomed:
                following = self._local.segments.higher(doomed[-1].base_offset)
                assert following is not None, "one segment always remains"
                self.maybe_increment_log_start_offset(following.base_offset, reason)
                self._local.remove_segments(doomed)
                self._delete_snapshots(doomed)

    def delete_old_segments(self) -> int:
        """Deletes segments by retention and below the log start; returns how many."""
        deleted = 0
        while True:
            segments = list(self._local.segments)
            breach = breaches(
                [SegmentFacts(s.base_offset, s.size, s.largest_timestamp) for s in segments],
                self.config,
                log_start_offset=self._log_start_offset,
                log_end_offset=self.log_end_offset,
                high_watermark=self.high_watermark,
                now_ms=self._environment.now_ms(),
            )
            if breach is None:
                return deleted
            self.delete_segments(segments[: breach.segments], breach.reason)
            deleted += breach.segments

    # Compaction.

    def aborted_transactions(self, offset: int, upper_bound: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that overlap with the offsets."""
        return self._local.collect_aborted(offset, upper_bound)

    def new_segment(self, base_offset: int, suffix: str) -> LogSegment:
        """An empty segment beside those in service; it does not belong to the log yet."""
        return self._local.new_segment(base_offset, suffix)

    def replace_segments(self, replacements: Sequence[Replacement], generation: int) -> bool:
        """Puts compacted segments in the place of others; False if these are not what they were.

        ``generation`` is that of the log when the segments were read: after a truncation they may
        have been filled again to the same size.
        A broker that is killed in between finds either the old ones or the new when it loads them.
        """
        if generation != self.generation:
            return False
        inactive = {id(s) for s in self._local.segments if s is not self.active_segment}
        for _, old, old_size in replacements:
            if not all(id(segment) in inactive for segment in old):
                return False
            if sum(segment.size for segment in old) != old_size:
                return False
        with self._local.guarded("Error while replacing segments of"):
            for replacement in replacements:
                self._local.replace(replacement.new, replacement.old)
                merged = [
                    old for old in replacement.old if old.base_offset != replacement.new.base_offset
                ]
                self._delete_snapshots(merged)
        # Its place in the file may have moved.
        self._high_watermark = LogOffsetMetadata(self._high_watermark.message_offset)
        return True

    # To disk.

    def plan_flush(self, offset: int | None = None) -> FlushPlan | None:
        """The flush that makes everything before ``offset`` durable; None if it is.

        ``offset`` is the log's end if not given.  Call :meth:`finish_flush` when it has run.
        """
        with self._local.guarded("Error while flushing log for"):
            return self._local.plan_flush(
                self.log_end_offset if offset is None else offset, self._write_small_files
            )

    def finish_flush(self, plan: FlushPlan) -> None:
        """The flush has run: moves the recovery point."""
        self._local.mark_flushed(plan)

    def flush(self) -> None:
        """Plan, run and finish in one.  Blocks; KafkaStorage if the disk fails."""
        plan = self.plan_flush()
        if plan is None:
            return
        with self._local.guarded("Error while flushing log for"):
            plan.run()
        self.finish_flush(plan)

    def close(self) -> None:
        """Writes what is only in memory: indexes, epochs, topic id, a snapshot.  Blocks."""
        with self._local.guarded("Error while closing"):
            if self._unwritten_topic_id is not None:
                self._write_topic_id()
            self._write_epochs()
            self._snapshots.take(self._producers.entries.values(), self._producers.end_offset)
            self._local.close()

    def rename(self, directory: Path) -> None:
        """Renames the log's directory: for deletion, as stray, or to replace the current log."""
        with self._local.guarded("Error while renaming dir for"):
            self._local.move_to(directory)
        self._snapshots.directory = directory
