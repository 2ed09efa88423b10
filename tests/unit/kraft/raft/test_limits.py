"""A node whose log may open no file: nothing half done, and it goes on when it may again."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kraft.raft.messages import EndQuorumEpochRequest
from kraft.raft.outputs import FlushLog
from kraft.raft.states import StateName
from tests.support.raft_harness import (
    CONFIG,
    ELECTION_MS,
    FETCH_MS,
    RaftHarness,
    batch,
    fetch,
    following,
    log_of,
    records,
    refused,
)
from tests.unit.kraft.raft.followers import diverging, fetches


def test_a_leader_that_may_not_append_resigns_and_has_lost_nothing_committed() -> None:
    node = RaftHarness().start().become_leader()
    node.ask(fetch(2, 1, 1, 1))
    committed = node.node.high_watermark
    node.node.prepare_append(1, [b"a"], node.now_ms)
    node.node.schedule_prepared_append()

    node.log.is_at_limit = True
    node.run_ms(CONFIG.append_linger_ms)

    assert node.state() is StateName.RESIGNED
    assert node.sends(EndQuorumEpochRequest)
    assert (node.log.end_offset, node.log.high_watermark) == (1, committed)


def test_what_a_leader_appended_before_it_reached_the_limit_is_flushed() -> None:
    node = RaftHarness().start().become_leader()
    append = node.log.append_as_leader

    def append_once(batches: bytes, epoch: int) -> None:
        append(batches, epoch)
        node.log.is_at_limit = True

    node.log.append_as_leader = append_once  # type: ignore[method-assign]
    for value in (b"a" * 5_000_000, b"b" * 5_000_000):
        node.node.prepare_append(1, [value], node.now_ms)
    node.node.schedule_prepared_append()
    outputs = node.run_ms(CONFIG.append_linger_ms)

    assert node.state() is StateName.RESIGNED
    assert node.log.end_offset == 2
    assert FlushLog(2) in outputs


def test_a_lone_voter_leads_again_when_it_may_append() -> None:
    node = RaftHarness(voters=[1]).start()
    node.node.prepare_append(1, [b"a"], node.now_ms)
    node.node.schedule_prepared_append()
    node.log.is_at_limit = True
    node.run_ms(5 * ELECTION_MS)
    assert node.log.high_watermark == 1

    node.log.is_at_limit = False
    node.run_ms(5 * ELECTION_MS)

    assert node.state() is StateName.LEADER
    assert node.log.high_watermark == node.log.end_offset > 1


def test_a_follower_that_may_not_append_asks_again_and_acknowledges_nothing() -> None:
    node, send = following(2, epoch=4, log=log_of(1))

    node.log.is_at_limit = True
    node.reply(send, records(2, 4, batch(1, 4), high_watermark=2))

    assert (node.log.end_offset, node.log.high_watermark) == (1, 0)
    node.reply(node.only_send, refused(ErrorCode.broker_not_available, 4))
    assert (2, 1, 1) in fetches(node.run_ms(CONFIG.retry_backoff_ms))


def test_a_follower_that_may_not_truncate_asks_again_from_where_it_is() -> None:
    node, send = following(2, epoch=5, log=log_of(1, 1))

    node.log.is_at_limit = True
    node.reply(send, diverging(2, 5, 1, 1))

    assert node.log.end_offset == 2
    node.reply(node.only_send, refused(ErrorCode.broker_not_available, 5))
    assert (2, 2, 1) in fetches(node.run_ms(CONFIG.retry_backoff_ms))


def test_a_follower_that_may_not_append_stays_with_its_leader() -> None:
    node, send = following(2, epoch=4, log=log_of(1))
    node.run_ms(FETCH_MS - 1)

    node.log.is_at_limit = True
    node.reply(send, records(2, 4, batch(1, 4)))
    node.run_ms(FETCH_MS - 1)

    assert node.state() is StateName.FOLLOWER
