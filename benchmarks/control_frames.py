"""What a recording broker must know of LeaderAndIsr, UpdateMetadata and StopReplica.

Independent of the product's own codecs on purpose: what is measured must not grade itself.  Only
the versions that a controller at ``inter.broker.protocol.version`` 3.4 or newer sends are read
(7, 8 and 4).  Requests are walked, not decoded.

Source: Kafka 3.9 ``LeaderAndIsrRequest.json``, ``UpdateMetadataRequest.json``,
``StopReplicaRequest.json`` and the matching responses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6

API_NAMES: Final = {
    LEADER_AND_ISR: "LeaderAndIsr",
    STOP_REPLICA: "StopReplica",
    UPDATE_METADATA: "UpdateMetadata",
}
KNOWN_VERSIONS: Final = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}

_HEADER: Final = struct.Struct(">hhih")
_INT32: Final = struct.Struct(">i")
_PARTITION_OK: Final = struct.Struct(">ihB")


class UnexpectedRequestError(Exception):
    """The frame is not one of the three controller requests in the version that is understood."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a request, and the fields that all three requests begin with."""

    api_key: int
    api_version: int
    correlation_id: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    topics_offset: int
    """Where the topic array begins, after everything that is the broker's own."""


def read_header(frame: bytes | bytearray) -> Header:
    """Header of a frame (without its length); UnexpectedRequestError if it is something else."""
    api_key, api_version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
    if KNOWN_VERSIONS.get(api_key) != api_version:
        raise UnexpectedRequestError(f"api key {api_key} version {api_version}")
    offset = _skip_tags(frame, 10 + max(client_id_length, 0))
    controller_id = _INT32.unpack_from(frame, offset)[0]
    # One byte isKRaftController between the two.
    controller_epoch, broker_epoch = struct.unpack_from(">iq", frame, offset + 5)
    topics_offset = offset + 17 + (1 if api_key == LEADER_AND_ISR else 0)  # its int8 Type
    return Header(
        api_key,
        api_version,
        correlation_id,
        controller_id,
        controller_epoch,
        broker_epoch,
        topics_offset,
    )


def partition_count(frame: bytes | bytearray, header: Header) -> int:
    """How many partitions the request carries."""
    return sum(len(partitions) for _, partitions in _topics(frame, header))


def answer_body(frame: bytes | bytearray, header: Header) -> bytes:
    """The response of a broker that accepts everything: no error, named for each partition."""
    if header.api_key == UPDATE_METADATA:
        return b"\x00\x00\x00"
    topics = list(_topics(frame, header))
    if header.api_key == LEADER_AND_ISR:
        parts = [b"\x00\x00", _uvarint_bytes(len(topics) + 1)]
        for topic_id, partitions in topics:
            parts += (topic_id, _uvarint_bytes(len(partitions) + 1))
            parts += [_PARTITION_OK.pack(partition, 0, 0) for partition in partitions]
            parts.append(b"\x00")
        return b"".join([*parts, b"\x00"])
    entries = [
        _uvarint_bytes(len(name) + 1) + name + _PARTITION_OK.pack(partition, 0, 0)
        for name, partitions in topics
        for partition in partitions
    ]
    return b"".join([b"\x00\x00", _uvarint_bytes(len(entries) + 1), *entries, b"\x00"])


def answer_frame(correlation_id: int, body: bytes) -> bytes:
    """Length, response header version 1 and body."""
    return struct.pack(">iiB", len(body) + 5, correlation_id, 0) + body


def _topics(frame: bytes | bytearray, header: Header) -> Iterator[tuple[bytes, list[int]]]:
    """(topic id, or name for StopReplica; partitions) of each topic."""
    skip_partition = {
        LEADER_AND_ISR: _skip_leader_and_isr_partition,
        UPDATE_METADATA: _skip_update_metadata_partition,
        STOP_REPLICA: _skip_stop_replica_partition,
    }[header.api_key]
    topics, offset = _uvarint(frame, header.topics_offset)
    for _ in range(topics - 1):
        name_length, offset = _uvarint(frame, offset)
        key = bytes(frame[offset : offset + name_length - 1])
        offset += name_length - 1
        if header.api_key != STOP_REPLICA:
            key = bytes(frame[offset : offset + 16])
            offset += 16
        count, offset = _uvarint(frame, offset)
        partitions = []
        for _ in range(count - 1):
            partitions.append(_INT32.unpack_from(frame, offset)[0])
            offset = skip_partition(frame, offset)
        offset = _skip_tags(frame, offset)
        yield key, partitions


def _skip_leader_and_isr_partition(frame: bytes | bytearray, offset: int) -> int:
    offset = _skip_int32s(frame, offset + 16)  # index, controller epoch, leader, leader epoch; ISR
    offset = _skip_int32s(frame, offset + 4)  # partition epoch; replicas
    offset = _skip_int32s(frame, offset)  # adding
    offset = _skip_int32s(frame, offset)  # removing
    return _skip_tags(frame, offset + 2)  # is new, leader recovery state


def _skip_update_metadata_partition(frame: bytes | bytearray, offset: int) -> int:
    offset = _skip_int32s(frame, offset + 16)  # index, controller epoch, leader, leader epoch; ISR
    offset = _skip_int32s(frame, offset + 4)  # zkVersion; replicas
    return _skip_tags(frame, _skip_int32s(frame, offset))  # offline replicas


def _skip_stop_replica_partition(frame: bytes | bytearray, offset: int) -> int:
    return _skip_tags(frame, offset + 9)  # index, leader epoch, delete


def _skip_int32s(frame: bytes | bytearray, offset: int) -> int:
    """The end of a compact array of int32; a null one is as long as an empty one."""
    count = frame[offset]
    if count >= 128:
        count, offset = _uvarint(frame, offset)
        return offset + 4 * (count - 1)
    return offset + 1 + 4 * (count - 1 if count else 0)


def _skip_tags(frame: bytes | bytearray, offset: int) -> int:
    count, offset = _uvarint(frame, offset)
    for _ in range(count):
        _, offset = _uvarint(frame, offset)
        size, offset = _uvarint(frame, offset)
        offset += size
    return offset


def _uvarint(frame: bytes | bytearray, offset: int) -> tuple[int, int]:
    byte = frame[offset]
    if byte < 128:
        return byte, offset + 1
    value, shift = byte & 0x7F, 7
    while True:
        offset += 1
        byte = frame[offset]
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, offset + 1
        shift += 7


def _uvarint_bytes(value: int) -> bytes:
    parts = bytearray()
    while value >= 128:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
