"""The state of a leader: each replica's progress, and the high watermark that follows.

The rule that keeps a quorum safe is in :meth:`LeaderState._advance`: a new leader does not move the
high watermark before a record of its own epoch is on a majority of the voters.

Source: Kafka ``LeaderState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import MAX_OBSERVERS, NEVER_MS, OBSERVER_SESSION_MS, QuorumConfig
from kraft.raft.guards import require
from kraft.raft.messages import Endpoints, ReplicaProgress
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, ReplicaKey, VoterSet, by_descending_offset

_UNKNOWN: Final = -1


@dataclass(slots=True)
class VoterOrObserver:
    """A leader's view of a replica.  Times are in milliseconds, -1 if unknown."""

    replica: ReplicaKey
    end_offset: int | None = None
    last_fetch_ms: int = _UNKNOWN
    last_caught_up_ms: int = _UNKNOWN
    leader_end_offset_at_last_fetch: int = _UNKNOWN
    has_acknowledged_leader: bool = False

    def fetched(self, offset: int, leader_end_offset: int | None, now_ms: int) -> None:
        """Records a fetch at ``offset``: the replica has every record below it."""
        if leader_end_offset is not None:
            if offset >= leader_end_offset:
                self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
            elif 0 < self.leader_end_offset_at_last_fetch <= offset:
                # Every record that the replica still lacks was written after its last fetch.
                self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
            self.leader_end_offset_at_last_fetch = leader_end_offset
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset
        self.has_acknowledged_leader = True

    def progress(self) -> ReplicaProgress:
        """The replica's state for DescribeQuorum."""
        return ReplicaProgress(
            replica=self.replica,
            log_end_offset=_UNKNOWN if self.end_offset is None else self.end_offset,
            last_fetch_timestamp=self.last_fetch_ms,
            last_caught_up_timestamp=self.last_caught_up_ms,
        )


@dataclass(slots=True)
class LeaderState:
    """The state of a leader; its epoch begins at ``epoch_start_offset``."""

    epoch: int
    local: ReplicaKey
    voters: VoterSet
    epoch_start_offset: int
    granting_voters: tuple[int, ...]
    leader_endpoints: Endpoints
    accumulator: BatchAccumulator
    config: QuorumConfig
    started_ms: int
    high_watermark: int | None = None
    is_resign_requested: bool = False
    begin_quorum_epoch_deadline_ms: int = 0
    check_quorum_deadline_ms: int = NEVER_MS
    voter_states: dict[int, VoterOrObserver] = field(default_factory=dict)
    observer_states: dict[ReplicaKey, VoterOrObserver] = field(default_factory=dict)
    fetched_voters: list[int] = field(default_factory=list)
    """The voters that fetched since the quorum was last checked."""

    name = StateName.LEADER

    def __post_init__(self) -> None:
        self.voter_states = {voter: VoterOrObserver(ReplicaKey(voter)) for voter in self.voters}
        self.voter_states[self.local.id].has_acknowledged_leader = True
        self.begin_quorum_epoch_deadline_ms = self.started_ms
        self._restart_check_quorum(self.started_ms)

    @property
    def leader_id(self) -> int:
        """The id of this node."""
        return self.local.id

    @property
    def election(self) -> ElectionState:
        """The election to persist: this node as the leader of its epoch."""
        return ElectionState(self.epoch, self.local.id)

    @property
    def end_offset(self) -> int | None:
        """The end offset of this node's log at the last :meth:`appended`; None before it."""
        return self.voter_states[self.local.id].end_offset

    # Progress of the replicas.

    def appended(self, end_offset: int) -> bool:
        """Records the new end of this node's log; True if the high watermark moved."""
        own = self.voter_states[self.local.id]
        require(own.end_offset is None or own.end_offset <= end_offset, "a leader only appends")
        own.end_offset = end_offset
        return self._advance()

    def replica_fetched(self, replica: ReplicaKey | None, offset: int, now_ms: int) -> bool:
        """Records a replica's fetch at ``offset``; True if the high watermark moved."""
        if replica is None:
            return False
        require(replica.id != self.local.id, "the leader fetches from itself")
        state = self._state_of(replica, now_ms)
        state.fetched(offset, self.end_offset, now_ms)
        if replica.id not in self.voters:
            return False
        self.contacted_by(replica, now_ms)
        return self._advance()

    def contacted_by(self, replica: ReplicaKey | None, now_ms: int) -> None:
        """Counts a voter's fetch; the leader resigns unless a majority fetches in time."""
        if replica is None or replica.id not in self.voters:
            return
        require(replica.id != self.local.id, "the leader fetches from itself")
        if replica.id not in self.fetched_voters:
            self.fetched_voters.append(replica.id)
        # The leader is one of the majority.
        if len(self.fetched_voters) >= self.voters.majority - 1:
            self._restart_check_quorum(now_ms)

    def acknowledged(self, voter_id: int) -> None:
        """Records that a voter acknowledged BeginQuorumEpoch."""
        self.voter_states[voter_id].has_acknowledged_leader = True

    @property
    def non_leader_voters_by_descending_offset(self) -> tuple[ReplicaKey, ...]:
        """The preferred successors: the other voters, highest offset first."""
        others: Mapping[int, int | None] = {
            voter: self.voter_states[voter].end_offset
            for voter in self.voters.others(self.local.id)
        }
        return tuple(ReplicaKey(voter) for voter in by_descending_offset(others))

    def _advance(self) -> bool:
        ends = sorted(
            (_UNKNOWN if state.end_offset is None else state.end_offset
             for state in self.voter_states.values()),
            reverse=True,
        )  # fmt: skip
        on_a_majority = ends[len(self.voters) // 2]
        # Records of older epochs are committed only together with a later one of this epoch.
        if on_a_majority <= self.epoch_start_offset:
            return False
        if self.high_watermark is not None and on_a_majority <= self.high_watermark:
            return False
        self.high_watermark = on_a_majority
        return True

    def _restart_check_quorum(self, now_ms: int) -> None:
        self.fetched_voters.clear()
        if len(self.voters) > 1:
            self.check_quorum_deadline_ms = now_ms + self.config.check_quorum_timeout_ms

    # Observers.

    def _state_of(self, replica: ReplicaKey, now_ms: int) -> VoterOrObserver:
        if replica.id in self.voters:
            return self.voter_states[replica.id]
        # Move the observer to the end: the one that fetched longest ago then comes first.
        observer = self.observer_states.pop(replica, None) or VoterOrObserver(replica)
        self.observer_states[replica] = observer
        self.forget_silent_observers(now_ms)
        if len(self.observer_states) > MAX_OBSERVERS:
            self.observer_states.pop(next(iter(self.observer_states)))
        return observer

    def forget_silent_observers(self, now_ms: int) -> None:
        """Drops observers that have not fetched within their session timeout."""
        for replica, state in list(self.observer_states.items()):
            if (
                state.last_fetch_ms == _UNKNOWN
                or now_ms - state.last_fetch_ms < OBSERVER_SESSION_MS
            ):
                break
            del self.observer_states[replica]

    def progress(
        self, now_ms: int
    ) -> tuple[tuple[ReplicaProgress, ...], tuple[ReplicaProgress, ...]]:
        """The voters and the observers for DescribeQuorum; static voters have no directory id."""
        self.forget_silent_observers(now_ms)
        voters = []
        for voter, state in self.voter_states.items():
            row = state.progress()
            if voter == self.local.id:
                row = replace(row, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms)
            voters.append(row)
        return tuple(voters), tuple(state.progress() for state in self.observer_states.values())
