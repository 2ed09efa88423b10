"""Logs of ``__consumer_offsets`` in a folder of the test, for a group coordinator to write to.

Replicas and appends are the broker's own, so that records take the way that they take there.
"""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from replica_manager.coordinators.group_loading import led_log
from replica_manager.log.log_config import LogConfig
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.control_requests import LeaderAndIsrRequest
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, ZkMetadataCache
from tests.support.broker_world import broker
from tests.support.log_world import LogWorld
from tests.support.steps import completed


class GroupLogs:
    """The logs of broker 1, which leads what a test asks for, and has no followers."""

    def __init__(self, folder: Path, config: LogConfig | None = None) -> None:
        self.folder = folder
        self._config = LogConfig(is_compacted=True, is_deleted=False) if config is None else config
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._leader_epoch = -1
        cache = ZkMetadataCache(1)
        brokers = MetadataUpdate(8, 1, 1, -1, (), (broker(1), broker(2)))
        completed(cache.update(brokers, 0, trace=False))
        self._replicas = ReplicaManager(
            1,
            cache,
            write_state_changes=lambda _: None,
            now_ms=lambda: 0,
            logs=self,
        )
        self.appends = RecordAppends(
            self._replicas, self._flush, BrokerTopicStats(Metrics()), lambda: 0
        )

    def lead(self, partition: TopicPartition) -> None:
        """This broker leads it from now on."""
        self._elect(partition, 1, (1,))

    def resign(self, partition: TopicPartition) -> None:
        """Broker 2 leads it from now on; the coordinator does not know."""
        self._elect(partition, 2, (2, 1))

    def _elect(self, partition: TopicPartition, leader: int, replicas: tuple[int, ...]) -> None:
        self._leader_epoch += 1
        state = LeaderAndIsrPartitionState(
            1, leader, self._leader_epoch, (leader,), 0, replicas, (), (), False, 0
        )
        request = LeaderAndIsrRequest(1, 1, -1, {partition: state}, {})
        result = completed(become_leader_or_follower(self._replicas, request, 0))
        assert result.partitions == {partition: ErrorCode.none}

    def led(self, partition: TopicPartition) -> UnifiedLog | None:
        """The log of a partition that this broker leads; None if it is not the leader."""
        return led_log(self._replicas, partition)

    def log(self, partition: TopicPartition) -> UnifiedLog:
        """The log of a partition that is here."""
        return self._logs[partition]

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    # What the replica manager asks of its logs.

    def open(self, partition: TopicPartition, _: UUID | None, *, is_new: bool) -> UnifiedLog:  # noqa: ARG002
        log = LogWorld(self.folder / str(partition), self._config).open()
        return self._logs.setdefault(partition, log)

    def delete(self, partition: TopicPartition) -> None:
        raise AssertionError(f"{partition} is not deleted here")

    async def _flush(self, log: UnifiedLog) -> None:
        log.flush()
