"""The partitions of a transaction: added by producers, verified for brokers.

Source: Kafka ``TransactionCoordinator`` (``handleAddPartitionsToTransaction``,
``handleVerifyPartitionsInTransaction``, KIP-890).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.transactions.requests import (
    AddPartitions,
    ErrorResult,
    VerifyPartitions,
    VerifyResult,
)
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transaction
from replica_manager.coordinators.transactions.transaction_state_manager import (
    OwnedPartition,
    TransactionStateManager,
)


class TransactionPartitions:
    """Adds partitions to transactions, and verifies that they belong to them."""

    def __init__(self, manager: TransactionStateManager) -> None:
        self._manager = manager

    def add(self, request: AddPartitions) -> None:
        """Adds partitions once the record is in the log; the first ones begin a transaction."""

        def tell(error: ErrorCode) -> None:
            self._manager.respond(request.request_id, ErrorResult(error))

        found = self._found(request)
        if isinstance(found, ErrorCode):
            tell(found)
            return
        owner, transaction = found
        if transaction.pending_state is not None or transaction.state.is_ending:
            tell(ErrorCode.concurrent_transactions)
        elif transaction.state is TransactionState.ONGOING and all(
            partition in transaction.partitions for partition in request.partitions
        ):
            tell(ErrorCode.none)
        else:
            transit = transaction.prepare_partitions(request.partitions, self._manager.now_ms)
            self._manager.write(request.transactional_id, owner.coordinator_epoch, transit, tell)

    def verify(self, request: VerifyPartitions) -> VerifyResult:
        """The error of each partition; NONE if it belongs to the producer's transaction."""
        found = self._found(request)
        if isinstance(found, ErrorCode):
            return VerifyResult(dict.fromkeys(request.partitions, found))
        _, transaction = found
        if transaction.state.is_ending:
            error = ErrorCode.concurrent_transactions
            return VerifyResult(dict.fromkeys(request.partitions, error))
        return VerifyResult(
            {
                partition: ErrorCode.none
                if partition in transaction.partitions
                else ErrorCode.transaction_abortable
                for partition in request.partitions
            }
        )

    def _found(
        self, request: AddPartitions | VerifyPartitions
    ) -> tuple[OwnedPartition, Transaction] | ErrorCode:
        if not request.transactional_id:
            return ErrorCode.invalid_request
        owner = self._manager.owner_of(request.transactional_id)
        if isinstance(owner, ErrorCode):
            return owner
        transaction = owner.transactions.get(request.transactional_id)
        if transaction is None or transaction.producer_id != request.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        if transaction.producer_epoch != request.producer_epoch:
            return ErrorCode.producer_fenced
        return owner, transaction
