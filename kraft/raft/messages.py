"""The requests and responses of a raft quorum, independent of protocol versions.

Each of Kafka's messages has room for many topics and partitions; the quorum uses one topic with one
partition.  The decoder (:mod:`.wire`) checks that it is the metadata partition and fills these
values with the other fields.

Source: Kafka ``RaftUtil``, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from kraft.raft.values import NO_LEADER, NodeAddress, OffsetAndEpoch, ReplicaKey

NO_SNAPSHOT: Final = OffsetAndEpoch(-1, -1)
Endpoints: TypeAlias = Mapping[str, NodeAddress]
"""The addresses of one node, by listener name."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks for a vote (API key 52)."""

    cluster_id: str | None
    voter: ReplicaKey | None
    """The voter that is asked; None in versions without that field."""
    candidate_epoch: int
    candidate: ReplicaKey
    log_end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A leader announces itself to a voter (API key 53)."""

    cluster_id: str | None
    voter: ReplicaKey | None
    leader_id: int
    leader_epoch: int
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns and names the preferred successors (API key 54)."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[ReplicaKey, ...]
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A replica fetches at its log end offset and acknowledges all records below it (API key 1)."""

    cluster_id: str | None
    replica: ReplicaKey | None
    """None for an observer without a node id."""
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """A replica fetches a part of a snapshot (API key 59)."""

    cluster_id: str | None
    replica: ReplicaKey | None
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """A client asks for the state of the quorum (API key 55)."""


RaftRequest: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftResponse:
    """The fields of every response: an error, and the leader and epoch that the sender knows."""

    top_level_error: ErrorCode = ErrorCode.none
    """The error of the whole response; unless it is ``none``, no other field has a meaning."""
    error: ErrorCode = ErrorCode.none
    leader_id: int | None = None
    leader_epoch: int = NO_LEADER
    leader_endpoint: NodeAddress | None = None
    """The leader's address on the listener that received the request; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(RaftResponse):
    """Whether the vote was granted."""

    vote_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(RaftResponse):
    """A voter acknowledges the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(RaftResponse):
    """A voter acknowledges the resignation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(RaftResponse):
    """Records, or the point where the logs diverge, or the snapshot to load first.

    ``high_watermark`` is -1 while the leader does not know it.
    """

    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(RaftResponse):
    """Bytes of a snapshot from ``position`` on, and the size of the whole snapshot in bytes."""

    snapshot_id: OffsetAndEpoch = NO_SNAPSHOT
    size: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """The progress of a replica, as its leader knows it; -1 if unknown, times in milliseconds."""

    replica: ReplicaKey
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse(RaftResponse):
    """The state of the quorum, as its leader knows it."""

    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    nodes: Mapping[int, Endpoints] = field(default_factory=dict)


AnyRaftResponse: TypeAlias = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | DescribeQuorumResponse
)
