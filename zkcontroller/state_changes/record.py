"""One state change, as a value: what the controller decided or a broker did.

The same record becomes a line of Kafka's ``state-change.log`` (:mod:`.kafka_lines`) and a line of
our typed export ``state-changes.jsonl`` (:mod:`.export`).  Controller and broker share one flat
schema, in which most fields are None, so that a reader needs no joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, overload
from uuid import UUID

from typing_extensions import override

from kafka_common.model import LeaderAndIsr


class Kind(StrEnum):
    """The kind of a state change; the comment shows its line in Kafka's log."""

    # controller
    PARTITION_STATE_CHANGED = "partition_state_changed"  # Changed partition … state from … to …
    PARTITION_STATE_FAILED = "partition_state_failed"  # … failed to change state for partition …
    REPLICA_STATE_CHANGED = "replica_state_changed"  # Changed state of replica … (TRACE)
    REPLICA_STATE_FAILED = "replica_state_failed"  # … initiated state change of replica … failed
    REPLICA_REMOVED_FROM_ISR = "replica_removed_from_isr"  # … after removing replica …
    LEADER_AND_ISR_SENDING = "leader_and_isr_sending"  # Sending LeaderAndIsr request to broker …
    LEADER_AND_ISR_SENDING_PARTITION = (
        "leader_and_isr_sending_partition"  # Sending become-… (TRACE)
    )
    UPDATE_METADATA_SENDING = "update_metadata_sending"  # Sending UpdateMetadata request …
    STOP_REPLICA_SENDING = "stop_replica_sending"  # Sending StopReplica request for … replicas
    STOP_REPLICA_SENDING_PARTITION = "stop_replica_sending_partition"  # Sending … (TRACE)
    RESPONSE_RECEIVED = "response_received"  # Received response … for request … (TRACE)
    RESPONSE_ERROR = "response_error"  # Received error … in … response … from broker …
    REPLICAS_MARKED_OFFLINE = "replicas_marked_offline"  # Mark replicas … on broker … as offline
    REASSIGNMENT_SENT = "reassignment_sent"  # Sent LeaderAndIsr request … being reassigned …
    REASSIGNMENT_SEND_FAILED = "reassignment_send_failed"  # Failed to send … being reassigned …
    CONTROLLER_ELECTED = "controller_elected"  # export only: controller.log says it
    CONTROLLER_RESIGNED = "controller_resigned"  # export only: controller.log says it

    # broker
    LEADER_AND_ISR_HANDLING = "leader_and_isr_handling"  # Handling LeaderAndIsr request …
    LEADER_AND_ISR_FINISHED = "leader_and_isr_finished"  # Finished LeaderAndIsr request in …ms
    LEADER_AND_ISR_RECEIVED_PARTITION = "leader_and_isr_received_partition"  # Received … (TRACE)
    LEADER_AND_ISR_IGNORED = "leader_and_isr_ignored"  # Ignoring LeaderAndIsr request …
    LEADER_STARTED = "leader_started"  # Leader … with topic id … starts at leader epoch …
    FOLLOWER_STARTED = "follower_started"  # Follower … starts at leader epoch …
    TRANSITION_STARTED = "transition_started"  # Handling … starting the become-… (TRACE)
    TRANSITION_COMPLETED = "transition_completed"  # Completed LeaderAndIsr request … (TRACE)
    TRANSITION_SKIPPED = "transition_skipped"  # Skipped the become-… state change …
    FETCHERS_STOPPED = "fetchers_stopped"  # Stopped fetchers as part of …
    FETCHER_SKIPPED = "fetcher_skipped"  # Skipped the adding-fetcher step … (TRACE)
    STOP_REPLICA_HANDLING = "stop_replica_handling"  # Handling StopReplica request …
    STOP_REPLICA_RECEIVED_PARTITION = "stop_replica_received_partition"  # Received … (TRACE)
    STOP_REPLICA_IGNORED = "stop_replica_ignored"  # Ignoring StopReplica request …
    METADATA_CACHED = "metadata_cached"  # Add … partitions and deleted … from metadata cache
    METADATA_CACHED_PARTITION = "metadata_cached_partition"  # Cached leader info … (TRACE)
    METADATA_DELETED_PARTITION = "metadata_deleted_partition"  # Deleted partition … (TRACE)
    TOPIC_ID_ASSIGNED = "topic_id_assigned"  # Updating log for … to assign topic ID …
    TOPIC_ID_INCONSISTENT = "topic_id_inconsistent"  # Topic ID in memory: … does not match …
    LEADER_UNAVAILABLE = "leader_unavailable"  # … cannot become follower since the new leader …
    UPDATE_METADATA_IGNORED = "update_metadata_ignored"  # Received update metadata request … old …
    LEADER_AND_ISR_FAILED = "leader_and_isr_failed"  # Error while processing LeaderAndIsr request …
    LEADER_RECOVERED = "leader_recovered"  # … was marked as RECOVERING. Marking … as RECOVERED.


class StateChange(NamedTuple):
    """One state change; fields that do not apply are None.  The writer adds the time."""

    kind: Kind
    component: str
    """``controller`` or ``broker``."""
    broker_id: int
    """The id of the controller or broker that makes the record."""
    controller_epoch: int | None = None
    """In a controller its own epoch; in a broker the controller epoch of the request."""
    controller_id: int | None = None
    """In a broker: the id of the controller that sent the request."""
    topic: str | None = None
    partition: int | None = None
    replica: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    zk_version: int | None = None
    leader_recovery_state: int | None = None
    state_controller_epoch: int | None = None
    """Epoch of the controller that last wrote the partition's state."""
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] | None = None
    is_new: bool | None = None
    topic_id: UUID | None = None
    peer: int | None = None
    """The broker to which a request was sent or from which a response came."""
    peer_address: str | None = None
    """``host:port`` of that broker; Kafka's log prints ``host:port (id: 2 rack: null)`` from it,
    ``peer`` and ``peer_rack``."""
    peers: tuple[int, ...] | None = None
    request: str | None = None
    """``LeaderAndIsr``, ``UpdateMetadata`` or ``StopReplica``."""
    correlation_id: int | None = None
    error: str | None = None
    """Kafka's name of the error code, e.g. ``STALE_BROKER_EPOCH``."""
    count: int | None = None  # type: ignore[assignment]  # hides tuple.count, which is not called
    """Number of partitions or replicas in the request; of leaders, if ``other_count`` is set."""
    other_count: int | None = None
    """Number of followers in a LeaderAndIsr, of deleted partitions in an UpdateMetadata."""
    delete_partition: bool | None = None
    current_leader_epoch: int | None = None
    """The leader epoch that the broker has, if it ignores a request because of that."""
    latest_controller_epoch: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    previous_leader: int | None = None
    previous_leader_epoch: int | None = None
    elapsed_ms: int | None = None
    role: str | None = None
    """The replica's role after the transition: ``leader`` or ``follower``."""
    reason: str | None = None
    """Why something was ignored or skipped: a member of :class:`Reason`."""
    cause: str | None = None
    """Class and message of the exception that Kafka prints on the lines after this one."""
    partitions: tuple[str, ...] | None = None
    """Several partitions in one record (``Mark replicas``), as ``topic-N``."""
    peer_rack: str | None = None
    """Rack of the broker ``peer``."""
    response: str | None = None
    """The response as Kafka prints it (``StopReplicaResponseData(errorCode=0, …)``)."""
    requested_topic_id: UUID | None = None
    """``topic_id_inconsistent``: the id in the request; ``topic_id`` is that of the log."""
    current_partition_epoch: int | None = None
    """The partition epoch that the broker has, if it skips a transition because of that."""
    under_min_isr: bool | None = None
    """``leader_started``: whether there are fewer in-sync replicas than min.insync.replicas."""


_PARTITION: Final = slice(
    StateChange._fields.index("topic"), StateChange._fields.index("partition") + 1
)
_LEADERSHIP: Final = slice(
    StateChange._fields.index("leader"), StateChange._fields.index("state_controller_epoch") + 1
)
assert list(StateChange._fields)[_PARTITION] == ["topic", "partition"]
assert list(StateChange._fields)[_LEADERSHIP] == [
    "leader",
    "leader_epoch",
    "isr",
    "zk_version",
    "leader_recovery_state",
    "state_controller_epoch",
]


class AlikeStateChanges(Sequence[StateChange]):
    """State changes that are equal except for the partition and, possibly, its leadership.

    A failed broker causes 40,000 of them at once; they are stored as columns until they are read.
    """

    def __init__(
        self,
        alike: StateChange,
        topics: Sequence[str],
        partitions: Sequence[int],
        states: Sequence[LeaderAndIsr] = (),
    ) -> None:
        """``alike`` has the common fields; ``states`` is empty or has one per partition."""
        assert len(topics) == len(partitions)
        assert len(states) in (0, len(topics))
        self._alike = alike
        self._topics = topics
        self._partitions = partitions
        self._states = states

    @override
    def __len__(self) -> int:
        return len(self._topics)

    @overload
    def __getitem__(self, index: int) -> StateChange: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[StateChange]: ...

    @override
    def __getitem__(self, index: int | slice) -> StateChange | Sequence[StateChange]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        alike = self._alike
        partition = (self._topics[index], self._partitions[index])
        leadership: tuple[object, ...] = alike[_LEADERSHIP.start : _LEADERSHIP.stop]
        if self._states:
            leader, leader_epoch, isr, zk_version, controller_epoch, recovery = self._states[index]
            leadership = (leader, leader_epoch, isr, zk_version, recovery, controller_epoch)
        # _replace by name takes several times as long.
        fields = (
            alike[: _PARTITION.start]
            + partition
            + alike[_PARTITION.stop : _LEADERSHIP.start]
            + leadership
            + alike[_LEADERSHIP.stop :]
        )
        return tuple.__new__(StateChange, fields)


class Reason(StrEnum):
    """Why a broker ignored or skipped (part of) a request."""

    OFFLINE_LOG_DIRECTORY = "offline_log_directory"
    NOT_ASSIGNED = "not_assigned"
    STALE_LEADER_EPOCH = "stale_leader_epoch"
    SAME_LEADER_EPOCH = "same_leader_epoch"
    STALE_CONTROLLER_EPOCH = "stale_controller_epoch"
    STALE_PARTITION_EPOCH = "stale_partition_epoch"
    ALREADY_LEADER = "already_leader"
    ALREADY_FOLLOWER = "already_follower"
    STORAGE_ERROR = "storage_error"
    UNEXPECTED_ERROR = "unexpected_error"
