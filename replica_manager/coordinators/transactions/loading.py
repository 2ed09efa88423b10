"""The coordinator's partitions of ``__transaction_state``: loading and unloading.

The elected leader of a partition reads its log from the start to the end; the last record of
an id counts.  A transaction whose end was decided goes on from there: its markers are sent again,
under the new epoch, and a partition that has one already gets a second, which changes nothing.

Source: Kafka ``TransactionStateManager`` (``loadTransactionsForTxnTopicPartition``,
``removeTransactionsForTxnTopicPartition``).
Deviation: a record that cannot be read is logged and passed over, where Kafka gives up the rest of
the partition and serves what came before; a partition that cannot be read to its end is not served.
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


@dataclass(slots=True)
class _PartitionLoad:
    """The records of a partition read so far."""

    partition: int
    coordinator_epoch: int
    began_ms: int
    values: dict[str, bytes] = field(default_factory=dict)
    """The last record of each id, undecoded: only the last one matters."""
    to_install: list[str] = field(default_factory=list)
    """Ids that are read to the end and not made yet, last first."""
    transactions: dict[str, Transaction] = field(default_factory=dict)


class TransactionTopicPartitions:
    """The loaded partitions, and those being loaded."""

    def __init__(self, manager: TransactionStateManager, markers: Markers) -> None:
        self._manager = manager
        self._markers = markers
        self._loads: dict[int, _PartitionLoad] = {}
        """By load id."""
        self._epochs: dict[int, int] = {}
        """The newest leader epoch seen of each partition."""
        self._last_load_id = 0

    @property
    def has_more_to_install(self) -> bool:
        """Whether a partition was read to its end and is not installed completely."""
        return any(load.to_install for load in self._loads.values())

    # ------------------------------------------------------------------ coming and going

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker became leader: starts loading the partition."""
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
        """This broker is not the leader any more: unloads the partition's transactions."""
        manager = self._manager
        manager.say(
            Level.INFO,
            f"Resigned as the txn coordinator for partition {partition} at epoch {leader_epoch}",
        )
        if leader_epoch is None:
            # A replica that is made anew begins with any epoch.
            self._epochs.pop(partition, None)
        elif leader_epoch < self._epochs.get(partition, leader_epoch):
            return
        else:
            self._epochs[partition] = leader_epoch
        self._drop_load(partition)
        owner = manager.owned.pop(partition, None)
        self._markers.forget(partition)
        if owner is not None:
            manager.say_of_log(
                Level.INFO,
                f"Unloaded transaction metadata of {len(owner.transactions)} transactional ids for"
                f" {_name(partition)} on become-follower transition",
            )

    def give_up_all(self) -> None:
        """Unloads every partition: the broker stops."""
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
        """Takes more of the log; ignored if the load was cancelled."""
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
                    self._pass_over(load, f"the record at offset {record.offset}", reason)

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

    def _pass_over(self, load: _PartitionLoad, what: str, reason: TransactionRecordCorrupt) -> None:
        self._manager.say_of_log(
            Level.ERROR,
            f"Error loading transactions from transaction log {_name(load.partition)}: {what} is"
            f" passed over: {reason}",
        )

    def failed(self, load_id: int, reason: str) -> None:
        """The log could not be read: the partition is not served, because it would seem empty."""
        load = self._loads.get(load_id)
        if load is not None:
            self._drop_load(load.partition)
            self._manager.owned.pop(load.partition, None)
            # The same leadership may be announced again, and then is tried again.
            self._epochs.pop(load.partition, None)
            self._manager.say_of_log(
                Level.ERROR,
                f"Error loading transactions from transaction log {_name(load.partition)}:"
                f" {reason}",
            )

    def finished(self, load_id: int) -> None:
        """The end of the log was read: its transactions are installed, some with each tick."""
        load = self._loads.get(load_id)
        if load is not None:
            load.to_install = list(reversed(load.values))
            self._install(load)

    def install_more(self) -> None:
        """Installs more transactions of a partition that was read to its end."""
        load = next((each for each in self._loads.values() if each.to_install), None)
        if load is not None:
            self._install(load)

    def _install(self, load: _PartitionLoad) -> None:
        for _ in range(min(len(load.to_install), MAX_INSTALLED_AT_ONCE)):
            transactional_id = load.to_install.pop()
            try:
                transaction = decode_value(transactional_id, load.values[transactional_id])
            except TransactionRecordCorrupt as reason:
                self._pass_over(load, f"the last record of {transactional_id}", reason)
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


def _name(partition: int) -> str:
    return f"{TRANSACTION_TOPIC}-{partition}"
