"""What a Java node of the quorum does not survive, and this node therefore never says.

Kafka's node ends itself at an answer that contradicts what it knows: one that calls it the leader
when it does not lead, or one in its epoch that neither names a leader nor says why not.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.protocol import messages
from kafka_common.protocol.api_versions import ApiKey
from kraft.raft.inputs import RaftShutdown, Resign
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RaftRequest,
)
from kraft.raft.outputs import RaftOutput, SendRequest
from kraft.raft.states import StateName
from kraft.raft.values import METADATA_TOPIC_ID, OffsetAndEpoch
from kraft.raft.wire import write_response
from tests.support.raft_harness import (
    CONFIG,
    LISTENER,
    RaftHarness,
    batches_in,
    begin,
    endpoint,
    fetch,
    fetch_snapshot,
    granted,
    log_of,
    standing,
    vote,
)
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

SNAPSHOT: Final = OffsetAndEpoch(4, 1)
MAY_BE_SAID_WITHOUT_A_LEADER: Final = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.broker_not_available,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
}


def leader_with_a_snapshot() -> RaftHarness:
    """Leads epoch 3; its log begins at 4, behind a snapshot."""
    log = log_of(1, 1, 1, 1, 1, 2, log=InMemoryRaftLog(retention_bytes=0))
    log.update_high_watermark(4)
    log.create_snapshot(OffsetAndEpoch(2, 1), b"earlier")
    log.create_snapshot(SNAPSHOT, b"snapshot")
    assert log.clean(0)
    node = RaftHarness(log=log).start().become_leader()
    assert (node.node.epoch, node.log.start_offset) == (3, 4)
    return node


def on_the_wire(response: AnyRaftResponse, version: int) -> Any:
    """The one partition of a Fetch answer."""
    body = write_response(response, version)
    payload: Any = messages.read_response(ApiKey.FETCH, version, body)
    [topic] = payload.responses
    assert topic.topic_id == METADATA_TOPIC_ID
    [partition] = topic.partitions
    assert partition.partition_index == 0
    return partition


# What a leader says.


@pytest.mark.parametrize("version", range(13, 18))
@pytest.mark.parametrize(
    "request_",
    [
        fetch(2, 3, 5, 1),
        fetch(2, 3, 7, 3, max_wait_ms=0),
        fetch(2, 3, 0, 0),
        fetch(2, 3, 9, 1),
        fetch(2, 3, -1, 1),
        fetch(2, 2, 5, 1),
        fetch(2, 4, 5, 1),
        fetch(1, 3, 5, 1),
    ],
    ids=["records", "nothing", "snapshot", "diverging", "nonsense", "older", "later", "own id"],
)
def test_whatever_a_leader_answers_to_a_fetch_names_it(
    request_: FetchRequest, version: int
) -> None:
    response = leader_with_a_snapshot().fetch(request_)

    partition = on_the_wire(response, version)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 3)
    assert partition.log_start_offset == 4
    assert partition.records is not None
    if response.error is not ErrorCode.none:
        assert (partition.high_watermark, bytes(partition.records)) == (-1, b"")
        assert partition.diverging_epoch.epoch == partition.snapshot_id.epoch == -1


def test_a_fetch_that_timed_out_gets_the_leader_too() -> None:
    node = leader_with_a_snapshot()
    assert node.ask(fetch(2, 3, 7, 3)) is None

    node.pass_ms(500)

    response = node.answer_to(node.last_request_id)
    assert isinstance(response, FetchResponse)
    assert (response.error, response.leader_id, response.leader_epoch) == (ErrorCode.none, 1, 3)
    assert response.leader_endpoint == endpoint(1)


def test_a_voter_that_was_never_started_before_gets_the_leader_and_its_epoch() -> None:
    response = leader_with_a_snapshot().fetch(fetch(2, 0))

    assert (response.error, response.leader_id, response.leader_epoch) == (
        ErrorCode.fenced_leader_epoch,
        1,
        3,
    )


def test_a_leader_gives_batches_without_a_hole_and_of_epochs_that_it_knows() -> None:
    node = leader_with_a_snapshot()
    for value in (b"a", b"b"):
        node.node.prepare_append(3, [value, value], node.now_ms)
        node.node.schedule_prepared_append()
        node.pass_ms(CONFIG.append_linger_ms)

    batches = batches_in(node.fetch(fetch(2, 3, 4, 1)).records)

    assert [(h.base_offset, h.last_offset, h.record_count) for h, _ in batches] == [
        (4, 4, 1), (5, 5, 1), (6, 6, 1), (7, 8, 2), (9, 10, 2),
    ]  # fmt: skip
    assert [h.partition_leader_epoch for h, _ in batches] == [1, 2, 3, 3, 3]
    for header, records in batches[3:]:
        assert (header.magic, header.attributes) == (2, 0)
        assert {record.timestamp for record in records} == {header.base_timestamp}
        assert {(record.key, tuple(record.headers)) for record in records} == {(None, ())}


def test_a_part_of_a_snapshot_is_the_one_that_was_asked_for() -> None:
    node = leader_with_a_snapshot()

    part = node.asked(FetchSnapshotResponse, fetch_snapshot(2, 3, SNAPSHOT, 3, max_bytes=2))

    assert (part.snapshot_id, part.position, part.size, part.data) == (SNAPSHOT, 3, 8, b"ps")
    assert (part.leader_id, part.leader_epoch) == (1, 3)


def test_the_voters_get_one_endpoint_under_the_name_of_the_listener() -> None:
    # Another name, and the next Fetch of a Java node ends it.
    node = RaftHarness().start().become_leader()

    begins = node.sends(BeginQuorumEpochRequest)

    assert begins
    assert {tuple(each.leader_endpoints.items()) for each in begins.values()} == {
        ((LISTENER, endpoint(1)),)
    }


# What the others say.


def in_state(name: str) -> RaftHarness:
    """Of epoch 5, or near it, with a log of two records."""
    node = RaftHarness(log=log_of(1, 4)).start()
    match name:
        case "voted":
            assert node.vote(vote(2, 5, OffsetAndEpoch(2, 4))).vote_granted
        case "candidate":
            node.become_candidate()
        case "follower":
            node.follow(2, epoch=5)
        case "resigned":
            node.become_leader()
            node.step(Resign(node.node.epoch))
        case "leaving":
            node.become_leader()
            node.step(RaftShutdown(60_000))
        case _:
            assert name == "unattached"
    return node


STATES: Final = ("unattached", "voted", "candidate", "follower", "resigned", "leaving")


@settings(deadline=None)
@given(
    name=st.sampled_from(STATES),
    replica=st.sampled_from([None, 1, 2, 3, 9]),
    epoch=st.integers(0, 8),
    offset=st.integers(0, 5),
    last_epoch=st.integers(0, 8),
    max_wait_ms=st.sampled_from([0, 500, 60_000]),
)
def test_a_node_that_does_not_lead_answers_a_fetch_at_once_with_an_error_that_is_understood(
    name: str,
    replica: int | None,
    epoch: int,
    offset: int,
    last_epoch: int,
    max_wait_ms: int,
) -> None:
    node = in_state(name)
    request = fetch(replica, epoch, offset, min(last_epoch, epoch), max_wait_ms=max_wait_ms)

    response = node.fetch(request)

    assert response.error in MAY_BE_SAID_WITHOUT_A_LEADER
    assert response.leader_epoch == node.node.epoch
    assert response.leader_id == node.node.leader_and_epoch.leader_id
    assert (response.records, response.high_watermark) == (b"", -1)
    assert (response.diverging_epoch, response.snapshot_id) == (None, None)


requests = st.one_of(
    st.builds(
        vote,
        st.sampled_from([2, 3]),
        st.integers(0, 9),
        st.builds(OffsetAndEpoch, st.integers(0, 4), st.integers(0, 8)),
    ),
    st.builds(begin, st.sampled_from([2, 3]), st.integers(0, 9)),
    st.builds(
        lambda leader, epoch: EndQuorumEpochRequest(None, leader, epoch, (), {}),
        st.sampled_from([2, 3]),
        st.integers(0, 9),
    ),
    st.builds(fetch, st.sampled_from([2, 3]), st.integers(0, 9), st.integers(0, 4)),
    st.builds(
        fetch_snapshot,
        st.sampled_from([2, 3]),
        st.integers(0, 9),
        st.builds(OffsetAndEpoch, st.integers(0, 4), st.integers(0, 4)),
    ),
)


@settings(deadline=None)
@given(st.sampled_from(STATES), st.lists(st.tuples(requests, st.integers(0, 700)), max_size=8))
def test_no_node_is_named_as_leader_of_an_epoch_it_never_led(
    name: str, scenario: list[tuple[RaftRequest, int]]
) -> None:
    node = in_state(name)
    led = {(node.node.leader_and_epoch.leader_id, node.node.epoch)}

    for request, wait_ms in scenario:
        if isinstance(request, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            led.add((request.leader_id, request.leader_epoch))
        response = node.ask(request)
        named = response.leader_id if response is not None else None
        if named == 1:
            assert node.state() in (StateName.LEADER, StateName.RESIGNED)
        elif named is not None:
            assert response is not None
            assert (named, response.leader_epoch) in led
        node.run_ms(wait_ms)


def test_no_answer_to_an_earlier_state_is_taken_for_one_to_the_next() -> None:
    # One request in flight for each node, and a vote of epoch 1 does not elect in epoch 2.
    node, (first, second) = standing()
    sent: list[RaftOutput] = node.run_ms(4 * CONFIG.election_timeout_ms)
    assert node.node.epoch > 1

    node.reply(first, granted(node.node.epoch))
    node.reply(second, granted(node.node.epoch))

    assert node.state() is not StateName.LEADER
    in_flight = [o for o in sent if isinstance(o, SendRequest)]
    assert len({send.correlation_id for send in in_flight}) == len(in_flight)
