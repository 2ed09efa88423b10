"""Appends to a replica's log: as leader, for clients, or as follower.

Source: Kafka ``UnifiedLog.append``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from replica_manager.log.index import TimestampOffset
from replica_manager.log.log_appends import (
    Written,
    follower_batches,
    producer_advances,
)
from replica_manager.log.log_state import LogState
from replica_manager.log.log_validation import (
    UNPACKED_BYTES,
    Examination,
    Examined,
    Source,
    assign,
    examine,
)
from replica_manager.log.log_values import (
    NO_LOG_APPEND_TIME,
    LogAppendInfo,
)
from replica_manager.log.producer_state import (
    Advance,
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    VerificationGuard,
)
from replica_manager.log.segment import LogSegment
from replica_manager.log.transaction_index import AbortedTransaction
from zkcontroller.errors import RecordListTooLarge, UnexpectedAppendOffset
from zkcontroller.protocol.compression import Buffer
from zkcontroller.protocol.record_batch import MAGIC_2
from zkcontroller.protocol.record_walk import finish
from zkcontroller.protocol.records import NO_TIMESTAMP

_log = logging.getLogger("kafka.log.UnifiedLog")


class AppendingLog(LogState):
    """A log with appends.  For the event loop."""

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

        Raises a RecordsRefused (zkcontroller.errors), after which nothing has changed, and
        KafkaStorage.
        """
        examined = finish(self.examine(records, origin))
        return self.append_examined(
            examined, leader_epoch, origin=origin, verification_guard=verification_guard
        )

    def examine(
        self, records: Buffer, origin: AppendOrigin, unpacked_limit: int = UNPACKED_BYTES
    ) -> Examination:
        """Validates batches for a leader; its result is for :meth:`append_examined`.

        Changes nothing, so that it may go on in another thread.  Raises a RecordsRefused.
        """
        source = Source(origin, self.name, self._environment.now_ms(), unpacked_limit)
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
        batch = assign(examined, base_offset=base_offset, leader_epoch=leader_epoch, now_ms=now_ms)
        header = batch.header
        written = Written(
            (header,),
            batch.pieces,
            header.size,
            TimestampOffset(header.max_timestamp, header.last_offset),
        )
        log_append_time = now_ms if examined.is_log_append_time else NO_LOG_APPEND_TIME
        source = memoryview(examined.data)[examined.position :]
        duplicate = self._append(written, source, origin, verification_guard)
        if duplicate is not None:
            return LogAppendInfo(
                duplicate.first_offset,
                duplicate.last_offset,
                duplicate.timestamp,
                duplicate.timestamp if examined.is_log_append_time else NO_LOG_APPEND_TIME,
                self._log_start_offset,
                header.size,
                leader_epoch,
                is_duplicate=True,
                conversions=examined.conversions,
            )
        return LogAppendInfo(
            base_offset,
            header.last_offset,
            header.max_timestamp,
            log_append_time,
            self._log_start_offset,
            header.size,
            leader_epoch,
            is_flush_due=self._local.unflushed_messages >= self.config.flush_messages,
            conversions=examined.conversions,
        )

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Appends the leader's batches unchanged, with their offsets.

        ``records`` may end within a batch, which is left out; ``valid_bytes`` says how much was
        taken.  Raises UnexpectedAppendOffset, OffsetsOutOfOrder or CorruptRecord, after which
        nothing has changed, and KafkaStorage.
        """
        headers = follower_batches(records, self.name)
        if not headers:
            return self._nothing_appended()
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
            Written(headers, (whole,), size, largest), records, AppendOrigin.REPLICATION, None
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
            is_flush_due=self._local.unflushed_messages >= self.config.flush_messages,
        )

    def _nothing_appended(self) -> LogAppendInfo:
        return LogAppendInfo(-1, -1, NO_TIMESTAMP, NO_LOG_APPEND_TIME, self._log_start_offset, 0)

    def _append(
        self,
        written: Written,
        source: Buffer,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> BatchMetadata | None:
        """Writes the batches; returns the earlier one if they repeat it."""
        config = self.config
        if written.size > config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {written.size} bytes in append to partition {self.name}, "
                f"which exceeds the maximum configured segment size of {config.segment_bytes}."
            )
        advances, duplicate = producer_advances(
            self._producers,
            written.headers,
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
            if self._unwritten_topic_id is not None:
                self._write_topic_id()
            self._roll_if_needed(written)
            if any(each.completed is not None and each.completed.is_aborted for each in advances):
                self.active_segment.transaction_index.prepare()
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
            for header in written.headers:
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
            self.active_segment.transaction_index.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    self._producers.last_stable_offset_after(completed),
                )
            )
        self._producers.complete(completed)

    def _roll_if_needed(self, written: Written) -> None:
        if self.active_segment.should_roll(
            self._local.roll_limits,
            written.size,
            written.largest.timestamp,
            written.headers[-1].last_offset,
            self._environment.now_ms(),
        ):
            self._roll(written.headers[0].base_offset)

    def roll(self) -> LogSegment:
        """Starts a segment at the log's end."""
        with self._local.guarded("Error while rolling log segment for"):
            return self._roll(self.log_end_offset)

    def _roll(self, expected_next_offset: int) -> LogSegment:
        segment = self._local.roll(expected_next_offset)
        # A snapshot at each segment's start lets recovery begin there.
        self._producers.end_offset = segment.base_offset
        self._snapshots.take(self._producers.entries.values(), segment.base_offset)
        if self._high_watermark.message_offset >= self._local.end.message_offset:
            self._set_high_watermark(self._local.end)
        plan = self._local.plan_flush(segment.base_offset, self._write_small_files)
        if plan is not None:
            self._local.later("flush-log", plan.run, after=lambda: self._local.mark_flushed(plan))
        return segment
