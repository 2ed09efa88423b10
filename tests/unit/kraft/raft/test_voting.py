"""Who votes for whom, and what a candidate makes of the answers."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.messages import FetchRequest, VoteRequest, VoteResponse
from kraft.raft.outputs import PersistElection, SendRequest, SendResponse
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    RaftHarness,
    begin,
    endpoint,
    following,
    granted,
    log_of,
    rejected,
    standing,
    vote,
)

HERE, THERE = UUID(int=101), UUID(int=202)


# Voting.


def test_an_unattached_voter_votes_for_a_log_as_long_as_its_own_and_writes_it_down_first() -> None:
    node = RaftHarness(log=log_of(1, 2), stored=ElectionState(2)).start()

    response = node.vote(vote(3, 5, OffsetAndEpoch(2, 2)))

    assert response == granted(5)
    assert node.stored == ElectionState(5, voted_key=ReplicaKey(3))
    kinds = [type(output) for output in node.outputs]
    assert kinds.index(PersistElection) < kinds.index(SendResponse)


@pytest.mark.parametrize(
    ("log_end", "is_granted"),
    [
        (OffsetAndEpoch(4, 3), True),
        (OffsetAndEpoch(5, 3), True),
        (OffsetAndEpoch(1, 4), True),
        (OffsetAndEpoch(3, 3), False),
        (OffsetAndEpoch(100, 2), False),
    ],
)
def test_the_epoch_of_the_last_record_counts_before_the_length_of_the_log(
    log_end: OffsetAndEpoch, is_granted: bool
) -> None:
    node = RaftHarness(log=log_of(1, 2, 3, 3)).start()

    response = node.vote(vote(2, 5, log_end))

    assert response.vote_granted is is_granted
    assert response.error is ErrorCode.none
    assert response.leader_epoch == node.node.epoch == 5


def test_a_follower_votes_in_a_higher_epoch() -> None:
    node, _ = following(2, epoch=4)

    assert node.vote(vote(3, 5)).vote_granted
    assert node.stored == ElectionState(5, voted_key=ReplicaKey(3))


def test_a_follower_that_refuses_its_vote_takes_the_higher_epoch_over_nevertheless() -> None:
    node, _ = following(2, epoch=4, log=log_of(4))

    response = node.vote(vote(3, 5))

    assert not response.vote_granted
    assert (response.leader_id, response.leader_epoch) == (None, 5)
    assert node.stored == ElectionState(5)


def test_a_node_that_knows_the_leader_of_an_epoch_grants_no_vote_in_it_and_names_it() -> None:
    node, _ = following(2, epoch=4)

    response = node.vote(vote(3, 4))

    assert response == VoteResponse(
        leader_id=2, leader_epoch=4, leader_endpoint=endpoint(2), vote_granted=False
    )


def test_the_second_candidate_of_an_epoch_is_refused_and_the_first_gets_its_vote_again() -> None:
    node = RaftHarness().start()
    node.vote(vote(2, 5))
    deadline_ms = node.node.deadline_ms

    assert not node.vote(vote(3, 5, OffsetAndEpoch(9, 4))).vote_granted
    assert node.vote(vote(2, 5)).vote_granted

    assert node.of(PersistElection) == []
    assert node.node.deadline_ms == deadline_ms


def test_a_vote_outlives_a_restart() -> None:
    node = RaftHarness().start()
    node.vote(vote(2, 5))

    node.restart()

    assert not node.vote(vote(3, 5)).vote_granted
    assert node.vote(vote(2, 5)).vote_granted


def test_a_vote_gives_the_candidate_a_whole_election_timeout() -> None:
    node = RaftHarness().start()
    node.pass_ms(ELECTION_MS - 1)
    node.vote(vote(2, 5))

    node.run_ms(ELECTION_MS - 1)
    assert node.state() is StateName.UNATTACHED
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE
    assert node.node.epoch == 6


def test_an_older_epoch_is_fenced_with_the_epoch_and_leader_of_today() -> None:
    node, _ = following(2, epoch=4)

    response = node.vote(vote(3, 3))

    assert response == VoteResponse(
        error=ErrorCode.fenced_leader_epoch,
        leader_id=2,
        leader_epoch=4,
        leader_endpoint=endpoint(2),
    )


def test_a_leader_does_not_vote_in_its_own_epoch_but_yields_to_a_higher_one() -> None:
    node = RaftHarness().start().become_leader()

    same = node.vote(vote(3, 1))
    assert (same.vote_granted, same.leader_id) == (False, 1)
    higher = node.vote(vote(3, 2, OffsetAndEpoch(1, 1)))

    assert higher.vote_granted
    assert node.state() is StateName.UNATTACHED


def test_a_candidate_does_not_vote_in_its_own_epoch_but_yields_to_a_higher_one() -> None:
    node, _ = standing()

    assert not node.vote(vote(3, 1)).vote_granted
    assert node.vote(vote(3, 2)).vote_granted


def test_a_resigned_leader_does_not_vote_in_its_own_epoch() -> None:
    node = RaftHarness(stored=ElectionState(5, leader_id=1)).start()

    response = node.vote(vote(3, 5))

    assert (response.vote_granted, response.leader_id) == (False, 1)
    assert node.vote(vote(3, 6)).vote_granted


def test_whether_a_candidate_has_a_vote_itself_is_not_asked() -> None:
    node = RaftHarness().start()

    assert node.vote(vote(9, 5)).vote_granted
    assert not RaftHarness().start().become_leader().vote(vote(9, 1)).vote_granted


def test_an_observer_with_an_id_votes_and_one_without_does_not() -> None:
    assert RaftHarness(local=9).start().vote(vote(2, 5)).vote_granted
    assert not RaftHarness(local=None).start().vote(vote(2, 5)).vote_granted


@pytest.mark.parametrize(
    "key", [ReplicaKey(2), ReplicaKey(1, THERE)], ids=["another id", "another directory"]
)
def test_a_vote_meant_for_another_voter_is_refused_and_its_epoch_is_taken_over(
    key: ReplicaKey,
) -> None:
    node = RaftHarness(local=ReplicaKey(1, HERE)).start()

    response = node.vote(vote(3, 5, voter=key))

    assert response == VoteResponse(error=ErrorCode.invalid_voter_key, leader_epoch=5)
    assert node.stored == ElectionState(5)


@pytest.mark.parametrize("key", [None, ReplicaKey(1), ReplicaKey(1, HERE)])
def test_a_vote_may_name_this_voter_with_or_without_its_directory_or_not_at_all(
    key: ReplicaKey | None,
) -> None:
    node = RaftHarness(local=ReplicaKey(1, HERE)).start()

    assert node.vote(vote(3, 5, voter=key)).vote_granted


@pytest.mark.parametrize(
    "log_end",
    [OffsetAndEpoch(-1, 0), OffsetAndEpoch(0, -1), OffsetAndEpoch(0, 5), OffsetAndEpoch(0, 6)],
)
def test_a_candidates_log_ends_at_some_offset_in_an_epoch_before_its_own(
    log_end: OffsetAndEpoch,
) -> None:
    node = RaftHarness().start()

    response = node.vote(vote(3, 5, log_end))

    assert response.error is ErrorCode.invalid_request
    assert node.node.epoch == 0


def test_a_candidate_has_an_id() -> None:
    node = RaftHarness().start()

    assert node.vote(vote(-1, 5)).error is ErrorCode.invalid_request
    assert node.node.epoch == 0


def test_a_candidate_with_this_nodes_own_id_is_refused_and_changes_nothing() -> None:
    node = RaftHarness().start()

    response = node.vote(vote(1, 5))

    assert response.top_level_error is ErrorCode.unknown_server_error
    assert node.stored == ElectionState(0)


# What answers say.


def test_a_rejection_in_a_higher_epoch_ends_the_candidacy() -> None:
    node, (first, _) = standing()

    node.reply(first, VoteResponse(error=ErrorCode.fenced_leader_epoch, leader_epoch=7))

    assert node.state() is StateName.UNATTACHED
    assert node.stored == ElectionState(7)


def test_a_vote_answer_that_names_the_leader_of_the_epoch_makes_a_follower() -> None:
    node, (first, _) = standing()

    node.reply(first, VoteResponse(leader_id=3, leader_epoch=1, leader_endpoint=endpoint(3)))

    assert node.state() is StateName.FOLLOWER
    assert node.stored == ElectionState(1, leader_id=3)
    assert set(node.sends(FetchRequest)) == {3}


def test_a_vote_answer_to_who_has_become_a_follower_is_dropped() -> None:
    node, (first, _) = standing()
    node.begin(begin(3, 1))

    node.reply(first, granted(1))

    assert node.node.leader_and_epoch == (3, 1)


def test_a_vote_of_an_election_that_is_over_elects_no_leader() -> None:
    node, (first, second) = standing()
    for send in (first, second):
        node.reply(send, rejected(1))
    node.run_until_it_sends(VoteRequest)

    node.reply(first, granted(1))

    assert node.state() is StateName.CANDIDATE


def test_an_answer_of_an_older_epoch_says_nothing() -> None:
    node = RaftHarness().start()
    node.vote(vote(3, 5))
    first, _ = node.become_candidate()

    node.reply(first, granted(2))

    assert node.state() is StateName.CANDIDATE


def test_an_answer_that_names_this_node_as_the_leader_is_fatal_if_it_does_not_lead() -> None:
    node, (first, _) = standing()

    with pytest.raises(RaftFatal, match="names node 1"):
        node.reply(first, VoteResponse(leader_id=1, leader_epoch=1))


@pytest.mark.parametrize(
    "response",
    [
        VoteResponse(top_level_error=ErrorCode.inconsistent_cluster_id),
        VoteResponse(error=ErrorCode.invalid_request, leader_epoch=1),
        VoteResponse(error=ErrorCode.unknown_server_error, leader_epoch=1),
        VoteResponse(error=ErrorCode.broker_not_available, leader_epoch=1),
    ],
)
def test_a_voter_whose_answer_is_of_no_use_is_asked_again_after_a_pause(
    response: VoteResponse,
) -> None:
    node, (first, _) = standing()

    node.reply(first, response)
    assert node.of(SendRequest) == []
    node.run_ms(CONFIG.retry_backoff_ms)

    assert set(node.sends(VoteRequest)) == {first.destination_id}


def test_a_voter_that_is_taken_for_another_is_asked_again_at_once() -> None:
    node, (first, _) = standing()

    node.reply(first, VoteResponse(error=ErrorCode.invalid_voter_key, leader_epoch=1))

    assert set(node.sends(VoteRequest)) == {first.destination_id}
