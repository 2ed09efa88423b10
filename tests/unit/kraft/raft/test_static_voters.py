"""A node of static voters takes no part in a quorum whose log names the voters (KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_common.errors import RaftFatal
from kraft.metadata.metadata_batches import encode_control_batch
from kraft.raft.control_records import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
)
from kraft.raft.static_voters import VoterRecordsGuard
from kraft.raft.values import OffsetAndEpoch
from tests.support.raft_harness import RaftHarness, batch, following, log_of
from tests.support.raft_harness import records as answer
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

FIVE = KRaftVoters(
    tuple(Voter(n, None, (VoterEndpoint("CONTROLLER", "localhost", 9093),), 0, 1) for n in range(5))
)
NAMING_VOTERS = ([KRaftVersion(1)], [FIVE], [LeaderChange(2, (1, 2, 3), (2, 3)), FIVE])


def control(offset: int, records: Sequence[ControlRecord], epoch: int = 1) -> bytes:
    return encode_control_batch(records, base_offset=offset, epoch=epoch, timestamp=7)


def snapshot(records: Sequence[ControlRecord]) -> bytes:
    first = control(0, [SnapshotHeader(7), *records])
    return first + batch(len(records) + 1, 1, 50) + control(90, [SnapshotFooter()])


@pytest.mark.parametrize("records", NAMING_VOTERS)
def test_a_node_whose_log_names_voters_refuses_to_start(records: Sequence[ControlRecord]) -> None:
    log = log_of(1, 1, 1)
    log.append_as_follower(control(3, records), 1)

    with pytest.raises(RaftFatal, match=r"kraft.version 1.*controller.quorum.voters") as refused:
        RaftHarness(log=log).start()
    assert "record at offset" in str(refused.value)


@pytest.mark.parametrize("records", NAMING_VOTERS)
def test_a_node_whose_snapshot_names_voters_refuses_to_start(
    records: Sequence[ControlRecord],
) -> None:
    log = InMemoryRaftLog(chunk_bytes=13)
    log.begin_download(OffsetAndEpoch(100, 1))
    log.append_download(snapshot(records))
    log.finish_download()

    with pytest.raises(RaftFatal, match="snapshot"):
        RaftHarness(log=log).start()


@pytest.mark.parametrize("records", NAMING_VOTERS)
def test_a_follower_ends_before_it_appends_records_that_name_voters(
    records: Sequence[ControlRecord],
) -> None:
    node, fetch = following()

    with pytest.raises(RaftFatal, match="A Fetch response from leader 2"):
        node.reply(fetch, answer(2, 1, batch(0, 1) + control(1, records)))

    assert node.log.end_offset == 0
    node.restart()


def test_version_0_and_what_else_a_raft_layer_writes_is_no_reason_to_refuse() -> None:
    log = log_of(1)
    log.append_as_follower(control(1, [LeaderChange(2, (1, 2, 3), (2, 3)), KRaftVersion(0)]), 1)

    assert RaftHarness(log=log).start().node.epoch == 1


@pytest.mark.parametrize("size", [1, 7, 61, 100, 10_000])
def test_voters_are_found_whatever_the_pieces_are(size: int) -> None:
    data = batch(0, 1, 40) + snapshot([KRaftVersion(1), FIVE])
    guard = VoterRecordsGuard("it")

    def feed() -> None:
        for at in range(0, len(data), size):
            guard.feed(data[at : at + size])

    with pytest.raises(RaftFatal):
        feed()


def test_what_is_broken_is_left_to_those_who_read_it() -> None:
    whole = control(0, [FIVE])
    damaged = bytearray(whole)
    damaged[-3] ^= 1

    with pytest.raises(RaftFatal):
        VoterRecordsGuard("it").feed(whole)
    for data in (bytes(damaged), b"\0" * 200, b"no batch at all, and longer than a header is" * 3):
        VoterRecordsGuard("it").feed(data)
