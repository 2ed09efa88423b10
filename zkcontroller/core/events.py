"""Every event of the controller, as a value; the event queue holds only these.

A watch, a broker's response or a request puts one of these into the event queue,
and the controller-event-thread takes them one by one.  An event carries no callback; where a client
waits for a response, it carries a ``request_id`` and the core answers with
:class:`~.effects.RequestResponse`.

Source: Kafka ``KafkaController`` (``ControllerEvent``), ``ControllerState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from kafka_common.model import ElectionType, TopicPartition


class ControllerState(IntEnum):
    """What the event thread is busy with; the value of the gauge ``ControllerState``."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


class Startup(Struct, frozen=True):
    """The controller starts: watches ``/controller`` and tries to be elected."""


class ControllerChange(Struct, frozen=True):
    """``/controller`` was created or changed."""


class Reelect(Struct, frozen=True):
    """``/controller`` was deleted."""


class RegisterBrokerAndReelect(Struct, frozen=True):
    """A new ZooKeeper session began: register the broker again, then as :class:`Reelect`."""


class Expire(Struct, frozen=True):
    """The ZooKeeper session expired: stop being controller.  Put with ``clear_and_put``."""


class ShutdownEventThread(Struct, frozen=True):
    """The last event: the thread ends."""


class BrokerChange(Struct, frozen=True):
    """The children of ``/brokers/ids`` changed."""


class BrokerModifications(Struct, frozen=True):
    """The data of ``/brokers/ids/<broker_id>`` changed."""

    broker_id: int


class TopicChange(Struct, frozen=True):
    """The children of ``/brokers/topics`` changed."""


class PartitionModifications(Struct, frozen=True):
    """The data of ``/brokers/topics/<topic>`` changed."""

    topic: str


class TopicDeletion(Struct, frozen=True):
    """The children of ``/admin/delete_topics`` changed."""


class TopicDeletionStopReplicaResponseReceived(Struct, frozen=True):
    """A broker's response to a StopReplica that deletes partitions.

    ``partition_errors``: (topic, partition, error code) of those that were sent with delete, whose
    topic is being deleted, and that the response names; ``request_error``: top-level code, not 0
    when the whole request was refused.
    """

    broker_id: int
    request_error: int
    partition_errors: tuple[tuple[str, int, int], ...]


class ControlledShutdown(Struct, frozen=True):
    """A broker asks to hand over its leaderships before it stops."""

    broker_id: int
    broker_epoch: int  # czxid of /brokers/ids/<id>: differs for each incarnation of the broker
    request_id: int  # answered by RequestResponse(request_id, …)


class LeaderAndIsrResponseReceived(Struct, frozen=True):
    """A broker's response to LeaderAndIsr.

    ``partition_errors``: (topic id or name, partition, error code), ids from version 5 on.  With
    ``is_probe`` it has every partition of the response: some were believed to be in a failed log
    directory, and those with code 0 are online again.  Else it has those whose code is not 0.
    """

    broker_id: int
    request_error: int
    partition_errors: tuple[tuple[UUID | str, int, int], ...]
    is_probe: bool = False
    response: str = ""
    """The whole response as Kafka prints it, if ``request_error`` is not 0."""


class UpdateMetadataResponseReceived(Struct, frozen=True):
    """A broker's response to UpdateMetadata.

    ``response``: the whole response as Kafka prints it, if ``request_error`` is not 0.
    """

    broker_id: int
    request_error: int
    response: str = ""


class UncleanLeaderElectionEnable(Struct, frozen=True):
    """The broker default ``unclean.leader.election.enable`` changed to ``enabled``.

    Kafka's event exists only for false→true and reads the configuration itself; ours carries the
    value, so that the core never reads a configuration that another thread may change.
    """

    enabled: bool


class TopicUncleanLeaderElectionEnable(Struct, frozen=True):
    """``unclean.leader.election.enable`` was set to true for a topic."""

    topic: str


class ElectionTrigger(StrEnum):
    """What triggered a leader election; the values are Kafka's names."""

    AUTO = "AutoTriggered"
    ZOOKEEPER = "ZkTriggered"
    ADMIN_CLIENT = "AdminClientTriggered"


class ZkPartitionReassignment(Struct, frozen=True):
    """``/admin/reassign_partitions`` was created or deleted; ``is_new`` is False for a rewrite."""

    is_new: bool = True


class ApiPartitionReassignment(Struct, frozen=True):
    """AlterPartitionReassignments: partitions with new replicas, None to cancel (KIP-455)."""

    targets: tuple[tuple[TopicPartition, tuple[int, ...] | None], ...]
    request_id: int


class ListPartitionReassignments(Struct, frozen=True):
    """ListPartitionReassignments: of these partitions, None for all."""

    partitions: tuple[TopicPartition, ...] | None
    request_id: int


class PartitionReassignmentIsrChange(Struct, frozen=True):
    """The state znode of a partition under reassignment changed (protocol below 2.7-IV2)."""

    partition: TopicPartition


class AutoPreferredReplicaLeaderElection(Struct, frozen=True):
    """The periodic check of whether leaders should move back to preferred replicas is due.

    It is ignored in any later controller epoch: the new election schedules its own checks, and this
    one would begin a second series of them.
    """

    controller_epoch: int


class RefusedPartitionRetry(Struct, frozen=True):
    """The retry of operations that ZooKeeper refused is due; Kafka has no such event."""


class ReplicaLeaderElection(Struct, frozen=True):
    """Elect leaders for these partitions; None means those that the znode names.

    ``request_id`` is None where no client waits for a response.
    """

    partitions: tuple[TopicPartition, ...] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    request_id: int | None = None


class IsrChangeNotification(Struct, frozen=True):
    """The children of ``/isr_change_notification`` changed."""


class IsrChange(NamedTuple):
    """One partition of an AlterPartition request; ``topic`` is an id from version 2 on."""

    topic: UUID | str
    partition: int
    leader_epoch: int
    new_isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int


class AlterPartitionReceived(Struct, frozen=True):
    """A leader asks to change the ISRs of partitions it leads (KIP-497)."""

    broker_id: int
    broker_epoch: int
    api_version: int
    changes: tuple[IsrChange, ...]
    request_id: int


class LogDirEventNotification(Struct, frozen=True):
    """The children of ``/log_dir_event_notification`` changed."""


class AllocateProducerIds(Struct, frozen=True):
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int
    request_id: int


class FeatureUpdate(NamedTuple):
    """One item of UpdateFeatures; ``upgrade_type`` 1 upgrade, 2 safe and 3 unsafe downgrade."""

    feature: str
    max_version_level: int
    upgrade_type: int


class UpdateFeatures(Struct, frozen=True):
    """An administrator changes the finalized features (KIP-584)."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool
    request_id: int


Event: TypeAlias = (
    Startup
    | ControllerChange
    | Reelect
    | RegisterBrokerAndReelect
    | Expire
    | ShutdownEventThread
    | BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | TopicDeletionStopReplicaResponseReceived
    | ControlledShutdown
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | ZkPartitionReassignment
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | PartitionReassignmentIsrChange
    | AutoPreferredReplicaLeaderElection
    | RefusedPartitionRetry
    | ReplicaLeaderElection
    | IsrChangeNotification
    | AlterPartitionReceived
    | LogDirEventNotification
    | AllocateProducerIds
    | UpdateFeatures
)

RequestEvent: TypeAlias = (
    ControlledShutdown
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | ReplicaLeaderElection
    | AlterPartitionReceived
    | AllocateProducerIds
    | UpdateFeatures
)
"""Events of a client's request; each gets a RequestResponse, on every broker."""

STATE_OF: dict[type[Event], ControllerState] = {
    Startup: ControllerState.CONTROLLER_CHANGE,
    ControllerChange: ControllerState.CONTROLLER_CHANGE,
    Reelect: ControllerState.CONTROLLER_CHANGE,
    RegisterBrokerAndReelect: ControllerState.CONTROLLER_CHANGE,
    Expire: ControllerState.CONTROLLER_CHANGE,
    ShutdownEventThread: ControllerState.CONTROLLER_SHUTDOWN,
    BrokerChange: ControllerState.BROKER_CHANGE,
    BrokerModifications: ControllerState.BROKER_CHANGE,
    TopicChange: ControllerState.TOPIC_CHANGE,
    PartitionModifications: ControllerState.TOPIC_CHANGE,
    TopicDeletion: ControllerState.TOPIC_DELETION,
    TopicDeletionStopReplicaResponseReceived: ControllerState.TOPIC_DELETION,
    ControlledShutdown: ControllerState.CONTROLLED_SHUTDOWN,
    LeaderAndIsrResponseReceived: ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
    UpdateMetadataResponseReceived: ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED,
    UncleanLeaderElectionEnable: ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
    TopicUncleanLeaderElectionEnable: ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    ZkPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ApiPartitionReassignment: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    PartitionReassignmentIsrChange: ControllerState.ALTER_PARTITION_REASSIGNMENT,
    ListPartitionReassignments: ControllerState.LIST_PARTITION_REASSIGNMENT,
    AutoPreferredReplicaLeaderElection: ControllerState.AUTO_LEADER_BALANCE,
    # Its timer is LeaderElectionRateAndTimeMs.
    RefusedPartitionRetry: ControllerState.BROKER_CHANGE,
    ReplicaLeaderElection: ControllerState.MANUAL_LEADER_BALANCE,
    IsrChangeNotification: ControllerState.ISR_CHANGE,
    AlterPartitionReceived: ControllerState.ISR_CHANGE,
    LogDirEventNotification: ControllerState.LOG_DIR_CHANGE,
    AllocateProducerIds: ControllerState.IDLE,
    UpdateFeatures: ControllerState.UPDATE_FEATURES,
}

RATE_AND_TIME_OF: dict[ControllerState, str] = {
    ControllerState.CONTROLLER_CHANGE: "ControllerChangeRateAndTimeMs",
    ControllerState.BROKER_CHANGE: "LeaderElectionRateAndTimeMs",
    ControllerState.TOPIC_CHANGE: "TopicChangeRateAndTimeMs",
    ControllerState.TOPIC_DELETION: "TopicDeletionRateAndTimeMs",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignmentRateAndTimeMs",
    ControllerState.AUTO_LEADER_BALANCE: "AutoLeaderBalanceRateAndTimeMs",
    ControllerState.MANUAL_LEADER_BALANCE: "ManualLeaderBalanceRateAndTimeMs",
    ControllerState.CONTROLLED_SHUTDOWN: "ControlledShutdownRateAndTimeMs",
    ControllerState.ISR_CHANGE: "IsrChangeRateAndTimeMs",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "LeaderAndIsrResponseReceivedRateAndTimeMs",
    ControllerState.LOG_DIR_CHANGE: "LogDirChangeRateAndTimeMs",
    ControllerState.CONTROLLER_SHUTDOWN: "ControllerShutdownRateAndTimeMs",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "UncleanLeaderElectionEnableRateAndTimeMs",
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: (
        "TopicUncleanLeaderElectionEnableRateAndTimeMs"
    ),
    ControllerState.LIST_PARTITION_REASSIGNMENT: "ListPartitionReassignmentRateAndTimeMs",
    ControllerState.UPDATE_FEATURES: "UpdateFeaturesRateAndTimeMs",
}
"""Timer of each state (``kafka.controller:type=ControllerStats``), for those that have one."""

WATCH_EVENTS = (
    ControllerChange, Reelect, BrokerChange, BrokerModifications, TopicChange,
    PartitionModifications, TopicDeletion, IsrChangeNotification, LogDirEventNotification,
    PartitionReassignmentIsrChange,
)  # fmt: skip
"""Events that only say "read again": an event that waits in the queue is not queued twice."""


_NOT_PRINTED: Final[Mapping[type[Event], str]] = {
    LeaderAndIsrResponseReceived: "response",
    UpdateMetadataResponseReceived: "response",
    ZkPartitionReassignment: "is_new",
    AutoPreferredReplicaLeaderElection: "controller_epoch",
}
"""The field of an event that Kafka's has not, or does not print."""

PRINTED_CHARACTERS: Final = 1_000
"""The most characters of an event's fields in a log line; a response may have megabytes."""


def event_text(event: Event) -> str:
    """The event as Scala prints it: ``BrokerChange``, ``PartitionModifications(orders)``."""
    hidden = _NOT_PRINTED.get(type(event))
    shown = (getattr(event, name) for name in event.__struct_fields__ if name != hidden)
    values = ",".join(map(str, shown))
    if len(values) > PRINTED_CHARACTERS:
        values = f"{values[:PRINTED_CHARACTERS]}…"
    return f"{type(event).__name__}({values})" if values else type(event).__name__
