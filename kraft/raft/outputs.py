"""Outputs of a quorum node, as values.

The caller must perform them **in the order in which they come**, and finish each before it begins
the next.  So no message that depends on a vote or on records leaves before they are on disk, and no
other rule about durability is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kraft.raft.messages import AnyRaftResponse, RaftRequest
from kraft.raft.values import ElectionState, LeaderAndEpoch, NodeAddress, OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write the election to ``quorum-state``; it must be on disk before the next output.

    Afterwards the caller passes :class:`~.inputs.ElectionPersisted` to the node.
    """

    election: ElectionState


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Flush the log; every record below ``end_offset`` must be on disk before the next output."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request; the response comes back with this correlation id."""

    destination_id: int
    endpoint: NodeAddress
    correlation_id: int
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Send the response to the request with this ``request_id``."""

    request_id: int
    response: AnyRaftResponse


@dataclass(frozen=True, slots=True)
class DeliverCommit:
    """Send a listener the records from ``first_offset`` on that are below ``high_watermark``.

    The caller may send only the first ones.  The listener gets nothing more before
    :class:`~.inputs.ListenerAdvanced` has reported how far it has come.
    """

    listener: str
    first_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class DeliverSnapshot:
    """Make a listener load that snapshot and start again."""

    listener: str
    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class DeliverLeader:
    """Send a listener the current leader and epoch.

    If the leader is this node, the listener has processed all records of earlier epochs.
    """

    listener: str
    leader: LeaderAndEpoch


@dataclass(frozen=True, slots=True)
class ShutdownDone:
    """The node has left the quorum; ``is_graceful`` is False if the shutdown timed out."""

    is_graceful: bool


RaftOutput: TypeAlias = (
    PersistElection
    | FlushLog
    | SendRequest
    | SendResponse
    | DeliverCommit
    | DeliverSnapshot
    | DeliverLeader
    | ShutdownDone
)
