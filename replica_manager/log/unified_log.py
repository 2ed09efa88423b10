"""The log of one replica: appends, reads, truncation, retention and flushes.

All methods run on the event loop and do not wait for the disk: an append writes to the page cache,
and a read returns a :class:`~replica_manager.log.files.FileSlice` for the connection to send.  Only
opening, closing, flushing and :class:`~replica_manager.log.local_log.FlushPlan.run` block.  Other
blocking work is deferred (:mod:`replica_manager.log.environment`).

A disk failure is reported to the environment, then raised as KafkaStorage; after that the log must
not be used.

Source: Kafka ``UnifiedLog``.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, assert_never
from uuid import UUID

from typing_extensions import override

from kafka_common.errors import (
    IllegalState,
    KafkaStorage,
    OffsetOutOfRange,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from kafka_common.protocol.compression import Buffer
from kafka_common.protocol.record_batch import MAGIC_2, MemoryRecords
from kafka_common.protocol.record_walk import finish
from kafka_common.protocol.records import NO_TIMESTAMP
from kafka_common.protocol.uuid_text import uuid_text
from replica_manager.log import leader_epoch_file_cache
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.leader_epoch_checkpoint_file import (
    LeaderEpochCheckpointFile,
    read_epoch_file,
)
from replica_manager.log.leader_epoch_file_cache import (
    EpochEndOffset,
    EpochEntry,
    LeaderEpochFileCache,
)
from replica_manager.log.local_log import FlushPlan, LogOffsetMetadata, LogRead
from replica_manager.log.log_appends import ValidRecords, follower_records, producer_advances
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_directory import parse_folder, partition_name
from replica_manager.log.log_loading import LoadedLog, LogLoader, RecoveryProgress
from replica_manager.log.log_recovery import rebuild_producers
from replica_manager.log.log_validation import (
    Allowance,
    AppendSource,
    Examination,
    Examined,
    assign,
    examine,
)
from replica_manager.log.log_values import (
    NO_LOG_APPEND_TIME,
    FetchIsolation,
    LogAppendInfo,
    Replacement,
)
from replica_manager.log.offsets_by_time import (
    TimestampSearch,
    legacy_offsets_before,
    offset_by_timestamp,
)
from replica_manager.log.partition_metadata import PartitionMetadataFile
from replica_manager.log.producer_state_manager import (
    Advance,
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerStateManager,
    VerificationGuard,
)
from replica_manager.log.retention import DeletionRule, SegmentFacts, breaches, deletion_lines
from replica_manager.log.segment import LogSegment, TimestampedOffset
from replica_manager.log.transaction_index import AbortedTransaction
from replica_manager.log.truncation_plans import (
    READ_AT_ONCE_BYTES,
    Prepared,
    TruncationPlan,
    plan_truncation,
    take_over,
)
from replica_manager.regular_files import refuse_link

_log = logging.getLogger("kafka.log.UnifiedLog")


class _UnfinishedTruncation(NamedTuple):
    """The work that remains after records were truncated."""

    deleted: Sequence[LogSegment]
    is_below_recovery_point: bool
    """Whether the truncation lowered the recovery point."""
    prepared: Prepared | None = None
    is_full: bool = False


class UnifiedLog:
    """One replica's log.  For the event loop.

    The high watermark is kept here: a change of it depends on the log's start and end offsets, and
    changes the producers' first unstable offset.
    """

    def __init__(self, loaded: LoadedLog, environment: LogEnvironment) -> None:
        self._local = loaded.local
        self._epochs = loaded.epochs
        self._epoch_file = LeaderEpochCheckpointFile(loaded.local, loaded.epochs)
        self._partition_metadata = PartitionMetadataFile(loaded.local)
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._environment = environment
        self._log_start_offset = loaded.log_start_offset
        self._high_watermark = LogOffsetMetadata(loaded.log_start_offset)
        self._truncation_plan: TruncationPlan | None = None
        self._unfinished_truncation: _UnfinishedTruncation | None = None
        """A truncation that has removed its records but is not finished; None if there is none."""
        self._epoch_file.write_later()

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
        epochs = LeaderEpochFileCache(read_epoch_file(directory))
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

    @property
    def _prefix(self) -> str:
        name = partition_name(self.directory)
        return f"[UnifiedLog partition={name}, dir={self.log_dir}]"

    @property
    def directory(self) -> Path:
        """The log's folder; it changes when the log is renamed."""
        return self._local.directory

    @property
    def log_dir(self) -> Path:
        """The log directory that contains the log's folder."""
        return self._local.log_dir

    @property
    def name(self) -> str:
        """The folder's name, for example ``orders-3``."""
        return self._local.name

    @override
    def __str__(self) -> str:
        """As Kafka's log has it: ``Log(dir=…, topicId=…, topic=…, partition=…, …)``."""
        tp = parse_folder(self.directory).topic_partition
        topic_id = "" if self.topic_id is None else f", topicId={uuid_text(self.topic_id)}"
        return (
            f"Log(dir={self.directory}{topic_id}, topic={tp.topic}, partition={tp.partition}, "
            f"highWatermark={self.high_watermark}, lastStableOffset={self.last_stable_offset}, "
            f"logStartOffset={self.log_start_offset}, logEndOffset={self.log_end_offset})"
        )

    @property
    def config(self) -> LogConfig:
        return self._local.config

    def update_config(self, config: LogConfig) -> None:
        """Applies a changed topic configuration."""
        self._local.config = config

    @property
    def generation(self) -> int:
        """The number of truncations; data read before one may be removed."""
        return self._local.generation

    @property
    def topic_id(self) -> UUID | None:
        return self._partition_metadata.topic_id

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Stores the topic id; InconsistentTopicId if the log has another one.

        The file is written before the next append, or by a deferred task.
        """
        self._partition_metadata.record(topic_id)

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.end.message_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self._local.end

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""
        return self._local.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._local.segments.size_in_bytes

    @property
    def segments(self) -> Iterable[LogSegment]:
        """The segments in order, for retention and compaction."""
        return tuple(self._local.segments)

    @property
    def active_segment(self) -> LogSegment:
        return self._local.segments.active

    @property
    def unflushed_messages(self) -> int:
        return self._local.unflushed_messages

    @property
    def last_flushed_ms(self) -> int:
        return self._local.last_flushed_ms

    # The high watermark, and the last stable offset.

    @property
    def high_watermark(self) -> int:
        """The high watermark: consumers may read the records before it."""
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position."""
        if self._high_watermark.is_offset_only:
            self._high_watermark = self._with_place(self._high_watermark)
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: ``read_committed`` consumers may read the records before it."""
        if self._unfinished_truncation is not None:
            return self._log_start_offset  # the open transactions are not known yet
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark.message_offset
        return min(max(unstable, self._log_start_offset), self._high_watermark.message_offset)

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        offset = self.last_stable_offset
        if offset == self.high_watermark:
            return self.high_watermark_metadata
        return self._with_place(LogOffsetMetadata(offset))

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> bool:
        """Sets the high watermark, limited to log start and log end; returns whether it changed.

        For followers, and for new leaders; it may be lowered.
        """
        old = self._high_watermark.message_offset
        wanted = _metadata(high_watermark)
        if wanted.message_offset < self._log_start_offset:
            wanted = LogOffsetMetadata(self._log_start_offset)
        elif wanted.message_offset >= self._local.end.message_offset:
            wanted = self._local.end
        self._set_high_watermark(wanted)
        return wanted.message_offset != old

    def maybe_increment_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> bool:
        """Raises a leader's high watermark, at most to the log end; returns whether it changed.

        The same offset in a newer segment is a change, too.
        """
        wanted = _metadata(high_watermark)
        if wanted.message_offset >= self._local.end.message_offset:
            wanted = self._local.end
        old = self._high_watermark
        is_newer = old.message_offset < wanted.message_offset or (
            old.message_offset == wanted.message_offset
            and not wanted.is_offset_only
            and not old.is_offset_only
            and old.is_on_older_segment(wanted)
        )
        if is_newer:
            self._set_high_watermark(wanted)
        return is_newer

    def _set_high_watermark(self, high_watermark: LogOffsetMetadata) -> None:
        if high_watermark.message_offset < 0:
            raise IllegalState(f"The high watermark of {self.name} cannot be {high_watermark}")
        self._high_watermark = high_watermark
        self._producers.replicated_to(high_watermark.message_offset)

    def _with_place(self, at: LogOffsetMetadata) -> LogOffsetMetadata:
        try:
            return self._local.locate(at.message_offset)
        except OffsetOutOfRange:
            return at

    # Leader epochs.

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch in the cache, None if it is empty."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        return self._epochs.entries

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Records that ``leader_epoch`` begins at ``start_offset``; ignores a negative epoch."""
        if leader_epoch >= 0 and self._epochs.assign(leader_epoch, start_offset):
            self._epoch_file.write_later()

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """The largest epoch up to ``leader_epoch`` and its end offset; None if unknown."""
        found = self._epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found == leader_epoch_file_cache.UNDEFINED else found

    # Producers.

    @property
    def producers(self) -> ProducerStateManager:
        """The states of the log's idempotent and transactional producers."""
        return self._producers

    def remove_expired_producers(self) -> None:
        """Removes idle producers past ``producer.id.expiration.ms``."""
        self._producers.remove_expired(self._environment.now_ms())

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int
    ) -> VerificationGuard | None:
        """The guard for a transaction's first batch; None if the transaction is open already.

        Pass it to the append after the coordinator has confirmed the transaction (KIP-890).
        """
        return self._producers.start_verification(
            producer_id, sequence, producer_epoch, self._environment.now_ms()
        )

    # Appends as leader or as follower.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Appends batches of a client or a coordinator of this broker; assigns offsets.

        ``records`` may end with an incomplete batch, which is ignored; the buffer is not changed
        nor kept.  A duplicate batch of an idempotent producer is not appended: the result has
        ``is_duplicate``.

        Raises KafkaStorage, or a RecordsRefused (kafka_common.errors), which leaves the log
        unchanged.
        """
        examined = finish(self.examine(MemoryRecords(records), origin))
        return self.append_examined(
            examined, leader_epoch, origin=origin, verification_guard=verification_guard
        )

    def examine(
        self, records: MemoryRecords, origin: AppendOrigin, allowance: Allowance | None = None
    ) -> Examination:
        """Validates batches for an append as leader; pass its result to :meth:`append_examined`.

        Does not change the log, so that it may run in another thread.  Raises a RecordsRefused.
        """
        now_ms = self._environment.now_ms()
        source = AppendSource(origin, self.name, now_ms, allowance or Allowance())
        return examine(records, self.config, source)

    def append_examined(
        self,
        examined: Examined | None,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Appends the result of :meth:`examine`; returns and raises as :meth:`append_as_leader`."""
        if examined is None:
            return self._nothing_appended()
        base_offset = self._local.end.message_offset
        now_ms = self._environment.now_ms()
        valid_records = assign(
            examined, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms
        )
        source = memoryview(examined.data)[examined.position :]
        duplicate = self._append(valid_records, source, origin, verification_guard)
        if duplicate is not None:
            return LogAppendInfo(
                duplicate.first_offset,
                duplicate.last_offset,
                duplicate.timestamp,
                # Also if the topic's timestamps are the clients', as in Kafka.
                duplicate.timestamp,
                self._log_start_offset,
                valid_records.size,
                leader_epoch,
                is_duplicate=True,
                conversions=examined.conversions,
            )
        return LogAppendInfo(
            base_offset,
            valid_records.last_offset,
            valid_records.largest.timestamp,
            now_ms if examined.is_log_append_time else NO_LOG_APPEND_TIME,
            self._log_start_offset,
            valid_records.size,
            leader_epoch,
            is_flush_due=self._local.unflushed_messages >= self.config.flush_messages,
            conversions=examined.conversions,
        )

    def append_as_follower(
        self, records: Buffer, *, last_epoch: int | None = None
    ) -> LogAppendInfo:
        """Appends the leader's batches unchanged, with their offsets.

        Ignores an incomplete last batch, and everything from the first batch with a leader epoch
        above ``last_epoch`` on; ``valid_bytes`` is the size of the appended batches.  Raises
        KafkaStorage, or UnexpectedAppendOffset, OffsetsOutOfOrder or CorruptRecord, which leave
        the log unchanged.
        """
        valid_records = follower_records(records, self.name, last_epoch)
        if valid_records is None:
            return self._nothing_appended()
        end = self._local.end.message_offset
        first, last = valid_records.headers[0], valid_records.headers[-1]
        # For a compressed message of magic 0 or 1, the header's base offset is the last offset.
        if first.base_offset < end:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {self.name}. First offset {first.base_offset} is "
                f"less than the next offset {end}. Last offset in append: "
                f"{last.last_offset}. Log start offset = {self._log_start_offset}",
                first.base_offset,
                last.last_offset,
            )
        self._append(valid_records, records, AppendOrigin.REPLICATION, None)
        return LogAppendInfo(
            first.base_offset,
            last.last_offset,
            valid_records.largest.timestamp,
            NO_LOG_APPEND_TIME,
            self._log_start_offset,
            valid_records.size,
            last.partition_leader_epoch if last.partition_leader_epoch >= 0 else None,
            is_flush_due=self._local.unflushed_messages >= self.config.flush_messages,
        )

    def _nothing_appended(self) -> LogAppendInfo:
        return LogAppendInfo(-1, -1, NO_TIMESTAMP, NO_LOG_APPEND_TIME, self._log_start_offset, 0)

    def _append(
        self,
        valid_records: ValidRecords,
        source: Buffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> BatchMetadata | None:
        """Appends the batches; if they are duplicates, returns the earlier batch instead."""
        self._finish_truncation()
        config = self.config
        if valid_records.size > config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {valid_records.size} bytes in append to partition "
                f"{self.name}, which exceeds the maximum configured segment size of "
                f"{config.segment_bytes}."
            )
        advances, duplicate = producer_advances(
            self._producers,
            valid_records.headers,
            source,
            origin,
            guard,
            verifies_transactions=self._environment.verifies_transactions(),
            partition=self.name,
        )
        if duplicate is not None:
            return duplicate
        self._truncation_plan = None  # frees memory: a plan is useless once the log grows
        with self._local.guarded("Error while appending records to"):
            self._partition_metadata.maybe_flush()
            self._roll_if_needed(valid_records)
            aborts = sum(
                each.completed is not None and each.completed.is_aborted for each in advances
            )
            if aborts:
                self.active_segment.transaction_index.prepare(aborts)
            last = valid_records.last_offset
            self._local.append(
                valid_records.pieces, valid_records.size, last, valid_records.largest
            )
            # Store epochs only after the write: an epoch without records could mislead an election.
            for header in valid_records.headers:
                if header.magic == MAGIC_2:
                    self.assign_epoch_start_offset(
                        header.partition_leader_epoch, header.base_offset
                    )
                elif self._epochs.entries:
                    # Without epochs, later truncations use the high watermark, as before KIP-101.
                    self._epochs.clear()
                    self._epoch_file.write_later()
            if self._high_watermark.message_offset >= self._local.end.message_offset:
                self._set_high_watermark(self._local.end)
            for header in valid_records.headers:
                if header.has_producer_id and header.is_transactional:
                    # A transaction has begun or ended, perhaps without a record in this log: the
                    # next transaction needs a new verification.
                    self._producers.clear_verification(header.producer_id)
            self._take_over(advances, last)
        return None

    def _take_over(self, advances: Sequence[Advance], last_offset: int) -> None:
        for advanced in advances:
            self._producers.put(advanced)
            if advanced.completed is not None:
                self._complete(advanced.completed)
        self._producers.end_offset = last_offset + 1

    def _complete(self, completed: CompletedTransaction) -> None:
        if completed.is_aborted:
            aborted = AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                self._producers.last_stable_offset_after(completed),
            )
            try:
                self.active_segment.transaction_index.append(aborted)
            except OSError as error:
                # The marker is in the log already.  So even a lack of memory counts as a failed
                # disk here, and recovery at the next start adds the missing entry.
                raise OSError(errno.EIO, f"{aborted} cannot be noted: {error}") from error
        self._producers.complete(completed)

    def _roll_if_needed(self, valid_records: ValidRecords) -> None:
        first_offset = valid_records.headers[0].base_offset
        if first_offset < self.active_segment.base_offset or self.active_segment.should_roll(
            self._local.roll_limits,
            valid_records.size,
            valid_records.largest.timestamp,
            valid_records.last_offset,
            self._environment.now_ms(),
        ):
            self._roll(first_offset)

    def roll(self) -> LogSegment:
        """Starts a new segment at the log end offset, and returns it."""
        with self._local.guarded("Error while rolling log segment for"):
            return self._roll(self.log_end_offset)

    def _roll(self, expected_next_offset: int) -> LogSegment:
        self._finish_truncation()
        base_offset = max(expected_next_offset, self.log_end_offset)
        if base_offset < self.active_segment.base_offset:
            self._snapshots.forget_after(base_offset)
        # With a snapshot at each segment's start, recovery can begin there.
        taken = self._snapshots.take(self._producers.entries.values(), base_offset)
        try:
            segment = self._local.roll(base_offset)
        except OSError:
            if taken is not None:
                self._snapshots.forget_after(base_offset - 1)
            raise
        self._producers.end_offset = base_offset
        if self._high_watermark.message_offset >= self._local.end.message_offset:
            self._set_high_watermark(self._local.end)
        plan = self._local.plan_flush(segment.base_offset, self._write_small_files)
        if plan is not None:
            self._local.later("flush-log", plan.run, after=lambda: self._local.mark_flushed(plan))
        return segment

    # Reading.

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        *,
        min_one_message: bool,
    ) -> LogRead:
        """A slice of the batches from ``offset`` on, at most to the limit of ``isolation``.

        The first batch may begin before ``offset``, and the last one may be incomplete.  With
        ``min_one_message`` the first batch is complete, even above ``max_bytes``.  Raises
        OffsetOutOfRange for an offset outside of the log.
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
        """The offset for a special timestamp of ListOffsets; else a search to run in a thread.

        MAX_TIMESTAMP needs a search, too.  LATEST_TIMESTAMP gives the log end offset; the caller
        limits it to the offset that the client may see.
        """
        return offset_by_timestamp(self._local, self._epochs, self._log_start_offset, timestamp)

    def search_failed(self, error: OSError) -> KafkaStorage:
        """The error to raise after a failed search; takes the log directory offline."""
        return self._local.fail(
            f"Error while fetching offset by timestamp for {self.name} in dir {self.log_dir}", error
        )

    def legacy_offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Base offsets of segments from before ``timestamp``, newest first, for ListOffsets v0."""
        return legacy_offsets_before(
            self._local, self._log_start_offset, timestamp, max_count, self._environment.now_ms()
        )

    # Truncation, deletion and retention.

    def plan_truncation(self, offset: int) -> TruncationPlan | None:
        """Reads to run in a thread before :meth:`truncate_to`; None if there is little to read.

        The plan itself truncates nothing.
        """
        if not self._producers.entries or not (
            self._local.segments.first.base_offset <= offset < self.log_end_offset
        ):
            return None
        planned = self._truncation_plan
        start = min(offset, self._log_start_offset)
        if planned is not None and planned.is_done and planned.fits(offset, self.generation, start):
            return None
        with self._local.guarded("Error while planning a truncation of"):
            plan = plan_truncation(
                self._snapshots,
                self._local.segments,
                offset=offset,
                generation=self.generation,
                log_start_offset=start,
                expiration_ms=self._environment.producer_id_expiration_ms(),
                now_ms=self._environment.now_ms(),
            )
        self._truncation_plan = plan if plan.size > READ_AT_ONCE_BYTES else None
        return self._truncation_plan

    def truncate_to(self, offset: int) -> bool:
        """Removes all records from ``offset`` on; returns whether there were any.

        A batch that contains ``offset`` is removed as a whole.
        """
        if offset < 0:
            raise IllegalState(f"{self.name} cannot be truncated to offset {offset}")
        self._finish_truncation()
        if offset < self.log_end_offset:
            self._environment.before_truncation(self.directory)
        plan, self._truncation_plan = self._truncation_plan, None
        prepared = None
        start = min(offset, self._log_start_offset)
        if plan is not None and plan.fits(offset, self.generation, start):
            prepared = plan.prepared
        with self._local.guarded("Error while truncating log to an offset for"):
            if offset >= self.log_end_offset:
                _log.info(
                    "%s Truncating to %d has no effect as the largest offset in the log is %d",
                    self._prefix,
                    offset,
                    self.log_end_offset - 1,
                )
                # Removes epochs that this broker began as leader without an append.
                self._truncate_epochs(offset)
                return False
            _log.info("%s Truncating to offset %d", self._prefix, offset)
            if self._local.segments.first.base_offset > offset:
                self._truncate_fully(offset, offset)
            else:
                recovery_point = self._local.recovery_point
                deleted = self._local.truncate_to(offset)
                self._unfinished_truncation = _UnfinishedTruncation(
                    deleted, self._local.recovery_point < recovery_point, prepared
                )
                self._truncate_epochs(offset)
                self._log_start_offset = start
                if self._high_watermark.message_offset >= offset:
                    self._set_high_watermark(self._local.end)
        self._finish_truncation()
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Removes all records; the next one gets ``offset``.

        ``log_start_offset`` is ``offset`` if not given.
        """
        self._finish_truncation()
        self._environment.before_truncation(self.directory)
        with self._local.guarded("Error while truncating the entire log for"):
            self._truncate_fully(offset, offset if log_start_offset is None else log_start_offset)
        self._finish_truncation()

    def _truncate_fully(self, offset: int, log_start_offset: int) -> None:
        recovery_point = self._local.recovery_point
        deleted = self._local.truncate_fully_and_start_at(offset)
        self._unfinished_truncation = _UnfinishedTruncation(
            deleted, self._local.recovery_point < recovery_point, is_full=True
        )
        self._epochs.clear()
        self._epoch_file.write_later()
        self._producers.clear(offset)
        self._log_start_offset = log_start_offset
        self._set_high_watermark(self._local.end)

    def _finish_truncation(self) -> None:
        """Updates snapshots, producers and checkpoints after a truncation.

        If a limit (open files, memory) prevents that, it is tried again before the next change of
        the log: no append is checked against the states of removed records.
        """
        cut = self._unfinished_truncation
        if cut is None:
            return
        # A second attempt reads the log again.
        self._unfinished_truncation = cut._replace(prepared=None)
        with self._local.guarded("Error while truncating log to an offset for"):
            self._delete_snapshots(cut.deleted)
            if cut.is_full:
                self._snapshots.remove_all()
            if cut.prepared is None:
                self._rebuild_producers(self.log_end_offset)
            else:
                take_over(
                    cut.prepared,
                    self._producers,
                    self._snapshots,
                    self._log_start_offset,
                    self.log_end_offset,
                    prefix=self._prefix,
                )
            self._environment.after_truncation(
                self.directory,
                self.active_segment.base_offset,
                cut.is_below_recovery_point,
            )
        self._unfinished_truncation = None

    def _truncate_epochs(self, offset: int) -> None:
        self._epochs.truncate_from_end(offset)
        self._epoch_file.write_later()

    def _rebuild_producers(self, offset: int) -> None:
        rebuild_producers(
            self._producers,
            self._snapshots,
            self._local.segments,
            self._log_start_offset,
            offset,
            self._environment.now_ms(),
            prefix=self._prefix,
            skip_without_snapshot=False,
        )

    def _delete_snapshots(self, segments: Iterable[LogSegment]) -> None:
        deleted = [self._snapshots.mark_deleted(segment.base_offset) for segment in segments]
        paths = [path for path in deleted if path is not None]
        if paths:
            self._local.delete_later(paths)

    def delete_records(self, offset: int) -> int:
        """Raises the log start offset for DeleteRecords, and returns it.

        Retention deletes the segments later.  OffsetOutOfRange past the high watermark.
        """
        self.maybe_increment_log_start_offset(offset, "client delete records request")
        return self._log_start_offset

    def maybe_increment_log_start_offset(
        self, offset: int, reason: str = "leader offset incremented"
    ) -> bool:
        """Raises the log start offset to ``offset``; returns whether it was lower.

        OffsetOutOfRange past the high watermark.
        """
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
        self._epoch_file.write_later()
        self._producers.replicated_to(offset)
        self._producers.end_offset = max(self._producers.end_offset, offset)
        return True

    def delete_segments(self, segments: Sequence[LogSegment], rule: DeletionRule) -> None:
        """Deletes the given oldest segments and raises the log start offset.

        If all segments are given, a new empty one is rolled first.
        """
        to_delete = list(segments)
        with self._local.guarded("Error while deleting segments for"):
            if to_delete and len(to_delete) == len(self._local.segments):
                fresh = self._roll(self.log_end_offset)
                to_delete = [
                    segment for segment in to_delete if segment.base_offset != fresh.base_offset
                ]
            if to_delete:
                following = self._local.segments.higher(to_delete[-1].base_offset)
                assert following is not None, "one segment always remains"
                self.maybe_increment_log_start_offset(following.base_offset, "segment deletion")
                for line in deletion_lines(
                    rule, to_delete, self.config, self._log_start_offset, self.size
                ):
                    _log.info("%s %s", self._prefix, line)
                self._local.remove_segments(to_delete)
                self._delete_snapshots(to_delete)

    def delete_old_segments(self) -> int:
        """Deletes segments past retention or below the log start offset; returns how many."""
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
            self.delete_segments(segments[: breach.segments], breach.rule)
            deleted += breach.segments

    # Compaction.

    def aborted_transactions(self, offset: int, upper_bound: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that overlap with ``offset`` to ``upper_bound`` (exclusive)."""
        return self._local.collect_aborted(offset, upper_bound)

    def new_segment(self, base_offset: int, suffix: str) -> LogSegment:
        """A new empty segment for compaction; it is not part of the log yet."""
        return self._local.new_segment(base_offset, suffix)

    def replace_segments(self, replacements: Sequence[Replacement], generation: int) -> bool:
        """Replaces segments by compacted ones; False if the old segments have changed since.

        ``generation`` is the log's generation when the segments were read: after a truncation, a
        segment may have other records but the same size.
        After a kill in between, the next start loads either the old segments or the new ones.
        """
        if generation != self.generation:
            return False
        inactive = {id(s) for s in self._local.segments if s is not self.active_segment}
        for _, old, old_size in replacements:
            if not all(id(segment) in inactive for segment in old):
                return False
            if sum(segment.size for segment in old) != old_size:
                return False
        # Forget the high watermark's file position, which may change.
        self._high_watermark = LogOffsetMetadata(self._high_watermark.message_offset)
        with self._local.guarded("Error while replacing segments of"):
            for replacement in replacements:
                self._local.replace(replacement.new, replacement.old)
                merged = [
                    old for old in replacement.old if old.base_offset != replacement.new.base_offset
                ]
                self._delete_snapshots(merged)
        return True

    # Flushes and closing.

    def plan_flush(self, offset: int | None = None) -> FlushPlan | None:
        """The flush of all records before ``offset``; None if they are on disk already.

        ``offset`` is the log end offset if not given.  Call :meth:`finish_flush` when it has run.
        """
        with self._local.guarded("Error while flushing log for"):
            return self._local.plan_flush(
                self.log_end_offset if offset is None else offset, self._write_small_files
            )

    def _write_small_files(self) -> None:
        self._epoch_file.write()
        self._snapshots.sync()

    def finish_flush(self, plan: FlushPlan) -> None:
        """Moves the recovery point after a flush has run."""
        self._local.mark_flushed(plan)

    def flush(self) -> None:
        """Flushes all records to disk.  Blocks; KafkaStorage if the disk fails."""
        plan = self.plan_flush()
        if plan is None:
            return
        with self._local.guarded("Error while flushing log for"):
            plan.run()
        self.finish_flush(plan)

    def close(self) -> None:
        """Writes indexes, leader epochs, topic id and a producer snapshot to files.  Blocks."""
        self._finish_truncation()
        with self._local.guarded("Error while closing"):
            self._partition_metadata.maybe_flush()
            self._epoch_file.write()
            self._snapshots.take(self._producers.entries.values(), self._producers.end_offset)
            self._local.close()

    def rename(self, directory: Path) -> None:
        """Renames the log's directory: for deletion, as stray, or to replace the current log."""
        with self._local.guarded("Error while renaming dir for"):
            self._local.move_to(directory)
        self._snapshots.directory = directory


def _metadata(offset: int | LogOffsetMetadata) -> LogOffsetMetadata:
    return LogOffsetMetadata(offset) if isinstance(offset, int) else offset
