"""The coordinator's partitions of ``__transaction_state``: loading and unloading.

The new leader of a partition reads the log from its start to its end; the last record of an id
counts.  If a transaction's end was decided, its markers are sent again with the new coordinator
epoch.  A partition that already has the marker gets a second one, which has no effect.

Source: Kafka ``TransactionStateManager`` (``loadTransactionsForTxnTopicPartition``,
``removeTransactionsForTxnTopicPartition``).
Deviation: a record that cannot be read is logged and skipped, where Kafka stops reading the
partition and serves the records before it.  A partition that cannot be read to its end is not
served.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replica_manager.coordinators.groups.events import Level, Load, LoadedBatch
from replica_manager.coordinators.transactions.config import MAX_INSTALLED_AT_ONCE
from replica_manager.coordinators.transactions.events import PartitionLoaded
from replica_manager.coordinators.transactions.markers import Markers
from replica_manager.coordinators.transactions.records import (
    TransactionRecordCorrupt,
    decode_key,
    decode_value,
)
from replica_manager.coordinators.transactions.transaction import Transaction
from replica_manager.coordinators.transactions.transaction_state_manager import (
    TRANSACTION_TOPIC,
    OwnedPartition,
    TransactionStateManager,
)
from zkcontroller.state_changes.kafka_values import option


@dataclass(slots=True)
class _PartitionLoad:
    """The records of a partition read so far."""

    partition: int
    coordinator_epoch: int
    began_ms: int
    values: dict[str, bytes] = field(default_factory=dict)
    """The value of the last record of each transactional id, decoded when the load ends."""
    to_install: list[str] = field(default_factory=list)
    """Transactional ids that are read but not created yet, the last one first."""
    transactions: dict[str, Transaction] = field(default_factory=dict)


class TransactionTopicPartitions:
    """Loads and unloads the transactional ids of the partitions that this broker leads."""

    def __init__(self, manager: TransactionStateManager, markers: Markers) -> None:
        self._manager = manager
        self._markers = markers
        self._loads: dict[int, _PartitionLoad] = {}
        """The current loads, by load id."""
        self._epochs: dict[int, int] = {}
        """The newest known leader epoch, by partition."""
        self._last_load_id = 0

    @property
    def has_more_to_install(self) -> bool:
        """Whether a partition was read to its end, but not all its ids are created yet."""
        return any(load.to_install for load in self._loads.values())

    # ------------------------------------------------------------------ elections

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Starts loading a partition that this broker leads, if the leader epoch is new."""
        manager = self._manager
        manager.say(
            Level.INFO,
            f"Elected as the txn coordinator for partition {partition} at epoch {leader_epoch}",
        )
        if leader_epoch <= self._epochs.get(partition, -1):
            return
        self._epochs[partition] = leader_epoch
        self._markers.forget(partition)
        self._drop_load(partition)
        self._last_load_id += 1
        manager.loading[partition] = self._last_load_id
        self._loads[self._last_load_id] = _PartitionLoad(partition, leader_epoch, manager.now_ms)
        manager.say_of_log(
            Level.INFO,
            f"Loading transaction metadata from {_name(partition)} at epoch {leader_epoch}",
        )
        manager.outbox.append(Load(partition, self._last_load_id))

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """Unloads the transactional ids of a partition that this broker no longer leads.

        ``leader_epoch`` is None if it is unknown; then the partition is unloaded in any case.
        """
        manager = self._manager
        manager.say(
            Level.INFO,
            f"Resigned as the txn coordinator for partition {partition} at epoch"
            f" {option(leader_epoch)}",
        )
        if leader_epoch is None:
            # A topic that is created again starts with a lower leader epoch.
            self._epochs.pop(partition, None)
        elif leader_epoch < self._epochs.get(partition, leader_epoch):
            return
        else:
            self._epochs[partition] = leader_epoch
        self._drop_load(partition)
        owner = manager.owned.pop(partition, None)
        self._markers.forget(partition)
        if owner is None:
            found = f"No cached transaction metadata found for {_name(partition)} during"
        else:
            found = (
                "Unloaded transaction metadata TxnMetadataCacheEntry("
                f"coordinatorEpoch={owner.coordinator_epoch},"
                f" numTransactionalEntries={len(owner.transactions)}) for {_name(partition)} on"
            )
        manager.say_of_log(Level.INFO, f"{found} become-follower transition")

    def give_up_all(self) -> None:
        """Unloads all partitions, because the broker stops."""
        for partition in list(self._manager.loading):
            self._drop_load(partition)
        for partition in list(self._manager.owned):
            del self._manager.owned[partition]
            self._markers.forget(partition)

    def _drop_load(self, partition: int) -> None:
        load_id = self._manager.loading.pop(partition, 0)
        self._loads.pop(load_id, None)

    # ------------------------------------------------------------------ reading

    def loaded(self, load_id: int, batches: tuple[LoadedBatch, ...]) -> None:
        """Handles the next batches of a load; ignores them if the load was cancelled."""
        load = self._loads.get(load_id)
        if load is None:
            return
        for batch in batches:
            if batch.is_control:
                continue
            for record in batch.records:
                try:
                    self._take(load, record.key, record.value)
                except TransactionRecordCorrupt as reason:
                    self._log_skipped(load, f"the record at offset {record.offset}", reason)

    def _take(self, load: _PartitionLoad, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise TransactionRecordCorrupt("Transaction state log's key should not be null")
        transactional_id = decode_key(key)
        if transactional_id is None:
            self._manager.say_of_log(
                Level.WARN,
                f"Unknown message key with version {int.from_bytes(key[:2], 'big', signed=True)}"
                f" while loading transaction state from {_name(load.partition)}. Ignoring it. It"
                " could be a left over from an aborted upgrade.",
            )
        elif value is None:
            load.values.pop(transactional_id, None)
        else:
            load.values[transactional_id] = value

    def _log_skipped(
        self, load: _PartitionLoad, what: str, reason: TransactionRecordCorrupt
    ) -> None:
        self._manager.say_of_log(
            Level.ERROR,
            f"Error loading transactions from transaction log {_name(load.partition)}: {what} is"
            f" passed over: {reason}",
        )

    def failed(self, load_id: int, reason: str) -> None:
        """Ends a load that failed; requests for its ids then get NOT_COORDINATOR."""
        load = self._loads.get(load_id)
        if load is not None:
            self._drop_load(load.partition)
            self._manager.owned.pop(load.partition, None)
            # A later election with the same leader epoch must start a new load.
            self._epochs.pop(load.partition, None)
            self._manager.say_of_log(
                Level.ERROR,
                f"Error loading transactions from transaction log {_name(load.partition)}:"
                f" {reason}",
            )

    def finished(self, load_id: int) -> None:
        """Ends the reading of a log: its ids are now created, some with each tick."""
        load = self._loads.get(load_id)
        if load is not None:
            load.to_install = list(reversed(load.values))
            self._install(load)

    def install_more(self) -> None:
        """Creates more of the transactional ids of a partition that was read to its end."""
        load = next((each for each in self._loads.values() if each.to_install), None)
        if load is not None:
            self._install(load)

    def _install(self, load: _PartitionLoad) -> None:
        for _ in range(min(len(load.to_install), MAX_INSTALLED_AT_ONCE)):
            transactional_id = load.to_install.pop()
            try:
                transaction = decode_value(transactional_id, load.values[transactional_id])
            except TransactionRecordCorrupt as reason:
                self._log_skipped(load, f"the last record of {transactional_id}", reason)
            else:
                load.transactions[transactional_id] = transaction
        if not load.to_install:
            self._serve(load)

    def _serve(self, load: _PartitionLoad) -> None:
        manager, duration_ms = self._manager, self._manager.now_ms - load.began_ms
        self._drop_load(load.partition)
        manager.owned[load.partition] = OwnedPartition(load.coordinator_epoch, load.transactions)
        manager.outbox.append(PartitionLoaded(duration_ms))
        manager.say_of_log(
            Level.INFO,
            f"Finished loading {len(load.transactions)} transaction metadata from"
            f" {_name(load.partition)} in {duration_ms} milliseconds, of which 0 milliseconds was"
            " spent in the scheduler.",
        )
        for transaction in load.transactions.values():
            if transaction.state.is_ending:
                manager.say_of_log(
                    Level.INFO,
                    f"Sending txn markers for {transaction.transactional_id} after loading"
                    f" partition {load.partition}",
                )
                transit = transaction.prepare_completion(manager.now_ms)
                self._markers.begin(transaction, load.coordinator_epoch, transit)
        manager.say_of_log(
            Level.INFO,
            f"Completed loading transaction metadata from {_name(load.partition)} for coordinator"
            f" epoch {load.coordinator_epoch}",
        )


def _name(partition: int) -> str:
    return f"{TRANSACTION_TOPIC}-{partition}"
