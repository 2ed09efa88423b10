"""What a leader does with records: it appends them, and gives them to those who fetch."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import NotLeader, RecordListTooLarge
from kraft.raft.config import MAX_BATCH_BYTES, MAX_PARKED_FETCHES, MAX_PARKED_MS
from kraft.raft.inputs import RaftTick
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
)
from kraft.raft.outputs import FlushLog, SendResponse
from kraft.raft.values import OffsetAndEpoch
from tests.support.raft_harness import (
    CONFIG,
    LISTENER,
    RaftHarness,
    batches_in,
    begin,
    endpoint,
    fetch,
    log_of,
    vote,
)

LINGER_MS = CONFIG.append_linger_ms
WAIT_MS = 500


def leader_of(*epochs: int) -> RaftHarness:
    """Elected at the end of such a log; its own first record follows."""
    return RaftHarness(log=log_of(*epochs)).start().become_leader()


def appended(node: RaftHarness, *values: bytes) -> int:
    """Someone who uses the leadership appends; gives the last offset."""
    last = node.node.prepare_append(node.node.epoch, values, node.now_ms)
    node.node.schedule_prepared_append()
    return last


# A leader writes.


def test_what_is_appended_is_written_after_the_linger_and_flushed() -> None:
    node = leader_of()

    assert appended(node, b"a", b"b") == 2
    assert node.node.deadline_ms == node.now_ms + LINGER_MS
    node.pass_ms(LINGER_MS - 1)
    assert node.log.end_offset == 1
    node.pass_ms(1)

    assert node.log.end_offset == node.log.flushed_offset == 3
    ((_, content),) = batches_in(node.log.read(1, 1))
    assert [record.value for record in content] == [b"a", b"b"]


def test_what_was_only_prepared_is_not_written() -> None:
    node = leader_of()

    node.node.prepare_append(1, [b"a"], node.now_ms)
    node.run_ms(LINGER_MS)
    assert node.log.end_offset == 1
    node.node.schedule_prepared_append()
    node.step(RaftTick())

    assert node.log.end_offset == 2


@pytest.mark.parametrize("state", ["unattached", "candidate", "follower"])
def test_only_a_leader_takes_records(state: str) -> None:
    node = RaftHarness().start()
    if state == "candidate":
        node.become_candidate()
    if state == "follower":
        node.follow(2, epoch=1)

    with pytest.raises(NotLeader):
        node.node.prepare_append(node.node.epoch, [b"a"], node.now_ms)


def test_records_of_an_epoch_before_the_leaders_are_refused() -> None:
    node = leader_of(4)

    with pytest.raises(NotLeader, match="stale"):
        node.node.prepare_append(4, [b"a"], node.now_ms)
    with pytest.raises(RecordListTooLarge):
        node.node.prepare_append(5, [b"a" * MAX_BATCH_BYTES], node.now_ms)


@pytest.mark.parametrize("news", [begin(3, 2), vote(3, 2, OffsetAndEpoch(9, 1)), vote(3, 2)])
def test_what_a_deposed_leader_had_not_written_yet_is_never_written(
    news: BeginQuorumEpochRequest | VoteRequest,
) -> None:
    node = leader_of()
    appended(node, b"lost")

    node.ask(news)
    node.run_ms(LINGER_MS)

    assert node.log.end_offset == 1
    with pytest.raises(NotLeader):
        node.node.prepare_append(1, [b"a"], node.now_ms)


# A leader serves.


def test_a_fetch_gets_the_records_from_its_offset_on_committed_or_not() -> None:
    node = leader_of(1, 1)

    response = node.fetch(fetch(2, 2, 1, 1))

    assert [header.base_offset for header, _ in batches_in(response.records)] == [1, 2]
    assert (response.leader_id, response.leader_epoch) == (1, 2)
    assert response.leader_endpoint == endpoint(1)
    assert (response.high_watermark, response.log_start_offset) == (-1, 0)


def test_a_fetch_at_the_end_of_the_log_waits_for_the_next_record() -> None:
    node = leader_of()
    assert node.ask(fetch(2, 1, 1, 1)) is None
    waiting = node.last_request_id

    appended(node, b"a")
    node.pass_ms(LINGER_MS)

    response = node.answer_to(waiting)
    assert isinstance(response, FetchResponse)
    assert [header.base_offset for header, _ in batches_in(response.records)] == [1]
    assert response.high_watermark == 1


def test_a_waiting_fetch_gets_the_records_before_the_leaders_disk_has_them() -> None:
    node = leader_of()
    node.ask(fetch(2, 1, 1, 1))
    appended(node, b"a")

    node.pass_ms(LINGER_MS)

    kinds = [type(output) for output in node.outputs]
    assert kinds.index(SendResponse) < kinds.index(FlushLog)


def test_a_lone_voters_records_are_on_its_disk_before_it_calls_them_committed() -> None:
    node = RaftHarness(voters=[1]).start()
    assert node.ask(fetch(9, 1, 1, 1)) is None
    appended(node, b"a")

    node.pass_ms(LINGER_MS)

    (response,) = node.of(SendResponse)
    assert isinstance(response.response, FetchResponse)
    assert response.response.high_watermark == 2
    assert node.outputs.index(FlushLog(2)) < node.outputs.index(response)


def test_a_fetch_that_timed_out_gets_the_current_high_watermark() -> None:
    node = leader_of()
    node.ask(fetch(2, 1, 1, 1))
    first = node.last_request_id
    node.ask(fetch(3, 1, 1, 1, max_wait_ms=100))
    assert node.node.high_watermark == 1
    node.pass_ms(100)
    assert node.answer_to(first) is None

    node.pass_ms(WAIT_MS - 100)

    response = node.answer_to(first)
    assert isinstance(response, FetchResponse)
    assert (response.error, response.records, response.high_watermark) == (ErrorCode.none, b"", 1)


def test_no_fetch_waits_longer_than_the_most_that_is_allowed() -> None:
    node = RaftHarness(voters=[1]).start()
    assert node.ask(fetch(9, 1, 1, 1, max_wait_ms=2**31 - 1)) is None
    waiting = node.last_request_id

    node.pass_ms(MAX_PARKED_MS - 1)
    assert node.answer_to(waiting) is None
    node.pass_ms(1)

    assert node.answer_to(waiting) is not None


def test_a_fetch_that_does_not_want_to_wait_is_answered_at_once() -> None:
    node = leader_of()

    response = node.fetch(fetch(2, 1, 1, 1, max_wait_ms=0))

    assert (response.error, response.records) == (ErrorCode.none, b"")


def test_a_diverging_fetch_gets_the_diverging_epoch_at_once() -> None:
    node = leader_of(1, 1, 4)

    response = node.fetch(fetch(2, 5, 9, 3))

    assert response.diverging_epoch == OffsetAndEpoch(2, 1)
    assert (response.error, response.records) == (ErrorCode.none, b"")


def test_a_fetch_that_parts_from_the_log_acknowledges_nothing() -> None:
    node = leader_of(1, 1)

    node.fetch(fetch(2, 2, 50, 1))

    assert node.node.high_watermark is None


def test_a_fetch_beyond_the_end_parts_from_the_log_at_its_end() -> None:
    node = leader_of(1, 1)

    response = node.fetch(fetch(2, 2, 4, 2))

    assert response.diverging_epoch == OffsetAndEpoch(3, 2)


@pytest.mark.parametrize(
    "request_",
    [
        fetch(2, 1, -1),
        fetch(2, 1, 0, -1),
        fetch(2, 1, 0, 2),
        fetch(2, 1, 0, 0, max_wait_ms=-1),
        fetch(2, -1, 0, 0),
    ],
    ids=["offset", "last epoch", "last epoch after the leader's", "wait", "leader epoch"],
)
def test_a_fetch_that_makes_no_sense_is_refused(request_: FetchRequest) -> None:
    node = leader_of()

    response = node.fetch(request_)

    assert response == FetchResponse(
        error=ErrorCode.invalid_request,
        leader_id=1,
        leader_epoch=1,
        leader_endpoint=endpoint(1),
        log_start_offset=0,
    )


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(1, ErrorCode.fenced_leader_epoch), (3, ErrorCode.unknown_leader_epoch)],
)
def test_a_fetch_of_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    node = leader_of(1)

    response = node.fetch(fetch(2, epoch))

    assert (response.error, response.leader_epoch) == (error, 2)


def test_a_node_that_does_not_lead_answers_a_fetch_at_once_with_the_leader() -> None:
    node = RaftHarness().start()
    assert node.fetch(fetch(3, 0)) == FetchResponse(
        error=ErrorCode.not_leader_or_follower, leader_epoch=0, log_start_offset=0
    )

    node.follow(2, epoch=4)

    assert node.fetch(fetch(3, 4)) == FetchResponse(
        error=ErrorCode.not_leader_or_follower,
        leader_id=2,
        leader_epoch=4,
        leader_endpoint=endpoint(2),
        log_start_offset=0,
    )


def test_a_fetch_under_the_leaders_own_id_is_refused() -> None:
    assert leader_of().fetch(fetch(1, 1)).error is ErrorCode.unknown_server_error


def test_an_observer_without_an_id_is_served() -> None:
    node = leader_of()

    assert node.fetch(fetch(None, 1)).records == node.log.read(0, 1000)
    assert node.node.high_watermark is None


@pytest.mark.parametrize(("news", "leader"), [(begin(3, 2), 3), (vote(3, 2), None)])
def test_a_fetch_that_waits_at_a_deposed_leader_gets_an_error_at_once(
    news: BeginQuorumEpochRequest | VoteRequest, leader: int | None
) -> None:
    node = leader_of()
    node.ask(fetch(2, 1, 1, 1))
    waiting = node.last_request_id

    node.ask(news)

    response = node.answer_to(waiting)
    assert response is not None
    assert response.error is ErrorCode.not_leader_or_follower
    assert (response.leader_id, response.leader_epoch) == (leader, 2)


def test_only_so_many_fetches_wait() -> None:
    node = leader_of()
    for replica in range(MAX_PARKED_FETCHES):
        assert node.ask(fetch(100 + replica, 1, 1, 1)) is None

    assert node.fetch(fetch(99, 1, 1, 1)).error is ErrorCode.none


def test_the_offset_of_a_fetch_acknowledges_all_before_it_and_commits_it() -> None:
    node = leader_of()
    appended(node, b"a", b"b")
    node.pass_ms(LINGER_MS)

    response = node.fetch(fetch(2, 1, 1, 1))
    assert response.high_watermark == 1
    assert node.ask(fetch(2, 1, 3, 1)) is None

    assert node.node.high_watermark == 3
    assert node.log.high_watermark == 3


def test_a_higher_high_watermark_alone_wakes_no_fetch() -> None:
    node = leader_of()
    node.ask(fetch(2, 1, 1, 1))
    waiting = node.last_request_id

    node.ask(fetch(3, 1, 1, 1))

    assert node.answer_to(waiting) is None


def test_only_the_leader_describes_the_quorum() -> None:
    node = leader_of()
    node.ask(fetch(2, 1, 1, 1))
    node.ask(fetch(9, 1, 1, 1))

    described = node.asked(DescribeQuorumResponse, DescribeQuorumRequest())
    assert (described.leader_id, described.leader_epoch, described.high_watermark) == (1, 1, 1)
    assert [(row.replica.id, row.log_end_offset) for row in described.voters] == [
        (1, 1),
        (2, 1),
        (3, -1),
    ]
    assert [row.replica.id for row in described.observers] == [9]
    assert described.nodes == {voter: {LISTENER: endpoint(voter)} for voter in (1, 2, 3)}

    follower = RaftHarness().start()
    follower.follow(2, epoch=1)
    assert follower.asked(DescribeQuorumResponse, DescribeQuorumRequest()) == (
        DescribeQuorumResponse(error=ErrorCode.not_leader_or_follower)
    )
