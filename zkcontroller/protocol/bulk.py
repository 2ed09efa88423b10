"""The three requests of the controller, written straight to bytes for 100,000 partitions.

A message library builds an object per partition; that costs 20 times what the bytes cost.  Here a
partition becomes one ``bytes`` (*entry*) that is shared by every broker it is sent to, entries of a
topic are joined, and a *body* is a tuple of chunks to be written one after the other behind the
request header.  ``leader_and_isr_encoder`` and ``update_metadata_encoder`` choose everything that
depends on the version once and return a function for the loop.

Versions: LeaderAndIsr 0-7, UpdateMetadata 0-8, StopReplica 0-4.  What a version does not know is
left out, as Kafka's ``ignorable`` fields are.  Source: Kafka ``LeaderAndIsrRequest.json``,
``UpdateMetadataRequest.json``, ``StopReplicaRequest.json``,
``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

from zkcontroller.errors import UnsupportedVersion
from zkcontroller.model import Broker, LeaderAndIsr
from zkcontroller.protocol.primitives import Pieces, pieces, uuid_bytes

LEADER_AND_ISR_VERSIONS: Final = range(8)
UPDATE_METADATA_VERSIONS: Final = range(9)
STOP_REPLICA_VERSIONS: Final = range(5)

SECURITY_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

IntTuple: TypeAlias = tuple[int, ...]

LeaderAndIsrEncoder: TypeAlias = Callable[
    # topic, partition, controller_epoch, leader, leader_epoch, isr, zk_version,
    [str, int, int, int, int, IntTuple, int, IntTuple, IntTuple, IntTuple, bool, int],
    # replicas, adding_replicas, removing_replicas, is_new, leader_recovery_state
    bytes,
]
UpdateMetadataEncoder: TypeAlias = Callable[
    # topic, partition, controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline
    [str, int, int, int, int, IntTuple, int, IntTuple, IntTuple],
    bytes,
]
TopicEntries: TypeAlias = tuple[str, UUID | None, Sequence[bytes]]

_INT32: Final = Struct(">i").pack
_INT64: Final = Struct(">q").pack
_FOUR_INT32: Final = Struct(">iiii").pack


def leader_and_isr_encoder(version: int) -> LeaderAndIsrEncoder:
    """A function that encodes one partition of a LeaderAndIsr request of that version."""
    assert version in LEADER_AND_ISR_VERSIONS
    wire = pieces(is_flexible=version >= 4)
    arrays, string = wire.int32_array, wire.string
    four, one = _FOUR_INT32, _INT32
    # Everything behind the arrays, by is_new and by leader_recovery_state.
    ends = [
        [_leader_and_isr_end(version, wire, is_new, state) for state in (0, 1)]
        for is_new in (False, True)
    ]

    def encode(
        topic: str,  # noqa: ARG001 - older versions repeat it in every entry
        partition: int,
        controller_epoch: int,
        leader: int,
        leader_epoch: int,
        isr: IntTuple,
        zk_version: int,
        replicas: IntTuple,
        adding: IntTuple,
        removing: IntTuple,
        is_new: bool,
        recovery_state: int,
    ) -> bytes:
        return b"%b%b%b%b%b%b%b" % (
            four(partition, controller_epoch, leader, leader_epoch),
            arrays[isr],
            one(zk_version),
            arrays[replicas],
            arrays[adding],
            arrays[removing],
            ends[is_new][recovery_state],
        )

    def encode_without_reassignment(
        topic: str,
        partition: int,
        controller_epoch: int,
        leader: int,
        leader_epoch: int,
        isr: IntTuple,
        zk_version: int,
        replicas: IntTuple,
        adding: IntTuple,  # noqa: ARG001 - unknown before version 3
        removing: IntTuple,  # noqa: ARG001 - unknown before version 3
        is_new: bool,
        recovery_state: int,
    ) -> bytes:
        return b"%b%b%b%b%b%b" % (
            string(topic) if version < 2 else b"",
            four(partition, controller_epoch, leader, leader_epoch),
            arrays[isr],
            one(zk_version),
            arrays[replicas],
            ends[is_new][recovery_state],
        )

    return encode if version >= 3 else encode_without_reassignment


def _leader_and_isr_end(version: int, wire: Pieces, is_new: bool, recovery_state: int) -> bytes:
    new = bytes([is_new]) if version >= 1 else b""
    recovery = bytes([recovery_state]) if version >= 6 else b""
    return new + recovery + wire.tags


def leader_and_isr_entry(
    version: int,
    topic: str,
    partition: int,
    state: LeaderAndIsr,
    replicas: IntTuple,
    adding_replicas: IntTuple,
    removing_replicas: IntTuple,
    is_new: bool,
) -> bytes:
    """One partition of a LeaderAndIsr request; loops use :func:`leader_and_isr_encoder`."""
    return leader_and_isr_encoder(version)(
        topic,
        partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.in_sync_replicas,
        state.zk_version,
        replicas,
        adding_replicas,
        removing_replicas,
        is_new,
        state.leader_recovery_state,
    )


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
    """A LeaderAndIsr request from (topic, topic id, entries) and (broker id, host, port)."""
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
    if is_flat:  # the entries name their topics themselves
        count = sum(len(entries) for _, _, entries in topics)
        return [wire.length(count), *(b"".join(entries) for _, _, entries in topics)]
    chunks = [wire.length(len(topics))]
    for topic, topic_id, entries in topics:
        id_bytes = uuid_bytes(topic_id) if has_topic_ids else b""
        chunks.append(wire.string(topic) + id_bytes + wire.length(len(entries)))
        chunks.append(b"".join(entries))
        chunks.append(wire.tags)
    return chunks


def update_metadata_encoder(version: int) -> UpdateMetadataEncoder:
    """A function that encodes one partition of an UpdateMetadata request of that version."""
    assert version in UPDATE_METADATA_VERSIONS
    wire = pieces(is_flexible=version >= 6)
    arrays, string, tags = wire.int32_array, wire.string, wire.tags
    four, one = _FOUR_INT32, _INT32

    def encode(
        topic: str,  # noqa: ARG001 - older versions repeat it in every entry
        partition: int,
        controller_epoch: int,
        leader: int,
        leader_epoch: int,
        isr: IntTuple,
        zk_version: int,
        replicas: IntTuple,
        offline: IntTuple,
    ) -> bytes:
        return b"%b%b%b%b%b%b" % (
            four(partition, controller_epoch, leader, leader_epoch),
            arrays[isr],
            one(zk_version),
            arrays[replicas],
            arrays[offline],
            tags,
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
        offline: IntTuple,
    ) -> bytes:
        return b"%b%b%b%b%b%b" % (
            string(topic),
            four(partition, controller_epoch, leader, leader_epoch),
            arrays[isr],
            one(zk_version),
            arrays[replicas],
            arrays[offline] if version >= 4 else b"",
        )

    return encode if version >= 5 else encode_with_topic


def update_metadata_entry(
    version: int,
    topic: str,
    partition: int,
    state: LeaderAndIsr,
    replicas: IntTuple,
    offline_replicas: IntTuple,
) -> bytes:
    """One partition of an UpdateMetadata request; loops use :func:`update_metadata_encoder`."""
    return update_metadata_encoder(version)(
        topic,
        partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.in_sync_replicas,
        state.zk_version,
        replicas,
        offline_replicas,
    )


def update_metadata_topics(version: int, topics: Sequence[TopicEntries]) -> tuple[bytes, ...]:
    """All partitions of an UpdateMetadata request, to be shared by every broker it goes to."""
    assert version in UPDATE_METADATA_VERSIONS
    wire = pieces(is_flexible=version >= 6)
    return tuple(_topics(wire, topics, is_flat=version < 5, has_topic_ids=version >= 7))


def update_metadata_live_brokers(version: int, brokers: Sequence[Broker]) -> bytes:
    """All live brokers of an UpdateMetadata request, to be shared by every broker it goes to.

    Version 0 knows one endpoint, the listener called PLAINTEXT; UnsupportedVersion if a broker has
    none.
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
    """An UpdateMetadata request to one broker around the parts that all brokers share.

    Field ``Type`` of version 8 is a tagged field and not written: its value here is the default, 0.
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
    """A StopReplica request from (topic, [(partition, leader_epoch, is_deleted)]).

    Before version 3 a request deletes all of its partitions or none: ``delete_partitions`` says
    which, the flags per partition are not looked at.
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
