"""Which state a node is in: every transition, what it needs, and what it must write down first.

Source: Kafka ``QuorumState``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias, assert_never

from zkcontroller.errors import RaftFatal
from zkcontroller.kraft.accumulator import BatchAccumulator
from zkcontroller.kraft.config import LAST_EPOCH, MAX_EPOCH_LEAP, NEVER_MS, QuorumConfig
from zkcontroller.kraft.guards import require
from zkcontroller.kraft.leader_state import Leader
from zkcontroller.kraft.messages import Endpoints
from zkcontroller.kraft.request_manager import RandomSource
from zkcontroller.kraft.states import VALID_PREVIOUS, Candidate, Follower, Resigned, Unattached
from zkcontroller.kraft.values import (
    ElectionState,
    LeaderAndEpoch,
    OffsetAndEpoch,
    ReplicaKey,
    VoterSet,
)

RaftState: TypeAlias = Unattached | Candidate | Leader | Follower | Resigned

_log: Final = logging.getLogger("org.apache.kafka.raft.QuorumState")


class Quorum:
    """The state of one node.  ``persist`` is called before a change, with what must be on disk."""

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
        self.state: RaftState = Unattached(0, NEVER_MS)
        self._config = config
        self._random = random
        self._local_endpoints = local_endpoints
        self._voter_endpoints = voter_endpoints
        self._persist = persist

    # Looks.

    @property
    def epoch(self) -> int:
        """Never falls."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """Of this epoch, if known; of a node that has resigned, itself."""
        return self.state.leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """Both."""
        return LeaderAndEpoch(self.leader_id, self.epoch)

    @property
    def leader_endpoints(self) -> Endpoints:
        """Where the leader can be reached; empty if that is not known."""
        match self.state:
            case Leader() | Follower() as state:
                return state.leader_endpoints
            case Resigned():
                return self._local_endpoints
            case _:
                return {}

    @property
    def high_watermark(self) -> int | None:
        """Everything below it is committed; None as long as nothing is known to be."""
        return self.state.high_watermark

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote; otherwise it is an observer."""
        return self.local is not None and self.local.id in self.voters

    @property
    def is_only_voter(self) -> bool:
        """Whether it is alone."""
        return self.local is not None and self.voters.is_only_voter(self.local.id)

    @property
    def has_remote_leader(self) -> bool:
        """Whether somebody else leads."""
        return self.leader_id is not None and not self.is_local(self.leader_id)

    def is_local(self, replica_id: int | None) -> bool:
        """Whether that is this node."""
        return self.local is not None and self.local.id == replica_id

    def is_credible(self, epoch: int) -> bool:
        """Whether somebody may be believed that this epoch has begun.

        In the upper half of all epochs only small steps are: else a single broken message could
        leave the quorum without epochs to elect a leader in, for good.  Kafka believes any.
        """
        return epoch <= max(LAST_EPOCH // 2, self.epoch + MAX_EPOCH_LEAP)

    @property
    def has_next_epoch(self) -> bool:
        """Whether there is an epoch left to stand in."""
        return self.epoch < LAST_EPOCH

    # Transitions.

    def initialize(
        self, stored: ElectionState | None, log_end: OffsetAndEpoch, now_ms: int
    ) -> None:
        """The state after a start, out of what was written down and where the log ends."""
        election = stored or ElectionState(0)
        if election.voted_key is not None and self.local is None:
            raise RaftFatal(
                f"a vote for {election.voted_key.id} is stored, but this node has no id"
            )
        if election.epoch < log_end.epoch:
            _log.warning(
                "Epoch from quorum store file (%d) is smaller than last epoch written in the log "
                "(%d)",
                election.epoch, log_end.epoch,
            )  # fmt: skip
            election = ElectionState(log_end.epoch)
        self.state = self._initial_state(election, log_end, now_ms)
        self._persist(self.state.election)
        _log.info("Starting as %s in epoch %d", self.state.name, self.epoch)

    def _initial_state(
        self, election: ElectionState, log_end: OffsetAndEpoch, now_ms: int
    ) -> RaftState:
        epoch, voted = election.epoch, election.voted_key
        leader = election.leader_id
        if voted is not None and self.is_local(voted.id) and log_end.epoch == epoch:
            # It had won: the epoch's first record is in the log.  As a candidate of an epoch that
            # has records it would be refused by everybody.
            leader, voted = voted.id, None
        if leader is not None and self.is_local(leader):
            # No second vote in this epoch, and no second record for an offset of its lost tail.
            return self._resigned(epoch, (), now_ms)
        if voted is not None and self.is_local(voted.id) and self.is_voter:
            if self.local is None:
                raise RaftFatal("this node has no id")
            return Candidate(epoch, self.local, self.voters, self._election_deadline_ms(now_ms))
        deadline_ms = self._election_deadline_ms(now_ms)
        if leader is not None and (endpoints := self._voter_endpoints(leader)):
            return Follower(epoch, leader, endpoints, self.fetch_deadline_ms(now_ms))
        return Unattached(epoch, deadline_ms, leader_id=leader, voted_key=voted)

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        """A higher epoch has begun somewhere, and nobody is known to lead it.

        Whoever was about to stand goes on counting: epochs of others do not keep it from it.
        """
        state = self.state
        require(epoch > state.epoch, f"unattached in epoch {epoch} after {state.epoch}")
        match state:
            case Unattached() | Candidate() if self.is_voter:
                deadline_ms = state.election_deadline_ms
            case _:
                deadline_ms = self._election_deadline_ms(now_ms)
        self._transition(Unattached(epoch, deadline_ms, high_watermark=state.high_watermark))

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """This node's one vote of this epoch goes to that candidate."""
        state = self.state
        if not isinstance(state, Unattached):
            raise RaftFatal(f"a vote as {state}")
        require(state.voted_key is None, f"a second vote in epoch {state.epoch}")
        require(not self.is_local(candidate.id), "a vote for itself")
        self._transition(
            Unattached(
                state.epoch,
                self._election_deadline_ms(now_ms),
                voted_key=candidate,
                high_watermark=state.high_watermark,
            )
        )

    def become_follower(
        self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int
    ) -> None:
        """That node leads that epoch."""
        state = self.state
        require(bool(endpoints), f"leader {leader_id} without an endpoint")
        require(not self.is_local(leader_id), f"node {leader_id} follows itself")
        require(epoch >= state.epoch, f"follower in epoch {epoch} after {state.epoch}")
        if epoch == state.epoch:
            if isinstance(state, Leader):
                raise RaftFatal(f"two leaders of epoch {epoch}")
            if isinstance(state, Follower):
                require(state.leader_id == leader_id, f"two leaders of epoch {epoch}")
                require(len(endpoints) > len(state.leader_endpoints), "nothing new of the leader")
        self._transition(
            Follower(
                epoch,
                leader_id,
                endpoints,
                self.fetch_deadline_ms(now_ms),
                high_watermark=state.high_watermark,
            )
        )

    def become_candidate(self, now_ms: int) -> None:
        """Stands in the next epoch."""
        state = self.state
        if self.local is None:
            raise RaftFatal("an observer does not stand")
        require(self.is_voter, "an observer does not stand")
        self._transition(
            Candidate(
                state.epoch + 1,
                self.local,
                self.voters,
                self._election_deadline_ms(now_ms),
                retries=state.retries + 1 if isinstance(state, Candidate) else 1,
                high_watermark=state.high_watermark,
            )
        )

    def put_off_election(self, now_ms: int) -> None:
        """Stays what it is for another election timeout; who leads does not stand."""
        state, deadline_ms = self.state, max(now_ms + 1, self._random_deadline_ms(now_ms))
        match state:
            case Unattached() | Resigned():
                state.election_deadline_ms = deadline_ms
            case Candidate():
                state.backoff_deadline_ms = deadline_ms
            case Follower():
                state.fetch_deadline_ms = deadline_ms
            case Leader():
                raise AssertionError("a leader does not stand")
            case _:
                assert_never(state)

    def become_leader(self, end_offset: int, now_ms: int) -> Leader:
        """A majority has voted for this node; its epoch begins at the end of its log."""
        state = self.state
        if not isinstance(state, Candidate):
            raise RaftFatal(f"leads without a vote: {state}")
        require(state.is_vote_granted, f"no majority: {state}")
        linger_ms = self._config.append_linger_ms
        leader = Leader(
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
        self._transition(leader)
        return leader

    def become_resigned(self, preferred_successors: tuple[ReplicaKey, ...], now_ms: int) -> None:
        """Leads no more.  Nothing is written down: after a restart it has resigned as well."""
        if not isinstance(self.state, Leader):
            raise RaftFatal(f"in state {self.state}")
        self._enter(self._resigned(self.epoch, preferred_successors, now_ms))

    def _resigned(
        self, epoch: int, preferred_successors: tuple[ReplicaKey, ...], now_ms: int
    ) -> Resigned:
        if self.local is None:
            raise RaftFatal("this node has no id")
        others = list(self.voters.others(self.local.id))
        deadline_ms = self._random_deadline_ms(now_ms)
        return Resigned(epoch, self.local.id, deadline_ms, others, preferred_successors)

    def _transition(self, state: RaftState) -> None:
        self._persist(state.election)
        self._enter(state)

    def _enter(self, state: RaftState) -> None:
        old = self.state
        require(state.epoch >= old.epoch, f"epoch {state.epoch} after {old.epoch}")
        require(old.name in VALID_PREVIOUS[state.name], f"{state.name} after {old.name}")
        self.state = state
        _log.info(
            "Completed transition to %s in epoch %d from %s", state.name, state.epoch, old.name
        )

    def fetch_deadline_ms(self, now_ms: int) -> int:
        """When a follower gives its leader up, unless the leader answers before.

        The followers of a leader are answered at the same moment, so with the same timeout they
        would all stand at the same moment and split the votes, as Kafka's do.
        """
        jitter_ms = self._config.fetch_jitter_ms if self.is_voter else 0
        longer_ms = self._random.randrange(jitter_ms) if jitter_ms else 0
        return now_ms + self._config.fetch_timeout_ms + longer_ms

    def _election_deadline_ms(self, now_ms: int) -> int:
        return self._random_deadline_ms(now_ms) if self.is_voter else NEVER_MS

    def _random_deadline_ms(self, now_ms: int) -> int:
        timeout = self._config.election_timeout_ms
        return now_ms + timeout + (self._random.randrange(timeout) if timeout else 0)
