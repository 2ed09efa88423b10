"""Values as Kafka prints them inside its log lines.

Source: ``LeaderAndIsr.toString``, ``LeaderIsrAndControllerEpoch.toString``,
``Uuid.toString`` and the generated ``…Data.toString`` of the control requests, Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from kafka_common.model import LEADER_RECOVERY_STATES, NO_LEADER, LeaderAndIsr
from kafka_common.observability.java_values import boolean, java_list
from kafka_common.protocol.uuid_text import uuid_text
from zkcontroller.state_changes.record import StateChange


def csv(values: Iterable[object]) -> str:
    """The values separated by commas, as Scala's ``mkString(",")`` prints them: ``1,2``."""
    return ",".join(map(str, values))


def option(value: object | None) -> str:
    """The value as a Scala option: ``Some(1)`` or ``None``."""
    return "None" if value is None else f"Some({value})"


def topic_id(value: UUID | None) -> str | None:
    """URL-safe base64 without padding, as Kafka's ``Uuid`` prints; None stays None."""
    return None if value is None else uuid_text(value)


def leader_and_isr(record: StateChange) -> str:
    """The state written to the znode, without the controller epoch."""
    return leader_and_isr_of(
        LeaderAndIsr(
            NO_LEADER if record.leader is None else record.leader,
            record.leader_epoch or 0,
            record.isr or (),
            record.zk_version or 0,
            record.state_controller_epoch or 0,
            record.leader_recovery_state or 0,
        )
    )


def leader_and_isr_of(state: LeaderAndIsr) -> str:
    """``LeaderAndIsr(leader=1, leaderEpoch=0, isrWithBrokerEpoch=List(…), …)``."""
    members = ", ".join(
        f"BrokerState(brokerId={broker}, brokerEpoch=-1)" for broker in state.in_sync_replicas
    )
    return (
        f"LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, "
        f"isrWithBrokerEpoch=List({members}), "
        f"leaderRecoveryState={LEADER_RECOVERY_STATES[state.leader_recovery_state]}, "
        f"partitionEpoch={state.zk_version})"
    )


def leadership(record: StateChange) -> str:
    """The state in the controller's memory, with the epoch of the controller that wrote it."""
    return (
        f"(Leader:{record.leader},ISR:{csv(record.isr or ())},"
        f"LeaderRecoveryState:{LEADER_RECOVERY_STATES[record.leader_recovery_state or 0]},"
        f"LeaderEpoch:{record.leader_epoch},ZkVersion:{record.zk_version},"
        f"ControllerEpoch:{record.state_controller_epoch})"
    )


def replica_assignment(record: StateChange) -> str:
    """``ReplicaAssignment(replicas=3,1,2, addingReplicas=3, removingReplicas=2)``."""
    return (
        f"ReplicaAssignment(replicas={csv(record.replicas or ())}, "
        f"addingReplicas={csv(record.adding_replicas or ())}, "
        f"removingReplicas={csv(record.removing_replicas or ())})"
    )


def leader_and_isr_partition_state(record: StateChange) -> str:
    """One partition of a LeaderAndIsr request."""
    return (
        f"LeaderAndIsrPartitionState(topicName='{record.topic}', "
        f"partitionIndex={record.partition}, controllerEpoch={record.state_controller_epoch}, "
        f"leader={record.leader}, leaderEpoch={record.leader_epoch}, "
        f"isr={java_list(record.isr)}, partitionEpoch={record.zk_version}, "
        f"replicas={java_list(record.replicas)}, "
        f"addingReplicas={java_list(record.adding_replicas)}, "
        f"removingReplicas={java_list(record.removing_replicas)}, "
        f"isNew={boolean(record.is_new)}, "
        f"leaderRecoveryState={record.leader_recovery_state or 0})"
    )


def update_metadata_partition_state(record: StateChange) -> str:
    """One partition of an UpdateMetadata request."""
    return (
        f"UpdateMetadataPartitionState(topicName='{record.topic}', "
        f"partitionIndex={record.partition}, controllerEpoch={record.state_controller_epoch}, "
        f"leader={record.leader}, leaderEpoch={record.leader_epoch}, "
        f"isr={java_list(record.isr)}, zkVersion={record.zk_version}, "
        f"replicas={java_list(record.replicas)}, "
        f"offlineReplicas={java_list(record.offline_replicas)})"
    )


def stop_replica_partition_state(record: StateChange) -> str:
    """One partition of a StopReplica request."""
    return (
        f"StopReplicaPartitionState(partitionIndex={record.partition}, "
        f"leaderEpoch={record.leader_epoch}, "
        f"deletePartition={boolean(record.delete_partition)})"
    )


def stop_replica_response(error_code: int, errors: Sequence[tuple[str, int, int]]) -> str:
    """A StopReplica response; ``errors``: topic, partition, error code."""
    listed = java_list(
        f"StopReplicaPartitionError(topicName='{topic}', partitionIndex={partition}, "
        f"errorCode={code})"
        for topic, partition, code in errors
    )
    return f"StopReplicaResponseData(errorCode={error_code}, partitionErrors={listed})"


def update_metadata_response(error_code: int) -> str:
    """An UpdateMetadata response."""
    return f"UpdateMetadataResponseData(errorCode={error_code})"


def leader_and_isr_response(error_code: int, errors: Sequence[tuple[UUID | str, int, int]]) -> str:
    """A LeaderAndIsr response; ``errors``: topic id (name below version 5), partition, code."""
    flat: list[str] = []
    topics: dict[UUID, list[str]] = {}
    for topic, partition, code in errors:
        name = "" if isinstance(topic, UUID) else topic
        text = (
            f"LeaderAndIsrPartitionError(topicName='{name}', partitionIndex={partition}, "
            f"errorCode={code})"
        )
        (topics.setdefault(topic, []) if isinstance(topic, UUID) else flat).append(text)
    listed = java_list(
        f"LeaderAndIsrTopicError(topicId={topic_id(topic)}, partitionErrors={java_list(texts)})"
        for topic, texts in topics.items()
    )
    return (
        f"LeaderAndIsrResponseData(errorCode={error_code}, partitionErrors={java_list(flat)}, "
        f"topics={listed})"
    )
