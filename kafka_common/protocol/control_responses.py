"""Reads brokers' responses to the controller's three requests, without an object per partition.

A LeaderAndIsr response has one error code per partition: 100,000 after a failover, and nearly all
of them are 0.  Only codes that are not 0 become values, unless the caller needs all.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.wire_guard import (
    check_string_size,
    read_unsigned_varint,
    skip_tagged_fields,
)

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_PARTITION: Final = Struct(">ih").unpack_from
"""partition_index, error_code."""

TopicName: TypeAlias = str | UUID
"""A topic id in LeaderAndIsr responses from version 5 on, a topic name in all other responses."""


class PartitionError(NamedTuple):
    """The error code of one partition in a response; 0 if the broker did what was requested."""

    topic: TopicName
    partition: int
    error_code: int


class ControlResponse(NamedTuple):
    """A broker's response: the error code of the request and those of its partitions.

    Partitions whose error code is 0 are left out, unless it was read with ``names_all``.
    """

    error_code: int
    partition_errors: tuple[PartitionError, ...]


def read_leader_and_isr_response(
    version: int, data: bytes, offset: int = 0, *, names_all: bool = False
) -> ControlResponse:
    """Reads a LeaderAndIsr response of version 0 to 7; InvalidFrame if it is malformed."""
    read_errors = _by_topic_id if version >= 5 else _flat
    return _read(data, offset, read_errors, is_flexible=version >= 4, names_all=names_all)


def read_stop_replica_response(
    version: int, data: bytes, offset: int = 0, *, names_all: bool = False
) -> ControlResponse:
    """Reads a StopReplica response of version 0 to 4; InvalidFrame if it is malformed."""
    return _read(data, offset, _flat, is_flexible=version >= 2, names_all=names_all)


def read_update_metadata_response(version: int, data: bytes, offset: int = 0) -> ControlResponse:
    """Reads an UpdateMetadata response of version 0 to 8; InvalidFrame if it is malformed."""
    return _read(data, offset, _nothing, is_flexible=version >= 6)


class _Errors(list[PartitionError]):
    """The partition errors of a response; with ``names_all`` also those whose code is 0."""

    def __init__(self, *, names_all: bool) -> None:
        super().__init__()
        self.names_all = names_all


def _read(
    data: bytes,
    offset: int,
    read_errors: Callable[[bytes, int, bool, _Errors], int],
    *,
    is_flexible: bool,
    names_all: bool = False,
) -> ControlResponse:
    errors = _Errors(names_all=names_all)
    try:
        error_code: int = _INT16(data, offset)[0]
        position = read_errors(data, offset + 2, is_flexible, errors)
        if is_flexible:
            skip_tagged_fields(data, position)
    except (struct_error, IndexError, UnicodeDecodeError):
        raise InvalidFrame("a broker's answer is cut short or garbled") from None
    return ControlResponse(error_code, tuple(errors))


def _nothing(_data: bytes, position: int, _is_flexible: bool, _errors: _Errors) -> int:
    return position


def _flat(data: bytes, position: int, is_flexible: bool, errors: _Errors) -> int:
    count, position = _count(data, position, is_flexible)
    for _ in range(count):
        size, position = _string_size(data, position, is_flexible)
        name, position = data[position : position + size], position + size
        partition, error_code = _PARTITION(data, position)
        if error_code != 0 or errors.names_all:
            errors.append(PartitionError(name.decode(), partition, error_code))
        position = _end(data, position + 6, is_flexible)
    return position


def _by_topic_id(data: bytes, position: int, is_flexible: bool, errors: _Errors) -> int:
    topics, position = _count(data, position, is_flexible)
    for _ in range(topics):
        topic_id, position = data[position : position + 16], position + 16
        partitions, position = _count(data, position, is_flexible)
        if not errors.names_all and _has_no_error(data, position, partitions):
            partitions, position = 0, position + 7 * partitions
        for _ in range(partitions):
            partition, error_code = _PARTITION(data, position)
            if error_code != 0 or errors.names_all:
                errors.append(PartitionError(UUID(bytes=topic_id), partition, error_code))
            position = _end(data, position + 6, is_flexible)
        position = _end(data, position, is_flexible)
    return position


def _has_no_error(data: bytes, position: int, partitions: int) -> bool:
    """Whether these partitions all have error code 0 and no tagged fields: seven bytes each.

    Slices instead of a loop, because a response of one broker may have 30,000 partitions.
    """
    end = position + 7 * partitions
    if end > len(data):
        return False
    # If each seventh byte is an empty tag section, every partition has exactly seven bytes.
    return not (
        any(data[position + 6 : end : 7])
        or any(data[position + 4 : end : 7])
        or any(data[position + 5 : end : 7])
    )


def _end(data: bytes, position: int, is_flexible: bool) -> int:
    """The position behind the tagged fields that end a structure."""
    if not is_flexible:
        return position
    return position + 1 if data[position] == 0 else skip_tagged_fields(data, position)


def _count(data: bytes, position: int, is_flexible: bool) -> tuple[int, int]:
    # No array here may be null.  A count that is too large makes the loops end with IndexError.
    if is_flexible:
        count, position = read_unsigned_varint(data, position)
        count -= 1
    else:
        count, position = _INT32(data, position)[0], position + 4
    if count < 0:
        raise InvalidFrame(f"an array of {count} items")
    return count, position


def _string_size(data: bytes, position: int, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        size, position = read_unsigned_varint(data, position)
        size -= 1
    else:
        size, position = _INT16(data, position)[0], position + 2
    if size < 0:
        raise InvalidFrame(f"a topic name of {size} bytes")
    check_string_size(size)
    return size, position
