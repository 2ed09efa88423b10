"""The shared state of the transaction coordinator: partitions, outputs, appends to the log.

Each loaded partition of ``__transaction_state`` has a coordinator epoch: the leader epoch in which
this broker leads it.  Work that began in another epoch has no effect, because another broker may
have been the leader in between.

Source: Kafka ``TransactionStateManager`` (``getTransactionState``, ``appendTransactionToLog``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.coordinated_partition import partition_for
from replica_manager.coordinators.groups.events import CoordinatorLogLine, Level
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.transactions.config import TransactionConfig
from replica_manager.coordinators.transactions.events import (
    AppendTransactionRecords,
    Output,
    TransactionResponse,
)
from replica_manager.coordinators.transactions.records import encode_key, encode_value
from replica_manager.coordinators.transactions.requests import Result
from replica_manager.coordinators.transactions.transaction import Transaction, Transit
from zkcontroller.state_changes.kafka_values import option

TRANSACTION_TOPIC: Final = "__transaction_state"

Continuation: TypeAlias = Callable[[ErrorCode], None]
"""Called once, with the error of an append."""

_COORDINATOR_LOG: Final = "kafka.coordinator.transaction.TransactionCoordinator"
_STATE_LOG: Final = "kafka.coordinator.transaction.TransactionStateManager"
_MARKER_LOG: Final = "kafka.coordinator.transaction.TransactionMarkerChannelManager"

_APPEND_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""The error that a producer gets if its record cannot be written, by append error.

Other errors stay the same.
"""


@dataclass(slots=True)
class OwnedPartition:
    """A loaded partition of ``__transaction_state``, with its transactional ids."""

    coordinator_epoch: int
    transactions: dict[str, Transaction] = field(default_factory=dict)


class TransactionStateManager:
    """The partitions, outputs and appends of one transaction coordinator."""

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self.now_ms = 0
        self.partition_count = 1
        self.owned: dict[int, OwnedPartition] = {}
        self.loading: dict[int, int] = {}
        """The id of the current load, by partition."""
        self.outbox: list[Output] = []
        self.continuations: dict[int, Continuation] = {}
        """The function to call with the result of an append, by append id."""
        self._last_append_id = 0

    # ------------------------------------------------------------------ transactions

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count)

    def owner_of(self, transactional_id: str) -> OwnedPartition | ErrorCode:
        """The loaded partition of the id, or an error if it is loading or not led here."""
        partition = self.partition_for(transactional_id)
        if partition in self.loading:
            return ErrorCode.coordinator_load_in_progress
        return self.owned.get(partition, ErrorCode.not_coordinator)

    def current(self, transactional_id: str, coordinator_epoch: int) -> Transaction | ErrorCode:
        """The id's state if its partition still has this coordinator epoch, else an error."""
        owner = self.owner_of(transactional_id)
        if isinstance(owner, ErrorCode):
            return owner
        if owner.coordinator_epoch != coordinator_epoch:
            return ErrorCode.not_coordinator
        return owner.transactions.get(transactional_id, ErrorCode.not_coordinator)

    @property
    def transaction_count(self) -> int:
        return sum(len(owner.transactions) for owner in self.owned.values())

    # ------------------------------------------------------------------ outputs

    def respond(self, request_id: int, result: Result) -> None:
        self.outbox.append(TransactionResponse(request_id, result))

    def say(self, level: Level, text: str) -> None:
        """Logs a line with Kafka's logger ``TransactionCoordinator``."""
        prefix = f"[TransactionCoordinator id={self.config.broker_id}] "
        self.outbox.append(CoordinatorLogLine(level, _COORDINATOR_LOG, prefix + text))

    def say_of_log(self, level: Level, text: str) -> None:
        """Logs a line about ``__transaction_state``, with logger ``TransactionStateManager``."""
        prefix = f"[Transaction State Manager {self.config.broker_id}]: "
        self.outbox.append(CoordinatorLogLine(level, _STATE_LOG, prefix + text))

    def say_of_markers(self, level: Level, text: str) -> None:
        """Logs a line about transaction markers, with their own logger."""
        prefix = f"[Transaction Marker Channel Manager {self.config.broker_id}]: "
        self.outbox.append(CoordinatorLogLine(level, _MARKER_LOG, prefix + text))

    # ------------------------------------------------------------------ the log

    def append(
        self, partition: int, records: Sequence[SimpleRecord], timeout_ms: int, then: Continuation
    ) -> None:
        """Appends records to a partition, and calls ``then`` with the result."""
        self._last_append_id += 1
        self.continuations[self._last_append_id] = then
        self.outbox.append(
            AppendTransactionRecords(
                self._last_append_id, partition, tuple(records), self.now_ms, timeout_ms
            )
        )

    def write(
        self,
        transactional_id: str,
        coordinator_epoch: int,
        transit: Transit,
        then: Continuation,
        *,
        stays_pending: bool = False,
    ) -> None:
        """Appends the next state of a transactional id, which takes effect once it is in the log.

        ``then`` is called with the error for the producer.  If the append fails, the prepared
        change is cancelled; with ``stays_pending`` it is kept, so that it can be written again.
        """
        known = self.current(transactional_id, coordinator_epoch)
        if isinstance(known, ErrorCode):
            then(known)
            return
        partition = self.partition_for(transactional_id)

        def when_appended(error: ErrorCode) -> None:
            response_error = _APPEND_ERRORS.get(error, error)
            transaction = self.current(transactional_id, coordinator_epoch)
            failed = (
                f"TransactionalId {transactional_id} append transaction log for {transit}"
                f" transition failed due to {response_error.name.upper()},"
            )
            if isinstance(transaction, ErrorCode):
                if response_error is ErrorCode.none:
                    response_error = transaction
                    failed = (
                        "The cached coordinator metadata does not exist in the cache anymore for"
                        f" {transactional_id} after appended its new metadata {transit} to the"
                        f" transaction log (txn topic partition {partition}) while it was"
                        f" {coordinator_epoch} before appending;"
                    )
                what = f"aborting state transition and returning {response_error.name.upper()} in"
                self.say_of_log(Level.INFO, f"{failed} {what} the callback")
            elif response_error is ErrorCode.none:
                transaction.complete(transit)
            else:
                state = transaction.pending_state
                pending = option(None if state is None else state.label)
                what = (
                    f"not resetting pending state {pending} but just returning the error in the"
                    " callback to let the caller retry"
                    if stays_pending
                    else f"resetting pending state from {pending}, aborting state transition and"
                    f" returning {response_error.name.upper()} in the callback"
                )
                self.say_of_log(Level.INFO, f"{failed} {what}")
                if not stays_pending:
                    transaction.pending_state = None
            then(response_error)

        self.append(
            partition,
            [SimpleRecord(encode_key(transactional_id), encode_value(transit))],
            transit.timeout_ms,
            when_appended,
        )
