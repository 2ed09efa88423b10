"""A snapshot that is being downloaded, and what is left of it when it ends early."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kraft.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kraft.raft.states import StateName
from kraft.raft.values import OffsetAndEpoch
from tests.support.raft_harness import FETCH_MS, RaftHarness, begin, vote
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

SNAPSHOT = OffsetAndEpoch(7, 2)
CONTENT = bytes(range(100))


class WatchedLog(InMemoryRaftLog):
    """Knows whether the beginning of a snapshot lies about."""

    has_partial_snapshot = False

    @override
    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        super().begin_download(snapshot_id)
        self.has_partial_snapshot = True

    @override
    def finish_download(self) -> None:
        super().finish_download()
        self.has_partial_snapshot = False

    @override
    def drop_download(self) -> None:
        super().drop_download()
        self.has_partial_snapshot = False


def part(position: int, data: bytes, snapshot_id: OffsetAndEpoch = SNAPSHOT) -> (
    FetchSnapshotResponse
):  # fmt: skip
    return FetchSnapshotResponse(
        leader_id=2,
        leader_epoch=4,
        snapshot_id=snapshot_id,
        size=len(CONTENT),
        position=position,
        data=data,
    )


def downloading() -> tuple[RaftHarness, WatchedLog]:
    """A follower of node 2 that has thirty bytes of a snapshot."""
    log = WatchedLog()
    node = RaftHarness(log=log).start()
    offer = FetchResponse(leader_id=2, leader_epoch=4, snapshot_id=SNAPSHOT)
    node.reply(node.follow(2, epoch=4), offer)
    node.reply(node.only_send, part(0, CONTENT[:30]))
    assert log.has_partial_snapshot
    return node, log


def later_epoch(node: RaftHarness) -> None:
    node.reply(node.only_send, FetchSnapshotResponse(leader_id=3, leader_epoch=5))


def not_found(node: RaftHarness) -> None:
    gone = FetchSnapshotResponse(error=ErrorCode.snapshot_not_found, leader_id=2, leader_epoch=4)
    node.reply(node.only_send, gone)


def out_of_range(node: RaftHarness) -> None:
    wrong = FetchSnapshotResponse(
        error=ErrorCode.position_out_of_range, leader_id=2, leader_epoch=4
    )
    node.reply(node.only_send, wrong)


def spoilt(node: RaftHarness) -> None:
    node.reply(
        node.only_send, FetchSnapshotResponse(top_level_error=ErrorCode.unknown_server_error)
    )


def voted(node: RaftHarness) -> None:
    assert node.vote(vote(3, 5, OffsetAndEpoch(9, 4))).vote_granted


def led_by_another(node: RaftHarness) -> None:
    node.begin(begin(3, 5))


def stood(node: RaftHarness) -> None:
    node.run_ms(FETCH_MS)
    assert node.state() is StateName.CANDIDATE


@pytest.mark.parametrize(
    "end", [later_epoch, not_found, out_of_range, spoilt, voted, led_by_another, stood]
)
def test_however_a_download_ends_early_nothing_of_it_stays(
    end: Callable[[RaftHarness], None],
) -> None:
    node, log = downloading()

    end(node)

    assert not log.has_partial_snapshot
    assert log.snapshots == {}


def test_a_download_that_ends_well_leaves_the_snapshot_alone() -> None:
    node, log = downloading()

    node.reply(node.only_send, part(30, CONTENT[30:]))

    assert not log.has_partial_snapshot
    assert log.snapshots == {SNAPSHOT: CONTENT}


def test_a_download_may_come_byte_by_byte() -> None:
    node, log = downloading()

    for position in range(30, len(CONTENT)):
        node.reply(node.only_send, part(position, CONTENT[position : position + 1]))

    assert log.snapshots == {SNAPSHOT: CONTENT}


@pytest.mark.parametrize("half", [OffsetAndEpoch(7, -1), OffsetAndEpoch(-1, 2)])
def test_half_the_name_of_a_snapshot_means_that_there_is_none_any_more(
    half: OffsetAndEpoch,
) -> None:
    node, _ = downloading()

    node.reply(node.only_send, part(30, CONTENT[30:], half))

    assert isinstance(node.only_send.request, FetchRequest)
    assert node.only_send.destination_id == 2


def test_a_leader_without_the_snapshot_is_a_leader_that_answers() -> None:
    node, _ = downloading()
    send = node.only_send
    node.run_ms(FETCH_MS - 1)

    gone = FetchSnapshotResponse(error=ErrorCode.snapshot_not_found, leader_id=2, leader_epoch=4)
    node.reply(send, gone)
    node.run_ms(FETCH_MS - 1)

    assert node.state() is StateName.FOLLOWER


def test_every_part_is_asked_of_the_epoch_that_is_followed() -> None:
    node, _ = downloading()

    request = node.only_send.request
    assert isinstance(request, FetchSnapshotRequest)

    assert (request.leader_epoch, request.snapshot_id, request.position) == (4, SNAPSHOT, 30)
