"""What a node makes of an election that it finds written down and that no longer fits."""

from __future__ import annotations

import pytest

from kraft.raft.messages import VoteRequest
from kraft.raft.outputs import SendRequest
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import ELECTION_MS, RaftHarness, log_of, vote


def test_records_of_the_epoch_that_a_node_has_voted_in_do_not_say_who_wrote_them() -> None:
    voted = ElectionState(5, voted_key=ReplicaKey(2))
    node = RaftHarness(stored=voted, log=log_of(4, 5)).start()

    assert node.state() is StateName.UNATTACHED
    assert node.stored == voted
    assert node.node.leader_and_epoch == (None, 5)
    assert node.vote(vote(2, 5, OffsetAndEpoch(1, 4))).vote_granted
    assert not node.vote(vote(3, 5, OffsetAndEpoch(9, 4))).vote_granted


def test_a_candidate_that_has_no_vote_any_more_keeps_its_promise_and_does_not_stand() -> None:
    voted = ElectionState(5, voted_key=ReplicaKey(1))
    node = RaftHarness(voters=[2, 3], stored=voted).start()

    outputs = node.run_ms(10 * ELECTION_MS)

    assert node.state() is StateName.UNATTACHED
    assert node.stored == voted
    assert not [
        o for o in outputs if isinstance(o, SendRequest) and isinstance(o.request, VoteRequest)
    ]
    assert not node.vote(vote(2, 5)).vote_granted


@pytest.mark.parametrize("leader", [2, 9, None])
def test_a_lone_voter_forgets_the_leader_of_before_it_was_alone(leader: int | None) -> None:
    node = RaftHarness(voters=[1], stored=ElectionState(5, leader_id=leader)).start()

    assert node.node.leader_and_epoch == (1, 6)
    assert node.stored == ElectionState(6, leader_id=1)


def test_a_voter_alone_that_had_voted_for_itself_wins_that_election_at_once() -> None:
    node = RaftHarness(voters=[1], stored=ElectionState(5, voted_key=ReplicaKey(1))).start()

    assert node.node.leader_and_epoch == (1, 5)
    assert node.stored == ElectionState(5, leader_id=1)
    assert node.log.last_epoch == 5
