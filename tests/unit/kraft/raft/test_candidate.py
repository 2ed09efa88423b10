"""Who votes for a candidate, whom an unattached node votes for, and what a follower keeps."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_common.errors import RaftFatal
from kraft.raft.states import CandidateState, FollowerState, ResignedState, UnattachedState, Vote
from kraft.raft.values import ElectionState, ReplicaKey
from tests.support.raft_harness import LISTENER, endpoint, voter_set

HERE, THERE = UUID(int=101), UUID(int=202)


def candidate(*voters: int) -> CandidateState:
    return CandidateState(5, ReplicaKey(1), voter_set(*voters), 1000)


def follower() -> FollowerState:
    return FollowerState(5, 2, {LISTENER: endpoint(2)}, 2000)


# Candidates.


def test_a_lone_voter_is_elected_by_its_own_vote() -> None:
    assert candidate(1).is_vote_granted


def test_of_two_voters_both_must_agree() -> None:
    standing = candidate(1, 2)

    assert not standing.is_vote_granted
    standing.record(2, Vote.GRANTED)

    assert standing.is_vote_granted
    assert standing.granting_voters == (1, 2)


def test_of_two_voters_one_rejection_decides() -> None:
    standing = candidate(1, 2)

    standing.record(2, Vote.REJECTED)

    assert standing.is_vote_rejected


def test_of_three_voters_one_rejection_leaves_it_open_and_two_decide() -> None:
    standing = candidate(1, 2, 3)

    standing.record(2, Vote.REJECTED)
    assert not standing.is_vote_rejected
    assert standing.unrecorded_voters == (3,)
    standing.record(3, Vote.REJECTED)

    assert standing.is_vote_rejected
    assert not standing.is_vote_granted


def test_of_three_voters_one_grant_is_enough() -> None:
    standing = candidate(1, 2, 3)

    standing.record(3, Vote.GRANTED)

    assert standing.is_vote_granted
    assert standing.granting_voters == (1, 3)


def test_of_four_voters_two_are_no_majority() -> None:
    standing = candidate(1, 2, 3, 4)

    standing.record(2, Vote.GRANTED)
    assert not standing.is_vote_granted
    standing.record(3, Vote.REJECTED)
    standing.record(4, Vote.REJECTED)

    assert standing.is_vote_rejected


@pytest.mark.parametrize(
    ("first", "then"), [(Vote.GRANTED, Vote.REJECTED), (Vote.REJECTED, Vote.GRANTED)]
)
def test_a_voter_that_changes_its_mind_lies(first: Vote, then: Vote) -> None:
    standing = candidate(1, 2, 3)
    standing.record(2, first)

    with pytest.raises(RaftFatal, match="and then"):
        standing.record(2, then)


def test_its_own_vote_cannot_be_taken_back() -> None:
    with pytest.raises(RaftFatal, match="and then"):
        candidate(1, 2, 3).record(1, Vote.REJECTED)


@pytest.mark.parametrize("vote", [Vote.GRANTED, Vote.REJECTED])
def test_a_repeated_answer_changes_nothing(vote: Vote) -> None:
    standing = candidate(1, 2, 3)

    assert standing.record(2, vote)
    assert not standing.record(2, vote)


@pytest.mark.parametrize("vote", [Vote.GRANTED, Vote.REJECTED])
def test_a_node_that_is_no_voter_has_no_answer(vote: Vote) -> None:
    with pytest.raises(KeyError):
        candidate(1, 2, 3).record(4, vote)


def test_a_node_without_a_vote_is_no_candidate() -> None:
    with pytest.raises(RaftFatal, match="has no vote"):
        candidate(2, 3)


def test_a_candidate_has_voted_for_itself_with_its_directory() -> None:
    local = ReplicaKey(1, HERE)
    standing = CandidateState(5, local, voter_set(1, 2, 3), 1000)

    assert standing.election == ElectionState(5, voted_key=local)


# Votes of an unattached node.


def test_an_unattached_node_votes_for_an_up_to_date_log_only() -> None:
    unattached = UnattachedState(5, 1000)

    assert unattached.can_grant_vote(ReplicaKey(2), is_log_up_to_date=True)
    assert not unattached.can_grant_vote(ReplicaKey(2), is_log_up_to_date=False)


@pytest.mark.parametrize("is_up_to_date", [True, False])
def test_an_unattached_node_that_knows_the_leader_grants_no_vote(is_up_to_date: bool) -> None:
    unattached = UnattachedState(5, 1000, leader_id=9)

    assert not unattached.can_grant_vote(ReplicaKey(9), is_log_up_to_date=is_up_to_date)
    assert unattached.election == ElectionState(5, leader_id=9)


@pytest.mark.parametrize("directory", [None, HERE, THERE])
def test_a_vote_without_a_directory_is_repeated_for_any_directory_of_that_id(
    directory: UUID | None,
) -> None:
    voted = UnattachedState(5, 1000, voted_key=ReplicaKey(2))

    assert voted.can_grant_vote(ReplicaKey(2, directory), is_log_up_to_date=False)


@pytest.mark.parametrize(("directory", "expected"), [(HERE, True), (THERE, False), (None, False)])
def test_a_vote_with_a_directory_is_repeated_for_that_directory_alone(
    directory: UUID | None, expected: bool
) -> None:
    voted = UnattachedState(5, 1000, voted_key=ReplicaKey(2, HERE))

    assert voted.can_grant_vote(ReplicaKey(2, directory), is_log_up_to_date=True) is expected


# Followers and resigned leaders.


def test_a_follower_takes_a_higher_high_watermark_over_and_knows_an_equal_one() -> None:
    following = follower()

    assert following.update_high_watermark(0)
    assert not following.update_high_watermark(0)
    assert following.update_high_watermark(7)
    assert following.high_watermark == 7


def test_a_followers_high_watermark_never_falls() -> None:
    following = follower()
    following.update_high_watermark(7)

    with pytest.raises(RaftFatal, match="7 and then 6"):
        following.update_high_watermark(6)

    assert following.high_watermark == 7


def test_a_voters_acknowledgement_of_a_resignation_counts_once() -> None:
    resigned = ResignedState(5, 1, 1000, [2, 3])

    resigned.acknowledge(3)
    resigned.acknowledge(3)

    assert resigned.unacked_voters == [2]
    assert resigned.election == ElectionState(5, leader_id=1)
