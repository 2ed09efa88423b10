"""What a node makes of who is said to lead its epoch: new, old, and impossible."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.messages import BeginQuorumEpochResponse, FetchRequest, VoteResponse
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState
from tests.support.raft_harness import (
    FETCH_MS,
    LISTENER,
    RaftHarness,
    begin,
    endpoint,
    following,
    refused,
    standing,
    vote,
)

OTHER = "OTHER"
BOTH = {LISTENER: endpoint(2), OTHER: endpoint(22)}


def test_a_leader_that_is_named_as_the_leader_goes_on() -> None:
    node = RaftHarness().start().become_leader()
    known = BeginQuorumEpochResponse(
        error=ErrorCode.not_leader_or_follower,
        leader_id=1,
        leader_epoch=1,
        leader_endpoint=endpoint(1),
    )

    node.reply(node.send_to(2), known)

    assert node.node.is_leader
    assert node.node.leader_and_epoch == (1, 1)


def test_a_leader_that_is_named_as_the_leader_of_a_later_epoch_ends() -> None:
    node = RaftHarness().start().become_leader()

    with pytest.raises(RaftFatal, match="names node 1 as the leader of epoch 9"):
        node.reply(node.send_to(2), BeginQuorumEpochResponse(leader_id=1, leader_epoch=9))


@pytest.mark.parametrize("error", [ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch])
def test_a_leader_of_this_epoch_without_an_endpoint_is_not_followed(error: ErrorCode) -> None:
    node, (first, _) = standing()

    node.reply(first, VoteResponse(error=error, leader_id=9, leader_epoch=1))

    assert node.state() is StateName.CANDIDATE
    assert node.node.leader_and_epoch == (None, 1)


def test_a_leader_that_does_not_know_itself_yet_is_followed_on_and_asked_again() -> None:
    # Restarted in its epoch it leads no more, and says so before anybody else leads.
    node, send = following(2, epoch=4)

    node.reply(send, refused(ErrorCode.not_leader_or_follower, 4))

    assert node.node.leader_and_epoch == (2, 4)
    assert set(node.sends(FetchRequest)) == {2}


def test_more_places_of_a_leader_are_learnt_in_its_epoch_and_fewer_are_not_forgotten() -> None:
    node, _ = following(2, epoch=7)
    asked = vote(3, 7)
    before = node.ask(asked, OTHER)
    node.run_ms(FETCH_MS - 1)

    node.begin(begin(2, 7, endpoints=BOTH))
    after = node.ask(asked, OTHER)
    node.begin(begin(2, 7, endpoints={LISTENER: endpoint(2)}))
    still = node.ask(asked, OTHER)

    assert [each and each.leader_endpoint for each in (before, after, still)] == [
        None,
        endpoint(22),
        endpoint(22),
    ]
    assert node.stored == ElectionState(7, leader_id=2)
    # It is followed anew, with a whole timer.
    node.run_ms(FETCH_MS - 1)
    assert node.state() is StateName.FOLLOWER
