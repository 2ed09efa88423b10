"""Inputs and outputs of the quorum controller, as values.

Source: Kafka ``QuorumController``, ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from kafka_common.api_error import ApiException
from kafka_common.errors import ZkControllerError
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.controller.result import VersionedRecord
from kraft.controller.topic_requests import PartitionChangeQuota
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch

NOT_ACTIVE: Final = -1
"""The claim epoch of a standby."""


class FatalFault(ZkControllerError):
    """The controller's state is inconsistent: the process must end.

    Source: Kafka ``ProcessTerminatingFaultHandler``.
    """


def unlimited(partition_count: int) -> None:
    """The partition change quota of a client without a limit."""
    assert partition_count >= 0


# ---------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True)
class ControllerRequestReceived:
    """A request arrived; the output with its response or error has the same ``request_id``."""

    request_id: int
    request: ControllerRequest
    deadline_ms: int | None = None
    """The time at which the request times out if it is still queued."""
    apply_partition_change_quota: PartitionChangeQuota = unlimited


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch of the log; ``records`` is empty for a batch of control records.

    An active controller has replayed them before; only a standby reads them.
    """

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp_ms: int
    records: Collection[VersionedRecord]


@dataclass(frozen=True, slots=True)
class CommitHandled:
    """The quorum has committed these batches."""

    batches: tuple[CommittedBatch, ...]


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The state is replaced by a snapshot, which holds these records."""

    snapshot_id: OffsetAndEpoch
    records: tuple[VersionedRecord, ...]
    last_contained_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The quorum has a new leader or a new epoch."""

    leader: LeaderAndEpoch


@dataclass(frozen=True, slots=True)
class QueueMark:
    """A mark that the owner queues; it is returned as an output after all events before it."""

    what: object


ControllerInput: TypeAlias = (
    ControllerRequestReceived | CommitHandled | SnapshotLoaded | LeaderChanged | QueueMark
)


# ---------------------------------------------------------------------- outputs


@dataclass(frozen=True, slots=True)
class ControllerRequestCompleted:
    """The response to a request, sent after all its records are committed."""

    request_id: int
    response: object


@dataclass(frozen=True, slots=True)
class ControllerRequestFailed:
    """The request is refused as a whole."""

    request_id: int
    error: ApiException


@dataclass(frozen=True, slots=True)
class NonFatalFault:
    """An unexpected error; the controller has given up its leadership."""

    event: str
    error: Exception


ControllerOutput: TypeAlias = (
    ControllerRequestCompleted | ControllerRequestFailed | NonFatalFault | QueueMark
)


# ---------------------------------------------------------------------- the quorum


class RaftAppender(Protocol):
    """The quorum's interface for the controller.

    Source: Kafka ``RaftClient``.
    """

    @property
    def leader_id(self) -> int | None:
        """The id of the quorum's leader that this node knows; None if unknown."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record, after those that are prepared but not written yet."""

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Prepares encoded records as one batch, without sending them; returns the last offset.

        :class:`~kafka_common.errors.NotLeader` if the epoch has ended.
        """

    def schedule_prepared_append(self) -> None:
        """Appends the prepared records."""

    def resign(self, epoch: int) -> None:
        """Gives up the leadership of that epoch; does nothing if the epoch has ended."""


@dataclass(slots=True)
class ControllerCounters:
    """The controller's counters since its start.

    Source: Kafka ``QuorumControllerMetrics``.
    """

    operations_started: int = 0
    operations_timed_out: int = 0
    timed_out_heartbeats: int = 0
    new_active_controllers: int = 0
    metadata_errors: int = 0
