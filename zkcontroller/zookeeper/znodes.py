"""Every znode of a Kafka 3.9 cluster: its path and the codec of its data.

Encoding is equal byte for byte to Kafka 3.9.1, key order included (:mod:`.scala_order`).  Decoding
accepts every version Kafka ever wrote and unknown fields, and raises
:class:`~kafka_common.errors.ZnodeCorrupt` for anything else: a malformed znode never becomes a
default.  Kafka accepts some malformed znodes: it reads a topic znode that is not JSON as a topic
without partitions, so that one damaged znode makes it delete the replicas of a topic.

Paths are relative to the chroot.  Source: Kafka ``kafka.zk.ZkData``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import orjson

from kafka_common.json_values import JsonObject
from zkcontroller.zookeeper.admin_znodes import (
    IsrChangeNotificationSequenceZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationSequenceZnode,
    LogDirEventNotificationZnode,
    PreferredReplicaElectionZnode,
    ReassignPartitionsZnode,
)
from zkcontroller.zookeeper.broker_znodes import (
    BrokerIdsZnode,
    BrokerIdZnode,
    BrokerSequenceIdZnode,
)
from zkcontroller.zookeeper.cluster_znodes import (
    ClusterIdZnode,
    ClusterZnode,
    ConsumerOffsetZnode,
    ConsumersZnode,
    ControllerEpochZnode,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
    ProducerIdBlockZnode,
)
from zkcontroller.zookeeper.config_znodes import (
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
)
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode, AclZnode
from zkcontroller.zookeeper.topic_znodes import (
    DeleteTopicsZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicsZnode,
    TopicZnode,
    decode_topic_id,
    encode_partition_state,
)

__all__ = [
    "PERSISTENT_PATHS",
    "BrokerIdZnode",
    "BrokerIdsZnode",
    "BrokerSequenceIdZnode",
    "ClusterIdZnode",
    "ClusterZnode",
    "ConfigChangeZnode",
    "ConfigChangesZnode",
    "ConfigZnode",
    "ConsumerOffsetZnode",
    "ConsumersZnode",
    "ControllerEpochZnode",
    "ControllerZnode",
    "DeleteTopicZnode",
    "DeleteTopicsZnode",
    "FeatureStatus",
    "FeatureZnode",
    "IsrChangeNotificationSequenceZnode",
    "IsrChangeNotificationZnode",
    "LogDirEventNotificationSequenceZnode",
    "LogDirEventNotificationZnode",
    "PartitionStateZnode",
    "PreferredReplicaElectionZnode",
    "ProducerIdBlockZnode",
    "ReassignPartitionsZnode",
    "TopicPartitionZnode",
    "TopicPartitionsZnode",
    "TopicZnode",
    "TopicsZnode",
    "decode_topic_id",
    "describe",
    "encode_partition_state",
]

PERSISTENT_PATHS: Final = (
    ConsumersZnode.PATH,
    BrokerIdsZnode.PATH,
    TopicsZnode.PATH,
    ConfigChangesZnode.PATH,
    DeleteTopicsZnode.PATH,
    BrokerSequenceIdZnode.PATH,
    IsrChangeNotificationZnode.PATH,
    ProducerIdBlockZnode.PATH,
    LogDirEventNotificationZnode.PATH,
    *(ConfigZnode.type_path(entity_type) for entity_type in ConfigZnode.TYPES),
)
"""Parents that every broker creates at start, in this order (``ZkData.PersistentZkPaths``)."""

_Reader: TypeAlias = Callable[[re.Match[str], bytes], object]
"""Decodes the data of a znode; raises ZnodeCorrupt if it is malformed."""

_READERS: Final[tuple[tuple[re.Pattern[str], _Reader], ...]] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        ("/controller", lambda _, data: ControllerZnode.decode(data)),
        ("/controller_epoch", lambda _, data: ControllerEpochZnode.decode(data)),
        ("/brokers/ids/([0-9]{1,10})", lambda m, data: BrokerIdZnode.decode(int(m[1]), data)),
        ("/brokers/topics/([^/]+)", lambda m, data: TopicZnode.decode(m[1], data)),
        (
            "/brokers/topics/[^/]+/partitions/[0-9]+/state",
            lambda m, data: PartitionStateZnode.decode(m[0], data),
        ),
        ("/admin/reassign_partitions", lambda _, data: ReassignPartitionsZnode.decode(data)),
        (
            "/admin/preferred_replica_election",
            lambda _, data: PreferredReplicaElectionZnode.decode(data),
        ),
        (
            "/isr_change_notification/isr_change_[0-9-]+",
            lambda m, data: IsrChangeNotificationSequenceZnode.decode(m[0], data),
        ),
        (
            "/log_dir_event_notification/log_dir_event_[0-9-]+",
            lambda m, data: LogDirEventNotificationSequenceZnode.decode(m[0], data),
        ),
        (
            "/consumers/[^/]+/offsets/[^/]+/[0-9]+",
            lambda m, data: ConsumerOffsetZnode.decode(m[0], data),
        ),
        ("/cluster/id", lambda _, data: ClusterIdZnode.decode(data)),
        ("/feature", lambda _, data: FeatureZnode.decode(data)),
        (
            "/latest_producer_id_block",
            lambda _, data: ProducerIdBlockZnode.decode(data) if data else None,
        ),
        (
            "/config/changes/config_change_[0-9-]+",
            lambda m, data: ConfigChangeZnode.decode(m[0], data),
        ),
        (
            "/kafka-acl(?:-extended/prefixed)?/[^/]+/[^/]+",
            lambda m, data: AclZnode.decode(m[0], data),
        ),
        (
            "/kafka-acl(?:-extended)?-changes/acl_changes_[0-9-]+",
            lambda m, data: AclChangeZnode.decode(m[0], data),
        ),
        (
            "/config/(?:topics|clients|users|brokers|ips)/.+",
            lambda m, data: ConfigZnode.decode(m[0], data),
        ),
    )
)


def describe(path: str, data: bytes) -> JsonObject | str:
    """The content of a znode for display: its JSON object or its text.

    A znode that this catalogue knows is checked by its codec first: ZnodeCorrupt if it fails.  Any
    other is shown as JSON if it is a JSON object, else as text (bytes that are no UTF-8 escaped).
    """
    for pattern, reader in _READERS:
        if match := pattern.fullmatch(path):
            reader(match, data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    return value if type(value) is dict else data.decode("utf-8", "backslashreplace")
