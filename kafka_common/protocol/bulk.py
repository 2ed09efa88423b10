"""The three requests of the controller, written straight to bytes for 100,000 partitions.

A message library builds an object per partition; that costs 20 times what the bytes cost.  Here a
partition becomes one ``bytes`` (*entry*) that is shared by every broker it is sent to, entries of a
topic are joined, and a *body* is a tuple of chunks to be written one after the other behind the
request header.

In both LeaderAndIsr and UpdateMetadata an entry begins with the same fields, the *state*: leader,
epochs, ISR, replicas.  Where both requests have the same :class:`StateLayout`, the state is encoded
once for both.  The *end* of the entry, which differs, is appended to it.

Versions: LeaderAndIsr 0-7, UpdateMetadata 0-8, StopReplica 0-4.  Fields that a version lacks are
left out, as Kafka's ``ignorable`` fields are.  Source: Kafka ``LeaderAndIsrRequest.json``,
``UpdateMetadataRequest.json``, ``StopReplicaRequest.json``,
``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kafka_common.errors import UnsupportedVersion
from kafka_common.model import SECURITY_PROTOCOLS, Broker
from kafka_common.protocol.primitives import Pieces, pieces, uuid_bytes

LEADER_AND_ISR_VERSIONS: Final = range(8)
UPDATE_METADATA_VERSIONS: Final = range(9)
STOP_REPLICA_VERSIONS: Final = range(5)

SECURITY_PROTOCOL_IDS: Final = {name: number for number, name in enumerate(SECURITY_PROTOCOLS)}

IntTuple: TypeAlias = tuple[int, ...]

StateEncoder: TypeAlias = Callable[
    # topic, partition, controller_epoch, leader, leader_epoch, isr, zk_version, replicas
    [str, int, int, int, int, IntTuple, int, IntTuple],
    bytes,
]
TopicEntries: TypeAlias = tuple[str, UUID | None, Sequence[bytes]]

_INT32: Final = Struct(">i").pack
_INT64: Final = Struct(">q").pack


class _StatePackers(dict[tuple[int, int], Callable[..., bytes]]):
    """Functions that pack a state, by the byte sizes of its ISR and of its replicas."""

    def __missing__(self, sizes: tuple[int, int]) -> Callable[..., bytes]:
        isr_size, replicas_size = sizes
        packer = self[sizes] = Struct(f">4i{isr_size}si{replicas_size}s").pack
        return packer


_STATE_PACKERS: Final = _StatePackers()


class StateLayout(NamedTuple):
    """How a request version encodes the partition state that both requests carry."""

    is_flat: bool
    """Each entry begins with the name of its topic."""
    is_flexible: bool


def leader_and_isr_layout(version: int) -> StateLayout:
    """The layout of states in a LeaderAndIsr request of that version."""
    assert version in LEADER_AND_ISR_VERSIONS
    return StateLayout(is_flat=version < 2, is_flexible=version >= 4)


def update_metadata_layout(version: int) -> StateLayout:
    """The layout of states in an UpdateMetadata request of that version."""
    assert version in UPDATE_METADATA_VERSIONS
    return StateLayout(is_flat=version < 5, is_flexible=version >= 6)


def state_encoder(layout: StateLayout) -> StateEncoder:
    """A function that encodes a partition's state, the beginning of an entry of either request."""
    wire = pieces(is_flexible=layout.is_flexible)
    arrays, string = wire.int32_array, wire.string
    packers = _STATE_PACKERS

    def encode(
        topic: str,  # noqa: ARG001 - older versions repeat it in every entry
        partition: int,
        controller_epoch: int,
        leader: int,
        leader_epoch: int,
        isr: IntTuple,
        zk_version: int,
        replicas: IntTuple,
    ) -> bytes:
        isr_bytes, replica_bytes = arrays[isr], arrays[replicas]
        return packers[len(isr_bytes), len(replica_bytes)](
            partition,
            controller_epoch,
            leader,
            leader_epoch,
            isr_bytes,
            zk_version,
            replica_bytes,
        )

    def encode_with_topic(
        topic: str,
        partition: int,
        controller_epoch: int,
        leader: int,
        leader_epoch: int,
        isr: IntTuple,
        zk_version: int,
        replicas: IntTuple,
    ) -> bytes:
        return string(topic) + encode(
            topic, partition, controller_epoch, leader, leader_epoch, isr, zk_version, replicas
        )

    return encode_with_topic if layout.is_flat else encode


@lru_cache(maxsize=4096)
def leader_and_isr_end(
    version: int, adding: IntTuple, removing: IntTuple, is_new: bool, recovery_state: int
) -> bytes:
    """The fields that follow the state in an entry of a LeaderAndIsr request."""
    wire = pieces(is_flexible=version >= 4)
    reassignment = wire.int32_array[adding] + wire.int32_array[removing] if version >= 3 else b""
    new = bytes([is_new]) if version >= 1 else b""
    recovery = bytes([recovery_state]) if version >= 6 else b""
    return reassignment + new + recovery + wire.tags


@lru_cache(maxsize=4096)
def update_metadata_end(version: int, offline_replicas: IntTuple) -> bytes:
    """The fields that follow the state in an entry of an UpdateMetadata request."""
    wire = pieces(is_flexible=version >= 6)
    return (wire.int32_array[offline_replicas] if version >= 4 else b"") + wire.tags


def leader_and_isr_body(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: Sequence[TopicEntries],
    live_leaders: Sequence[tuple[int, str, int]],
    request_type: int = 0,
) -> tuple[bytes, ...]:
    """The body of a LeaderAndIsr request.

    ``topics``: (topic, topic id, entries).  ``live_leaders``: (broker id, host, port).
    """
    assert version in LEADER_AND_ISR_VERSIONS
    wire = pieces(is_flexible=version >= 4)
    head = _head(version, 7, 2, controller_id, controller_epoch, broker_epoch)
    if version >= 5:
        head += bytes([request_type])
    grouped = _topics(wire, topics, is_flat=version < 2, has_topic_ids=version >= 5)
    leaders = [
        _INT32(broker_id) + wire.string(host) + _INT32(port) + wire.tags
        for broker_id, host, port in live_leaders
    ]
    return (head, *grouped, wire.length(len(leaders)), *leaders, wire.tags)


def _head(
    version: int,
    kraft_since: int,
    broker_epoch_since: int,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
) -> bytes:
    kraft = b"\x00" if version >= kraft_since else b""
    epoch = _INT64(broker_epoch) if version >= broker_epoch_since else b""
    return _INT32(controller_id) + kraft + _INT32(controller_epoch) + epoch


def _topics(
    wire: Pieces, topics: Sequence[TopicEntries], *, is_flat: bool, has_topic_ids: bool
) -> list[bytes]:
    if is_flat:  # each entry begins with its topic
        count = sum(len(entries) for _, _, entries in topics)
        return [wire.length(count), *(b"".join(entries) for _, _, entries in topics)]
    chunks = [wire.length(len(topics))]
    for topic, topic_id, entries in topics:
        id_bytes = uuid_bytes(topic_id) if has_topic_ids else b""
        chunks.append(wire.string(topic) + id_bytes + wire.length(len(entries)))
        chunks.append(b"".join(entries))
        chunks.append(wire.tags)
    return chunks


def update_metadata_topics(version: int, topics: Sequence[TopicEntries]) -> tuple[bytes, ...]:
    """All partitions of an UpdateMetadata request, encoded once for all brokers."""
    assert version in UPDATE_METADATA_VERSIONS
    wire = pieces(is_flexible=version >= 6)
    return tuple(_topics(wire, topics, is_flat=version < 5, has_topic_ids=version >= 7))


def update_metadata_live_brokers(version: int, brokers: Sequence[Broker]) -> bytes:
    """All live brokers of an UpdateMetadata request, encoded once for all brokers.

    Version 0 carries one endpoint, that of the listener named PLAINTEXT.  Raises UnsupportedVersion
    if a broker has no such listener.
    """
    assert version in UPDATE_METADATA_VERSIONS
    wire = pieces(is_flexible=version >= 6)
    encoded = [wire.length(len(brokers))]
    for broker in brokers:
        encoded.append(_INT32(broker.broker_id))
        encoded.append(_plaintext_endpoint(broker) if version == 0 else b"")
        encoded.append(_endpoints(version, wire, broker) if version >= 1 else b"")
        encoded.append(wire.nullable_string(broker.rack) if version >= 2 else b"")
        encoded.append(wire.tags)
    return b"".join(encoded)


def _plaintext_endpoint(broker: Broker) -> bytes:
    endpoint = broker.endpoint("PLAINTEXT")
    if endpoint is None:
        raise UnsupportedVersion(
            f"UpdateMetadata version 0 needs a PLAINTEXT listener of broker {broker.broker_id}"
        )
    return pieces(is_flexible=False).string(endpoint.host) + _INT32(endpoint.port)


def _endpoints(version: int, wire: Pieces, broker: Broker) -> bytes:
    encoded = [wire.length(len(broker.endpoints))]
    for endpoint in broker.endpoints:
        encoded.append(_INT32(endpoint.port) + wire.string(endpoint.host))
        encoded.append(wire.string(endpoint.listener_name) if version >= 3 else b"")
        encoded.append(SECURITY_PROTOCOL_IDS[endpoint.security_protocol].to_bytes(2, "big"))
        encoded.append(wire.tags)
    return b"".join(encoded)


def update_metadata_body(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: tuple[bytes, ...],
    live_brokers: bytes,
) -> tuple[bytes, ...]:
    """The body of an UpdateMetadata request: the broker's own head, then the shared bytes.

    The tagged field ``Type`` of version 8 is not written, because its value is the default, 0.
    """
    assert version in UPDATE_METADATA_VERSIONS
    head = _head(version, 8, 5, controller_id, controller_epoch, broker_epoch)
    return (head, *topics, live_brokers, pieces(is_flexible=version >= 6).tags)


def stop_replica_body(
    version: int,
    *,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    topics: Sequence[tuple[str, Sequence[tuple[int, int, bool]]]],
    delete_partitions: bool = False,
) -> tuple[bytes, ...]:
    """The body of a StopReplica request.

    ``topics``: (topic, [(partition, leader_epoch, is_deleted)]).

    Before version 3 a request deletes all of its partitions or none.  ``delete_partitions`` decides
    that, and ``is_deleted`` is ignored.
    """
    assert version in STOP_REPLICA_VERSIONS
    wire = pieces(is_flexible=version >= 2)
    head = _head(version, 4, 1, controller_id, controller_epoch, broker_epoch)
    if version <= 2:
        head += bytes([delete_partitions])
    if version == 0:
        flat = [
            wire.string(topic) + _INT32(partition)
            for topic, partitions in topics
            for partition, _, _ in partitions
        ]
        return (head, wire.length(len(flat)), *flat)
    encode = _stop_replica_states if version >= 3 else _stop_replica_indexes
    grouped = [wire.string(topic) + encode(wire, states) + wire.tags for topic, states in topics]
    return (head, wire.length(len(grouped)), *grouped, wire.tags)


def _stop_replica_indexes(wire: Pieces, states: Sequence[tuple[int, int, bool]]) -> bytes:
    indexes = [partition for partition, _, _ in states]
    return wire.length(len(indexes)) + Struct(f">{len(indexes)}i").pack(*indexes)


def _stop_replica_states(wire: Pieces, states: Sequence[tuple[int, int, bool]]) -> bytes:
    pack = Struct(">ii?").pack
    tags = wire.tags
    return wire.length(len(states)) + b"".join([pack(*state) + tags for state in states])
