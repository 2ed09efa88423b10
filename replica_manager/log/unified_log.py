"""The log of one replica: appends, reads, truncation, retention and flushes.

Everything here is decided on the event loop and none of it waits for the disk: an append goes to
the page cache, a read gives a :class:`~replica_manager.log.files.FileSlice` for the connection to
send.  Only opening, closing and :class:`~replica_manager.log.local_log.FlushPlan.run` block; what
else must is deferred (:mod:`replica_manager.log.environment`).

A failing disk is reported to the environment, then raised as KafkaStorage; the log is unusable
then.

Source: Kafka ``UnifiedLog``.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, assert_never
from uuid import UUID

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
from replica_manager.log.retention import SegmentFacts, breaches
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


class _Cut(NamedTuple):
    """What is to be done after records were cut off."""

    deleted: Sequence[LogSegment]
    is_below_recovery_point: bool
    """Whether the recovery point has fallen."""
    prepared: Prepared | None = None
    is_full: bool = False


class UnifiedLog:
    """One replica's log.  For the event loop.

    The high watermark is no part of its own: each change of it looks at the log's start and end,
    and moves the producers' first unstable offset.
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
        self._cut: _Cut | None = None
        """A truncation whose records are gone, and whose rest is still to be done."""
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
        return f"[UnifiedLog partition={self.name}, dir={self.log_dir}]"

    @property
    def directory(self) -> Path:
        """The log's folder; it changes when the log is renamed."""
        return self._local.directory

    @property
    def log_dir(self) -> Path:
        """The log directory that the folder is in."""
        return self._local.log_dir

    @property
    def name(self) -> str:
        """The folder's name, ``orders-3``."""
        return self._local.name

    @property
    def config(self) -> LogConfig:
        return self._local.config

    def update_config(self, config: LogConfig) -> None:
        """The topic's configuration has changed."""
        self._local.config = config

    @property
    def generation(self) -> int:
        """The number of truncations; data read before one may be gone."""
        return self._local.generation

    @property
    def topic_id(self) -> UUID | None:
        return self._partition_metadata.topic_id

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Stores the topic id; InconsistentTopicId if the log has another one.

        Written before the first record is appended, or with the next deferred work.
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
        """The offset up to which consumers may read."""
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position."""
        if self._high_watermark.is_offset_only:
            self._high_watermark = self._with_place(self._high_watermark)
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which consumers of committed records may read."""
        if self._cut is not None:
            return self._log_start_offset  # which transactions are open is not known yet
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
        """Sets the high watermark, kept between log start and log end; says whether it moved.

        For followers, and for leaders when they begin; it may fall.
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
        """Raises the high watermark of a leader, at most to the log's end; says whether it moved.

        It has moved, too, if the same offset is now in a newer segment.
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
        """The newest epoch in the log."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        return self._epochs.entries

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """The leader of ``leader_epoch`` begins at ``start_offset``."""
        if leader_epoch >= 0 and self._epochs.assign(leader_epoch, start_offset):
            self._epoch_file.write_later()

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """The largest epoch up to ``leader_epoch`` and where it ended here; None if unknown."""
        found = self._epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found == leader_epoch_file_cache.UNDEFINED else found

    # Producers.

    @property
    def producers(self) -> ProducerStateManager:
        """The idempotent and transactional producers, for DescribeProducers."""
        return self._producers

    def remove_expired_producers(self) -> None:
        """Forgets producers that were silent for long."""
        self._producers.remove_expired(self._environment.now_ms())

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int
    ) -> VerificationGuard | None:
        """The guard for a transaction's first batch, to pass once the coordinator has confirmed it.

        None if the transaction is open already.
        """
        return self._producers.start_verification(
            producer_id, sequence, producer_epoch, self._environment.now_ms()
        )

    # Appending: as leader, for clients, or as follower.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Appends batches of a client or a coordinator of this broker; assigns offsets.

        ``records`` may end within a batch, which is left out.  It is not changed, and not needed
        after the call.  A repeated batch of an idempotent producer is not appended again: the
        answer has ``is_duplicate``.

        Raises a RecordsRefused (kafka_common.errors), after which nothing has changed, and
        KafkaStorage.
        """
        examined = finish(self.examine(MemoryRecords(records), origin))
        return self.append_examined(
            examined, leader_epoch, origin=origin, verification_guard=verification_guard
        )

    def examine(
        self, records: MemoryRecords, origin: AppendOrigin, allowance: Allowance | None = None
    ) -> Examination:
        """Validates batches for a leader; its result is for :meth:`append_examined`.

        Changes nothing, so that it may go on in another thread.  Raises a RecordsRefused.
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
        """Appends the result of :meth:`examine`; as :meth:`append_as_leader`."""
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
                duplicate.timestamp if examined.is_log_append_time else NO_LOG_APPEND_TIME,
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

        ``records`` may end within a batch, which is left out, as is all from the first batch of
        an epoch beyond ``last_epoch`` on; ``valid_bytes`` says how much was taken.  Raises
        UnexpectedAppendOffset, OffsetsOutOfOrder or CorruptRecord, after which nothing has
        changed, and KafkaStorage.
        """
        valid_records = follower_records(records, self.name, last_epoch)
        if valid_records is None:
            return self._nothing_appended()
        end = self._local.end.message_offset
        first, last = valid_records.headers[0], valid_records.headers[-1]
        # The base offset of an old compressed message is its last one.
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
        """Writes the batches; returns the earlier one if they repeat it."""
        self._finish_cut()
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
        self._truncation_plan = None  # it keeps memory, and a log that grows is not cut soon
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
            # Not before: the epoch of records that are not there could win an election.
            for header in valid_records.headers:
                if header.magic == MAGIC_2:
                    self.assign_epoch_start_offset(
                        header.partition_leader_epoch, header.base_offset
                    )
                elif self._epochs.entries:
                    # Truncation must go by the high watermark after this, as before KIP-101.
                    self._epochs.clear()
                    self._epoch_file.write_later()
            if self._high_watermark.message_offset >= self._local.end.message_offset:
                self._set_high_watermark(self._local.end)
            for header in valid_records.headers:
                if header.has_producer_id and header.is_transactional:
                    # A first batch or a marker, also of a transaction that has no record here: the
                    # next transaction must be confirmed anew.
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
                # The marker is in the log already.  So this is a failed disk, also where memory is
                # what was lacking: recovery finds the transaction in the log again.
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
        """Starts a segment at the log's end."""
        with self._local.guarded("Error while rolling log segment for"):
            return self._roll(self.log_end_offset)

    def _roll(self, expected_next_offset: int) -> LogSegment:
        self._finish_cut()
        base_offset = max(expected_next_offset, self.log_end_offset)
        if base_offset < self.active_segment.base_offset:
            self._snapshots.forget_after(base_offset)
        # A snapshot at each segment's start lets recovery begin there.
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
        """Drops everything from ``offset`` on; returns whether there was anything.

        A batch that holds ``offset`` in its middle goes as a whole.
        """
        if offset < 0:
            raise IllegalState(f"{self.name} cannot be truncated to offset {offset}")
        self._finish_cut()
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
                # Epochs that this broker began as a leader without a record go all the same.
                self._truncate_epochs(offset)
                return False
            _log.info("%s Truncating to offset %d", self._prefix, offset)
            if self._local.segments.first.base_offset > offset:
                self._truncate_fully(offset, offset)
            else:
                recovery_point = self._local.recovery_point
                deleted = self._local.truncate_to(offset)
                self._cut = _Cut(deleted, self._local.recovery_point < recovery_point, prepared)
                self._truncate_epochs(offset)
                self._log_start_offset = start
                if self._high_watermark.message_offset >= offset:
                    self._set_high_watermark(self._local.end)
        self._finish_cut()
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the next record gets ``offset``."""
        self._finish_cut()
        self._environment.before_truncation(self.directory)
        with self._local.guarded("Error while truncating the entire log for"):
            self._truncate_fully(offset, offset if log_start_offset is None else log_start_offset)
        self._finish_cut()

    def _truncate_fully(self, offset: int, log_start_offset: int) -> None:
        recovery_point = self._local.recovery_point
        deleted = self._local.truncate_fully_and_start_at(offset)
        self._cut = _Cut(deleted, self._local.recovery_point < recovery_point, is_full=True)
        self._epochs.clear()
        self._epoch_file.write_later()
        self._producers.clear(offset)
        self._log_start_offset = log_start_offset
        self._set_high_watermark(self._local.end)

    def _finish_cut(self) -> None:
        """Brings snapshots, producers and checkpoints after records that were cut off.

        Opens files.  What a limit refuses is done before the next change of the log: nothing is
        appended behind producers that had records which are gone.
        """
        cut = self._cut
        if cut is None:
            return
        self._cut = cut._replace(prepared=None)  # a second attempt goes by what is on disk
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
                )
            self._environment.after_truncation(
                self.directory,
                self.active_segment.base_offset,
                cut.is_below_recovery_point,
            )
        self._cut = None

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
            skip_without_snapshot=False,
        )

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
        self._epoch_file.write_later()
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
        # Its place in the file may move.
        self._high_watermark = LogOffsetMetadata(self._high_watermark.message_offset)
        with self._local.guarded("Error while replacing segments of"):
            for replacement in replacements:
                self._local.replace(replacement.new, replacement.old)
                merged = [
                    old for old in replacement.old if old.base_offset != replacement.new.base_offset
                ]
                self._delete_snapshots(merged)
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

    def _write_small_files(self) -> None:
        self._epoch_file.write()
        self._snapshots.sync()

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
        self._finish_cut()
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
