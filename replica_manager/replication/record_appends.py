"""Appends records to partitions that this broker leads: appends, flushes, wakes waiting requests.

Appends go to the page cache, on the event loop, one partition after the other.  With ``acks`` -1
the response then waits in the purgatory until every in-sync replica has the records.  Two steps may
take long and run in a thread: the validation of a client's large batch
(:mod:`.record_examinations`), before it is appended, and a flush that ``flush.messages`` requires,
before the high watermark may include the records.  Batches of a coordinator are validated on the
event loop, so that they are appended in order.

Source: Kafka ``ReplicaManager.appendRecords`` and ``appendToLocalLog``, ``Partition
.appendRecordsToLeader``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.errors import (
    CorruptRecord,
    InvalidProducerEpoch,
    InvalidRecord,
    KafkaStorage,
    MessageTooLarge,
    RecordListTooLarge,
    RecordsRefused,
)
from kafka_common.model import INTERNAL_TOPICS, TopicPartition
from kafka_common.observability.log_text import java_class
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.record_batch import MemoryRecords
from kafka_common.protocol.record_walk import finish
from replica_manager.log.log_validation import Allowance
from replica_manager.log.log_values import NO_CONVERSIONS, LogAppendInfo, RecordConversions
from replica_manager.log.producer_state_manager import AppendOrigin, VerificationGuard
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.delayed_produce import DelayedProduce, must_wait
from replica_manager.replication.partition import Partition
from replica_manager.replication.record_examinations import RecordExaminations
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.replication.waiting_room import WaitingRoom
from zkcontroller.core.journal import scala_set

_log = logging.getLogger("kafka.server.ReplicaManager")

BYTES_AT_ONCE: Final = 1024 * 1024
PARTITIONS_AT_ONCE: Final = 32
"""Limits of bytes and partitions appended before other tasks run: some 2 to 5 ms."""

_UNKNOWN: Final = -1
_ACKS: Final = (-1, 0, 1)
# These errors are the client's or logged elsewhere: neither logged nor counted as failures here.
_EXPECTED: Final = (MessageTooLarge, RecordListTooLarge, CorruptRecord, KafkaStorage)


class PartitionResponse(NamedTuple):
    """The result for the records of one partition."""

    error: ErrorCode
    base_offset: int = _UNKNOWN
    log_append_time_ms: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    record_errors: tuple[tuple[int, str], ...] = ()
    """Index in the batch and error text of each invalid record."""
    message: str | None = None
    conversions: RecordConversions = NO_CONVERSIONS


class Appended(NamedTuple):
    """The results of an append, and what waits until replicas have the records."""

    outcomes: dict[TopicPartition, PartitionResponse]
    wait: Callable[[], Awaitable[None]] | None
    """Waits and then completes ``outcomes``; None if they are complete."""

    async def acknowledged(self) -> dict[TopicPartition, PartitionResponse]:
        """The results, after acknowledgement or timeout."""
        if self.wait is not None:
            await self.wait()
        return self.outcomes


class _LogAppendResult(NamedTuple):
    """A successful append."""

    partition: Partition
    log: UnifiedLog
    info: LogAppendInfo


class RecordAppends:
    """Appends the records of clients and coordinators.  Runs on the event loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        flush: Callable[[UnifiedLog], Awaitable[None]],
        stats: BrokerTopicStats,
        now_ms: Callable[[], int],
    ) -> None:
        """``flush`` moves a log's recovery point to its end, unless it is put off or impossible.

        ``now_ms`` must be the clock of ``replicas``.
        """
        self._replicas = replicas
        self._flush = flush
        self._stats = stats
        self._now_ms = now_ms
        self._examinations = RecordExaminations()
        self.waiting: WaitingRoom[TopicPartition, DelayedProduce] = WaitingRoom()
        replicas.watch(self.waiting.check)

    async def append_records(
        self,
        batches: Mapping[TopicPartition, MemoryRecords],
        *,
        acks: int,
        timeout_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        allows_internal_topics: bool = False,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,
    ) -> Appended:
        """Appends the records of each partition, with one result per partition.

        ``timeout_ms`` is how long the wait for replicas may take, from now on.

        Coordinators may write to internal topics, clients only with ``allows_internal_topics``.
        ``guards`` holds the verification guards of partitions whose transaction was verified.
        """
        if acks not in _ACKS:
            refused = PartitionResponse(ErrorCode.invalid_required_acks)
            return Appended(dict.fromkeys(batches, refused), None)
        outcomes: dict[TopicPartition, PartitionResponse] = {}
        required: dict[TopicPartition, int] = {}
        unflushed: list[tuple[TopicPartition, _LogAppendResult]] = []
        size = count = 0
        allowance = Allowance()
        for tp, records in batches.items():
            if size >= BYTES_AT_ONCE or count >= PARTITIONS_AT_ONCE:
                size = count = 0
                await asyncio.sleep(0)
            size += len(records)
            count += 1
            is_allowed = allows_internal_topics or origin is not AppendOrigin.CLIENT
            guard = None if guards is None else guards.get(tp)
            taken = await self._append(
                tp, records, acks, origin, guard, allowance, is_allowed=is_allowed
            )
            if isinstance(taken, PartitionResponse):
                outcomes[tp] = taken
                continue
            info = taken.info
            required[tp] = info.last_offset + 1
            outcomes[tp] = PartitionResponse(
                ErrorCode.none,
                info.first_offset,
                info.log_append_time,
                info.log_start_offset,
                conversions=info.conversions,
            )
            if info.is_flush_due:
                unflushed.append((tp, taken))
            else:
                self._announce(tp, taken)
        for tp, taken in unflushed:
            await self._flush(taken.log)
            if taken.log.recovery_point > taken.info.last_offset:
                self._announce(tp, taken)
            else:
                del required[tp]
                outcomes[tp] = PartitionResponse(ErrorCode.kafka_storage_error)
        if must_wait(acks, required):
            delayed = DelayedProduce(required, {}, self._check_committed)
            future = self.waiting.park(delayed, required, timeout_ms)
            if future is not None:
                return Appended(outcomes, partial(self._wait, outcomes, delayed, future))
            _complete(outcomes, delayed)
        return Appended(outcomes, None)

    async def _append(
        self,
        tp: TopicPartition,
        records: MemoryRecords,
        acks: int,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        allowance: Allowance,
        *,
        is_allowed: bool,
    ) -> _LogAppendResult | PartitionResponse:
        self._stats.mark(tp.topic, "total_produce_requests")
        if not is_allowed and tp.topic in INTERNAL_TOPICS:
            return PartitionResponse(ErrorCode.invalid_topic_exception)
        led = self._led(tp, acks)
        if isinstance(led, PartitionResponse):
            return led
        partition, log = led
        try:
            examination = log.examine(records, origin, allowance)
            if origin is AppendOrigin.COORDINATOR:
                # No other task may run here: a coordinator's batches must be appended in order.
                examined, is_later = finish(examination), False
            else:
                examined, is_later = await self._examinations.ended(examination)
            if is_later:
                # Other tasks ran meanwhile: the leadership or the log may have changed.
                led = self._led(tp, acks)
                if isinstance(led, PartitionResponse):
                    return led
                partition, log = led
            info = log.append_examined(
                examined, partition.leader_epoch, origin=origin, verification_guard=guard
            )
        except (RecordsRefused, KafkaStorage) as refused:
            return self._refused(tp, records, log, refused)
        except Exception:  # noqa: BLE001 - one batch must not stop the others
            _log.exception("Error processing append operation on partition %s", tp)
            self._stats.mark(tp.topic, "failed_produce_requests")
            return PartitionResponse(
                ErrorCode.unknown_server_error, log_start_offset=log.log_start_offset
            )
        self._stats.mark(tp.topic, "bytes_in", len(records))
        if info.valid_bytes:
            count = info.last_offset - info.first_offset + 1
            self._stats.mark(tp.topic, "messages_in", count)
        if info.conversions.records and origin is AppendOrigin.CLIENT:
            self._stats.mark(tp.topic, "produce_message_conversions", info.conversions.records)
        return _LogAppendResult(partition, log, info)

    def _led(
        self, tp: TopicPartition, acks: int
    ) -> tuple[Partition, UnifiedLog] | PartitionResponse:
        """The partition and its log if this broker may append to it now, else the response."""
        partition = self._replicas.get_partition_or_error(tp)
        if isinstance(partition, ErrorCode):
            return PartitionResponse(partition)
        refusal = partition.append_refusal(acks)
        if refusal is ErrorCode.not_enough_replicas:
            self._log_failure(
                tp,
                "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the "
                f"current ISR {scala_set(partition.in_sync_replicas)} is insufficient to satisfy "
                f"the min.isr requirement of {partition.effective_min_isr} for partition {tp}",
            )
            return PartitionResponse(refusal, log_start_offset=partition.log.log_start_offset)
        if refusal is not ErrorCode.none:
            return PartitionResponse(refusal)
        log = partition.log
        assert isinstance(log, UnifiedLog), "a leader has a log"
        return partition, log

    def _refused(
        self,
        tp: TopicPartition,
        records: MemoryRecords,
        log: UnifiedLog,
        refused: RecordsRefused | KafkaStorage,
    ) -> PartitionResponse:
        error = error_code_for(refused)
        self._count(tp, records, refused)
        if isinstance(refused, _EXPECTED):
            return PartitionResponse(error)
        cause = f"{java_class(refused)}: {refused}"
        self._log_failure(tp, cause, is_fault=not isinstance(refused, InvalidProducerEpoch))
        record_errors = refused.record_errors if isinstance(refused, InvalidRecord) else ()
        return PartitionResponse(
            error,
            log_start_offset=log.log_start_offset,
            record_errors=record_errors,
            message=str(refused) if record_errors else None,
        )

    def _count(
        self, tp: TopicPartition, records: MemoryRecords, refused: RecordsRefused | KafkaStorage
    ) -> None:
        match refused:
            case MessageTooLarge():
                self._stats.mark(tp.topic, "bytes_rejected", len(records))
            case CorruptRecord():
                self._stats.mark_all("invalid_message_crc_records")
            case InvalidRecord() if refused.meter:
                self._stats.mark_all(refused.meter, refused.count)
            case _:
                pass

    def _log_failure(self, tp: TopicPartition, cause: str, *, is_fault: bool = True) -> None:
        _log.log(
            logging.ERROR if is_fault else logging.INFO,
            "[ReplicaManager broker=%d] Error processing append operation on partition %s",
            self._replicas.broker_id,
            tp,
            extra={"cause": cause},
        )
        self._stats.mark(tp.topic, "failed_produce_requests")

    def _announce(self, tp: TopicPartition, taken: _LogAppendResult) -> None:
        """Updates the high watermark and checks the requests that wait for the partition."""
        taken.partition.maybe_increment_high_watermark(self._now_ms())
        self._replicas.partition_changed(tp)

    async def _wait(
        self,
        outcomes: dict[TopicPartition, PartitionResponse],
        delayed: DelayedProduce,
        future: asyncio.Future[bool],
    ) -> None:
        await self.waiting.ended(delayed, future)
        _complete(outcomes, delayed)

    def _check_committed(self, tp: TopicPartition, required_offset: int) -> tuple[bool, ErrorCode]:
        partition = self._replicas.get_partition_or_error(tp)
        if isinstance(partition, ErrorCode):
            return False, partition
        return partition.check_enough_replicas_reach(required_offset)


def _complete(outcomes: dict[TopicPartition, PartitionResponse], delayed: DelayedProduce) -> None:
    for tp, error in delayed.errors.items():
        if error is not ErrorCode.none:
            outcomes[tp] = outcomes[tp]._replace(error=error)
