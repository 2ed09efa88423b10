"""When a node wants a tick, and what a lone voter's log knows to be committed."""

from __future__ import annotations

import pytest

from kraft.raft.inputs import RaftShutdown
from kraft.raft.messages import VoteRequest
from kraft.raft.outputs import SendRequest
from tests.support.raft_harness import CONFIG, RaftHarness, begin, fetch, rejected, standing


@pytest.mark.parametrize("waits_ms", [(70, 300), (300, 70)])
def test_of_several_fetches_that_wait_the_first_to_be_answered_counts(
    waits_ms: tuple[int, int],
) -> None:
    node = RaftHarness().start().become_leader()
    node.run_ms(10)

    for replica, wait_ms in zip((2, 3), waits_ms, strict=True):
        assert node.ask(fetch(replica, 1, 1, 1, max_wait_ms=wait_ms)) is None

    assert node.node.deadline_ms == node.now_ms + 70


def test_the_log_of_a_lone_voter_knows_what_is_committed() -> None:
    node = RaftHarness(voters=[1]).start()
    assert node.log.high_watermark == 1

    node.node.prepare_append(1, [b"a", b"b"], node.now_ms)
    node.node.schedule_prepared_append()
    node.run_ms(CONFIG.append_linger_ms)

    assert node.log.high_watermark == node.node.high_watermark == 3


def test_a_candidate_that_leaves_and_has_lost_sends_no_more_requests() -> None:
    node, (*sends, last) = standing(voters=[1, 2, 3, 4, 5])
    node.step(RaftShutdown(60_000))

    for send in sends:
        node.reply(send, rejected(1))
    node.fail(last)
    outputs = node.run_ms(10 * CONFIG.retry_backoff_ms)

    assert not [
        o for o in outputs if isinstance(o, SendRequest) and isinstance(o.request, VoteRequest)
    ]


def test_the_next_record_of_a_leader_goes_behind_those_that_wait_to_be_written() -> None:
    node = RaftHarness().start().become_leader()
    assert node.node.next_append_offset == node.log.end_offset == 1

    node.node.prepare_append(1, [b"a", b"b"], node.now_ms)
    assert (node.node.next_append_offset, node.log.end_offset) == (3, 1)
    node.begin(begin(3, 2))

    # What it had not written is gone, and who leads says what comes next.
    assert node.node.next_append_offset == node.log.end_offset == 1
