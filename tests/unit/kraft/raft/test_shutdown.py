"""How a node leaves the quorum: at once if it can, else when another one leads."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kraft.raft.inputs import RaftShutdown, RaftTick
from kraft.raft.messages import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.outputs import SendRequest, ShutdownDone
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch
from tests.support.raft_harness import (
    ELECTION_MS,
    RaftHarness,
    begin,
    endpoint,
    fetch,
    fetch_snapshot,
    following,
    granted,
    log_of,
    standing,
    vote,
)

TIMEOUT_MS = 5000
GRACEFUL, TOO_LATE = [ShutdownDone(is_graceful=True)], [ShutdownDone(is_graceful=False)]


def stopped(node: RaftHarness) -> list[ShutdownDone]:
    """Asked to leave; what it says of that at once."""
    node.step(RaftShutdown(TIMEOUT_MS))
    return node.of(ShutdownDone)


def test_a_follower_leaves_at_once() -> None:
    node, _ = following(2, epoch=4)

    assert stopped(node) == GRACEFUL


@pytest.mark.parametrize("local", [9, None])
def test_an_observer_leaves_at_once(local: int | None) -> None:
    assert stopped(RaftHarness(local=local).start()) == GRACEFUL


def test_a_lone_voter_leaves_at_once() -> None:
    assert stopped(RaftHarness(voters=[1]).start()) == GRACEFUL


def test_a_node_that_has_left_does_nothing_any_more() -> None:
    node, _ = following(2, epoch=4)
    stopped(node)

    assert node.node.deadline_ms is None
    assert node.ask(vote(3, 5)) is None
    assert node.step(RaftTick()) == []


def test_a_leader_resigns_first_and_leaves_when_another_one_leads() -> None:
    node = RaftHarness().start().become_leader()

    assert stopped(node) == []
    assert node.state() is StateName.RESIGNED
    assert set(node.sends(EndQuorumEpochRequest)) == {2, 3}
    node.begin(begin(3, 2))

    assert node.of(ShutdownDone) == GRACEFUL


def test_a_leader_that_is_shutting_down_votes_for_its_successor() -> None:
    node = RaftHarness().start().become_leader()
    stopped(node)

    assert node.vote(vote(3, 2, OffsetAndEpoch(1, 1))) == granted(2)
    assert node.of(ShutdownDone) == []
    node.begin(begin(3, 2))

    assert node.of(ShutdownDone) == GRACEFUL


def test_it_learns_of_its_successor_from_an_answer_as_well() -> None:
    node = RaftHarness().start().become_leader()
    stopped(node)

    node.reply(
        node.send_to(2),
        EndQuorumEpochResponse(
            error=ErrorCode.fenced_leader_epoch,
            leader_id=3,
            leader_epoch=2,
            leader_endpoint=endpoint(3),
        ),
    )

    assert node.of(ShutdownDone) == GRACEFUL


def test_without_a_successor_it_leaves_when_its_time_is_over() -> None:
    node = RaftHarness().start().become_leader()
    stopped(node)

    waited = node.run_ms(TIMEOUT_MS - 1)
    assert [o for o in waited if isinstance(o, ShutdownDone)] == []
    assert node.state() is StateName.RESIGNED
    node.run_ms(1)

    assert node.of(ShutdownDone) == TOO_LATE


def test_an_unattached_voter_waits_for_a_leader_and_does_not_stand() -> None:
    node = RaftHarness().start()
    stopped(node)

    node.run_ms(ELECTION_MS + 1)
    assert node.state() is StateName.UNATTACHED
    assert node.vote(vote(2, 1)).vote_granted
    node.begin(begin(2, 1))

    assert node.of(ShutdownDone) == GRACEFUL


def test_a_candidate_goes_on_asking_for_votes_but_stands_only_once() -> None:
    node, (first, second) = standing(stored=ElectionState(4))
    stopped(node)
    node.fail(first)
    node.fail(second)

    asked = node.run_ms(TIMEOUT_MS - 1)

    assert {
        (send.destination_id, send.request.candidate_epoch)
        for send in asked
        if isinstance(send, SendRequest) and isinstance(send.request, VoteRequest)
    } == {(2, 5), (3, 5)}
    assert node.node.epoch == 5


def test_a_candidate_that_is_elected_while_it_leaves_resigns() -> None:
    node, (first, _) = standing()
    stopped(node)

    node.reply(first, granted(1))

    assert node.state() is StateName.RESIGNED
    assert set(node.sends(EndQuorumEpochRequest)) == {2, 3}


def test_a_candidate_that_learns_of_a_leader_while_it_leaves_is_done() -> None:
    node, (first, _) = standing()
    stopped(node)

    node.reply(first, VoteResponse(leader_id=3, leader_epoch=2, leader_endpoint=endpoint(3)))

    assert node.of(ShutdownDone) == GRACEFUL


def test_a_leader_that_is_shutting_down_serves_no_records_and_no_snapshot() -> None:
    node = RaftHarness(log=log_of(1)).start().become_leader()
    stopped(node)

    assert node.fetch(fetch(2, 2)).error is ErrorCode.not_leader_or_follower
    refusal = node.asked(FetchSnapshotResponse, fetch_snapshot(2, 2, OffsetAndEpoch(1, 1)))

    assert refusal.error is ErrorCode.not_leader_or_follower
