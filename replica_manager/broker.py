"""A broker: everything put together, started and stopped in Kafka's order.

Three rooms: the asyncio loop owns sockets, partitions and the metadata cache; the controller's
event thread decides; ZooKeeper's threads only hand over.  What blocks (ZooKeeper, disk) runs in an
executor.  A broker hosts a controller candidate, which learns of watches and session changes
through this object.

Source: Kafka ``KafkaServer`` (``startup``, ``shutdown``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from pathlib import Path
from random import SystemRandom
from typing import Final, TypeVar

from replica_manager.broker_status import BrokerStatus, remove_status
from replica_manager.config import BrokerConfig, parse_connection_overrides
from replica_manager.controlled_shutdown import ControlledShutdownClient
from replica_manager.dynamic_config import UNCLEAN_LEADER_ELECTION_ENABLE, DynamicConfig
from replica_manager.feature_epoch import FeatureEpoch
from replica_manager.listeners import connection_string, with_real_addresses
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
from replica_manager.replication.metadata_cache import MetadataCache
from replica_manager.replication.replica_manager import ReplicaManager
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
from replica_manager.server.listener import ServerLimits, SocketServer
from replica_manager.server.mutation_quotas import MutationQuotas
from replica_manager.server.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import ZooKeeperAdmin
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.events import (
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from zkcontroller.errors import BrokerIdInUse, ConfigInvalid
from zkcontroller.model import UNKNOWN_BROKER_EPOCH, Broker, Endpoint
from zkcontroller.protocol.inter_broker_versions import broker_znode_version
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
        zookeeper_auth: tuple[tuple[str, str], ...] = (),
    ) -> None:
        if config.is_enabled("zookeeper.set.acl") and not zookeeper_auth:
            raise ConfigInvalid(
                "zookeeper.set.acl",
                "true",
                f"true only with credentials: set {ZOOKEEPER_AUTH_VARIABLE}=digest:USER:PASSWORD",
            )
        self.metrics = metrics or Metrics()
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
        self._metadata_cache = MetadataCache(self.broker_id)
        self._make_server()
        self._replica_manager = ReplicaManager(
            self.broker_id,
            self._metadata_cache,
            write_state_changes=self._state_changes.write,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            is_tracing=lambda: self._trace,
        )
        self._register_gauges()
        # Made before the registration, so that a session that expires right after it is noticed.
        self._runtime = self._make_runtime()
        await self._blocking(self._register_first)
        self._make_context()
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
        if self._runtime is not None:
            await self._quietly(asyncio.to_thread(self._runtime.shutdown))
        if hasattr(self, "_session"):
            await self._quietly(asyncio.to_thread(self._session.close))
        self._executor.shutdown(wait=False, cancel_futures=True)
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
        for log_dir in config.log_dirs:
            try:
                log_dir.mkdir(parents=True, exist_ok=True)
            except OSError as failure:
                raise ConfigInvalid(
                    "log.dirs", str(log_dir), f"a directory that can be made ({failure.strerror})"
                ) from failure
        self._locks.acquire(config.log_dirs)
        found = {log_dir: read_meta_properties(log_dir) for log_dir in config.log_dirs}
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
                write_meta_properties(log_dir, meta)
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
        self._features = FeatureEpoch(self._session)
        topics = TopicAdmin(self._session, self._executor, self._current_config, SystemRandom())
        self._context = BrokerContext(
            broker_id=self.broker_id,
            cluster_id=self._cluster_id,
            config=self._current_config,
            metadata_cache=self._metadata_cache,
            replica_manager=self._replica_manager,
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
        )

    def _start_refreshers(self) -> None:
        assert self._dynamic is not None
        self._config_changes = Refresher(
            "configuration changes", self._dynamic.process_changes, self._loop, self._executor
        )
        self._feature_changes = Refresher(
            FeatureZnode.PATH, self._features.look, self._loop, self._executor
        )
        self._refreshers = [self._config_changes, self._feature_changes]
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
        for name in self._replica_manager.gauges():
            self.metrics.gauge(
                mbean("kafka.server", "ReplicaManager", name),
                lambda name=name: self._replica_manager.gauges()[name],  # type: ignore[misc]
            )

    def _write_status(self) -> None:
        BrokerStatus(
            pid=os.getpid(),
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            started_at_ms=self._started_at_ms,
            listeners={
                endpoint.listener_name: connection_string(endpoint) for endpoint in self.endpoints
            },
        ).write(self._config.log_dirs[0])

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
        enabled = after.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE)
        if enabled != before.is_enabled(UNCLEAN_LEADER_ELECTION_ENABLE):
            assert self._runtime is not None
            self._runtime.put(UncleanLeaderElectionEnable(enabled))

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
        if meta is not None and meta.broker_id is not None:
            return meta.broker_id
    return None
