"""A broker: assembles all parts, starts and stops them in Kafka's order.

Three kinds of threads: the asyncio loop owns sockets, partitions and the metadata cache; a
controller candidate, if there is one, has a thread of its own; the threads of the metadata's source
only pass on what they read.  Blocking calls (to the source or the disk) run in an executor.

This module does not know where the metadata comes from: :mod:`.metadata_source` is the interface.

Source: Kafka ``KafkaServer`` (``startup``, ``shutdown``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import TypeVar

from msgspec import Struct

from kafka_common.errors import ConfigInvalid, KafkaStorage
from kafka_common.model import UNKNOWN_BROKER_EPOCH
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.wall_time import wall_time_ms
from replica_manager.broker.broker_gauges import register_network_gauges, register_process_gauges
from replica_manager.broker.broker_identity import BrokerIdentity
from replica_manager.broker.broker_listeners import BrokerListeners
from replica_manager.broker.broker_quotas import BrokerQuotas
from replica_manager.broker.broker_records import BrokerRecords
from replica_manager.broker.broker_settings import authorizer_of
from replica_manager.broker.broker_status import remove_status
from replica_manager.broker.config_changes import ConfigChanges
from replica_manager.broker.log_dir_failure_handler import LogDirFailureHandler
from replica_manager.broker.metadata_source import (
    BrokerMetadata,
    BrokerSide,
    MetadataSource,
    OpenSource,
)
from replica_manager.broker.running_broker import RunningBroker
from replica_manager.broker.stops import Stops, StopStep
from replica_manager.broker.storage import Storage
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.dynamic_keys import STORE_KEYS, base_name
from replica_manager.configuration.reconfiguration import check_reconfiguration
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.network.connection import Begun, Peer, Respond
from replica_manager.replication.throttle import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationThrottles,
)
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.resizable_executor import ResizableExecutor
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.security.dynamic_passwords import SECRET, DynamicPasswords
from replica_manager.security.dynamic_tls import ListenerSecurities
from replica_manager.security.scram_credentials import ScramCredentials
from replica_manager.server.administration import Administration
from replica_manager.server.configs.reconfiguring import Reconfiguring
from replica_manager.server.context import BrokerContext
from replica_manager.server.dispatch import refusal, respond
from replica_manager.server.producer_ids import ProducerIdManager
from replica_manager.server.request_metrics import RequestMetrics
from zkcontroller.state_changes.log_files import StateChangeSink

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
    """One broker, which is started and stopped once.  Used on the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        open_source: OpenSource,
        *,
        state_changes: StateChangeSink,
        trace_state_changes: bool = False,
        metrics: Metrics | None = None,
        counts_requests: bool = False,
        counts_partitions: bool = False,
    ) -> None:
        """``counts_requests`` switches on the metrics of requests.

        ``counts_partitions`` switches on the gauges of each partition.
        """
        self.metrics = metrics or Metrics()
        self._request_metrics = RequestMetrics(self.metrics) if counts_requests else None
        self._counts_partitions = counts_partitions
        self.broker_id = config.broker_id
        """The broker id; -1 until it is generated, if none is configured."""
        self.state = BrokerState.NOT_RUNNING
        self.has_failed: asyncio.Event = asyncio.Event()
        """Set when the broker cannot continue and must be stopped."""
        self.must_halt = False
        """Whether the process must end immediately: the last log directory has failed."""
        self._config = config
        self._open_source = open_source
        self._state_changes = state_changes
        self._trace = trace_state_changes
        self._stops = Stops()
        self._running: RunningBroker | None = None
        """The parts of the broker; None until it serves clients."""
        self._identity = BrokerIdentity(config)
        # Read the key stores now, so that a broker with wrong keys or passwords does not start.
        self._securities: ListenerSecurities | None = None
        try:
            self._securities = ListenerSecurities(config)
        except ConfigInvalid as refused:
            # The source of metadata may have another key store, or an encoded password.
            if not config.text(SECRET) and base_name(refused.key) not in STORE_KEYS:
                raise
        self._authorizer = authorizer_of(config)

    @property
    def running(self) -> RunningBroker:
        """The parts of the broker; it must serve clients, or have served them."""
        assert self._running is not None, "the broker has not been started"
        return self._running

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of the newest registration; -1 until the broker serves clients."""
        return UNKNOWN_BROKER_EPOCH if self._running is None else self.running.metadata.broker_epoch

    @property
    def is_controller_at_work(self) -> bool:
        """Whether the controller candidate is processing an event now.  For any thread."""
        return self._running is not None and self._running.membership.is_controller_at_work

    @property
    def _prefix(self) -> str:
        return f"[KafkaServer id={self.broker_id}] "

    async def start(self) -> None:
        """Starts the broker; returns when it serves clients.

        After a failure it stops all parts that were started, and raises the exception.
        """
        _log.info("starting")
        executor = ResizableExecutor(
            self._config.integer("num.io.threads"), "data-plane-kafka-request"
        )
        self._stops.add(StopStep.EXECUTOR, partial(_shut_down, executor))
        try:
            await self._start(asyncio.get_running_loop(), executor)
        except BaseException as failure:
            _log.error(
                "%sFatal error during KafkaServer startup. Prepare to shutdown: %s",
                self._prefix,
                failure,
            )
            await self._undo()
            raise

    async def stop(self, *, is_graceful: bool = True) -> None:
        """Stops in Kafka's order: moves leaderships, closes listeners, ends the registration.

        Without ``is_graceful`` no leadership is moved to another broker.
        """
        if self.state is BrokerState.NOT_RUNNING:
            return
        _log.info("%sshutting down", self._prefix)
        if is_graceful and self._config.is_enabled("controlled.shutdown.enable"):
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            await self.running.membership.controlled_shutdown()
        await self._undo()
        _log.info("%sshut down completed", self._prefix)

    async def _undo(self) -> None:
        """Stops all parts that were started; a step that fails does not prevent the others."""
        self.state = BrokerState.SHUTTING_DOWN
        await self._stops.run(self._prefix)
        if self._running is not None:
            # After a failed start the file may belong to another broker, which has the lock.
            with contextlib.suppress(OSError):  # the log directory may have failed
                remove_status(self._config.log_dirs[0])
        self._identity.release()
        self.state = BrokerState.NOT_RUNNING

    # Starting

    async def _start(self, loop: asyncio.AbstractEventLoop, executor: ResizableExecutor) -> None:
        self.state = BrokerState.STARTING
        side = self._side(loop, executor)
        ground = await self._find_cluster(side, self._open_source(side))
        configured = await self._configure(ground)
        self.state = BrokerState.RECOVERY
        disks = await self._load_disks(ground)

        async def answer(data: bytes, peer: Peer) -> Begun:
            return await respond(data, peer, running.context)

        listeners = self._make_listeners(ground, configured, answer)
        records, producer_ids = await self._make_records(ground, configured, disks)
        self._follow_broker_config(ground, listeners, disks, records)
        self._register_gauges(ground, listeners, records)
        disks.storage.start()
        membership = await ground.metadata.join(listeners.endpoints, listeners.securities.client)
        context = self._context(
            ground, configured, disks, records, producer_ids, membership.administration
        )
        records.start()
        membership.start()
        listeners.server.open()
        self._running = running = RunningBroker(
            self.broker_id,
            wall_time_ms(),
            self._config.log_dirs[0],
            ground.metadata,
            membership,
            listeners,
            disks.storage,
            records,
            context,
        )
        self.state = BrokerState.RUNNING
        running.write_status()
        _log.info("%sstarted", self._prefix)

    def _side(self, loop: asyncio.AbstractEventLoop, executor: ResizableExecutor) -> BrokerSide:
        def fail() -> None:
            loop.call_soon_threadsafe(self.has_failed.set)

        return BrokerSide(
            loop=loop,
            executor=executor,
            changes=ConfigChanges(loop),
            stops=self._stops,
            authorizer=self._authorizer,
            tokens=DelegationTokens(wall_time_ms),
            metrics=self.metrics,
            state_changes=self._state_changes,
            is_tracing=self._trace,
            on_registered=self._on_registered,
            fail=fail,
        )

    def _halt(self) -> None:
        self.must_halt = True
        self.has_failed.set()

    async def _find_cluster(self, side: BrokerSide, source: MetadataSource) -> _Ground:
        cluster_id = await source.connect()
        _log.info("Cluster ID = %s", cluster_id)
        self.broker_id = await _blocking(
            side, lambda: self._identity.establish(cluster_id, source.new_broker_id)
        )
        cache = ZkMetadataCache(self.broker_id)
        return _Ground(side, cluster_id, cache, source.metadata_of(self.broker_id, cache))

    async def _configure(self, ground: _Ground) -> _Configured:
        metadata, changes = ground.metadata, ground.side.changes
        await metadata.load_tokens()
        quotas, credentials = BrokerQuotas(self._config, self.metrics), ScramCredentials()
        changes.clients += [quotas.configure, credentials.configure]
        await metadata.load_broker_config()
        securities = self._securities
        if securities is None or metadata.config() != self._config:
            securities = await _blocking(ground.side, lambda: ListenerSecurities(metadata.config()))
        await metadata.load_client_configs()
        return _Configured(quotas, securities, credentials)

    async def _load_disks(self, ground: _Ground) -> _Disks:
        config, metadata = self._config, ground.metadata
        failures = LogDirFailureHandler(
            self.broker_id,
            config.log_dirs,
            metadata.log_dir_failed,
            self._halt,
            config.inter_broker_version,
        )
        storage = Storage(
            self.broker_id,
            metadata.config,
            self._identity.failed_log_dirs,
            lambda failure: failures.failed(failure, storage.logs.live_log_dirs),
            self.metrics.timer(mbean("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")).update,
        )
        self._stops.add(StopStep.STORAGE, storage.stop)
        throttles = ReplicationThrottles(
            self.broker_id,
            lambda: time.monotonic_ns() // 1_000_000,
            samples=config.integer("replication.quota.window.num"),
            sample_ms=config.integer("replication.quota.window.size.seconds") * 1000,
        )
        _set_rates(throttles, metadata.config())

        def topic_changed(topic: str, config: Mapping[str, str]) -> None:
            storage.replica_logs.topic_changed(topic, config)
            throttles.topic_changed(topic, config)

        ground.side.changes.topics.append(topic_changed)
        await metadata.load_topic_configs()
        await _blocking(ground.side, storage.load)
        if not storage.logs.live_log_dirs:
            raise KafkaStorage("none of the log directories can be used")
        return _Disks(storage, throttles, failures)

    def _make_listeners(
        self, ground: _Ground, configured: _Configured, answer: Respond
    ) -> BrokerListeners:
        config = ground.metadata.config()
        listeners = BrokerListeners(
            config,
            configured.securities,
            answer,
            partial(refusal, ground.metadata.handlers),
            broker_id=self.broker_id,
            credentials=configured.credentials,
            tokens=ground.side.tokens,
            rates=configured.quotas.connections,
            metrics=None if self._request_metrics is None else self.metrics,
        )
        self._stops.add(StopStep.LISTENERS, listeners.server.close)
        listeners.bind(config)
        return listeners

    async def _make_records(
        self, ground: _Ground, configured: _Configured, disks: _Disks
    ) -> tuple[BrokerRecords, ProducerIdManager]:
        metadata, client = ground.metadata, configured.securities.client
        producer_ids = metadata.producer_ids(client)
        records = BrokerRecords(
            self.broker_id,
            metadata.config,
            disks.storage,
            disks.throttles,
            ground.metadata_cache,
            isr_route=partial(metadata.isr_route, client),
            security=client,
            broker_epoch=lambda: metadata.broker_epoch,
            state_changes=self._state_changes,
            new_producer_id=producer_ids.next_id,
            is_topic_deleted=metadata.is_topic_deleted,
            partition_count=metadata.partition_count,
            is_tracing=lambda: self._trace,
            metrics=self.metrics,
        )
        self._stops.add(StopStep.RECORDS, *records.stops)
        disks.failures.mark_offline = records.services.replica_manager.mark_offline
        ground.side.changes.topics.append(
            lambda topic, _: records.services.replica_manager.topics_changed((topic,))
        )
        records.services.groups.start(await metadata.partition_count(OFFSETS_TOPIC))
        records.services.transactions.start(await metadata.partition_count(TRANSACTION_TOPIC))
        return records, producer_ids

    def _follow_broker_config(
        self, ground: _Ground, listeners: BrokerListeners, disks: _Disks, records: BrokerRecords
    ) -> None:
        side, metadata = ground.side, ground.metadata

        def broker_changed(_: BrokerConfig, __: BrokerConfig) -> None:
            side.loop.call_soon_threadsafe(parts_changed)

        def parts_changed() -> None:
            config = metadata.config()
            side.executor.resize(config.integer("num.io.threads"))
            disks.storage.broker_changed()
            _set_rates(disks.throttles, config)
            records.broker_changed(config)

        side.changes.checks += [check_reconfiguration, listeners.prepare]
        side.changes.brokers += [
            listeners.changed,
            self._advertise,
            broker_changed,
        ]

    def _context(
        self,
        ground: _Ground,
        configured: _Configured,
        disks: _Disks,
        records: BrokerRecords,
        producer_ids: ProducerIdManager,
        administration: Administration,
    ) -> BrokerContext:
        metadata = ground.metadata
        return BrokerContext(
            records=records.services,
            administration=administration,
            handlers=metadata.handlers,
            broker_id=self.broker_id,
            cluster_id=ground.cluster_id,
            config=metadata.config,
            metadata_cache=ground.metadata_cache,
            logs=disks.storage.logs,
            learn_topics=metadata.load_topic_configs,
            producer_ids=producer_ids,
            reconfiguring=Reconfiguring(
                ground.side.executor,
                DynamicPasswords(self._config.values),
                configured.securities,
            ),
            quotas=configured.quotas.clients,
            broker_epoch=lambda: metadata.broker_epoch,
            authorizer=self._authorizer,
            tokens=None if administration.token_admin is None else ground.side.tokens,
            request_metrics=self._request_metrics,
        )

    def _register_gauges(
        self, ground: _Ground, listeners: BrokerListeners, records: BrokerRecords
    ) -> None:
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "BrokerState"), lambda: int(self.state)
        )
        self.metrics.gauge(
            mbean("kafka.server", "KafkaServer", "ClusterId"), lambda: ground.cluster_id
        )
        register_network_gauges(self.metrics, listeners.server)
        register_process_gauges(self.metrics)
        records.register_gauges(counts_partitions=self._counts_partitions)

    # Running

    def _on_registered(self) -> None:
        if self.state is BrokerState.RUNNING:
            self.running.write_status()

    def _advertise(self, before: BrokerConfig, after: BrokerConfig) -> None:
        if self.state is BrokerState.RUNNING and before.listeners != after.listeners:
            self.running.advertise(after)


class _Ground(Struct, frozen=True):
    """What the next steps of a start need: the cluster id, the metadata cache and the source."""

    side: BrokerSide
    cluster_id: str
    metadata_cache: ZkMetadataCache
    metadata: BrokerMetadata


class _Configured(Struct, frozen=True):
    """Quotas, security and credentials for clients, configured from the source of metadata."""

    quotas: BrokerQuotas
    securities: ListenerSecurities
    credentials: ScramCredentials


class _Disks(Struct, frozen=True):
    """The loaded logs, the throttles of replication, and the handler of failed directories."""

    storage: Storage
    throttles: ReplicationThrottles
    failures: LogDirFailureHandler


async def _blocking(side: BrokerSide, call: Callable[[], _T]) -> _T:
    return await side.loop.run_in_executor(side.executor, call)


async def _shut_down(executor: ResizableExecutor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


def _set_rates(throttles: ReplicationThrottles, config: BrokerConfig) -> None:
    throttles.set_rates(config.quota(LEADER_RATE), config.quota(FOLLOWER_RATE))
