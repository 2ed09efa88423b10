"""How an epoch begins and ends: what a leader tells the voters, and what they make of it."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import Resign
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RaftRequest,
    VoteRequest,
)
from kraft.raft.outputs import DeliverLeader, SendRequest, SendResponse
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, LeaderAndEpoch, NodeAddress, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CLUSTER,
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    LISTENER,
    RaftHarness,
    begin,
    end,
    endpoint,
    fetch,
    fetch_snapshot,
    following,
    granted,
    log_of,
    standing,
    vote,
)

QUORUM_MS = 3000
PERIOD_MS = FETCH_MS // 2


def resigned(*voters: int) -> RaftHarness:
    """A leader of epoch 1 that has just been asked to resign."""
    node = RaftHarness(voters=voters or (1, 2, 3)).start().become_leader()
    node.step(Resign(1))
    assert node.state() is StateName.RESIGNED
    return node


def told(node: RaftHarness, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    return node.asked(EndQuorumEpochResponse, request)


# Begin.


def test_a_new_leader_tells_every_other_voter_at_once() -> None:
    node = RaftHarness().start()
    # The one whose vote elected it is free for another request; the other one still votes.
    node.become_leader()

    assert node.sends(BeginQuorumEpochRequest) == {
        voter: BeginQuorumEpochRequest(CLUSTER, ReplicaKey(voter), 1, 1, {LISTENER: endpoint(1)})
        for voter in (2, 3)
    }


def test_begin_quorum_epoch_is_sent_each_half_fetch_timeout_acknowledged_or_not() -> None:
    node = RaftHarness().start().become_leader()
    for send in node.of(SendRequest):
        node.reply(send, BeginQuorumEpochResponse(leader_id=1, leader_epoch=1))

    node.run_ms(PERIOD_MS - 1)
    assert node.sends(BeginQuorumEpochRequest) == {}
    node.run_ms(1)

    assert set(node.sends(BeginQuorumEpochRequest)) == {2, 3}


def test_a_voter_that_has_not_answered_yet_gets_the_next_begin_quorum_epoch() -> None:
    node = RaftHarness().start().become_leader()
    node.reply(node.send_to(2), BeginQuorumEpochResponse(leader_id=1, leader_epoch=1))

    node.run_ms(PERIOD_MS)
    assert set(node.sends(BeginQuorumEpochRequest)) == {2}
    node.run_ms(PERIOD_MS)

    assert 3 in node.sends(BeginQuorumEpochRequest)


@pytest.mark.parametrize("epoch", [0, 7])
def test_a_voter_that_gets_begin_quorum_epoch_follows_and_fetches_at_once(epoch: int) -> None:
    node = RaftHarness().start()

    response = node.begin(begin(3, epoch))

    assert response == BeginQuorumEpochResponse(
        leader_id=3, leader_epoch=epoch, leader_endpoint=endpoint(3)
    )
    assert node.stored == ElectionState(epoch, leader_id=3)
    assert set(node.sends(FetchRequest)) == {3}


def test_a_repeated_begin_quorum_epoch_does_not_extend_the_fetch_timeout() -> None:
    node, _ = following(3, epoch=7)
    node.run_ms(FETCH_MS - 1)

    assert node.begin(begin(3, 7)).error is ErrorCode.none
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_a_candidate_that_learns_of_its_epochs_leader_follows() -> None:
    node, _ = standing()

    node.begin(begin(3, 1))

    assert node.node.leader_and_epoch == (3, 1)


def test_a_leader_that_learns_of_a_later_one_follows() -> None:
    node = RaftHarness().start().become_leader()

    node.begin(begin(3, 2))

    assert node.node.leader_and_epoch == (3, 2)
    assert node.stored == ElectionState(2, leader_id=3)


def test_a_leader_of_an_older_epoch_is_fenced() -> None:
    node, _ = following(2, epoch=7)

    response = node.begin(begin(3, 6))

    assert response == BeginQuorumEpochResponse(
        error=ErrorCode.fenced_leader_epoch,
        leader_id=2,
        leader_epoch=7,
        leader_endpoint=endpoint(2),
    )


def test_the_leaders_endpoint_is_taken_from_its_request_if_this_listener_is_in_it() -> None:
    node, moved = RaftHarness().start(), endpoint(33)

    node.begin(begin(3, 7, endpoints={LISTENER: moved}))

    assert node.only_send.endpoint == moved


@pytest.mark.parametrize("endpoints", [{}, {"OTHER": endpoint(33)}])
def test_without_an_endpoint_that_it_can_use_a_node_looks_among_the_voters(
    endpoints: dict[str, NodeAddress],
) -> None:
    node = RaftHarness().start()

    node.begin(begin(3, 7, endpoints=endpoints))

    assert node.only_send.endpoint == endpoint(3)


def test_a_leader_without_an_endpoint_is_not_followed_but_its_epoch_counts() -> None:
    node = RaftHarness().start()

    node.begin(begin(9, 7))

    assert node.state() is StateName.UNATTACHED
    assert node.stored == ElectionState(7)


def test_a_leader_without_a_vote_is_followed_if_it_can_be_reached() -> None:
    node = RaftHarness().start()

    node.begin(begin(9, 7, endpoints={LISTENER: endpoint(9)}))

    assert node.node.leader_and_epoch == (9, 7)


@pytest.mark.parametrize("key", [ReplicaKey(2), ReplicaKey(1, UUID(int=202))])
def test_a_begin_quorum_epoch_for_another_voter_is_refused_and_believed(key: ReplicaKey) -> None:
    node = RaftHarness(local=ReplicaKey(1, UUID(int=101))).start()

    response = node.begin(begin(3, 7, voter=key))

    assert response.error is ErrorCode.invalid_voter_key
    assert (response.leader_id, response.leader_epoch) == (3, 7)
    assert node.node.leader_and_epoch == (3, 7)


def test_a_second_leader_of_one_epoch_is_refused_and_changes_nothing() -> None:
    node, _ = following(2, epoch=7)

    response = node.begin(begin(3, 7))

    assert response.top_level_error is ErrorCode.unknown_server_error
    assert node.node.leader_and_epoch == (2, 7)


def test_another_leader_with_this_nodes_id_is_refused() -> None:
    node = RaftHarness().start()

    response = node.begin(begin(1, 7))

    assert response.top_level_error is ErrorCode.unknown_server_error
    assert node.node.epoch == 0


def test_a_leader_has_an_id() -> None:
    node = RaftHarness().start()

    assert node.begin(begin(-1, 7)).error is ErrorCode.invalid_request
    assert told(node, end(-1, 7)).error is ErrorCode.invalid_request
    assert node.node.epoch == 0


@pytest.mark.parametrize("leader", [None, 3])
def test_an_answer_of_a_later_epoch_deposes_the_leader(leader: int | None) -> None:
    node = RaftHarness().start().become_leader()

    node.reply(
        node.send_to(2),
        BeginQuorumEpochResponse(
            error=ErrorCode.fenced_leader_epoch, leader_id=leader, leader_epoch=9
        ),
    )

    assert node.node.leader_and_epoch == (leader, 9)
    assert node.stored == ElectionState(9, leader_id=leader)


# Check-quorum.


def test_a_leader_that_no_majority_fetches_from_resigns_and_says_so() -> None:
    node = RaftHarness().start().become_leader()

    node.run_ms(QUORUM_MS - 1)
    assert node.node.is_leader
    node.run_ms(1)

    assert node.state() is StateName.RESIGNED
    assert set(node.sends(EndQuorumEpochRequest)) == {2, 3}


def test_one_fetch_of_three_voters_within_the_time_keeps_a_leader() -> None:
    node = RaftHarness().start().become_leader()
    node.run_ms(QUORUM_MS - 1)
    node.ask(fetch(2, 1))

    node.run_ms(QUORUM_MS - 1)
    assert node.node.is_leader
    node.run_ms(1)

    assert not node.node.is_leader


def test_of_five_voters_one_fetch_is_not_enough() -> None:
    node = RaftHarness(voters=[1, 2, 3, 4, 5]).start()
    for send in node.become_candidate()[:2]:
        node.reply(send, granted(1))
    assert node.node.is_leader
    node.run_ms(QUORUM_MS - 1)
    node.ask(fetch(2, 1))

    node.run_ms(1)

    assert not node.node.is_leader


def test_a_part_of_a_snapshot_counts_as_a_fetch() -> None:
    log = log_of(1, 1)
    log.update_high_watermark(2)
    log.create_snapshot(OffsetAndEpoch(2, 1), b"snapshot")
    node = RaftHarness(log=log).start().become_leader()
    node.run_ms(QUORUM_MS - 1)

    node.ask(fetch_snapshot(2, 2, OffsetAndEpoch(2, 1)))
    node.run_ms(QUORUM_MS - 1)

    assert node.node.is_leader


@pytest.mark.parametrize("replica", [9, None])
def test_fetches_of_observers_do_not_keep_a_leader(replica: int | None) -> None:
    node = RaftHarness().start().become_leader()
    node.run_ms(QUORUM_MS - 1)

    node.ask(fetch(replica, 1))
    node.run_ms(1)

    assert not node.node.is_leader


def test_a_fetch_that_parts_from_the_leaders_log_does_not_count() -> None:
    node = RaftHarness(log=log_of(1, 1)).start().become_leader()
    node.run_ms(QUORUM_MS - 1)

    node.ask(fetch(2, 2, 50, 1))
    node.run_ms(1)

    assert not node.node.is_leader


def test_a_lone_voter_never_resigns_by_itself() -> None:
    node = RaftHarness(voters=[1]).start()

    node.run_ms(10 * QUORUM_MS)

    assert node.node.is_leader


# Resigning.


def test_a_resigned_leader_names_its_successors_by_how_far_they_have_come() -> None:
    node = RaftHarness(log=log_of(1, 1, 1)).start().become_leader()
    node.ask(fetch(3, 2, 3, 1))
    node.ask(fetch(2, 2, 1, 1))

    node.step(Resign(2))

    expected = EndQuorumEpochRequest(CLUSTER, 1, 2, (ReplicaKey(3), ReplicaKey(2)), {})
    assert node.sends(EndQuorumEpochRequest) == {2: expected, 3: expected}


def test_a_resignation_from_an_older_epoch_does_nothing() -> None:
    node = RaftHarness(stored=ElectionState(5)).start().become_leader()

    node.step(Resign(5))

    assert node.node.is_leader


def test_a_resignation_from_an_epoch_that_has_not_begun_is_a_mistake() -> None:
    node = RaftHarness().start().become_leader()

    with pytest.raises(RaftFatal, match="has not begun"):
        node.step(Resign(2))


def test_a_node_that_does_not_lead_any_more_has_resigned_already() -> None:
    node, _ = following(2, epoch=1)

    node.step(Resign(1))

    assert node.node.leader_and_epoch == (2, 1)


def test_fetches_that_wait_at_a_resigned_leader_get_an_error() -> None:
    node = RaftHarness().start().become_leader()
    assert node.ask(fetch(2, 1, 1, 1)) is None

    node.step(Resign(1))

    assert node.of(SendResponse) == [
        SendResponse(
            node.last_request_id,
            FetchResponse(
                error=ErrorCode.not_leader_or_follower,
                leader_id=1,
                leader_epoch=1,
                leader_endpoint=endpoint(1),
                log_start_offset=0,
            ),
        )
    ]


def test_a_resigned_leader_serves_no_fetch() -> None:
    node = resigned()

    response = node.fetch(fetch(2, 1))

    assert response.error is ErrorCode.not_leader_or_follower
    assert (response.leader_id, response.leader_epoch) == (1, 1)


def test_a_voter_that_acknowledged_a_resignation_gets_no_further_one() -> None:
    node = resigned()
    node.reply(node.send_to(2), EndQuorumEpochResponse(leader_id=1, leader_epoch=1))

    node.run_ms(ELECTION_MS - 1)

    assert node.sends(EndQuorumEpochRequest) == {}


def test_a_voter_that_did_not_answer_gets_the_resignation_again_after_the_request_timeout() -> None:
    config = QuorumConfig(election_timeout_ms=5000)
    node = RaftHarness(config=config).start().become_leader()
    node.step(Resign(1))
    node.reply(node.send_to(2), EndQuorumEpochResponse(leader_id=1, leader_epoch=1))

    node.run_ms(config.request_timeout_ms - 1)
    assert node.sends(EndQuorumEpochRequest) == {}
    node.run_ms(1)

    assert set(node.sends(EndQuorumEpochRequest)) == {3}


def test_an_unreachable_voter_gets_the_resignation_again_after_the_retry_back_off() -> None:
    node = resigned()

    node.fail(node.send_to(3))
    node.run_ms(CONFIG.retry_backoff_ms)

    assert set(node.sends(EndQuorumEpochRequest)) == {3}


def test_after_its_election_timeout_a_resigned_leader_stands_again_and_can_win() -> None:
    node = resigned()

    node.run_ms(ELECTION_MS)

    assert node.state() is StateName.CANDIDATE
    assert node.stored == ElectionState(2, voted_key=ReplicaKey(1))
    node.become_leader()
    assert node.node.leader_and_epoch == (1, 2)


def test_a_leader_that_restarts_resigns_without_successors_and_is_a_candidate_later() -> None:
    node = RaftHarness(stored=ElectionState(5, leader_id=1)).start()

    assert node.sends(EndQuorumEpochRequest) == {2: end(1, 5), 3: end(1, 5)}
    node.run_ms(ELECTION_MS)

    assert node.state() is StateName.CANDIDATE
    assert node.node.epoch == 6


def test_a_leader_that_lost_its_vote_gives_up_its_epoch() -> None:
    node = RaftHarness(voters=[2, 3], stored=ElectionState(5, leader_id=1)).start()
    assert node.state() is StateName.RESIGNED

    outputs = node.run_ms(ELECTION_MS)

    assert node.state() is StateName.UNATTACHED
    assert node.stored == ElectionState(6)
    assert any(isinstance(o, SendRequest) and isinstance(o.request, FetchRequest) for o in outputs)


def test_the_listeners_of_a_resigned_leader_learn_of_it_with_the_next_epoch() -> None:
    node = RaftHarness().start()
    node.register()
    node.become_leader()
    node.step(Resign(1))
    assert node.of(DeliverLeader) == []

    outputs = node.run_ms(ELECTION_MS)

    assert [o.leader for o in outputs if isinstance(o, DeliverLeader)] == [LeaderAndEpoch(None, 2)]


# End.


def test_the_first_of_the_successors_stands_at_once() -> None:
    node, _ = following(2, epoch=7)

    response = told(node, end(2, 7, 1, 3))

    assert response.error is ErrorCode.none
    assert (response.leader_id, response.leader_epoch) == (2, 7)
    assert node.state() is StateName.CANDIDATE
    assert set(node.sends(VoteRequest)) == {2, 3}


@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [
        ((3, 1), 500),
        ((3, 1, 4), 250),
        ((3, 4, 1), 500),
        ((3, 4, 5, 1), 500),
        ((3, 4), 1000),
    ],
)
def test_the_later_in_the_list_the_longer_a_successor_waits(
    successors: tuple[int, ...], wait_ms: int
) -> None:
    node, _ = following(2, epoch=7)

    told(node, end(2, 7, *successors))
    node.run_ms(wait_ms - 1)
    assert node.state() is StateName.FOLLOWER
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_without_a_named_successor_every_voter_is_one() -> None:
    # A leader that was restarted resigns like that.
    node, _ = following(2, epoch=7)

    told(node, end(2, 7))

    assert node.state() is StateName.CANDIDATE


def test_an_unattached_node_learns_of_a_leader_and_of_its_resignation_at_once() -> None:
    node = RaftHarness().start()

    told(node, end(2, 7, 1, 3))

    assert node.state() is StateName.CANDIDATE
    assert node.node.epoch == 8


def test_a_voted_node_learns_of_the_resignation_too() -> None:
    node = RaftHarness().start()
    node.vote(vote(2, 7))

    told(node, end(2, 7, 1, 3))

    assert node.node.epoch == 8


def test_the_end_of_an_older_epoch_is_fenced() -> None:
    node, _ = following(2, epoch=7)

    response = told(node, end(3, 6, 1))

    assert response.error is ErrorCode.fenced_leader_epoch
    assert node.state() is StateName.FOLLOWER


def test_the_end_of_an_epoch_by_who_does_not_lead_it_is_refused() -> None:
    node, _ = following(2, epoch=7)

    response = told(node, end(3, 7, 1))

    assert response.top_level_error is ErrorCode.unknown_server_error
    assert node.node.leader_and_epoch == (2, 7)


def test_an_observer_does_not_stand_for_a_leader_that_has_resigned() -> None:
    node = RaftHarness(local=9).start()
    told(node, end(2, 7, 1, 3))

    node.run_ms(10_000)

    assert node.state() is StateName.FOLLOWER


# The cluster's id.


@pytest.mark.parametrize("cluster_id", [None, CLUSTER])
def test_a_request_of_this_cluster_or_of_no_named_one_is_served(cluster_id: str | None) -> None:
    node = RaftHarness().start()

    assert node.vote(vote(2, 1, cluster_id=cluster_id)).vote_granted
    assert node.begin(begin(2, 1, cluster_id=cluster_id)).error is ErrorCode.none
    assert told(node, end(2, 1, 3, 1, cluster_id=cluster_id)).error is ErrorCode.none


@pytest.mark.parametrize("cluster_id", [None, CLUSTER])
def test_records_go_to_this_cluster_or_to_no_named_one(cluster_id: str | None) -> None:
    node = RaftHarness().start().become_leader()
    snapshot_id = OffsetAndEpoch(1, 1)

    fetched = node.fetch(fetch(2, 1, cluster_id=cluster_id))
    part = node.asked(
        FetchSnapshotResponse, fetch_snapshot(2, 1, snapshot_id, cluster_id=cluster_id)
    )

    assert (fetched.top_level_error, fetched.error) == (ErrorCode.none, ErrorCode.none)
    assert (part.top_level_error, part.error) == (ErrorCode.none, ErrorCode.snapshot_not_found)


@pytest.mark.parametrize("cluster_id", ["", "another"])
def test_a_request_of_another_cluster_is_refused_as_a_whole(cluster_id: str) -> None:
    node = RaftHarness().start()
    requests: list[RaftRequest] = [
        vote(2, 5, cluster_id=cluster_id),
        begin(2, 5, cluster_id=cluster_id),
        end(2, 5, 1, cluster_id=cluster_id),
        fetch(2, 0, cluster_id=cluster_id),
        fetch_snapshot(2, 0, OffsetAndEpoch(1, 1), cluster_id=cluster_id),
    ]

    responses = [node.ask(request) for request in requests]

    assert [response and response.top_level_error for response in responses] == [
        ErrorCode.inconsistent_cluster_id
    ] * 5
    assert node.stored == ElectionState(0)
