"""Controller election, failover and resignation.

A broker tries to be elected when ``/controller`` does not exist.  The election is one transaction:
create the ephemeral ``/controller`` and raise ``/controller_epoch``.  The winner holds the version
of ``/controller_epoch`` that fences all its later writes.  A controller starts from ZooKeeper alone
(:meth:`Failover._on_controller_failover`) and forgets everything when it resigns.

Five things differ from Kafka on purpose, each after a defect seen there:

* a broker that *finds* no controller tries to be elected, also when no watch reported the deletion
  (with one live candidate Kafka can stay without a controller for ever);
* a ``/controller`` that names this broker while it is not acting as controller is deleted,
  whichever earlier session owns it (KAFKA-13407, KAFKA-4229);
* resigning drops the whole context and starts from an empty one (KAFKA-5310);
* an election or a failover that failed is tried again after a pause, and only then ``/controller``
  is given up, because the next candidate may fail for the same reason;
* a topic or a partition state that is corrupt, or that ZooKeeper refuses to show, is logged with
  its path and left out; it does not end a failover.

Source: Kafka ``KafkaController`` (``elect``, ``maybeResign``, ``onControllerFailover`` …),
``KafkaZkClient.registerControllerAndIncrementControllerEpoch``.
"""

from __future__ import annotations

from kafka_common.errors import (
    AuthenticationFailed,
    ControllerMoved,
    SessionExpired,
    ZnodeCorrupt,
    ZooKeeperRefused,
)
from zkcontroller.core.brokers import Brokers
from zkcontroller.core.effects import (
    AddChannel,
    CancelPuts,
    Pause,
    Procedure,
    Put,
    RemoveAllChannels,
)
from zkcontroller.core.events import Reelect
from zkcontroller.core.features import set_up_feature_versioning
from zkcontroller.core.journal import KAFKA_ZK_CLIENT, csv, scala_hash_set, scala_map, scala_set
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import distinct
from zkcontroller.core.preferred_election import FIRST_CHECK_MS, ReplicaLeaderElections
from zkcontroller.core.reassignment import Reassignments
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topic_deletion import TopicDeletionManager
from zkcontroller.core.topics import TopicChanges
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import (
    Check,
    Committed,
    Create,
    Delete,
    RolledBack,
    SetData,
    UnfencedBatch,
    ZkCode,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.znodes import (
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicsZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationZnode,
    PartitionStateZnode,
)

NO_CONTROLLER = -1
CONTROLLER_MOVED = "org.apache.kafka.common.errors.ControllerMovedException"
ELECTION_RETRY_MS = 5_000
"""The pause after a failed election or failover before ``/controller`` is read again, and after a
failed failover before ``/controller`` is deleted."""
STATES_PER_READ = 50_000
"""Partition states read at once at failover; bounds memory at a million partitions."""
STATES_PER_STEP = 5_000
"""States stored in the table at once by C code, which other threads must wait for."""


class Failover:
    """Elections, failover and resignation of one candidate."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        topics: TopicChanges,
        brokers: Brokers,
        reassignments: Reassignments,
        elections: ReplicaLeaderElections,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._replicas = replicas
        self._deletion = deletion
        self._topics = topics
        self._brokers = brokers
        self._reassignments = reassignments
        self._elections = elections
        self._broker_id = tools.config.broker_id
        self.active_controller_id = NO_CONTROLLER
        """The controller's broker id in ``/controller`` at the last read; -1 for none."""

    @property
    def is_active(self) -> bool:
        """Whether this broker acts as controller."""
        return self.active_controller_id == self._broker_id and self._context.epoch > 0

    # ------------------------------------------------------------------ election

    def elect(self, now_ms: int) -> Procedure[None]:
        """Try to become controller unless there is one; take over if the election is won."""
        found = yield from self._read_controller()
        if found is not None and found[0] == self._broker_id and not self.is_active:
            yield from self._remove_own_stale_znode()
            found = yield from self._read_controller()
        self.active_controller_id = NO_CONTROLLER if found is None else found[0]
        if self.active_controller_id != NO_CONTROLLER:
            self._journal.debug(
                f"Broker {self.active_controller_id} has been elected as the controller, so"
                " stopping the election process."
            )
            return
        try:
            epoch, epoch_zk_version = yield from self._register(now_ms)
            self._context.epoch = epoch
            self._context.epoch_zk_version = epoch_zk_version
            self.active_controller_id = self._broker_id
            self._journal.info(
                f"{self._broker_id} successfully elected as the controller. Epoch incremented to"
                f" {epoch} and epoch zk version is now {epoch_zk_version}"
            )
            self._record(Kind.CONTROLLER_ELECTED, epoch)
            yield from self._on_controller_failover()
        except ControllerMoved as moved:
            yield from self.follow_the_move()
            if self.active_controller_id != NO_CONTROLLER:
                self._journal.debug(
                    f"Broker {self.active_controller_id} was elected as controller instead of"
                    f" broker {self._broker_id}",
                    exception=f"{CONTROLLER_MOVED}: {moved}",
                )
            else:
                self._journal.warn(
                    "A controller has been elected but just resigned, this will result in another"
                    " round of election"
                )
        except (SessionExpired, AuthenticationFailed):
            raise  # Expire is on its way
        except Exception as error:  # noqa: BLE001 - whatever it is, a half-done failover must not rule
            yield from self._give_up(error)

    def _give_up(self, error: Exception) -> Procedure[None]:
        self._journal.error(
            f"Error while electing or becoming controller on broker {self._broker_id}. Trigger"
            " controller movement immediately",
            exception=f"{type(error).__name__}: {error}",
        )
        yield from self.trigger_controller_move(ELECTION_RETRY_MS)

    def _register(self, now_ms: int) -> Procedure[tuple[int, int]]:
        """Win the election; returns the new epoch and the zk_version of ``/controller_epoch``.

        Raises ControllerMoved if another broker won, ZooKeeperRefused for any other result.
        """
        epoch, zk_version = yield from self._read_or_create_epoch()
        outcome: Committed | RolledBack = yield ZkTransaction(
            [
                Create(
                    ControllerZnode.PATH,
                    ControllerZnode(self._broker_id, now_ms).encode(),
                    ephemeral=True,
                ),
                SetData(
                    ControllerEpochZnode.PATH, ControllerEpochZnode.encode(epoch + 1), zk_version
                ),
            ]
        )
        if isinstance(outcome, Committed):
            return epoch + 1, outcome.results[1].zk_version
        if outcome.code not in (ZkCode.NODE_EXISTS, ZkCode.BAD_VERSION):
            raise ZooKeeperRefused(ControllerZnode.PATH, outcome.code.name)
        # Another broker won the election, or this one did, and the reply to its write was lost.
        found = yield from self._read_controller()
        if found is not None and found[0] == self._broker_id:
            epoch_now, zk_version_now = yield from self._read_or_create_epoch()
            if epoch_now == epoch + 1:
                return epoch_now, zk_version_now
        raise ControllerMoved(
            "Controller moved to another broker. Aborting controller startup procedure"
        )

    def _read_or_create_epoch(self) -> Procedure[tuple[int, int]]:
        while True:
            znode = yield from self._tools.read_one(ControllerEpochZnode.PATH)
            if znode is not None:
                return ControllerEpochZnode.decode(znode.data), znode.zk_version
            results = yield UnfencedBatch(
                [Create(ControllerEpochZnode.PATH, ControllerEpochZnode.encode(0))]
            )
            if not isinstance(results[0], ZkCode):
                self._journal.info(
                    "Successfully created /controller_epoch with initial epoch 0",
                    KAFKA_ZK_CLIENT,
                )
            elif results[0] is not ZkCode.NODE_EXISTS:
                raise ZooKeeperRefused(ControllerEpochZnode.PATH, results[0].name)

    def _read_controller(self) -> Procedure[tuple[int, Znode] | None]:
        """The broker id in ``/controller`` with the znode; None if it is missing or corrupt."""
        znode = yield from self._tools.read_one(ControllerZnode.PATH)
        if znode is None:
            return None
        try:
            return ControllerZnode.decode(znode.data).broker_id, znode
        except ZnodeCorrupt as corrupt:
            self._journal.error(f"{corrupt}; nobody can be elected until it is removed")
            return None

    def _remove_own_stale_znode(self) -> Procedure[None]:
        """Delete a ``/controller`` that names this broker but belongs to an earlier session.

        ``/controller`` has version 0 for every creator, so the epoch fences this delete.  No harm
        is done if another broker has created it meanwhile.
        """
        epoch = yield from self._tools.read_one(ControllerEpochZnode.PATH)
        found = yield from self._read_controller()
        if found is None or found[0] != self._broker_id:
            return
        znode = found[1]
        if znode.ephemeral_owner == 0:
            return  # a KRaft controller has taken over the cluster: its znode must stay
        self._journal.warn(
            f"{ControllerZnode.PATH} names this broker, which does not act as controller (owner"
            f" session 0x{znode.ephemeral_owner:x}); removing it and running again"
        )
        fence = [] if epoch is None else [Check(ControllerEpochZnode.PATH, epoch.zk_version)]
        yield ZkTransaction([*fence, Delete(ControllerZnode.PATH, znode.zk_version)])

    # ------------------------------------------------------------------ failover

    def _on_controller_failover(self) -> Procedure[None]:
        """Load the cluster from ZooKeeper and update every broker.  Steps in Kafka's order."""
        journal, context = self._journal, self._context
        yield from set_up_feature_versioning(self._tools)
        journal.info("Registering handlers")
        journal.info("Deleting log dir event notifications")
        yield from self._delete_children(LogDirEventNotificationZnode.PATH)
        journal.info("Deleting isr change notifications")
        yield from self._delete_children(IsrChangeNotificationZnode.PATH)
        journal.info("Initializing controller context")
        yield from self._initialize_context()
        journal.info("Fetching topic deletions in progress")
        queued, ineligible = yield from self._topic_deletions_in_progress()
        journal.info("Initializing topic deletion manager")
        yield from self._deletion.initialize(queued, ineligible)
        # Brokers must know the live brokers before they get a LeaderAndIsr.
        journal.info("Sending update metadata request")
        self._tools.send_update_metadata()
        yield from self._replicas.startup()
        yield from self._partitions.startup()
        journal.info(f"Ready to serve as the new controller with epoch {context.epoch}")
        yield from self._reassignments.resume_all()
        yield from self._deletion.resume()
        yield from self._elections.resume()
        journal.info("Starting the controller scheduler")
        self._elections.schedule_rebalance(FIRST_CHECK_MS)

    def _delete_children(self, parent: str) -> Procedure[None]:
        names = yield from self._tools.children(parent, watch=True)
        yield from self._tools.write([Delete(f"{parent}/{name}") for name in names])

    def _initialize_context(self) -> Procedure[None]:
        context, journal, table = self._context, self._journal, self._context.table
        brokers = self._brokers.compatible((yield from self._brokers.read_all()))
        context.set_live_brokers(brokers)
        journal.info(
            f"Initialized broker epochs cache: {scala_map(context.live_broker_epochs.items())}"
        )
        topics = yield from self._topics.names()
        yield from self._topics.load(topics)
        yield from self._brokers.watch_modifications(list(context.live_broker_epochs))
        yield from self._load_leader_and_isr()
        for broker, _ in brokers:
            self._tools.outbox.append(AddChannel(broker))
        journal.info(
            f"Currently active brokers in the cluster: {scala_set(context.live_broker_ids)}"
        )
        journal.info(
            f"Currently shutting brokers in the cluster: {scala_hash_set(context.shutting_down)}"
        )
        journal.info(f"Current list of topics in the cluster: {scala_hash_set(table.topics)}")

    def _load_leader_and_isr(self) -> Procedure[None]:
        table = self._context.table
        count = len(table.topic_of)
        assert count == len(table), "the table is fresh, so no row was freed"
        # Thousands of partitions have byte-equal states: equal bytes are decoded once.
        decoded: dict[bytes, PartitionStateZnode | None] = {}
        for start in range(0, count, STATES_PER_READ):
            part = slice(start, start + STATES_PER_READ)
            paths = list(
                map(PartitionStateZnode.path, table.topic_of[part], table.partition_of[part])
            )
            znodes = yield from self._tools.try_read(paths)
            for path, znode in zip(paths, znodes, strict=True):
                if isinstance(znode, Znode):
                    if decoded.get(znode.data) is None:
                        decoded[znode.data] = self._decode(path, znode.data)
                elif znode is not ZkCode.NO_NODE:
                    self._journal.error(
                        f"Cannot read {path}: {znode.name}; the partition counts as having no"
                        " leader until it can be read"
                    )
            for at in range(0, len(znodes), STATES_PER_STEP):
                some = znodes[at : at + STATES_PER_STEP]
                table.load_leader_and_isr(
                    start + at,
                    [decoded[znode.data] if isinstance(znode, Znode) else None for znode in some],
                    [znode.zk_version if isinstance(znode, Znode) else 0 for znode in some],
                )

    def _decode(self, path: str, data: bytes) -> PartitionStateZnode | None:
        try:
            return PartitionStateZnode.decode(path, data)
        except ZnodeCorrupt as corrupt:
            self._journal.error(
                f"{corrupt}; the partition counts as having no leader until it is mended"
            )
            return None

    def _topic_deletions_in_progress(self) -> Procedure[tuple[list[str], list[str]]]:
        """The topics queued for deletion, and *all* topics with a replica on a dead broker."""
        context, table = self._context, self._context.table
        queued = yield from self._tools.children(DeleteTopicsZnode.PATH, watch=True)
        live = set(context.live_broker_ids)
        unavailable = {r for r in distinct(table.replicas) if not live.issuperset(r)}
        ineligible = [
            topic
            for topic, rows in table.topics.items()
            if unavailable and any(table.replicas[row] in unavailable for row in rows.rows)
        ]
        self._journal.info(f"List of topics to be deleted: {csv(queued)}")
        self._journal.info(f"List of topics ineligible for deletion: {csv(ineligible)}")
        return queued, ineligible

    # ------------------------------------------------------------------ resignation

    def maybe_resign(self) -> Procedure[None]:
        """Read ``/controller``, leaving a watch; resign if it names another broker or none.

        A broker that holds an epoch and is not named resigns, whatever it saw before.  Kafka
        resigns only if it was active until now, and so keeps its old context if it has seen its
        successor already.
        """
        yield from self._tools.exists([ControllerZnode.PATH], watch=True)
        found = yield from self._read_controller()
        self.active_controller_id = NO_CONTROLLER if found is None else found[0]
        if self._context.epoch and self.active_controller_id != self._broker_id:
            self.resign()

    def follow_the_move(self) -> Procedure[None]:
        """Handle a failed fence: this broker's epoch is over, whatever ``/controller`` says.

        ``/controller`` may still name this broker, if the epoch was raised by hand.  Then no other
        broker tries to be elected, so this broker does.
        """
        yield from self.maybe_resign()
        if self._context.epoch:
            self.resign()
            self.active_controller_id = NO_CONTROLLER
            self._tools.outbox.append(Put(Reelect()))

    def expire(self) -> None:
        """Handle the end of the ZooKeeper session, which deleted this broker's ephemeral znodes."""
        self.active_controller_id = NO_CONTROLLER
        self.resign()

    def resign(self) -> None:
        """Stop acting as controller and forget the cluster; harmless if it never acted."""
        self._journal.debug("Resigning")
        self._tools.outbox.append(CancelPuts())
        self._partitions.shutdown()
        self._replicas.shutdown()
        self._tools.outbox.append(RemoveAllChannels())
        if self._context.epoch:
            self._record(Kind.CONTROLLER_RESIGNED, self._context.epoch)
        self._context.reset()
        self._journal.info("Resigned")

    def trigger_controller_move(self, pause_ms: int = 0) -> Procedure[None]:
        """Resign, then delete ``/controller`` so that every broker tries to be elected again.

        After a failed failover it waits ``pause_ms`` between the two.  The next failover may fail
        as well, and the candidates would hold one election after another without a pause.

        A controller that holds an epoch resigns first, and asks ZooKeeper afterwards: Kafka reads
        ``/controller`` before, and keeps its context if that fails or names another broker.  The
        fence protects the successor's znode from being deleted.  The delayed Reelect handles what
        no watch reports: a failed delete, a lost watch, a corrupt znode that became valid.
        """
        fence, is_in_office = self._context.epoch_zk_version, self._context.epoch > 0
        if is_in_office:
            self.active_controller_id = NO_CONTROLLER
            self.resign()
            if pause_ms:
                yield Pause(pause_ms)
        self._tools.outbox += [CancelPuts(), Put(Reelect(), ELECTION_RETRY_MS)]
        try:
            if not is_in_office:
                raise ControllerMoved("this broker holds no epoch")
            self._context.epoch_zk_version = fence
            yield from self._tools.delete([ControllerZnode.PATH])
        except ControllerMoved:
            self._journal.warn(
                "Controller has already moved when trying to trigger controller movement"
            )
        except ZooKeeperRefused as refused:
            self._journal.error(f"{refused}; running for controller again later")
        finally:
            self._context.epoch_zk_version = 0

    def _record(self, kind: Kind, epoch: int) -> None:
        self._journal.record(StateChange(kind, "controller", self._broker_id, epoch))
