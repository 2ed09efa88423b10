"""Znodes that request work of the controller: reassignments, elections, notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from kafka_common.model import TopicPartition
from zkcontroller.zookeeper.znode_json import (
    INT32_MAX,
    INT32_MIN,
    JsonFields,
    json_integers,
    json_string,
    shown,
)


class ReassignPartitionsZnode(Struct, frozen=True):
    """``/admin/reassign_partitions``, JSON version 1: target replicas, in the order written.

    Written by tools before Kafka 2.4's API, rewritten and deleted by the controller.
    """

    PATH = "/admin/reassign_partitions"

    partitions: Mapping[TopicPartition, tuple[int, ...]]

    def encode(self) -> bytes:
        items = [
            b'{"topic":%s,"partition":%d,"replicas":%s}'
            % (json_string(topic), partition, json_integers(replicas))
            for (topic, partition), replicas in self.partitions.items()
        ]
        return b'{"version":1,"partitions":[%s]}' % b",".join(items)

    @classmethod
    def decode(cls, data: bytes) -> ReassignPartitionsZnode:
        fields = JsonFields.parse(cls.PATH, data)
        partitions: dict[TopicPartition, tuple[int, ...]] = {}
        for item in fields.objects("partitions"):
            partition = TopicPartition(item.text("topic"), item.integer("partition"))
            if partition in partitions:
                raise fields.corrupt(f"{partition} stands there twice")
            # Kafka reads an empty list, too; the controller refuses it.
            partitions[partition] = tuple(
                _any_broker_id(item, value) for value in item.array("replicas")
            )
        return cls(partitions)


def _any_broker_id(item: JsonFields, value: Any) -> int:
    # Accept negative and repeated ids: the controller refuses single partitions for them, but an
    # error here would refuse the whole znode.
    if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
        raise item.corrupt(f"replicas holds what is not a broker id: {shown(value)}")
    return value


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    items = [b'{"topic":%s,"partition":%d}' % (json_string(t), p) for t, p in partitions]
    return b'{"version":1,"partitions":[%s]}' % b",".join(items)


def _decode_partitions(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    items = JsonFields.parse(path, data).objects("partitions")
    # Repeated partitions are dropped: dict keeps the first of each, in order.
    return tuple(
        dict.fromkeys(
            TopicPartition(item.text("topic"), item.integer("partition")) for item in items
        )
    )


class PreferredReplicaElectionZnode(Struct, frozen=True):
    """``/admin/preferred_replica_election``, JSON version 1; tools write, controllers delete."""

    PATH = "/admin/preferred_replica_election"

    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, data: bytes) -> PreferredReplicaElectionZnode:
        return cls(_decode_partitions(cls.PATH, data))


class IsrChangeNotificationZnode:
    """``/isr_change_notification``: its children name partitions whose ISR a leader has changed."""

    PATH: Final = "/isr_change_notification"


class IsrChangeNotificationSequenceZnode(Struct, frozen=True):
    """``/isr_change_notification/isr_change_<n>``, JSON version 1, sequential.

    Written by leaders below inter.broker.protocol.version 2.7-IV2, deleted by the controller.
    """

    CREATE_PATH = "/isr_change_notification/isr_change_"

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def path(name: str) -> str:
        """The path of the child called ``name`` (``isr_change_0000000001``)."""
        return f"/isr_change_notification/{name}"

    def encode(self) -> bytes:
        return _encode_partitions(self.partitions)

    @classmethod
    def decode(cls, path: str, data: bytes) -> IsrChangeNotificationSequenceZnode:
        return cls(_decode_partitions(path, data))


class LogDirEventNotificationZnode:
    """``/log_dir_event_notification``: its children name brokers that lost a log directory."""

    PATH: Final = "/log_dir_event_notification"


class LogDirEventNotificationSequenceZnode(Struct, frozen=True):
    """``/log_dir_event_notification/log_dir_event_<n>``, JSON version 1, sequential.

    Written by the broker that lost a log directory, deleted by the controller.
    """

    CREATE_PATH = "/log_dir_event_notification/log_dir_event_"
    LOG_DIR_FAILURE = 1

    broker_id: int

    @staticmethod
    def path(name: str) -> str:
        """The path of the child called ``name`` (``log_dir_event_0000000001``)."""
        return f"/log_dir_event_notification/{name}"

    def encode(self) -> bytes:
        return b'{"version":1,"broker":%d,"event":%d}' % (self.broker_id, self.LOG_DIR_FAILURE)

    @classmethod
    def decode(cls, path: str, data: bytes) -> LogDirEventNotificationSequenceZnode:
        # Like Kafka, the field ``event`` is ignored: a log directory failure is the only event.
        return cls(JsonFields.parse(path, data).integer("broker"))
