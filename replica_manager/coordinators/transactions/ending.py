"""The end of transactions: by EndTxn, or by timeout.

First the decision (commit or abort) is written to the log, and the producer gets its response.
Then the markers are written.  When every partition has its marker, the completion is written.

Source: Kafka ``TransactionCoordinator`` (``endTransaction``, ``abortTimedOutTransactions``).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import IllegalState
from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.transactions.markers import Markers
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    Transaction,
    Transit,
)
from replica_manager.coordinators.transactions.transaction_state_manager import (
    Continuation,
    TransactionStateManager,
)

_CANCELLED: Final = frozenset(
    {
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.producer_fenced,
        ErrorCode.concurrent_transactions,
    }
)
"""Errors after which a timed-out transaction needs no abort: the producer has acted meanwhile."""


class Ending:
    """Commits and aborts transactions."""

    def __init__(self, manager: TransactionStateManager, markers: Markers) -> None:
        self._manager = manager
        self._markers = markers

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        is_from_client: bool,
        then: Continuation,
    ) -> None:
        """Ends a transaction; ``then`` is called with the error once the decision is in the log.

        With ``is_from_client`` False the coordinator aborts the transaction itself: the caller has
        prepared an epoch fence and passes the raised epoch.
        """
        if not transactional_id:
            then(ErrorCode.invalid_request)
            return
        owner = self._manager.owner_of(transactional_id)
        if isinstance(owner, ErrorCode):
            then(owner)
            return
        transaction = owner.transactions.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            then(ErrorCode.invalid_producer_id_mapping)
            return
        is_fenced = (
            producer_epoch != transaction.producer_epoch
            if is_from_client
            else producer_epoch < transaction.producer_epoch
        )
        if is_fenced:
            then(ErrorCode.producer_fenced)
            return
        if transaction.pending_state not in (None, TransactionState.PREPARE_EPOCH_FENCE):
            then(ErrorCode.concurrent_transactions)
            return
        refusal = _refusal(transaction, is_commit=is_commit)
        if refusal is not None:
            then(refusal)
            return
        self._decide(
            transaction, owner.coordinator_epoch, producer_epoch, is_commit=is_commit, then=then
        )

    def _decide(
        self,
        transaction: Transaction,
        coordinator_epoch: int,
        producer_epoch: int,
        *,
        is_commit: bool,
        then: Continuation,
    ) -> None:
        manager = self._manager
        is_epoch_fence = (
            transaction.pending_state is TransactionState.PREPARE_EPOCH_FENCE and not is_commit
        )
        if is_epoch_fence:
            transaction.pending_state = None
            transaction.producer_epoch = producer_epoch
            transaction.last_producer_epoch = NO_PRODUCER_EPOCH
        elif transaction.pending_state is not None:
            then(ErrorCode.concurrent_transactions)
            return
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        transit = transaction.prepare_end(state, manager.now_ms)

        def when_written(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                self._begin_markers(transaction, coordinator_epoch, transit, then)
                return
            if is_epoch_fence and transaction is manager.current(
                transaction.transactional_id, coordinator_epoch
            ):
                transaction.has_failed_epoch_fence = True
                manager.say(
                    Level.WARN,
                    "The coordinator failed to write an epoch fence transition for producer"
                    f" {transaction.transactional_id} to the transaction log with error"
                    f" {error.name.upper()}. The epoch was increased to {transit.producer_epoch}"
                    " but not returned to the client",
                )
            then(error)

        manager.write(transaction.transactional_id, coordinator_epoch, transit, when_written)

    def _begin_markers(
        self,
        transaction: Transaction,
        coordinator_epoch: int,
        decided: Transit,
        then: Continuation,
    ) -> None:
        if transaction.state is not decided.state:
            raise IllegalState(
                f"{transaction.transactional_id} cannot end as {decided}: it is"
                f" {transaction.state.label}"
            )
        transit = transaction.prepare_completion(self._manager.now_ms)
        then(ErrorCode.none)
        self._markers.begin(transaction, coordinator_epoch, transit)

    # ------------------------------------------------------------------ timeouts

    def abort_timed_out(self) -> None:
        """Aborts transactions that have timed out; a higher epoch fences their producers."""
        timed_out = [
            transaction
            for owner in self._manager.owned.values()
            for transaction in owner.transactions.values()
            if transaction.has_timed_out(self._manager.now_ms)
        ]
        for transaction in timed_out:
            if isinstance(self._manager.owner_of(transaction.transactional_id), ErrorCode):
                continue  # the partition is being loaded again
            self._abort(transaction)

    def _abort(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        transit = transaction.prepare_epoch_fence()

        def tell(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                self._manager.say(
                    Level.INFO,
                    "Completed rollback of ongoing transaction for transactionalId"
                    f" {transactional_id} due to timeout",
                )
            elif error in _CANCELLED:
                self._manager.say(
                    Level.DEBUG,
                    f"Rollback of ongoing transaction for transactionalId {transactional_id} has"
                    f" been cancelled due to error {error.name.upper()}",
                )
            else:
                self._manager.say(
                    Level.WARN,
                    f"Rollback of ongoing transaction for transactionalId {transactional_id}"
                    f" failed due to error {error.name.upper()}",
                )

        self.end(
            transactional_id,
            transit.producer_id,
            transit.producer_epoch,
            is_commit=False,
            is_from_client=False,
            then=tell,
        )


def _refusal(transaction: Transaction, *, is_commit: bool) -> ErrorCode | None:
    """The result of EndTxn if the transaction is not Ongoing; None if it must be ended now."""
    match transaction.state:
        case TransactionState.ONGOING:
            return None
        case TransactionState.COMPLETE_COMMIT:
            return ErrorCode.none if is_commit else ErrorCode.invalid_txn_state
        case TransactionState.COMPLETE_ABORT:
            return ErrorCode.invalid_txn_state if is_commit else ErrorCode.none
        case TransactionState.PREPARE_COMMIT:
            # The producer sends EndTxn again, because it did not get the first response.
            return ErrorCode.concurrent_transactions if is_commit else ErrorCode.invalid_txn_state
        case TransactionState.PREPARE_ABORT:
            return ErrorCode.invalid_txn_state if is_commit else ErrorCode.concurrent_transactions
        case TransactionState.EMPTY:
            return ErrorCode.invalid_txn_state
        case TransactionState.DEAD | TransactionState.PREPARE_EPOCH_FENCE:
            raise IllegalState(f"{transaction.transactional_id} is {transaction.state.label}")
