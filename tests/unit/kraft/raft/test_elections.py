"""How a leader is elected: who stands, who wins and loses, and what a new leader writes first."""

from __future__ import annotations

from uuid import UUID

from kio.schema.leader_change_message.v0.data import LeaderChangeMessage

from kafka_common.protocol.messages import read
from kraft.raft.config import QuorumConfig
from kraft.raft.messages import FetchRequest, VoteRequest
from kraft.raft.outputs import FlushLog, PersistElection, SendRequest
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    EARLY,
    ELECTION_MS,
    FETCH_MS,
    LISTENER,
    START_MS,
    RaftHarness,
    batches_in,
    begin,
    endpoint,
    following,
    granted,
    log_of,
    rejected,
    standing,
    vote,
)

HERE = UUID(int=101)


def leader_change_at(node: RaftHarness, offset: int) -> LeaderChangeMessage:
    """The record with which an epoch begins."""
    ((header, (record,)),) = batches_in(node.log.read(offset, 1))
    assert header.is_control
    assert record.key == b"\0\0\0\2"
    assert record.value is not None
    return read(LeaderChangeMessage, record.value)


# Standing.


def test_a_lone_voter_leads_epoch_1_as_soon_as_it_starts() -> None:
    node = RaftHarness(voters=[1]).start()

    assert node.node.is_leader
    assert node.node.leader_and_epoch == (1, 1)
    assert node.stored == ElectionState(1, leader_id=1)
    assert leader_change_at(node, 0).leader_id == 1
    assert node.log.flushed_offset == 1
    assert node.node.high_watermark == 1


def test_a_lone_voter_that_led_leads_the_next_epoch_after_a_restart() -> None:
    node = RaftHarness(voters=[1]).start().restart()

    assert node.node.is_leader
    assert node.node.leader_and_epoch == (1, 2)
    assert node.log.last_epoch == 2


def test_a_voter_without_messages_is_a_candidate_after_its_election_timeout() -> None:
    node = RaftHarness(randomness=300).start()

    node.run_ms(ELECTION_MS + 299)
    assert node.state() is StateName.UNATTACHED
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE
    assert node.stored == ElectionState(1, voted_key=ReplicaKey(1))


def test_a_candidate_asks_every_other_voter_for_its_vote_once_it_has_written_its_own() -> None:
    local = ReplicaKey(1, HERE)
    node = RaftHarness(local=local, log=log_of(1, 1, 2), stored=ElectionState(2)).start()

    node.become_candidate()

    assert node.sends(VoteRequest) == {
        voter: vote(local, 3, OffsetAndEpoch(3, 2), voter=ReplicaKey(voter)) for voter in (2, 3)
    }
    assert [type(output) for output in node.outputs] == [PersistElection, SendRequest, SendRequest]


def test_a_follower_is_a_candidate_without_responses_for_the_fetch_timeout() -> None:
    node, _ = following(2, epoch=4)

    node.run_ms(FETCH_MS - 1)
    assert node.state() is StateName.FOLLOWER
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE
    assert node.node.leader_and_epoch == (None, 5)


def test_an_ex_candidate_asks_again_in_its_epoch_after_a_restart() -> None:
    node = RaftHarness(stored=ElectionState(5, voted_key=ReplicaKey(1))).start()

    assert set(node.sends(VoteRequest)) == {2, 3}
    assert node.node.epoch == 5
    assert not node.vote(vote(2, 5)).vote_granted
    assert node.vote(vote(2, 6)).vote_granted


# Winning.


def test_of_three_voters_the_first_vote_elects() -> None:
    node, (first, second) = standing()

    node.reply(second, granted(1))

    assert node.node.is_leader
    assert node.stored == ElectionState(1, leader_id=1)
    change = leader_change_at(node, 0)
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in change.granting_voters] == [1, second.destination_id]
    assert first.destination_id not in [voter.voter_id for voter in change.granting_voters]


def test_a_vote_that_comes_after_the_election_changes_nothing() -> None:
    node, (first, second) = standing()
    node.reply(first, granted(1))
    before = node.log.read(0, 10_000)

    node.reply(second, granted(1))

    assert node.log.read(0, 10_000) == before
    assert node.log.end_offset == 1


def test_of_five_voters_two_other_votes_are_needed() -> None:
    node, sends = standing(voters=[1, 2, 3, 4, 5])

    node.reply(sends[0], granted(1))
    assert node.state() is StateName.CANDIDATE
    node.reply(sends[3], granted(1))

    assert node.node.is_leader


def test_a_new_leader_writes_its_leadership_down_before_its_first_record_is_flushed() -> None:
    node = RaftHarness().start()
    first = node.become_candidate()[0]

    node.reply(first, granted(1))

    kinds = [type(output) for output in node.outputs]
    assert kinds.index(PersistElection) < kinds.index(FlushLog)
    assert kinds.index(FlushLog) < kinds.index(SendRequest)


# Losing.


def test_two_rejections_of_three_voters_are_a_back_off_at_once_and_then_the_next_epoch() -> None:
    node, (first, second) = standing(randomness=1)

    node.reply(first, rejected(1))
    assert node.of(SendRequest) == []
    node.reply(second, rejected(1))
    lost_at_ms = node.now_ms
    node.run_until_it_sends(VoteRequest)

    assert node.now_ms == lost_at_ms + 100
    assert node.node.epoch == 2
    assert set(node.sends(VoteRequest)) == {2, 3}
    assert node.stored == ElectionState(2, voted_key=ReplicaKey(1))


def test_without_answers_an_election_lasts_its_timeout_and_is_followed_by_a_back_off() -> None:
    node, _ = standing(randomness=1)
    began_ms = node.now_ms

    node.run_ms(ELECTION_MS + 1 + 99)
    assert node.node.epoch == 1
    node.run_ms(1)

    assert node.node.epoch == 2
    assert node.now_ms == began_ms + ELECTION_MS + 1 + 100


def test_the_back_off_doubles_with_each_lost_election_up_to_its_maximum() -> None:
    node, _ = standing(randomness=10_000)
    waits = []

    for _ in range(5):
        for send in node.of(SendRequest):
            node.reply(send, rejected(node.node.epoch))
        lost_at_ms = node.now_ms
        node.run_until_it_sends(VoteRequest)
        waits.append(node.now_ms - lost_at_ms)

    assert waits == [100, 300, 700, CONFIG.election_backoff_max_ms, CONFIG.election_backoff_max_ms]


def test_while_it_backs_off_a_candidate_sends_no_request() -> None:
    node = RaftHarness(randomness=1).start()
    for send in node.become_candidate():
        node.reply(send, rejected(1))

    assert [o for o in node.run_ms(99) if isinstance(o, SendRequest)] == []


def test_a_vote_that_comes_while_it_backs_off_still_elects() -> None:
    node, sends = standing(voters=[1, 2, 3, 4, 5], randomness=1)
    node.reply(sends[0], granted(1))
    node.run_ms(ELECTION_MS + 1)
    assert node.node.epoch == 1

    node.reply(sends[1], granted(1))

    assert node.node.is_leader


def test_a_voter_that_does_not_answer_is_asked_again_after_the_request_timeout() -> None:
    config = QuorumConfig(election_timeout_ms=5000, request_timeout_ms=2000)
    node, (first, second) = standing(config=config)
    node.reply(first, rejected(1))

    again = [output for output in node.run_ms(2000) if isinstance(output, SendRequest)]

    assert [send.destination_id for send in again] == [second.destination_id]


def test_a_voter_that_cannot_be_reached_is_asked_again_after_the_retry_back_off() -> None:
    node, (first, _) = standing()

    node.fail(first)
    assert node.of(SendRequest) == []
    node.run_ms(CONFIG.retry_backoff_ms)

    assert set(node.sends(VoteRequest)) == {first.destination_id}


# The first of a new epoch.


def test_a_new_leader_commits_nothing_before_a_follower_has_its_first_record() -> None:
    node = RaftHarness(log=log_of(1, 1, 1)).start().become_leader()
    epoch = node.node.epoch
    assert node.node.high_watermark is None

    node.fetch(fetch_at(2, epoch, 3, 1))
    assert node.node.high_watermark is None
    node.ask(fetch_at(2, epoch, 4, epoch))

    assert node.node.high_watermark == 4
    assert node.log.high_watermark == 4


def fetch_at(replica: int, epoch: int, offset: int, last_epoch: int) -> FetchRequest:
    """A Fetch of a follower that has come so far."""
    return FetchRequest(
        cluster_id=None,
        replica=ReplicaKey(replica),
        leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        max_wait_ms=500,
        max_bytes=1000,
    )


def test_an_epoch_begins_at_the_end_of_the_log_even_if_its_first_record_is_lost() -> None:
    node = RaftHarness(log=log_of(1, 1)).start().become_leader()

    assert node.log.end_offset_for_epoch(1) == OffsetAndEpoch(2, 1)
    assert node.log.last_epoch == node.node.epoch == 2


def test_a_log_of_a_later_epoch_than_the_stored_one_is_believed() -> None:
    node = RaftHarness(log=log_of(1, 7), stored=ElectionState(3, leader_id=2)).start()

    assert node.stored == ElectionState(7)
    assert node.state() is StateName.UNATTACHED
    assert node.now_ms == START_MS


def test_the_leader_is_named_on_the_listener_by_which_the_request_came() -> None:
    node = RaftHarness().start()
    both = {LISTENER: endpoint(2), "OTHER": endpoint(22)}
    node.begin(begin(2, 4, endpoints=both))

    named = [node.ask(vote(3, 4, EARLY), listener) for listener in (LISTENER, "OTHER", "NONE")]

    assert [response and response.leader_endpoint for response in named] == [
        endpoint(2),
        endpoint(22),
        None,
    ]
