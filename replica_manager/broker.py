"""A broker: everything put together, started and stopped in Kafka's order.

Three rooms: the asyncio loop owns sockets, partitions and the metadata cache; the controller's
event thread decides; ZooKeeper's threads only hand over.  What blocks (ZooKeeper, disk) runs in an
executor.  A broker hosts a controller candidate, which learns of watches and session changes
through this object.

Source: Kafka ``KafkaServer`` (``startup``, ``shutdown``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final, TypeVar

from replica_manager.broker_gauges import (
    PartitionGauges,
    register_log_gauges,
    register_purgatories,
    register_replica_gauges,
    register_session_gauges,
)
from replica_manager.broker_status import BrokerStatus, remove_status
from replica_manager.config import BrokerConfig, parse_connection_overrides
from replica_manager.controlled_shutdown import ControlledShutdownClient
from replica_manager.dynamic_config import UNCLEAN_LEADER_ELECTION_ENABLE, DynamicConfig
from replica_manager.feature_epoch import FeatureEpoch
from replica_manager.listeners import connection_string, with_real_addresses
from replica_manager.log.log_manager import LogDirFailure
from replica_manager.meta_properties import (
    LogDirLocks,
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from replica_manager.refresher import Refresher
from replica_manager.registration import (
    Registration,
    check_endpoints,
    cluster_id,
    create_persistent_paths,
    generate_broker_id,
)
from replica_manager.replication.controller_channel import ChannelToController, ControllerChannel
from replica_manager.replication.fetch_sessions import MAX_SESSION_ID, FetchSessionCache
from replica_manager.replication.log_dir_moves import LogDirMoves, MoveSettings
from replica_manager.replication.metadata_cache import MetadataCache
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.record_reads import RecordReads
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.replication_tasks import ReplicationTasks
from replica_manager.replication.throttle import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationThrottles,
)
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.acl_store import AclStore
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import Principal
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.security.settings import (
    authorizer_settings,
    client_security,
    listener_security,
)
from replica_manager.server.auto_creation import AutoTopicCreation
from replica_manager.server.connection import Answer, Peer
from replica_manager.server.context import BrokerContext
from replica_manager.server.dispatch import OFFERED, refusal, respond
from replica_manager.server.gate import Gate
from replica_manager.server.group_loading import led_log
from replica_manager.server.group_service import GroupService
from replica_manager.server.group_settings import group_settings, offsets_partition_count
from replica_manager.server.listener import ServerLimits, SocketServer
from replica_manager.server.mutation_quotas import MutationQuotas
from replica_manager.server.producer_ids import (
    BlocksOfController,
    ProducerIds,
    ProducerIdsFromController,
    ProducerIdsFromZooKeeper,
)
from replica_manager.server.record_deletions import RecordDeletions
from replica_manager.server.request_metrics import RequestMetrics
from replica_manager.server.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import ZooKeeperAdmin
from replica_manager.storage import LogDirEvents, Storage
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.events import (
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from zkcontroller.errors import BrokerIdInUse, ConfigInvalid, KafkaStorage
from zkcontroller.model import UNKNOWN_BROKER_EPOCH, Broker, Endpoint, TopicPartition
from zkcontroller.protocol.inter_broker_versions import (
    broker_znode_version,
    is_allocate_producer_ids_supported,
)
from zkcontroller.runtime.broker_channel import ChannelSettings
from zkcontroller.runtime.controller_runtime import ControllerRuntime
from zkcontroller.runtime.log_files import StateChangeSink
from zkcontroller.runtime.metrics import Metrics, mbean
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigChangesZnode, FeatureZnode

ZOOKEEPER_AUTH_VARIABLE: Final = "ZKCONTROLLER_ZOOKEEPER_AUTH"
"""Environment variable with the credentials for ZooKeeper; Kafka takes them from a JAAS file."""
EXECUTOR_CLOSE_TIMEOUT_S: Final = 5.0
_log = logging.getLogger("kafka.server.KafkaServer")
_replica_log = logging.getLogger("kafka.server.ReplicaManager")
_T = TypeVar("_T")


class BrokerState(IntEnum):
    """Values of the gauge ``BrokerState``."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerServer:
    """One broker.  ``start``, ``stop`` and all but the session's callbacks belong to the loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        state_changes: StateChangeSink,
        trace_state_changes: bool = False,
        metrics: Metrics | None = None,
        counts_requests: bool = False,
        counts_partitions: bool = False,
        zookeeper_auth: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """``counts_requests``: somebody can read ``metrics``, so that requests are timed.

        ``counts_partitions``: every partition has gauges of its own among them.
        """
        if config.is_enabled("zookeeper.set.acl") and not zookeeper_auth:
            raise ConfigInvalid(
                "zookeeper.set.acl",
                "true",
                f"true only with credentials: set {ZOOKEEPER_AUTH_VARIABLE}=digest:USER:PASSWORD",
            )
        self.metrics = metrics or Metrics()
        self._request_metrics = RequestMetrics(self.metrics) if counts_requests else None
        self._counts_partitions = counts_partitions
        self.broker_id = config.broker_id
        """-1 until it is known, where it is generated."""
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.endpoints: tuple[Endpoint, ...] = ()
        """What is advertised, with real ports; empty before :meth:`start` has bound them."""
        self.state = BrokerState.NOT_RUNNING
        self.has_failed: asyncio.Event = asyncio.Event()
        """Set when the broker cannot go on and should be stopped."""
        self._config = config
        self._state_changes = state_changes
        self._trace = trace_state_changes
        self._zookeeper_auth = zookeeper_auth
        self._is_stopping = threading.Event()
        self._runtime: ControllerRuntime | None = None
        self._refreshers: list[Refresher] = []
        self._locks = LogDirLocks()
        self._failed_log_dirs: dict[Path, str] = {}
        self._storage: Storage | None = None
        self._replica_manager: ReplicaManager | None = None
        self._replication: ReplicationTasks | None = None
        self._groups: GroupService | None = None
        self._server: SocketServer | None = None
        self._dynamic: DynamicConfig | None = None
        # Read at once, so that a broker whose keys or passwords are wrong does not even begin.
        self._security = listener_security(config)
        self._client_security = {
            name: client_security(config, name)
            for name in {config.listeners.inter_broker, config.listeners.controller_uses}
        }
        self._scram_credentials = ScramCredentials()
        self._authorizer = _authorizer_of(config)
        self._acl_store: AclStore | None = None

    @property
    def _prefix(self) -> str:
        return f"[KafkaServer id={self.broker_id}] "

    @property
    def is_controller_at_work(self) -> bool:
        """Whether the controller candidate processes an event just now; from any thread."""
        return self._runtime is not None and self._runtime.is_at_work

    async def start(self) -> None:
        """Returns when clients are served; what it raises has been logged and undone."""
        _log.info("%sstarting", self._prefix)
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(
            self._config.integer("num.io.threads"), thread_name_prefix="data-plane-kafka-request"
        )
        try:
            await self._start()
        except BaseException as failure:
            _log.critical(
                "%sFatal error during KafkaServer startup. Prepare to shutdown: %s",
                self._prefix,
                failure,
            )
            await self._undo()
            raise

    async def _start(self) -> None:
        config = self._config
        self.state = BrokerState.STARTING
        await self._connect_to_zookeeper()
        if self._authorizer is not None:
            self._acl_store = AclStore(self._session, self._authorizer)
            await self._blocking(self._acl_store.load)
        self._cluster_id = await self._blocking(lambda: cluster_id(self._session))
        _log.info("%sCluster ID = %s", self._prefix, self._cluster_id)
        self.broker_id = await self._blocking(self._establish_identity)
        self._dynamic = DynamicConfig(
            self._session,
            self.broker_id,
            config,
            on_broker_config=self._on_broker_config,
            on_topic=self._on_topic_config,
            on_unclean_topic=self._on_unclean_topic,
            on_client=self._on_client_config,
        )
        self._mutation_quotas = MutationQuotas(
            config.integer("controller.quota.window.num")
            * config.integer("controller.quota.window.size.seconds"),
            lambda: time.monotonic_ns() // 1_000_000,
        )
        await self._blocking(self._dynamic.load)
        await self._blocking(self._dynamic.load_clients)
        self.state = BrokerState.RECOVERY
        self._log_dir_events = LogDirEvents(self._session, self.broker_id)
        self._storage = Storage(
            self._current_config, self._failed_log_dirs, self._on_log_dir_failure
        )
        self._throttles = ReplicationThrottles(
            self.broker_id,
            lambda: time.monotonic_ns() // 1_000_000,
            samples=config.integer("replication.quota.window.num"),
            sample_ms=config.integer("replication.quota.window.size.seconds") * 1000,
        )
        self._set_throttles()
        await self._blocking(self._dynamic.load_topics)
        await self._blocking(self._storage.load)
        if not self._storage.logs.live_log_dirs:
            raise KafkaStorage("none of the log directories can be used")
        self._metadata_cache = MetadataCache(self.broker_id)
        self._make_server()
        self._replication = self._make_replication()
        self._replica_manager = ReplicaManager(
            self.broker_id,
            self._metadata_cache,
            write_state_changes=self._state_changes.write,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            is_tracing=lambda: self._trace,
            logs=self._storage.replica_logs,
            fetchers=self._replication.fetchers,
            on_led=self._on_led,
            on_resigned=self._on_resigned,
            min_in_sync_replicas=self._storage.replica_logs.min_in_sync_replicas,
            replica_lag_time_max_ms=config.integer("replica.lag.time.max.ms"),
        )
        self._topic_stats = BrokerTopicStats(self.metrics)
        self._fetches_expired = {
            is_from_follower: self.metrics.meter(
                mbean(
                    "kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", {"fetcherType": kind}
                ),
                "requests",
            )
            for is_from_follower, kind in ((False, "consumer"), (True, "follower"))
        }
        self._appends = RecordAppends(
            self._replica_manager,
            self._storage.maintenance.flush,
            self._topic_stats,
            lambda: time.monotonic_ns() // 1_000_000,
        )
        self._reads = RecordReads(
            self._replica_manager,
            self._topic_stats,
            lambda: time.monotonic_ns() // 1_000_000,
            self._replication.submit,
            self._on_fetch_expired,
            self._throttles.leader,
        )
        self._fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"),
            partial(SystemRandom().randint, 1, MAX_SESSION_ID),
        )
        self._deletions = RecordDeletions(self._replica_manager, self._storage.logs)
        self._groups = GroupService(
            group_settings(config, self.broker_id),
            self._appends,
            partial(led_log, self._replica_manager),
            metrics=self.metrics,
        )
        self._groups.start(await self._blocking(lambda: offsets_partition_count(self._session)))
        self._register_gauges()
        self._storage.start()
        # Made before the registration, so that a session that expires right after it is noticed.
        self._runtime = self._make_runtime()
        await self._blocking(self._register_first)
        self._make_context()
        self._log_dir_moves.start()
        self._replication.start()
        self._runtime.start()
        self._start_refreshers()
        assert self._server is not None
        self._server.open()
        self._started_at_ms = time.time_ns() // 1_000_000
        self.state = BrokerState.RUNNING
        self._write_status()
        _log.info("%sstarted", self._prefix)

    async def stop(self, *, is_graceful: bool = True) -> None:
        """Stops in Kafka's order: leaderships first, ports next, the ZooKeeper session last.

        Without ``is_graceful`` no leadership is handed over.
        """
        if self.state is BrokerState.NOT_RUNNING:
            return
        _log.info("%sshutting down", self._prefix)
        if is_graceful and self._config.is_enabled("controlled.shutdown.enable"):
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await ControlledShutdownClient(
                self.broker_id,
                lambda: self.broker_epoch,
                self._config,
                self._metadata_cache,
                self._client_security[self._config.listeners.inter_broker],
            ).run()
        await self._undo()
        _log.info("%sshut down completed", self._prefix)

    async def _undo(self) -> None:
        """Takes down whatever stands; each step is tried whatever became of the one before."""
        self.state = BrokerState.SHUTTING_DOWN
        self._is_stopping.set()
        for refresher in self._refreshers:
            await self._quietly(refresher.stop())
        if self._server is not None:
            await self._quietly(self._server.close())
        if self._groups is not None:
            await self._quietly(self._groups.stop())
        if hasattr(self, "_log_dir_moves"):
            await self._quietly(self._log_dir_moves.stop())
            await self._quietly(self._producer_ids.stop())
        if self._replication is not None:
            await self._quietly(self._replication.stop())
        if self._storage is not None:
            await self._quietly(self._storage.stop())
        if self._runtime is not None:
            await self._quietly(asyncio.to_thread(self._runtime.shutdown))
        if hasattr(self, "_session"):
            await self._quietly(asyncio.to_thread(self._session.close))
        self._executor.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(OSError):  # that directory may be the one that failed
            remove_status(self._config.log_dirs[0])
        self._locks.release()
        self.state = BrokerState.NOT_RUNNING

    async def _quietly(self, step: Awaitable[object]) -> None:
        try:
            await step
        except Exception:  # noqa: BLE001 - whatever it is, the other steps must be tried too
            _log.exception("%sError while shutting down", self._prefix)

    async def _blocking(self, call: Callable[[], _T]) -> _T:
        return await self._loop.run_in_executor(self._executor, call)

    # Starting

    async def _connect_to_zookeeper(self) -> None:
        config = self._config
        _log.info("%sConnecting to zookeeper on %s", self._prefix, config.zookeeper_connect)
        self._session = ZooKeeperSession(
            ZooKeeperConfig(
                connect=config.zookeeper_connect,
                session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
                connection_timeout_ms=config.zookeeper_connection_timeout_ms,
                max_in_flight_requests=config.integer("zookeeper.max.in.flight.requests"),
                set_acl=config.is_enabled("zookeeper.set.acl"),
                auth=self._zookeeper_auth,
            ),
            on_watch=self._on_watch,
            on_state=self._on_session_state,
            on_latency_ms=self._on_latency_ms,
        )
        await self._blocking(self._session.start)
        await self._blocking(lambda: create_persistent_paths(self._session))

    def _establish_identity(self) -> int:
        """The broker id; locks the log directories and writes who they belong to."""
        config = self._config
        found: dict[Path, MetaProperties | None] = {}
        for log_dir in config.log_dirs:
            try:
                log_dir.mkdir(parents=True, exist_ok=True)
                self._locks.acquire((log_dir,))
                found[log_dir] = read_meta_properties(log_dir)
            except OSError as failure:
                self._failed_log_dirs[log_dir] = f"Failed to use the directory {log_dir}: {failure}"
        if not found:
            raise ConfigInvalid(
                "log.dirs",
                ",".join(map(str, config.log_dirs)),
                f"directories that can be used ({'; '.join(self._failed_log_dirs.values())})",
            )
        broker_id = check_meta_properties(
            found, cluster_id=self._cluster_id, configured_broker_id=config.broker_id
        )
        if broker_id is None:
            if not config.is_enabled("broker.id.generation.enable"):
                raise ConfigInvalid(
                    "broker.id", config.broker_id, "an id, because no id may be generated"
                )
            broker_id = generate_broker_id(self._session, config.integer("reserved.broker.max.id"))
        meta = MetaProperties(broker_id, self._cluster_id)
        for log_dir, stored in found.items():
            if stored != meta:
                _log.info("[KafkaServer id=%d] Rewriting %s/meta.properties", broker_id, log_dir)
                try:
                    write_meta_properties(log_dir, meta)
                except OSError as failure:
                    self._failed_log_dirs[log_dir] = (
                        f"Failed to write meta.properties in {log_dir}: {failure}"
                    )
        return broker_id

    def _make_server(self) -> None:
        config = self._config
        self._server = SocketServer(
            config.listeners.bound,
            limits_of(self._current_config()),
            self._respond,
            broker_id=self.broker_id,
            protected_listener=config.listeners.inter_broker,
            gates={
                name: Gate(security, self._scram_credentials, refusal)
                for name, security in self._security.items()
                if security.tls is not None or security.sasl is not None
            },
        )
        self._server.bind_ephemeral()
        self.endpoints = with_real_addresses(config.listeners, self._server.ports, socket.getfqdn())

    def _make_replication(self) -> ReplicationTasks:
        def replicas() -> ReplicaManager:
            assert self._replica_manager is not None
            return self._replica_manager

        return ReplicationTasks(
            self.broker_id,
            self._current_config(),
            partitions=lambda: replicas().partitions,
            metadata_cache=self._metadata_cache,
            broker_epoch=lambda: self.broker_epoch,
            security=self._client_security,
            session=self._session,
            executor=self._executor,
            metrics=self.metrics,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            on_changed=lambda tp: replicas().partition_changed(tp),
            throttle=self._throttles.follower,
        )

    def _make_runtime(self) -> ControllerRuntime:
        config = self._current_config()
        listeners = config.listeners
        return ControllerRuntime(
            config=ControllerConfig(
                self.broker_id,
                config.inter_broker_version.name,
                listener_name=listeners.controller_uses,
                inter_broker_listener_name=listeners.inter_broker,
                unclean_leader_election_enable=config.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE),
                delete_topic_enable=config.is_enabled("delete.topic.enable"),
                auto_leader_rebalance_enable=config.is_enabled("auto.leader.rebalance.enable"),
                leader_imbalance_check_interval_seconds=config.integer(
                    "leader.imbalance.check.interval.seconds"
                ),
                leader_imbalance_per_broker_percentage=config.integer(
                    "leader.imbalance.per.broker.percentage"
                ),
                trace_state_changes=self._trace,
            ),
            session=self._session,
            loop=self._loop,
            register_broker=self._register_again,
            state_changes=self._state_changes,
            metrics=self.metrics,
            channel_settings=ChannelSettings(
                self.broker_id,
                listeners.controller_uses,
                connect_timeout_ms=config.integer("controller.socket.timeout.ms"),
                request_timeout_ms=config.integer("request.timeout.ms"),
                security=self._client_security[listeners.controller_uses],
            ),
        )

    def _registration(self) -> Registration:
        config = self._config
        return Registration(
            self._session,
            Broker(self.broker_id, self.endpoints, config.text("broker.rack")),
            broker_znode_version(config.inter_broker_version),
            config.integer("zookeeper.session.timeout.ms"),
            self._is_stopping.is_set,
        )

    def _register_first(self) -> None:
        check_endpoints(self._session, self.broker_id, self.endpoints)
        self.broker_epoch = self._registration().register()

    def _register_again(self) -> int:
        """Registers in a new ZooKeeper session; runs in the controller's event thread."""
        try:
            self.broker_epoch = self._registration().register()
        except BrokerIdInUse as in_use:
            _log.critical("%sThis broker cannot go on: %s", self._prefix, in_use)
            self._loop.call_soon_threadsafe(self.has_failed.set)
            raise
        if self.state is BrokerState.RUNNING:
            self._write_status()
        return self.broker_epoch

    def _make_context(self) -> None:
        assert self._runtime is not None
        assert self._storage is not None
        assert self._replica_manager is not None
        assert self._groups is not None
        self._features = FeatureEpoch(self._session)
        self._producer_ids = self._make_producer_ids()
        self._log_dir_moves = LogDirMoves(
            self._replica_manager,
            self._storage.logs,
            lambda: move_settings(self._current_config()),
            self._storage.maintenance.flush,
        )
        topics = TopicAdmin(self._session, self._executor, self._current_config, SystemRandom())
        self._context = BrokerContext(
            broker_id=self.broker_id,
            cluster_id=self._cluster_id,
            config=self._current_config,
            metadata_cache=self._metadata_cache,
            replica_manager=self._replica_manager,
            logs=self._storage.logs,
            appends=self._appends,
            reads=self._reads,
            fetch_sessions=self._fetch_sessions,
            topic_stats=self._topic_stats,
            groups=self._groups,
            learn_topics=self._learn_topics,
            deletions=self._deletions,
            log_dir_moves=self._log_dir_moves,
            producer_ids=self._producer_ids,
            topics=topics,
            admin=ZooKeeperAdmin(self._session, self._executor),
            auto_creation=AutoTopicCreation(topics, self._metadata_cache, self._current_config),
            controller=self._runtime,
            mutation_quotas=self._mutation_quotas,
            offered=OFFERED,
            broker_epoch=lambda: self.broker_epoch,
            features=self._features,
            authorizer=self._authorizer,
            acls=self._acl_store,
            request_metrics=self._request_metrics,
        )

    def _make_producer_ids(self) -> ProducerIds:
        config = self._config
        if not is_allocate_producer_ids_supported(config.inter_broker_version):
            return ProducerIdsFromZooKeeper(self._session, self._executor, self.broker_id)
        listener = config.listeners.controller_uses
        channel = ControllerChannel(
            self._metadata_cache,
            ChannelToController(
                self.broker_id,
                listener,
                self._client_security[listener],
                connect_timeout_ms=config.integer("controller.socket.timeout.ms"),
                request_timeout_ms=config.integer("request.timeout.ms"),
            ),
        )
        return ProducerIdsFromController(
            BlocksOfController(channel, self.broker_id, lambda: self.broker_epoch),
            lambda: time.monotonic_ns() // 1_000_000,
        )

    def _start_refreshers(self) -> None:
        assert self._dynamic is not None
        self._config_changes = Refresher(
            "configuration changes", self._dynamic.process_changes, self._loop, self._executor
        )
        self._feature_changes = Refresher(
            FeatureZnode.PATH, self._features.look, self._loop, self._executor
        )
        self._log_dir_failures = Refresher(
            "failures of log directories",
            self._log_dir_events.propagate,
            self._loop,
            self._executor,
        )
        self._refreshers = [self._config_changes, self._feature_changes, self._log_dir_failures]
        if self._acl_store is not None:
            self._acl_changes = Refresher(
                "ACL changes", self._acl_store.process_changes, self._loop, self._executor
            )
            self._refreshers.append(self._acl_changes)
        for refresher in self._refreshers:
            refresher.start()

    def _register_gauges(self) -> None:
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "BrokerState"), lambda: int(self.state)
        )
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "ClusterId"), lambda: self._cluster_id
        )
        assert self._replica_manager is not None
        assert self._storage is not None
        register_replica_gauges(self.metrics, self._replica_manager, self._storage.logs)
        register_log_gauges(self.metrics, self._storage.logs)
        if self._counts_partitions:
            assert self._replication is not None
            self.metrics.registry.register(
                PartitionGauges(
                    self._replica_manager.partitions,
                    self._storage.logs,
                    self._replication.fetchers,
                )
            )
        register_session_gauges(self.metrics, self._fetch_sessions)
        register_purgatories(
            self.metrics,
            {
                "Produce": self._appends.waiting,
                "Fetch": self._reads.waiting,
                "DeleteRecords": self._deletions,
            },
        )
        groups = self._groups
        assert groups is not None
        for name in groups.gauges():
            self.metrics.gauge(
                mbean("kafka.coordinator.group", "GroupMetadataManager", name),
                lambda name=name: groups.gauges()[name],  # type: ignore[misc]
            )

    def _write_status(self) -> None:
        status = BrokerStatus(
            pid=os.getpid(),
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            started_at_ms=self._started_at_ms,
            listeners={
                endpoint.listener_name: connection_string(endpoint) for endpoint in self.endpoints
            },
        )
        try:
            status.write(self._config.log_dirs[0])
        except OSError as failure:  # the broker serves from its other directories
            _log.error("%sThe status file cannot be written: %s", self._prefix, failure)

    # Running

    async def _respond(self, data: bytes, peer: Peer) -> Answer:
        return await respond(data, peer, self._context)

    def _current_config(self) -> BrokerConfig:
        return self._config if self._dynamic is None else self._dynamic.current

    def _on_watch(self, fired: WatchFired) -> None:
        if fired.path == ConfigChangesZnode.PATH:
            if self._refreshers:
                self._config_changes.poke()
        elif fired.path == FeatureZnode.PATH:
            if self._refreshers:
                self._feature_changes.poke()
        elif fired.path in AclChangeZnode.ROOTS:
            if self._refreshers:
                self._acl_changes.poke()
        elif self._runtime is not None:
            self._runtime.on_watch(fired)

    def _on_session_state(self, state: SessionState) -> None:
        if self._runtime is not None:
            self._runtime.on_session_state(state)
        if state is SessionState.CONNECTED:
            for refresher in self._refreshers:
                refresher.poke()
        elif state is SessionState.AUTH_FAILED:
            self._loop.call_soon_threadsafe(self.has_failed.set)

    def _on_latency_ms(self, latency_ms: float) -> None:
        if self._runtime is not None:
            self._runtime.on_request_latency(latency_ms)

    def _on_broker_config(self, before: BrokerConfig, after: BrokerConfig) -> None:
        if self._server is not None:
            self._server.limits = limits_of(after)
        self._loop.call_soon_threadsafe(self._broker_changed)
        enabled = after.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE)
        if enabled != before.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE):
            assert self._runtime is not None
            self._runtime.put(UncleanLeaderElectionEnable(enabled))

    def _on_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        self._loop.call_soon_threadsafe(self._topic_changed, topic, config)

    def _topic_changed(self, topic: str, config: Mapping[str, str]) -> None:
        assert self._storage is not None
        self._storage.replica_logs.topic_changed(topic, config)
        self._throttles.topic_changed(topic, config)
        if self._replica_manager is not None:
            self._replica_manager.topics_changed((topic,))

    def _broker_changed(self) -> None:
        assert self._storage is not None
        self._storage.replica_logs.broker_changed()
        self._set_throttles()
        if self._replication is not None:
            fetchers = self._current_config().integer("num.replica.fetchers")
            self._replication.fetchers.resize(fetchers)
        if self._replica_manager is not None:
            self._replica_manager.topics_changed(
                {tp.topic for tp in self._replica_manager.partitions}
            )

    def _set_throttles(self) -> None:
        config = self._current_config()
        self._throttles.set_rates(config.quota(LEADER_RATE), config.quota(FOLLOWER_RATE))

    async def _learn_topics(self, topics: Sequence[str]) -> None:
        """Reads how topics are configured whose logs are about to be made."""
        assert self._dynamic is not None
        await self._blocking(partial(self._dynamic.load_topics, topics))

    def _on_fetch_expired(self, is_from_follower: bool) -> None:
        self._fetches_expired[is_from_follower].mark()

    def _on_log_dir_failure(self, failure: LogDirFailure) -> None:
        assert self._storage is not None
        if self._replica_manager is not None:
            self._replica_manager.mark_offline(failure.topic_partitions)
        _replica_log.warning(
            "[ReplicaManager broker=%d] Broker %d stopped fetcher for partitions %s and stopped "
            "moving logs for partitions %s because they are in the failed log directory %s.",
            self.broker_id,
            self.broker_id,
            ",".join(map(str, failure.topic_partitions)),
            ",".join(map(str, failure.future_topic_partitions)),
            failure.log_dir,
        )
        self._log_dir_events.note()
        if self._refreshers:
            self._log_dir_failures.poke()
        if not self._storage.logs.live_log_dirs:
            _log.critical(
                "Shutdown broker because all log dirs in %s have failed",
                ", ".join(map(str, self._config.log_dirs)),
            )
            self.has_failed.set()

    def _on_led(self, partition: TopicPartition, leader_epoch: int) -> None:
        assert self._groups is not None
        self._groups.on_led(partition, leader_epoch)

    def _on_resigned(self, partition: TopicPartition, leader_epoch: int | None) -> None:
        # A directory may fail before there is a coordinator.
        if self._groups is not None:
            self._groups.on_resigned(partition, leader_epoch)
        replicas = self._replica_manager
        if replicas is None or partition in replicas.partitions:
            return
        topic = partition.topic
        if self._topic_stats.has(topic) and all(tp.topic != topic for tp in replicas.partitions):
            self._topic_stats.remove(topic)

    def _on_client_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        self._loop.call_soon_threadsafe(self._mutation_quotas.configure, entity_path, config)
        self._loop.call_soon_threadsafe(self._scram_credentials.configure, entity_path, config)

    def _on_unclean_topic(self, topic: str) -> None:
        assert self._runtime is not None
        if self._runtime.is_active:
            self._runtime.put(TopicUncleanLeaderElectionEnable(topic))


def _authorizer_of(config: BrokerConfig) -> Authorizer | None:
    settings = authorizer_settings(config)
    if settings is None:
        return None
    return Authorizer(
        AclCache({}),
        super_users=frozenset(Principal(*user) for user in settings.super_users),
        allow_everyone_if_no_acl_found=settings.allow_everyone_if_no_acl_found,
    )


def move_settings(config: BrokerConfig) -> MoveSettings:
    """How replicas move between log directories."""
    tasks = config.values["num.replica.alter.log.dirs.threads"]
    return MoveSettings(
        max_bytes=config.integer("replica.fetch.max.bytes"),
        bytes_per_second=config.quota("replica.alter.log.dirs.io.max.bytes.per.second"),
        tasks=tasks if isinstance(tasks, int) else len(config.log_dirs),
    )


def limits_of(config: BrokerConfig) -> ServerLimits:
    """What the configuration allows clients."""
    overrides = config.text("max.connections.per.ip.overrides") or ""
    return ServerLimits(
        max_request_bytes=config.integer("socket.request.max.bytes"),
        max_idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides=parse_connection_overrides(overrides),
        backlog=config.integer("socket.listen.backlog.size"),
        send_buffer_bytes=config.integer("socket.send.buffer.bytes"),
        receive_buffer_bytes=config.integer("socket.receive.buffer.bytes"),
    )


def stored_broker_id(log_dirs: tuple[Path, ...]) -> int | None:
    """The id in a readable ``meta.properties``, for log files that open before ZooKeeper."""
    for log_dir in log_dirs:
        try:
            meta = read_meta_properties(log_dir)
        except (OSError, ConfigInvalid):
            continue
        if meta is not None and meta.node_id is not None:
            return meta.node_id
    return None
