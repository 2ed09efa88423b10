"""The requests of a follower's fetcher to a leader and their responses, as values.

Source: Kafka ``LeaderEndPoint``; KIP-101 for epochs, KIP-320 for the fencing of all three.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import TopicPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_session_handler import FetchSessionRequest
from replica_manager.replication.fetch_values import (
    FIRST_TOPIC_ID_VERSION,
    FetchPartitionData,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
NO_BROKER: Final = -1


class FetcherSettings(Struct, frozen=True):
    """Configuration of a fetcher."""

    fetch_max_bytes: int = 1_048_576
    """``replica.fetch.max.bytes``"""
    backoff_ms: int = 1_000
    """``replica.fetch.backoff.ms``"""
    truncates_on_fetch: bool = True
    """Fetch responses report a diverging epoch (inter-broker protocol 2.7-IV1 and newer)."""
    asks_epochs: bool = True
    """The leader knows OffsetsForLeaderEpoch (inter-broker protocol 0.11-IV2 and newer)."""
    replica_id: int = NO_BROKER
    """The id of the follower's broker, for its log lines; -1 if unknown."""


class EpochQuestion(NamedTuple):
    """One partition of an OffsetsForLeaderEpoch request."""

    current_leader_epoch: int
    leader_epoch: int
    """The newest leader epoch in the follower's log."""


class OffsetQuestion(NamedTuple):
    """One partition of a ListOffsets request."""

    current_leader_epoch: int
    timestamp: int
    """-1: the log end offset; -2: the log start offset."""


class AskEpochEnds(Struct, frozen=True):
    """An OffsetsForLeaderEpoch request to send."""

    partitions: Mapping[TopicPartition, EpochQuestion]


class AskOffsets(Struct, frozen=True):
    """A ListOffsets request to send."""

    partitions: Mapping[TopicPartition, OffsetQuestion]


class AskRecords(Struct, frozen=True):
    """A Fetch request to send."""

    fetch: FetchSessionRequest

    def api_version(self, newest: int) -> int:
        """The version to use, at most ``newest``; 12 while a topic has no id."""
        if newest >= FIRST_TOPIC_ID_VERSION and not self.fetch.can_use_topic_ids:
            return FIRST_TOPIC_ID_VERSION - 1
        return newest


class Idle(Struct, frozen=True):
    """No request to send before ``until_ms``; None means before a partition is added."""

    until_ms: int | None


Request: TypeAlias = AskEpochEnds | AskOffsets | AskRecords
EpochResponse: TypeAlias = Mapping[TopicPartition, tuple[ErrorCode, EpochEndOffset]]
OffsetsResponse: TypeAlias = Mapping[TopicPartition, tuple[ErrorCode, int]]


class LeaderFetchResponse(Struct, frozen=True):
    """A Fetch response, as a follower reads it."""

    api_version: int
    error: ErrorCode
    session_id: int
    partitions: Mapping[TopicPartition, FetchPartitionData]
    topic_ids: Collection[UUID] = ()
    throttle_time_ms: int = 0
