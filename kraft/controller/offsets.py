"""Committed, stable and next write offset of the controller, with their snapshots.

The *stable* offset is that of the newest state that readers may see: everything committed, except
the records of a metadata transaction that is still open.  The active controller is ahead of it,
with a snapshot of the state after each batch.  When it loses the leadership, it goes back to the
committed offset.

Source: Kafka ``OffsetControlManager`` (KIP-868 for the transactions).
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, assert_never

from kafka_common.errors import IllegalState
from kafka_common.observability.java_values import message_text
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineValue
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kraft.raft.values import OffsetAndEpoch

TransactionRecord: TypeAlias = (
    BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord
)

NONE: Final = -1
"""The value of an offset or epoch that does not exist yet."""


class BatchEnd(NamedTuple):
    """Offset, epoch and time of the end of a committed batch."""

    last_offset: int
    epoch: int
    append_timestamp_ms: int


class OffsetControlManager:
    """The offsets, and the in-memory snapshots that belong to them."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._logger = registry.logger("OffsetControlManager")
        self._loading: OffsetAndEpoch | None = None
        self.last_committed_offset = NONE
        self.last_committed_epoch = NONE
        self.last_stable_offset = NONE
        self._transaction_start_offset = TimelineValue(registry, NONE)
        self.next_write_offset = NONE
        """The offset of the active controller's next record; NONE on a standby."""

        # The values of metrics, which also count batches without records.
        self.last_committed_record_offset = NONE
        self.last_applied_record_offset = NONE
        self.last_applied_record_timestamp_ms = NONE
        registry.get_or_create_snapshot(NONE)

    @property
    def transaction_start_offset(self) -> int:
        """The offset of the open transaction; NONE if none is open.

        This value is reverted with the state: a transaction whose beginning was not committed was
        never open.
        """
        return self._transaction_start_offset.get()

    @property
    def is_active(self) -> bool:
        """Whether this controller is active."""
        return self.next_write_offset != NONE

    def activate(self, next_write_offset: int) -> None:
        """Makes the controller active; its first record gets that offset."""
        if self.is_active:
            raise IllegalState("the controller is active already")
        if next_write_offset < 0:
            raise IllegalState(f"{next_write_offset} is no offset to write at")
        # The state can always be reverted to the committed offset, also in an open transaction.
        self._registry.get_or_create_snapshot(self.last_committed_offset)
        self.next_write_offset = next_write_offset

    def deactivate(self) -> None:
        """Makes the controller a standby, with the state at the committed offset.

        Kafka reverts to the stable offset.  In an open transaction that is too far, because the
        transaction's committed records are not delivered again.  IllegalState if an uncommitted
        abort was replayed, which has deleted the state at the committed offset.
        """
        if not self.is_active:
            raise IllegalState("the controller is not active")
        self._registry.revert_to_snapshot(self.last_committed_offset)
        self.last_applied_record_offset = self.last_committed_offset
        self.next_write_offset = NONE

    def handle_commit_batch(self, batch: BatchEnd) -> None:
        """Handles a committed batch with records."""
        self.last_committed_offset = batch.last_offset
        self.last_committed_epoch = batch.epoch
        self._maybe_advance_last_stable_offset()
        self.handle_commit_batch_metrics(batch)

    def handle_commit_batch_metrics(self, batch: BatchEnd) -> None:
        """Handles any committed batch, also one of control records that the quorum wrote."""
        self.last_committed_record_offset = batch.last_offset
        if not self.is_active:
            self.last_applied_record_offset = batch.last_offset
            self.last_applied_record_timestamp_ms = batch.append_timestamp_ms

    def handle_schedule_append(self, last_offset: int, now_ms: int) -> None:
        """Records that all records up to ``last_offset`` are appended and replayed."""
        self.next_write_offset = last_offset + 1
        self._registry.get_or_create_snapshot(last_offset)
        self.last_applied_record_offset = last_offset
        self.last_applied_record_timestamp_ms = now_ms

    def _maybe_advance_last_stable_offset(self) -> None:
        stable = self.last_committed_offset
        begun_at = self._transaction_start_as_committed()
        if begun_at != NONE:
            stable = min(begun_at - 1, stable)
        if stable > self.last_stable_offset:
            self.last_stable_offset = stable
            self._registry.delete_snapshots_up_to(stable)
            if not self.is_active:
                self._registry.get_or_create_snapshot(stable)

    def _transaction_start_as_committed(self) -> int:
        """The offset of the transaction open at the committed offset; NONE if none is open.

        The active controller may already have ended it with records that are not committed.
        """
        if self.is_active and self._registry.has_snapshot(self.last_committed_offset):
            return self._transaction_start_offset.get(epoch=self.last_committed_offset)
        return self.transaction_start_offset

    # ------------------------------------------------------------------ snapshots of the quorum

    def begin_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Resets the offsets and the whole state, before a snapshot is loaded."""
        if self._loading is not None:
            raise IllegalState(f"{self._loading} is still being read, and not {snapshot_id}")
        self._loading = snapshot_id
        self._logger.info(
            "Starting to load snapshot %s. Previous lastCommittedOffset was %d. Previous "
            "transactionStartOffset was %d.",
            snapshot_id.file_stem, self.last_committed_offset, self.transaction_start_offset,
        )  # fmt: skip
        self._registry.reset()
        self.last_committed_offset = self.last_committed_epoch = NONE
        self.last_stable_offset = NONE
        self.next_write_offset = NONE

    def end_load_snapshot(self, timestamp_ms: int) -> None:
        """Completes the load of a snapshot; its last offset becomes the committed one.

        Kafka uses the snapshot's end offset, which is one higher.  That is also the offset of the
        next record, so the states with and without that record would have the same offset.
        """
        if self._loading is None:
            raise IllegalState("no snapshot is being read")
        end_offset, epoch = self._loading
        self._logger.info("Successfully loaded snapshot %s.", self._loading.file_stem)
        self._loading = None
        offset = end_offset - 1
        self._registry.get_or_create_snapshot(offset)
        self.last_committed_offset = self.last_stable_offset = offset
        self.last_committed_epoch = epoch
        self.last_committed_record_offset = self.last_applied_record_offset = offset
        self.last_applied_record_timestamp_ms = timestamp_ms

    # ------------------------------------------------------------------ transactions

    def replay(self, record: TransactionRecord, offset: int) -> None:
        """Replays a transaction record; :class:`IllegalState` if it is out of order."""
        if self._loading is not None:
            raise IllegalState(f"{record} within a snapshot")
        if isinstance(record, BeginTransactionRecord):
            self._begin_transaction(offset)
            self._logger.info("Replayed %s at offset %d.", message_text(record), offset)
            return
        begun_at = self.transaction_start_offset
        if begun_at == NONE:
            raise IllegalState(f"{record} at {offset}: no transaction is open")
        match record:
            case EndTransactionRecord():
                self._transaction_start_offset.set(NONE)
                self._logger.info("Replayed %s at offset %d.", message_text(record), offset)
            case AbortTransactionRecord():
                # This also sets the start offset back to NONE.
                self._registry.revert_to_snapshot(begun_at - 1)
                self._logger.info(
                    "Replayed %s at offset %d. Reverted to offset %d.",
                    message_text(record), offset, begun_at - 1,
                )  # fmt: skip
            case _:
                assert_never(record)

    def _begin_transaction(self, offset: int) -> None:
        if self.transaction_start_offset != NONE:
            begun_at = self.transaction_start_offset
            raise IllegalState(f"a transaction at {offset}: the one of {begun_at} is still open")
        self._registry.get_or_create_snapshot(offset - 1)
        self._transaction_start_offset.set(offset)
