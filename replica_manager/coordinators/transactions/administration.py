"""ListTransactions and DescribeTransactions.

Source: Kafka ``TransactionCoordinator`` (``handleListTransactions``,
``handleDescribeTransactions``; KIP-664, KIP-994).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.transactions.requests import (
    DescribedTransaction,
    ListedTransaction,
    ListTransactions,
    ListTransactionsResult,
)
from replica_manager.coordinators.transactions.states import STATE_OF_LABEL
from replica_manager.coordinators.transactions.transaction import Transaction
from replica_manager.coordinators.transactions.transaction_state_manager import (
    TransactionStateManager,
)


class TransactionDescriptions:
    """Lists and describes transactional ids."""

    def __init__(self, manager: TransactionStateManager) -> None:
        self._manager = manager

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """The state of the transactional id, or an error if it cannot be described."""
        if not transactional_id:
            return DescribedTransaction(transactional_id, ErrorCode.invalid_request)
        owner = self._manager.owner_of(transactional_id)
        if isinstance(owner, ErrorCode):
            return DescribedTransaction(transactional_id, owner)
        found = owner.transactions.get(transactional_id)
        if found is None:
            return DescribedTransaction(transactional_id, ErrorCode.transactional_id_not_found)
        return DescribedTransaction(
            transactional_id,
            ErrorCode.none,
            found.producer_id,
            found.producer_epoch,
            found.state.label,
            found.timeout_ms,
            found.start_ms,
            tuple(found.partitions),
        )

    def list(self, request: ListTransactions) -> ListTransactionsResult:
        """The transactional ids that pass all filters, and the filters' unknown state names.

        COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded.
        """
        if self._manager.loading:
            return ListTransactionsResult(ErrorCode.coordinator_load_in_progress)
        known = {STATE_OF_LABEL[name] for name in request.states if name in STATE_OF_LABEL}
        producer_ids = frozenset(request.producer_ids)
        begun_before_ms = self._manager.now_ms - request.longer_than_ms

        def passes(transaction: Transaction) -> bool:
            return (
                (not request.states or transaction.state in known)
                and (not producer_ids or transaction.producer_id in producer_ids)
                and (request.longer_than_ms < 0 or transaction.start_ms < begun_before_ms)
            )

        return ListTransactionsResult(
            ErrorCode.none,
            tuple(
                ListedTransaction(each.transactional_id, each.producer_id, each.state.label)
                for owner in self._manager.owned.values()
                for each in owner.transactions.values()
                if passes(each)
            ),
            tuple(dict.fromkeys(each for each in request.states if each not in STATE_OF_LABEL)),
        )
