"""Reads Produce requests and writes responses; the records are not copied.

A message library makes a dozen objects for each batch and copies its records, which are nearly all
of the request.  A broker would pay that for every batch that it appends.

Source: Kafka ``ProduceRequest.json``, ``ProduceResponse.json`` (versions 0 to 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.primitives import NO_TAGS, Pieces, pieces, unsigned_varint
from kafka_common.protocol.record_batch import MemoryRecords
from kafka_common.protocol.wire_reader import WireReader

FIRST_FLEXIBLE: Final = 9
LAST_VERSION: Final = 11
_TRANSACTIONAL_ID_SINCE: Final = 3
_LOG_APPEND_TIME_SINCE: Final = 2
_LOG_START_SINCE: Final = 5
_RECORD_ERRORS_SINCE: Final = 8
_CURRENT_LEADER_SINCE: Final = 10

_INT32: Final = Struct(">i")
_ACKS: Final = Struct(">hi")
_PARTITION: Final = Struct(">ihq")
_INT64: Final = Struct(">q")
_LEADER: Final = Struct(">ii")


class PartitionProduceData(NamedTuple):
    """The records to append to one partition."""

    partition: int
    records: MemoryRecords
    """A view of the request's bytes, not a copy; empty if the request has null."""


class ProduceRequest(NamedTuple):
    """A Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[tuple[str, Sequence[PartitionProduceData]]]


class PartitionProduceResponse(NamedTuple):
    """One partition of a Produce response."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[tuple[int, str]] = ()
    message: str | None = None
    current_leader: tuple[int, int] | None = None
    """(leader, leader epoch) if the request went to the wrong broker; otherwise None."""


class NodeEndpoint(NamedTuple):
    """Host and port of a leader in a response."""

    node_id: int
    host: str
    port: int
    rack: str | None


class TooManyPartitions(Exception):
    """The request has more topics and partitions than the ``at_once`` of the reader."""


def read_produce_request(
    version: int, data: bytes, offset: int, at_once: int | None = None
) -> ProduceRequest:
    """The request that starts at ``offset``; InvalidFrame if it is malformed.

    Raises TooManyPartitions for more than ``at_once`` topics and partitions; None: no limit.
    """
    try:
        return _Reader(version, memoryview(data), offset, at_once).read()
    except (IndexError, struct_error, UnicodeDecodeError):
        raise InvalidFrame("a Produce request is cut short or garbled") from None


class _Reader(WireReader[memoryview]):
    def __init__(self, version: int, data: memoryview, position: int, at_once: int | None) -> None:
        super().__init__(data, position, is_flexible=version >= FIRST_FLEXIBLE)
        self._at_once = at_once
        self._has_transactional_id = version >= _TRANSACTIONAL_ID_SINCE

    def read(self) -> ProduceRequest:
        transactional_id = self._nullable_text() if self._has_transactional_id else None
        acks, timeout_ms = _ACKS.unpack_from(self._data, self._at)
        self._at += _ACKS.size
        topics = [self._topic() for _ in range(self._checked_count())]
        self._skip_tags()
        return ProduceRequest(transactional_id, acks, timeout_ms, topics)

    def _topic(self) -> tuple[str, list[PartitionProduceData]]:
        name = self._nullable_text()
        if name is None:
            raise InvalidFrame("a Produce request names a topic null")
        partitions = [self._partition() for _ in range(self._checked_count())]
        self._skip_tags()
        return name, partitions

    def _checked_count(self) -> int:
        count = self._count()
        if self._at_once is not None:
            self._at_once -= count
            if self._at_once < 0:
                raise TooManyPartitions
        return count

    def _partition(self) -> PartitionProduceData:
        partition = self._int32()
        records = self._bytes(max(self._count(), 0))
        self._skip_tags()
        return PartitionProduceData(partition, MemoryRecords(records))


def produce_response(
    version: int,
    topics: Sequence[tuple[str, Sequence[PartitionProduceResponse]]],
    endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> bytes:
    """The body of a Produce response."""
    with_pieces = pieces(is_flexible=version >= FIRST_FLEXIBLE)
    out = [with_pieces.length(len(topics))]
    for name, partitions in topics:
        out += [with_pieces.string(name), with_pieces.length(len(partitions))]
        out += [_partition(version, with_pieces, partition) for partition in partitions]
        out.append(with_pieces.tags)
    if version >= 1:
        out.append(_INT32.pack(throttle_ms))
    if version >= _CURRENT_LEADER_SINCE and endpoints:
        out.append(tagged(0, encoded_endpoints(endpoints)))
    else:
        out.append(with_pieces.tags)
    return b"".join(out)


def _partition(version: int, with_pieces: Pieces, response: PartitionProduceResponse) -> bytes:
    out = _PARTITION.pack(response.partition, response.error_code, response.base_offset)
    if version >= _LOG_APPEND_TIME_SINCE:
        out += _INT64.pack(response.log_append_time_ms)
    if version >= _LOG_START_SINCE:
        out += _INT64.pack(response.log_start_offset)
    if version >= _RECORD_ERRORS_SINCE:
        out += with_pieces.length(len(response.record_errors))
        for index, message in response.record_errors:
            out += _INT32.pack(index) + with_pieces.nullable_string(message) + with_pieces.tags
        out += with_pieces.nullable_string(response.message)
    if version >= _CURRENT_LEADER_SINCE and response.current_leader is not None:
        return out + tagged(0, _LEADER.pack(*response.current_leader) + NO_TAGS)
    return out + with_pieces.tags


def tagged(tag: int, value: bytes) -> bytes:
    """A tagged-field section that holds one field."""
    return b"\x01" + unsigned_varint(tag) + unsigned_varint(len(value)) + value


def encoded_endpoints(endpoints: Iterable[NodeEndpoint]) -> bytes:
    """The compact array ``NodeEndpoints`` of Produce (from version 10) and Fetch (from 16)."""
    with_pieces = pieces(is_flexible=True)
    encoded = [
        _INT32.pack(node.node_id)
        + with_pieces.string(node.host)
        + _INT32.pack(node.port)
        + with_pieces.nullable_string(node.rack)
        + NO_TAGS
        for node in endpoints
    ]
    return with_pieces.length(len(encoded)) + b"".join(encoded)
