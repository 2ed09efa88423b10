"""Reads a Fetch response for a follower; records are views, not copies.

A message library would copy ten megabytes of records to read the few fields around them.  So this
module reads the fields of every version itself, and skips those that a follower does not need.

Source: Kafka ``FetchResponse.json``, ``FetchResponse.responseData``.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.model import TopicPartition
from kafka_common.protocol.wire_reader import WireReader
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_requests import LeaderFetchResponse
from replica_manager.replication.fetch_values import (
    FIRST_TOPIC_ID_VERSION,
    NO_PREFERRED_REPLICA,
    UNKNOWN_OFFSET,
    FetchPartitionData,
)

_FIRST_FLEXIBLE: Final = 12
_PARTITION_HEAD: Final = Struct(">ihq")
"""partition index, error code, high watermark."""
_DIVERGING_EPOCH: Final = Struct(">iq")
"""epoch, end offset: the tagged field 0."""
_DIVERGING_EPOCH_TAG: Final = 0
_ABORTED_TRANSACTION_BYTES: Final = 16
_ERRORS: Final[Mapping[int, ErrorCode]] = {int(error.value): error for error in ErrorCode}


def error_of(code: int) -> ErrorCode:
    """The error with that code; UNKNOWN_SERVER_ERROR if Kafka 3.9 does not know the code."""
    return _ERRORS.get(code, ErrorCode.unknown_server_error)


def read_fetch_response(
    version: int, body: memoryview, topic_names: Mapping[UUID, str]
) -> LeaderFetchResponse:
    """The leader's response; InvalidFrame if ``body`` is no response of that version.

    ``topic_names`` holds the topics that the request named by id.  Partitions of other topic ids
    are left out, but ``topic_ids`` of the result has their ids.  The records are views into
    ``body``, which must not change.
    """
    try:
        return _Reader(version, body).read(topic_names)
    except (IndexError, struct_error, UnicodeDecodeError):
        raise InvalidFrame(f"a Fetch response of version {version} is cut short") from None


class _Reader(WireReader[memoryview]):
    def __init__(self, version: int, body: memoryview) -> None:
        super().__init__(body, 0, is_flexible=version >= _FIRST_FLEXIBLE)
        self._version = version
        self._has_ids = version >= FIRST_TOPIC_ID_VERSION

    def read(self, topic_names: Mapping[UUID, str]) -> LeaderFetchResponse:
        throttle_time_ms = self._int32() if self._version >= 1 else 0
        error, session_id = ErrorCode.none, 0
        if self._version >= 7:
            error, session_id = error_of(self._int16()), self._int32()
        partitions: dict[TopicPartition, FetchPartitionData] = {}
        topic_ids: dict[UUID, None] = {}
        for _ in range(self._count()):
            topic: str | None
            if self._has_ids:
                topic_id = UUID(bytes=bytes(self._bytes(16)))
                topic_ids[topic_id] = None
                topic = topic_names.get(topic_id)
            else:
                topic = self._nullable_text() or ""
            for _ in range(self._count()):
                partition, data = self._partition()
                if topic is not None:
                    partitions[TopicPartition(topic, partition)] = data
            self._skip_tags()
        self._skip_tags()
        return LeaderFetchResponse(
            self._version, error, session_id, partitions, tuple(topic_ids), throttle_time_ms
        )

    def _partition(self) -> tuple[int, FetchPartitionData]:
        version = self._version
        partition, code, high_watermark = _PARTITION_HEAD.unpack_from(self._data, self._at)
        self._at += _PARTITION_HEAD.size
        last_stable_offset = self._int64() if version >= 4 else UNKNOWN_OFFSET
        log_start_offset = self._int64() if version >= 5 else UNKNOWN_OFFSET
        if version >= 4:
            self._skip_aborted_transactions()
        preferred = self._int32() if version >= 11 else NO_PREFERRED_REPLICA
        records = self._bytes(max(self._count(), 0))
        return partition, FetchPartitionData(
            error_of(code),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            records,
            self._diverging_epoch(),
            preferred,
        )

    def _diverging_epoch(self) -> EpochEndOffset | None:
        """Tagged field 0 of a partition; None if it is absent or empty."""
        value = self._tags(_DIVERGING_EPOCH_TAG)
        if value is None:
            return None
        epoch, end_offset = _DIVERGING_EPOCH.unpack_from(value)
        return EpochEndOffset(epoch, end_offset) if epoch >= 0 else None

    def _skip_aborted_transactions(self) -> None:
        """Skips the aborted transactions; a follower reads the markers among the records."""
        for _ in range(self._count()):
            self._bytes(_ABORTED_TRANSACTION_BYTES)
            self._skip_tags()
