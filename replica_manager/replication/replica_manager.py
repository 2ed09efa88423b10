"""Every partition of this broker, and the three requests by which a controller rules them.

LeaderAndIsr makes replicas leaders or followers, StopReplica stops them, UpdateMetadata tells about
the cluster.  All three come in on the broker's event loop and run to their end without waiting, so
they exclude each other as Kafka's ``replicaStateChangeLock`` makes them.  The known controller
epoch only grows; a request of an older controller changes nothing.

Source: Kafka ``ReplicaManager`` (``becomeLeaderOrFollower``, ``makeLeaders``, ``makeFollowers``,
``stopReplicas``, ``maybeUpdateMetadataCache``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from replica_manager.replication.fetch_state import InitialFetchState, initial_offset
from replica_manager.replication.metadata_cache import MetadataCache, MetadataUpdate
from replica_manager.replication.partition import Partition, PartitionState, Role
from replica_manager.replication.partition_replicas import DEFAULT_REPLICA_LAG_TIME_MAX_MS
from replica_manager.replication.replica_fetchers import ReplicaFetchers
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from zkcontroller.errors import InconsistentTopicId, KafkaStorage
from zkcontroller.model import EPOCH_DURING_DELETE, NO_EPOCH, RECOVERING, TopicPartition
from zkcontroller.state_changes.record import Kind, Reason, StateChange

_state_change_log = logging.getLogger("state.change.logger")


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """A LeaderAndIsr request, whatever its version was."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, PartitionState]
    topic_ids: Mapping[str, UUID]
    """Ids of the topics that have one; a version without ids has none."""
    is_kraft_controller: bool = False


class StopReplicaPartition(NamedTuple):
    """One partition of a StopReplica request."""

    leader_epoch: int
    """-2: the topic is being deleted; -1: a version without epochs."""
    delete_partition: bool


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """A StopReplica request, whatever its version was."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, StopReplicaPartition]


@dataclass(frozen=True, slots=True)
class PartitionErrors:
    """An answer: the code of the whole request, and one per partition that was looked at."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


class ReplicaLogs(Protocol):
    """The logs of a broker, as far as the controller's requests make and delete them."""

    def open(
        self, partition: TopicPartition, topic_id: UUID | None, /, *, is_new: bool
    ) -> ReplicaLog:
        """The partition's log, made if there is none.

        KafkaStorage if its directory is offline, InconsistentTopicId if it is another topic's.
        """

    def delete(self, partition: TopicPartition, /) -> None:
        """Deletes the partition's log, if there is one; KafkaStorage if that fails."""


class NoLogs:
    """Where no log is kept: every replica is empty."""

    def open(self, _: TopicPartition, __: UUID | None, *, is_new: bool) -> ReplicaLog:  # noqa: ARG002
        """A log that is absent."""
        return ABSENT_LOG

    def delete(self, _: TopicPartition) -> None:
        """Nothing to delete."""


def _nobody_waits(_: TopicPartition) -> None:
    pass


def _nobody_leads(_: TopicPartition, __: int | None) -> None:
    pass


def _one_replica(_: str) -> int:
    return 1


class ReplicaManager:
    """The partitions of one broker.  Lives on the event loop; no method waits."""

    def __init__(
        self,
        broker_id: int,
        metadata_cache: MetadataCache,
        *,
        write_state_changes: Callable[[Sequence[StateChange]], None],
        now_ms: Callable[[], int],
        is_tracing: Callable[[], bool] = lambda: False,
        logs: ReplicaLogs | None = None,
        fetchers: ReplicaFetchers | None = None,
        on_changed: Callable[[TopicPartition], None] = _nobody_waits,
        on_led: Callable[[TopicPartition, int], None] = _nobody_leads,
        on_resigned: Callable[[TopicPartition, int | None], None] = _nobody_leads,
        min_in_sync_replicas: Callable[[str], int] = _one_replica,
        replica_lag_time_max_ms: int = DEFAULT_REPLICA_LAG_TIME_MAX_MS,
    ) -> None:
        """``on_changed`` looks again at requests that wait for a partition.

        ``on_led`` hears that this broker begins to lead a partition, and in which leader epoch;
        ``on_resigned`` that it follows from now on, or that its replica was deleted or went
        offline (the epoch is None where it is not known).  ``min_in_sync_replicas`` tells a topic's
        ``min.insync.replicas``.  Without ``fetchers`` followers fetch from nobody.
        """
        self._broker_id = broker_id
        self._metadata_cache = metadata_cache
        self._write = write_state_changes
        self.now_ms = now_ms
        self._is_tracing = is_tracing
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: set[TopicPartition] = set()
        """Partitions whose log directory failed; until the next start they are refused."""
        self._logs = NoLogs() if logs is None else logs
        self._fetchers = fetchers
        self._watchers = [on_changed]
        self._on_led = on_led
        self._on_resigned = on_resigned
        self._min_in_sync_replicas = min_in_sync_replicas
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self.controller_epoch = 0
        """The largest controller epoch seen; requests below it are refused."""

    def hosted(self, partition: TopicPartition) -> Partition | ErrorCode:
        """The partition, or what to answer to who asks this broker for it.

        Source: Kafka ``ReplicaManager.getPartitionOrError``.
        """
        if partition in self.offline:
            return ErrorCode.kafka_storage_error
        found = self.partitions.get(partition)
        if found is not None:
            return found
        if self._metadata_cache.snapshot.partition(*partition) is not None:
            # It has moved away: the client is to look where.
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, correlation_id: int
    ) -> PartitionErrors:
        """Takes over the partition states of a LeaderAndIsr request, leaders first."""
        started_ms = self.now_ms()
        handling = _LeaderAndIsrHandling(self, request, correlation_id, started_ms)
        answer = handling.run()
        handling.log(Kind.LEADER_AND_ISR_FINISHED, elapsed_ms=self.now_ms() - started_ms)
        self._write(handling.records)
        self.remove_idle_fetchers()
        return answer

    def remove_idle_fetchers(self) -> None:
        """Takes away the fetchers that have nothing left to fetch."""
        if self._fetchers is not None:
            self._fetchers.remove_idle()

    def _stop_fetching(self, partitions: Iterable[TopicPartition]) -> None:
        if self._fetchers is not None:
            self._fetchers.remove(partitions)

    def _start_fetching(self, partitions: Iterable[Partition]) -> None:
        if self._fetchers is None:
            return
        truncates = self._fetchers.settings.truncates_on_fetch
        self._fetchers.add(
            {
                partition.topic_partition: (
                    partition.leader,
                    InitialFetchState(
                        partition.topic_id,
                        partition.leader_epoch,
                        initial_offset(partition.log, truncates_on_fetch=truncates),
                    ),
                )
                for partition in partitions
                if partition.leader is not None
            }
        )

    def mark_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Gives up partitions whose log directory failed."""
        gone = list(partitions)
        self._stop_fetching(gone)
        for tp in gone:
            self.offline.add(tp)
            self.partitions.pop(tp, None)
            self.partition_changed(tp)
            self._on_resigned(tp, None)

    def watch(self, watcher: Callable[[TopicPartition], None]) -> None:
        """``watcher`` hears of every change that a request may wait for, as ``on_changed`` does."""
        self._watchers.append(watcher)

    def partition_changed(self, partition: TopicPartition) -> None:
        """Records were appended, a watermark moved, a role changed: looks at who waits for that."""
        for watcher in self._watchers:
            watcher(partition)

    def topics_changed(self, topics: Iterable[str]) -> None:
        """The configuration of topics has changed: takes over their ``min.insync.replicas``."""
        changed = frozenset(topics)
        for tp, partition in self.partitions.items():
            if tp.topic in changed:
                partition.min_in_sync_replicas = self._min_in_sync_replicas(tp.topic)

    def stop_replicas(self, request: StopReplicaRequest, correlation_id: int) -> PartitionErrors:
        """Stops replicas, and forgets those that are to be deleted."""
        base = self._base_record(
            Kind.STOP_REPLICA_HANDLING,
            request.controller_id,
            request.controller_epoch,
            correlation_id,
        )
        records = [base._replace(count=len(request.partitions))]
        if self._is_tracing():
            records += [
                base._replace(
                    kind=Kind.STOP_REPLICA_RECEIVED_PARTITION,
                    topic=tp.topic,
                    partition=tp.partition,
                    leader_epoch=order.leader_epoch,
                    delete_partition=order.delete_partition,
                )
                for tp, order in request.partitions.items()
            ]
        if request.controller_epoch < self.controller_epoch:
            records.append(
                base._replace(
                    kind=Kind.STOP_REPLICA_IGNORED,
                    reason=Reason.STALE_CONTROLLER_EPOCH,
                    latest_controller_epoch=self.controller_epoch,
                )
            )
            self._write(records)
            return PartitionErrors(ErrorCode.stale_controller_epoch)
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, ErrorCode] = {}
        for tp, order in request.partitions.items():
            if tp in self.offline:
                errors[tp] = ErrorCode.kafka_storage_error
                records.append(
                    base._replace(
                        kind=Kind.STOP_REPLICA_IGNORED,
                        topic=tp.topic,
                        partition=tp.partition,
                        reason=Reason.OFFLINE_LOG_DIRECTORY,
                        delete_partition=order.delete_partition,
                    )
                )
                continue
            partition = self.partitions.get(tp)
            if partition is not None and not _may_stop(order.leader_epoch, partition):
                errors[tp] = ErrorCode.fenced_leader_epoch
                records.append(
                    base._replace(
                        kind=Kind.STOP_REPLICA_IGNORED,
                        topic=tp.topic,
                        partition=tp.partition,
                        reason=Reason.STALE_LEADER_EPOCH,
                        delete_partition=order.delete_partition,
                        leader_epoch=order.leader_epoch,
                        current_leader_epoch=partition.leader_epoch,
                    )
                )
                continue
            errors[tp] = self._stop(tp, order)
        self._write(records)
        self.remove_idle_fetchers()
        return PartitionErrors(ErrorCode.none, errors)

    def _stop(self, tp: TopicPartition, order: StopReplicaPartition) -> ErrorCode:
        """Stops one replica; without delete it keeps its role, and only its fetcher stops."""
        self._stop_fetching([tp])
        if order.delete_partition:
            self.partitions.pop(tp, None)
            try:
                self._logs.delete(tp)
            except KafkaStorage:
                self.mark_offline([tp])
                return ErrorCode.kafka_storage_error
            self._on_resigned(tp, order.leader_epoch if order.leader_epoch >= 0 else None)
        self.partition_changed(tp)
        return ErrorCode.none

    def update_metadata(
        self, update: MetadataUpdate, correlation_id: int
    ) -> tuple[ErrorCode, Sequence[TopicPartition]]:
        """Gives ``update`` to the metadata cache; answers the partitions it deleted there."""
        if update.controller_epoch < self.controller_epoch:
            base = self._base_record(
                Kind.UPDATE_METADATA_IGNORED,
                update.controller_id,
                update.controller_epoch,
                correlation_id,
            )
            self._write([base._replace(latest_controller_epoch=self.controller_epoch)])
            return ErrorCode.stale_controller_epoch, ()
        deleted, records = self._metadata_cache.update(
            update, correlation_id, trace=self._is_tracing()
        )
        self.controller_epoch = update.controller_epoch
        self._write(records)
        return ErrorCode.none, deleted

    def gauges(self) -> dict[str, int]:
        """Values of Kafka's gauges ``kafka.server:type=ReplicaManager``, by name."""
        # From any thread: the list is a copy.
        led = [p for p in list(self.partitions.values()) if p.role is Role.LEADER]
        return {
            "LeaderCount": len(led),
            "PartitionCount": len(self.partitions),
            "OfflineReplicaCount": len(self.offline),
            "UnderReplicatedPartitions": sum(p.is_under_replicated for p in led),
            "UnderMinIsrPartitionCount": sum(p.is_under_min_isr for p in led),
            "AtMinIsrPartitionCount": sum(p.is_at_min_isr for p in led),
            "ReassigningPartitions": sum(p.is_reassigning for p in led),
            "PartitionsWithLateTransactionsCount": 0,  # there are no transactions
        }

    def _is_alive(self, broker_id: int) -> bool:
        return broker_id in self._metadata_cache.snapshot.live_brokers

    def _base_record(
        self, kind: Kind, controller_id: int, controller_epoch: int, correlation_id: int
    ) -> StateChange:
        return StateChange(
            kind,
            "broker",
            self._broker_id,
            controller_epoch,
            controller_id,
            correlation_id=correlation_id,
        )


def _may_stop(leader_epoch: int, partition: Partition) -> bool:
    """A sentinel skips the check: deletion raises no epoch, and old versions send none."""
    if leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH):
        return True
    return leader_epoch >= partition.leader_epoch


class _LeaderAndIsrHandling:
    """One LeaderAndIsr request on its way: its answer so far and its records so far."""

    def __init__(
        self,
        manager: ReplicaManager,
        request: LeaderAndIsrRequest,
        correlation_id: int,
        now_ms: int,
    ) -> None:
        self._manager = manager
        self._request = request
        self._now_ms = now_ms
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._base = manager._base_record(
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

    def run(self) -> PartitionErrors:
        request, manager = self._request, self._manager
        self.log(Kind.LEADER_AND_ISR_HANDLING)
        if manager._is_tracing():
            self._trace_received()
        if request.controller_epoch < manager.controller_epoch:
            self.records.append(
                self._base._replace(
                    kind=Kind.LEADER_AND_ISR_IGNORED,
                    reason=Reason.STALE_CONTROLLER_EPOCH,
                    latest_controller_epoch=manager.controller_epoch,
                )
            )
            stale = ErrorCode.stale_controller_epoch
            return PartitionErrors(stale, dict.fromkeys(request.partitions, stale))
        manager.controller_epoch = request.controller_epoch
        leaders: dict[Partition, PartitionState] = {}
        followers: dict[Partition, PartitionState] = {}
        for tp, state in request.partitions.items():
            if tp in manager.offline:
                self._errors[tp] = ErrorCode.kafka_storage_error
                self._ignore(tp, state, Reason.OFFLINE_LOG_DIRECTORY)
                continue
            partition = manager.partitions.get(tp)
            if partition is None:
                # Kept even if the request turns out to be refused below, as Kafka keeps it.
                partition = manager.partitions[tp] = Partition(
                    tp,
                    manager._broker_id,
                    replica_lag_time_max_ms=manager._replica_lag_time_max_ms,
                    is_alive=manager._is_alive,
                )
                partition.min_in_sync_replicas = manager._min_in_sync_replicas(tp.topic)
            refusal = self._check(partition, state)
            if refusal is not None:
                self._errors[tp] = refusal
            elif state.leader == manager._broker_id:
                leaders[partition] = state
            else:
                followers[partition] = state
        if leaders:
            self._make_leaders(leaders)
        if followers:
            self._make_followers(followers)
        return PartitionErrors(ErrorCode.none, self._errors)

    def _check(self, partition: Partition, state: PartitionState) -> ErrorCode | None:
        """None if the state is to be taken over; else the answer for this partition."""
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
            if self._manager._broker_id in state.replicas:
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
        self, partition: Partition, state: PartitionState, topic_id: UUID | None
    ) -> ErrorCode:
        """The controller repeats what is known: only the topic id may be news."""
        if topic_id is not None and partition.topic_id is None:
            partition.create_replica(topic_id)
            if partition.log is not ABSENT_LOG:
                self._manager._logs.open(partition.topic_partition, topic_id, is_new=False)
            self._log_partition(partition, Kind.TOPIC_ID_ASSIGNED, topic_id=topic_id)
            self._update_fetched_id(partition, topic_id)
            return ErrorCode.none
        is_led_elsewhere = state.leader != self._manager._broker_id
        if topic_id is None and partition.topic_id is not None and is_led_elsewhere:
            # The id leaves the fetch state alone; the replica keeps it.
            _state_change_log.info(
                "[Broker id=%d] Updating PartitionFetchState for %s to remove log topic ID %s "
                "since LeaderAndIsr request from controller %d with correlation id %d epoch %d "
                "did not "
                "contain a topic ID",
                self._manager._broker_id,
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
        if self._manager._fetchers is not None:
            self._manager._fetchers.update_topic_id(partition.topic_partition, topic_id)

    def _opens_log(self, partition: Partition, state: PartitionState, role: str) -> bool:
        """Gives the partition its log; False if that is offline, and the partition now as well."""
        tp = partition.topic_partition
        topic_id = self._request.topic_ids.get(tp.topic)
        if partition.log is not ABSENT_LOG:
            return True
        try:
            partition.log = self._manager._logs.open(tp, topic_id, is_new=state.is_new)
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
            self._manager.mark_offline([tp])
            return False
        except InconsistentTopicId as error:
            # The log was there before the partition: it is of a topic of that name that is gone.
            _state_change_log.error("[Broker id=%d] %s", self._manager._broker_id, error)
            self._errors[tp] = ErrorCode.inconsistent_topic_id
            return False
        return True

    def _make_leaders(self, leaders: Mapping[Partition, PartitionState]) -> None:
        self._trace_transition(leaders, Kind.TRANSITION_STARTED, "leader")
        self.records.append(
            self._base._replace(kind=Kind.FETCHERS_STOPPED, role="leader", count=len(leaders))
        )
        self._manager._stop_fetching(partition.topic_partition for partition in leaders)
        for partition, state in leaders.items():
            if not self._opens_log(partition, state, "leader"):
                continue
            if state.leader_recovery_state == RECOVERING:
                self._log_partition(partition, Kind.LEADER_RECOVERED)
            topic_id = self._request.topic_ids.get(partition.topic_partition.topic)
            transition = partition.make_leader(state, topic_id, self._base, self._now_ms)
            self.records.append(transition.record)
            self._errors[partition.topic_partition] = ErrorCode.none
            self._manager.partition_changed(partition.topic_partition)
            if transition.has_changed:
                self._manager._on_led(partition.topic_partition, partition.leader_epoch)
        self._trace_transition(leaders, Kind.TRANSITION_COMPLETED, "leader")

    def _make_followers(self, followers: Mapping[Partition, PartitionState]) -> None:
        self._trace_transition(followers, Kind.TRANSITION_STARTED, "follower")
        live = self._manager._metadata_cache.snapshot.live_brokers
        changed: list[Partition] = []
        for partition, state in followers.items():
            if not self._opens_log(partition, state, "follower"):
                continue
            topic_id = self._request.topic_ids.get(partition.topic_partition.topic)
            if state.leader in live:
                transition = partition.make_follower(state, topic_id, self._base)
                if transition.has_changed:
                    changed.append(partition)
                self.records.append(transition.record)
            else:
                # The epoch stays: when the leader lives, the same request must count as news.
                partition.create_replica(topic_id)
                self._log_partition(
                    partition,
                    Kind.LEADER_UNAVAILABLE,
                    leader=state.leader,
                    state_controller_epoch=state.controller_epoch,
                )
            self._errors[partition.topic_partition] = ErrorCode.none
        self._manager._stop_fetching(partition.topic_partition for partition in changed)
        self.records.append(
            self._base._replace(kind=Kind.FETCHERS_STOPPED, role="follower", count=len(changed))
        )
        for partition in changed:
            self._manager.partition_changed(partition.topic_partition)
            self._manager._on_resigned(partition.topic_partition, partition.leader_epoch)
        self._manager._start_fetching(changed)
        self._trace_transition(followers, Kind.TRANSITION_COMPLETED, "follower")

    def _ignore(
        self,
        tp: TopicPartition,
        state: PartitionState,
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

    def _trace_received(self) -> None:
        for tp, state in self._request.partitions.items():
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
        self, partitions: Mapping[Partition, PartitionState], kind: Kind, role: str
    ) -> None:
        if not self._manager._is_tracing():
            return
        for partition, state in partitions.items():
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
