"""Inputs of a quorum node, as values.

Each is passed to :meth:`~kraft.raft.kafka_raft_client.KafkaRaftClient.step`, with the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from kraft.raft.messages import AnyRaftResponse, RaftRequest
from kraft.raft.values import ElectionState


@dataclass(frozen=True, slots=True)
class RaftTick:
    """The time of :attr:`~kraft.raft.kafka_raft_client.KafkaRaftClient.deadline_ms` has come."""


@dataclass(frozen=True, slots=True)
class ElectionPersisted:
    """The election of a :class:`~.outputs.PersistElection` is on disk."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class RaftRequestReceived:
    """A raft request arrived; the :class:`~.outputs.SendResponse` has the same ``request_id``."""

    request_id: int
    request: RaftRequest
    listener_name: str = ""
    """The listener that received it; the response names the leader's endpoint on the same one."""


@dataclass(frozen=True, slots=True)
class RaftResponseReceived:
    """A node responded to the request with this correlation id."""

    source_id: int
    correlation_id: int
    response: AnyRaftResponse


@dataclass(frozen=True, slots=True)
class RaftRequestFailed:
    """The request with this correlation id failed and gets no response."""

    destination_id: int
    correlation_id: int
    error: ErrorCode
    """BROKER_NOT_AVAILABLE if the connection failed, NETWORK_EXCEPTION if the peer refused this
    node's certificate or login, UNSUPPORTED_VERSION if the peer supports no version of the request,
    UNKNOWN_SERVER_ERROR after a defect of this node."""


@dataclass(frozen=True, slots=True)
class ListenerAdvanced:
    """A listener has processed a commit or a snapshot, and so everything below ``next_offset``."""

    listener: str
    next_offset: int


@dataclass(frozen=True, slots=True)
class Resign:
    """The controller resigns from the leadership of ``epoch``; no effect if that has ended."""

    epoch: int


@dataclass(frozen=True, slots=True)
class RaftShutdown:
    """The node is to leave the quorum gracefully, within ``timeout_ms``."""

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
