"""Which state follows which, and what is written down first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from kafka_common.errors import RaftFatal
from kraft.raft.config import NEVER_MS
from kraft.raft.leader_state import LeaderState
from kraft.raft.messages import Endpoints
from kraft.raft.quorum import Quorum
from kraft.raft.states import (
    VALID_PREVIOUS,
    CandidateState,
    FollowerState,
    ResignedState,
    StateName,
    UnattachedState,
    Vote,
)
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    LISTENER,
    START_MS,
    FixedRandom,
    endpoint,
    voter_set,
)

OTHER = {LISTENER: endpoint(2)}
EMPTY_LOG = OffsetAndEpoch(0, 0)
LATER = START_MS + 400


class World:
    """The state of a node, and what it has written down."""

    def __init__(
        self,
        stored: ElectionState | None = None,
        *,
        local: int | None = 1,
        voters: Sequence[int] = (1, 2, 3),
        log_end: OffsetAndEpoch = EMPTY_LOG,
        randomness: int = 0,
    ) -> None:
        self.stored: list[ElectionState] = []
        self.random = FixedRandom(randomness)
        known = voter_set(*voters)
        self.quorum = Quorum(
            local=None if local is None else ReplicaKey(local),
            voters=known,
            config=CONFIG,
            random=self.random,
            local_endpoints={LISTENER: endpoint(1)},
            voter_endpoints=lambda voter: {LISTENER: endpoint(voter)} if voter in known else {},
            persist=self.stored.append,
        )
        self.quorum.initialize(stored, log_end, START_MS)


def as_unattached(epoch: int = 5) -> World:
    return World(ElectionState(epoch))


def as_voted(epoch: int = 5) -> World:
    return World(ElectionState(epoch, voted_key=ReplicaKey(2)))


def as_candidate(epoch: int = 5) -> World:
    return World(ElectionState(epoch, voted_key=ReplicaKey(1)))


def as_follower(epoch: int = 5) -> World:
    return World(ElectionState(epoch, leader_id=2))


def as_resigned(epoch: int = 5) -> World:
    return World(ElectionState(epoch, leader_id=1))


def as_leader(epoch: int = 5) -> World:
    world = as_candidate(epoch)
    candidate = world.quorum.state
    assert isinstance(candidate, CandidateState)
    candidate.record(2, Vote.GRANTED)
    world.quorum.become_leader(10, START_MS)
    return world


EVERY_STATE = pytest.mark.parametrize(
    "make",
    [as_unattached, as_voted, as_candidate, as_follower, as_resigned, as_leader],
    ids=["unattached", "voted", "candidate", "follower", "resigned", "leader"],
)
Maker = Callable[[], World]


# After a start.


@pytest.mark.parametrize("randomness", [0, 137, ELECTION_MS])
def test_without_a_stored_state_a_node_is_unattached_in_epoch_0_and_writes_that_down(
    randomness: int,
) -> None:
    world = World(randomness=randomness)

    drawn = min(randomness, ELECTION_MS - 1)
    assert world.quorum.state == UnattachedState(0, START_MS + ELECTION_MS + drawn)
    assert world.stored == [ElectionState(0)]


def test_a_stored_leader_with_a_known_endpoint_is_followed_with_a_full_fetch_timer() -> None:
    world = World(ElectionState(5, leader_id=2))

    assert world.quorum.state == FollowerState(5, 2, OTHER, START_MS + FETCH_MS)
    assert world.stored == [ElectionState(5, leader_id=2)]


def test_a_stored_leader_without_an_endpoint_is_remembered_and_no_vote_is_left() -> None:
    world = World(ElectionState(5, leader_id=9))

    state = world.quorum.state
    assert isinstance(state, UnattachedState)
    assert world.quorum.leader_id == 9
    assert not state.can_grant_vote(ReplicaKey(2), is_log_up_to_date=True)
    assert world.stored == [ElectionState(5, leader_id=9)]


def test_a_stored_vote_can_be_given_again_to_the_same_candidate_alone() -> None:
    state = as_voted().quorum.state

    assert isinstance(state, UnattachedState)
    assert state.can_grant_vote(ReplicaKey(2), is_log_up_to_date=False)
    assert not state.can_grant_vote(ReplicaKey(3), is_log_up_to_date=True)


def test_a_leader_that_restarts_is_resigned_in_the_same_epoch_without_successors() -> None:
    world = World(ElectionState(5, leader_id=1))

    assert world.quorum.state == ResignedState(5, 1, START_MS + ELECTION_MS, [2, 3])
    assert world.quorum.high_watermark is None


def test_a_node_that_voted_for_itself_is_a_candidate_of_the_same_epoch_again() -> None:
    state = as_candidate(5).quorum.state

    assert isinstance(state, CandidateState)
    assert (state.epoch, state.retries) == (5, 1)


def test_a_candidate_whose_epoch_has_records_had_won_and_starts_resigned() -> None:
    # As a candidate it would be refused: the logs of candidates end before their epoch.
    vote = ElectionState(5, voted_key=ReplicaKey(1))

    world = World(vote, log_end=OffsetAndEpoch(11, 5))

    assert isinstance(world.quorum.state, ResignedState)
    assert world.stored == [ElectionState(5, leader_id=1)]


def test_a_stored_epoch_below_the_logs_is_forgotten_with_its_leader_and_its_vote() -> None:
    for stored in (ElectionState(5, leader_id=2), ElectionState(5, voted_key=ReplicaKey(1))):
        world = World(stored, log_end=OffsetAndEpoch(10, 6))

        assert world.quorum.state == UnattachedState(6, START_MS + ELECTION_MS)
        assert world.stored == [ElectionState(6)]


def test_a_stored_epoch_equal_to_the_logs_is_kept() -> None:
    world = World(ElectionState(6, leader_id=2), log_end=OffsetAndEpoch(10, 6))

    assert world.quorum.leader_and_epoch == (2, 6)


def test_a_stored_vote_without_an_id_of_ones_own_is_fatal() -> None:
    with pytest.raises(RaftFatal, match="no id"):
        World(ElectionState(5, voted_key=ReplicaKey(2)), local=None)


def test_a_node_without_an_id_is_an_observer_that_never_stands() -> None:
    quorum = World(local=None).quorum

    assert not quorum.is_voter
    assert isinstance(quorum.state, UnattachedState)
    assert quorum.state.election_deadline_ms == NEVER_MS
    with pytest.raises(RaftFatal, match="does not stand"):
        quorum.become_candidate(LATER)


# To candidate and leader.


def test_a_candidate_without_a_majority_does_not_lead() -> None:
    world = as_candidate()

    with pytest.raises(RaftFatal, match="no majority"):
        world.quorum.become_leader(10, LATER)


def test_a_candidate_with_a_majority_leads_its_epoch_and_writes_that_down() -> None:
    world = as_leader(5)

    assert world.quorum.leader_and_epoch == (1, 5)
    assert world.stored[-1] == ElectionState(5, leader_id=1)


def test_a_follower_that_stands_counts_the_epoch_on_and_votes_for_itself() -> None:
    world = as_follower(5)

    world.quorum.become_candidate(LATER)

    assert world.quorum.leader_and_epoch == (None, 6)
    assert world.stored[-1] == ElectionState(6, voted_key=ReplicaKey(1))


def test_every_election_that_is_lost_counts_as_a_retry() -> None:
    world = as_follower(5)
    retries = []

    for _ in range(3):
        world.quorum.become_candidate(LATER)
        assert isinstance(world.quorum.state, CandidateState)
        retries.append((world.quorum.epoch, world.quorum.state.retries))

    assert retries == [(6, 1), (7, 2), (8, 3)]


def test_an_observer_may_hold_a_vote_but_neither_stand_nor_lead() -> None:
    quorum = World(local=4).quorum
    quorum.become_unattached(3, LATER)

    quorum.vote_for(ReplicaKey(2), LATER)

    assert quorum.state.election == ElectionState(3, voted_key=ReplicaKey(2))
    with pytest.raises(RaftFatal, match="does not stand"):
        quorum.become_candidate(LATER)
    with pytest.raises(RaftFatal, match="without a vote"):
        quorum.become_leader(0, LATER)


@pytest.mark.parametrize("make", [as_unattached, as_voted, as_follower, as_resigned])
def test_only_a_candidate_can_lead(make: Maker) -> None:
    world = make()
    before = world.quorum.state

    with pytest.raises(RaftFatal, match="leads without a vote"):
        world.quorum.become_leader(10, LATER)

    assert world.quorum.state is before


@pytest.mark.parametrize("make", [as_unattached, as_voted, as_candidate, as_follower])
def test_only_a_leader_can_resign(make: Maker) -> None:
    world = make()

    with pytest.raises(RaftFatal):
        world.quorum.become_resigned((), LATER)


def test_a_resigned_leader_keeps_epoch_and_id_and_writes_nothing() -> None:
    world = as_leader(5)
    written = list(world.stored)

    world.quorum.become_resigned((ReplicaKey(2), ReplicaKey(3)), LATER)

    assert world.quorum.leader_and_epoch == (1, 5)
    assert world.stored == written
    assert world.quorum.state.election == ElectionState(5, leader_id=1)


def test_a_leader_does_not_stand_against_itself() -> None:
    world = as_leader()

    with pytest.raises(RaftFatal, match="candidate after leader"):
        world.quorum.become_candidate(LATER)


# To follower.


@pytest.mark.parametrize("epoch", [5, 6])
def test_a_candidate_follows_in_its_epoch_and_in_a_later_one(epoch: int) -> None:
    world = as_candidate(5)

    world.quorum.become_follower(epoch, 2, OTHER, LATER)

    assert world.quorum.state == FollowerState(epoch, 2, OTHER, LATER + FETCH_MS)
    assert world.stored[-1] == ElectionState(epoch, leader_id=2)


@pytest.mark.parametrize("make", [as_unattached, as_voted])
@pytest.mark.parametrize("epoch", [5, 6])
def test_an_unattached_node_follows_in_its_epoch_and_in_a_later_one_with_a_full_timer(
    make: Maker, epoch: int
) -> None:
    world = make()

    world.quorum.become_follower(epoch, 3, OTHER, LATER)

    assert world.quorum.state == FollowerState(epoch, 3, OTHER, LATER + FETCH_MS)


def test_a_follower_changes_to_itself_only_for_more_endpoints_of_the_same_leader() -> None:
    world = as_follower(5)
    more: Endpoints = {**OTHER, "OTHER": endpoint(2)}

    with pytest.raises(RaftFatal, match="nothing new"):
        world.quorum.become_follower(5, 2, OTHER, LATER)
    with pytest.raises(RaftFatal, match="two leaders"):
        world.quorum.become_follower(5, 3, more, LATER)
    world.quorum.become_follower(5, 2, more, LATER)

    assert world.quorum.leader_endpoints == more


def test_a_leader_does_not_follow_in_its_own_epoch() -> None:
    world = as_leader(5)

    with pytest.raises(RaftFatal, match="two leaders"):
        world.quorum.become_follower(5, 2, OTHER, LATER)
    world.quorum.become_follower(6, 2, OTHER, LATER)

    assert world.quorum.leader_and_epoch == (2, 6)


def test_no_node_follows_itself_or_a_leader_without_an_endpoint() -> None:
    world = as_unattached(5)

    with pytest.raises(RaftFatal, match="follows itself"):
        world.quorum.become_follower(6, 1, OTHER, LATER)
    with pytest.raises(RaftFatal, match="without an endpoint"):
        world.quorum.become_follower(6, 2, {}, LATER)


def test_a_voter_may_follow_a_leader_that_has_no_vote() -> None:
    world = as_unattached(5)

    world.quorum.become_follower(5, 9, {LISTENER: endpoint(9)}, LATER)

    assert world.quorum.leader_id == 9


# To unattached, and votes.


def test_a_candidate_loses_its_epoch_only_to_a_higher_one_and_its_timer_runs_on() -> None:
    world = as_candidate(5)
    world.random.number = 500

    with pytest.raises(RaftFatal):
        world.quorum.become_unattached(5, LATER)
    world.quorum.become_unattached(6, LATER)

    assert world.quorum.state == UnattachedState(6, START_MS + ELECTION_MS)


@pytest.mark.parametrize("make", [as_unattached, as_voted])
def test_an_unattached_nodes_timer_runs_on_in_a_higher_epoch(make: Maker) -> None:
    world = make()
    world.random.number = 500

    world.quorum.become_unattached(7, LATER)

    assert world.quorum.state == UnattachedState(7, START_MS + ELECTION_MS)


@pytest.mark.parametrize("make", [as_follower, as_leader, as_resigned])
def test_any_other_state_gets_a_fresh_timer_in_a_higher_epoch(make: Maker) -> None:
    world = make()
    world.random.number = 500

    world.quorum.become_unattached(7, LATER)

    state = world.quorum.state
    assert isinstance(state, UnattachedState)
    assert (state.epoch, state.election_deadline_ms) == (7, LATER + ELECTION_MS + 500)


@EVERY_STATE
def test_the_same_epoch_makes_no_state_unattached(make: Maker) -> None:
    world = make()
    before = world.quorum.state

    with pytest.raises(RaftFatal):
        world.quorum.become_unattached(5, LATER)

    assert world.quorum.state is before


@EVERY_STATE
def test_a_lower_epoch_changes_no_state(make: Maker) -> None:
    world = make()
    before, written = world.quorum.state, list(world.stored)

    with pytest.raises(RaftFatal):
        world.quorum.become_unattached(4, LATER)
    with pytest.raises(RaftFatal):
        world.quorum.become_follower(4, 2, OTHER, LATER)

    assert world.quorum.state is before
    assert world.stored == written


@pytest.mark.parametrize("make", [as_candidate, as_follower, as_leader, as_resigned])
def test_a_vote_is_granted_only_by_unattached_nodes(make: Maker) -> None:
    world = make()

    with pytest.raises(RaftFatal, match="a vote as"):
        world.quorum.vote_for(ReplicaKey(3), LATER)
    world.quorum.become_unattached(6, LATER)
    world.quorum.vote_for(ReplicaKey(3), LATER)

    assert world.stored[-1] == ElectionState(6, voted_key=ReplicaKey(3))


@pytest.mark.parametrize("candidate", [2, 3])
def test_there_is_no_second_vote_in_an_epoch_not_even_for_the_same_candidate(
    candidate: int,
) -> None:
    world = as_voted()

    with pytest.raises(RaftFatal, match="second vote"):
        world.quorum.vote_for(ReplicaKey(candidate), LATER)


def test_no_voter_is_asked_for_a_vote_for_itself() -> None:
    world = as_unattached()

    with pytest.raises(RaftFatal, match="for itself"):
        world.quorum.vote_for(ReplicaKey(1), LATER)


def test_a_vote_starts_the_election_timer_anew() -> None:
    world = as_unattached(5)
    world.random.number = 250

    world.quorum.vote_for(ReplicaKey(2, UUID(int=7)), LATER)

    state = world.quorum.state
    assert isinstance(state, UnattachedState)
    assert state.election_deadline_ms == LATER + ELECTION_MS + 250
    assert world.stored[-1] == ElectionState(5, voted_key=ReplicaKey(2, UUID(int=7)))


# What is kept.


def test_the_high_watermark_outlives_every_state_but_leadership() -> None:
    world = as_follower(5)
    quorum = world.quorum
    assert isinstance(quorum.state, FollowerState)
    quorum.state.update_high_watermark(42)

    kept = []
    quorum.become_unattached(6, LATER)
    kept.append(quorum.high_watermark)
    quorum.vote_for(ReplicaKey(3), LATER)
    kept.append(quorum.high_watermark)
    quorum.become_candidate(LATER)
    kept.append(quorum.high_watermark)
    quorum.become_follower(7, 2, OTHER, LATER)
    kept.append(quorum.high_watermark)
    quorum.become_candidate(LATER)
    assert isinstance(quorum.state, CandidateState)
    quorum.state.record(3, Vote.GRANTED)
    quorum.become_leader(50, LATER)

    assert kept == [42, 42, 42, 42]
    assert quorum.high_watermark is None


def test_a_leaders_high_watermark_is_carried_over_but_not_by_resignation() -> None:
    deposed, resigned = as_leader(5), as_leader(5)
    for world in (deposed, resigned):
        assert isinstance(world.quorum.state, LeaderState)
        world.quorum.state.appended(12)
        world.quorum.state.replica_fetched(ReplicaKey(2), 12, LATER)

    deposed.quorum.become_unattached(6, LATER)
    resigned.quorum.become_resigned((), LATER)

    assert deposed.quorum.high_watermark == 12
    assert resigned.quorum.high_watermark is None


@pytest.mark.parametrize(
    ("make", "is_remote"),
    [
        (as_unattached, False),
        (as_voted, False),
        (as_candidate, False),
        (as_leader, False),
        (as_resigned, False),
        (as_follower, True),
    ],
)
def test_only_a_follower_has_a_leader_elsewhere(make: Maker, is_remote: bool) -> None:
    assert make().quorum.has_remote_leader is is_remote


def test_the_leaders_endpoints_are_ones_own_for_a_leader_and_after_resignation() -> None:
    own = {LISTENER: endpoint(1)}

    assert as_leader().quorum.leader_endpoints == own
    assert as_resigned().quorum.leader_endpoints == own
    assert as_follower().quorum.leader_endpoints == OTHER
    assert as_candidate().quorum.leader_endpoints == {}


def test_every_state_can_be_left_and_only_candidates_lead_and_only_leaders_resign() -> None:
    assert set(VALID_PREVIOUS) == set(StateName)
    assert VALID_PREVIOUS[StateName.LEADER] == {StateName.CANDIDATE}
    assert VALID_PREVIOUS[StateName.RESIGNED] == {StateName.LEADER}
    assert StateName.LEADER not in VALID_PREVIOUS[StateName.CANDIDATE]
    assert {before for befores in VALID_PREVIOUS.values() for before in befores} == set(StateName)


def test_two_followers_of_one_leader_do_not_give_it_up_at_the_same_time() -> None:
    """Else both stand for leader at once, and split the votes."""
    deadlines = [
        World(local=local, randomness=randomness).quorum.fetch_deadline_ms(START_MS)
        for local, randomness in ((1, 0), (2, CONFIG.fetch_jitter_ms - 1), (None, 7))
    ]

    longest = START_MS + FETCH_MS + CONFIG.fetch_jitter_ms - 1
    assert deadlines == [START_MS + FETCH_MS, longest, START_MS + FETCH_MS]
    assert CONFIG.fetch_jitter_ms == FETCH_MS // 4
