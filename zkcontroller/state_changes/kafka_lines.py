"""State changes as lines of Kafka's ``state-change.log``.

:func:`kafka_line` returns level and message of one record, prefix included, exactly as Kafka 3.9
logs them with ``state.change.logger``.  :func:`level_of` returns the level alone, so that a TRACE
record that no file takes is never formatted.  :data:`FIELDS` lists the fields that each kind must
have.

Source: Kafka ``StateChangeLogger`` and its callers (``ZkPartitionStateMachine``,
``ZkReplicaStateMachine``, ``ControllerChannelManager``, ``KafkaController``, ``ReplicaManager``,
``Partition``, ``ZkMetadataCache``).  One deviation: sets print in the order of the record, not in
the order of Scala's hashing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zkcontroller.state_changes.broker_lines import BROKER_MESSAGES
from zkcontroller.state_changes.controller_lines import CONTROLLER_MESSAGES
from zkcontroller.state_changes.record import Kind, Reason, StateChange

STATE_CHANGE_LOGGER: Final = "state.change.logger"

_STATE: Final = "leader leader_epoch isr leader_recovery_state zk_version"
_REQUEST: Final = "correlation_id controller_id controller_epoch"
_REQUESTED_STATE: Final = (
    f"state_controller_epoch {_STATE} replicas adding_replicas removing_replicas is_new"
)

FIELDS: Final[dict[Kind, tuple[str, ...]]] = {
    kind: tuple(names.split())
    for kind, names in {
        # Also ``replicas`` if the new state is NewPartition, the leadership if OnlinePartition.
        Kind.PARTITION_STATE_CHANGED: "controller_epoch topic partition from_state to_state",
        Kind.PARTITION_STATE_FAILED: "controller_epoch topic partition from_state to_state cause",
        Kind.REPLICA_STATE_CHANGED: "controller_epoch topic partition replica from_state to_state",
        Kind.REPLICA_STATE_FAILED: (
            "controller_epoch topic partition replica from_state to_state cause"
        ),
        Kind.REPLICA_REMOVED_FROM_ISR: (
            f"controller_epoch topic partition replica {_STATE} state_controller_epoch"
        ),
        Kind.LEADER_AND_ISR_SENDING: "controller_epoch peer count other_count",
        Kind.LEADER_AND_ISR_SENDING_PARTITION: (
            f"controller_epoch role peer topic partition {_REQUESTED_STATE}"
        ),
        Kind.UPDATE_METADATA_SENDING: "controller_epoch peers count",
        # Also ``delete_partition`` below version 3 of the request.
        Kind.STOP_REPLICA_SENDING: "controller_epoch peer count",
        Kind.STOP_REPLICA_SENDING_PARTITION: (
            "controller_epoch peer topic partition leader_epoch delete_partition"
        ),
        Kind.RESPONSE_RECEIVED: (
            "controller_epoch request correlation_id peer peer_address response"
        ),
        Kind.RESPONSE_ERROR: "error request peer",
        Kind.REPLICAS_MARKED_OFFLINE: "partitions peer",
        Kind.REASSIGNMENT_SENT: (
            f"controller_epoch topic partition {_STATE} state_controller_epoch "
            "replicas adding_replicas removing_replicas"
        ),
        Kind.REASSIGNMENT_SEND_FAILED: (
            "controller_epoch topic partition replicas adding_replicas removing_replicas"
        ),
        Kind.CONTROLLER_ELECTED: "controller_epoch",
        Kind.CONTROLLER_RESIGNED: "",
        Kind.LEADER_AND_ISR_HANDLING: "correlation_id controller_id count",
        Kind.LEADER_AND_ISR_FINISHED: "elapsed_ms correlation_id controller_id count",
        Kind.LEADER_AND_ISR_RECEIVED_PARTITION: f"{_REQUEST} topic partition {_REQUESTED_STATE}",
        # Also the fields that the reason prints: see broker_lines.
        Kind.LEADER_AND_ISR_IGNORED: f"{_REQUEST} reason",
        Kind.LEADER_AND_ISR_FAILED: f"{_REQUEST} role cause",
        Kind.LEADER_STARTED: (
            "topic partition leader_epoch offset zk_version high_watermark isr adding_replicas "
            "removing_replicas previous_leader_epoch"
        ),
        Kind.LEADER_RECOVERED: "topic partition",
        Kind.FOLLOWER_STARTED: (
            "topic partition leader_epoch offset zk_version high_watermark leader "
            "previous_leader_epoch"
        ),
        # Also ``leader`` for a follower.
        Kind.TRANSITION_STARTED: f"{_REQUEST} role topic partition",
        Kind.TRANSITION_COMPLETED: f"{_REQUEST} role topic partition",
        # Also the fields that the reason prints: see broker_lines.
        Kind.TRANSITION_SKIPPED: "role topic partition reason",
        Kind.FETCHERS_STOPPED: f"{_REQUEST} role count",
        Kind.FETCHER_SKIPPED: f"{_REQUEST} topic partition leader",
        Kind.STOP_REPLICA_HANDLING: "correlation_id controller_id count",
        Kind.STOP_REPLICA_RECEIVED_PARTITION: (
            f"{_REQUEST} topic partition leader_epoch delete_partition"
        ),
        # Also the fields that the reason prints: see broker_lines.
        Kind.STOP_REPLICA_IGNORED: f"{_REQUEST} reason",
        Kind.METADATA_CACHED: f"{_REQUEST} count other_count",
        Kind.METADATA_CACHED_PARTITION: (
            f"{_REQUEST} topic partition state_controller_epoch leader leader_epoch isr "
            "zk_version replicas offline_replicas"
        ),
        Kind.METADATA_DELETED_PARTITION: f"{_REQUEST} topic partition",
        Kind.UPDATE_METADATA_IGNORED: f"{_REQUEST} latest_controller_epoch",
        Kind.TOPIC_ID_ASSIGNED: f"{_REQUEST} topic partition topic_id",
        Kind.TOPIC_ID_INCONSISTENT: "topic partition topic_id requested_topic_id",
        Kind.LEADER_UNAVAILABLE: f"{_REQUEST} topic partition state_controller_epoch leader",
    }.items()
}
"""The fields that a record must have for its line, by its kind."""


class KafkaLine(NamedTuple):
    """A line of the log; ``cause`` is the exception that Kafka prints on the lines after it."""

    level: str
    message: str
    cause: str | None = None


def kafka_line(record: StateChange) -> KafkaLine | None:
    """The line of a record; None for kinds that only the export knows."""
    build = _MESSAGE_OF.get(record.kind)
    if build is None:
        return None
    cause = record.cause if record.kind in _WITH_EXCEPTION else None
    return KafkaLine(level_of(record), _prefix(record) + build(record), cause)


def level_of(record: StateChange) -> str:
    """TRACE, INFO, WARN or ERROR, as Kafka logs this record."""
    kind = record.kind
    if kind is Kind.PARTITION_STATE_CHANGED:
        return "INFO" if record.to_state in ("NewPartition", "OnlinePartition") else "TRACE"
    if kind in (Kind.LEADER_AND_ISR_IGNORED, Kind.STOP_REPLICA_IGNORED):
        return _LEVEL_OF_REASON.get(record.reason or "", "WARN")
    if kind is Kind.TRANSITION_SKIPPED:
        return "ERROR" if record.reason == Reason.STORAGE_ERROR else "INFO"
    return _LEVEL_OF.get(kind, "INFO")


_LEVEL_OF: Final[dict[Kind, str]] = (
    dict.fromkeys(
        (
            Kind.REPLICA_STATE_CHANGED,
            Kind.LEADER_AND_ISR_SENDING_PARTITION,
            Kind.STOP_REPLICA_SENDING_PARTITION,
            Kind.RESPONSE_RECEIVED,
            Kind.LEADER_AND_ISR_RECEIVED_PARTITION,
            Kind.TRANSITION_STARTED,
            Kind.TRANSITION_COMPLETED,
            Kind.FETCHER_SKIPPED,
            Kind.STOP_REPLICA_RECEIVED_PARTITION,
            Kind.METADATA_CACHED_PARTITION,
            Kind.METADATA_DELETED_PARTITION,
        ),
        "TRACE",
    )
    | dict.fromkeys(
        (
            Kind.PARTITION_STATE_FAILED,
            Kind.REPLICA_STATE_FAILED,
            Kind.RESPONSE_ERROR,
            Kind.REASSIGNMENT_SEND_FAILED,
            Kind.LEADER_AND_ISR_FAILED,
            Kind.TOPIC_ID_INCONSISTENT,
            Kind.LEADER_UNAVAILABLE,
        ),
        "ERROR",
    )
    | {Kind.UPDATE_METADATA_IGNORED: "WARN"}
)

_LEVEL_OF_REASON: Final[dict[str, str]] = {
    Reason.SAME_LEADER_EPOCH: "INFO",
    Reason.UNEXPECTED_ERROR: "ERROR",
}

_WITH_EXCEPTION: Final = frozenset(
    {Kind.PARTITION_STATE_FAILED, Kind.REPLICA_STATE_FAILED, Kind.LEADER_AND_ISR_FAILED}
)

# Kafka logs these two kinds with the logger that has no epoch.
_WITHOUT_EPOCH: Final = frozenset({Kind.RESPONSE_ERROR, Kind.REPLICAS_MARKED_OFFLINE})

_MESSAGE_OF: Final = CONTROLLER_MESSAGES | BROKER_MESSAGES


def _prefix(r: StateChange) -> str:
    if r.component == "broker":
        return f"[Broker id={r.broker_id}] "
    if r.kind in _WITHOUT_EPOCH:
        return f"[Controller id={r.broker_id}] "
    return f"[Controller id={r.broker_id} epoch={r.controller_epoch}] "
