"""Requests to the group coordinator and their results, independent of protocol versions.

Every request carries the ``request_id`` under which its answer will come, exactly once.  Versions
differ in what a request can say (left out: the defaults here) and in what an answer can carry.

Source: Kafka ``GroupCoordinatorAdapter``, and the results of ``GroupCoordinator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

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


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """JoinGroup (11)."""

    request_id: int
    group_id: str
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    """In the member's order of preference."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As Java prints an address: ``/127.0.0.1``."""
    requires_known_member_id: bool = False
    """From version 4 on a member without id is given one and has to come again (KIP-394)."""
    supports_skipping_assignment: bool = False
    """From version 9 on a static leader may get the flag to skip the assignment (KIP-814)."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    """A member, for the group's leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader; empty for the others."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """SyncGroup (14)."""

    request_id: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None
    """Member id to assignment, from the leader."""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Heartbeat (12)."""

    request_id: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The answer to Heartbeat."""

    error: ErrorCode


class LeavingMember(NamedTuple):
    """A member that leaves; an administrator gives only the instance id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """LeaveGroup (13)."""

    request_id: int
    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(NamedTuple):
    """The result for one leaving member."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """The answer to LeaveGroup; ``members`` in the order of the request."""

    error: ErrorCode
    members: tuple[LeftMember, ...] = ()


class CommittedOffset(NamedTuple):
    """An offset to commit."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int | None = None
    """Only version 1 says it; else the coordinator's time."""


class TransactionalProducer(NamedTuple):
    """A producer that commits offsets in a transaction."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None
    """What the log gave out when the transaction's coordinator was asked; handed through."""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """OffsetCommit (8), from version 1 on, and TxnOffsetCommit (28)."""

    request_id: int
    group_id: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    """Partitions that exist; the others were answered before."""
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    """Negative: from a consumer without a group, or from an administrator."""
    group_instance_id: str | None = None
    retention_ms: int | None = None
    """Only versions 2 to 4 can say it."""
    producer: TransactionalProducer | None = None
    """Whose transaction the offsets belong to: they count when it is committed."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The answer to OffsetCommit."""

    errors: Mapping[TopicPartition, ErrorCode]


class WantedOffsets(NamedTuple):
    """The group and partitions of an OffsetFetch."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    """None: of every partition for which there is one."""


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """OffsetFetch (9), from version 1 on; before version 8 of one group."""

    request_id: int
    groups: tuple[WantedOffsets, ...]
    requires_stable: bool = False
    """Whether an offset that a transaction may still replace is withheld (KIP-447)."""


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


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The answer to OffsetFetch."""

    groups: tuple[GroupOffsets, ...]


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """OffsetDelete (47)."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResult:
    """The answer to OffsetDelete; ``partitions`` is empty if there is an error of the group."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    """DeleteGroups (42)."""

    request_id: int
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroupsResult:
    """The answer to DeleteGroups."""

    errors: Mapping[str, ErrorCode]


@dataclass(frozen=True, slots=True)
class ListGroups:
    """ListGroups (16); an empty filter lets everything pass, and case does not matter."""

    request_id: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class GroupOverview(NamedTuple):
    """A group in a ListGroups result."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListGroupsResult:
    """The answer to ListGroups; with an error the list may be incomplete."""

    error: ErrorCode
    groups: tuple[GroupOverview, ...]


@dataclass(frozen=True, slots=True)
class DescribeGroups:
    """DescribeGroups (15)."""

    request_id: int
    group_ids: tuple[str, ...]


class DescribedMember(NamedTuple):
    """A member in DescribeGroups; metadata and assignment only while the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group in DescribeGroups."""

    group_id: str
    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsResult:
    """The answer to DescribeGroups, in the order of the request."""

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
