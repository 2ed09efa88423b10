"""Between the controller's state and the log: records are appended, and replayed, in one go.

Source: Kafka ``QuorumController.appendRecords``, ``replay``; ``LogReplayTracker``.
"""

from __future__ import annotations

from zkcontroller.errors import IllegalState
from zkcontroller.kraft.controller.quorum_controller_operations import AnyResult
from zkcontroller.kraft.controller.quorum_controller_state import ControllerState
from zkcontroller.kraft.controller.quorum_controller_tasks import PeriodicTasks
from zkcontroller.kraft.controller.quorum_controller_values import FatalFault, RaftAppender
from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.metadata.records import FeatureLevelRecord


class MetadataLog:
    """The log as the controller writes and reads it."""

    def __init__(
        self,
        state: ControllerState,
        raft: RaftAppender,
        tasks: PeriodicTasks,
        max_records_per_batch: int,
    ) -> None:
        self._state = state
        self._raft = raft
        self._tasks = tasks
        self._max_records_per_batch = max_records_per_batch
        self.is_empty = True
        """Whether nothing was ever replayed."""

    def append(self, result: AnyResult, epoch: int, now_ms: int) -> int:
        """Hands the records to the quorum and replays them; gives the offset of the last one.

        NotLeader if the epoch is over; IllegalState for an atomic result of too many records.
        """
        records, most = result.records, self._max_records_per_batch
        if result.is_atomic and len(records) > most:
            raise IllegalState(f"{len(records)} records cannot be one batch of {most}")
        last_offset = 0
        for start in range(0, len(records), most):
            last_offset = self._append_batch(records[start : start + most], epoch, now_ms)
        return last_offset

    def _append_batch(self, records: tuple[VersionedRecord, ...], epoch: int, now_ms: int) -> int:
        last_offset = self._raft.prepare_append(epoch, records)
        # Replay comes before the quorum may send anything: a record that cannot be replayed must
        # not reach the others.
        self.replay(records, last_offset - len(records) + 1, now_ms)
        if any(isinstance(record, FeatureLevelRecord) for record, _ in records):
            self._tasks.after_feature_change(now_ms)
        self._raft.schedule_prepared_append()
        self._state.offsets.handle_schedule_append(last_offset, now_ms)
        return last_offset

    def replay(self, records: tuple[VersionedRecord, ...], base_offset: int, now_ms: int) -> None:
        """Replays records of consecutive offsets; :class:`FatalFault` if one cannot be."""
        for offset, versioned in enumerate(records, start=base_offset):
            self._replay_one(versioned, offset, now_ms)

    def replay_snapshot(
        self, records: tuple[VersionedRecord, ...], last_offset: int, now_ms: int
    ) -> None:
        """Replays what a snapshot holds, all of it as of its last offset."""
        for versioned in records:
            self._replay_one(versioned, last_offset, now_ms)

    def _replay_one(self, versioned: VersionedRecord, offset: int, now_ms: int) -> None:
        self.is_empty = False
        try:
            self._state.replay(versioned.record, offset, now_ms)
        except Exception as error:
            name = type(versioned.record).__name__
            raise FatalFault(f"cannot replay {name} at offset {offset}") from error
