"""The messages that a broker logs in ``state-change.log``, by kind of record, without prefix.

Source: Kafka ``ReplicaManager``, ``Partition``, ``ZkMetadataCache``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafka_common.observability.java_values import boolean
from zkcontroller.state_changes import kafka_values as text
from zkcontroller.state_changes.record import Kind, Reason, StateChange


def _handling(r: StateChange) -> str:
    api = "StopReplica" if r.kind is Kind.STOP_REPLICA_HANDLING else "LeaderAndIsr"
    return (
        f"Handling {api} request correlationId {r.correlation_id} from controller "
        f"{r.controller_id} for {r.count} partitions"
    )


def _leader_and_isr_finished(r: StateChange) -> str:
    return (
        f"Finished LeaderAndIsr request in {r.elapsed_ms}ms correlationId {r.correlation_id} "
        f"from controller {r.controller_id} for {r.count} partitions"
    )


def _leader_and_isr_received_partition(r: StateChange) -> str:
    return (
        f"Received LeaderAndIsr request {text.leader_and_isr_partition_state(r)} correlation id "
        f"{r.correlation_id} from controller {r.controller_id} epoch {r.controller_epoch}"
    )


def _leader_and_isr_ignored(r: StateChange) -> str:
    origin = (
        f"Ignoring LeaderAndIsr request from controller {r.controller_id} "
        f"with correlation id {r.correlation_id}"
    )
    if r.reason == Reason.STALE_CONTROLLER_EPOCH:
        return f"{origin} {_old_controller_epoch(r)}"
    subject = f"{origin} epoch {r.controller_epoch} for partition {r.topic}-{r.partition}"
    match r.reason:
        case Reason.NOT_ASSIGNED:
            assigned = text.csv(r.replicas or ())
            return f"{subject} as itself is not in assigned replica list {assigned}"
        case Reason.SAME_LEADER_EPOCH:
            return (
                f"{subject} since its associated leader epoch {r.leader_epoch} "
                "matches the current leader epoch"
            )
        case _:
            return f"{subject} {_offline_or_stale(r)}"


def _stop_replica_ignored(r: StateChange) -> str:
    if r.reason == Reason.STALE_CONTROLLER_EPOCH:
        return (
            f"Ignoring StopReplica request from controller {r.controller_id} "
            f"with correlation id {r.correlation_id} {_old_controller_epoch(r)}"
        )
    subject = (
        f"Ignoring StopReplica request (delete={boolean(r.delete_partition)}) from controller "
        f"{r.controller_id} with correlation id {r.correlation_id} epoch {r.controller_epoch} "
        f"for partition {r.topic}-{r.partition}"
    )
    if r.reason == Reason.UNEXPECTED_ERROR:
        exception, _, message = (r.cause or "").partition(": ")
        return f"{subject} due to an unexpected {exception} exception: {message}"
    return f"{subject} {_offline_or_stale(r)}"


def _old_controller_epoch(r: StateChange) -> str:
    return (
        f"since its controller epoch {r.controller_epoch} is old. "
        f"Latest known controller epoch is {r.latest_controller_epoch}"
    )


def _offline_or_stale(r: StateChange) -> str:
    if r.reason == Reason.OFFLINE_LOG_DIRECTORY:
        return "as the local replica for the partition is in an offline log directory"
    assert r.reason == Reason.STALE_LEADER_EPOCH, f"{r.kind} has no reason {r.reason}"
    return (
        f"since its associated leader epoch {r.leader_epoch} is smaller than the current leader "
        f"epoch {r.current_leader_epoch}"
    )


def _leader_and_isr_failed(r: StateChange) -> str:
    origin = f"received from controller {r.controller_id} epoch {r.controller_epoch}"
    if r.role == "follower":
        return (
            f"Error while processing LeaderAndIsr request with correlationId {r.correlation_id} "
            f"{origin}"
        )
    return (
        f"Error while processing LeaderAndIsr request correlationId {r.correlation_id} "
        f"{origin} for partition {r.topic}-{r.partition}"
    )


def _leader_started(r: StateChange) -> str:
    in_danger = "(under-min-isr)" if r.under_min_isr else ""
    return (
        f"Leader {r.topic}-{r.partition} with topic id {text.option(text.topic_id(r.topic_id))} "
        f"starts at leader epoch {r.leader_epoch} from offset {r.offset} with partition epoch "
        f"{r.zk_version}, high watermark {r.high_watermark}, {_membership(r)} {in_danger}. "
        f"Previous leader {text.option(r.previous_leader)} and previous leader epoch was "
        f"{r.previous_leader_epoch}."
    )


def _membership(r: StateChange) -> str:
    return (
        f"ISR [{text.csv(r.isr or ())}], adding replicas [{text.csv(r.adding_replicas or ())}] "
        f"and removing replicas [{text.csv(r.removing_replicas or ())}]"
    )


def _leader_recovered(r: StateChange) -> str:
    return (
        f"The topic partition {r.topic}-{r.partition} was marked as RECOVERING. "
        "Marking the topic partition as RECOVERED."
    )


def _follower_started(r: StateChange) -> str:
    return (
        f"Follower {r.topic}-{r.partition} starts at leader epoch {r.leader_epoch} from offset "
        f"{r.offset} with partition epoch {r.zk_version} and high watermark {r.high_watermark}. "
        f"Current leader is {r.leader}. Previous leader {text.option(r.previous_leader)} "
        f"and previous leader epoch was {r.previous_leader_epoch}."
    )


def _transition_step(r: StateChange) -> str:
    verb, joint = (
        ("Handling", "starting") if r.kind is Kind.TRANSITION_STARTED else ("Completed", "for")
    )
    following = f" with leader {r.leader}" if r.role == "follower" else ""
    return (
        f"{verb} LeaderAndIsr request correlationId {r.correlation_id} from controller "
        f"{r.controller_id} epoch {r.controller_epoch} {joint} the become-{r.role} transition "
        f"for partition {r.topic}-{r.partition}{following}"
    )


def _transition_skipped(r: StateChange) -> str:
    following = f" with leader {r.leader}" if r.role == "follower" else ""
    if r.reason == Reason.STORAGE_ERROR:
        return (
            f"Skipped the become-{r.role} state change with correlation id {r.correlation_id} from "
            f"controller {r.controller_id} epoch {r.controller_epoch} for partition "
            f"{r.topic}-{r.partition} (last update controller epoch {r.state_controller_epoch})"
            f"{following} since the replica for the partition is offline due to storage error "
            f"{r.cause}"
        )
    subject = (
        f"Skipped the become-{r.role} state change for {r.topic}-{r.partition} with topic id "
        f"{text.option(text.topic_id(r.topic_id))} and partition state "
        f"{text.leader_and_isr_partition_state(r)} since"
    )
    match r.reason:
        case Reason.STALE_PARTITION_EPOCH:
            return (
                f"{subject} the {r.role} is already at a newer partition epoch "
                f"{r.current_partition_epoch}."
            )
        case Reason.ALREADY_FOLLOWER:
            return f"{subject} it is already a follower with leader epoch {r.leader_epoch}."
        case _:
            assert r.reason == Reason.ALREADY_LEADER, f"{r.kind} has no reason {r.reason}"
            return (
                f"{subject} it is already the leader with leader epoch {r.leader_epoch}. "
                f"Current high watermark {r.high_watermark}, {_membership(r)}."
            )


def _fetchers_stopped(r: StateChange) -> str:
    if r.role == "leader":
        return (
            f"Stopped fetchers as part of LeaderAndIsr request correlationId {r.correlation_id} "
            f"from controller {r.controller_id} epoch {r.controller_epoch} as part of the "
            f"become-leader transition for {r.count} partitions"
        )
    return (
        f"Stopped fetchers as part of become-follower request from controller {r.controller_id} "
        f"epoch {r.controller_epoch} with correlation id {r.correlation_id} "
        f"for {r.count} partitions"
    )


def _fetcher_skipped(r: StateChange) -> str:
    return (
        f"Skipped the adding-fetcher step of the become-follower state change with correlation id "
        f"{r.correlation_id} from controller {r.controller_id} epoch {r.controller_epoch} "
        f"for partition {r.topic}-{r.partition} with leader {r.leader} since it is shutting down"
    )


def _stop_replica_received_partition(r: StateChange) -> str:
    return (
        f"Received StopReplica request {text.stop_replica_partition_state(r)} correlation id "
        f"{r.correlation_id} from controller {r.controller_id} epoch {r.controller_epoch} "
        f"for partition {r.topic}-{r.partition}"
    )


def _metadata_cached(r: StateChange) -> str:
    return (
        f"Add {r.count} partitions and deleted {r.other_count} partitions from metadata cache "
        f"{_in_response_to(r)}"
    )


def _metadata_cached_partition(r: StateChange) -> str:
    return (
        f"Cached leader info {text.update_metadata_partition_state(r)} for partition "
        f"{r.topic}-{r.partition} {_in_response_to(r)}"
    )


def _metadata_deleted_partition(r: StateChange) -> str:
    return f"Deleted partition {r.topic}-{r.partition} from metadata cache {_in_response_to(r)}"


def _in_response_to(r: StateChange) -> str:
    return (
        f"in response to UpdateMetadata request sent by controller {r.controller_id} "
        f"epoch {r.controller_epoch} with correlation id {r.correlation_id}"
    )


def _update_metadata_ignored(r: StateChange) -> str:
    return (
        f"Received update metadata request with correlation id {r.correlation_id} from an old "
        f"controller {r.controller_id} with epoch {r.controller_epoch}. "
        f"Latest known controller epoch is {r.latest_controller_epoch}"
    )


def _topic_id_assigned(r: StateChange) -> str:
    return (
        f"Updating log for {r.topic}-{r.partition} to assign topic ID {text.topic_id(r.topic_id)} "
        f"from LeaderAndIsr request from controller {r.controller_id} "
        f"with correlation id {r.correlation_id} epoch {r.controller_epoch}"
    )


def _topic_id_inconsistent(r: StateChange) -> str:
    return (
        f"Topic ID in memory: {text.topic_id(r.topic_id)} does not match the topic ID for "
        f"partition {r.topic}-{r.partition} received: {text.topic_id(r.requested_topic_id)}."
    )


def _leader_unavailable(r: StateChange) -> str:
    return (
        f"Received LeaderAndIsrRequest with correlation id {r.correlation_id} from controller "
        f"{r.controller_id} epoch {r.controller_epoch} for partition {r.topic}-{r.partition} "
        f"(last update controller epoch {r.state_controller_epoch}) but cannot become follower "
        f"since the new leader {r.leader} is unavailable."
    )


BROKER_MESSAGES: Final[dict[Kind, Callable[[StateChange], str]]] = {
    Kind.LEADER_AND_ISR_HANDLING: _handling,
    Kind.LEADER_AND_ISR_FINISHED: _leader_and_isr_finished,
    Kind.LEADER_AND_ISR_RECEIVED_PARTITION: _leader_and_isr_received_partition,
    Kind.LEADER_AND_ISR_IGNORED: _leader_and_isr_ignored,
    Kind.LEADER_AND_ISR_FAILED: _leader_and_isr_failed,
    Kind.LEADER_STARTED: _leader_started,
    Kind.LEADER_RECOVERED: _leader_recovered,
    Kind.FOLLOWER_STARTED: _follower_started,
    Kind.TRANSITION_STARTED: _transition_step,
    Kind.TRANSITION_COMPLETED: _transition_step,
    Kind.TRANSITION_SKIPPED: _transition_skipped,
    Kind.FETCHERS_STOPPED: _fetchers_stopped,
    Kind.FETCHER_SKIPPED: _fetcher_skipped,
    Kind.STOP_REPLICA_HANDLING: _handling,
    Kind.STOP_REPLICA_RECEIVED_PARTITION: _stop_replica_received_partition,
    Kind.STOP_REPLICA_IGNORED: _stop_replica_ignored,
    Kind.METADATA_CACHED: _metadata_cached,
    Kind.METADATA_CACHED_PARTITION: _metadata_cached_partition,
    Kind.METADATA_DELETED_PARTITION: _metadata_deleted_partition,
    Kind.UPDATE_METADATA_IGNORED: _update_metadata_ignored,
    Kind.TOPIC_ID_ASSIGNED: _topic_id_assigned,
    Kind.TOPIC_ID_INCONSISTENT: _topic_id_inconsistent,
    Kind.LEADER_UNAVAILABLE: _leader_unavailable,
}
"""Functions that make the message of a record, by its kind."""
