"""The states of a quorum node, and the allowed transitions.

A node is *unattached* while it knows no leader of its epoch (it may have voted), a *candidate*
while it asks for votes, the *leader* of an epoch (:mod:`.leader_state`), a *follower* of one, or
*resigned* from one: it leads no more, and no other node ever leads that epoch.
An observer, who has no vote, is only ever unattached or a follower.

Deadlines are points in time in milliseconds, :data:`~kraft.raft.config.NEVER_MS` where none
runs.

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
        """The state's name in Kafka's log."""
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
"""From which states each one can be reached.  Back to unattached, and from leader to follower, it
takes a higher epoch; the rest of the conditions stands with the transitions (:mod:`.quorum`)."""


class Vote(Enum):
    """A voter's answer to a candidate."""

    UNRECORDED = auto()
    GRANTED = auto()
    REJECTED = auto()


@dataclass(slots=True)
class UnattachedState:
    """Has no leader to fetch from; may grant one vote."""

    epoch: int
    election_deadline_ms: int
    """A voter stands then, unless something happens before."""
    leader_id: int | None = None
    """Known from before a restart, without an endpoint: no vote is left to give."""
    voted_key: ReplicaKey | None = None
    high_watermark: int | None = None

    name = StateName.UNATTACHED

    @property
    def election(self) -> ElectionState:
        """The election to persist."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool) -> bool:
        """Whether that candidate gets this node's vote, or has it already."""
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
    """Set once the election is lost; the next epoch is stood for then."""
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
        """The election to persist: the vote for itself."""
        return ElectionState(self.epoch, None, self.local)

    @property
    def granting_voters(self) -> tuple[int, ...]:
        """The voters that granted their votes, itself included."""
        return self._with(Vote.GRANTED)

    @property
    def unrecorded_voters(self) -> tuple[int, ...]:
        """The voters that have not answered yet."""
        return self._with(Vote.UNRECORDED)

    @property
    def is_vote_granted(self) -> bool:
        """Whether a majority granted its votes."""
        return len(self.granting_voters) >= self.voters.majority

    @property
    def is_vote_rejected(self) -> bool:
        """Whether a majority has become impossible."""
        return len(self.voters) - len(self._with(Vote.REJECTED)) < self.voters.majority

    def record(self, voter_id: int, vote: Vote) -> bool:
        """Records a voter's answer; False if it was known.  A changed answer is an error."""
        known = self.votes[voter_id]
        require(known in (Vote.UNRECORDED, vote), f"voter {voter_id}: {known} and then {vote}")
        self.votes[voter_id] = vote
        return known is Vote.UNRECORDED

    def _with(self, vote: Vote) -> tuple[int, ...]:
        return tuple(voter for voter, known in self.votes.items() if known is vote)


@dataclass(slots=True)
class FollowerState:
    """Fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    fetch_deadline_ms: int
    """Without a word from the leader until then, a voter stands."""
    high_watermark: int | None = None
    fetching_snapshot: OffsetAndEpoch | None = None
    fetched_bytes: int = 0
    """How much of that snapshot is here."""

    name = StateName.FOLLOWER

    @property
    def election(self) -> ElectionState:
        """The election to persist: the leader."""
        return ElectionState(self.epoch, self.leader_id)

    def update_high_watermark(self, offset: int) -> bool:
        """Takes over the leader's high watermark, which never falls; True if it moved."""
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
    """The voters that have not acknowledged it yet."""
    preferred_successors: tuple[ReplicaKey, ...] = ()

    name = StateName.RESIGNED
    high_watermark = None

    @property
    def leader_id(self) -> int:
        """This node: no other can lead this epoch."""
        return self.local_id

    @property
    def election(self) -> ElectionState:
        """The persisted election stays: a resignation is not persisted."""
        return ElectionState(self.epoch, self.local_id)

    def acknowledge(self, voter_id: int) -> None:
        """A voter acknowledged EndQuorumEpoch and gets no further one."""
        if voter_id in self.unacked_voters:
            self.unacked_voters.remove(voter_id)
