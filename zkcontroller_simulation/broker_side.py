"""How a broker handles control requests: the checks that it makes, and the state that it keeps.

There is no log here, only the rules by which a broker accepts or refuses control requests, in
Kafka's order and with Kafka's error codes.

Source: Kafka 3.9 ``KafkaApis`` (broker-epoch gate), ``ReplicaManager.becomeLeaderOrFollower``,
``ReplicaManager.stopReplicas``, ``ZkMetadataCache.updateMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    RECOVERED,
    UNKNOWN_BROKER_EPOCH,
    TopicPartition,
)
from kafka_common.model import (
    LeaderAndIsr as State,
)
from zkcontroller.core.events import IsrChange
from zkcontroller_simulation.control_requests import (
    ControlRequest,
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    SentLeaderAndIsr,
    SentMetadata,
    SentStop,
    leader_and_isr_response,
    stop_replica_response,
    update_metadata_response,
)


class ControlledBroker:
    """The part of a broker's replica manager and metadata cache that the controller changes."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.latest_controller_epoch = 0
        self.controller_id = -1
        self.hosted: dict[TopicPartition, SentLeaderAndIsr] = {}
        """Partitions that this broker leads or follows, with the state that it accepted."""
        self.told: dict[TopicPartition, SentLeaderAndIsr] = {}
        """The last LeaderAndIsr of each partition that passed the epoch checks, applied or not."""
        self.proposals: dict[TopicPartition, IsrChange] = {}
        """Proposed ISR changes without a response of the controller."""
        self.waiting: set[TopicPartition] = set()
        """Partitions whose proposal was refused and that must wait for a new leader epoch."""
        self.topic_ids: dict[str, UUID] = {}
        self.metadata: dict[TopicPartition, SentMetadata] = {}
        self.live_brokers: Mapping[int, tuple[tuple[str, int, str], ...]] = {}
        self.failed: set[TopicPartition] = set()
        """Partitions in a log directory that failed."""
        self.received: list[ControlRequest] = []

    def handle(self, request: ControlRequest) -> tuple[int, bytes]:
        """Applies the request; returns the top-level error and the bytes of the response."""
        self.received.append(request)
        match request:
            case ReceivedLeaderAndIsr():
                error, errors = self._leader_and_isr(request)
                return error, leader_and_isr_response(request, error, errors)
            case ReceivedUpdateMetadata():
                error = self._update_metadata(request)
                return error, update_metadata_response(request, error)
            case ReceivedStopReplica():
                error, errors = self._stop_replica(request)
                return error, stop_replica_response(request, error, errors)

    def leads(self, tp: TopicPartition) -> bool:
        """Whether this broker believes that it leads the partition."""
        return tp in self.hosted and self.hosted[tp].leader == self.broker_id

    def propose(self, tp: TopicPartition, isr: tuple[int, ...]) -> IsrChange | None:
        """The AlterPartition change that this leader sends; None while it must not send one.

        A leader has one proposal at a time and repeats it unchanged until it gets a response.  So
        it learns of a change that was made although the response was lost.  Source: Kafka
        ``AlterPartitionManager``, ``Partition.submitAlterPartition``.
        """
        pending = self.proposals.get(tp)
        if pending is not None:
            return None if tp in self.waiting else pending
        state = self.hosted[tp]
        if isr == state.isr:
            return None
        topic = self.topic_ids.get(tp.topic, tp.topic)
        epochs = (state.leader_epoch, isr, RECOVERED, state.zk_version)
        self.proposals[tp] = IsrChange(topic, tp.partition, *epochs)
        return self.proposals[tp]

    def proposal_answered(
        self, tp: TopicPartition, proposal: IsrChange, error: int, state: State | None
    ) -> None:
        """Handles the response to a proposal; ignored if it is no longer the current proposal.

        Source: Kafka ``Partition.handleAlterPartitionError`` and ``handleAlterPartitionUpdate``.
        """
        if self.proposals.get(tp) != proposal:
            return
        if state is not None:
            self._widened(tp, state)
        elif error in (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica):
            del self.proposals[tp]
        elif error not in (ErrorCode.not_controller, ErrorCode.unknown_server_error):
            self.waiting.add(tp)  # for a LeaderAndIsr with a new leader epoch

    def lose_log_dir(self, partitions: Iterable[TopicPartition]) -> None:
        """The log directory with these partitions fails."""
        for tp in partitions:
            self.failed.add(tp)
            self.hosted.pop(tp, None)
            self._settle(tp)

    def _widened(self, tp: TopicPartition, state: State) -> None:
        current = self.hosted[tp]
        if state.leader_epoch == current.leader_epoch and state.zk_version >= current.zk_version:
            del self.proposals[tp]
            isr, zk_version = state.in_sync_replicas, state.zk_version
            self.hosted[tp] = current._replace(isr=isr, zk_version=zk_version)
        else:
            self.waiting.add(tp)

    def _gate(self, request: ControlRequest) -> int:
        # A greater broker epoch is accepted: the controller may learn it before the broker does.
        if UNKNOWN_BROKER_EPOCH != request.broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        if request.controller_epoch < self.latest_controller_epoch:
            return ErrorCode.stale_controller_epoch
        self.latest_controller_epoch = request.controller_epoch
        return ErrorCode.none

    def _leader_and_isr(
        self, request: ReceivedLeaderAndIsr
    ) -> tuple[int, dict[TopicPartition, int]]:
        error = self._gate(request)
        if error != ErrorCode.none:
            return error, dict.fromkeys(request.partitions, error)
        self.told.update(request.partitions)
        errors = {
            tp: self._take_on(tp, state, request.topic_ids.get(tp.topic))
            for tp, state in request.partitions.items()
        }
        return ErrorCode.none, errors

    def _take_on(self, tp: TopicPartition, state: SentLeaderAndIsr, topic_id: UUID | None) -> int:
        if tp in self.failed:
            return ErrorCode.kafka_storage_error
        known_id = self.topic_ids.get(tp.topic)
        if topic_id and known_id and topic_id != known_id:
            return ErrorCode.inconsistent_topic_id
        current = self.hosted[tp].leader_epoch if tp in self.hosted else NO_EPOCH
        if state.leader_epoch == current and topic_id and not known_id:
            self.topic_ids[tp.topic] = topic_id
            return ErrorCode.none
        if state.leader_epoch <= current:
            return ErrorCode.stale_controller_epoch
        if self.broker_id not in state.replicas:
            return ErrorCode.unknown_topic_or_partition
        if topic_id:
            self.topic_ids[tp.topic] = topic_id
        if state.leader == self.broker_id or state.leader in self.live_brokers:
            self._settle(tp)
            self.hosted[tp] = state  # a follower of a leader that is not alive keeps its old epoch
        return ErrorCode.none

    def _settle(self, tp: TopicPartition) -> None:
        self.proposals.pop(tp, None)
        self.waiting.discard(tp)

    def _update_metadata(self, request: ReceivedUpdateMetadata) -> int:
        error = self._gate(request)
        if error != ErrorCode.none:
            return error
        self.controller_id = request.controller_id
        self.live_brokers = request.live_brokers
        for tp, state in request.partitions.items():
            if state.leader == LEADER_DURING_DELETE:
                self.metadata.pop(tp, None)
            else:
                self.metadata[tp] = state
        return ErrorCode.none

    def _stop_replica(self, request: ReceivedStopReplica) -> tuple[int, dict[TopicPartition, int]]:
        error = self._gate(request)
        if error != ErrorCode.none:
            return error, {}
        return ErrorCode.none, {tp: self._stop(tp, stop) for tp, stop in request.partitions.items()}

    def _stop(self, tp: TopicPartition, stop: SentStop) -> int:
        if tp in self.failed:
            return ErrorCode.kafka_storage_error
        current = self.hosted.get(tp)
        unchecked = stop.leader_epoch in (NO_EPOCH, EPOCH_DURING_DELETE)
        if current is not None and not unchecked and stop.leader_epoch < current.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if stop.delete:
            self.hosted.pop(tp, None)
            self._settle(tp)
            self.told.pop(tp, None)
            if not any(hosted.topic == tp.topic for hosted in self.hosted):
                self.topic_ids.pop(tp.topic, None)
        return ErrorCode.none
