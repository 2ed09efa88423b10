"""Sends the markers of transactions whose end is decided.

Each leader has a queue and one request in flight.  A failed marker is sent again after a pause, to
the partition's leader at that time; a deleted partition needs no marker.  When every partition has
its marker, the completion is written to the log; the write is repeated until it succeeds.

The queues are bounded by the number of transactional ids of this coordinator, a request by
MAX_MARKERS_PER_REQUEST.

Source: Kafka ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.
Deviation: after an unexpected error Kafka's sender stops or the transaction stays pending for ever;
here the error is logged, and the marker is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.transactions.config import (
    MARKER_RETRY_MS,
    MAX_MARKERS_PER_REQUEST,
)
from replica_manager.coordinators.transactions.events import Marker, SendMarkers
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transaction, Transit
from replica_manager.coordinators.transactions.transaction_state_manager import (
    TransactionStateManager,
)

NO_LEADER: Final = -1

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
    }
)
_SUPERSEDED: Final = frozenset(
    {ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced}
)
"""Errors that show that another coordinator has ended the transaction."""
_NEEDLESS: Final = frozenset(
    {ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version}
)
"""Errors of partitions that cannot contain transactional records, and so need no marker."""


class Completion(Struct, frozen=True, eq=False):
    """A transaction whose end is decided; ``transit`` is its state after all markers."""

    transactional_id: str
    coordinator_epoch: int
    transit: Transit


class _Waiting(NamedTuple):
    completion: Completion
    marker: Marker


class _Sent(NamedTuple):
    broker_id: int
    waiting: tuple[_Waiting, ...]


class Markers:
    """The markers that are still to be written."""

    def __init__(
        self, manager: TransactionStateManager, leader_of: Callable[[TopicPartition], int | None]
    ) -> None:
        """``leader_of`` returns the leader's broker id; NO_LEADER if unknown, None if deleted."""
        self._manager = manager
        self._leader_of = leader_of
        self._completions: dict[str, Completion] = {}
        self._queues: dict[int, deque[_Waiting]] = {}
        self._without_leader: list[_Waiting] = []
        self._failed: list[_Waiting] = []
        self._unwritten: list[Completion] = []
        """Completions whose write failed and must be repeated."""
        self._sent: dict[int, _Sent] = {}
        self._last_send_id = 0
        self.retry_at_ms: int | None = None
        """When to call :meth:`retry`; None if nothing has failed."""

    @property
    def without_leader_count(self) -> int:
        """The number of markers without a known leader: gauge ``UnknownDestinationQueueSize``."""
        return len(self._without_leader)

    @property
    def unwritten_count(self) -> int:
        """The number of completions to write again: gauge ``LogAppendRetryQueueSize``."""
        return len(self._unwritten)

    # ------------------------------------------------------------------ sending

    def begin(self, transaction: Transaction, coordinator_epoch: int, transit: Transit) -> None:
        """Queues the markers of a transaction whose decision is in the log.

        ``transit`` is written after all markers.
        """
        completion = Completion(transaction.transactional_id, coordinator_epoch, transit)
        self._completions[transaction.transactional_id] = completion
        self._enqueue(
            completion,
            Marker(
                transaction.producer_id,
                transaction.producer_epoch,
                coordinator_epoch,
                transit.state is TransactionState.COMPLETE_COMMIT,
                tuple(transaction.partitions),
            ),
        )
        self._complete_if_done(completion, transaction)

    def flush(self) -> None:
        """Sends the queued markers to leaders without a request in flight."""
        busy = {sent.broker_id for sent in self._sent.values()}
        for broker_id, queue in list(self._queues.items()):
            if broker_id in busy:
                continue
            count = min(len(queue), MAX_MARKERS_PER_REQUEST)
            waiting = tuple(queue.popleft() for _ in range(count))
            if not queue:
                del self._queues[broker_id]
            self._last_send_id += 1
            self._sent[self._last_send_id] = _Sent(broker_id, waiting)
            self._manager.outbox.append(
                SendMarkers(self._last_send_id, broker_id, tuple(each.marker for each in waiting))
            )

    def retry(self) -> None:
        """Queues failed markers again, for the current leaders, and repeats failed writes."""
        self.retry_at_ms = None
        unwritten, self._unwritten = self._unwritten, []
        for completion in unwritten:
            self._write(completion)
        waiting = self._without_leader + self._failed
        self._without_leader, self._failed = [], []
        for completion, marker in waiting:
            transaction = self._wanted(completion)
            if transaction is not None:
                self._enqueue(completion, marker)
                self._complete_if_done(completion, transaction)

    def forget(self, partition: int) -> None:
        """Drops all markers of a partition of ``__transaction_state`` that was unloaded."""

        def stays(completion: Completion) -> bool:
            return self._manager.partition_for(completion.transactional_id) != partition

        self._completions = {
            transactional_id: completion
            for transactional_id, completion in self._completions.items()
            if stays(completion)
        }
        self._without_leader = [each for each in self._without_leader if stays(each.completion)]
        self._failed = [each for each in self._failed if stays(each.completion)]
        self._unwritten = [each for each in self._unwritten if stays(each)]
        queues = {
            broker_id: deque(each for each in queue if stays(each.completion))
            for broker_id, queue in self._queues.items()
        }
        self._queues = {broker_id: queue for broker_id, queue in queues.items() if queue}

    def _enqueue(self, completion: Completion, marker: Marker) -> None:
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for partition in marker.partitions:
            by_leader.setdefault(self._leader_of(partition), []).append(partition)
        for leader, partitions in by_leader.items():
            if leader is None:
                self._skip(completion, partitions)
                continue
            waiting = _Waiting(completion, marker._replace(partitions=tuple(partitions)))
            if leader == NO_LEADER:
                self._without_leader.append(waiting)
                self._retry_later()
            else:
                self._queues.setdefault(leader, deque()).append(waiting)

    def _skip(self, completion: Completion, partitions: Iterable[TopicPartition]) -> None:
        transaction = self._wanted(completion)
        if transaction is None:
            return
        names = ", ".join(map(str, partitions))
        self._manager.say_of_markers(
            Level.INFO,
            f"Couldn't find leader endpoint for partitions {names} while trying to send transaction"
            f" markers for {completion.transactional_id}, these partitions are likely deleted"
            " already and hence can be skipped",
        )
        for partition in partitions:
            transaction.has_marker(partition)

    def _retry_later(self) -> None:
        if self.retry_at_ms is None:
            self.retry_at_ms = self._manager.now_ms + MARKER_RETRY_MS

    def _wanted(self, completion: Completion) -> Transaction | None:
        """The transaction if it must still be completed, in the same coordinator epoch."""
        transactional_id = completion.transactional_id
        if self._completions.get(transactional_id) is not completion:
            return None
        transaction = self._manager.current(transactional_id, completion.coordinator_epoch)
        if not isinstance(transaction, ErrorCode):
            return transaction
        self._manager.say_of_markers(
            Level.INFO,
            f"{transaction.name.upper()} for {transactional_id} with coordinator epoch"
            f" {completion.coordinator_epoch}; cancel sending its transaction markers",
        )
        del self._completions[transactional_id]
        return None

    # ------------------------------------------------------------------ responses

    def handle_response(
        self, send_id: int, errors: Mapping[int, Mapping[TopicPartition, ErrorCode]] | None
    ) -> None:
        """Handles the response to markers: errors by producer id, None if there was no response."""
        for completion, marker in self._sent.pop(send_id).waiting:
            transaction = self._wanted(completion)
            if transaction is None:
                continue
            of_producer = None if errors is None else errors.get(marker.producer_id, {})
            again = self._take(completion, transaction, marker, of_producer)
            if again:
                marker = marker._replace(partitions=tuple(again))
                self._failed.append(_Waiting(completion, marker))
                self._retry_later()
            self._complete_if_done(completion, transaction)

    def _take(
        self,
        completion: Completion,
        transaction: Transaction,
        marker: Marker,
        errors: Mapping[TopicPartition, ErrorCode] | None,
    ) -> list[TopicPartition]:
        """Handles the result of one marker; returns the partitions to send it to again."""
        if errors is None:
            return list(marker.partitions)
        again: list[TopicPartition] = []
        for partition in marker.partitions:
            # A partition that is missing in the response has no marker yet.
            error = errors.get(partition, ErrorCode.unknown_server_error)
            if error is ErrorCode.none or error in _NEEDLESS:
                transaction.has_marker(partition)
            elif error in _SUPERSEDED:
                self._log_failure(
                    completion, partition, error, "has permanently failed", Level.INFO
                )
                self._completions.pop(completion.transactional_id, None)
                return []
            else:
                is_expected = error in _RETRIABLE
                level = Level.INFO if is_expected else Level.ERROR
                self._log_failure(completion, partition, error, "has failed", level)
                again.append(partition)
        return again

    def _log_failure(
        self,
        completion: Completion,
        partition: TopicPartition,
        error: ErrorCode,
        what: str,
        level: Level,
    ) -> None:
        self._manager.say_of_markers(
            level,
            f"Sending {completion.transactional_id}'s transaction marker for partition {partition}"
            f" {what} with error {error.name.upper()} with current coordinator epoch"
            f" {completion.coordinator_epoch}",
        )

    # ------------------------------------------------------------------ completing

    def _complete_if_done(self, completion: Completion, transaction: Transaction) -> None:
        transactional_id = completion.transactional_id
        is_wanted = self._completions.get(transactional_id) is completion
        if is_wanted and not transaction.partitions:
            del self._completions[transactional_id]
            self._write(completion)

    def _write(self, completion: Completion) -> None:
        transactional_id, epoch = completion.transactional_id, completion.coordinator_epoch

        def when_written(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                return
            if isinstance(self._manager.current(transactional_id, epoch), ErrorCode):
                self._manager.say_of_markers(
                    Level.INFO,
                    f"{error.name.upper()} for transactionalId {transactional_id} while trying to"
                    " append to transaction log, skip writing to transaction log",
                )
                return
            self._manager.say_of_markers(
                Level.INFO if error is ErrorCode.coordinator_not_available else Level.ERROR,
                f"Not available to append the completion of {transactional_id}:"
                f" {error.name.upper()}; retry appending",
            )
            self._unwritten.append(completion)
            self._retry_later()

        self._manager.write(
            transactional_id, epoch, completion.transit, when_written, stays_pending=True
        )
