"""The controller: takes one event, yields questions and appends effects to the outbox.

:meth:`KafkaController.handle` returns a procedure for each event; a driver advances it (see
:mod:`zkcontroller.core.effects`).  The class holds no policy of its own: it knows which part
of the core handles an event, and which events only the active controller handles.

Source: Kafka ``KafkaController.process``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved, IllegalState, ZooKeeperRefused
from zkcontroller.core.brokers import Brokers
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.context import ControllerContext
from zkcontroller.core.controlled_shutdown import ControlledShutdowns
from zkcontroller.core.effects import (
    AlterPartitionResult,
    ControlledShutdownResult,
    FeatureResults,
    OngoingReassignments,
    Outbox,
    PartitionResult,
    PartitionResults,
    Procedure,
    ProducerIdBlock,
    Put,
    RegisterBrokerZnode,
    RequestResponse,
    Result,
)
from zkcontroller.core.events import (
    AllocateProducerIds,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControlledShutdown,
    ControllerChange,
    Event,
    Expire,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    ListPartitionReassignments,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Reelect,
    RefusedPartitionRetry,
    RegisterBrokerAndReelect,
    ReplicaLeaderElection,
    RequestEvent,
    ShutdownEventThread,
    Startup,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateFeatures,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
    event_text,
)
from zkcontroller.core.failover import CONTROLLER_MOVED, NO_CONTROLLER, Failover
from zkcontroller.core.features import FeatureUpdates
from zkcontroller.core.isr_changes import IsrChanges
from zkcontroller.core.log_dir_failures import LogDirFailures
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.preferred_election import ReplicaLeaderElections
from zkcontroller.core.producer_ids import ProducerIdBlocks
from zkcontroller.core.reassignment import Reassignments
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.responses import ControlResponses
from zkcontroller.core.states import ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topic_deletion import TopicDeletionManager
from zkcontroller.core.topics import TopicChanges

ZK_MIGRATION_STATE_ZK = 4
REGISTRATION_RETRY_MS = 5_000
"""The pause after ZooKeeper refused the broker's registration until the next attempt."""


Notice: TypeAlias = (
    BrokerChange
    | BrokerModifications
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | TopicDeletionStopReplicaResponseReceived
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | TopicUncleanLeaderElectionEnable
    | ZkPartitionReassignment
    | PartitionReassignmentIsrChange
    | AutoPreferredReplicaLeaderElection
    | RefusedPartitionRetry
    | IsrChangeNotification
    | LogDirEventNotification
)


class KafkaController:
    """A controller candidate; at most one in the cluster is active.

    ``new_uuid`` makes the random ids of topics; ``outbox`` takes the effects, if the driver brings
    a list of its own.  Not thread-safe: one thread drives it, one event at a time, each to its end.
    """

    def __init__(
        self,
        config: ControllerConfig,
        new_uuid: Callable[[], UUID],
        outbox: Outbox | None = None,
    ) -> None:
        self._tools = tools = ControllerTools(config, outbox)
        self._partitions = PartitionStateMachine(tools)
        self._replicas = ReplicaStateMachine(tools)
        self._deletion = TopicDeletionManager(tools, self._partitions, self._replicas)
        self._topics = TopicChanges(tools, self._partitions, self._replicas, new_uuid)
        self._reassignments = Reassignments(tools, self._partitions, self._replicas)
        self._elections = ReplicaLeaderElections(tools, self._partitions)
        self._brokers = Brokers(
            tools, self._partitions, self._replicas, self._deletion, self._reassignments
        )
        self._isr_changes = IsrChanges(tools, self._reassignments, self._partitions.refused)
        self._log_dirs = LogDirFailures(tools, self._replicas)
        self._producer_ids = ProducerIdBlocks(tools)
        self._features = FeatureUpdates(tools)
        self._shutdowns = ControlledShutdowns(tools, self._partitions, self._replicas)
        self._responses = ControlResponses(tools, self._brokers)
        self._failover = Failover(
            tools,
            self._partitions,
            self._replicas,
            self._deletion,
            self._topics,
            self._brokers,
            self._reassignments,
            self._elections,
        )

    @property
    def outbox(self) -> Outbox:
        """Effects to be performed, oldest first; the driver empties it."""
        return self._tools.outbox

    @property
    def config(self) -> ControllerConfig:
        return self._tools.config

    @property
    def context(self) -> ControllerContext:
        return self._tools.context

    @property
    def is_active(self) -> bool:
        """Whether this broker acts as controller."""
        return self._failover.is_active

    @property
    def active_controller_id(self) -> int:
        """The controller's broker id in ``/controller`` at the last read; -1 for none."""
        return self._failover.active_controller_id

    # ------------------------------------------------------------------ events

    def handle(self, event: Event, now_ms: int) -> Procedure[None]:
        """Processes one event to its end; ``now_ms`` is the time at which processing begins.

        Three errors make this broker stop acting as controller, and are handled here:
        ControllerMoved; a contradiction in the controller's own bookkeeping (IllegalState); and a
        result of ZooKeeper without which the event could not be processed to its end
        (ZooKeeperRefused).  After the last one Kafka logs the error and stays controller, with an
        incomplete state.
        """
        try:
            try:
                yield from self._process(event, now_ms)
                if self.is_active:
                    self._partitions.refused.schedule()
            except ControllerMoved as moved:
                self._tools.journal.info(
                    f"Controller moved to another broker when processing {event_text(event)}.",
                    exception=f"{CONTROLLER_MOVED}: {moved}",
                )
                self._refuse(event)
                yield from self._failover.follow_the_move()
        except (IllegalState, ZooKeeperRefused):
            if self.context.epoch:
                self._tools.journal.error("Forcing the controller to resign")
            yield from self._failover.trigger_controller_move()
            raise

    def _refuse(self, event: Event) -> None:
        """Refuses a request on a broker that is not the controller; Kafka sends no response.

        A response that was made before is kept: only the first one for a request is sent.
        """
        if isinstance(event, RequestEvent) and event.request_id is not None:
            result = self.refusal(event)
            assert result is not None
            self.outbox.append(RequestResponse(event.request_id, result))

    def resign(self) -> Procedure[None]:
        """Resigns at shutdown; ``/controller`` is deleted when the session closes."""
        self._failover.expire()
        yield from ()

    def _process(self, event: Event, now_ms: int) -> Procedure[None]:
        match event:
            case Startup() | Reelect():
                yield from self._run_for_controller(now_ms)
            case ControllerChange():
                yield from self._controller_changed(now_ms)
            case RegisterBrokerAndReelect():
                yield from self._register_and_run(now_ms)
            case Expire():
                self._failover.expire()
            case ShutdownEventThread():
                pass
            case UncleanLeaderElectionEnable(enabled=enabled):
                yield from self._unclean_default_changed(enabled)
            case (
                ControlledShutdown()
                | ApiPartitionReassignment()
                | ListPartitionReassignments()
                | ReplicaLeaderElection()
                | AlterPartitionReceived()
                | AllocateProducerIds()
                | UpdateFeatures()
            ):
                if self.is_active:
                    yield from self._respond(event)
                else:
                    self._refuse(event)
            case _:
                if self.is_active:
                    yield from self._notice(event)

    def _controller_changed(self, now_ms: int) -> Procedure[None]:
        yield from self._failover.maybe_resign()
        # Without a controller: ``/controller`` was deleted while no watch was set, so no Reelect
        # follows.  If it names this broker, which is not active, no broker would act as controller.
        candidates = (NO_CONTROLLER, self.config.broker_id)
        if self.active_controller_id in candidates and not self.is_active:
            yield from self._failover.elect(now_ms)

    def _unclean_default_changed(self, enabled: bool) -> Procedure[None]:
        was_enabled = self._partitions.unclean_default
        self._partitions.unclean_default = enabled
        if enabled and not was_enabled and self.is_active:
            self._tools.journal.info("Unclean leader election has been enabled by default")
            yield from self._partitions.trigger_online_state_change()

    def _run_for_controller(self, now_ms: int) -> Procedure[None]:
        yield from self._failover.maybe_resign()
        if not self.is_active:
            yield from self._failover.elect(now_ms)

    def _register_and_run(self, now_ms: int) -> Procedure[None]:
        """Registers in a new session, then runs for controller.

        A broker that is not registered counts as dead, so it does not run, and tries again until
        ZooKeeper lets it register.  Kafka logs the refusal, and the broker stays outside.
        """
        try:
            yield RegisterBrokerZnode()
        except ZooKeeperRefused as refused:
            self._tools.journal.error(
                f"{refused}; registering this broker again in {REGISTRATION_RETRY_MS} ms"
            )
            self._tools.outbox.append(Put(RegisterBrokerAndReelect(), REGISTRATION_RETRY_MS))
            return
        yield from self._run_for_controller(now_ms)

    def _respond(self, event: RequestEvent) -> Procedure[None]:
        """Handles a request for the active controller."""
        match event:
            case ControlledShutdown():
                yield from self._shutdowns.run(event)
            case ApiPartitionReassignment():
                yield from self._reassignments.process_api(event)
            case ListPartitionReassignments():
                self._reassignments.list_ongoing(event)
            case ReplicaLeaderElection():
                yield from self._elections.run(event)
            case AlterPartitionReceived():
                yield from self._isr_changes.alter(event)
            case AllocateProducerIds():
                yield from self._producer_ids.allocate(event)
            case UpdateFeatures():
                yield from self._features.update(event)
            case _:
                assert_never(event)

    def refusal(self, event: RequestEvent, error_code: ErrorCode | None = None) -> Result | None:
        """The response when the request cannot be handled; None if the event needs no response.

        Without ``error_code`` it is the response of a broker that is not the controller.  Any
        thread may call: only the event is read.
        """
        code = ErrorCode.not_controller if error_code is None else error_code
        match event:
            case ControlledShutdown():
                moved = ErrorCode.stale_controller_epoch if error_code is None else error_code
                return ControlledShutdownResult(moved)
            case ApiPartitionReassignment():
                return PartitionResults(code)
            case ListPartitionReassignments():
                return OngoingReassignments(code)
            case ReplicaLeaderElection(partitions=partitions, request_id=request_id):
                if request_id is None:
                    return None
                return PartitionResults(
                    ErrorCode.none, tuple(PartitionResult(each, code) for each in partitions or ())
                )
            case AlterPartitionReceived():
                return AlterPartitionResult(code)
            case AllocateProducerIds():
                return ProducerIdBlock(code)
            case UpdateFeatures():
                return FeatureResults(code)
            case _:
                assert_never(event)

    def _notice(self, event: Notice) -> Procedure[None]:  # noqa: C901 - one line per event
        """Handles a change in the cluster; only the active controller does."""
        match event:
            case BrokerChange():
                yield from self._brokers.process_broker_change()
            case BrokerModifications(broker_id=broker_id):
                yield from self._brokers.process_broker_modification(broker_id)
            case TopicChange():
                rows = yield from self._topics.process_topic_change()
                yield from self._reassignments.resume(rows)
            case PartitionModifications(topic=topic):
                rows = yield from self._topics.process_partition_modifications(topic)
                yield from self._reassignments.resume(rows)
            case TopicDeletion():
                yield from self._deletion.process_requests()
            case TopicDeletionStopReplicaResponseReceived():
                yield from self._deletion.process_response(event)
            case LeaderAndIsrResponseReceived():
                yield from self._responses.leader_and_isr(event)
            case UpdateMetadataResponseReceived(broker_id, error, response):
                self._responses.report_error("UpdateMetadata", broker_id, error, response)
            case TopicUncleanLeaderElectionEnable(topic=topic):
                self._tools.journal.info(
                    f"Unclean leader election has been enabled for topic {topic}"
                )
                yield from self._partitions.trigger_online_state_change(topic)
            case ZkPartitionReassignment(is_new=True):
                yield from self._reassignments.process_znode()
            case ZkPartitionReassignment():
                yield from self._reassignments.watch_znode()
            case PartitionReassignmentIsrChange(partition=partition):
                row = self.context.table.row(*partition)
                yield from self._reassignments.complete_if_caught_up([row])
            case AutoPreferredReplicaLeaderElection(controller_epoch=epoch):
                if epoch == self.context.epoch:
                    yield from self._elections.rebalance()
            case RefusedPartitionRetry():
                rows = yield from self._topics.read_again()
                yield from self._reassignments.resume(rows)
                yield from self._reassignments.retry_refused()
                yield from self._deletion.process_requests()
                self._partitions.refused.retried()
            case IsrChangeNotification():
                yield from self._isr_changes.follow_notifications()
            case LogDirEventNotification():
                yield from self._log_dirs.follow_notifications()
            case _:
                assert_never(event)

    # ------------------------------------------------------------------ gauges

    def gauges(self) -> dict[str, int]:
        """The gauges of ``kafka.controller:type=KafkaController``; 0 on an inactive broker."""
        context, table = self.context, self.context.table
        deleting = [
            state
            for topic in context.topics_to_be_deleted
            for row in table.rows_of(topic)
            for state in table.replica_states[row]
        ]
        active = self.is_active
        values = {
            "OfflinePartitionsCount": context.offline_partition_count,
            "PreferredReplicaImbalanceCount": table.imbalanced,
            "GlobalTopicCount": len(table.topics),
            "GlobalPartitionCount": table.with_leader_and_isr,
            "TopicsToDeleteCount": len(context.topics_to_be_deleted),
            "ReplicasToDeleteCount": sum(s != ReplicaState.DELETION_SUCCESSFUL for s in deleting),
            "TopicsIneligibleToDeleteCount": len(context.topics_ineligible_for_deletion),
            "ReplicasIneligibleToDeleteCount": deleting.count(ReplicaState.DELETION_INELIGIBLE),
            "ActiveBrokerCount": len(context.live_broker_epochs),
        }
        gauges = {name: value if active else 0 for name, value in values.items()}
        gauges["ActiveControllerCount"] = int(active)
        gauges["FencedBrokerCount"] = 0
        gauges["ZkMigrationState"] = ZK_MIGRATION_STATE_ZK
        return gauges


__all__ = ["NO_CONTROLLER", "ControllerConfig", "KafkaController"]
