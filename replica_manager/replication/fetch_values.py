"""Partitions of Fetch requests and responses, as values.

Leader and follower use the same values: :class:`~kafka_common.protocol.fetch.FetchPartition` is one
partition of a request, :class:`FetchPartitionData` one partition of a response.

Source: Kafka ``FetchRequest.PartitionData``, ``FetchResponseData.PartitionData``,
``FetchMetadata``; KIP-227 for the sessions.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.model import TopicPartition
from replica_manager.log.files import FileSlice
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.log.transaction_index import AbortedTransaction

UNKNOWN_OFFSET: Final = -1
NO_PREFERRED_REPLICA: Final = -1

NO_SESSION: Final = 0
"""Session id of a request or a response that belongs to no session."""
INITIAL_SESSION_EPOCH: Final = 0
FINAL_SESSION_EPOCH: Final = -1
FIRST_TOPIC_ID_VERSION: Final = 13
"""From this version on Fetch requests and responses name topics only by id."""
_LAST_SESSION_EPOCH: Final = 2**31 - 1


def next_session_epoch(epoch: int) -> int:
    """The epoch after ``epoch``; after the largest comes 1, since 0 requests a new session."""
    if epoch < 0:
        return FINAL_SESSION_EPOCH
    return 1 if epoch == _LAST_SESSION_EPOCH else epoch + 1


class FetchMetadata(NamedTuple):
    """Session id and epoch of a Fetch request."""

    session_id: int = NO_SESSION
    epoch: int = INITIAL_SESSION_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the request names every partition it wants."""
        return self.epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH)

    @override
    def __str__(self) -> str:
        session = "INVALID" if self.session_id == NO_SESSION else self.session_id
        epochs = {INITIAL_SESSION_EPOCH: "INITIAL", FINAL_SESSION_EPOCH: "FINAL"}
        return f"(sessionId={session}, epoch={epochs.get(self.epoch, self.epoch)})"


class TopicIdPartition(NamedTuple):
    """A partition as a Fetch request names it.

    ``topic`` is None if this broker does not know the id; ``topic_id`` is None below version 13.
    """

    topic_id: UUID | None
    topic: str | None
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition by topic name; the topic must be known."""
        assert self.topic is not None
        return TopicPartition(self.topic, self.partition)


class FetchPartitionData(NamedTuple):
    """The response for one partition."""

    error: ErrorCode
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    records: bytes | memoryview | FileSlice = b""
    """Record batches, the last one possibly incomplete; on the leader a slice of a file."""
    diverging_epoch: EpochEndOffset | None = None
    """The epoch and offset where the follower's log diverges; if set, there are no records."""
    preferred_read_replica: int = NO_PREFERRED_REPLICA
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    """Aborted transactions that overlap the records; None unless read_committed."""
