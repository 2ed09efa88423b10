"""Znodes under ``/brokers/topics`` and ``/admin/delete_topics``: topics and partition states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import orjson
from msgspec import Struct

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import ReplicaAssignment
from kafka_common.protocol.uuid_text import parse_uuid, uuid_text
from zkcontroller.zookeeper.scala_order import mutable_hash_map_order
from zkcontroller.zookeeper.znode_json import INT32_MAX, JsonFields, broker_ids, json_integers


class TopicsZnode:
    """``/brokers/topics``: its children are the topics."""

    PATH: Final = "/brokers/topics"


class TopicZnode(Struct, frozen=True):
    """``/brokers/topics/<topic>``, JSON version 3: a topic's id and assignment.

    Written by its creator and by the controller.  Version 1 had no reassignment, version 2 no
    topic id; both are read.
    """

    topic_id: UUID | None
    partitions: Mapping[int, ReplicaAssignment]

    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}"

    def encode(self) -> bytes:
        all_replicas = {p: a.replicas for p, a in self.partitions.items()}
        adding = {p: a.adding_replicas for p, a in self.partitions.items() if a.adding_replicas}
        removing = {
            p: a.removing_replicas for p, a in self.partitions.items() if a.removing_replicas
        }
        topic_id = b""
        if self.topic_id is not None:
            topic_id = b'"topic_id":"%s",' % uuid_text(self.topic_id).encode()
        return b'{"partitions":%s,%s"adding_replicas":%s,"removing_replicas":%s,"version":3}' % (
            _encode_replica_map(all_replicas),
            topic_id,
            _encode_replica_map(adding),
            _encode_replica_map(removing),
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> TopicZnode:
        path = cls.path(topic)
        # The fast way for a topic without reassignment, as Kafka writes it; otherwise read JSON.
        match = _TOPIC_AT_REST(data)
        if match is not None:
            listed, id_text = match.groups()
            found = _PARTITIONS(listed)
            at_rest = {int(key): _assignment(path, text) for key, text in found}
            if len(at_rest) == len(found):
                known = None if id_text is None else decode_topic_id(path, id_text.decode())
                return cls(known, at_rest)
        fields = JsonFields.parse(path, data)
        topic_id = decode_topic_id(path, fields.text("topic_id")) if "topic_id" in fields else None
        partitions = fields.object("partitions")
        adding = _optional_object(fields, "adding_replicas")
        removing = _optional_object(fields, "removing_replicas")
        assignments: dict[int, ReplicaAssignment] = {}
        for key in partitions:
            # int() alone would take "+1", " 1" and "1_0", and two keys could name one partition.
            if not _PARTITION.fullmatch(key) or int(key) > INT32_MAX:
                raise ZnodeCorrupt(path, f"not a partition id: {key[:40]!r}")
            replicas = partitions.broker_ids(key)
            if not replicas:
                raise ZnodeCorrupt(path, f"partition {key} has no replicas")
            assignments[int(key)] = ReplicaAssignment(
                replicas,
                adding.broker_ids(key) if adding is not None and key in adding else (),
                removing.broker_ids(key) if removing is not None and key in removing else (),
            )
        return cls(topic_id, assignments)


_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)

# At most nine digits, which cannot be out of range; larger numbers are read as JSON.
_SMALL: Final = rb"(?:0|[1-9][0-9]{0,8})"
_AT_REST: Final = rb'"%b":\[%b(?:,%b)*\]' % (_SMALL, _SMALL, _SMALL)
_TOPIC_AT_REST: Final = re.compile(
    rb'\{"partitions":\{((?:%b(?:,%b)*)?)\},(?:"topic_id":"([A-Za-z0-9_-]{22})",)?'
    rb'"adding_replicas":\{\},"removing_replicas":\{\},"version":3\}' % (_AT_REST, _AT_REST)
).fullmatch
_PARTITIONS: Final = re.compile(rb'"([0-9]+)":(\[[0-9,]+\])').findall

_ASSIGNMENT_CACHE_SIZE: Final = 50_000
_ASSIGNMENT_CACHE: Final[dict[bytes, ReplicaAssignment]] = {}
"""Assignments by the text of their replica list; a cluster has few distinct ones."""


def _assignment(path: str, text: bytes) -> ReplicaAssignment:
    known = _ASSIGNMENT_CACHE.get(text)
    if known is None:
        known = ReplicaAssignment(broker_ids(path, "partitions", orjson.loads(text)))
        if len(_ASSIGNMENT_CACHE) >= _ASSIGNMENT_CACHE_SIZE:
            _ASSIGNMENT_CACHE.clear()
        _ASSIGNMENT_CACHE[text] = known
    return known


def _optional_object(fields: JsonFields, key: str) -> JsonFields | None:
    return fields.object(key) if key in fields else None


def _encode_replica_map(replicas: Mapping[int, tuple[int, ...]]) -> bytes:
    count = len(replicas)
    if count <= _CACHED_ORDERS_TO and max(replicas, default=-1) == count - 1:
        order = _order_of_first(count)
    else:
        order = tuple(mutable_hash_map_order([str(partition) for partition in replicas]))
    lists = [b'"%s":%s' % (key.encode(), json_integers(replicas[int(key)])) for key in order]
    return b"{%s}" % b",".join(lists)


_CACHED_ORDERS_TO: Final = 1000
"""The order of partition keys is cached for topics of at most this many partitions."""


@lru_cache(maxsize=128)
def _order_of_first(count: int) -> tuple[str, ...]:
    return tuple(mutable_hash_map_order([str(partition) for partition in range(count)]))


def decode_topic_id(path: str, text: str) -> UUID:
    """The id in 22 characters; ZnodeCorrupt at ``path`` if they are invalid."""
    try:
        return parse_uuid(text)
    except ValueError as refused:
        raise ZnodeCorrupt(path, f"topic id: {refused}") from refused


class TopicPartitionsZnode:
    """``/brokers/topics/<topic>/partitions``, null data, written by the controller."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZnode:
    """``/brokers/topics/<topic>/partitions/<partition>``, null data, written by the controller."""

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"/brokers/topics/{topic}/partitions/{partition}"


def encode_partition_state(
    leader: int,
    leader_epoch: int,
    in_sync_replicas: tuple[int, ...],
    controller_epoch: int,
    leader_recovery_state: int,
) -> bytes:
    """Content of a :class:`PartitionStateZnode`."""
    # Formatted by hand: a failed broker causes 30,000 of these, and a JSON library is much slower.
    state = f'"leader_recovery_state":{leader_recovery_state},' if leader_recovery_state else ""
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{leader},"version":1,'
        f'{state}"leader_epoch":{leader_epoch},"isr":[{_ids(in_sync_replicas)}]}}'
    ).encode()


@lru_cache(maxsize=4096)  # few distinct lists exist
def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


class PartitionStateZnode(NamedTuple):
    """``/brokers/topics/<topic>/partitions/<partition>/state``, JSON version 1.

    Written by the controller; below inter.broker.protocol.version 2.7-IV2 by leaders too.  The
    partition epoch is the znode's zk_version, not a field.  ``leader_recovery_state`` is written
    only if it is not 0.
    """

    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"/brokers/topics/{topic}/partitions/{partition}/state"

    def encode(self) -> bytes:
        return encode_partition_state(*self)

    @classmethod
    def decode(cls, path: str, data: bytes) -> PartitionStateZnode:
        """The state in ``data``, read at ``path``; ZnodeCorrupt if it is invalid."""
        # A failover decodes 100,000 states, in 1 us each.  If that fails, the slow way finds the
        # malformed field.
        try:
            fields = orjson.loads(data)
            leader = fields["leader"]
            leader_epoch = fields["leader_epoch"]
            controller_epoch = fields["controller_epoch"]
            isr = fields["isr"]
        except (orjson.JSONDecodeError, LookupError, TypeError):
            return _decode_state_json(path, data)
        if (
            type(leader) is int
            and type(leader_epoch) is int
            and type(controller_epoch) is int
            and type(isr) is list
            and -1 <= leader <= INT32_MAX
            and 0 <= leader_epoch <= INT32_MAX
            and 0 <= controller_epoch <= INT32_MAX
            and "leader_recovery_state" not in fields
        ):
            for broker in isr:
                if type(broker) is not int:  # True and 1.0 are equal to 1, and keys of it
                    break
            else:
                in_sync_replicas = _VALID_ISR.get(tuple(isr))
                if in_sync_replicas is not None:
                    state = (leader, leader_epoch, in_sync_replicas, controller_epoch, 0)
                    return tuple.__new__(cls, state)
        return _decode_state_json(path, data)


_VALID_ISR_SIZE: Final = 50_000
_VALID_ISR: Final[dict[tuple[int, ...], tuple[int, ...]]] = {}
"""ISR lists that were found valid before; a cluster has few distinct ones."""


def _decode_state_json(path: str, data: bytes) -> PartitionStateZnode:
    fields = JsonFields.parse(path, data)
    recovery = 0
    if "leader_recovery_state" in fields:
        recovery = fields.integer("leader_recovery_state", 0, 1)
    in_sync_replicas = fields.broker_ids("isr")
    if len(_VALID_ISR) >= _VALID_ISR_SIZE:
        _VALID_ISR.clear()
    _VALID_ISR[in_sync_replicas] = in_sync_replicas
    return PartitionStateZnode(
        leader=fields.integer("leader", minimum=-1),
        leader_epoch=fields.integer("leader_epoch"),
        in_sync_replicas=in_sync_replicas,
        controller_epoch=fields.integer("controller_epoch"),
        leader_recovery_state=recovery,
    )


class DeleteTopicsZnode:
    """``/admin/delete_topics``: its children are the topics to delete."""

    PATH: Final = "/admin/delete_topics"


class DeleteTopicZnode:
    """``/admin/delete_topics/<topic>``, null data; written by admins, removed by the controller."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/admin/delete_topics/{topic}"
