"""Handles one LeaderAndIsr request: makes replicas leaders or followers.

Source: Kafka ``ReplicaManager`` (``becomeLeaderOrFollower``, ``makeLeaders``, ``makeFollowers``).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import InconsistentTopicId, KafkaStorage, LimitReached
from kafka_common.model import RECOVERING, TopicPartition
from kafka_common.topic_names import invalid_partition_reason
from replica_manager.replication.control_requests import LeaderAndIsrRequest, PartitionErrors
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Partition
from replica_manager.replication.replica_log import ABSENT_LOG
from replica_manager.replication.replica_manager import ReplicaManager
from zkcontroller.state_changes.record import Kind, Reason, StateChange

_state_change_log = logging.getLogger("state.change.logger")


def become_leader_or_follower(
    replicas: ReplicaManager, request: LeaderAndIsrRequest, correlation_id: int
) -> Generator[None, None, PartitionErrors]:
    """Applies the partition states of a LeaderAndIsr request, leaders first.

    Yields between partitions, so that other tasks can run; returns the response.
    """
    started_ms = replicas.now_ms()
    handling = LeaderAndIsrHandling(replicas, request, correlation_id)
    try:
        response = yield from handling.run()
        handling.log(Kind.LEADER_AND_ISR_FINISHED, elapsed_ms=replicas.now_ms() - started_ms)
    finally:
        # Write the records even if the broker stops while it handles the request.
        replicas.write_state_changes(handling.records)
    replicas.remove_idle_fetchers()
    return response


class LeaderAndIsrHandling:
    """One LeaderAndIsr request being handled: its results and state change records."""

    def __init__(
        self,
        replicas: ReplicaManager,
        request: LeaderAndIsrRequest,
        correlation_id: int,
    ) -> None:
        self._replicas = replicas
        self._request = request
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._put_off: list[TopicPartition] = []
        self._base = replicas.base_record(
            Kind.LEADER_AND_ISR_HANDLING,
            request.controller_id,
            request.controller_epoch,
            correlation_id,
        )
        self.records: list[StateChange] = []

    def log(self, kind: Kind, *, elapsed_ms: int | None = None) -> None:
        """Adds a record about the request as a whole."""
        self.records.append(
            self._base._replace(
                kind=kind, count=len(self._request.partitions), elapsed_ms=elapsed_ms
            )
        )

    def run(self) -> Generator[None, None, PartitionErrors]:
        """Handles the request; yields between partitions and returns the response."""
        request, replicas = self._request, self._replicas
        self.log(Kind.LEADER_AND_ISR_HANDLING)
        if replicas.is_tracing():
            yield from self._trace_received()
        if request.controller_epoch < replicas.controller_epoch:
            self.records.append(
                self._base._replace(
                    kind=Kind.LEADER_AND_ISR_IGNORED,
                    reason=Reason.STALE_CONTROLLER_EPOCH,
                    latest_controller_epoch=replicas.controller_epoch,
                )
            )
            stale = ErrorCode.stale_controller_epoch
            return PartitionErrors(stale, dict.fromkeys(request.partitions, stale))
        replicas.controller_epoch = request.controller_epoch
        leaders: dict[Partition, LeaderAndIsrPartitionState] = {}
        followers: dict[Partition, LeaderAndIsrPartitionState] = {}
        for tp, state in request.partitions.items():
            yield
            reason = invalid_partition_reason(*tp)
            if reason is not None:
                self._refuse(tp, reason)
                continue
            if tp in replicas.offline:
                self._errors[tp] = ErrorCode.kafka_storage_error
                self._ignore(tp, state, Reason.OFFLINE_LOG_DIRECTORY)
                continue
            # The partition object stays even if its state is refused below, as in Kafka.
            partition = replicas.host(tp)
            refusal = self._check(partition, state)
            if refusal is not None:
                self._errors[tp] = refusal
            elif state.leader == replicas.broker_id:
                leaders[partition] = state
            else:
                followers[partition] = state
        if leaders:
            yield from self._make_leaders(leaders)
        if followers:
            yield from self._make_followers(followers)
        return PartitionErrors(ErrorCode.none, self._errors, self._put_off)

    def _refuse(self, tp: TopicPartition, reason: str) -> None:
        """Refuses a partition whose name no directory can have; the others are handled.

        Kafka creates the directory, or fails on the znode of the topic's configuration; then an
        unexpected exception makes UNKNOWN_SERVER_ERROR the response to the whole request.
        """
        self._errors[tp] = ErrorCode.unknown_server_error
        _state_change_log.error(
            "[Broker id=%d] Ignoring LeaderAndIsr request from controller %d with correlation id "
            "%d epoch %d for a partition: %s",
            self._replicas.broker_id,
            self._request.controller_id,
            self._base.correlation_id,
            self._request.controller_epoch,
            reason,
        )

    def _check(self, partition: Partition, state: LeaderAndIsrPartitionState) -> ErrorCode | None:
        """The error for this partition; None if its new state must be applied."""
        topic_id = self._request.topic_ids.get(partition.topic_partition.topic)
        known_id = partition.topic_id
        if topic_id is not None and known_id is not None and topic_id != known_id:
            self._log_partition(
                partition,
                Kind.TOPIC_ID_INCONSISTENT,
                topic_id=known_id,
                requested_topic_id=topic_id,
            )
            return ErrorCode.inconsistent_topic_id
        is_same_epoch = state.leader_epoch == partition.leader_epoch
        if state.leader_epoch > partition.leader_epoch or (
            is_same_epoch and self._request.is_kraft_controller
        ):
            if self._replicas.broker_id in state.replicas:
                return None
            self._ignore(
                partition.topic_partition, state, Reason.NOT_ASSIGNED, replicas=state.replicas
            )
            return ErrorCode.unknown_topic_or_partition
        if not is_same_epoch:
            self._ignore(
                partition.topic_partition,
                state,
                Reason.STALE_LEADER_EPOCH,
                current_leader_epoch=partition.leader_epoch,
            )
            return ErrorCode.stale_controller_epoch
        return self._same_epoch(partition, state, topic_id)

    def _same_epoch(
        self, partition: Partition, state: LeaderAndIsrPartitionState, topic_id: UUID | None
    ) -> ErrorCode:
        """Handles a state of the current leader epoch, where only the topic id may be new."""
        if topic_id is not None and partition.topic_id is None:
            if partition.log is not ABSENT_LOG:
                role = "leader" if state.leader == self._replicas.broker_id else "follower"
                if not self._opens_log(partition, state, role):
                    return self._errors[partition.topic_partition]
            partition.create_replica(topic_id)
            self._log_partition(partition, Kind.TOPIC_ID_ASSIGNED, topic_id=topic_id)
            self._update_fetched_id(partition, topic_id)
            return ErrorCode.none
        is_led_elsewhere = state.leader != self._replicas.broker_id
        if topic_id is None and partition.topic_id is not None and is_led_elsewhere:
            # Only the fetch state loses the topic id; the replica keeps it.
            _state_change_log.info(
                "[Broker id=%d] Updating PartitionFetchState for %s to remove log topic ID %s "
                "since LeaderAndIsr request from controller %d with correlation id %d epoch %d "
                "did not "
                "contain a topic ID",
                self._replicas.broker_id,
                partition.topic_partition,
                partition.topic_id,
                self._request.controller_id,
                self._base.correlation_id,
                self._request.controller_epoch,
            )
            self._update_fetched_id(partition, None)
            return ErrorCode.none
        self._ignore(partition.topic_partition, state, Reason.SAME_LEADER_EPOCH)
        return ErrorCode.stale_controller_epoch

    def _update_fetched_id(self, partition: Partition, topic_id: UUID | None) -> None:
        if self._replicas.fetchers is not None:
            self._replicas.fetchers.update_topic_id(partition.topic_partition, topic_id)

    def _opens_log(
        self, partition: Partition, state: LeaderAndIsrPartitionState, role: str
    ) -> bool:
        """Opens the partition's log; if that fails, stores the partition's error and returns False.

        A storage error makes the partition offline.  A limit of the operating system, such as that
        of open files, does not: the response lists the partition in ``put_off``, for a new attempt.
        """
        tp = partition.topic_partition
        if tp in self._replicas.offline:
            # Its log directory has failed since the partition was checked.
            self._errors[tp] = ErrorCode.kafka_storage_error
            self._ignore(tp, state, Reason.OFFLINE_LOG_DIRECTORY)
            return False
        topic_id = self._request.topic_ids.get(tp.topic)
        if partition.log is not ABSENT_LOG and (topic_id is None or partition.topic_id is not None):
            return True
        try:
            # An existing log without a topic id gets this one.
            partition.log = self._replicas.logs.open(tp, topic_id, is_new=state.is_new)
        except KafkaStorage as error:
            self._errors[tp] = ErrorCode.kafka_storage_error
            self.records.append(
                self._base._replace(
                    kind=Kind.TRANSITION_SKIPPED,
                    topic=tp.topic,
                    partition=tp.partition,
                    reason=Reason.STORAGE_ERROR,
                    role=role,
                    leader=state.leader,
                    state_controller_epoch=state.controller_epoch,
                    cause=f"org.apache.kafka.common.errors.KafkaStorageException: {error}",
                )
            )
            if isinstance(error, LimitReached):
                self._put_off.append(tp)
            else:
                self._replicas.mark_offline([tp])
            return False
        except InconsistentTopicId as error:
            # The log is left over from a deleted topic of the same name.
            _state_change_log.error("[Broker id=%d] %s", self._replicas.broker_id, error)
            self._errors[tp] = ErrorCode.inconsistent_topic_id
            return False
        return True

    def _make_leaders(
        self, leaders: Mapping[Partition, LeaderAndIsrPartitionState]
    ) -> Generator[None, None, None]:
        yield from self._trace_transition(leaders, Kind.TRANSITION_STARTED, "leader")
        self.records.append(
            self._base._replace(kind=Kind.FETCHERS_STOPPED, role="leader", count=len(leaders))
        )
        yield from self._replicas.stop_fetching_in_steps(
            partition.topic_partition for partition in leaders
        )
        for partition, state in leaders.items():
            yield
            if not self._opens_log(partition, state, "leader"):
                continue
            if state.leader_recovery_state == RECOVERING:
                self._log_partition(partition, Kind.LEADER_RECOVERED)
            topic_id = self._request.topic_ids.get(partition.topic_partition.topic)
            # The time of each partition: followers are in sync for a while from then on.
            now_ms = self._replicas.now_ms()
            transition = partition.make_leader(state, topic_id, self._base, now_ms)
            self.records.append(transition.record)
            self._errors[partition.topic_partition] = ErrorCode.none
            self._replicas.partition_changed(partition.topic_partition)
            if transition.has_changed:
                self._replicas.on_led(partition.topic_partition, partition.leader_epoch)
        yield from self._trace_transition(leaders, Kind.TRANSITION_COMPLETED, "leader")

    def _make_followers(
        self, followers: Mapping[Partition, LeaderAndIsrPartitionState]
    ) -> Generator[None, None, None]:
        yield from self._trace_transition(followers, Kind.TRANSITION_STARTED, "follower")
        live = self._replicas.metadata_cache.snapshot.live_brokers
        changed: list[Partition] = []
        for partition, state in followers.items():
            yield
            if not self._opens_log(partition, state, "follower"):
                continue
            topic_id = self._request.topic_ids.get(partition.topic_partition.topic)
            if state.leader in live:
                transition = partition.make_follower(state, topic_id, self._base)
                if transition.has_changed:
                    changed.append(partition)
                self.records.append(transition.record)
            else:
                # The new leader epoch is not stored: once the leader is alive, the same request
                # must count as new.
                partition.create_replica(topic_id)
                self._log_partition(
                    partition,
                    Kind.LEADER_UNAVAILABLE,
                    leader=state.leader,
                    state_controller_epoch=state.controller_epoch,
                )
            self._errors[partition.topic_partition] = ErrorCode.none
        yield from self._replicas.stop_fetching_in_steps(
            partition.topic_partition for partition in changed
        )
        self.records.append(
            self._base._replace(kind=Kind.FETCHERS_STOPPED, role="follower", count=len(changed))
        )
        for partition in changed:
            yield
            self._replicas.partition_changed(partition.topic_partition)
            self._replicas.on_resigned(partition.topic_partition, partition.leader_epoch)
        yield from self._replicas.start_fetching_in_steps(changed)
        yield from self._trace_transition(followers, Kind.TRANSITION_COMPLETED, "follower")

    def _ignore(
        self,
        tp: TopicPartition,
        state: LeaderAndIsrPartitionState,
        reason: Reason,
        *,
        replicas: tuple[int, ...] | None = None,
        current_leader_epoch: int | None = None,
    ) -> None:
        self.records.append(
            self._base._replace(
                kind=Kind.LEADER_AND_ISR_IGNORED,
                topic=tp.topic,
                partition=tp.partition,
                reason=reason,
                leader_epoch=state.leader_epoch,
                replicas=replicas,
                current_leader_epoch=current_leader_epoch,
            )
        )

    def _log_partition(
        self,
        partition: Partition,
        kind: Kind,
        *,
        topic_id: UUID | None = None,
        requested_topic_id: UUID | None = None,
        leader: int | None = None,
        state_controller_epoch: int | None = None,
    ) -> None:
        tp = partition.topic_partition
        self.records.append(
            self._base._replace(
                kind=kind,
                topic=tp.topic,
                partition=tp.partition,
                topic_id=topic_id,
                requested_topic_id=requested_topic_id,
                leader=leader,
                state_controller_epoch=state_controller_epoch,
            )
        )

    def _trace_received(self) -> Generator[None, None, None]:
        for tp, state in self._request.partitions.items():
            yield
            self.records.append(
                self._base._replace(
                    kind=Kind.LEADER_AND_ISR_RECEIVED_PARTITION,
                    topic=tp.topic,
                    partition=tp.partition,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.in_sync_replicas,
                    zk_version=state.partition_epoch,
                    state_controller_epoch=state.controller_epoch,
                    replicas=state.replicas,
                    adding_replicas=state.adding_replicas,
                    removing_replicas=state.removing_replicas,
                    is_new=state.is_new,
                    leader_recovery_state=state.leader_recovery_state,
                )
            )

    def _trace_transition(
        self, partitions: Mapping[Partition, LeaderAndIsrPartitionState], kind: Kind, role: str
    ) -> Generator[None, None, None]:
        if not self._replicas.is_tracing():
            return
        for partition, state in partitions.items():
            yield
            tp = partition.topic_partition
            self.records.append(
                self._base._replace(
                    kind=kind,
                    topic=tp.topic,
                    partition=tp.partition,
                    role=role,
                    leader=state.leader,
                )
            )
