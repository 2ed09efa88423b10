"""What happens to the quorum controller, and what it wants done: values.

Source: Kafka ``QuorumController``, ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from zkcontroller.errors import ZkControllerError
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.quorum_controller_requests import ControllerRequest
from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.controller.topic_requests import PartitionChangeQuota
from zkcontroller.kraft.values import LeaderAndEpoch, OffsetAndEpoch

NOT_ACTIVE: Final = -1
"""The claim epoch of a standby."""


class FatalFault(ZkControllerError):
    """The controller's state cannot be trusted any more: the process must end.

    Source: Kafka ``ProcessTerminatingFaultHandler``.
    """


def unlimited(partition_count: int) -> None:
    """The quota of a client that may create and delete as many partitions as it likes."""
    assert partition_count >= 0


# ---------------------------------------------------------------------- inputs


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """Somebody asks; what becomes of it bears the same id."""

    request_id: int
    request: ControllerRequest
    deadline_ms: int | None = None
    """When to give up if its turn has not come."""
    apply_partition_change_quota: PartitionChangeQuota = unlimited


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch of the log; one that the quorum wrote for itself has no records."""

    base_offset: int
    last_offset: int
    epoch: int
    append_timestamp_ms: int
    records: tuple[VersionedRecord, ...]


@dataclass(frozen=True, slots=True)
class CommitHandled:
    """The quorum has committed these batches."""

    batches: tuple[CommittedBatch, ...]


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The log begins anew with a snapshot, which holds these records."""

    snapshot_id: OffsetAndEpoch
    records: tuple[VersionedRecord, ...]
    last_contained_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """The quorum has another leader, or another epoch."""

    leader: LeaderAndEpoch


ControllerInput: TypeAlias = RequestReceived | CommitHandled | SnapshotLoaded | LeaderChanged


# ---------------------------------------------------------------------- outputs


@dataclass(frozen=True, slots=True)
class RequestCompleted:
    """The answer to a request; every record it speaks of is committed."""

    request_id: int
    response: object


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The request as a whole is refused."""

    request_id: int
    error: ApiException


@dataclass(frozen=True, slots=True)
class NonFatalFault:
    """Something that should not happen did; the controller has given up its leadership for it."""

    event: str
    error: Exception


ControllerOutput: TypeAlias = RequestCompleted | RequestFailed | NonFatalFault


# ---------------------------------------------------------------------- the quorum below


class RaftAppender(Protocol):
    """What the controller asks of the quorum.

    Source: Kafka ``RaftClient``.
    """

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes, those included that are prepared or wait to be appended."""

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version."""

    def prepare_append(self, epoch: int, values: Sequence[bytes]) -> int:
        """Takes encoded records as one batch, without sending them yet; gives the last offset.

        :class:`~zkcontroller.errors.NotLeader` if the epoch is over.
        """

    def schedule_prepared_append(self) -> None:
        """What was prepared may go."""

    def resign(self, epoch: int) -> None:
        """Gives up the leadership of that epoch; nothing happens if it is over."""


@dataclass(slots=True)
class ControllerCounters:
    """What the controller counts since its start.

    Source: Kafka ``QuorumControllerMetrics``.
    """

    operations_started: int = 0
    operations_timed_out: int = 0
    timed_out_heartbeats: int = 0
    new_active_controllers: int = 0
    metadata_errors: int = 0
