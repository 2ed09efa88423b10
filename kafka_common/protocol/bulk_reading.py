"""The topics of an UpdateMetadata request, read without a message per partition.

A controller sends every broker all partitions at once.  Checking and reading 100,000 of them with a
message library takes a broker 0.3 s, and it can serve no client meanwhile.  This module needs a
quarter of that time.  It reads the topics only; the rest of the request is small and is read by
kio.

Few lists of brokers (ISR, replicas) are different.  Equal lists are read once and become the same
tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kafka_common.errors import InvalidFrame
from kafka_common.protocol import request_types
from kafka_common.protocol.messages import read_request
from kafka_common.protocol.wire_guard import (
    check_string_size,
    read_unsigned_varint,
    skip_tagged_fields,
)

P = TypeVar("P")
PartitionFields: TypeAlias = tuple[
    # controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline replicas
    int, int, int, tuple[int, ...], int, tuple[int, ...], tuple[int, ...],
]  # fmt: skip

_Tail: TypeAlias = tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]
"""isr, zk_version, replicas, offline replicas."""

UPDATE_METADATA: Final = 6
VERSIONS: Final = range(6, 9)
"""The flexible versions, sent from inter.broker.protocol.version 2.4 on; no others are read."""

_FOUR_INT32: Final = Struct(">iiii").unpack_from
_INT32: Final = Struct(">i").unpack_from
_NO_TOPICS: Final = b"\x01"


class Topic(NamedTuple, Generic[P]):
    """A topic of an UpdateMetadata request."""

    topic: str
    topic_id: UUID | None
    """None if the request's version has no topic ids, or the id is all zeros."""
    partitions: list[tuple[int, P]]


class UpdateMetadata(NamedTuple, Generic[P]):
    """An UpdateMetadata request: kio's message without its topics, and the topics."""

    head: request_types.UpdateMetadataRequest
    topics: list[Topic[P]]


def read_update_metadata(
    version: int, data: bytes, offset: int, make: Callable[[PartitionFields], P]
) -> UpdateMetadata[P]:
    """The request that starts at ``offset``; InvalidFrame if it is malformed.

    ``version`` must be in VERSIONS.  ``make`` turns a partition's fields into the caller's value.
    """
    assert version in VERSIONS
    # controller_id, is_kraft_controller from version 8 on, controller_epoch, broker_epoch.
    start = offset + (17 if version >= 8 else 16)
    try:
        topics, end = _read_topics(data, start, make, has_topic_ids=version >= 7)
    except (struct_error, IndexError, UnicodeDecodeError):
        raise InvalidFrame("an UpdateMetadata request is cut short or garbled") from None
    rest = data[offset:start] + _NO_TOPICS + data[end:]
    head: Any = read_request(UPDATE_METADATA, version, rest)
    return UpdateMetadata(head, topics)


def _read_topics(
    data: bytes, position: int, make: Callable[[PartitionFields], P], *, has_topic_ids: bool
) -> tuple[list[Topic[P]], int]:
    lists: dict[bytes, tuple[int, ...]] = {}
    tails: dict[bytes, _Tail] = {}
    tail_size = 0  # of the previous partition: the next one has mostly the same
    topics: list[Topic[P]] = []
    count, position = _length(data, position)
    for _ in range(count):
        size, position = _length(data, position)
        check_string_size(size)
        name = _slice(data, position, size).decode()
        position += size
        topic_id = None
        if has_topic_ids:
            identity = _slice(data, position, 16)
            topic_id = UUID(bytes=identity) if any(identity) else None
            position += 16
        partitions: list[tuple[int, P]] = []
        partition_count, position = _length(data, position)
        for _ in range(partition_count):
            index, controller_epoch, leader, leader_epoch = _FOUR_INT32(data, position)
            position += 16
            # Equal bytes have equal values and the same end: they need not be read again.
            tail = tails.get(data[position : position + tail_size])
            if tail is None:
                start = position
                tail, position = _read_tail(data, start, lists)
                tail_size = position - start
                tails[data[start:position]] = tail
            else:
                position += tail_size
            partitions.append((index, make((controller_epoch, leader, leader_epoch, *tail))))
        position = skip_tagged_fields(data, position)
        topics.append(Topic(name, topic_id, partitions))
    return topics, position


def _read_tail(
    data: bytes, position: int, lists: dict[bytes, tuple[int, ...]]
) -> tuple[_Tail, int]:
    """The fields after a partition's leader epoch, and the position after its tagged fields."""
    in_sync_replicas, position = _brokers(data, position, lists)
    (zk_version,) = _INT32(data, position)
    replicas, position = _brokers(data, position + 4, lists)
    offline, position = _brokers(data, position, lists)
    return (in_sync_replicas, zk_version, replicas, offline), skip_tagged_fields(data, position)


def _brokers(
    data: bytes, position: int, lists: dict[bytes, tuple[int, ...]]
) -> tuple[tuple[int, ...], int]:
    """Broker ids from a compact array of int32, and the position after it."""
    count, start = _length(data, position)
    array = _slice(data, start, 4 * count)
    brokers = lists.get(array)
    if brokers is None:
        lists[array] = brokers = Struct(f">{count}i").unpack(array)
    return brokers, start + len(array)


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Length of a compact array or string, and the position after it; null is refused."""
    length, position = read_unsigned_varint(data, position)
    if length == 0:
        raise InvalidFrame("null where UpdateMetadata allows none")
    return length - 1, position


def _slice(data: bytes, position: int, size: int) -> bytes:
    if size > len(data) - position:
        raise InvalidFrame(f"{size} bytes announced, {max(len(data) - position, 0)} left")
    return data[position : position + size]
