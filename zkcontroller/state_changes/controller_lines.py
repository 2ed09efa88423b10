"""The messages that a controller logs in ``state-change.log``, by kind of record, without prefix.

Source: Kafka ``ZkPartitionStateMachine``, ``ZkReplicaStateMachine``, ``ControllerChannelManager``,
``KafkaController``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafka_common.observability.java_values import boolean, node
from zkcontroller.state_changes import kafka_values as text
from zkcontroller.state_changes.record import Kind, StateChange

_API_NAMES: Final = {
    "LeaderAndIsr": "LEADER_AND_ISR",
    "StopReplica": "STOP_REPLICA",
    "UpdateMetadata": "UPDATE_METADATA",
}


def _partition_state_changed(r: StateChange) -> str:
    subject = f"Changed partition {r.topic}-{r.partition}"
    if r.to_state == "OnlinePartition":
        state = text.leader_and_isr(r)
        return f"{subject} from {r.from_state} to {r.to_state} with state {state}"
    change = f"{subject} state from {r.from_state} to {r.to_state}"
    if r.to_state == "NewPartition":
        return f"{change} with assigned replicas {text.csv(r.replicas or ())}"
    return change


def _partition_state_failed(r: StateChange) -> str:
    return (
        f"Controller {r.broker_id} epoch {r.controller_epoch} failed to change state for partition "
        f"{r.topic}-{r.partition} from {r.from_state} to {r.to_state}"
    )


def _replica_state_changed(r: StateChange) -> str:
    return (
        f"Changed state of replica {r.replica} for partition {r.topic}-{r.partition} "
        f"from {r.from_state} to {r.to_state}"
    )


def _replica_state_failed(r: StateChange) -> str:
    return (
        f"Controller {r.broker_id} epoch {r.controller_epoch} initiated state change of replica "
        f"{r.replica} for partition {r.topic}-{r.partition} from {r.from_state} "
        f"to {r.to_state} failed"
    )


def _replica_removed_from_isr(r: StateChange) -> str:
    return (
        f"Partition {r.topic}-{r.partition} state changed to {text.leadership(r)} after removing "
        f"replica {r.replica} from the ISR as part of transition to OfflineReplica"
    )


def _leader_and_isr_sending(r: StateChange) -> str:
    return (
        f"Sending LeaderAndIsr request to broker {r.peer} with {r.count} become-leader "
        f"and {r.other_count} become-follower partitions"
    )


def _leader_and_isr_sending_partition(r: StateChange) -> str:
    return (
        f"Sending become-{r.role} LeaderAndIsr request {text.leader_and_isr_partition_state(r)} "
        f"to broker {r.peer} for partition {r.topic}-{r.partition}"
    )


def _update_metadata_sending(r: StateChange) -> str:
    brokers = ", ".join(map(str, r.peers or ()))
    return f"Sending UpdateMetadata request to brokers HashSet({brokers}) for {r.count} partitions"


def _stop_replica_sending(r: StateChange) -> str:
    deletion = "" if r.delete_partition is None else f" (delete = {boolean(r.delete_partition)})"
    return f"Sending StopReplica request{deletion} for {r.count} replicas to broker {r.peer}"


def _stop_replica_sending_partition(r: StateChange) -> str:
    return (
        f"Sending StopReplica request {text.stop_replica_partition_state(r)} "
        f"to broker {r.peer} for partition {r.topic}-{r.partition}"
    )


def _response_received(r: StateChange) -> str:
    return (
        f"Received response {r.response} for request {_API_NAMES[r.request or '']} "
        f"with correlation id {r.correlation_id} "
        f"sent to broker {node(r.peer, r.peer_address, r.peer_rack)}"
    )


def _response_error(r: StateChange) -> str:
    response = r.response or f"{r.request}ResponseData(error={r.error})"
    return f"Received error {r.error} in {r.request} response {response} from broker {r.peer}"


def _replicas_marked_offline(r: StateChange) -> str:
    return f"Mark replicas {text.csv(r.partitions or ())} on broker {r.peer} as offline"


def _reassignment_sent(r: StateChange) -> str:
    return (
        f"Sent LeaderAndIsr request {text.leadership(r)} with new replica assignment "
        f"{text.replica_assignment(r)} to leader {r.leader} for partition being reassigned "
        f"{r.topic}-{r.partition}"
    )


def _reassignment_send_failed(r: StateChange) -> str:
    return (
        "Failed to send LeaderAndIsr request with new replica assignment "
        f"{text.replica_assignment(r)} to leader for partition being reassigned "
        f"{r.topic}-{r.partition}"
    )


CONTROLLER_MESSAGES: Final[dict[Kind, Callable[[StateChange], str]]] = {
    Kind.PARTITION_STATE_CHANGED: _partition_state_changed,
    Kind.PARTITION_STATE_FAILED: _partition_state_failed,
    Kind.REPLICA_STATE_CHANGED: _replica_state_changed,
    Kind.REPLICA_STATE_FAILED: _replica_state_failed,
    Kind.REPLICA_REMOVED_FROM_ISR: _replica_removed_from_isr,
    Kind.LEADER_AND_ISR_SENDING: _leader_and_isr_sending,
    Kind.LEADER_AND_ISR_SENDING_PARTITION: _leader_and_isr_sending_partition,
    Kind.UPDATE_METADATA_SENDING: _update_metadata_sending,
    Kind.STOP_REPLICA_SENDING: _stop_replica_sending,
    Kind.STOP_REPLICA_SENDING_PARTITION: _stop_replica_sending_partition,
    Kind.RESPONSE_RECEIVED: _response_received,
    Kind.RESPONSE_ERROR: _response_error,
    Kind.REPLICAS_MARKED_OFFLINE: _replicas_marked_offline,
    Kind.REASSIGNMENT_SENT: _reassignment_sent,
    Kind.REASSIGNMENT_SEND_FAILED: _reassignment_send_failed,
}
"""Functions that make the message of a record, by its kind."""
