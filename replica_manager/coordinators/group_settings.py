"""The group coordinator's settings from ``server.properties`` and ZooKeeper.

Source: Kafka ``GroupCoordinatorConfig``, ``KafkaServer.startup``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from kafka_common.protocol.compression import Codec
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.groups.config import GroupConfig
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import TopicZnode

_MINUTE_MS: Final = 60_000
_ALL_REPLICAS: Final = -1


class GroupSettings(NamedTuple):
    """The configuration of the group coordinator and of :mod:`.group_service`."""

    config: GroupConfig
    codec: Codec
    """``offsets.topic.compression.codec``: the compression of batches that it appends."""
    load_buffer_bytes: int
    """``offsets.load.buffer.size``: bytes of a log that are read at once, or one batch."""
    default_partition_count: int
    """``offsets.topic.num.partitions``: used while the topic does not exist."""
    metrics_num_samples: int
    metrics_sample_window_ms: int


def group_settings(config: BrokerConfig, broker_id: int) -> GroupSettings:
    """The settings in all ``group.*`` and ``offsets.*`` keys; ConfigInvalid if one is invalid."""
    acks = config.integer("offsets.commit.required.acks")
    replication_factor = config.integer("offsets.topic.replication.factor")
    if not _ALL_REPLICAS <= acks <= replication_factor:
        raise ConfigInvalid(
            "offsets.commit.required.acks",
            acks,
            f"between -1 and offsets.topic.replication.factor, which is {replication_factor}",
        )
    codec = config.integer("offsets.topic.compression.codec")
    if not 0 <= codec < len(Codec):
        raise ConfigInvalid(
            "offsets.topic.compression.codec",
            codec,
            "0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
        )
    return GroupSettings(
        GroupConfig(
            broker_id=broker_id,
            min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            max_size=config.integer("group.max.size"),
            offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * _MINUTE_MS,
            offsets_retention_check_interval_ms=config.integer(
                "offsets.retention.check.interval.ms"
            ),
            offsets_commit_required_acks=acks,
            offsets_commit_timeout_ms=config.integer("offsets.commit.timeout.ms"),
            offsets_topic_segment_bytes=config.integer("offsets.topic.segment.bytes"),
            inter_broker_version=config.inter_broker_version,
        ),
        Codec(codec),
        config.integer("offsets.load.buffer.size"),
        config.integer("offsets.topic.num.partitions"),
        config.integer("metrics.num.samples"),
        config.integer("metrics.sample.window.ms"),
    )


def partition_count(session: ZooKeeperSession, topic: str) -> int | None:
    """The number of partitions of ``topic``; None if the topic does not exist.  Blocks."""
    path = TopicZnode.path(topic)
    znode = optional(path, session.read(path))
    return None if znode is None else len(TopicZnode.decode(topic, znode.data).partitions)
