"""How a node finds the leader: whom it asks, and when it turns from a leader that is silent."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.config import QuorumConfig
from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.outputs import RaftOutput, SendRequest
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    RaftHarness,
    batch,
    endpoint,
    following,
    log_of,
    records,
    refused,
)

SERVERS = (endpoint(2), endpoint(3))
"""Known by address alone: -2 and -3."""
PATIENT = QuorumConfig(election_timeout_ms=60_000, fetch_timeout_ms=60_000)


def destinations(outputs: list[RaftOutput]) -> list[int]:
    """To whom the Fetches among the outputs go."""
    return [
        output.destination_id
        for output in outputs
        if isinstance(output, SendRequest) and isinstance(output.request, FetchRequest)
    ]


def named(leader: int, epoch: int) -> FetchResponse:
    """What someone who does not lead, and knows who does, answers to a Fetch."""
    return FetchResponse(
        error=ErrorCode.not_leader_or_follower,
        leader_id=leader,
        leader_epoch=epoch,
        leader_endpoint=endpoint(leader),
    )


# Unattached.


@pytest.mark.parametrize("local", [1, 9, None])
def test_an_unattached_node_asks_a_bootstrap_server_by_a_fetch(local: int | None) -> None:
    node = RaftHarness(local=local, log=log_of(1, 3), bootstrap_servers=SERVERS).start()

    send = node.only_send
    assert (send.destination_id, send.endpoint) == (-2, endpoint(2))
    assert isinstance(send.request, FetchRequest)
    assert send.request.replica == (None if local is None else ReplicaKey(local))
    assert send.request.leader_epoch == 3
    assert (send.request.fetch_offset, send.request.last_fetched_epoch) == (2, 3)


def test_without_bootstrap_servers_the_other_voters_are_asked() -> None:
    asked = [RaftHarness(randomness=drawn).start().only_send for drawn in (0, 1)]

    assert [(send.destination_id, send.endpoint) for send in asked] == [
        (2, endpoint(2)),
        (3, endpoint(3)),
    ]


def test_an_unattached_node_follows_a_leader_named_to_it_and_fetches_from_it() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()

    node.reply(node.only_send, named(3, 7))

    assert node.node.leader_and_epoch == (3, 7)
    assert node.stored == ElectionState(7, leader_id=3)
    assert node.only_send.destination_id == 3
    assert node.only_send.endpoint == endpoint(3)


def test_an_answer_with_records_is_a_leader_and_a_beginning_at_once() -> None:
    node = RaftHarness(local=9, bootstrap_servers=SERVERS, stored=ElectionState(7)).start()

    node.reply(node.only_send, records(3, 7, batch(0, 7)))

    assert node.node.leader_and_epoch == (3, 7)
    assert node.log.end_offset == 1


def test_a_leader_in_a_later_epoch_is_followed_first_and_its_records_come_with_the_next() -> None:
    node = RaftHarness(local=9, bootstrap_servers=SERVERS).start()

    node.reply(node.only_send, records(3, 7, batch(0, 7)))

    assert node.node.leader_and_epoch == (3, 7)
    assert node.log.end_offset == 0


def test_a_server_that_fails_is_left_in_peace_and_another_one_asked() -> None:
    node = RaftHarness(local=9, bootstrap_servers=SERVERS).start()

    node.fail(node.only_send)
    assert destinations(node.outputs) == [-3]
    node.fail(node.only_send)
    assert destinations(node.outputs) == []

    assert destinations(node.run_ms(CONFIG.retry_backoff_ms)) == [-2]


def test_a_server_that_does_not_answer_is_given_up_after_the_request_timeout() -> None:
    node = RaftHarness(local=9, bootstrap_servers=SERVERS).start()

    assert destinations(node.run_ms(CONFIG.request_timeout_ms - 1)) == []
    assert len(destinations(node.run_ms(1))) == 1


def test_an_unattached_voter_asks_until_its_election_timer_is_over_and_then_stands() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()
    node.run_ms(ELECTION_MS - 1)
    assert node.state() is StateName.UNATTACHED

    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_an_observer_asks_for_ever_and_never_stands() -> None:
    node = RaftHarness(local=9, bootstrap_servers=SERVERS).start()

    assert len(destinations(node.run_ms(10 * CONFIG.request_timeout_ms))) == 10
    assert node.state() is StateName.UNATTACHED


def test_a_node_that_knows_the_leader_and_not_where_it_is_asks_too() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS, stored=ElectionState(7, leader_id=9)).start()

    assert destinations(node.outputs) == [-2]
    node.reply(node.only_send, named(9, 7))

    assert node.only_send.endpoint == endpoint(9)


def test_a_node_that_names_no_leader_is_not_asked_again_before_a_pause() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()

    node.reply(node.only_send, refused(ErrorCode.not_leader_or_follower, 0))
    assert destinations(node.outputs) == [-3]
    node.reply(node.only_send, refused(ErrorCode.not_leader_or_follower, 0))
    assert destinations(node.outputs) == []

    assert node.state() is StateName.UNATTACHED
    assert destinations(node.run_ms(CONFIG.retry_backoff_ms)) == [-2]


def test_an_answer_without_an_error_that_names_no_leader_is_of_no_use() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()

    node.reply(node.only_send, FetchResponse(leader_epoch=0, records=batch(0, 0)))

    assert node.log.end_offset == 0
    assert destinations(node.outputs) == [-3]


def test_a_node_without_others_to_ask_waits() -> None:
    node = RaftHarness(local=1, voters=[]).start()

    assert destinations(node.outputs) == []
    assert node.run_ms(FETCH_MS) == []


# From a leader that is silent.


@pytest.mark.parametrize("local", [1, 9])
def test_a_follower_whose_leader_fails_asks_a_bootstrap_server_meanwhile(local: int) -> None:
    node, send = following(2, epoch=4, local=local, bootstrap_servers=SERVERS)

    node.fail(send)

    assert destinations(node.outputs) == [-2]


@pytest.mark.parametrize("local", [1, 9])
def test_a_follower_whose_leader_is_leaving_asks_a_bootstrap_server_meanwhile(local: int) -> None:
    node, send = following(2, epoch=4, local=local, bootstrap_servers=SERVERS)

    node.reply(send, refused(ErrorCode.broker_not_available, 4, leader=2))

    assert destinations(node.outputs) == [-2]


@pytest.mark.parametrize("local", [1, 9])
def test_a_follower_whose_leader_does_not_answer_asks_a_bootstrap_server(local: int) -> None:
    node, _ = following(2, epoch=4, local=local, bootstrap_servers=SERVERS, config=PATIENT)

    node.run_ms(PATIENT.request_timeout_ms)

    assert destinations(node.outputs) == [-2]


def test_a_leader_that_did_not_answer_is_asked_again_once_another_node_names_it() -> None:
    node, _ = following(2, epoch=4, bootstrap_servers=SERVERS, config=PATIENT)
    node.run_ms(PATIENT.request_timeout_ms)

    node.reply(node.only_send, named(2, 4))

    assert destinations(node.outputs) == [2]


def test_a_follower_goes_back_to_its_leader_when_it_learns_that_it_leads_still() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()
    node.fail(node.follow(2, epoch=4))
    asked = node.only_send
    node.now_ms += CONFIG.retry_backoff_ms

    node.reply(asked, named(2, 4))

    assert destinations(node.outputs) == [2]


def test_a_follower_turns_to_the_new_leader_named_to_it() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()
    node.fail(node.follow(2, epoch=4))

    node.reply(node.only_send, named(3, 5))

    assert node.node.leader_and_epoch == (3, 5)
    assert destinations(node.outputs) == [3]


def test_of_all_nodes_one_is_asked_at_a_time() -> None:
    node = RaftHarness(bootstrap_servers=SERVERS).start()
    node.fail(node.follow(2, epoch=4))

    assert destinations(node.run_ms(CONFIG.request_timeout_ms - 100)) == []


def test_an_observer_without_a_sign_of_life_asks_others_and_follows_on() -> None:
    node, _ = following(2, epoch=4, local=9, bootstrap_servers=SERVERS)

    asked = destinations(node.run_ms(FETCH_MS + CONFIG.request_timeout_ms))

    assert asked == [-2, -2]
    assert node.state() is StateName.FOLLOWER


def test_an_answer_that_makes_this_node_the_leader_of_a_lost_epoch_is_fatal() -> None:
    # Its own file says nothing of that epoch any more: it must not take part before someone looks.
    node = RaftHarness(bootstrap_servers=SERVERS, log=log_of(7)).start()

    with pytest.raises(RaftFatal, match="names node 1"):
        node.reply(node.only_send, named(1, 7))
