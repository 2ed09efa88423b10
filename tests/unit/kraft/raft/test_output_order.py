"""What is sent stands behind what must be on disk first, also when a step persists twice.

And no one leads whose own vote is not on disk.
"""

from __future__ import annotations

from kraft.raft.inputs import ElectionPersisted, RaftRequestReceived, RaftTick
from kraft.raft.messages import VoteRequest, VoteResponse
from kraft.raft.outputs import FlushLog, PersistElection, SendRequest, SendResponse
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import CONFIG, EARLY, START_MS, RaftHarness, log_of, standing, vote


def test_an_epoch_is_on_disk_before_it_is_sent_though_the_next_one_begins_at_once() -> None:
    """A candidate whose time is over refuses a vote of a higher epoch, and stands in the next."""
    node, _ = standing(log=log_of(1, 1), randomness=1)
    epoch = node.node.epoch
    # Without a majority the election times out, and the candidate waits a moment.
    node.pass_ms(2 * CONFIG.election_timeout_ms)
    assert node.state() is StateName.CANDIDATE

    outputs = node.step(RaftRequestReceived(7, vote(2, epoch + 5, EARLY), ""))

    known, told, stood, *asked = outputs
    assert known == PersistElection(ElectionState(epoch + 5))
    assert isinstance(told, SendResponse)
    assert isinstance(told.response, VoteResponse)
    assert not told.response.vote_granted
    assert told.response.leader_epoch == epoch + 5
    assert stood == PersistElection(ElectionState(epoch + 6, voted_key=ReplicaKey(1)))
    votes = [send.request for send in asked if isinstance(send, SendRequest)]
    assert len(votes) == 2
    assert all(isinstance(vote, VoteRequest) for vote in votes)


def test_of_two_elections_in_a_row_only_the_last_is_written() -> None:
    node = RaftHarness().start()

    outputs = node.step(RaftRequestReceived(7, vote(2, 4), ""))

    assert outputs[0] == PersistElection(ElectionState(4, voted_key=ReplicaKey(2)))
    assert sum(isinstance(output, PersistElection) for output in outputs) == 1


def test_a_lone_voter_leads_no_epoch_before_its_vote_is_on_disk() -> None:
    """Else two nodes could lead one epoch: it, and the one that a longer list of voters elects."""
    log = log_of(1)
    killed = RaftHarness(voters=[1], log=log, stored=ElectionState(1, leader_id=1))

    # Nothing of this is performed: the machine fails before.
    outputs = killed.node.start(killed.stored, killed.now_ms)
    killed.node.step(RaftTick(), killed.now_ms)

    assert PersistElection(ElectionState(2, voted_key=ReplicaKey(1))) in outputs
    assert killed.state() is StateName.CANDIDATE
    assert log.end_offset == 1

    # So in the next life, with another voter beside it, epoch 2 is free for that one.
    node = RaftHarness(voters=[1, 2], log=log, stored=killed.stored).start()
    assert node.vote(vote(2, 2, OffsetAndEpoch(1, 1))).vote_granted


def test_a_lone_voter_leads_by_the_vote_that_was_written_and_by_no_older_one() -> None:
    node = RaftHarness(voters=[1]).node
    elected = ElectionState(1, voted_key=ReplicaKey(1))
    node.start(None, START_MS)

    node.step(ElectionPersisted(ElectionState(0)), START_MS)
    assert not node.is_leader
    outputs = node.step(ElectionPersisted(elected), START_MS)

    assert node.is_leader
    assert outputs[0] == PersistElection(ElectionState(1, leader_id=1))
    assert isinstance(outputs[1], FlushLog)
    assert node.log.end_offset == 1
