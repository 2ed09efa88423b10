"""A running node of the quorum: log, listener, connections to other nodes.

With a controller (:meth:`QuorumNode.set_controller`), the controller writes records while the node
is the leader.  Without one, the node votes, follows and leads, but writes only a LeaderChange.

Source: Kafka ``KafkaRaftManager``, ``SharedServer``, ``ControllerServer`` (their order of starting
and stopping).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_common.model import Endpoint
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.observability.metrics import Metrics
from kafka_common.observability.prefixed_log import PrefixedLog
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from kafka_common.process.wall_clock import WallClock
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_values import RaftAppender
from kraft.controller.snapshot_trigger import SnapshotConfig
from kraft.node.controller_loop import ControllerLoop
from kraft.node.described_config import UNCONFIGURED
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.quorum_controller_metrics import QuorumControllerMetrics
from kraft.node.quorum_requests import QuorumRequests
from kraft.node.quorum_state_file import QuorumStateFile
from kraft.node.raft_channel import RaftChannels
from kraft.node.raft_driver import Flush, RaftDriver, RaftListener
from kraft.node.raft_metrics import RaftMetrics
from kraft.node.snapshot_files import SnapshotWriter
from kraft.node.snapshot_generator import SnapshotGenerator
from kraft.raft.config import QuorumConfig
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import Endpoints
from kraft.raft.values import NodeAddress, ReplicaKey, VoterSet
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network.listener import ServerLimits, SocketServer
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.security.authorizer import Authorizer

SHUTDOWN_TIMEOUT_MS: Final = 5_000
"""The longest time that a stopping leader waits for the election of another leader."""
UPKEEP_S: Final = 1.0
"""The interval at which the log's deferred tasks run: deletions, flushes of old segments."""

_log: Final = logging.getLogger("kafka.raft.KafkaRaftManager")
_shared_log: Final = logging.getLogger("kafka.server.SharedServer")
_controller_log: Final = logging.getLogger("kafka.server.ControllerServer")
_server_log: Final = logging.getLogger("kafka.server.KafkaRaftServer")


@dataclass(frozen=True, slots=True)
class QuorumNodeSettings:
    """The settings of a node."""

    local: ReplicaKey
    cluster_id: str
    metadata_log_dir: Path
    voters: VoterSet
    listeners: tuple[Endpoint, ...]
    """The listeners to bind; the first one is the quorum's."""
    advertised: Endpoints
    """The addresses at which others reach this node, by listener name."""
    bootstrap_servers: tuple[NodeAddress, ...] = ()
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    log: MetadataLogConfig = field(default_factory=MetadataLogConfig)
    snapshots: SnapshotConfig = field(default_factory=SnapshotConfig)
    """When a node with a controller makes a snapshot."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    authenticators: Mapping[str, ListenerAuthenticator] = field(default_factory=dict)
    """How clients authenticate, by listener name; only for listeners with TLS or SASL."""
    security: ClientSecurity = PLAINTEXT
    """How this node connects and authenticates to other nodes."""
    authorizer: Authorizer | None = None
    """None if every client may do everything."""
    config: BrokerConfig = UNCONFIGURED
    """The whole configuration, for DescribeConfigs."""
    mutations: MutationQuotas | None = None
    """The quotas of partitions that clients create and delete; None for no quotas."""

    @property
    def listener_name(self) -> str:
        """The name of the quorum's listener."""
        return self.listeners[0].listener_name


class QuorumNode:
    """One node.  :meth:`run` lasts until the node stops."""

    def __init__(self, settings: QuorumNodeSettings, metrics: Metrics | None = None) -> None:
        """Opens no file and no socket; :meth:`run` does."""
        self._settings = settings
        self._metrics = metrics
        self._now_ms = WallClock()
        self._listeners: dict[str, RaftListener] = {}
        self._driver: RaftDriver | None = None
        self._make_controller: Callable[[RaftAppender], QuorumController] | None = None
        self._controller: ControllerLoop | None = None
        self._snapshots: SnapshotGenerator[SnapshotWriter] | None = None
        self._stop_wanted = asyncio.Event()
        self._started = asyncio.Event()

    @property
    def driver(self) -> RaftDriver:
        """The node's driver; only after :meth:`started` has returned."""
        assert self._driver is not None, "the node has not started"
        return self._driver

    def set_controller(self, make: Callable[[RaftAppender], QuorumController]) -> None:
        """Sets the function that makes the node's controller; call it before :meth:`run`."""
        self._make_controller = make

    @property
    def controller(self) -> ControllerLoop:
        """The running controller, if the node has one; only after :meth:`started` has returned."""
        assert self._controller is not None, "the node has no controller"
        return self._controller

    def add_listener(self, name: str, listener: RaftListener) -> None:
        """Adds a listener of committed records; call it before :meth:`run`."""
        self._listeners[name] = listener

    async def started(self) -> None:
        """Returns when the node accepts connections."""
        await self._started.wait()

    def stop(self) -> None:
        """Makes :meth:`run` leave the quorum and return."""
        self._stop_wanted.set()

    async def run(self) -> bool:
        """Runs until :meth:`stop`; returns whether the node left the quorum before the timeout.

        RaftFatal, KafkaStorage or OSError if the node must not continue; ConfigInvalid if it cannot
        bind a listener's address.
        """
        local_id = self._settings.local.id
        shared = PrefixedLog(_shared_log, f"[SharedServer id={local_id}] ")
        controller = PrefixedLog(_controller_log, f"[ControllerServer id={local_id}] ")
        controller.info("Starting controller")
        shared.info("Starting SharedServer")
        async with self._open_log() as log:
            node = self._raft_node(log)
            driver = self._make_driver(node, log)
            channels = RaftChannels(
                node_id=self._settings.local.id,
                request_timeout_ms=self._settings.quorum.request_timeout_ms,
                on_outcome=driver.put,
                random=random.Random(),
                security=self._settings.security,
            )
            for name, listener in self._listeners.items():
                driver.register(name, listener)
            if self._make_controller is not None:
                self._controller = self._make_controller_loop(driver, self._make_controller)
                self._snapshots = self._make_generator(self._controller, log)
                self._controller.start()
            upkeep = asyncio.create_task(self._keep_up(log))
            try:
                return await self._serve(driver, channels)
            finally:
                controller.info("shutting down")
                upkeep.cancel()
                if self._snapshots is not None:
                    await self._snapshots.close()
                if self._controller is not None:
                    await self._controller.close()
                await channels.close()
                await asyncio.wait((upkeep,))
                shared.info("Stopping SharedServer")

    async def _serve(self, driver: RaftDriver, channels: RaftChannels) -> bool:
        settings = self._settings
        server = SocketServer(
            settings.listeners,
            settings.limits,
            QuorumRequests(
                driver,
                settings.cluster_id,
                self._controller,
                authorizer=settings.authorizer,
                listeners=settings.listeners,
                config=settings.config,
                mutations=settings.mutations,
            ).respond,
            broker_id=settings.local.id,
            protected_listener=settings.listener_name,
            authenticators=settings.authenticators,
            listener_type="CONTROLLER",
        )
        # The ports are bound before the driver sends anything.  The driver starts before the first
        # request is handled, because nothing is awaited in between.
        server.open()
        running = asyncio.create_task(driver.run(channels))
        stopping = asyncio.create_task(self._stop_wanted.wait())
        self._driver = driver
        self._started.set()
        PrefixedLog(_server_log, f"[KafkaRaftServer nodeId={settings.local.id}] ").info(
            "Kafka Server started"
        )
        try:
            waited_for: list[asyncio.Future[Any]] = [running, stopping]
            if self._controller is not None:
                waited_for.append(self._controller.failure)
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if self._controller is not None and self._controller.failure.done():
                raise self._controller.failure.result()
            if not running.done():
                driver.shut_down(SHUTDOWN_TIMEOUT_MS)
            return await running
        finally:
            stopping.cancel()
            running.cancel()
            await asyncio.wait((running, stopping))
            await server.close()

    def _raft_node(self, log: KafkaMetadataLog) -> KafkaRaftClient:
        settings = self._settings
        return KafkaRaftClient(
            local=settings.local,
            cluster_id=settings.cluster_id,
            voters=settings.voters,
            log=log,
            config=settings.quorum,
            random=random.Random(),
            listener_name=settings.listener_name,
            local_endpoints=settings.advertised,
            bootstrap_servers=settings.bootstrap_servers,
        )

    def _make_driver(self, node: KafkaRaftClient, log: KafkaMetadataLog) -> RaftDriver:
        settings = self._settings
        metrics = None
        if self._metrics is not None:
            metrics = RaftMetrics(self._metrics, node, settings.local)
        return RaftDriver(
            node,
            plan_flush=partial(_plan_flush, log),
            elections=QuorumStateFile(log.directory, settings.voters),
            metrics=metrics,
            now_ms=self._now_ms,
            may_step=SPARE_DESCRIPTORS.allow_step,
        )

    def _make_controller_loop(
        self, driver: RaftDriver, make: Callable[[RaftAppender], QuorumController]
    ) -> ControllerLoop:
        metrics = None
        if self._metrics is not None:
            metrics = QuorumControllerMetrics(
                self._metrics, self._now_ms, lambda: driver.leader_and_epoch.leader_id
            )
        return ControllerLoop(driver, make, self._now_ms, metrics)

    def _make_generator(
        self, controller: ControllerLoop, log: KafkaMetadataLog
    ) -> SnapshotGenerator[SnapshotWriter]:
        made = controller.observe(
            lambda made_for: SnapshotGenerator(
                made_for.state, controller, log, self._settings.snapshots, self._now_ms
            )
        )
        if self._metrics is not None:
            gauges: dict[str, Callable[[], int]] = {
                "LatestSnapshotGeneratedBytes": lambda: made.latest_bytes,
                "LatestSnapshotGeneratedAgeMs": lambda: made.age_ms,
            }
            for name, read in gauges.items():
                self._metrics.gauge(f"kafka.server:type=SnapshotEmitter,name={name}", read)
        return made

    @asynccontextmanager
    async def _open_log(self) -> AsyncIterator[KafkaMetadataLog]:
        settings = self._settings
        # Open the log in a thread, because the whole log is read and checked.
        log = await asyncio.to_thread(
            KafkaMetadataLog.open, settings.metadata_log_dir, settings.log, self._now_ms
        )
        try:
            yield log
        finally:
            await asyncio.to_thread(log.close)

    async def _keep_up(self, log: KafkaMetadataLog) -> None:
        while True:
            await asyncio.sleep(UPKEEP_S)
            for task in list(log.deferred_tasks.take_due(self._now_ms())):
                try:
                    await asyncio.to_thread(task.action)
                    if task.after is not None:
                        task.after()
                except Exception:  # noqa: BLE001 - the upkeep must go on whatever happens
                    # The next start cleans up after a failed task.
                    _log.exception("%s of %s failed", task.name, task.partition)


def _plan_flush(log: KafkaMetadataLog) -> Flush | None:
    plan = log.plan_flush()
    if plan is None:
        return None
    return Flush(plan.run, partial(log.finish_flush, plan))
