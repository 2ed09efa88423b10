"""The log of one replica: what a leader or follower appends, what is read, and how far it counts.

Everything here is decided on the event loop and none of it waits for the disk: an append goes to
the page cache, a read gives a :class:`~replica_manager.log.files.FileSlice` for somebody else to
send.  Only opening, closing and :class:`~replica_manager.log.local_log.FlushPlan.run` block; what
else must is left as a duty (:mod:`replica_manager.log.environment`).

A failing disk is told to the environment, then raised as KafkaStorage; the log is of no use then.

Source: Kafka ``UnifiedLog``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple, assert_never
from uuid import UUID

from replica_manager.log import leader_epochs, partition_metadata
from replica_manager.log.checkpoints import CheckpointMalformed, read_epochs, write_epochs
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.index import TimestampOffset
from replica_manager.log.leader_epochs import EpochEndOffset, EpochEntry, LeaderEpochs
from replica_manager.log.local_log import FlushPlan, LogOffsetMetadata, LogRead
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_loading import (
    LoadedLog,
    LogLoader,
    RecoveryProgress,
    read_marker,
    rebuild_producers,
)
from replica_manager.log.log_validation import Assignment, validate
from replica_manager.log.producer_state import (
    Advance,
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerEntry,
    ProducerStates,
    VerificationGuard,
    advance,
)
from replica_manager.log.segment import LogSegment, TimestampedOffset
from replica_manager.log.transaction_index import AbortedTransaction
from zkcontroller.errors import (
    CorruptRecord,
    InconsistentTopicId,
    InvalidRecord,
    InvalidTxnState,
    MessageTooLarge,
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordListTooLarge,
    UnexpectedAppendOffset,
)
from zkcontroller.protocol.compression import Buffer
from zkcontroller.protocol.record_batch import (
    MAGIC_2,
    BatchHeader,
    is_intact,
    iterate_batches,
)
from zkcontroller.protocol.records import NO_TIMESTAMP

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
"""Special timestamps of ListOffsets."""

NO_LOG_APPEND_TIME: Final = -1

_log = logging.getLogger("kafka.log.UnifiedLog")


class FetchIsolation(Enum):
    """Up to where a reader may see.  Source: Kafka ``FetchIsolation``."""

    LOG_END = auto()
    """Followers."""
    HIGH_WATERMARK = auto()
    """Consumers that read uncommitted records."""
    TXN_COMMITTED = auto()
    """Consumers that read committed records: up to the last stable offset."""


class LogAppendInfo(NamedTuple):
    """What became of an append."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    """When the broker stamped the records, -1 if it did not: Produce answers it."""
    log_start_offset: int
    valid_bytes: int
    """How much of what was given was whole batches."""
    last_leader_epoch: int | None = None
    is_duplicate: bool = False
    """The batch was appended before; the offsets are those that it got then."""


class OffsetSnapshot(NamedTuple):
    """The offsets of a log at one moment.  Source: Kafka ``LogOffsetSnapshot``."""

    log_start_offset: int
    log_end_offset: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    last_stable_offset: LogOffsetMetadata


class _Written(NamedTuple):
    """Batches ready to be written."""

    headers: Sequence[BatchHeader]
    pieces: Sequence[bytes | memoryview]
    size: int
    largest: TimestampOffset


class PartitionLog:
    """One replica's log.  For the event loop."""

    def __init__(self, loaded: LoadedLog, environment: LogEnvironment) -> None:
        self._local = loaded.local
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._environment = environment
        self._log_start_offset = loaded.log_start_offset
        self._high_watermark = LogOffsetMetadata(loaded.log_start_offset)
        self._topic_id = partition_metadata.read_topic_id(self.directory)
        self._unwritten_topic_id: UUID | None = None
        if self._epochs.is_dirty:
            self._write_epochs_later()

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
    ) -> PartitionLog:
        """The log in a folder, which is made if it is not there.  Blocks while it recovers.

        ``log_start_offset`` and ``recovery_point`` are from the directory's checkpoints.
        """
        directory.mkdir(parents=True, exist_ok=True)
        epochs = LeaderEpochs(_read_epochs(directory))
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
        return PartitionLog(loader.load(), environment)

    # What there is.

    @property
    def directory(self) -> Path:
        """The log's folder; it changes when the log is renamed."""
        return self._local.directory

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
    def topic_id(self) -> UUID | None:
        return self._topic_id

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
        """Everything before it is on disk."""
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

    # How far it counts.

    @property
    def high_watermark(self) -> int:
        """Consumers see what is before it."""
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place, looked up if it was not known."""
        if self._high_watermark.is_offset_only:
            self._high_watermark = self._with_place(self._high_watermark)
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Consumers of committed records see what is before it."""
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

    def offset_snapshot(self) -> OffsetSnapshot:
        """All offsets of this moment."""
        return OffsetSnapshot(
            self._log_start_offset,
            self._local.end,
            self.high_watermark_metadata,
            self.last_stable_offset_metadata,
        )

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

        An equal offset on a newer segment counts, for the place has changed.
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
        assert high_watermark.message_offset >= 0, high_watermark
        self._high_watermark = high_watermark
        self._producers.replicated_to(high_watermark.message_offset)

    def _with_place(self, at: LogOffsetMetadata) -> LogOffsetMetadata:
        try:
            return self._local.locate(at.message_offset)
        except OffsetOutOfRange:
            return at

    # Appending.

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Appends what a client, or this broker's coordinator, has sent; offsets are assigned.

        ``records`` may end within a batch, which is left out.  It is not changed, and not needed
        after the call.  A repeated batch of an idempotent producer is not appended again: the
        answer has ``is_duplicate``.

        Raises a RecordsRefused (zkcontroller.errors), after which nothing has changed, and
        KafkaStorage.
        """
        batches = self._intact_batches(records, is_leader=True, origin=origin)
        if not batches:
            return self._nothing_appended()
        base_offset = self._local.end.message_offset
        now_ms = self._environment.now_ms()
        config = self.config
        batch = validate(
            records,
            batches,
            config,
            Assignment(base_offset, leader_epoch, now_ms, origin, self.name),
        )
        header = batch.header
        if batch.is_rewritten and header.size > config.max_message_bytes:
            raise self._too_large(header)
        written = _Written(
            (header,),
            batch.pieces,
            header.size,
            TimestampOffset(header.max_timestamp, header.last_offset),
        )
        log_append_time = now_ms if config.is_log_append_time else NO_LOG_APPEND_TIME
        duplicate = self._append(written, records, origin, verification_guard)
        if duplicate is not None:
            return LogAppendInfo(
                duplicate.first_offset,
                duplicate.last_offset,
                duplicate.timestamp,
                duplicate.timestamp if config.is_log_append_time else NO_LOG_APPEND_TIME,
                self._log_start_offset,
                header.size,
                leader_epoch,
                is_duplicate=True,
            )
        return LogAppendInfo(
            base_offset,
            header.last_offset,
            header.max_timestamp,
            log_append_time,
            self._log_start_offset,
            header.size,
            leader_epoch,
        )

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Appends what the leader has sent, byte for byte, with the offsets that it has.

        ``records`` may end within a batch, which is left out; ``valid_bytes`` says how much was
        taken.  Raises UnexpectedAppendOffset, OffsetsOutOfOrder or CorruptRecord, after which
        nothing has changed, and KafkaStorage.
        """
        batches = self._intact_batches(records, is_leader=False, origin=AppendOrigin.REPLICATION)
        if not batches:
            return self._nothing_appended()
        headers = [header for _, header in batches]
        end = self._local.end.message_offset
        first = headers[0]
        # The base offset of an old compressed message is its last one.
        if first.base_offset < end:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {self.name}. First offset {first.base_offset} is "
                f"less than the next offset {end}. Last offset in append: "
                f"{headers[-1].last_offset}. Log start offset = {self._log_start_offset}",
                first.base_offset,
                headers[-1].last_offset,
            )
        largest = TimestampOffset(NO_TIMESTAMP, -1)
        size = 0
        for header in headers:
            size += header.size
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        whole: bytes | memoryview = memoryview(records)[:size]
        self._append(
            _Written(headers, (whole,), size, largest), records, AppendOrigin.REPLICATION, None
        )
        last = headers[-1]
        return LogAppendInfo(
            first.base_offset,
            last.last_offset,
            largest.timestamp,
            NO_LOG_APPEND_TIME,
            self._log_start_offset,
            size,
            last.partition_leader_epoch if last.partition_leader_epoch >= 0 else None,
        )

    def _nothing_appended(self) -> LogAppendInfo:
        return LogAppendInfo(-1, -1, NO_TIMESTAMP, NO_LOG_APPEND_TIME, self._log_start_offset, 0)

    def _too_large(self, header: BatchHeader) -> MessageTooLarge:
        return MessageTooLarge(
            f"The record batch size in the append to {self.name} is {header.size} bytes which "
            f"exceeds the maximum configured value of {self.config.max_message_bytes}."
        )

    def _intact_batches(
        self, records: Buffer, *, is_leader: bool, origin: AppendOrigin
    ) -> list[tuple[int, BatchHeader]]:
        """The whole batches; the first that may not be appended raises what is wrong with it."""
        batches: list[tuple[int, BatchHeader]] = []
        last_offset = -1
        for position, header in iterate_batches(records):
            if is_leader:
                if (
                    header.magic == MAGIC_2
                    and origin is AppendOrigin.CLIENT
                    and header.base_offset != 0
                ):
                    raise InvalidRecord(
                        f"The baseOffset of the record batch in the append to {self.name} should "
                        f"be 0, but it is {header.base_offset}"
                    )
                if header.size > self.config.max_message_bytes:
                    raise self._too_large(header)
            elif header.last_offset <= last_offset:
                raise OffsetsOutOfOrder(
                    f"Out of order offsets found in append to {self.name}: {header.last_offset} "
                    f"after {last_offset}"
                )
            if not is_intact(records, position, header):
                raise CorruptRecord(
                    f"Record is corrupt (stored crc = {header.crc}) in topic partition {self.name}."
                )
            last_offset = header.last_offset
            batches.append((position, header))
        return batches

    def _append(
        self,
        written: _Written,
        source: Buffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> BatchMetadata | None:
        """Writes the batches; gives the earlier one if they repeat it."""
        config = self.config
        if written.size > config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {written.size} bytes in append to partition {self.name}, "
                f"which exceeds the maximum configured segment size of {config.segment_bytes}."
            )
        advances, duplicate = self._advances(written, source, origin, guard)
        if duplicate is not None:
            return duplicate
        if self._unwritten_topic_id is not None:
            self._write_topic_id()
        try:
            self._roll_if_needed(written)
            for header in written.headers:
                if header.magic == MAGIC_2:
                    self.assign_epoch_start_offset(
                        header.partition_leader_epoch, header.base_offset
                    )
                elif self._epochs.entries:
                    # Truncation must go by the high watermark after this, as before KIP-101.
                    self._epochs.clear()
                    self._write_epochs_later()
            last = written.headers[-1].last_offset
            self._local.append(written.pieces, written.size, last, written.largest)
            if self._high_watermark.message_offset >= self._local.end.message_offset:
                self._set_high_watermark(self._local.end)
            self._take_over(advances, last)
        except OSError as error:
            raise self._local.fail(
                f"Error while appending records to {self.name} in dir {self.directory.parent}",
                error,
            ) from error
        return None

    def _advances(
        self,
        written: _Written,
        source: Buffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> tuple[list[Advance], BatchMetadata | None]:
        """What the batches make of their producers, or the batch that they repeat."""
        advances: list[Advance] = []
        pending: dict[int, ProducerEntry] = {}
        position = 0
        for header in written.headers:
            producer_id = header.producer_id
            if header.has_producer_id:
                entry = pending.get(producer_id) or self._producers.entry(producer_id)
                if origin is AppendOrigin.CLIENT:
                    duplicate = entry.duplicate_of(header)
                    if duplicate is not None:
                        return [], duplicate
                if origin is not AppendOrigin.REPLICATION:
                    self._check_transaction(header, entry, guard)
                marker = read_marker(bytes(source), position, header) if header.is_control else None
                advanced = advance(
                    entry,
                    header,
                    header.base_offset,
                    origin,
                    partition=self.name,
                    marker=marker,
                    lowest_verified_sequence=self._producers.lowest_verified_sequence(producer_id),
                )
                pending[producer_id] = advanced.entry
                advances.append(advanced)
            position += header.size
        return advances, None

    def _check_transaction(
        self, header: BatchHeader, entry: ProducerEntry, guard: VerificationGuard | None
    ) -> None:
        if (
            header.is_transactional
            and not header.is_control
            and entry.transaction_first_offset is None
            and self._environment.verifies_transactions
            and not self._producers.is_verified(header.producer_id, guard)
        ):
            raise InvalidTxnState("Record was not part of an ongoing transaction")

    def _take_over(self, advances: Sequence[Advance], last_offset: int) -> None:
        for advanced in advances:
            self._producers.put(advanced)
            if advanced.entry.transaction_first_offset is not None or advanced.completed:
                self._producers.clear_verification(advanced.entry.producer_id)
            if advanced.completed is not None:
                self._complete(advanced.completed)
        self._producers.end_offset = last_offset + 1

    def _complete(self, completed: CompletedTransaction) -> None:
        if completed.is_aborted:
            self.active_segment.transaction_index.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    self._producers.last_stable_offset_after(completed),
                )
            )
        self._producers.complete(completed)

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int
    ) -> VerificationGuard | None:
        """The guard to pass with a transaction's first batch once the coordinator has confirmed it.

        None if the transaction is open already.
        """
        return self._producers.start_verification(
            producer_id, sequence, producer_epoch, self._environment.now_ms()
        )

    def _roll_if_needed(self, written: _Written) -> None:
        if self.active_segment.should_roll(
            self._local.roll_limits,
            written.size,
            written.largest.timestamp,
            written.headers[-1].last_offset,
            self._environment.now_ms(),
        ):
            self._roll(written.headers[0].base_offset)

    def roll(self) -> LogSegment:
        """Begins a segment at the log's end."""
        try:
            return self._roll(self.log_end_offset)
        except OSError as error:
            raise self._local.fail(f"Error while rolling log segment for {self.name}", error) from (
                error
            )

    def _roll(self, expected_next_offset: int) -> LogSegment:
        segment = self._local.roll(expected_next_offset)
        # A snapshot at each segment's start lets recovery begin there.
        self._producers.end_offset = segment.base_offset
        self._snapshots.take(self._producers.entries.values(), segment.base_offset)
        if self._high_watermark.message_offset >= self._local.end.message_offset:
            self._set_high_watermark(self._local.end)
        plan = self._local.plan_flush(segment.base_offset, self._write_small_files)
        if plan is not None:
            self._local.later("flush-log", plan.run)
        _log.info("[UnifiedLog partition=%s] Rolled new log segment at offset %d", self.name,
                  segment.base_offset)  # fmt: skip
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
        """Where the batches from the one with ``offset`` on are, up to what the reader may see.

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
        try:
            return self._local.read(
                offset,
                max_bytes,
                limit,
                min_one_message=min_one_message,
                with_aborted=isolation is FetchIsolation.TXN_COMMITTED,
            )
        except OSError as error:
            raise self._local.fail(
                f"Exception while reading from {self.name} in dir {self.directory.parent}", error
            ) from error

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """What ListOffsets answers to a timestamp or one of its special values; None if nothing.

        LATEST_TIMESTAMP gives the log's end; how far the client may see is the caller's business.
        Reads one batch of the log.
        """
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            entries = self._epochs.entries
            is_known = bool(entries) and entries[0].start_offset <= self._log_start_offset
            return TimestampedOffset(
                NO_TIMESTAMP, self._log_start_offset, entries[0].epoch if is_known else None
            )
        if timestamp == LATEST_TIMESTAMP:
            return TimestampedOffset(NO_TIMESTAMP, self.log_end_offset, self._epochs.latest_epoch)
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return TimestampedOffset(NO_TIMESTAMP, -1, -1)
        try:
            if timestamp == MAX_TIMESTAMP:
                newest = max(
                    self._local.segments, key=lambda s: s.largest_timestamp_so_far.timestamp
                )
                return newest.find_offset_of_largest_timestamp()
            for segment in self._local.segments:
                if segment.largest_timestamp >= timestamp:
                    return segment.find_offset_by_timestamp(timestamp, self._log_start_offset)
        except OSError as error:
            raise self._local.fail(
                f"Error while fetching offset by timestamp for {self.name} in dir "
                f"{self.directory.parent}",
                error,
            ) from error
        return None

    def legacy_offsets_before(self, timestamp: int, max_count: int) -> list[int]:
        """Segments' base offsets, newest first, as ListOffsets v0 wants them."""
        times = [
            (max(s.base_offset, self._log_start_offset), s.file.last_modified_ms())
            for s in self._local.segments
        ]
        if self.active_segment.size:
            times.append((self.log_end_offset, self._environment.now_ms()))
        if timestamp == EARLIEST_TIMESTAMP:
            times = times[:1]
        elif timestamp != LATEST_TIMESTAMP:
            while times and times[-1][1] > timestamp:
                times.pop()
        return sorted((offset for offset, _ in times[::-1][:max_count]), reverse=True)

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
            self._write_epochs_later()

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """The largest epoch up to ``leader_epoch`` and where it ended here; None if unknown."""
        found = self._epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found == leader_epochs.UNDEFINED else found

    def _write_epochs_later(self) -> None:
        # One write takes along everything that changes until then.
        if not self._epochs.is_write_planned:
            self._epochs.is_write_planned = True
            self._local.later("flush-leader-epochs-file", self._write_epochs)

    def _write_epochs(self) -> None:
        """Blocks; the entries are one value, so a thread sees all of a change or nothing."""
        self._epochs.is_write_planned = False
        if self._epochs.is_dirty:
            self._epochs.is_dirty = False
            write_epochs(self.directory / leader_epochs.FILE_NAME, self._epochs.entries)

    def _write_small_files(self) -> None:
        self._write_epochs()
        for offset in self._snapshots.offsets[-2:]:
            _sync_file(self._snapshots.path(offset))

    # The topic's id.

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Notes which topic the log belongs to; InconsistentTopicId if it is another's.

        Written before the first record that is appended, or with the next duties.
        """
        if self._topic_id is None:
            self._topic_id = self._unwritten_topic_id = topic_id
            self._local.later("flush-metadata-file", self._write_topic_id)
        elif self._topic_id != topic_id:
            raise InconsistentTopicId(
                f"Tried to assign topic ID {topic_id} to log for topic partition {self.name}, but "
                f"log already contained topic ID {self._topic_id}"
            )

    def _write_topic_id(self) -> None:
        topic_id, self._unwritten_topic_id = self._unwritten_topic_id, None
        if topic_id is not None:
            partition_metadata.write_topic_id(self.directory, topic_id)

    # Shortening.

    def truncate_to(self, offset: int) -> bool:
        """Drops everything from ``offset`` on; says whether there was anything.

        A batch that holds ``offset`` in its middle goes as a whole.
        """
        assert offset >= 0, f"{self.name}: {offset}"
        try:
            if offset >= self.log_end_offset:
                # Epochs that this broker began as a leader without a record go all the same.
                self._truncate_epochs(offset)
                return False
            if self._local.segments.first.base_offset > offset:
                self._truncate_fully(offset, offset)
                return True
            self._delete_snapshots(self._local.truncate_to(offset))
            self._truncate_epochs(offset)
            self._log_start_offset = min(offset, self._log_start_offset)
            self._rebuild_producers(offset)
            if self._high_watermark.message_offset >= offset:
                self._set_high_watermark(self._local.end)
        except OSError as error:
            raise self._local.fail(
                f"Error while truncating log to offset {offset} for {self.name} in dir "
                f"{self.directory.parent}",
                error,
            ) from error
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drops everything; the next record gets ``offset``."""
        try:
            self._truncate_fully(offset, offset if log_start_offset is None else log_start_offset)
        except OSError as error:
            raise self._local.fail(
                f"Error while truncating the entire log for {self.name} in dir "
                f"{self.directory.parent}",
                error,
            ) from error

    def _truncate_fully(self, offset: int, log_start_offset: int) -> None:
        self._delete_snapshots(self._local.truncate_fully_and_start_at(offset))
        if self._epochs.entries:
            self._epochs.clear()
            self._write_epochs_later()
        self._producers.clear(offset)
        self._snapshots.remove_all()
        self._log_start_offset = log_start_offset
        self._rebuild_producers(offset)
        self._set_high_watermark(self._local.end)

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

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
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
        _log.info(
            "[UnifiedLog partition=%s] Incremented log start offset to %d due to %s",
            self.name,
            offset,
            reason,
        )
        self._epochs.truncate_from_start(offset)
        if self._epochs.is_dirty:
            self._write_epochs_later()
        self._producers.replicated_to(offset)
        self._producers.end_offset = max(self._producers.end_offset, offset)
        return True

    def delete_segments(self, segments: Sequence[LogSegment], reason: str) -> None:
        """Deletes the log's oldest segments, raising the log start; one segment always remains."""
        doomed = list(segments)
        try:
            if doomed and len(doomed) == len(self._local.segments):
                fresh = self._roll(self.log_end_offset)
                doomed = [segment for segment in doomed if segment.base_offset != fresh.base_offset]
            if doomed:
                following = self._local.segments.higher(doomed[-1].base_offset)
                assert following is not None, "one segment always remains"
                self.maybe_increment_log_start_offset(following.base_offset, reason)
                self._local.remove_segments(doomed)
                self._delete_snapshots(doomed)
        except OSError as error:
            raise self._local.fail(
                f"Error while deleting segments for {self.name} in dir {self.directory.parent}",
                error,
            ) from error

    # Producers.

    @property
    def producers(self) -> ProducerStates:
        """The idempotent and transactional producers, for DescribeProducers."""
        return self._producers

    def remove_expired_producers(self) -> None:
        """Forgets producers that were silent for long."""
        self._producers.remove_expired(self._environment.now_ms())

    # To disk.

    def plan_flush(self, offset: int | None = None) -> FlushPlan | None:
        """What to run in a thread so that everything before ``offset`` is safe; None if it is.

        ``offset`` is the log's end if not given.  Call :meth:`finish_flush` when it has run.
        """
        return self._local.plan_flush(
            self.log_end_offset if offset is None else offset, self._write_small_files
        )

    def finish_flush(self, plan: FlushPlan) -> None:
        """The plan has run: the recovery point moves."""
        self._local.mark_flushed(plan.offset)

    def flush(self) -> None:
        """Plan, run and finish in one.  Blocks; KafkaStorage if the disk fails."""
        plan = self.plan_flush()
        if plan is None:
            return
        try:
            plan.run()
        except OSError as error:
            raise self._local.fail(
                f"Error while flushing log for {self.name} in dir {self.directory.parent} with "
                f"offset {plan.offset}",
                error,
            ) from error
        self.finish_flush(plan)

    def close(self) -> None:
        """Writes what is only in memory: indexes, epochs, topic id, a snapshot.  Blocks."""
        try:
            if self._unwritten_topic_id is not None:
                self._write_topic_id()
            self._write_epochs()
            self._snapshots.take(self._producers.entries.values(), self._producers.end_offset)
            self._local.close()
        except OSError as error:
            raise self._local.fail(
                f"Error while closing {self.name} in dir {self.directory.parent}", error
            ) from error

    def rename(self, directory: Path) -> None:
        """Gives the log's folder another name: deleted, stray, or a future one that has come."""
        try:
            self._local.move_to(directory)
        except OSError as error:
            raise self._local.fail(
                f"Error while renaming dir for {self.name} in log dir {self.directory.parent}",
                error,
            ) from error
        self._snapshots.directory = directory


def _metadata(offset: int | LogOffsetMetadata) -> LogOffsetMetadata:
    return LogOffsetMetadata(offset) if isinstance(offset, int) else offset


def _read_epochs(directory: Path) -> list[EpochEntry]:
    path = directory / leader_epochs.FILE_NAME
    try:
        return read_epochs(path)
    except CheckpointMalformed as malformed:
        # Recovery finds the epochs of unflushed batches again; the others were in this file.
        _log.warning("%s; the leader epochs before the recovery point are lost", malformed)
        return []


def _sync_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
