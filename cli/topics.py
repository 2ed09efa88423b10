"""Topics from their znodes, in the same form as those from brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from zkcontroller.zookeeper.answers import optional
from zkcontroller.zookeeper.znodes import ConfigZnode, encode_topic_id

from .partitions import PartitionView, TopicView, live_broker_ids, partitions_of, read_topics
from .zookeeper import ZooKeeper, decoded

# What Kafka itself creates (Topic.INTERNAL_TOPICS); ZooKeeper does not say it, Metadata does.
_INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


def topics_from_zookeeper(zookeeper: ZooKeeper, names: list[str] | None) -> list[dict[str, Any]]:
    """Topics by name, as their znodes say; Refused if one asked for does not exist."""
    topics = read_topics(zookeeper, names)
    partitions: dict[str, list[PartitionView]] = {topic.topic: [] for topic in topics}
    for partition in partitions_of(zookeeper, topics):
        partitions[partition.topic].append(partition)
    live = set(live_broker_ids(zookeeper))
    paths = [ConfigZnode.topic_path(topic.topic) for topic in topics]
    configs = read_configs(zookeeper, paths)
    return [
        _from_znodes(topic, partitions[topic.topic], config, live)
        for topic, config in zip(topics, configs, strict=True)
    ]


def read_configs(zookeeper: ZooKeeper, paths: Sequence[str]) -> list[Mapping[str, str] | None]:
    """What each znode of a configuration sets: nothing where it is missing, None if corrupt."""
    configs: list[Mapping[str, str] | None] = []
    for path, answer in zip(paths, zookeeper.read(paths), strict=True):
        znode = optional(path, answer)
        found = ConfigZnode({}) if znode is None else decoded(ConfigZnode.decode, path, znode.data)
        configs.append(None if found is None else found.config)
    return configs


def _from_znodes(
    topic: TopicView,
    partitions: list[PartitionView],
    config: Mapping[str, str] | None,
    live: set[int],
) -> dict[str, Any]:
    first = next(iter(topic.partitions.values()), None)
    return {
        "topic": topic.topic,
        "topic_id": topic_id_text(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": len(first.replicas) if first else 0,
        "is_internal": topic.topic in _INTERNAL_TOPICS,
        "configs": config,
        "partitions": [
            {
                "partition": view.partition,
                "leader": view.state.leader if view.state else None,
                "leader_epoch": view.state.leader_epoch if view.state else None,
                "isr": list(view.state.in_sync_replicas) if view.state else None,
                "replicas": list(view.assignment.replicas),
                "offline_replicas": [b for b in view.assignment.replicas if b not in live],
            }
            for view in partitions
        ],
    }


def topic_id_text(topic_id: UUID | None) -> str | None:
    """The id as Kafka prints it; None for a topic without one."""
    return None if topic_id is None else encode_topic_id(topic_id)
