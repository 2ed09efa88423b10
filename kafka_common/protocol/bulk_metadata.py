"""The response to Metadata, written straight to bytes for 100,000 partitions.

A client often asks for all partitions of a big cluster, and a message object for each costs ten
times what the bytes cost.  As in :mod:`.bulk`, the encoders are chosen once for a version, and
fields that the version lacks are left out.

Versions 0-12.  Source: Kafka ``MetadataResponse.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kafka_common.protocol.primitives import Pieces, pieces, uuid_bytes

METADATA_VERSIONS: Final = range(13)

IntTuple: TypeAlias = tuple[int, ...]

PartitionEncoder: TypeAlias = Callable[
    # error_code, partition, leader, leader_epoch, replicas, isr, offline
    [int, int, int, int, IntTuple, IntTuple, IntTuple],
    bytes,
]

_INT16: Final = Struct(">h").pack
_INT32: Final = Struct(">i").pack


class TopicHead(NamedTuple):
    """A topic of the response without its partitions; ``name`` may be None from version 12 on."""

    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    authorized_operations: int


def metadata_pieces(version: int) -> Pieces:
    """The functions that write lengths, strings and arrays in that version of the response."""
    assert version in METADATA_VERSIONS
    return pieces(is_flexible=version >= 9)


def metadata_partition_encoder(version: int) -> PartitionEncoder:
    """A function that encodes one partition of a response of that version."""
    wire = metadata_pieces(version)
    arrays, tags = wire.int32_array, wire.tags
    with_epoch, without_epoch = Struct(">hiii").pack, Struct(">hii").pack

    def encode(
        error_code: int,
        partition: int,
        leader: int,
        leader_epoch: int,
        replicas: IntTuple,
        isr: IntTuple,
        offline: IntTuple,
    ) -> bytes:
        return b"%b%b%b%b%b" % (
            with_epoch(error_code, partition, leader, leader_epoch),
            arrays[replicas],
            arrays[isr],
            arrays[offline],
            tags,
        )

    def encode_without_epoch(
        error_code: int,
        partition: int,
        leader: int,
        leader_epoch: int,  # noqa: ARG001 - unknown before version 7
        replicas: IntTuple,
        isr: IntTuple,
        offline: IntTuple,
    ) -> bytes:
        return b"%b%b%b%b" % (
            without_epoch(error_code, partition, leader),
            arrays[replicas],
            arrays[isr],
            arrays[offline] if version >= 5 else b"",
        )

    return encode if version >= 7 else encode_without_epoch


def metadata_topic(version: int, head: TopicHead, partitions: Sequence[bytes]) -> bytes:
    """One topic with its encoded partitions."""
    wire = metadata_pieces(version)
    assert head.name is not None or version >= 12
    return b"".join(
        (
            _INT16(head.error_code),
            wire.nullable_string(head.name),  # the same bytes as a string that cannot be null
            uuid_bytes(head.topic_id) if version >= 10 else b"",
            bytes([head.is_internal]) if version >= 1 else b"",
            wire.length(len(partitions)),
            *partitions,
            _INT32(head.authorized_operations) if version >= 8 else b"",
            wire.tags,
        )
    )


def metadata_body(
    version: int,
    *,
    brokers: Sequence[tuple[int, str, int, str | None]],
    cluster_id: str,
    controller_id: int,
    topics: Sequence[bytes],
    cluster_authorized_operations: int,
    throttle_ms: int = 0,
) -> tuple[bytes, ...]:
    """The body of the whole response; ``brokers``: (broker id, host, port, rack)."""
    wire = metadata_pieces(version)
    listed = [
        b"%b%b%b%b%b"
        % (
            _INT32(broker_id),
            wire.string(host),
            _INT32(port),
            wire.nullable_string(rack) if version >= 1 else b"",
            wire.tags,
        )
        for broker_id, host, port, rack in brokers
    ]
    return (
        _INT32(throttle_ms) if version >= 3 else b"",
        wire.length(len(listed)),
        *listed,
        wire.nullable_string(cluster_id) if version >= 2 else b"",
        _INT32(controller_id) if version >= 1 else b"",
        wire.length(len(topics)),
        *topics,
        _INT32(cluster_authorized_operations) if 8 <= version <= 10 else b"",
        wire.tags,
    )
