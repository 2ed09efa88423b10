"""Epochs that no one can have come to: refused, so that one message does not use all of them up."""

from __future__ import annotations

from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from kraft.raft.config import LAST_EPOCH, MAX_EPOCH_LEAP
from kraft.raft.inputs import Resign
from kraft.raft.messages import (
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    VoteRequest,
)
from kraft.raft.outputs import PersistElection
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    ELECTION_MS,
    FETCH_MS,
    RaftHarness,
    begin,
    end,
    endpoint,
    log_of,
    vote,
)

HALF: Final = LAST_EPOCH // 2
LATE: Final = HALF + 5
"""An epoch from which on only small steps are believed."""
HOUR_MS: Final = 3_600_000


def stored(epoch: int, leader_id: int | None = None, voted: int | None = None) -> ElectionState:
    return ElectionState(epoch, leader_id, None if voted is None else ReplicaKey(voted))


@pytest.mark.parametrize("epoch", [HALF + MAX_EPOCH_LEAP, LAST_EPOCH - 1, LAST_EPOCH])
def test_a_vote_in_an_unreachable_epoch_changes_nothing(epoch: int) -> None:
    leader = RaftHarness().start().become_leader()

    response = leader.vote(vote(77, epoch))

    assert response.error is ErrorCode.invalid_request
    assert not response.vote_granted
    assert (response.leader_id, response.leader_epoch) == (1, 1)
    assert leader.node.is_leader
    assert leader.stored == stored(1, 1)


def test_nor_does_a_leader_of_such_an_epoch_or_one_that_has_resigned_from_it() -> None:
    follower = RaftHarness().start()
    follower.follow(2, 1)

    began = follower.begin(begin(77, LAST_EPOCH, endpoints={"CONTROLLER": endpoint(77)}))
    ended = follower.asked(EndQuorumEpochResponse, end(77, LAST_EPOCH))

    assert began.error is ended.error is ErrorCode.invalid_request
    assert follower.node.leader_and_epoch == (2, 1)


def test_an_answer_of_such_an_epoch_is_ignored_and_its_sender_left_in_peace() -> None:
    follower = RaftHarness().start()
    sent = follower.follow(2, 1)

    follower.reply(
        sent, FetchResponse(error=ErrorCode.fenced_leader_epoch, leader_epoch=LAST_EPOCH)
    )

    assert follower.node.leader_and_epoch == (2, 1)
    assert not follower.of(PersistElection)
    assert 2 not in follower.sends(FetchRequest)


def test_an_observer_believes_no_stranger_and_every_voter() -> None:
    """Raised alone, it would be refused by the leader, and could not become a candidate."""
    observer = RaftHarness(local=11).start()
    observer.follow(2, 3)
    home = {"CONTROLLER": endpoint(77)}

    assert observer.vote(vote(77, 5)).error is ErrorCode.invalid_request
    assert observer.begin(begin(77, 5, endpoints=home)).error is ErrorCode.invalid_request
    assert observer.asked(EndQuorumEpochResponse, end(77, 5)).error is ErrorCode.invalid_request
    assert observer.node.leader_and_epoch == (2, 3)

    assert observer.vote(vote(3, 5)).vote_granted
    assert observer.node.epoch == 5


def test_the_lower_half_is_believed_at_once_and_small_steps_everywhere() -> None:
    node = RaftHarness().start()

    assert node.vote(vote(2, HALF)).error is ErrorCode.none
    assert node.node.epoch == HALF
    assert node.vote(vote(2, HALF + MAX_EPOCH_LEAP)).error is ErrorCode.none
    assert node.node.epoch == HALF + MAX_EPOCH_LEAP
    assert node.vote(vote(2, HALF + 2 * MAX_EPOCH_LEAP + 1)).error is ErrorCode.invalid_request


def test_a_quorum_beyond_the_half_elects_as_ever() -> None:
    node = RaftHarness(stored=stored(LATE)).start().become_leader()

    assert node.node.leader_and_epoch == (1, LATE + 1)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        (stored(LAST_EPOCH), StateName.UNATTACHED),
        (stored(LAST_EPOCH, voted=1), StateName.CANDIDATE),
        (stored(LAST_EPOCH, leader_id=1), StateName.RESIGNED),
        (stored(LAST_EPOCH, leader_id=2), StateName.FOLLOWER),
    ],
    ids=str,
)
def test_after_the_last_epoch_a_voter_stands_no_more_and_says_so(
    known: ElectionState, state: StateName, caplog: pytest.LogCaptureFixture
) -> None:
    node = RaftHarness(stored=known).start()
    assert node.state() is state

    node.run_ms(10 * (ELECTION_MS + FETCH_MS))

    assert node.state() is state
    assert node.stored == known
    assert all(
        request.candidate_epoch == LAST_EPOCH for request in node.sends(VoteRequest).values()
    )
    assert "epoch 2147483647 is the last one" in caplog.text


def test_a_lone_voter_ends_in_the_last_epoch_without_a_fall() -> None:
    alone = RaftHarness(voters=(1,), stored=stored(LAST_EPOCH - 1)).start()
    assert alone.node.leader_and_epoch == (1, LAST_EPOCH)

    alone.step(Resign(LAST_EPOCH))
    alone.run_ms(HOUR_MS)

    assert alone.state() is StateName.RESIGNED
    assert alone.restart().state() is StateName.RESIGNED


def test_who_is_a_voter_no_more_stays_in_the_last_epoch() -> None:
    node = RaftHarness(voters=(2, 3), stored=stored(LAST_EPOCH, leader_id=1)).start()

    node.run_ms(HOUR_MS)

    assert node.node.epoch == LAST_EPOCH


@pytest.mark.parametrize("at", [OffsetAndEpoch(-1, 1), OffsetAndEpoch(1, -1)])
def test_a_divergence_at_no_place_cuts_nothing_off(at: OffsetAndEpoch) -> None:
    follower = RaftHarness(log=log_of(1, 1)).start()
    sent = follower.follow(2, 1)

    follower.reply(sent, FetchResponse(leader_id=2, leader_epoch=1, diverging_epoch=at))

    assert follower.log.end_offset == 2
    assert 2 not in follower.sends(FetchRequest)


def test_a_snapshot_of_a_later_epoch_than_its_leaders_is_not_fetched() -> None:
    follower = RaftHarness().start()
    sent = follower.follow(2, 1)

    snapshot_id = OffsetAndEpoch(5, LAST_EPOCH)
    follower.reply(sent, FetchResponse(leader_id=2, leader_epoch=1, snapshot_id=snapshot_id))

    assert 3 in follower.sends(FetchRequest)
    assert not follower.sends(FetchSnapshotRequest)
