"""Messages that are right and rare: of node 0, of leaders out of reach, of old peers, or late."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from kraft.raft.config import MAX_FETCH_RESPONSE_BYTES
from kraft.raft.inputs import Resign
from kraft.raft.messages import (
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteResponse,
)
from kraft.raft.outputs import DeliverLeader
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    LISTENER,
    RaftHarness,
    batches_in,
    begin,
    end,
    endpoint,
    fetch,
    following,
    log_of,
    records,
    rejected,
    standing,
    vote,
)
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog


def large_log(count: int, size: int) -> InMemoryRaftLog:
    """So many batches of one record of that size, in epoch 1."""
    log = InMemoryRaftLog()
    for offset in range(count):
        data = encode_batch([Record(offset, 7, None, b"x" * size)], partition_leader_epoch=1)
        log.append_as_follower(data, 1)
    log.flush()
    return log


# Of whom.


def test_node_0_is_a_node_like_any_other() -> None:
    node = RaftHarness(voters=[0, 1, 2]).start()

    assert node.vote(vote(0, 5)).vote_granted
    assert node.begin(begin(0, 5)).error is ErrorCode.none
    assert node.node.leader_and_epoch == (0, 5)
    ended = node.asked(EndQuorumEpochResponse, end(0, 5, 2, 1))

    assert (ended.error, ended.leader_id) == (ErrorCode.none, 0)


def test_node_0_leads_like_any_other() -> None:
    node = RaftHarness(local=0, voters=[0, 1, 2]).start().become_leader()

    assert node.node.leader_and_epoch == (0, 1)
    assert node.fetch(fetch(1, 1)).leader_id == 0
    assert node.restart().state() is StateName.RESIGNED


def test_the_resignation_of_an_unreachable_leader_is_accepted() -> None:
    node = RaftHarness().start()

    ended = node.asked(EndQuorumEpochResponse, end(9, 7, 1))

    assert (ended.error, ended.leader_id, ended.leader_epoch) == (ErrorCode.none, None, 7)
    assert node.state() is StateName.UNATTACHED
    assert node.stored == ElectionState(7)


def test_a_leader_does_not_resign_because_another_node_says_so_in_its_name() -> None:
    node = RaftHarness().start().become_leader()

    ended = node.asked(EndQuorumEpochResponse, end(1, 1, 2, 3))

    assert (ended.error, ended.leader_id) == (ErrorCode.none, 1)
    assert node.node.is_leader


@pytest.mark.parametrize("key", [ReplicaKey(1), ReplicaKey(1, UUID(int=101))])
def test_a_node_without_an_id_is_nobodys_voter(key: ReplicaKey) -> None:
    node = RaftHarness(local=None).start()

    voted = node.vote(vote(2, 5, voter=key))
    begun = node.begin(begin(2, 5, voter=key))

    assert voted == VoteResponse(error=ErrorCode.invalid_voter_key, leader_epoch=5)
    assert begun == BeginQuorumEpochResponse(
        error=ErrorCode.invalid_voter_key, leader_id=2, leader_epoch=5, leader_endpoint=endpoint(2)
    )


def test_the_first_epoch_of_all_is_delivered() -> None:
    node = RaftHarness().start()
    node.register("reader")

    node.vote(vote(3, 1))

    assert node.of(DeliverLeader) == [DeliverLeader("reader", LeaderAndEpoch(None, 1))]


# For how much.


@pytest.mark.parametrize("max_bytes", [-1, 0, 1, 2_000])
def test_a_fetch_with_a_small_limit_gets_a_batch_at_least(max_bytes: int) -> None:
    node = RaftHarness(log=large_log(4, 800)).start().become_leader()

    response = node.fetch(replace(fetch(2, 2, 1, 1), max_bytes=max_bytes))

    got = [header.base_offset for header, _ in batches_in(response.records)]
    assert got == ([1, 2] if max_bytes == 2_000 else [1])


def test_no_fetch_gets_more_than_the_limit() -> None:
    node = RaftHarness(log=large_log(5, MAX_FETCH_RESPONSE_BYTES // 4)).start().become_leader()

    response = node.fetch(replace(fetch(2, 2, 1, 1), max_bytes=2**31 - 1))

    assert [header.base_offset for header, _ in batches_in(response.records)] == [1, 2, 3]
    assert len(response.records) <= MAX_FETCH_RESPONSE_BYTES


def test_a_leader_that_has_committed_nothing_yet_says_so_of_the_quorum() -> None:
    node = RaftHarness().start().become_leader()

    described = node.asked(DescribeQuorumResponse, DescribeQuorumRequest())

    assert (described.high_watermark, described.observers) == (-1, ())
    assert described.nodes[1] == {LISTENER: endpoint(1)}


# From peers of version 0, and late ones.


def test_a_leader_that_an_old_peer_names_without_a_place_is_looked_for_among_the_voters() -> None:
    node = RaftHarness().start().become_leader()
    later = BeginQuorumEpochResponse(
        error=ErrorCode.fenced_leader_epoch, leader_id=3, leader_epoch=9
    )

    node.reply(node.send_to(2), later)

    assert node.only_send.endpoint == endpoint(3)


def test_a_rejection_that_comes_while_it_backs_off_does_not_make_it_wait_anew() -> None:
    node, (first, second) = standing(randomness=1)
    node.run_ms(ELECTION_MS + 1)
    assert node.node.epoch == 1

    node.run_ms(50)
    node.reply(first, rejected(1))
    node.reply(second, rejected(1))
    node.run_ms(49)
    assert node.node.epoch == 1
    node.run_ms(1)

    assert node.node.epoch == 2


@pytest.mark.parametrize(("offset", "end_offset"), [(2, 2), (3, 3), (9, 3)])
def test_what_is_not_committed_may_part_from_the_leaders_log_down_to_the_high_watermark(
    offset: int, end_offset: int
) -> None:
    node = RaftHarness(log=log_of(1, 1, 1, 3)).start()
    node.reply(node.follow(2, epoch=4), records(2, 4, high_watermark=2))
    parted = FetchResponse(leader_id=2, leader_epoch=4, diverging_epoch=OffsetAndEpoch(offset, 1))

    node.reply(node.only_send, parted)

    assert (node.log.end_offset, node.node.high_watermark) == (end_offset, 2)
    again = node.only_send.request
    assert isinstance(again, FetchRequest)
    assert (again.fetch_offset, again.last_fetched_epoch) == (end_offset, 1)


# Errors that no one expects.


def test_a_leader_that_only_ever_fails_is_given_up() -> None:
    node, send = following(2, epoch=4)
    node.run_ms(FETCH_MS - 1)

    failed = FetchResponse(error=ErrorCode.unknown_server_error, leader_id=2, leader_epoch=4)
    node.reply(send, failed)
    assert node.state() is StateName.FOLLOWER
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_a_voter_that_missed_a_resignation_gets_it_again() -> None:
    node = RaftHarness().start().become_leader()
    node.step(Resign(1))
    failed = EndQuorumEpochResponse(
        error=ErrorCode.unknown_server_error, leader_id=1, leader_epoch=1
    )

    node.reply(node.send_to(2), failed)
    assert node.sends(EndQuorumEpochRequest) == {}
    node.run_ms(CONFIG.retry_backoff_ms)

    assert set(node.sends(EndQuorumEpochRequest)) == {2}


def test_a_follower_without_the_leaders_epoch_goes_back_to_where_its_own_before_it_ends() -> None:
    # Where that one parts from the leader's is the answer to its next Fetch.
    node = RaftHarness(log=log_of(1, 1, 1, 3)).start()
    parted = FetchResponse(leader_id=2, leader_epoch=4, diverging_epoch=OffsetAndEpoch(1, 2))

    node.reply(node.follow(2, epoch=4), parted)

    request = node.only_send.request
    assert isinstance(request, FetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (3, 1)
