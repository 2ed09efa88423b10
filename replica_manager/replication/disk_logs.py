"""The replicas' logs on disk, each with its topic's configuration.

The caller passes a topic's configuration at the start, when the topic is created, and when the
configuration changes.  The broker's configuration supplies the keys that a topic does not set.
A change of either is applied to open logs immediately.

Source: Kafka ``ReplicaManager``, ``Partition.createLogIfNotExists``, ``LogManager.getOrCreateLog``,
``TopicConfigHandler``, ``DynamicLogConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from kafka_common.errors import ConfigInvalid, KafkaStorage
from kafka_common.model import TopicPartition
from replica_manager.configuration.config_keys import ConfigValue
from replica_manager.configuration.topic_keys import (
    MESSAGE_FORMAT,
    TOPIC_KEYS,
    check_message_format,
)
from replica_manager.log.log_config import LogConfig, shown_overrides
from replica_manager.log.log_loading import RecoveryProgress
from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog

_log = logging.getLogger("kafka.log.LogManager")
_partition_log = logging.getLogger("kafka.cluster.Partition")


class DiskLogs:
    """A :class:`~replica_manager.replication.replica_manager.ReplicaLogs` over a log manager."""

    def __init__(
        self,
        manager: LogManager,
        broker_values: Callable[[], Mapping[str, ConfigValue]],
        broker_id: int,
    ) -> None:
        """``broker_values`` returns the broker's current configuration."""
        self.manager = manager
        self._broker_id = broker_id
        self._checkpointed: set[TopicPartition] = set()
        """The partitions whose high watermark was in a checkpoint file."""
        self._opened: set[TopicPartition] = set()
        self._broker_values = broker_values
        self._own_values: dict[str, dict[str, ConfigValue]] = {}
        self._configs: dict[str, LogConfig] = {}
        self._default = manager.default_config = LogConfig.of({}, broker_values())

    def load(self, on_progress: Callable[[RecoveryProgress], None]) -> None:
        """Opens every log, with its high watermark from the checkpoint.  Blocks."""
        manager = self.manager
        manager.load(dict(self._configs), on_progress)
        for log_dir in manager.live_log_dirs:
            try:
                for topic_partition, high_watermark in manager.high_watermarks(log_dir).items():
                    log = manager.log(topic_partition)
                    if log is not None and log.log_dir == log_dir:
                        log.update_high_watermark(high_watermark)
                        self._checkpointed.add(topic_partition)
            except OSError as error:
                manager.fail(
                    log_dir, f"Error while reading high watermarks in dir {log_dir}", error
                )

    def config_of(self, topic: str) -> LogConfig:
        """The configuration of a topic's logs."""
        return self._configs.get(topic, self._default)

    def min_in_sync_replicas(self, topic: str) -> int:
        return self.config_of(topic).min_in_sync_replicas

    def topic_changed(self, topic: str, config: Mapping[str, str]) -> None:
        """Applies a topic's configuration from ZooKeeper; ignores unknown and invalid keys."""
        values: dict[str, ConfigValue] = {}
        for key, text in config.items():
            if key not in TOPIC_KEYS:
                continue
            try:
                value = TOPIC_KEYS[key].parse(text)
                if key == MESSAGE_FORMAT:
                    check_message_format(key, value, self._broker_values())
                values[key] = value
            except ConfigInvalid as invalid:
                _log.error("The configuration of topic %s is ignored in part: %s", topic, invalid)
        self._own_values.pop(topic, None)
        self._configs.pop(topic, None)
        if values:
            self._own_values[topic] = values
            broker = self._broker_values()
            shown = shown_overrides(config, broker)
            self._configs[topic] = replace(LogConfig.of(values, broker), overrides=shown)
        self.manager.update_topic_config(topic, self.config_of(topic))

    def broker_changed(self) -> None:
        """Applies the broker's changed configuration to all logs."""
        values = self._broker_values()
        self._default = self.manager.default_config = LogConfig.of({}, values)
        self._configs = {
            topic: replace(LogConfig.of(own, values), overrides=self._configs[topic].overrides)
            for topic, own in self._own_values.items()
        }
        self.manager.update_configs(self.config_of)

    def open(
        self, partition: TopicPartition, topic_id: UUID | None, /, *, is_new: bool
    ) -> UnifiedLog:
        """The partition's log, created if it is missing.

        KafkaStorage if it is missing, not new, and a log directory is offline: it may be there.
        """
        manager = self.manager
        if not is_new and manager.log(partition) is None and manager.offline_log_dirs:
            offline = ",".join(map(str, manager.offline_log_dirs))
            raise KafkaStorage(
                f"Can not create log for {partition} because log directories {offline} are offline"
            )
        log = manager.get_or_create(partition, self.config_of(partition.topic), topic_id)
        if partition not in self._opened:
            self._opened.add(partition)
            self._log_opened(partition, log)
        return log

    def _log_opened(self, partition: TopicPartition, log: UnifiedLog) -> None:
        if partition not in self._checkpointed:
            _partition_log.info(
                "[Partition %s broker=%d] No checkpointed highwatermark is found for partition %s",
                partition, self._broker_id, partition,
            )  # fmt: skip
        _partition_log.info(
            "[Partition %s broker=%d] Log loaded for partition %s with initial high watermark %d",
            partition, self._broker_id, partition, log.high_watermark,
        )  # fmt: skip

    def delete(self, partition: TopicPartition, /) -> None:
        """Deletes the partition's log and its future log."""
        self.manager.delete(partition)
        self.manager.delete(partition, is_future=True)
        self._checkpointed.discard(partition)
        self._opened.discard(partition)
