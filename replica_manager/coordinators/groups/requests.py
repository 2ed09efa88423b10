"""Requests to the group coordinator and their results, independent of protocol versions.

Every request has a ``request_id``; exactly one response has the same id.  A version that lacks a
field of a request has the default value here; a version may also lack fields of the response.

Source: Kafka ``GroupCoordinatorAdapter``, and the results of ``GroupCoordinator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import NO_EPOCH, TopicPartition
from replica_manager.log.producer_state_manager import VerificationGuard

UNKNOWN_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1
INVALID_OFFSET: Final = -1


def given_reason(reason: str | None) -> str:
    """The client's reason for joining or leaving, for log lines."""
    return "not provided" if reason is None else reason


class Protocol(NamedTuple):
    """An assignment protocol that a member supports, with its metadata for the leader."""

    name: str
    metadata: bytes


class JoinGroup(Struct, frozen=True):
    """A JoinGroup request (API key 11)."""

    request_id: int
    group_id: str
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    """The supported protocols, the preferred one first."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """The client's address as Java prints it: ``/127.0.0.1``."""
    requires_known_member_id: bool = False
    """From version 4 on: a member without an id gets one and must join again (KIP-394)."""
    supports_skipping_assignment: bool = False
    """From version 9 on: the response may ask a static leader to skip the assignment (KIP-814)."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    """One member in the leader's JoinGroup response."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(Struct, frozen=True):
    """The response to JoinGroup."""

    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """All members, in the leader's response; empty for other members."""
    skip_assignment: bool = False


class SyncGroup(Struct, frozen=True):
    """A SyncGroup request (API key 14)."""

    request_id: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None
    """The assignments by member id; only the leader sends them."""


class SyncResult(Struct, frozen=True):
    """The response to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Heartbeat(Struct, frozen=True):
    """A Heartbeat request (API key 12)."""

    request_id: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResult(Struct, frozen=True):
    """The response to Heartbeat."""

    error: ErrorCode


class LeavingMember(NamedTuple):
    """A member that leaves; an administrator's request has only the instance id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(Struct, frozen=True):
    """A LeaveGroup request (API key 13)."""

    request_id: int
    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveResult(Struct, frozen=True):
    """The response to LeaveGroup; ``members`` has the order of the request."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


class CommittedOffset(NamedTuple):
    """An offset to commit."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int | None = None
    """Commit time, which only version 1 sends; None: the coordinator's time."""


class TransactionalProducer(NamedTuple):
    """A producer that commits offsets in a transaction."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None
    """The guard of the transaction's verification, passed on to the append; None without one."""


class CommitOffsets(Struct, frozen=True):
    """An OffsetCommit request (API key 8) from version 1 on, or a TxnOffsetCommit request (28)."""

    request_id: int
    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    """The offsets of existing partitions; the handler has refused the other partitions."""
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    """Negative: from a consumer without group membership, or from an administrator."""
    group_instance_id: str | None = None
    retention_ms: int | None = None
    """Retention time of these offsets, which only versions 2 to 4 send; None: the default."""
    producer: TransactionalProducer | None = None
    """The producer whose transaction contains the offsets; None for OffsetCommit."""


class CommitResult(Struct, frozen=True):
    """The response to OffsetCommit or TxnOffsetCommit."""

    errors: Mapping[TopicPartition, ErrorCode]


class WantedOffsets(NamedTuple):
    """One group in an OffsetFetch request, and the partitions requested."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    """None: all partitions that have a committed offset."""


class FetchOffsets(Struct, frozen=True):
    """An OffsetFetch request (API key 9) from version 1 on; before version 8 for one group."""

    request_id: int
    groups: tuple[WantedOffsets, ...]
    requires_stable: bool = False
    """Whether a partition with a pending offset gets UNSTABLE_OFFSET_COMMIT (KIP-447)."""


class FetchedOffset(NamedTuple):
    """The committed offset of a partition; INVALID_OFFSET if there is none."""

    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


class GroupOffsets(NamedTuple):
    """The committed offsets of a group."""

    group_id: str
    error: ErrorCode
    partitions: Mapping[TopicPartition, FetchedOffset]


class FetchResult(Struct, frozen=True):
    """The response to OffsetFetch."""

    groups: tuple[GroupOffsets, ...]


class DeleteOffsets(Struct, frozen=True):
    """An OffsetDelete request (API key 47)."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


class DeleteOffsetsResult(Struct, frozen=True):
    """The response to OffsetDelete; ``partitions`` is empty if ``error`` is set."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode]


class DeleteGroups(Struct, frozen=True):
    """A DeleteGroups request (API key 42)."""

    request_id: int
    group_ids: tuple[str, ...]


class DeleteGroupsResult(Struct, frozen=True):
    """The response to DeleteGroups: an error per group id."""

    errors: Mapping[str, ErrorCode]


class ListGroups(Struct, frozen=True):
    """A ListGroups request (API key 16); an empty filter selects all groups; case is ignored."""

    request_id: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class GroupOverview(NamedTuple):
    """A group in a ListGroups response."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResult(Struct, frozen=True):
    """The response to ListGroups; after an error the list may be incomplete."""

    error: ErrorCode
    groups: tuple[GroupOverview, ...]


class DescribeGroups(Struct, frozen=True):
    """A DescribeGroups request (API key 15)."""

    request_id: int
    group_ids: tuple[str, ...]


class DescribedMember(NamedTuple):
    """A member in a DescribeGroups response.

    ``metadata`` and ``assignment`` are empty unless the group is Stable.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group in a DescribeGroups response."""

    group_id: str
    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsResult(Struct, frozen=True):
    """The response to DescribeGroups, with the groups in the order of the request."""

    groups: tuple[DescribedGroup, ...]


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroups
    | ListGroups
    | DescribeGroups
)

Result: TypeAlias = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | CommitResult
    | FetchResult
    | DeleteOffsetsResult
    | DeleteGroupsResult
    | ListGroupsResult
    | DescribeGroupsResult
)
