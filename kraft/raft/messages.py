"""The requests and responses of a raft quorum, independent of protocol versions.

Each of Kafka's messages has room for many topics and partitions, and the quorum uses one of one.
The decoder (:mod:`.wire`) checks that it is the metadata partition, and puts the rest
here.

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
"""Where a node can be reached, by the names of its listeners."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks for a vote (52)."""

    cluster_id: str | None
    voter: ReplicaKey | None
    """Who is asked; None where the version cannot say it."""
    candidate_epoch: int
    candidate: ReplicaKey
    log_end: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """A leader announces itself to a voter (53)."""

    cluster_id: str | None
    voter: ReplicaKey | None
    leader_id: int
    leader_epoch: int
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """A leader resigns and names the preferred successors (54)."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[ReplicaKey, ...]
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A replica fetches from the end of its log, and so acknowledges what it has (1)."""

    cluster_id: str | None
    replica: ReplicaKey | None
    """None: an observer without an id."""
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """A replica fetches a part of a snapshot (59)."""

    cluster_id: str | None
    replica: ReplicaKey | None
    leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """A client asks for the state of the quorum (55)."""


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
    """Other than none: the rest of the answer is without meaning."""
    error: ErrorCode = ErrorCode.none
    leader_id: int | None = None
    leader_epoch: int = NO_LEADER
    leader_endpoint: NodeAddress | None = None
    """On the listener by which the request came; None where it is unknown."""


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
    """Records, or where the logs diverge, or the snapshot to start with."""

    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(RaftResponse):
    """A part of a snapshot, and the size of the whole."""

    snapshot_id: OffsetAndEpoch = NO_SNAPSHOT
    size: int = 0
    position: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """The progress of a replica, as its leader knows it; -1 for unknown values."""

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
