"""The quorum state machine of a node: transitions, their conditions and what is persisted.

Source: Kafka ``QuorumState``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

from kafka_common.errors import RaftFatal
from kafka_common.observability.java_values import java_list
from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import LAST_EPOCH, MAX_EPOCH_LEAP, NEVER_MS, QuorumConfig
from kraft.raft.guards import require
from kraft.raft.leader_state import LeaderState
from kraft.raft.log_lines import RaftState, raft_logger, state_text
from kraft.raft.messages import Endpoints
from kraft.raft.request_manager import RandomSource
from kraft.raft.states import (
    VALID_PREVIOUS,
    CandidateState,
    FollowerState,
    ResignedState,
    UnattachedState,
)
from kraft.raft.values import (
    ElectionState,
    LeaderAndEpoch,
    OffsetAndEpoch,
    ReplicaKey,
    VoterSet,
)


class Quorum:
    """The quorum state of one node; ``persist`` gets each new election before the state changes."""

    def __init__(
        self,
        *,
        local: ReplicaKey | None,
        voters: VoterSet,
        config: QuorumConfig,
        random: RandomSource,
        local_endpoints: Endpoints,
        voter_endpoints: Callable[[int], Endpoints],
        persist: Callable[[ElectionState], None],
    ) -> None:
        self.local = local
        self.voters = voters
        self.state: RaftState = UnattachedState(0, NEVER_MS)
        self._config = config
        self._random = random
        self._local_endpoints = local_endpoints
        self._voter_endpoints = voter_endpoints
        self._persist = persist
        self._logger = raft_logger("QuorumState", local)
        self._timeout_ms = 0
        """The timeout with which the current state began, for log lines."""

    # Properties.

    @property
    def epoch(self) -> int:
        """The current epoch; it never falls."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of this epoch, None if unknown; a resigned node still names itself."""
        return self.state.leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The current epoch and the id of its leader, None if unknown."""
        return LeaderAndEpoch(self.leader_id, self.epoch)

    @property
    def leader_endpoints(self) -> Endpoints:
        """The leader's endpoints; empty if they are unknown."""
        match self.state:
            case LeaderState() | FollowerState() as state:
                return state.leader_endpoints
            case ResignedState():
                return self._local_endpoints
            case _:
                return {}

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed; None while unknown."""
        return self.state.high_watermark

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote; otherwise it is an observer."""
        return self.local is not None and self.local.id in self.voters

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self.local is not None and self.voters.is_only_voter(self.local.id)

    @property
    def has_remote_leader(self) -> bool:
        """Whether another node is the leader."""
        return self.leader_id is not None and not self.is_local(self.leader_id)

    def is_local(self, replica_id: int | None) -> bool:
        """Whether ``replica_id`` is the id of this node."""
        return self.local is not None and self.local.id == replica_id

    def is_credible(self, epoch: int) -> bool:
        """Whether this node accepts an epoch that another node reports.

        In the upper half of all epochs only a step of at most MAX_EPOCH_LEAP is accepted.
        Otherwise one broken message could use up all epochs, and no leader could ever be elected.
        Kafka accepts any epoch.
        """
        return epoch <= max(LAST_EPOCH // 2, self.epoch + MAX_EPOCH_LEAP)

    @property
    def has_next_epoch(self) -> bool:
        """Whether there is a higher epoch for another election."""
        return self.epoch < LAST_EPOCH

    # Transitions.

    def initialize(
        self, stored: ElectionState | None, log_end: OffsetAndEpoch, now_ms: int
    ) -> None:
        """Sets the first state from the stored election and the end of the log."""
        election = stored or ElectionState(0)
        if election.voted_key is not None and self.local is None:
            raise RaftFatal(
                f"a vote for {election.voted_key.id} is stored, but this node has no id"
            )
        if election.epoch < log_end.epoch:
            self._logger.warning(
                "Epoch from quorum store file is %d, which is smaller than last written epoch %d "
                "in the log",
                election.epoch, log_end.epoch,
            )  # fmt: skip
            election = ElectionState(log_end.epoch)
        state = self._initial_state(election, log_end, now_ms)
        self._timeout_ms = self._timeout_of(state, now_ms)
        after = state_text(state, self.voters.ids, self._timeout_ms)
        self._logger.info("Attempting durable transition to %s from null", after)
        self.state = state
        self._persist(state.election)
        self._logger.info("Completed transition to %s from null", after)

    def _initial_state(
        self, election: ElectionState, log_end: OffsetAndEpoch, now_ms: int
    ) -> RaftState:
        epoch, voted = election.epoch, election.voted_key
        leader = election.leader_id
        if voted is not None and self.is_local(voted.id) and log_end.epoch == epoch:
            # This node won the election: the first record of the epoch is in its log.  Every voter
            # would refuse it as a candidate of an epoch that already has records.
            leader, voted = voted.id, None
        if leader is not None and self.is_local(leader):
            # A restarted leader must not lead the same epoch again.  A crash may have lost its last
            # records, which other nodes have: it would write other records at their offsets.
            return self._resigned(epoch, (), now_ms)
        if voted is not None and self.is_local(voted.id) and self.is_voter:
            if self.local is None:
                raise RaftFatal("this node has no id")
            return CandidateState(
                epoch, self.local, self.voters, self._election_deadline_ms(now_ms)
            )
        deadline_ms = self._election_deadline_ms(now_ms)
        if leader is not None and (endpoints := self._voter_endpoints(leader)):
            return FollowerState(epoch, leader, endpoints, self.fetch_deadline_ms(now_ms))
        if leader is not None:
            self._logger.info(
                "The leader in election state %s is not a member of the latest voter set %s; "
                "transitioning to unattached instead of follower because the leader's endpoints "
                "are not known",
                election, java_list(self.voters),
            )  # fmt: skip
        return UnattachedState(epoch, deadline_ms, leader_id=leader, voted_key=voted)

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        """Moves to a higher epoch without a known leader.

        A leaderless voter keeps its election deadline: higher epochs must not delay elections.
        """
        state = self.state
        require(epoch > state.epoch, f"unattached in epoch {epoch} after {state.epoch}")
        match state:
            case UnattachedState() | CandidateState() if self.is_voter:
                deadline_ms = state.election_deadline_ms
            case _:
                deadline_ms = self._election_deadline_ms(now_ms)
        self._transition(
            UnattachedState(epoch, deadline_ms, high_watermark=state.high_watermark), now_ms
        )

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Votes for ``candidate`` in the current epoch."""
        state = self.state
        if not isinstance(state, UnattachedState):
            raise RaftFatal(f"a vote as {state}")
        require(state.voted_key is None, f"a second vote in epoch {state.epoch}")
        require(not self.is_local(candidate.id), "a vote for itself")
        self._transition(
            UnattachedState(
                state.epoch,
                self._election_deadline_ms(now_ms),
                voted_key=candidate,
                high_watermark=state.high_watermark,
            ),
            now_ms,
        )

    def become_follower(
        self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int
    ) -> None:
        """Becomes a follower of that leader in that epoch."""
        state = self.state
        require(bool(endpoints), f"leader {leader_id} without an endpoint")
        require(not self.is_local(leader_id), f"node {leader_id} follows itself")
        require(epoch >= state.epoch, f"follower in epoch {epoch} after {state.epoch}")
        if epoch == state.epoch:
            if isinstance(state, LeaderState):
                raise RaftFatal(f"two leaders of epoch {epoch}")
            if isinstance(state, FollowerState):
                require(state.leader_id == leader_id, f"two leaders of epoch {epoch}")
                require(len(endpoints) > len(state.leader_endpoints), "nothing new of the leader")
        self._transition(
            FollowerState(
                epoch,
                leader_id,
                endpoints,
                self.fetch_deadline_ms(now_ms),
                high_watermark=state.high_watermark,
            ),
            now_ms,
        )

    def become_candidate(self, now_ms: int) -> None:
        """Becomes a candidate in the next epoch."""
        state = self.state
        if self.local is None:
            raise RaftFatal("an observer does not stand")
        require(self.is_voter, "an observer does not stand")
        self._transition(
            CandidateState(
                state.epoch + 1,
                self.local,
                self.voters,
                self._election_deadline_ms(now_ms),
                retries=state.retries + 1 if isinstance(state, CandidateState) else 1,
                high_watermark=state.high_watermark,
            ),
            now_ms,
        )

    def put_off_election(self, now_ms: int) -> None:
        """Delays the next candidacy by an election timeout; not for a leader."""
        state, deadline_ms = self.state, max(now_ms + 1, self._random_deadline_ms(now_ms))
        match state:
            case UnattachedState() | ResignedState():
                state.election_deadline_ms = deadline_ms
            case CandidateState():
                state.backoff_deadline_ms = deadline_ms
            case FollowerState():
                state.fetch_deadline_ms = deadline_ms
            case LeaderState():
                raise AssertionError("a leader does not stand")
            case _:
                assert_never(state)

    def become_leader(self, end_offset: int, now_ms: int) -> LeaderState:
        """Becomes the leader after a majority voted for it; the epoch begins at the log's end."""
        state = self.state
        if not isinstance(state, CandidateState):
            raise RaftFatal(f"leads without a vote: {state}")
        require(state.is_vote_granted, f"no majority: {state}")
        linger_ms = self._config.append_linger_ms
        leader = LeaderState(
            state.epoch,
            state.local,
            self.voters,
            epoch_start_offset=end_offset,
            granting_voters=state.granting_voters,
            leader_endpoints=self._local_endpoints,
            accumulator=BatchAccumulator(state.epoch, end_offset, linger_ms),
            config=self._config,
            started_ms=now_ms,
        )
        self._transition(leader, now_ms)
        return leader

    def become_resigned(self, preferred_successors: tuple[ReplicaKey, ...], now_ms: int) -> None:
        """Resigns.  Nothing is persisted: a leader that restarts is resigned anyway."""
        if not isinstance(self.state, LeaderState):
            raise RaftFatal(f"in state {self.state}")
        self._enter(self._resigned(self.epoch, preferred_successors, now_ms), now_ms)

    def _resigned(
        self, epoch: int, preferred_successors: tuple[ReplicaKey, ...], now_ms: int
    ) -> ResignedState:
        if self.local is None:
            raise RaftFatal("this node has no id")
        others = list(self.voters.others(self.local.id))
        deadline_ms = self._random_deadline_ms(now_ms)
        return ResignedState(epoch, self.local.id, deadline_ms, others, preferred_successors)

    def _transition(self, state: RaftState, now_ms: int) -> None:
        self._log_transition("Attempting durable", state, now_ms)
        self._persist(state.election)
        self._enter(state, now_ms)

    def _enter(self, state: RaftState, now_ms: int) -> None:
        old = self.state
        require(state.epoch >= old.epoch, f"epoch {state.epoch} after {old.epoch}")
        require(old.name in VALID_PREVIOUS[state.name], f"{state.name} after {old.name}")
        self._log_transition("Completed", state, now_ms)
        self.state = state
        self._timeout_ms = self._timeout_of(state, now_ms)

    def _log_transition(self, done: str, state: RaftState, now_ms: int) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info(
                "%s transition to %s from %s",
                done,
                state_text(state, self.voters.ids, self._timeout_of(state, now_ms)),
                state_text(self.state, self.voters.ids, self._timeout_ms),
            )

    @staticmethod
    def _timeout_of(state: RaftState, now_ms: int) -> int:
        match state:
            case UnattachedState() | CandidateState() | ResignedState():
                deadline_ms = state.election_deadline_ms
            case FollowerState():
                deadline_ms = state.fetch_deadline_ms
            case LeaderState():
                deadline_ms = NEVER_MS
            case _:
                assert_never(state)
        return NEVER_MS if deadline_ms == NEVER_MS else max(0, deadline_ms - now_ms)

    def fetch_deadline_ms(self, now_ms: int) -> int:
        """The time at which a follower stops waiting for a leader that does not respond.

        All followers get their responses at the same moment.  With the same timeout they would all
        become candidates at the same moment and split the votes, as Kafka's do.
        """
        jitter_ms = self._config.fetch_jitter_ms if self.is_voter else 0
        longer_ms = self._random.randrange(jitter_ms) if jitter_ms else 0
        return now_ms + self._config.fetch_timeout_ms + longer_ms

    def _election_deadline_ms(self, now_ms: int) -> int:
        return self._random_deadline_ms(now_ms) if self.is_voter else NEVER_MS

    def _random_deadline_ms(self, now_ms: int) -> int:
        timeout = self._config.election_timeout_ms
        return now_ms + timeout + (self._random.randrange(timeout) if timeout else 0)
