"""What is told stands behind what must be on disk first, also when a step persists twice."""

from __future__ import annotations

from tests.unit.raft_harness import CONFIG, EARLY, RaftHarness, log_of, vote
from zkcontroller.kraft.inputs import RequestReceived
from zkcontroller.kraft.messages import VoteRequest, VoteResponse
from zkcontroller.kraft.outputs import Answer, PersistElection, Send
from zkcontroller.kraft.states import StateName
from zkcontroller.kraft.values import ElectionState, ReplicaKey


def test_an_epoch_is_on_disk_before_it_is_told_though_the_next_one_begins_at_once() -> None:
    """A candidate whose time is over refuses a vote of a higher epoch, and stands in the next."""
    node = RaftHarness(log=log_of(1, 1), randomness=1).start()
    node.become_candidate()
    epoch = node.node.epoch
    # Without a majority the election times out, and the candidate waits a moment.
    node.pass_ms(2 * CONFIG.election_timeout_ms)
    assert node.state() is StateName.CANDIDATE

    outputs = node.step(RequestReceived(7, vote(2, epoch + 5, EARLY), ""))

    known, told, stood, *asked = outputs
    assert known == PersistElection(ElectionState(epoch + 5))
    assert isinstance(told, Answer)
    assert isinstance(told.response, VoteResponse)
    assert not told.response.vote_granted
    assert told.response.leader_epoch == epoch + 5
    assert stood == PersistElection(ElectionState(epoch + 6, voted_key=ReplicaKey(1)))
    votes = [send.request for send in asked if isinstance(send, Send)]
    assert len(votes) == 2
    assert all(isinstance(vote, VoteRequest) for vote in votes)


def test_of_two_elections_in_a_row_only_the_last_is_written() -> None:
    node = RaftHarness().start()

    outputs = node.step(RequestReceived(7, vote(2, 4), ""))

    assert outputs[0] == PersistElection(ElectionState(4, voted_key=ReplicaKey(2)))
    assert sum(isinstance(output, PersistElection) for output in outputs) == 1
