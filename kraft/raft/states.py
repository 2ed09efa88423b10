"""The states of a quorum node, and the allowed transitions.

A node is *unattached* while it knows no leader of its epoch (it may have voted), a *candidate*
while it asks for votes, the *leader* of an epoch (:mod:`.leader_state`), a *follower* of a leader,
or *resigned*: its leadership has ended, and no other node ever leads that epoch.
An observer, which has no vote, is unattached or a follower.  It is resigned only if it was the
leader of the stored epoch when it was still a voter.

Deadlines are points in time in milliseconds, :data:`~kraft.raft.config.NEVER_MS` if no timer runs.

Source: Kafka ``QuorumState``, ``UnattachedState``, ``CandidateState``, ``FollowerState``,
``ResignedState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final

from kraft.raft.guards import require
from kraft.raft.messages import Endpoints
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey, VoterSet


class StateName(StrEnum):
    """The states, by their names in Kafka's metric ``current-state``."""

    UNATTACHED = "unattached"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"

    @property
    def label(self) -> str:
        """The state's name in drawings."""
        return self.value.capitalize()


VALID_PREVIOUS: Final[Mapping[StateName, frozenset[StateName]]] = {
    StateName.UNATTACHED: frozenset(StateName),
    StateName.CANDIDATE: frozenset(
        {StateName.UNATTACHED, StateName.CANDIDATE, StateName.FOLLOWER, StateName.RESIGNED}
    ),
    StateName.LEADER: frozenset({StateName.CANDIDATE}),
    StateName.FOLLOWER: frozenset(StateName),
    StateName.RESIGNED: frozenset({StateName.LEADER}),
}
"""For each state, the states from which it can be reached.  From another state to unattached, and
from leader to follower, the epoch must also be higher.  :mod:`.quorum` has the other conditions."""


class Vote(Enum):
    """A voter's response to a candidate; UNRECORDED until it has arrived."""

    UNRECORDED = auto()
    GRANTED = auto()
    REJECTED = auto()


@dataclass(slots=True)
class UnattachedState:
    """Knows no leader to fetch from; may grant one vote in its epoch."""

    epoch: int
    election_deadline_ms: int
    """The time at which a voter becomes a candidate, unless its state changes before."""
    leader_id: int | None = None
    """The leader in the stored election if its endpoint is unknown; then no vote is granted."""
    voted_key: ReplicaKey | None = None
    high_watermark: int | None = None

    name = StateName.UNATTACHED

    @property
    def election(self) -> ElectionState:
        """The election to persist."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool) -> bool:
        """Whether that candidate gets this node's vote of the epoch, or already has it."""
        if self.voted_key is not None:
            return self.voted_key.id == candidate.id and self.voted_key.directory_id in (
                None, candidate.directory_id,
            )  # fmt: skip
        return self.leader_id is None and is_log_up_to_date


@dataclass(slots=True)
class CandidateState:
    """Asks every voter for its vote."""

    epoch: int
    local: ReplicaKey
    voters: VoterSet
    election_deadline_ms: int
    retries: int = 1
    backoff_deadline_ms: int | None = None
    """Set when the election is lost: the time to become a candidate in the next epoch."""
    high_watermark: int | None = None
    votes: dict[int, Vote] = field(default_factory=dict)

    name = StateName.CANDIDATE
    leader_id = None

    def __post_init__(self) -> None:
        require(
            self.local.id in self.voters, f"{self.local.id} has no vote among {self.voters.ids}"
        )
        self.votes = dict.fromkeys(self.voters, Vote.UNRECORDED)
        self.votes[self.local.id] = Vote.GRANTED

    @property
    def election(self) -> ElectionState:
        """The election to persist: this node's vote for itself."""
        return ElectionState(self.epoch, None, self.local)

    @property
    def granting_voters(self) -> tuple[int, ...]:
        """The voters that granted their votes, this candidate included."""
        return self._voters_with(Vote.GRANTED)

    @property
    def rejecting_voters(self) -> tuple[int, ...]:
        """The voters that refused their votes."""
        return self._voters_with(Vote.REJECTED)

    @property
    def unrecorded_voters(self) -> tuple[int, ...]:
        """The voters that have not responded yet."""
        return self._voters_with(Vote.UNRECORDED)

    @property
    def is_vote_granted(self) -> bool:
        """Whether a majority granted its votes."""
        return len(self.granting_voters) >= self.voters.majority

    @property
    def is_vote_rejected(self) -> bool:
        """Whether a majority has become impossible."""
        return len(self.voters) - len(self.rejecting_voters) < self.voters.majority

    def record(self, voter_id: int, vote: Vote) -> bool:
        """Records a voter's response; False for a repeated one, RaftFatal for a changed one."""
        known = self.votes[voter_id]
        require(known in (Vote.UNRECORDED, vote), f"voter {voter_id}: {known} and then {vote}")
        self.votes[voter_id] = vote
        return known is Vote.UNRECORDED

    def _voters_with(self, vote: Vote) -> tuple[int, ...]:
        return tuple(voter for voter, known in self.votes.items() if known is vote)


@dataclass(slots=True)
class FollowerState:
    """Fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    fetch_deadline_ms: int
    """The time at which a voter becomes a candidate, unless the leader responds before."""
    high_watermark: int | None = None
    fetching_snapshot: OffsetAndEpoch | None = None
    fetched_bytes: int = 0
    """The bytes of ``fetching_snapshot`` that are downloaded."""

    name = StateName.FOLLOWER

    @property
    def election(self) -> ElectionState:
        """The election to persist: the leader."""
        return ElectionState(self.epoch, self.leader_id)

    def update_high_watermark(self, offset: int) -> bool:
        """Sets the high watermark, which must not fall; True if it moved."""
        known = self.high_watermark
        require(known is None or offset >= known, f"high watermark {known} and then {offset}")
        self.high_watermark = offset
        return known != offset


@dataclass(slots=True)
class ResignedState:
    """Was the leader of this epoch and resigned; waits for another election."""

    epoch: int
    local_id: int
    election_deadline_ms: int
    unacked_voters: list[int]
    """The voters that have not acknowledged EndQuorumEpoch yet."""
    preferred_successors: tuple[ReplicaKey, ...] = ()

    name = StateName.RESIGNED
    high_watermark = None

    @property
    def leader_id(self) -> int:
        """The id of this node: no other node can lead this epoch."""
        return self.local_id

    @property
    def election(self) -> ElectionState:
        """The election on disk, with this node as the leader: a resignation is not persisted."""
        return ElectionState(self.epoch, self.local_id)

    def acknowledge(self, voter_id: int) -> None:
        """Records that a voter acknowledged EndQuorumEpoch; it gets no further one."""
        if voter_id in self.unacked_voters:
            self.unacked_voters.remove(voter_id)
