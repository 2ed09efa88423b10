"""The transaction coordinator: takes one input with the time, returns outputs.

Nothing here waits, reads a clock or uses a socket.  The driver (one caller at a time):

1. calls ``step(input, now_ms)`` for every request and every event;
2. performs the outputs in their order: a response goes to the request with its id, the result of
   an append comes back as ``TransactionRecordsAppended``, the records of a load as ``Loaded`` and
   ``LoadFinished``, a producer id as ``ProducerIdGiven``, and the response of a broker to markers
   as ``MarkersResponse``;
3. passes a ``Tick`` at ``next_deadline_ms``, which may have changed after each step.

``now_ms`` is the wall clock's time, because records contain it, but must never go back.

Source: Kafka ``TransactionCoordinator``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.events import (
    CoordinatorStartup,
    Elected,
    Level,
    Loaded,
    LoadFailed,
    LoadFinished,
    Resigned,
    Shutdown,
    Tick,
)
from replica_manager.coordinators.transactions.administration import TransactionDescriptions
from replica_manager.coordinators.transactions.config import TransactionConfig
from replica_manager.coordinators.transactions.ending import Ending
from replica_manager.coordinators.transactions.events import (
    Event,
    Input,
    MarkersResponse,
    Output,
    ProducerIdGiven,
    TransactionRecordsAppended,
)
from replica_manager.coordinators.transactions.expiry import TransactionalIdExpiration
from replica_manager.coordinators.transactions.loading import TransactionTopicPartitions
from replica_manager.coordinators.transactions.markers import Markers
from replica_manager.coordinators.transactions.membership import TransactionPartitions
from replica_manager.coordinators.transactions.producers import Producers
from replica_manager.coordinators.transactions.requests import (
    AddPartitions,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResult,
    EndTransaction,
    ErrorResult,
    InitProducerId,
    ListTransactions,
    ListTransactionsResult,
    Request,
    VerifyPartitions,
)
from replica_manager.coordinators.transactions.transaction_state_manager import (
    OwnedPartition,
    TransactionStateManager,
)


class TransactionCoordinator:
    """Coordinates the ids in the partitions of ``__transaction_state`` that this broker leads."""

    def __init__(
        self, config: TransactionConfig, leader_of: Callable[[TopicPartition], int | None]
    ) -> None:
        """``leader_of`` returns the broker id of a partition's leader.

        It returns :data:`.markers.NO_LEADER` if no leader is known or reachable, and None if the
        partition was deleted.
        """
        self._manager = TransactionStateManager(config)
        self._is_active = False
        self._abort_at_ms: int | None = None
        self._expire_at_ms: int | None = None
        self.markers = Markers(self._manager, leader_of)
        """The markers to send; read only from outside, for gauges."""
        self._ending = Ending(self._manager, self.markers)
        self._producers = Producers(self._manager, self._ending)
        self._membership = TransactionPartitions(self._manager)
        self._expiry = TransactionalIdExpiration(self._manager)
        self._partitions = TransactionTopicPartitions(self._manager, self.markers)
        self._administration = TransactionDescriptions(self._manager)

    @property
    def owned(self) -> Mapping[int, OwnedPartition]:
        """The loaded partitions, by partition number, for tests; read only."""
        return self._manager.owned

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next Tick; None if none is needed."""
        deadlines = [self._abort_at_ms, self._expire_at_ms, self.markers.retry_at_ms]
        if self._partitions.has_more_to_install:
            deadlines.append(self._manager.now_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def partition_for(self, transactional_id: str) -> int:
        """The partition whose leader coordinates the id, for FindCoordinator."""
        return self._manager.partition_for(transactional_id)

    def step(self, given: Input, now_ms: int) -> list[Output]:
        """Processes one input; returns the outputs in order."""
        self._manager.now_ms = now_ms
        if isinstance(given, Event):
            self._on_event(given)
        else:
            self._on_request(given)
        self.markers.flush()
        outputs, self._manager.outbox = self._manager.outbox, []
        return outputs

    # ------------------------------------------------------------------ requests

    def _on_request(self, request: Request) -> None:
        manager = self._manager
        match request:
            case InitProducerId():
                self._producers.init(request)
            case AddPartitions():
                self._membership.add(request)
            case VerifyPartitions():
                manager.respond(request.request_id, self._membership.verify(request))
            case EndTransaction():
                self._end(request)
            case DescribeTransactions(request_id, transactional_ids):
                described = tuple(self._describe(each) for each in transactional_ids)
                manager.respond(request_id, DescribeTransactionsResult(described))
            case ListTransactions():
                manager.respond(request.request_id, self._list(request))
            case _:
                assert_never(request)

    def _end(self, request: EndTransaction) -> None:
        self._ending.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_commit=request.is_commit,
            is_from_client=True,
            then=lambda error: self._manager.respond(request.request_id, ErrorResult(error)),
        )

    def _describe(self, transactional_id: str) -> DescribedTransaction:
        if not self._is_active:
            return DescribedTransaction(transactional_id, ErrorCode.coordinator_not_available)
        return self._administration.describe(transactional_id)

    def _list(self, request: ListTransactions) -> ListTransactionsResult:
        if not self._is_active:
            return ListTransactionsResult(ErrorCode.coordinator_not_available)
        return self._administration.list(request)

    # ------------------------------------------------------------------ events

    def _on_event(self, event: Event) -> None:
        manager, partitions = self._manager, self._partitions
        match event:
            case CoordinatorStartup(partition_count):
                self._start(partition_count)
            case Shutdown():
                manager.say(Level.INFO, "Shutting down.")
                self._is_active = False
                self._abort_at_ms = self._expire_at_ms = self.markers.retry_at_ms = None
                partitions.give_up_all()
                manager.say(Level.INFO, "Shutdown complete.")
            case Tick():
                self._tick()
            case Elected(partition, leader_epoch):
                partitions.elected(partition, leader_epoch)
            case Resigned(partition, epoch):
                partitions.resigned(partition, epoch)
            case Loaded(load_id, batches):
                partitions.loaded(load_id, batches)
            case LoadFinished(load_id):
                partitions.finished(load_id)
            case LoadFailed(load_id, reason):
                partitions.failed(load_id, reason)
            case TransactionRecordsAppended(append_id, error):
                manager.continuations.pop(append_id)(error)
            case ProducerIdGiven():
                self._producers.given(event)
            case MarkersResponse(send_id, errors):
                self.markers.handle_response(send_id, errors)
            case _:
                assert_never(event)

    def _start(self, partition_count: int) -> None:
        manager = self._manager
        manager.say(Level.INFO, "Starting up.")
        manager.partition_count = partition_count
        self._is_active = True
        self._abort_at_ms = manager.now_ms + manager.config.abort_timed_out_interval_ms
        self._expire_at_ms = manager.now_ms + manager.config.remove_expired_interval_ms
        manager.say(Level.INFO, "Startup complete.")

    def _tick(self) -> None:
        manager, now_ms = self._manager, self._manager.now_ms
        self._partitions.install_more()
        if self.markers.retry_at_ms is not None and self.markers.retry_at_ms <= now_ms:
            self.markers.retry()
        if self._abort_at_ms is not None and self._abort_at_ms <= now_ms:
            self._abort_at_ms = now_ms + manager.config.abort_timed_out_interval_ms
            self._ending.abort_timed_out()
        if self._expire_at_ms is not None and self._expire_at_ms <= now_ms:
            self._expire_at_ms = now_ms + manager.config.remove_expired_interval_ms
            self._expiry.sweep()
