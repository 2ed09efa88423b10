"""Znodes of the cluster as a whole: controller, cluster id, features, producer ids."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from zkcontroller.zookeeper.scala_order import immutable_map_order
from zkcontroller.zookeeper.znode_json import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    JsonFields,
    integer_text,
    json_object,
    json_string,
)


class ControllerZnode(Struct, frozen=True):
    """``/controller``, JSON version 2, ephemeral: the controller's broker id.

    Written by the controller.  Kafka 2.x to 3.3 wrote version 1, without ``kraftControllerEpoch``,
    which is then read as -1.
    """

    PATH = "/controller"

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        return b'{"version":2,"brokerid":%d,"timestamp":"%d","kraftControllerEpoch":%d}' % (
            self.broker_id,
            self.timestamp_ms,
            self.kraft_controller_epoch,
        )

    @classmethod
    def decode(cls, data: bytes) -> ControllerZnode:
        fields = JsonFields.parse(cls.PATH, data)
        kraft_controller_epoch = -1
        if fields.has("kraftControllerEpoch"):
            kraft_controller_epoch = fields.integer("kraftControllerEpoch", minimum=-1)
        return cls(
            broker_id=fields.integer("brokerid"),
            # Kafka never reads the timestamp, so a znode without it is valid.
            timestamp_ms=fields.long_text("timestamp", -1) if fields.has("timestamp") else -1,
            kraft_controller_epoch=kraft_controller_epoch,
        )


class ControllerEpochZnode:
    """``/controller_epoch``: the epoch as decimal text; its zk_version fences every write."""

    PATH: Final = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return b"%d" % epoch

    @staticmethod
    def decode(data: bytes) -> int:
        return integer_text(ControllerEpochZnode.PATH, data, 0, INT32_MAX)


class ClusterZnode:
    """``/cluster``, the parent of ``/cluster/id``."""

    PATH: Final = "/cluster"


class ClusterIdZnode(Struct, frozen=True):
    """``/cluster/id``, JSON version "1" (a string): written once, by the first broker."""

    PATH = "/cluster/id"

    cluster_id: str

    def encode(self) -> bytes:
        return b'{"version":"1","id":%s}' % json_string(self.cluster_id)

    @classmethod
    def decode(cls, data: bytes) -> ClusterIdZnode:
        return cls(JsonFields.parse(cls.PATH, data).text("id"))


class FeatureStatus(IntEnum):
    """Whether the finalized features are enabled (KIP-584)."""

    DISABLED = 0
    ENABLED = 1


class FeatureZnode(Struct, frozen=True):
    """``/feature``, JSON version 2, written by the controller: max level by finalized feature.

    Version 1 (below inter.broker.protocol.version 3.3-IV0) writes a min level as well.
    """

    PATH = "/feature"

    features: Mapping[str, int]
    status: FeatureStatus
    version: int = 2

    def encode(self) -> bytes:
        levels = (
            b'{"max_version_level":%d,"min_version_level":%d}'
            if self.version == 1
            else b'{"max_version_level":%d}'
        )
        features = json_object(
            (name, levels % ((self.features[name],) * (2 if self.version == 1 else 1)))
            for name in immutable_map_order(list(self.features))
        )
        return b'{"features":%s,"version":%d,"status":%d}' % (features, self.version, self.status)

    @classmethod
    def decode(cls, data: bytes) -> FeatureZnode:
        fields = JsonFields.parse(cls.PATH, data)
        version = fields.integer("version", 1, 2)
        status = FeatureStatus(fields.integer("status", 0, 1))
        named = fields.object("features")
        features: dict[str, int] = {}
        for name in named:
            levels = named.object(name)
            least = levels.integer("min_version_level", 1, INT16_MAX) if version == 1 else 1
            features[name] = levels.integer("max_version_level", least, INT16_MAX)
        return cls(features, status, version)


class ProducerIdBlockZnode(Struct, frozen=True):
    """``/latest_producer_id_block``, JSON version 1; ``last_producer_id`` is in the block.

    Written by the controller if the zk_version is unchanged; below inter.broker.protocol.version
    3.0-IV0 by brokers.  In a new cluster the data is null, which callers must not decode.
    """

    PATH = "/latest_producer_id_block"

    broker_id: int
    first_producer_id: int
    last_producer_id: int

    def encode(self) -> bytes:
        return b'{"version":1,"broker":%d,"block_start":"%d","block_end":"%d"}' % (
            self.broker_id,
            self.first_producer_id,
            self.last_producer_id,
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlockZnode:
        fields = JsonFields.parse(cls.PATH, data)
        first = fields.long_text("block_start")
        last = fields.long_text("block_end", minimum=first - 1)
        if last - first + 1 > INT32_MAX:
            raise fields.corrupt(f"a block of {last - first + 1} producer ids")
        return cls(fields.integer("broker", minimum=-1), first, last)


class ConsumersZnode:
    """``/consumers``: offsets of consumers older than Kafka 0.9; any client may write here."""

    PATH: Final = "/consumers"


class ConsumerOffsetZnode:
    """``/consumers/GROUP/offsets/TOPIC/PARTITION``: a committed offset as decimal text.

    Written for OffsetCommit requests of version 0.
    """

    @staticmethod
    def path(group_id: str, topic: str, partition: int) -> str:
        return f"{ConsumersZnode.PATH}/{group_id}/offsets/{topic}/{partition}"

    @staticmethod
    def encode(offset: int) -> bytes:
        return b"%d" % offset

    @staticmethod
    def decode(path: str, data: bytes) -> int:
        return integer_text(path, data, INT64_MIN, INT64_MAX)
