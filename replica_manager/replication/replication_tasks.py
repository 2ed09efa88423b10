"""The running tasks of a broker's replication: fetchers, ISR checks, proposals.

One object per broker.  On the event loop, the replica manager adds partitions to ``fetchers``, and
the code that serves followers submits ISR proposals.

Source: Kafka ``ReplicaFetcherManager``, ``AlterPartitionManager``, ``ReplicaManager``
(``maybeShrinkIsr``, the task ``isr-expiration``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from kafka_common.model import Endpoint, TopicPartition
from kafka_common.net.client_security import ClientSecurity
from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.inter_broker_versions import (
    is_offsets_for_leader_epoch_supported,
    is_truncation_on_fetch_supported,
)
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.alter_partition_manager import AlterPartitionManager, IsrRoute
from replica_manager.replication.fetch_requests import FetcherSettings
from replica_manager.replication.fetcher_metrics import FetcherMetrics
from replica_manager.replication.fetcher_task import FetcherListener, FetcherTask
from replica_manager.replication.isr import PendingIsr
from replica_manager.replication.leader_end_point import LeaderEndPoint, LinkSettings
from replica_manager.replication.leader_messages import FetchLimits, LeaderRequestVersions
from replica_manager.replication.partition import Partition
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers
from replica_manager.replication.replica_log import ReplicaLog
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.throttle import ReplicationThrottle
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

ControllerEpochOf: TypeAlias = Callable[[TopicPartition], int | None]
"""Returns the epoch of the controller that elected this leader; None if there is no partition."""

FAIR_PARTITIONS: Final = 2_000
"""Partitions whose ISR is checked before other tasks run: some 3 ms."""

_manager_log = logging.getLogger("kafka.server.ReplicaFetcherManager")
_log = logging.getLogger("kafka.server.ReplicaManager")


class ReplicationTasks:
    """The tasks of one broker's replication.  Runs on the event loop."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        *,
        metadata_cache: ZkMetadataCache,
        broker_epoch: Callable[[], int],
        security: Mapping[str, ClientSecurity],
        isr_route: Callable[[ControllerEpochOf], IsrRoute],
        metrics: Metrics,
        now_ms: Callable[[], int],
        flush: Callable[[TopicPartition], Awaitable[None]],
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """``throttle`` limits what followers fetch; ``flush`` flushes a partition's log to disk.

        ``isr_route`` returns the route of ISR proposals, given a function for the controller epoch
        of a partition.  ``security`` holds the client security per listener name.  ``now_ms`` must
        be the clock of ``replica_manager``.
        """
        self._flush = flush
        self._broker_id = broker_id
        self._listeners = config.listeners
        self._partitions = replica_manager.partitions
        self._metadata_cache = metadata_cache
        self._broker_epoch = broker_epoch
        self._now_ms = now_ms
        self._on_changed = replica_manager.partition_changed
        self._link_settings = _link_settings(broker_id, config, security)
        self._look_interval_s = config.integer("replica.lag.time.max.ms") / 2 / 1000
        self.fetchers = ReplicaFetchers(
            config.integer("num.replica.fetchers"),
            self._log_of,
            _fetcher_settings(broker_id, config),
            self._on_added,
            self._on_removed,
            self._address_of,
            throttle,
        )
        self._tasks: dict[FetcherKey, FetcherTask] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._metrics = FetcherMetrics(
            metrics, self.fetchers, self._address_of, self._is_being_added
        )
        self._isr_changes = AlterPartitionManager(
            isr_route(self._controller_epoch_of), metrics, now_ms, self._on_changed
        )
        self._shrink_task: asyncio.Task[None] | None = None
        self._is_running = False

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Sends a partition's ISR proposal."""
        self._isr_changes.submit(partition, pending)

    def start(self) -> None:
        """Starts the ISR checks, the proposals and the fetchers, including those added later."""
        self._isr_changes.start()
        self._is_running = True
        for key, fetcher in self.fetchers.fetchers.items():
            self._on_added(key, fetcher)
        loop = asyncio.get_running_loop()
        self._shrink_task = loop.create_task(self._look_now_and_then(), name="isr-expiration")

    async def stop(self) -> None:
        """Stops all tasks; no fetcher appends to a log afterwards."""
        self._is_running = False
        _manager_log.info("%sshutting down", self._manager_prefix)
        for key in list(self._tasks):
            self._on_removed(key)
        if self._ending:
            await asyncio.wait(self._ending)
        _manager_log.info("%sshutdown completed", self._manager_prefix)
        if self._shrink_task is not None:
            self._shrink_task.cancel()
            await asyncio.gather(self._shrink_task, return_exceptions=True)
        await self._isr_changes.stop()

    @property
    def _manager_prefix(self) -> str:
        return f"[ReplicaFetcherManager on broker {self._broker_id}] "

    # ------------------------------------------------------------------ fetchers

    def _on_added(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        running = self._tasks.get(key)
        if running is not None and running.fetcher is fetcher:
            running.wake()
            return
        if not self._is_running:
            return
        link = LeaderEndPoint(
            key.leader, key.fetcher_id, self._link_settings, self._endpoint_of, self._broker_epoch
        )
        meters = self._metrics.added(key)
        self._tasks[key] = FetcherTask(
            fetcher,
            key.fetcher_id,
            link,
            self._link_settings,
            self.fetchers.settings.backoff_ms,
            self._now_ms,
            FetcherListener(
                self._high_watermarks_moved, meters.bytes_in, meters.requested, self._flush
            ),
        )

    def _on_removed(self, key: FetcherKey) -> None:
        running = self._tasks.pop(key, None)
        if running is None:
            return
        self._metrics.removed(key)
        ending = running.end()
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _high_watermarks_moved(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._on_changed(tp)

    def _log_of(self, tp: TopicPartition) -> ReplicaLog:
        return self._partitions[tp].log

    def _is_being_added(self, tp: TopicPartition) -> bool:
        partition = self._partitions.get(tp)
        return partition is not None and self._broker_id in partition.adding_replicas

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        return self._metadata_cache.snapshot.endpoint(broker_id, self._listeners.inter_broker)

    def _address_of(self, broker_id: int) -> str:
        endpoint = self._endpoint_of(broker_id)
        return "unknown" if endpoint is None else f"{endpoint.host}:{endpoint.port}"

    # ------------------------------------------------------------------ ISRs

    def _controller_epoch_of(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.controller_epoch

    async def _look_now_and_then(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - later checks must still run
                cause = throwable_text(error)
                _log.error("Error while shrinking ISRs", extra={"cause": cause})
            await asyncio.sleep(self._look_interval_s)

    async def _look(self) -> None:
        """Proposes to remove lagging replicas from the ISRs that this broker leads."""
        for number, tp in enumerate(list(self._partitions)):
            partition = self._partitions.get(tp)
            if partition is not None:
                pending = partition.maybe_shrink_isr(self._now_ms())
                if pending is not None:
                    self.submit(partition, pending)
            if number % FAIR_PARTITIONS == FAIR_PARTITIONS - 1:
                await asyncio.sleep(0)


def _fetcher_settings(broker_id: int, config: BrokerConfig) -> FetcherSettings:
    version = config.inter_broker_version
    return FetcherSettings(
        config.integer("replica.fetch.max.bytes"),
        config.integer("replica.fetch.backoff.ms"),
        is_truncation_on_fetch_supported(version),
        is_offsets_for_leader_epoch_supported(version),
        broker_id,
    )


def _link_settings(
    broker_id: int, config: BrokerConfig, security: Mapping[str, ClientSecurity]
) -> LinkSettings:
    return LinkSettings(
        broker_id,
        LeaderRequestVersions.of(config.inter_broker_version),
        FetchLimits(
            config.integer("replica.fetch.wait.max.ms"),
            config.integer("replica.fetch.min.bytes"),
            config.integer("replica.fetch.response.max.bytes"),
        ),
        config.integer("replica.socket.timeout.ms"),
        config.integer("request.timeout.ms"),
        security[config.listeners.inter_broker],
    )
