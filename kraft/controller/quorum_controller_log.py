"""The metadata log as the controller uses it: appends and replays records together.

Source: Kafka ``QuorumController.appendRecords``, ``replay``; ``LogReplayTracker``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState, InvalidRecord, RecordListTooLarge, RecordsRefused
from kraft.controller.offsets import NONE
from kraft.controller.quorum_controller_operations import AnyResult
from kraft.controller.quorum_controller_state import QuorumControllerState
from kraft.controller.quorum_controller_tasks import PeriodicTasks
from kraft.controller.quorum_controller_values import FatalFault, RaftAppender
from kraft.controller.result import VersionedRecord
from kraft.controller.timeline import TimelineValue
from kraft.metadata.codec import encode_record
from kraft.metadata.records import FeatureLevelRecord
from kraft.raft.accumulator import check_batch_size


class QuorumControllerLog:
    """Appends records to the log and replays them."""

    def __init__(
        self,
        state: QuorumControllerState,
        raft: RaftAppender,
        tasks: PeriodicTasks,
        max_records_per_batch: int,
    ) -> None:
        self._state = state
        self._raft = raft
        self._tasks = tasks
        self._max_records_per_batch = max_records_per_batch
        self._is_empty = TimelineValue(state.registry, True)

    @property
    def is_empty(self) -> bool:
        """Whether the log holds no effective record.

        Records that were undone with a lost leadership do not count.  Nor do records of an open
        transaction, which the next active controller aborts.
        """
        begun_at = self._state.offsets.transaction_start_offset
        return self._is_empty.get() if begun_at == NONE else self._is_empty.get(epoch=begun_at - 1)

    def append(self, result: AnyResult, epoch: int, now_ms: int) -> int:
        """Appends the records to the quorum's log and replays them; returns the last offset.

        ApiException if a record is too large, which a client can cause; then nothing is appended.
        NotLeader if the epoch has ended; IllegalState for an atomic result of too many records.
        """
        records, most = result.records, self._max_records_per_batch
        if result.is_atomic and len(records) > most:
            raise IllegalState(f"{len(records)} records cannot be one batch of {most}")
        batches = [records[start : start + most] for start in range(0, len(records), most)]
        # Encode all batches before the first append: if one is refused, none may be appended.
        encoded = [_encode(batch) for batch in batches]
        last_offset = 0
        for batch, values in zip(batches, encoded, strict=True):
            last_offset = self._append_batch(batch, values, epoch, now_ms)
        return last_offset

    def _append_batch(
        self,
        records: tuple[VersionedRecord, ...],
        values: Sequence[bytes],
        epoch: int,
        now_ms: int,
    ) -> int:
        last_offset = self._raft.prepare_append(epoch, values)
        # The records are replayed before the quorum may send them: one that cannot be replayed
        # must not reach the other nodes.
        self.replay(records, last_offset - len(records) + 1, now_ms)
        if any(isinstance(record, FeatureLevelRecord) for record, _ in records):
            self._tasks.after_feature_change(now_ms)
        self._raft.schedule_prepared_append()
        self._state.offsets.handle_schedule_append(last_offset, now_ms)
        return last_offset

    def replay(self, records: Iterable[VersionedRecord], base_offset: int, now_ms: int) -> None:
        """Replays records of consecutive offsets; :class:`FatalFault` if one fails."""
        try:
            for offset, versioned in enumerate(records, start=base_offset):
                self._replay_one(versioned, offset, now_ms)
        except RecordsRefused as error:
            raise FatalFault(f"cannot decode the batch at offset {base_offset}") from error

    def replay_snapshot(
        self, records: tuple[VersionedRecord, ...], last_offset: int, now_ms: int
    ) -> None:
        """Replays the records of a snapshot, each with the snapshot's last offset."""
        for versioned in records:
            self._replay_one(versioned, last_offset, now_ms)

    def _replay_one(self, versioned: VersionedRecord, offset: int, now_ms: int) -> None:
        self._is_empty.set(False)
        try:
            self._state.replay(versioned.record, offset, now_ms)
        except Exception as error:
            name = type(versioned.record).__name__
            raise FatalFault(f"cannot replay {name} at offset {offset}") from error


def _encode(records: tuple[VersionedRecord, ...]) -> list[bytes]:
    """The encoded records of one batch; ApiException if they do not fit into a batch.

    Kafka responds to a record with a too long field with UNKNOWN_SERVER_ERROR and resigns.  So one
    client could make one controller after the other resign.
    """
    try:
        values = [encode_record(record, version) for record, version in records]
        check_batch_size(values)
    except InvalidRecord as error:
        raise ApiException(ErrorCode.invalid_request, str(error)) from error
    except RecordListTooLarge as error:
        raise ApiException(ErrorCode.record_list_too_large, str(error)) from error
    return values
