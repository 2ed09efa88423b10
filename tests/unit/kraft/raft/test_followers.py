"""How a follower comes by the leader's records: its Fetches, and what it does with the answers."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.config import QuorumConfig
from kraft.raft.messages import FetchRequest
from kraft.raft.outputs import FlushLog, SendRequest
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CLUSTER,
    CONFIG,
    FETCH_MS,
    RaftHarness,
    batch,
    endpoint,
    following,
    log_of,
    records,
    refused,
)
from tests.unit.kraft.raft.followers import diverging, fetches

# A follower fetches.


def test_a_follower_with_an_empty_log_fetches_from_0_and_no_epoch() -> None:
    node = RaftHarness().start()

    send = node.follow(2, epoch=4)

    assert send.endpoint == endpoint(2)
    assert send.request == FetchRequest(
        CLUSTER, ReplicaKey(1), 4, 0, 0, max_wait_ms=500, max_bytes=8 * 1024 * 1024
    )


def test_a_follower_fetches_from_the_end_of_its_log_with_its_last_epoch() -> None:
    node = RaftHarness(log=log_of(1, 3, 3)).start()

    node.follow(2, epoch=4)

    assert fetches(node.outputs) == [(2, 3, 3)]


def test_a_follower_has_one_fetch_in_flight() -> None:
    node, _ = following(2, epoch=4)

    assert fetches(node.run_ms(FETCH_MS - 1)) == []


def test_a_voter_flushes_what_it_appends_before_the_fetch_that_acknowledges_it() -> None:
    node, send = following(2, epoch=4)

    node.reply(send, records(2, 4, batch(0, 4, 3)))

    assert node.log.end_offset == 3
    flush, again = node.outputs
    assert flush == FlushLog(3)
    assert fetches([again]) == [(2, 3, 4)]


def test_what_a_voter_finds_at_its_start_is_on_disk_before_it_acknowledges_it() -> None:
    log = log_of(1)
    log.append_as_follower(batch(1, 1), 1)
    assert log.flushed_offset == 1

    node = RaftHarness(log=log, stored=ElectionState(1, leader_id=2)).start()

    assert node.outputs.index(FlushLog(2)) < node.outputs.index(node.only_send)
    assert fetches(node.outputs) == [(2, 2, 1)]
    assert RaftHarness(local=9, log=log).start().of(FlushLog) == []


def test_an_observer_need_not_flush() -> None:
    node, send = following(2, epoch=4, local=9)

    node.reply(send, records(2, 4, batch(0, 4, 3)))

    assert node.of(FlushLog) == []
    assert node.log.end_offset == 3


def test_a_follower_takes_over_as_much_of_the_high_watermark_as_it_has() -> None:
    node, send = following(2, epoch=4)

    node.reply(send, records(2, 4, batch(0, 4, 3), high_watermark=100))
    assert node.node.high_watermark == 3
    node.reply(node.only_send, records(2, 4, high_watermark=100))

    assert node.node.high_watermark == node.log.high_watermark == 3


def test_an_answer_without_records_brings_the_high_watermark_and_is_a_sign_of_life() -> None:
    node, send = following(2, epoch=4, log=log_of(1, 1, 1))
    node.run_ms(FETCH_MS - 1)

    node.reply(send, records(2, 4, high_watermark=2))

    assert node.node.high_watermark == 2
    assert node.of(FlushLog) == []
    node.reply(node.only_send, records(2, 4))
    node.run_ms(FETCH_MS - 1)
    assert node.state() is StateName.FOLLOWER


def test_a_leader_without_a_high_watermark_takes_nothing_back() -> None:
    node, send = following(2, epoch=4, log=log_of(1, 1))
    node.reply(send, records(2, 4, high_watermark=2))
    send = node.follow(3, epoch=5)

    node.reply(send, records(3, 5, high_watermark=-1))

    assert node.node.high_watermark == 2


def test_a_leader_that_takes_its_high_watermark_back_is_fatal() -> None:
    node, send = following(2, epoch=4, log=log_of(1, 1))
    node.reply(send, records(2, 4, high_watermark=2))

    with pytest.raises(RaftFatal, match="takes the high watermark back from 2 to 1"):
        node.reply(node.only_send, records(2, 4, high_watermark=1))


# Logs that part.


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OffsetAndEpoch(1, 1), (1, 1)),
        (OffsetAndEpoch(2, 1), (2, 1)),
        (OffsetAndEpoch(4, 3), (4, 3)),
        (OffsetAndEpoch(9, 3), (4, 3)),
        (OffsetAndEpoch(5, 2), (2, 1)),
        (OffsetAndEpoch(3, 0), (3, 3)),
    ],
)
def test_a_follower_truncates_to_the_last_place_that_both_logs_have(
    given: OffsetAndEpoch, expected: tuple[int, int]
) -> None:
    node, send = following(2, epoch=5, log=log_of(1, 1, 3, 3, 4))

    node.reply(send, diverging(2, 5, *given))

    assert fetches(node.outputs) == [(2, *expected)]
    assert node.log.end_offset == expected[0]
    assert node.log.flushed_offset == expected[0]


def test_a_truncation_is_a_sign_of_life() -> None:
    node, send = following(2, epoch=5, log=log_of(1, 1))
    node.run_ms(FETCH_MS - 1)

    node.reply(send, diverging(2, 5, 1, 1))
    node.run_ms(FETCH_MS - 1)

    assert node.state() is StateName.FOLLOWER


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_truncation_below_the_high_watermark_is_fatal(epoch: int) -> None:
    node, send = following(2, epoch=4, log=log_of(1, 1, 1))
    node.reply(send, records(2, 4, high_watermark=3))

    with pytest.raises(RaftFatal, match="below the high watermark 3"):
        node.reply(node.only_send, diverging(2, 4, 2, epoch))

    assert node.log.end_offset == 3


# Records that are none.


def corrupted(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "data",
    [
        corrupted(batch(1, 4)),
        batch(1, 4) + corrupted(batch(2, 4)),
        batch(0, 4),
        batch(1, 4)[:30],
        batch(1, 5),
    ],
    ids=["corrupt", "corrupt behind a good one", "known already", "cut off", "later epoch"],
)
def test_of_records_that_are_none_nothing_is_appended_and_the_leader_has_a_pause(
    data: bytes,
) -> None:
    node, send = following(2, epoch=4, log=log_of(1))

    node.reply(send, records(2, 4, data, high_watermark=1))

    assert node.log.end_offset == 1
    # Someone else may know of another leader meanwhile.
    assert [destination for destination, _, _ in fetches(node.outputs)] == [3]
    node.reply(node.only_send, refused(ErrorCode.broker_not_available, 4))
    assert (2, 1, 1) in fetches(node.run_ms(CONFIG.retry_backoff_ms))


def test_a_leader_of_broken_records_is_given_up_when_the_fetch_timeout_is_over() -> None:
    node, send = following(2, epoch=4, log=log_of(1))
    node.run_ms(FETCH_MS - 1)

    node.reply(send, records(2, 4, corrupted(batch(1, 4))))
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_batches_from_the_first_of_a_later_epoch_on_are_left_out() -> None:
    node, send = following(2, epoch=4, log=log_of(1))

    node.reply(send, records(2, 4, batch(1, 3) + batch(2, 5) + batch(3, 4)))

    assert node.log.end_offset == 2
    assert fetches(node.outputs) == [(2, 2, 3)]


# Answers that mean something else.


def test_an_answer_in_a_later_epoch_is_believed_and_nothing_of_it_appended() -> None:
    node, send = following(2, epoch=4)

    node.reply(send, records(3, 5, batch(0, 5)))

    assert node.node.leader_and_epoch == LeaderAndEpoch(3, 5)
    assert node.log.end_offset == 0
    assert fetches(node.outputs) == [(3, 0, 0)]


def test_a_leader_that_is_unknown_in_a_later_epoch_leaves_a_node_unattached() -> None:
    node, send = following(2, epoch=4)

    node.reply(send, refused(ErrorCode.fenced_leader_epoch, 6))

    assert node.node.leader_and_epoch == (None, 6)


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_leader_that_does_not_know_the_epoch_yet_is_asked_again_at_once(epoch: int) -> None:
    node, send = following(2, epoch=4)

    node.reply(send, refused(ErrorCode.unknown_leader_epoch, epoch))

    assert fetches(node.outputs) == [(2, 0, 0)]


def test_another_leader_of_the_same_epoch_is_fatal() -> None:
    node, send = following(2, epoch=4)

    with pytest.raises(RaftFatal, match="contradicts the leader 2 of epoch 4"):
        node.reply(send, refused(ErrorCode.not_leader_or_follower, 4, leader=3))


def test_an_answer_for_who_has_become_a_candidate_is_dropped() -> None:
    node, send = following(2, epoch=4)
    node.run_ms(FETCH_MS)
    assert node.state() is StateName.CANDIDATE

    node.reply(send, records(2, 4, batch(0, 4)))

    assert node.log.end_offset == 0
    assert node.stored == ElectionState(5, voted_key=ReplicaKey(1))


def test_an_answer_of_the_former_leader_is_dropped() -> None:
    node, send = following(2, epoch=4)
    node.follow(3, epoch=5)

    node.reply(send, records(2, 4, batch(0, 4)))

    assert node.log.end_offset == 0
    assert node.of(SendRequest) == []


def test_an_answer_after_the_request_timeout_is_dropped() -> None:
    # The next Fetch from the same offset is on its way already: two answers, the same records.
    config = QuorumConfig(request_timeout_ms=500)
    node, send = following(2, epoch=4, config=config)
    again = [o for o in node.run_ms(500) if isinstance(o, SendRequest)]
    assert again

    node.reply(send, records(2, 4, batch(0, 4)))
    assert node.log.end_offset == 0
    node.reply(again[0], records(2, 4, batch(0, 4)))

    assert node.log.end_offset == 1


def test_an_invalid_request_is_a_failure_like_any_other() -> None:
    node, send = following(2, epoch=4)

    node.reply(send, refused(ErrorCode.invalid_request, 4, leader=2))

    assert node.state() is StateName.FOLLOWER
    assert 2 not in [destination for destination, _, _ in fetches(node.outputs)]
