"""How a snapshot comes from the leader to a follower that its log cannot help any more."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.errors import RaftFatal
from kraft.raft.config import MAX_FETCH_BYTES
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
)
from kraft.raft.states import StateName
from kraft.raft.values import OffsetAndEpoch, ReplicaKey
from tests.support.raft_harness import (
    CLUSTER,
    CONFIG,
    FETCH_MS,
    RaftHarness,
    batches_in,
    begin,
    endpoint,
    fetch,
    fetch_snapshot,
    following,
    log_of,
    records,
    vote,
)
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

EARLIER, LATEST = OffsetAndEpoch(4, 1), OffsetAndEpoch(7, 2)
CONTENT = bytes(range(100))
BOOTSTRAP = OffsetAndEpoch(0, 0)


def log_with_snapshots(*, is_cleaned: bool = True) -> InMemoryRaftLog:
    """Ten records with two snapshots; cleaned, it starts where the latest one ends."""
    log = log_of(1, 1, 1, 1, 2, 2, 2, 3, 3, 3, log=InMemoryRaftLog(retention_bytes=0))
    log.update_high_watermark(8)
    log.create_snapshot(EARLIER, b"earlier")
    log.create_snapshot(LATEST, CONTENT)
    if is_cleaned:
        log.clean(0)
        assert log.start_offset == 7
    return log


def leader(*, is_cleaned: bool = True) -> RaftHarness:
    """Leads epoch 4, whose first record stands at 10."""
    node = RaftHarness(log=log_with_snapshots(is_cleaned=is_cleaned)).start().become_leader()
    assert node.node.epoch == 4
    return node


def part(
    position: int,
    data: bytes,
    *,
    snapshot_id: OffsetAndEpoch = LATEST,
    leader_id: int = 2,
    leader_epoch: int = 4,
) -> FetchSnapshotResponse:
    """A part of the snapshot as its leader sends it."""
    return FetchSnapshotResponse(
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        snapshot_id=snapshot_id,
        size=len(CONTENT),
        position=position,
        data=data,
    )


def refusal(error: ErrorCode) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(error=error, leader_id=2, leader_epoch=4)


def not_leader_but(leader_id: int) -> FetchResponse:
    """What another node answers to a Fetch in epoch 4."""
    return FetchResponse(
        error=ErrorCode.not_leader_or_follower,
        leader_id=leader_id,
        leader_epoch=4,
        leader_endpoint=endpoint(leader_id),
    )


def offered(snapshot_id: OffsetAndEpoch) -> FetchResponse:
    return FetchResponse(leader_id=2, leader_epoch=4, snapshot_id=snapshot_id)


def downloading(log: InMemoryRaftLog | None = None) -> RaftHarness:
    """A follower of node 2 in epoch 4 that must load the latest snapshot."""
    node = RaftHarness(log=log).start()
    node.reply(node.follow(2, epoch=4), offered(LATEST))
    assert set(node.sends(FetchSnapshotRequest)) == {2}
    return node


# The leader refers to a snapshot.


def test_an_empty_log_is_referred_to_the_latest_snapshot_although_the_log_goes_back_to_0() -> None:
    response = leader(is_cleaned=False).fetch(fetch(2, 4, 0, 0))

    assert (response.error, response.snapshot_id) == (ErrorCode.none, LATEST)
    assert response.records == b""


@pytest.mark.parametrize(
    ("offset", "last_epoch"),
    [(6, 2), (1, 1), (7, 1), (7, 3), (9, 1)],
    ids=["below", "far below", "older at it", "newer at it", "older than any snapshot"],
)
def test_a_log_that_ends_before_this_one_starts_is_referred_to_the_latest_snapshot(
    offset: int, last_epoch: int
) -> None:
    response = leader().fetch(fetch(2, 4, offset, last_epoch))

    assert response.snapshot_id == LATEST
    assert response.diverging_epoch is None


def test_a_log_that_ends_where_this_one_starts_in_the_same_epoch_gets_records() -> None:
    response = leader().fetch(fetch(2, 4, 7, 2))

    assert response.snapshot_id is None
    assert [header.base_offset for header, _ in batches_in(response.records)] == [7, 8, 9, 10]
    assert response.log_start_offset == 7


def test_logs_may_part_where_this_one_starts() -> None:
    node = leader()

    assert node.fetch(fetch(2, 4, 9, 2)).diverging_epoch == LATEST


def test_the_snapshot_of_the_format_is_offered_to_no_node() -> None:
    log = log_of(1, 1)
    log.create_snapshot(BOOTSTRAP, b"format")
    node = RaftHarness(log=log).start().become_leader()

    assert node.fetch(fetch(2, 2, 0, 0)).snapshot_id is None
    response = node.asked(FetchSnapshotResponse, fetch_snapshot(2, 2, BOOTSTRAP))

    assert response.error is ErrorCode.snapshot_not_found


def test_a_node_referred_to_a_snapshot_has_acknowledged_nothing() -> None:
    node = leader()

    node.fetch(fetch(2, 4, 6, 2))

    assert node.node.high_watermark is None


# The leader gives a snapshot.


@pytest.mark.parametrize("max_bytes", [1, 7, 50, 99, 100, 1000])
def test_the_parts_of_a_snapshot_make_the_whole(max_bytes: int) -> None:
    node, received = leader(), b""

    while len(received) < len(CONTENT):
        response = node.asked(
            FetchSnapshotResponse,
            fetch_snapshot(2, 4, LATEST, len(received), max_bytes=max_bytes),
        )
        assert (response.error, response.snapshot_id) == (ErrorCode.none, LATEST)
        assert (response.size, response.position) == (len(CONTENT), len(received))
        assert 0 < len(response.data) <= max_bytes
        received += response.data

    assert received == CONTENT


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch_snapshot(2, 4, OffsetAndEpoch(7, 1)), ErrorCode.snapshot_not_found),
        (fetch_snapshot(2, 4, EARLIER), ErrorCode.snapshot_not_found),
        (fetch_snapshot(2, 4, LATEST, -1), ErrorCode.position_out_of_range),
        (fetch_snapshot(2, 4, LATEST, len(CONTENT)), ErrorCode.position_out_of_range),
        (fetch_snapshot(2, 3, LATEST), ErrorCode.fenced_leader_epoch),
        (fetch_snapshot(2, 5, LATEST), ErrorCode.unknown_leader_epoch),
        (fetch_snapshot(1, 4, LATEST), ErrorCode.unknown_server_error),
    ],
    ids=["unknown", "cleaned", "before", "behind", "older epoch", "later epoch", "own id"],
)
def test_a_part_that_there_is_not_is_refused_with_the_leader(
    request_: FetchSnapshotRequest, error: ErrorCode
) -> None:
    response = leader().asked(FetchSnapshotResponse, request_)

    assert response == FetchSnapshotResponse(
        error=error, leader_id=1, leader_epoch=4, leader_endpoint=endpoint(1)
    )


def test_a_node_that_does_not_lead_gives_no_snapshot() -> None:
    node, _ = following(2, epoch=4, log=log_with_snapshots())

    response = node.asked(FetchSnapshotResponse, fetch_snapshot(3, 4, LATEST))

    assert response.error is ErrorCode.not_leader_or_follower
    assert (response.leader_id, response.leader_epoch) == (2, 4)


def test_an_observer_without_an_id_gets_snapshots_too() -> None:
    response = leader().asked(FetchSnapshotResponse, fetch_snapshot(None, 4, LATEST))

    assert response.data == CONTENT


# A follower loads a snapshot.


def test_a_follower_that_is_referred_to_a_snapshot_asks_for_it_from_its_beginning() -> None:
    node = downloading()

    assert node.only_send.request == FetchSnapshotRequest(
        CLUSTER, ReplicaKey(1), 4, LATEST, 0, MAX_FETCH_BYTES
    )


def test_it_goes_on_where_the_last_part_ended() -> None:
    node = downloading()

    positions = []
    for position in (0, 30, 60):
        request = node.only_send.request
        assert isinstance(request, FetchSnapshotRequest)
        positions.append(request.position)
        node.reply(node.only_send, part(position, CONTENT[position : position + 30]))

    assert positions == [0, 30, 60]


def test_with_the_last_part_the_log_begins_anew_behind_the_snapshot() -> None:
    node = downloading(log_of(1, 1))
    node.reply(node.only_send, part(0, CONTENT[:60]))
    assert node.log.end_offset == 2

    node.reply(node.only_send, part(60, CONTENT[60:]))

    assert node.log.snapshots == {LATEST: CONTENT}
    assert (node.log.start_offset, node.log.end_offset) == (7, 7)
    assert node.node.high_watermark == node.log.high_watermark == 7
    request = node.only_send.request
    assert isinstance(request, FetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (7, 2)


def test_every_part_is_a_sign_of_life() -> None:
    node = downloading()
    for position in (0, 30, 60):
        node.now_ms += FETCH_MS - 1
        node.reply(node.only_send, part(position, CONTENT[position : position + 30]))

    assert node.state() is StateName.FOLLOWER


def test_a_snapshot_that_is_here_already_is_not_loaded_again() -> None:
    log = log_of(1, 1, 1)
    log.update_high_watermark(2)
    log.create_snapshot(OffsetAndEpoch(2, 1), b"here")
    node = RaftHarness(log=log).start()

    node.reply(node.follow(2, epoch=4), offered(OffsetAndEpoch(2, 1)))

    assert set(node.sends(FetchRequest)) == {2}


@pytest.mark.parametrize("half", [OffsetAndEpoch(7, -1), OffsetAndEpoch(-1, 2)])
def test_half_the_name_of_a_snapshot_is_none_and_the_leader_has_a_pause(
    half: OffsetAndEpoch,
) -> None:
    node = RaftHarness().start()

    node.reply(node.follow(2, epoch=4), offered(half))

    assert node.sends(FetchSnapshotRequest) == {}
    assert 2 not in node.sends(FetchRequest)


def fetched_again_at_once(node: RaftHarness) -> bool:
    return set(node.sends(FetchRequest)) == {2} and not node.sends(FetchSnapshotRequest)


@pytest.mark.parametrize(
    "response",
    [refusal(ErrorCode.snapshot_not_found), part(0, b"", snapshot_id=OffsetAndEpoch(-1, -1))],
)
def test_a_snapshot_that_the_leader_has_no_more_is_dropped_and_records_are_fetched(
    response: FetchSnapshotResponse,
) -> None:
    node = downloading()
    node.reply(node.only_send, part(0, CONTENT[:30]))

    node.reply(node.only_send, response)

    assert fetched_again_at_once(node)
    node.reply(node.only_send, offered(LATEST))
    request = node.only_send.request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.position == 0


@pytest.mark.parametrize(
    "response",
    [
        refusal(ErrorCode.position_out_of_range),
        refusal(ErrorCode.unknown_server_error),
        FetchSnapshotResponse(top_level_error=ErrorCode.unknown_server_error),
        part(30, CONTENT[30:], snapshot_id=EARLIER),
        part(29, CONTENT[29:]),
        part(30, b""),
        part(30, CONTENT),
    ],
    ids=["range", "error", "as a Java leader", "other", "other place", "nothing", "too much"],
)
def test_a_wrong_part_costs_the_download_and_a_pause(response: FetchSnapshotResponse) -> None:
    node = downloading()
    node.reply(node.only_send, part(0, CONTENT[:30]))

    node.reply(node.only_send, response)

    assert node.log.snapshots == {}
    assert node.state() is StateName.FOLLOWER
    meanwhile = node.only_send
    assert meanwhile.destination_id == 3
    node.now_ms += CONFIG.retry_backoff_ms
    node.reply(meanwhile, not_leader_but(2))
    assert fetched_again_at_once(node)


def test_a_leader_that_only_ever_refuses_parts_is_given_up() -> None:
    node = downloading()
    send = node.only_send
    node.run_ms(FETCH_MS - 1)

    node.reply(send, refusal(ErrorCode.position_out_of_range))
    node.run_ms(1)

    assert node.state() is StateName.CANDIDATE


def test_a_part_that_could_not_be_asked_for_is_asked_for_later() -> None:
    node = downloading()
    node.reply(node.only_send, part(0, CONTENT[:30]))

    node.fail(node.only_send)
    node.reply(node.only_send, FetchResponse(error=ErrorCode.broker_not_available, leader_epoch=4))
    node.run_ms(CONFIG.retry_backoff_ms)

    request = node.only_send.request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.position == 30


@pytest.mark.parametrize("news", [vote(3, 5, OffsetAndEpoch(9, 4)), begin(3, 5)])
def test_a_later_epoch_ends_the_download(news: VoteRequest | BeginQuorumEpochRequest) -> None:
    node = downloading()
    send = node.only_send

    node.ask(news)
    node.reply(send, part(0, CONTENT))

    assert node.log.snapshots == {}
    assert node.log.end_offset == 0


def test_a_candidacy_ends_the_download() -> None:
    node = downloading()
    send = node.only_send
    node.run_ms(FETCH_MS)
    assert node.state() is StateName.CANDIDATE

    node.reply(send, part(0, CONTENT))

    assert node.log.snapshots == {}


def test_an_answer_of_a_later_epoch_is_believed_and_ends_the_download() -> None:
    node = downloading()

    node.reply(node.only_send, part(0, CONTENT, leader_id=3, leader_epoch=5))

    assert node.node.leader_and_epoch == (3, 5)
    assert node.log.snapshots == {}
    assert set(node.sends(FetchRequest)) == {3}


def test_an_answer_of_an_older_epoch_is_ignored() -> None:
    node = downloading()

    node.reply(node.only_send, part(0, CONTENT, leader_epoch=3))

    assert node.log.snapshots == {}
    assert set(node.sends(FetchSnapshotRequest)) == {2}


def test_behind_the_snapshot_the_log_goes_on_with_records() -> None:
    source = log_with_snapshots()
    node = downloading()
    node.reply(node.only_send, part(0, CONTENT))

    node.reply(node.only_send, records(2, 4, source.read(7, 10_000), high_watermark=10))

    assert (node.log.start_offset, node.log.end_offset) == (7, 10)
    assert node.node.high_watermark == 10


def test_the_log_is_cleaned_once_a_minute() -> None:
    log = log_with_snapshots(is_cleaned=False)
    node = RaftHarness(log=log, voters=[1]).start()

    node.run_ms(59_999)
    assert log.start_offset == 0
    node.run_ms(1)

    assert log.start_offset == 7


class UncleanableLog(InMemoryRaftLog):
    """Its disk takes nothing away, and counts how often it was asked to."""

    asked = 0

    @override
    def clean(self, now_ms: int) -> bool:
        self.asked += 1
        raise OSError("read-only file system")


def test_a_log_that_cannot_be_cleaned_is_asked_again_a_minute_later() -> None:
    log = UncleanableLog()
    node = RaftHarness(log=log, voters=[1]).start()

    node.run_ms(2 * 60_000)

    assert log.asked == 2
    assert node.node.is_leader


# A snapshot that is older, by its epoch, than what a follower wrote when it led.


def follower_that_led() -> InMemoryRaftLog:
    """Its last record is of epoch 3, and no one else has it."""
    return log_of(2, 2, 2, 3)


def part_of(snapshot_id: OffsetAndEpoch) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        leader_id=2, leader_epoch=4, snapshot_id=snapshot_id, size=4, position=0, data=b"0005"
    )


def test_a_follower_drops_a_record_no_other_node_has_for_a_snapshot_of_an_older_epoch() -> None:
    node = downloading(follower_that_led())

    node.reply(node.only_send, part_of(LATEST))

    assert (node.log.start_offset, node.log.end_offset, node.log.last_epoch) == (7, 7, 2)
    request = node.only_send.request
    assert isinstance(request, FetchRequest)
    assert (request.fetch_offset, request.last_fetched_epoch) == (7, 2)


def test_a_snapshot_that_is_here_already_restarts_the_log_at_once() -> None:
    """The node was killed after the download, and its log still has the record."""
    log = follower_that_led()
    log.snapshots[LATEST] = b"0005"
    node = RaftHarness(log=log).start()

    node.reply(node.follow(2, epoch=4), offered(LATEST))

    assert (log.start_offset, log.end_offset, log.last_epoch) == (7, 7, 2)
    request = node.only_send.request
    assert isinstance(request, FetchRequest)
    assert request.fetch_offset == 7


def test_a_leader_that_offers_the_same_snapshot_for_ever_is_not_asked_without_a_pause() -> None:
    log = follower_that_led()
    log.snapshots[LATEST] = b"0005"
    node = RaftHarness(log=log).start()
    began_ms = node.now_ms
    fetch = node.follow(2, epoch=4)

    fetches = 0
    while node.now_ms < began_ms + 1_000 and fetches < 1_000:
        fetches += 1
        node.reply(fetch, offered(LATEST))
        node.run_until_it_sends(FetchRequest)
        fetch = node.only_send

    # While the leader is left alone, the other voters are asked in turn.
    assert fetches <= 2 * 1_000 / CONFIG.retry_backoff_ms + 2


def test_a_snapshot_below_what_is_committed_ends_the_node() -> None:
    log = log_of(2, 2, 2)
    node = RaftHarness(log=log).start()
    node.reply(
        node.follow(2, epoch=4), FetchResponse(leader_id=2, leader_epoch=4, high_watermark=3)
    )
    low = OffsetAndEpoch(2, 2)
    node.reply(node.only_send, offered(low))

    with pytest.raises(RaftFatal, match="below the high watermark 3"):
        node.reply(node.only_send, part_of(low))
