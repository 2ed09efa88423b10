"""InitProducerId with a transactional id: gives the producer its id and a new epoch.

The new epoch fences the earlier producer with the same transactional id.  If that producer's
transaction is still open, it is aborted first, with an epoch that no client gets; meanwhile the new
producer must retry.  A producer that continues after an error sends its producer id and epoch.  So
it can get a new epoch, but cannot fence a producer that started later (KIP-360).

Source: Kafka ``TransactionCoordinator`` (``handleInitProducerId``,
``prepareInitProducerIdTransit``).
"""

from __future__ import annotations

from itertools import count

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.transactions.config import MAX_TRANSACTIONAL_IDS
from replica_manager.coordinators.transactions.ending import Ending
from replica_manager.coordinators.transactions.events import NewProducerId, ProducerIdGiven
from replica_manager.coordinators.transactions.requests import (
    InitProducerId,
    InitProducerIdResult,
    ProducerIdAndEpoch,
)
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    Transaction,
    Transit,
    is_epoch_exhausted,
)
from replica_manager.coordinators.transactions.transaction_state_manager import (
    TRANSACTION_TOPIC,
    OwnedPartition,
    TransactionStateManager,
)


class Producers:
    """Handles InitProducerId requests with a transactional id."""

    def __init__(self, manager: TransactionStateManager, ending: Ending) -> None:
        self._manager = manager
        self._ending = ending
        self._wish_ids = count(1)
        self._requests_by_wish: dict[int, InitProducerId] = {}
        """Requests that wait for a producer id, by wish id; at most one per connection."""

    def init(self, request: InitProducerId, new_id: int | None = None) -> None:
        """Gives the producer its id and epoch, or sends an error.

        ``new_id`` is a producer id to use if one is needed; if it is None, one is requested first.
        """
        if not request.transactional_id:
            self._refuse(request, ErrorCode.invalid_request)
            return
        if not 0 < request.timeout_ms <= self._manager.config.max_timeout_ms:
            self._refuse(request, ErrorCode.invalid_transaction_timeout)
            return
        owner = self._manager.owner_of(request.transactional_id)
        if isinstance(owner, ErrorCode):
            self._refuse(request, owner)
            return
        transaction = owner.transactions.get(request.transactional_id)
        if transaction is None and new_id is None:
            self._request_producer_id(request)
            return
        if transaction is None:
            assert new_id is not None
            if self._manager.transaction_count >= MAX_TRANSACTIONAL_IDS:
                self._refuse(request, ErrorCode.coordinator_not_available)
                return
            transaction = self._create(owner, request, new_id)
        self._take_over(owner, transaction, request, new_id)

    def given(self, event: ProducerIdGiven) -> None:
        """Continues a request with the new producer id; checks the current state again."""
        request = self._requests_by_wish.pop(event.wish_id)
        if event.error is ErrorCode.none:
            self.init(request, event.producer_id)
        else:
            self._refuse(request, event.error)

    def _request_producer_id(self, request: InitProducerId) -> None:
        wish_id = next(self._wish_ids)
        self._requests_by_wish[wish_id] = request
        self._manager.outbox.append(NewProducerId(wish_id))

    def _refuse(self, request: InitProducerId, error: ErrorCode) -> None:
        self._manager.respond(request.request_id, InitProducerIdResult(error))

    def _create(self, owner: OwnedPartition, request: InitProducerId, new_id: int) -> Transaction:
        transaction = owner.transactions[request.transactional_id] = Transaction(
            request.transactional_id, new_id, request.timeout_ms, self._manager.now_ms
        )
        return transaction

    def _take_over(
        self,
        owner: OwnedPartition,
        transaction: Transaction,
        request: InitProducerId,
        new_id: int | None,
    ) -> None:
        expected = request.expected
        if transaction.pending_state is not None:
            self._refuse(request, ErrorCode.concurrent_transactions)
        elif expected is not None and not _may_be(expected, transaction):
            self._refuse(request, ErrorCode.producer_fenced)
        elif transaction.state.is_ending:
            self._refuse(request, ErrorCode.concurrent_transactions)
        elif transaction.state is TransactionState.ONGOING:
            self._fence(transaction, request)
        elif _needs_new_id(transaction, expected):
            if new_id is None:
                self._request_producer_id(request)
                return
            transit = transaction.prepare_producer_id_rotation(
                new_id,
                request.timeout_ms,
                self._manager.now_ms,
                records_last_epoch=expected is not None,
            )
            self._write(owner, request, transit)
        else:
            epoch = None if expected is None else expected.producer_epoch
            raised = transaction.prepare_epoch_increment(
                request.timeout_ms, epoch, self._manager.now_ms
            )
            if isinstance(raised, ErrorCode):
                self._refuse(request, raised)
            else:
                self._write(owner, request, raised)

    def _fence(self, transaction: Transaction, request: InitProducerId) -> None:
        """Aborts the open transaction of the earlier producer; the new one retries."""
        transit = transaction.prepare_epoch_fence()

        def when_decided(error: ErrorCode) -> None:
            is_aborting = error is ErrorCode.none
            self._refuse(request, ErrorCode.concurrent_transactions if is_aborting else error)

        self._ending.end(
            request.transactional_id,
            transit.producer_id,
            transit.producer_epoch,
            is_commit=False,
            is_from_client=False,
            then=when_decided,
        )

    def _write(self, owner: OwnedPartition, request: InitProducerId, transit: Transit) -> None:
        manager, transactional_id = self._manager, request.transactional_id

        def when_written(error: ErrorCode) -> None:
            if error is not ErrorCode.none:
                manager.say(
                    Level.INFO,
                    f"Returning {error.name.upper()} error code to client for"
                    f" {transactional_id}'s InitProducerId request",
                )
                self._refuse(request, error)
                return
            manager.say(
                Level.INFO,
                f"Initialized transactionalId {transactional_id} with producerId"
                f" {transit.producer_id} and producer epoch {transit.producer_epoch} on partition"
                f" {TRANSACTION_TOPIC}-{manager.partition_for(transactional_id)}",
            )
            manager.respond(
                request.request_id,
                InitProducerIdResult(error, transit.producer_id, transit.producer_epoch),
            )

        manager.write(transactional_id, owner.coordinator_epoch, transit, when_written)


def _may_be(expected: ProducerIdAndEpoch, transaction: Transaction) -> bool:
    """Whether the producer id that a producer sent is the current one, or was before a rotation.

    A rotation gives a new producer id when the epochs of the old one are exhausted.
    """
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (
            expected.producer_id == transaction.last_producer_id
            and is_epoch_exhausted(expected.producer_epoch)
        )
    )


def _needs_new_id(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    return transaction.is_epoch_exhausted and (
        expected is None or expected.producer_epoch == transaction.producer_epoch
    )
