"""Removes the transactional ids unused for ``transactional.id.expiration.ms``.

Source: Kafka ``TransactionStateManager.removeExpiredTransactionalIds``.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.errors import IllegalState
from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.transactions.config import MAX_TOMBSTONE_BATCH_BYTES
from replica_manager.coordinators.transactions.records import encode_key
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import Transaction
from replica_manager.coordinators.transactions.transaction_state_manager import (
    OwnedPartition,
    TransactionStateManager,
)


class TransactionalIdExpiration:
    """Removes expired ids once their tombstones are in the log."""

    def __init__(self, manager: TransactionStateManager) -> None:
        self._manager = manager

    def sweep(self) -> None:
        """Appends tombstones for expired ids, at most some 16 KB of keys in one batch."""
        for partition, owner in self._manager.owned.items():
            if partition in self._manager.loading:
                continue
            batch: list[tuple[Transaction, SimpleRecord]] = []
            size = 0
            for transaction in owner.transactions.values():
                if not self._is_expired(transaction):
                    continue
                transaction.prepare_death()
                key = encode_key(transaction.transactional_id)
                if batch and size + len(key) > MAX_TOMBSTONE_BATCH_BYTES:
                    self._write(partition, owner, batch)
                    batch, size = [], 0
                batch.append((transaction, SimpleRecord(key, None)))
                size += len(key)
            if batch:
                self._write(partition, owner, batch)

    def _is_expired(self, transaction: Transaction) -> bool:
        oldest_ms = self._manager.now_ms - self._manager.config.transactional_id_expiration_ms
        return (
            transaction.pending_state is None
            and transaction.state.may_expire
            and transaction.last_update_ms <= oldest_ms
        )

    def _write(
        self, partition: int, owner: OwnedPartition, batch: list[tuple[Transaction, SimpleRecord]]
    ) -> None:
        manager = self._manager

        def when_written(error: ErrorCode) -> None:
            for transaction, _ in batch:
                if manager.owned.get(partition) is not owner:
                    return  # the partition was unloaded meanwhile, and maybe loaded again
                if transaction.pending_state is not TransactionState.DEAD:
                    raise IllegalState(f"{transaction.transactional_id} was not about to expire")
                if error is ErrorCode.none:
                    del owner.transactions[transaction.transactional_id]
                    continue
                transaction.pending_state = None
                manager.say_of_log(
                    Level.WARN,
                    "Failed to remove expired transactionalId:"
                    f" {transaction.transactional_id} from cache. Tombstone append error code:"
                    f" {error.name.upper()}",
                )

        manager.append(
            partition,
            [record for _, record in batch],
            manager.config.request_timeout_ms,
            when_written,
        )
