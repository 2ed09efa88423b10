"""The records of ``__consumer_offsets``: encoded and decoded byte for byte like Kafka's.

Every key and value begins with a version (int16).  The version of a key is also the type of the
record: 0 and 1 for an offset, 2 for a group.  Records of other types belong to newer coordinators
and are skipped.  A tombstone is a key without a value.

Every length is compared with the number of bytes left before it is used.

Source: Kafka ``OffsetCommitKey``, ``OffsetCommitValue``, ``GroupMetadataKey``,
``GroupMetadataValue`` (JSON schemas), ``GroupMetadataManager``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.inter_broker_versions import InterBrokerVersion
from kafka_common.protocol.primitives import fixed_string, nullable_fixed_string
from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt, RecordReader

NO_TIMESTAMP: Final = -1

LONGEST_STRING_BYTES: Final = 2**15 - 1
"""The longest string in a record: its length is an int16."""

OFFSET_KEY_VERSION: Final = 1
"""The version that is written; version 0 has the same fields and can be read."""
GROUP_KEY_VERSION: Final = 2

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_OFFSET: Final = Struct(">hq")
_OFFSET_AND_EPOCH: Final = Struct(">hqi")
_INT64: Final = Struct(">q")

_OFFSET_VALUE_3: Final = Struct(">hqih")

_FIRST_FLEXIBLE_VERSION: Final = 4
_LEAST_MEMBER_SIZE: Final = 8
"""Fewest bytes of a member: bounds the number of members by the bytes left."""


_USUAL_OFFSET_KEY: Final = b"\0\1"
_USUAL_OFFSET_VALUE: Final = b"\0\3"
"""The first two bytes (the version) of offset keys and values that Kafka 3.9 writes."""


class OffsetKey(NamedTuple):
    """The key of a committed offset: group and partition."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """The key of a group's record."""

    group_id: str


class UnknownKey(NamedTuple):
    """A key of an unknown type, which a newer coordinator wrote."""

    version: int


RecordKey: TypeAlias = OffsetKey | GroupKey | UnknownKey


class OffsetAndMetadata(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    leader_epoch: int
    """-1 (NO_EPOCH) if the client did not send it."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """When the offset expires, if the client sent a retention time (OffsetCommit 2 to 4)."""


class MemberRecord(NamedTuple):
    """A member in its group's record."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupRecord(NamedTuple):
    """The value of a group's record."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group entered its state; -1 (NO_TIMESTAMP) in records of old brokers."""
    members: tuple[MemberRecord, ...]


class SimpleRecord(NamedTuple):
    """A record to append; ``value`` is None for a tombstone."""

    key: bytes
    value: bytes | None


# ---------------------------------------------------------------------- writing


def offset_value_version(version: InterBrokerVersion, *, expires: bool) -> int:
    """The version in which to write an offset's value, by ``inter.broker.protocol.version``.

    ``expires``: the offset has an expiry time of its own, which only version 1 contains.
    """
    if expires or not version.is_at_least("2.1-IV0"):
        return 1
    return 3 if version.is_at_least("2.1-IV1") else 2


def group_value_version(version: InterBrokerVersion) -> int:
    """The version in which to write a group's value, by ``inter.broker.protocol.version``."""
    if not version.is_at_least("0.10.1-IV0"):
        return 0
    if not version.is_at_least("2.1-IV0"):
        return 1
    return 3 if version.is_at_least("2.3-IV0") else 2


def encode_offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    return b"".join(
        (
            _INT16.pack(OFFSET_KEY_VERSION),
            fixed_string(group_id),
            fixed_string(topic_partition.topic),
            _INT32.pack(topic_partition.partition),
        )
    )


def encode_group_key(group_id: str) -> bytes:
    return _INT16.pack(GROUP_KEY_VERSION) + fixed_string(group_id)


def encode_offset_value(committed: OffsetAndMetadata, version: int) -> bytes:
    """The value of an offset's record in version 0 to 3; as in Kafka, 4 is never written."""
    assert 0 <= version < _FIRST_FLEXIBLE_VERSION
    metadata = fixed_string(committed.metadata)
    committed_at = _INT64.pack(committed.commit_timestamp_ms)
    if version >= 3:
        head = _OFFSET_AND_EPOCH.pack(version, committed.offset, committed.leader_epoch)
        return head + metadata + committed_at
    head = _OFFSET.pack(version, committed.offset)
    if version != 1:
        return head + metadata + committed_at
    expires = committed.expire_timestamp_ms
    return (
        head + metadata + committed_at + _INT64.pack(NO_TIMESTAMP if expires is None else expires)
    )


def encode_group_value(group: GroupRecord, version: int) -> bytes:
    """The value of a group's record in version 0 to 3; as in Kafka, 4 is never written."""
    assert 0 <= version < _FIRST_FLEXIBLE_VERSION
    pieces = [
        _INT16.pack(version),
        fixed_string(group.protocol_type),
        _INT32.pack(group.generation_id),
        nullable_fixed_string(group.protocol_name),
        nullable_fixed_string(group.leader_id),
    ]
    if version >= 2:
        pieces.append(_INT64.pack(group.state_timestamp_ms))
    pieces.append(_INT32.pack(len(group.members)))
    for member in group.members:
        pieces.append(fixed_string(member.member_id))
        if version >= 3:
            pieces.append(nullable_fixed_string(member.group_instance_id))
        pieces += [fixed_string(member.client_id), fixed_string(member.client_host)]
        if version >= 1:
            pieces.append(_INT32.pack(member.rebalance_timeout_ms))
        pieces += [
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        ]
    return b"".join(pieces)


# ---------------------------------------------------------------------- reading


def decode_key(data: bytes) -> RecordKey:
    """The key of a record; GroupRecordCorrupt if it is malformed."""
    if data[:2] == _USUAL_OFFSET_KEY:
        # A fast path for the usual key: a load reads millions of offset records.
        size = int.from_bytes(data[2:4], "big")
        topic_at = size + 6
        end = topic_at + int.from_bytes(data[size + 4 : topic_at], "big")
        if size <= LONGEST_STRING_BYTES and len(data) == end + 4 and data.isascii():
            return OffsetKey(
                data[4 : size + 4].decode(),
                TopicPartition(data[topic_at:end].decode(), int.from_bytes(data[end:], "big")),
            )
    reader = RecordReader(data, "key")
    version = reader.int16()
    if version in (0, OFFSET_KEY_VERSION):
        group_id, topic = reader.string(), reader.string()
        return OffsetKey(group_id, TopicPartition(topic, reader.int32()))
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return UnknownKey(version)


def decode_offset_value(data: bytes) -> OffsetAndMetadata:
    """The committed offset; GroupRecordCorrupt if malformed or of an unknown version."""
    if data[:2] == _USUAL_OFFSET_VALUE and len(data) == _OFFSET_VALUE_3.size + _INT64.size:
        _, offset, leader_epoch, metadata_size = _OFFSET_VALUE_3.unpack_from(data)
        if metadata_size == 0:
            committed_at = _INT64.unpack_from(data, _OFFSET_VALUE_3.size)[0]
            return OffsetAndMetadata(offset, leader_epoch, "", committed_at)
    reader = RecordReader(data, "offset value")
    version = reader.int16()
    if not 0 <= version <= _FIRST_FLEXIBLE_VERSION:
        raise GroupRecordCorrupt(f"offset value of version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_EPOCH
    is_flexible = version == _FIRST_FLEXIBLE_VERSION
    metadata = reader.compact_string() if is_flexible else reader.string()
    committed_at = reader.int64()
    expires = reader.int64() if version == 1 else NO_TIMESTAMP
    if is_flexible:
        reader.skip_tagged_fields()
    return OffsetAndMetadata(
        offset, leader_epoch, metadata, committed_at, None if expires == NO_TIMESTAMP else expires
    )


def decode_group_value(data: bytes) -> GroupRecord:
    """The group; GroupRecordCorrupt if malformed or of an unknown version."""
    reader = RecordReader(data, "group value")
    version = reader.int16()
    if not 0 <= version <= _FIRST_FLEXIBLE_VERSION:
        raise GroupRecordCorrupt(f"group value of version {version}")
    if version == _FIRST_FLEXIBLE_VERSION:
        return _flexible_group(reader)
    protocol_type, generation_id = reader.string(), reader.int32()
    protocol_name, leader_id = reader.nullable_string(), reader.nullable_string()
    state_timestamp = reader.int64() if version >= 2 else NO_TIMESTAMP
    count = reader.bounded_count(reader.int32(), _LEAST_MEMBER_SIZE)
    members = tuple(_member(reader, version) for _ in range(count))
    return GroupRecord(
        protocol_type, generation_id, protocol_name, leader_id, state_timestamp, members
    )


def _member(reader: RecordReader, version: int) -> MemberRecord:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout = reader.int32() if version >= 1 else None
    session_timeout = reader.int32()
    return MemberRecord(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # Version 0 has only one timeout.
        session_timeout if rebalance_timeout is None else rebalance_timeout,
        session_timeout,
        reader.sized_bytes(),
        reader.sized_bytes(),
    )


def _flexible_group(reader: RecordReader) -> GroupRecord:
    protocol_type, generation_id = reader.compact_string(), reader.int32()
    protocol_name, leader_id = reader.nullable_compact_string(), reader.nullable_compact_string()
    state_timestamp = reader.int64()
    count = reader.bounded_count(reader.compact_count(), _LEAST_MEMBER_SIZE)
    members = tuple(_flexible_member(reader) for _ in range(count))
    reader.skip_tagged_fields()
    return GroupRecord(
        protocol_type, generation_id, protocol_name, leader_id, state_timestamp, members
    )


def _flexible_member(reader: RecordReader) -> MemberRecord:
    member = MemberRecord(
        reader.compact_string(),
        reader.nullable_compact_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.int32(),
        reader.int32(),
        reader.compact_bytes(),
        reader.compact_bytes(),
    )
    reader.skip_tagged_fields()
    return member
