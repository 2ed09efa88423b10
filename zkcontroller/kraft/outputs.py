"""What a node of the quorum wants done, as values.

The caller's duty: perform them **in the order in which they come**, each done before the next one
begins.  So nothing that depends on a vote or on records leaves before they are on disk, and no
other rule about durability is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from zkcontroller.kraft.messages import AnyRaftResponse, RaftRequest
from zkcontroller.kraft.values import ElectionState, Endpoint, LeaderAndEpoch, OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write the quorum's state, and make sure that it is on disk."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class FlushLog:
    """Make sure that every record below ``end_offset`` is on disk."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; its answer comes back with the correlation id."""

    destination_id: int
    endpoint: Endpoint
    correlation_id: int
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request that was received."""

    request_id: int
    response: AnyRaftResponse


@dataclass(frozen=True, slots=True)
class DeliverCommit:
    """Give a listener the records from ``first_offset`` on that are below ``high_watermark``.

    Some of them are enough; :class:`~.inputs.ListenerAdvanced` says how far it has come, and
    nothing more is delivered to it before.
    """

    listener: str
    first_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class DeliverSnapshot:
    """Have a listener begin anew with that snapshot."""

    listener: str
    snapshot_id: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class DeliverLeader:
    """Tell a listener who leads; itself only once it has taken in what was before."""

    listener: str
    leader: LeaderAndEpoch


@dataclass(frozen=True, slots=True)
class ShutdownDone:
    """The node has left the quorum; ``is_graceful`` unless its time was over first."""

    is_graceful: bool


RaftOutput: TypeAlias = (
    PersistElection
    | FlushLog
    | Send
    | Answer
    | DeliverCommit
    | DeliverSnapshot
    | DeliverLeader
    | ShutdownDone
)
