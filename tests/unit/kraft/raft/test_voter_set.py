"""Static voters, and the words of elections."""

from __future__ import annotations

import pytest

from kafka_common.errors import RaftFatal
from kraft.raft.values import ElectionState, ReplicaKey
from tests.support.raft_harness import endpoint, voter_set


def test_voters_come_in_the_order_of_their_ids() -> None:
    voters = voter_set(3, 1, 2)

    assert voters.ids == (1, 2, 3)
    assert list(voters) == [1, 2, 3]
    assert voters.endpoints[3] == endpoint(3)


def test_an_id_is_all_that_makes_a_static_voter() -> None:
    voters = voter_set(1, 2, 3)

    assert 2 in voters
    assert 4 not in voters
    assert None not in voters


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    assert voter_set(*range(count)).majority == majority
    assert len(voter_set(*range(count))) == count


def test_the_others_are_all_voters_for_who_is_none() -> None:
    voters = voter_set(1, 2, 3)

    assert voters.others(2) == (1, 3)
    assert voters.others(9) == voters.others(None) == (1, 2, 3)


def test_only_a_lone_voter_is_the_only_one() -> None:
    assert voter_set(1).is_only_voter(1)
    assert not voter_set(1).is_only_voter(2)
    assert not voter_set(1).is_only_voter(None)
    assert not voter_set(1, 2).is_only_voter(1)


def test_an_election_covers_epoch_leader_and_vote() -> None:
    voted = ElectionState(5, voted_key=ReplicaKey(2))

    assert voted == ElectionState(5, voted_key=ReplicaKey(2))
    assert voted != ElectionState(6, voted_key=ReplicaKey(2))
    assert voted != ElectionState(5, voted_key=ReplicaKey(3))
    assert voted != ElectionState(5, leader_id=2)


def test_there_is_no_leader_and_vote_at_once_and_no_epoch_below_0() -> None:
    with pytest.raises(RaftFatal, match="a leader and a vote"):
        ElectionState(5, leader_id=1, voted_key=ReplicaKey(2))
    with pytest.raises(RaftFatal, match="epoch -1"):
        ElectionState(-1)
