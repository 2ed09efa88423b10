"""A client of one broker that sends a request and waits for its answer, and knows how long.

Each request is made before the clock starts, and the answer is read by kio after it has stopped, so
that what is measured is the broker.  Every API stands in a version without flexible fields.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from kio.schema.api_versions.v2.request import ApiVersionsRequest
from kio.schema.create_topics.v4 import request as creating
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest
from kio.schema.list_groups.v2.request import ListGroupsRequest
from kio.schema.list_offsets.v5 import request as finding
from kio.schema.metadata.v8.request import MetadataRequest
from kio.schema.offset_commit.v7 import request as committing
from kio.schema.offset_fetch.v5 import request as fetching
from kio.schema.produce.v8 import request as writing
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload

from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record

TIMEOUT_S: Final = 300.0
_WAIT: Final = i32Timedelta.parse(timedelta(seconds=120))
_CLIENT_ID: Final = b"growth"
_HEADER: Final = struct.Struct(f">ihhih{len(_CLIENT_ID)}s")
_SIZE: Final = struct.Struct(">i")
_CORRELATION_BYTES: Final = 4
_AGAIN_S: Final = 0.05
_BRIEFLY: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.invalid_replication_factor,  # no broker is known yet
        ErrorCode.leader_not_available,
        ErrorCode.not_controller,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""What a broker answers that is not ready yet."""


class RefusedError(Exception):
    """The broker has answered with an error."""

    def __init__(self, request: RequestPayload, code: ErrorCode) -> None:
        super().__init__(f"{type(request).__name__}: {code.name}")
        self.code = code


class PlainClient:
    """One connection to ``host:port``."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: RequestPayload) -> tuple[Any, float]:
        """The answer, and the milliseconds until its last byte; RefusedError if it is an error."""
        api_key, version = int(request.__api_key__), int(request.__version__)
        body = write(request)
        size = _HEADER.size - _SIZE.size + len(body)
        frame = _HEADER.pack(size, api_key, version, 0, len(_CLIENT_ID), _CLIENT_ID) + body
        began = time.perf_counter()
        self._socket.sendall(frame)
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        answered = self._receive(size)
        took_ms = (time.perf_counter() - began) * 1000
        response = read_response(api_key, version, answered, _CORRELATION_BYTES)
        for code in _errors(response):
            if code is not ErrorCode.none:
                raise RefusedError(request, code)
        return response, took_ms

    def _receive(self, size: int) -> bytes:
        parts = bytearray(size)
        left = memoryview(parts)
        while left:
            received = self._socket.recv_into(left)
            if not received:
                raise ConnectionError("the broker has closed the connection")
            left = left[received:]
        return bytes(parts)


def until_ready(ask: Callable[[], Any], done: ErrorCode = ErrorCode.none) -> None:
    """Asks until the broker is ready, for TIMEOUT_S; then RefusedError with what it said last.

    ``done``: the error that says that an earlier try, which timed out, was carried out.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            ask()
        except RefusedError as refused:
            if refused.code is done:
                return
            if refused.code not in _BRIEFLY or time.monotonic() > deadline_s:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def api_versions() -> ApiVersionsRequest:
    """Of all requests the one with least to do."""
    return ApiVersionsRequest()


def create(topics: list[str], partitions: int) -> creating.CreateTopicsRequest:
    """Topics of one replica."""
    return creating.CreateTopicsRequest(
        topics=tuple(
            creating.CreatableTopic(
                name=TopicName(topic),
                num_partitions=i32(partitions),
                replication_factor=i16(1),
                assignments=(),
                configs=(),
            )
            for topic in topics
        ),
        timeout=_WAIT,
        validate_only=False,
    )


def metadata() -> MetadataRequest:
    """Of all topics."""
    return MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def produce(topic: str, partition: int, value: bytes) -> writing.ProduceRequest:
    """One record, which the leader alone acknowledges."""
    batch = encode_batch([Record(0, time.time_ns() // 1_000_000, None, value, ())])
    of_partition = writing.PartitionProduceData(index=i32(partition), records=Records(batch))
    of_topic = writing.TopicProduceData(name=TopicName(topic), partition_data=(of_partition,))
    return writing.ProduceRequest(acks=i16(1), timeout=_WAIT, topic_data=(of_topic,))


def end_offset(topic: str) -> finding.ListOffsetsRequest:
    """The end of its first partition."""
    partition = finding.ListOffsetsPartition(
        partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1)
    )
    return finding.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(finding.ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
    )


def find_coordinator(group: str) -> FindCoordinatorRequest:
    """Whom a group belongs to; the topic of offsets is created by it."""
    return FindCoordinatorRequest(key=group, key_type=i8(0))


def commit(group: str, topic: str, offset: int) -> committing.OffsetCommitRequest:
    """An offset of a group without members."""
    partition = committing.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(offset), committed_metadata=""
    )
    of_topic = committing.OffsetCommitRequestTopic(name=TopicName(topic), partitions=(partition,))
    return committing.OffsetCommitRequest(
        group_id=GroupId(group),
        generation_id_or_member_epoch=i32(-1),
        member_id="",
        group_instance_id=None,
        topics=(of_topic,),
    )


def committed(group: str) -> fetching.OffsetFetchRequest:
    """All offsets of a group."""
    return fetching.OffsetFetchRequest(group_id=GroupId(group), topics=None)


def list_groups() -> ListGroupsRequest:
    """All groups."""
    return ListGroupsRequest()


def _errors(response: Any) -> list[ErrorCode]:
    """Every error code of an answer, however deep."""
    found: list[ErrorCode] = []
    waiting = [response]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting.extend(each)
        elif hasattr(each, "__slots__") and hasattr(each, "__type__"):
            for name in each.__dataclass_fields__:
                value = getattr(each, name)
                if isinstance(value, ErrorCode):
                    found.append(value)
                elif isinstance(value, tuple) or hasattr(value, "__type__"):
                    waiting.append(value)
    return found
