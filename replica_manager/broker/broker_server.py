"""A broker: assembles all parts, starts and stops them in Kafka's order.

Three rooms: the asyncio loop owns sockets, partitions and the metadata cache; the controller's
event thread decides; ZooKeeper's threads only hand over.  What blocks (ZooKeeper, disk) runs in an
executor.  A broker hosts a controller candidate, with which it shares the ZooKeeper session; a
:class:`.SessionRouter` gives each of them its watches.

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
from enum import IntEnum
from functools import partial
from random import SystemRandom
from typing import Final, TypeVar
from uuid import uuid4

from replica_manager.broker.broker_identity import BrokerIdentity
from replica_manager.broker.broker_quotas import BrokerQuotas
from replica_manager.broker.broker_records import BrokerRecords
from replica_manager.broker.broker_settings import (
    authorizer_of,
    channel_settings,
    controller_settings,
    limits_of,
    zookeeper_settings,
)
from replica_manager.broker.broker_status import BrokerStatus, remove_status
from replica_manager.broker.controlled_shutdown import ControlledShutdownClient
from replica_manager.broker.dynamic_config import UNCLEAN_LEADER_ELECTION_ENABLE, DynamicConfig
from replica_manager.broker.feature_epoch import FeatureEpoch
from replica_manager.broker.refresher import Refresher
from replica_manager.broker.registration import (
    Registration,
    check_endpoints,
    cluster_id,
    create_persistent_paths,
)
from replica_manager.broker.storage import LogDirEvents, Storage
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.dynamic_keys import STORE_KEYS, base_name
from replica_manager.configuration.listeners import connection_string, with_real_addresses
from replica_manager.configuration.reconfiguration import check_reconfiguration
from replica_manager.coordinators.group_settings import offsets_partition_count
from replica_manager.coordinators.transaction_settings import transactions_partition_count
from replica_manager.log.log_manager import LogDirFailure
from replica_manager.network.connection import Answer, Peer
from replica_manager.network.listener import SocketServer
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.replication.controller_channel import ChannelToController, ControllerChannel
from replica_manager.replication.metadata_cache import MetadataCache
from replica_manager.replication.throttle import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationThrottles,
)
from replica_manager.resizable_executor import ResizableExecutor
from replica_manager.security.acl_store import AclStore
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.security.delegation_tokens import DelegationTokens, token_settings
from replica_manager.security.dynamic_passwords import SECRET, DynamicPasswords
from replica_manager.security.dynamic_tls import ListenerSecurities
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.server.configs.reconfiguring import Reconfiguring
from replica_manager.server.context import BrokerContext
from replica_manager.server.dispatch import OFFERED, refusal, respond
from replica_manager.server.producer_ids import (
    BlocksOfController,
    ProducerIds,
    ProducerIdsFromController,
    ProducerIdsFromZooKeeper,
)
from replica_manager.server.request_metrics import RequestMetrics
from replica_manager.server.token_sweep import TokenSweep
from replica_manager.server.topics.auto_creation import AutoTopicCreation
from replica_manager.server.topics.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import ZooKeeperAdmin
from zkcontroller.core.events import (
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from zkcontroller.errors import BrokerIdInUse, ConfigInvalid, KafkaStorage
from zkcontroller.model import UNKNOWN_BROKER_EPOCH, Broker, Endpoint
from zkcontroller.observability.log_files import StateChangeSink
from zkcontroller.observability.metrics import Metrics, mbean
from zkcontroller.process.wall_clock import WallClock
from zkcontroller.protocol.inter_broker_versions import (
    broker_znode_version,
    is_allocate_producer_ids_supported,
)
from zkcontroller.runtime.controller_runtime import ControllerRuntime
from zkcontroller.zookeeper.delegation_token_znodes import TokenChangeZnode
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode
from zkcontroller.zookeeper.session import SessionState, ZooKeeperSession
from zkcontroller.zookeeper.session_router import SessionRouter
from zkcontroller.zookeeper.znodes import ConfigChangesZnode, FeatureZnode

LISTENER_CHANGE_TIMEOUT_S: Final = 30.0
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
        """``counts_requests``: ``metrics`` can be read, so requests are timed.

        ``counts_partitions``: every partition has gauges of its own among them.
        """
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
        self._is_stopping = threading.Event()
        self._runtime: ControllerRuntime | None = None
        self._router = SessionRouter()
        self._refreshers: list[Refresher] = []
        self._identity = BrokerIdentity(config)
        self._storage: Storage | None = None
        self._records: BrokerRecords | None = None
        self._producer_ids: ProducerIds | None = None
        self._server: SocketServer | None = None
        self._dynamic: DynamicConfig | None = None
        # Read at once, so that a broker whose keys or passwords are wrong does not even begin.
        self._zookeeper_settings = zookeeper_settings(config, zookeeper_auth)
        self._securities: ListenerSecurities | None = None
        try:
            self._securities = ListenerSecurities(config)
        except ConfigInvalid as refused:
            # ZooKeeper may have another store, or a password where there is a secret for it.
            if not config.text(SECRET) and base_name(refused.key) not in STORE_KEYS:
                raise
        self._scram_credentials = ScramCredentials()
        self._authorizer = authorizer_of(config)
        self._acl_store: AclStore | None = None
        self._tokens = DelegationTokens(WallClock())
        self._token_store: DelegationTokenStore | None = None
        self._token_sweep: TokenSweep | None = None

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
        self._executor = ResizableExecutor(
            self._config.integer("num.io.threads"), "data-plane-kafka-request"
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
        self.broker_id = await self._blocking(
            lambda: self._identity.establish(self._session, self._cluster_id)
        )
        self._dynamic = DynamicConfig(
            self._session,
            self.broker_id,
            config,
            prepare=self._prepare_change,
            on_broker_config=self._on_broker_config,
            on_topic=self._on_topic_config,
            on_unclean_topic=self._on_unclean_topic,
            on_client=self._on_client_config,
        )
        await self._load_tokens()
        self._quotas = BrokerQuotas(config, self.metrics)
        await self._blocking(self._dynamic.load)
        if self._securities is None or self._dynamic.current != config:
            self._securities = await self._blocking(self._make_securities)
        await self._blocking(self._dynamic.load_clients)
        self.state = BrokerState.RECOVERY
        self._log_dir_events = LogDirEvents(self._session, self.broker_id)
        self._storage = Storage(
            self._current_config, self._identity.failed_log_dirs, self._on_log_dir_failure
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
        self._records = BrokerRecords(
            self.broker_id,
            self._current_config,
            self._storage,
            self._throttles,
            self._metadata_cache,
            session=self._session,
            executor=self._executor,
            security=self._securities.client,
            broker_epoch=lambda: self.broker_epoch,
            state_changes=self._state_changes,
            new_producer_id=self._new_producer_id,
            is_tracing=self._trace,
            metrics=self.metrics,
        )
        partition_count = await self._blocking(lambda: offsets_partition_count(self._session))
        self._records.groups.start(partition_count)
        partition_count = await self._blocking(lambda: transactions_partition_count(self._session))
        self._records.transactions.start(partition_count)
        self._register_gauges()
        self._storage.start()
        # Made before the registration, so that a session that expires right after it is noticed.
        self._runtime = self._make_runtime()
        await self._blocking(self._register_first)
        self._make_context()
        self._records.start()
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
                self._secured.client[self._config.listeners.inter_broker],
            ).run()
        await self._undo()
        _log.info("%sshut down completed", self._prefix)

    async def _undo(self) -> None:
        """Stops everything that was started; each step is tried even if another one failed."""
        self.state = BrokerState.SHUTTING_DOWN
        self._is_stopping.set()
        for refresher in self._refreshers:
            await self._quietly(refresher.stop())
        if self._token_sweep is not None:
            await self._quietly(self._token_sweep.stop())
        if self._server is not None:
            await self._quietly(self._server.close())
        if self._producer_ids is not None:
            await self._quietly(self._producer_ids.stop())
        if self._records is not None:
            for stop in self._records.stops:
                await self._quietly(stop())
        if self._storage is not None:
            await self._quietly(self._storage.stop())
        if self._runtime is not None:
            await self._quietly(asyncio.to_thread(self._runtime.shutdown))
        if hasattr(self, "_session"):
            await self._quietly(asyncio.to_thread(self._session.close))
        self._executor.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(OSError):  # that directory may be the one that failed
            remove_status(self._config.log_dirs[0])
        self._identity.release()
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
            self._zookeeper_settings,
            on_watch=self._router.fired,
            on_state=self._router.entered,
            on_latency_ms=self._router.took,
        )
        self._router.follow_states(self._on_session_state)
        await self._blocking(self._session.start)
        await self._blocking(lambda: create_persistent_paths(self._session))

    def _make_server(self) -> None:
        config = self._current_config()
        self._server = SocketServer(
            config.listeners.bound,
            limits_of(config),
            self._respond,
            broker_id=self.broker_id,
            protected_listener=config.listeners.inter_broker,
            authenticators={
                name: authenticator
                for name in self._secured.server
                if (authenticator := self._authenticator(name)) is not None
            },
            rates=self._quotas.connections,
        )
        self._server.bind_ephemeral()
        self.endpoints = with_real_addresses(config.listeners, self._server.ports, socket.getfqdn())

    def _make_runtime(self) -> ControllerRuntime:
        config = self._current_config()
        security = self._secured.client[config.listeners.controller_uses]
        runtime = ControllerRuntime(
            config=controller_settings(config, self.broker_id, trace_state_changes=self._trace),
            session=self._session,
            loop=self._loop,
            register_broker=self._register_again,
            state_changes=self._state_changes,
            metrics=self.metrics,
            channel_settings=channel_settings(config, self.broker_id, security),
        )
        runtime.follow(self._router)
        return runtime

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
        assert self._records is not None
        self._features = FeatureEpoch(self._session)
        self._producer_ids = self._make_producer_ids()
        topics = TopicAdmin(self._session, self._executor, self._current_config, SystemRandom())
        self._context = BrokerContext(
            broker_id=self.broker_id,
            cluster_id=self._cluster_id,
            config=self._current_config,
            metadata_cache=self._metadata_cache,
            replica_manager=self._records.replica_manager,
            logs=self._storage.logs,
            appends=self._records.appends,
            reads=self._records.reads,
            fetch_sessions=self._records.fetch_sessions,
            topic_stats=self._records.topic_stats,
            groups=self._records.groups,
            transactions=self._records.transactions,
            verification=self._records.verification,
            learn_topics=self._learn_topics,
            deletions=self._records.deletions,
            log_dir_moves=self._records.log_dir_moves,
            producer_ids=self._producer_ids,
            topics=topics,
            admin=ZooKeeperAdmin(self._session, self._executor),
            reconfiguring=Reconfiguring(
                self._executor, DynamicPasswords(self._config.values), self._secured
            ),
            auto_creation=AutoTopicCreation(topics, self._metadata_cache, self._current_config),
            controller=self._runtime,
            quotas=self._quotas.clients,
            offered=OFFERED,
            broker_epoch=lambda: self.broker_epoch,
            features=self._features,
            authorizer=self._authorizer,
            acls=self._acl_store,
            tokens=None if self._token_store is None else self._tokens,
            token_store=self._token_store,
            request_metrics=self._request_metrics,
        )

    async def _load_tokens(self) -> None:
        """Reads the delegation tokens, if a secret is configured."""
        config = token_settings(self._config.values)
        if not config.is_enabled:
            return
        self._token_store = DelegationTokenStore(
            self._session,
            self._tokens,
            config,
            now_ms=WallClock(),
            new_uuid=uuid4,
            broker_id=self.broker_id,
        )
        await self._blocking(self._token_store.load)

    async def _new_producer_id(self) -> int:
        assert self._producer_ids is not None
        return await self._producer_ids.next_id()

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
                self._secured.client[listener],
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
        config_changes = Refresher(
            "configuration changes", self._dynamic.process_changes, self._loop, self._executor
        )
        config_changes.follow(self._router, ConfigChangesZnode.PATH)
        feature_changes = Refresher(
            FeatureZnode.PATH, self._features.look, self._loop, self._executor
        )
        feature_changes.follow(self._router, FeatureZnode.PATH)
        self._log_dir_failures = Refresher(
            "failures of log directories",
            self._log_dir_events.propagate,
            self._loop,
            self._executor,
        )
        self._log_dir_failures.follow(self._router)
        self._refreshers = [config_changes, feature_changes, self._log_dir_failures]
        if self._acl_store is not None:
            acl_changes = Refresher(
                "ACL changes", self._acl_store.process_changes, self._loop, self._executor
            )
            acl_changes.follow(self._router, *AclChangeZnode.ROOTS)
            self._refreshers.append(acl_changes)
        if self._token_store is not None:
            token_changes = Refresher(
                "delegation tokens",
                self._token_store.process_changes,
                self._loop,
                self._executor,
            )
            token_changes.follow(self._router, TokenChangeZnode.ROOT)
            self._refreshers.append(token_changes)
            runtime = self._runtime
            assert runtime is not None, "made before"
            self._token_sweep = TokenSweep(
                self._token_store,
                self._config.integer("delegation.token.expiry.check.interval.ms"),
                lambda: runtime.is_active,
                self._executor,
            )
            self._token_sweep.start()
        for refresher in self._refreshers:
            refresher.start()

    def _register_gauges(self) -> None:
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "BrokerState"), lambda: int(self.state)
        )
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "ClusterId"), lambda: self._cluster_id
        )
        assert self._records is not None
        self._records.register_gauges(counts_partitions=self._counts_partitions)

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

    def _on_session_state(self, state: SessionState) -> None:
        if state is SessionState.AUTH_FAILED:
            self._loop.call_soon_threadsafe(self.has_failed.set)

    def _make_securities(self) -> ListenerSecurities:
        return ListenerSecurities(self._current_config())

    @property
    def _secured(self) -> ListenerSecurities:
        assert self._securities is not None, "made before anything that connects"
        return self._securities

    def _prepare_change(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """ConfigInvalid or ReconfigurationRefused if this broker cannot go on with ``after``."""
        check_reconfiguration(before, after)
        self._secured.apply(after)
        if before.listeners.bound != after.listeners.bound and self._server is not None:
            self._secured.add_listeners(after)
            changing = asyncio.run_coroutine_threadsafe(
                self._change_listeners(before, after), self._loop
            )
            try:
                changing.result(LISTENER_CHANGE_TIMEOUT_S)
            except BaseException:
                self._secured.remove_listeners(before)
                raise
            self._secured.remove_listeners(after)

    def _authenticator(self, listener_name: str) -> ListenerAuthenticator | None:
        """The authentication of that listener; None where every peer is accepted."""
        security = self._secured.server[listener_name]
        if security.tls is None and security.sasl is None:
            return None
        return ListenerAuthenticator(security, self._scram_credentials, refusal, self._tokens)

    async def _change_listeners(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Opens new listeners, then closes those that were removed.

        ConfigInvalid for an address that cannot be bound; then all is as it was.
        """
        assert self._server is not None
        old = {endpoint.listener_name for endpoint in before.listeners.bound}
        new = {endpoint.listener_name: endpoint for endpoint in after.listeners.bound}
        added: list[str] = []
        try:
            for name in new.keys() - old:
                self._server.add(new[name], self._authenticator(name))
                added.append(name)
        except ConfigInvalid:
            for name in added:
                self._server.remove(name)
            raise
        for name in old - new.keys():
            self._server.remove(name)

    def _advertise(self, config: BrokerConfig) -> None:
        """Registers the endpoints of that configuration.  Blocks."""
        assert self._server is not None
        endpoints = with_real_addresses(config.listeners, self._server.ports, socket.getfqdn())
        if endpoints != self.endpoints:
            self.endpoints = endpoints
            self._registration().update()
            self._write_status()

    def _on_broker_config(self, before: BrokerConfig, after: BrokerConfig) -> None:
        if self._server is not None:
            self._server.limits = limits_of(after)
        if self.state is BrokerState.RUNNING and before.listeners != after.listeners:
            self._advertise(after)
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
        if self._records is not None:
            self._records.replica_manager.topics_changed((topic,))

    def _broker_changed(self) -> None:
        assert self._storage is not None
        self._executor.resize(self._current_config().integer("num.io.threads"))
        self._storage.broker_changed()
        self._set_throttles()
        if self._records is not None:
            self._records.broker_changed(self._current_config())

    def _set_throttles(self) -> None:
        config = self._current_config()
        self._throttles.set_rates(config.quota(LEADER_RATE), config.quota(FOLLOWER_RATE))

    async def _learn_topics(self, topics: Sequence[str]) -> None:
        """Reads the configurations of topics whose logs are about to be created."""
        assert self._dynamic is not None
        await self._blocking(partial(self._dynamic.load_topics, topics))

    def _on_log_dir_failure(self, failure: LogDirFailure) -> None:
        assert self._storage is not None
        if self._records is not None:
            self._records.replica_manager.mark_offline(failure.topic_partitions)
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

    def _on_client_config(self, entity_path: str, config: Mapping[str, str]) -> None:
        self._loop.call_soon_threadsafe(self._quotas.configure, entity_path, config)
        self._loop.call_soon_threadsafe(self._scram_credentials.configure, entity_path, config)

    def _on_unclean_topic(self, topic: str) -> None:
        assert self._runtime is not None
        if self._runtime.is_active:
            self._runtime.put(TopicUncleanLeaderElectionEnable(topic))
