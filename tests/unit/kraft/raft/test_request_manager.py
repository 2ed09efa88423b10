"""Whom a request may go to: one in flight for each node, and a pause after a failure."""

from __future__ import annotations

import pytest

from kraft.raft.config import NEVER_MS
from kraft.raft.request_manager import RequestManager
from tests.support.raft_harness import START_MS, FixedRandom, endpoint

REQUEST_MS, BACKOFF_MS = 2000, 20
SERVERS = {-2: endpoint(2), -3: endpoint(3), -4: endpoint(4)}
LATER = START_MS + 100


@pytest.fixture
def random() -> FixedRandom:
    return FixedRandom()


@pytest.fixture
def requests(random: FixedRandom) -> RequestManager:
    return RequestManager(SERVERS, REQUEST_MS, BACKOFF_MS, random)


def test_a_node_that_was_never_asked_may_be_asked_now(requests: RequestManager) -> None:
    assert requests.ready_at_ms(5, START_MS) == START_MS
    assert not requests.is_backing_off(5, START_MS)
    assert not requests.has_request_timed_out(5, START_MS)
    assert not requests.is_response_expected(5, 1, START_MS)


def test_a_request_without_an_answer_blocks_its_node_until_it_times_out(
    requests: RequestManager,
) -> None:
    requests.sent(5, 1, START_MS)

    assert requests.ready_at_ms(5, LATER) == START_MS + REQUEST_MS
    assert requests.ready_at_ms(6, LATER) == LATER
    assert not requests.has_request_timed_out(5, START_MS + REQUEST_MS - 1)
    assert requests.has_request_timed_out(5, START_MS + REQUEST_MS)
    assert requests.ready_at_ms(5, START_MS + REQUEST_MS) == START_MS + REQUEST_MS


def test_a_good_answer_frees_its_node_at_once(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)

    requests.succeeded(5, 1, LATER)

    assert requests.ready_at_ms(5, LATER) == LATER
    assert not requests.is_response_expected(5, 1, LATER)


def test_a_failure_leaves_its_node_in_peace_for_the_retry_back_off(
    requests: RequestManager,
) -> None:
    requests.sent(5, 1, START_MS)

    requests.failed(5, 1, LATER)

    assert requests.ready_at_ms(5, LATER) == LATER + BACKOFF_MS
    assert requests.is_backing_off(5, LATER + BACKOFF_MS - 1)
    assert not requests.is_backing_off(5, LATER + BACKOFF_MS)
    assert requests.ready_at_ms(5, LATER + BACKOFF_MS) == LATER + BACKOFF_MS


@pytest.mark.parametrize(("node", "correlation_id"), [(5, 2), (6, 1)])
def test_an_unexpected_answer_changes_nothing(
    requests: RequestManager, node: int, correlation_id: int
) -> None:
    requests.sent(5, 1, START_MS)

    assert not requests.is_response_expected(node, correlation_id, LATER)
    requests.succeeded(node, correlation_id, LATER)
    requests.failed(node, correlation_id, LATER)

    assert requests.is_response_expected(5, 1, LATER)
    assert requests.ready_at_ms(5, LATER) == START_MS + REQUEST_MS


def test_an_answer_after_the_timeout_is_not_waited_for_any_more(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)
    too_late = START_MS + REQUEST_MS

    assert requests.is_response_expected(5, 1, too_late - 1)
    assert not requests.is_response_expected(5, 1, too_late)
    requests.failed(5, 1, too_late)

    assert not requests.is_backing_off(5, too_late)


def test_a_new_request_forgets_the_one_that_timed_out(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)
    requests.sent(5, 2, START_MS + REQUEST_MS)

    assert not requests.is_response_expected(5, 1, START_MS + REQUEST_MS)
    assert requests.is_response_expected(5, 2, START_MS + REQUEST_MS)


def test_a_change_of_state_forgets_everything(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)
    requests.sent(6, 2, START_MS)
    requests.failed(6, 2, START_MS)

    requests.reset_all()

    assert not requests.is_response_expected(5, 1, START_MS)
    assert requests.ready_at_ms(6, START_MS) == START_MS


def test_of_a_node_that_is_reset_nothing_is_known_any_more(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)
    requests.sent(6, 2, START_MS)

    requests.reset(5)

    assert not requests.is_response_expected(5, 1, START_MS)
    assert requests.is_response_expected(6, 2, START_MS)


# Bootstrap servers.


def test_with_any_request_in_flight_no_bootstrap_server_is_asked(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS)

    assert requests.ready_bootstrap_server(LATER) is None
    assert requests.bootstrap_ready_at_ms(LATER) == START_MS + REQUEST_MS
    assert requests.ready_bootstrap_server(START_MS + REQUEST_MS) == -2


def test_the_first_of_several_timeouts_is_when_to_look_again(requests: RequestManager) -> None:
    requests.sent(5, 1, START_MS + 50)
    requests.sent(6, 2, START_MS)

    assert requests.in_flight_until_ms(LATER) == START_MS + REQUEST_MS
    assert requests.in_flight_until_ms(START_MS + REQUEST_MS) == START_MS + 50 + REQUEST_MS
    assert requests.in_flight_until_ms(START_MS + 50 + REQUEST_MS) is None


@pytest.mark.parametrize(("drawn", "expected"), [(0, -2), (1, -3), (2, -4)])
def test_the_choice_among_the_bootstrap_servers_is_random(
    requests: RequestManager, random: FixedRandom, drawn: int, expected: int
) -> None:
    random.number = drawn

    assert requests.ready_bootstrap_server(START_MS) == expected


def test_servers_that_are_left_in_peace_are_skipped_and_the_choice_goes_round(
    requests: RequestManager, random: FixedRandom
) -> None:
    random.number = 2
    requests.sent(-4, 1, START_MS)
    requests.failed(-4, 1, START_MS)

    assert requests.ready_bootstrap_server(START_MS) == -2
    assert requests.ready_bootstrap_server(START_MS + BACKOFF_MS) == -4


def test_while_all_servers_are_left_in_peace_the_first_to_be_ready_is_waited_for(
    requests: RequestManager,
) -> None:
    for server in SERVERS:
        requests.sent(server, -server, START_MS)
        requests.failed(server, -server, START_MS - server)

    assert requests.ready_bootstrap_server(START_MS + 4) is None
    assert requests.bootstrap_ready_at_ms(START_MS + 4) == START_MS + 2 + BACKOFF_MS


def test_without_bootstrap_servers_no_node_is_asked(random: FixedRandom) -> None:
    requests = RequestManager({}, REQUEST_MS, BACKOFF_MS, random)

    assert requests.ready_bootstrap_server(START_MS) is None
    assert requests.bootstrap_ready_at_ms(START_MS) == NEVER_MS
