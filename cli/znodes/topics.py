"""Topics as records read from znodes, in the same form as those read from brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kafka_common.protocol.uuid_text import uuid_text
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    ConfigZnode,
    DeleteTopicsZnode,
    DeleteTopicZnode,
)
from zkcontroller_cli.values.topic_names import INTERNAL_TOPICS
from zkcontroller_cli.znodes.partitions import (
    PartitionView,
    TopicView,
    live_broker_ids,
    partitions_of,
    read_topics,
)
from zkcontroller_cli.znodes.session import ZooKeeper, decoded


def topics_from_zookeeper(zookeeper: ZooKeeper, names: list[str] | None) -> list[dict[str, Any]]:
    """The topics with these names (None: all) as records; Refused if one does not exist."""
    topics = read_topics(zookeeper, names)
    marked = read_deletions(zookeeper)
    partitions: dict[str, list[PartitionView]] = {topic.topic: [] for topic in topics}
    for partition in partitions_of(zookeeper, topics):
        partitions[partition.topic].append(partition)
    live = set(live_broker_ids(zookeeper))
    paths = [ConfigZnode.topic_path(topic.topic) for topic in topics]
    configs = read_configs(zookeeper, paths)
    return [
        _from_znodes(topic, partitions[topic.topic], config, live, is_marked=topic.topic in marked)
        for topic, config in zip(topics, configs, strict=True)
    ]


def read_configs(zookeeper: ZooKeeper, paths: Sequence[str]) -> list[Mapping[str, str] | None]:
    """The keys and values of each configuration znode; empty if missing, None if corrupt."""
    configs: list[Mapping[str, str] | None] = []
    for path, result in zip(paths, zookeeper.read(paths), strict=True):
        znode = optional(path, result)
        found = ConfigZnode({}) if znode is None else decoded(ConfigZnode.decode, path, znode.data)
        configs.append(None if found is None else found.config)
    return configs


def read_deletions(zookeeper: ZooKeeper) -> dict[str, int]:
    """The topics to delete, and when each deletion was requested, in milliseconds since 1970."""
    names = optional(DeleteTopicsZnode.PATH, zookeeper.children([DeleteTopicsZnode.PATH])[0]) or []
    paths = [DeleteTopicZnode.path(name) for name in names]
    stats = map(optional, paths, zookeeper.stats(paths))
    return {
        name: stat.ctime_ms for name, stat in zip(names, stats, strict=True) if stat is not None
    }


def _from_znodes(
    topic: TopicView,
    partitions: list[PartitionView],
    config: Mapping[str, str] | None,
    live: set[int],
    *,
    is_marked: bool,
) -> dict[str, Any]:
    first = next(iter(topic.partitions.values()), None)
    return {
        "topic": topic.topic,
        "topic_id": topic_id_text(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": len(first.origin_replicas) if first else 0,
        "is_internal": topic.topic in INTERNAL_TOPICS,
        "is_marked_for_deletion": is_marked,
        "configs": config,
        "partitions": [
            {
                "partition": view.partition,
                "leader": view.state.leader if view.state else None,
                "leader_epoch": view.state.leader_epoch if view.state else None,
                "isr": list(view.state.in_sync_replicas) if view.state else None,
                "replicas": list(view.assignment.replicas),
                "offline_replicas": [b for b in view.assignment.replicas if b not in live],
                "adding_replicas": list(view.assignment.adding_replicas),
                "removing_replicas": list(view.assignment.removing_replicas),
            }
            for view in partitions
        ],
    }


def topic_id_text(topic_id: UUID | None) -> str | None:
    """The topic id as Kafka prints it; None for a topic without an id."""
    return None if topic_id is None else uuid_text(topic_id)
