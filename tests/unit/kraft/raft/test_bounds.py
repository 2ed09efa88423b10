"""The edges of what a quorum is configured with, and of what a leader concludes from fetches."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import MAX_FETCH_BYTES, QuorumConfig
from kraft.raft.inputs import Resign
from kraft.raft.leader_state import LeaderState
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteResponse,
)
from kraft.raft.outputs import SendRequest
from kraft.raft.quorum import Quorum
from kraft.raft.request_manager import RequestManager
from kraft.raft.states import StateName, UnattachedState
from kraft.raft.values import ElectionState, OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CONFIG,
    LISTENER,
    START_MS,
    RaftHarness,
    endpoint,
    fetch,
    fetch_snapshot,
    log_of,
    voter_set,
)

QUORUM_MS = CONFIG.check_quorum_timeout_ms
TWO = ReplicaKey(2)


def leader(*voters: int) -> LeaderState:
    return LeaderState(
        5,
        ReplicaKey(1),
        voter_set(*voters),
        epoch_start_offset=10,
        granting_voters=voters,
        leader_endpoints={LISTENER: endpoint(1)},
        accumulator=BatchAccumulator(5, 10, 25),
        config=CONFIG,
        started_ms=START_MS,
    )


# Timers.


def deadlines_of_elections(timeout_ms: int, count: int) -> set[int]:
    random = Random(7)
    deadlines = set()
    for _ in range(count):
        quorum = Quorum(
            local=ReplicaKey(1),
            voters=voter_set(1, 2, 3),
            config=QuorumConfig(election_timeout_ms=timeout_ms),
            random=random,
            local_endpoints={},
            voter_endpoints=lambda _: {},
            persist=lambda _: None,
        )
        quorum.initialize(None, OffsetAndEpoch(0, 0), START_MS)
        assert isinstance(quorum.state, UnattachedState)
        deadlines.add(quorum.state.election_deadline_ms - START_MS)
    return deadlines


def test_an_election_timeout_is_drawn_between_once_and_twice_what_is_configured() -> None:
    drawn = deadlines_of_elections(10, 300)

    assert drawn == set(range(10, 20))


def test_without_an_election_timeout_nothing_is_drawn() -> None:
    assert deadlines_of_elections(0, 3) == {0}


def test_of_no_bootstrap_servers_none_is_drawn() -> None:
    requests = RequestManager({}, CONFIG.request_timeout_ms, CONFIG.retry_backoff_ms, Random(7))

    assert requests.ready_bootstrap_server(START_MS) is None


def test_two_voters_need_each_other() -> None:
    node = RaftHarness(voters=[1, 2]).start().become_leader()

    node.run_ms(QUORUM_MS - 1)
    node.ask(fetch(2, 1))
    node.run_ms(QUORUM_MS - 1)
    assert node.node.is_leader
    node.run_ms(1)

    assert node.state() is StateName.RESIGNED
    assert set(node.sends(EndQuorumEpochRequest)) == {2}


# Who has caught up.


def test_a_replica_that_lacks_what_was_there_at_its_last_fetch_has_not_caught_up() -> None:
    leading = leader(1, 2, 3)
    leading.appended(12)
    leading.replica_fetched(TWO, 5, START_MS + 50)
    leading.appended(15)

    leading.replica_fetched(TWO, 8, START_MS + 60)
    voters, _ = leading.progress(START_MS + 70)

    assert voters[1].last_fetch_timestamp == START_MS + 60
    assert voters[1].last_caught_up_timestamp == -1


def test_who_had_caught_up_had_it_at_the_time_of_its_last_fetch_and_not_before() -> None:
    leading = leader(1, 2, 3)
    leading.appended(12)
    leading.replica_fetched(TWO, 12, START_MS + 50)
    leading.appended(15)
    leading.replica_fetched(TWO, 13, START_MS + 60)
    leading.appended(20)

    leading.replica_fetched(TWO, 14, START_MS + 70)
    voters, _ = leading.progress(START_MS + 80)

    # At 60 it had what was there at 50; at 70 it lacks what was there at 60.
    assert voters[1].last_caught_up_timestamp == START_MS + 50


# A client that is not let in.


def after_a_vote() -> tuple[RaftHarness, SendRequest]:
    node = RaftHarness().start()
    return node, node.become_candidate()[0]


def after_a_begin() -> tuple[RaftHarness, SendRequest]:
    node = RaftHarness().start().become_leader()
    return node, node.send_to(2)


def after_an_end() -> tuple[RaftHarness, SendRequest]:
    node = RaftHarness().start().become_leader()
    node.step(Resign(1))
    return node, node.send_to(2)


def after_a_fetch() -> tuple[RaftHarness, SendRequest]:
    node = RaftHarness().start()
    return node, node.follow(2, epoch=4)


def after_a_fetch_of_a_snapshot() -> tuple[RaftHarness, SendRequest]:
    node, send = after_a_fetch()
    node.reply(send, FetchResponse(leader_id=2, leader_epoch=4, snapshot_id=OffsetAndEpoch(7, 2)))
    assert isinstance(node.only_send.request, FetchSnapshotRequest)
    return node, node.only_send


REFUSED = ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize(
    ("asked", "response"),
    [
        (after_a_vote, VoteResponse(top_level_error=REFUSED)),
        (after_a_begin, BeginQuorumEpochResponse(top_level_error=REFUSED)),
        (after_an_end, EndQuorumEpochResponse(top_level_error=REFUSED)),
        (after_a_fetch, FetchResponse(top_level_error=REFUSED)),
        (after_a_fetch_of_a_snapshot, FetchSnapshotResponse(top_level_error=REFUSED)),
    ],
    ids=["vote", "begin", "end", "fetch", "snapshot"],
)
def test_whatever_it_has_asked_a_node_that_is_not_let_in_ends(
    asked: Callable[[], tuple[RaftHarness, SendRequest]], response: AnyRaftResponse
) -> None:
    node, send = asked()

    with pytest.raises(RaftFatal, match="CLUSTER_AUTHORIZATION_FAILED"):
        node.reply(send, response)


# A request for more than there is.


def test_a_part_of_a_snapshot_may_be_asked_for_with_no_room_at_all() -> None:
    log = log_of(1, 1)
    log.update_high_watermark(2)
    log.create_snapshot(OffsetAndEpoch(2, 1), b"snapshot")
    node = RaftHarness(log=log).start().become_leader()

    for max_bytes in (0, -1):
        part = node.asked(
            FetchSnapshotResponse,
            fetch_snapshot(2, 2, OffsetAndEpoch(2, 1), max_bytes=max_bytes),
        )
        assert (part.error, part.data, part.size) == (ErrorCode.none, b"", 8)


def test_no_part_of_a_snapshot_is_larger_than_the_limit() -> None:
    log = log_of(1, 1)
    log.update_high_watermark(2)
    log.create_snapshot(OffsetAndEpoch(2, 1), bytes(MAX_FETCH_BYTES + 1))
    node = RaftHarness(log=log).start().become_leader()

    part = node.asked(
        FetchSnapshotResponse,
        fetch_snapshot(2, 2, OffsetAndEpoch(2, 1), max_bytes=2**31 - 1),
    )

    assert (len(part.data), part.size) == (MAX_FETCH_BYTES, MAX_FETCH_BYTES + 1)


def test_an_election_that_a_lone_voter_finds_is_no_reason_to_wait() -> None:
    node = RaftHarness(voters=[1], stored=ElectionState(5, leader_id=1)).start()

    assert node.now_ms == START_MS
    assert node.node.leader_and_epoch == (1, 6)
    assert node.node.high_watermark == 1
