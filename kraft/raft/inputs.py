"""Inputs of a quorum node, as values.

Each comes to :meth:`~kraft.raft.kafka_raft_client.KafkaRaftClient.step` with the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from kraft.raft.messages import AnyRaftResponse, RaftRequest
from kraft.raft.values import ElectionState


@dataclass(frozen=True, slots=True)
class RaftTick:
    """The time :attr:`~kraft.raft.kafka_raft_client.KafkaRaftClient.deadline_ms` has come."""


@dataclass(frozen=True, slots=True)
class ElectionPersisted:
    """A :class:`~.outputs.PersistElection` has been performed: that election is on disk."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class RaftRequestReceived:
    """A raft request arrived; the :class:`~.outputs.SendResponse` has the same ``request_id``."""

    request_id: int
    request: RaftRequest
    listener_name: str = ""
    """By which listener it came: the answer names the leader's endpoint on the same one."""


@dataclass(frozen=True, slots=True)
class RaftResponseReceived:
    """A node responded to the request with this correlation id."""

    source_id: int
    correlation_id: int
    response: AnyRaftResponse


@dataclass(frozen=True, slots=True)
class RaftRequestFailed:
    """The request with this correlation id gets no response."""

    destination_id: int
    correlation_id: int
    error: ErrorCode
    """BROKER_NOT_AVAILABLE without a connection, NETWORK_EXCEPTION where it would not let us in,
    UNSUPPORTED_VERSION for a node that speaks no version of the request."""


@dataclass(frozen=True, slots=True)
class ListenerAdvanced:
    """A listener has processed everything below an offset: a commit, or a snapshot."""

    listener: str
    next_offset: int


@dataclass(frozen=True, slots=True)
class Resign:
    """The user of the leadership of that epoch gives it up."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RaftShutdown:
    """Leave the quorum gracefully, within this time."""

    timeout_ms: int


RaftInput: TypeAlias = (
    RaftTick
    | ElectionPersisted
    | RaftRequestReceived
    | RaftResponseReceived
    | RaftRequestFailed
    | ListenerAdvanced
    | Resign
    | RaftShutdown
)
