"""The driver: what is performed before what, what is bounded, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Final

import pytest
from typing_extensions import override

from kafka_common.errors import RaftFatal
from kraft.node import raft_driver
from kraft.node.raft_driver import Flush, RaftDriver
from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import RaftRequestReceived, RaftResponseReceived
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.outputs import SendRequest
from kraft.raft.values import ElectionState, NodeAddress, OffsetAndEpoch, ReplicaKey, VoterSet
from tests.support.quorum import CLUSTER_ID, eventually
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

VOTERS: Final = VoterSet({each: NodeAddress("127.0.0.1", 9000 + each) for each in (1, 2, 3)})
SLOW: Final = QuorumConfig(election_timeout_ms=60_000, fetch_timeout_ms=60_000)


class Disk:
    """The election's file, on a disk that can be made to hang or to fail."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.works.set()
        self.fails = False
        self.written: list[ElectionState] = []

    def read(self) -> ElectionState | None:
        return None

    def write(self, election: ElectionState) -> None:
        assert self.works.wait(20)
        if self.fails:
            raise OSError(28, "No space left on device")
        self.written.append(election)


class NoWay:
    """Channels that lose everything."""

    def __init__(self) -> None:
        self.sent: list[SendRequest] = []

    def send(self, send: SendRequest) -> None:
        self.sent.append(send)


class Driven:
    """One of three voters, whose timers are far away."""

    def __init__(self, voters: VoterSet = VOTERS, log: InMemoryRaftLog | None = None) -> None:
        self.disk, self.channels = Disk(), NoWay()
        self.log = log or InMemoryRaftLog()
        self.driver = RaftDriver(
            KafkaRaftClient(
                local=ReplicaKey(1), cluster_id=CLUSTER_ID, voters=voters, log=self.log,
                config=SLOW, random=Random(1), listener_name="CONTROLLER",
                local_endpoints={"CONTROLLER": VOTERS.endpoints[1]},
            ),
            plan_flush=lambda: Flush(self.log.flush, lambda: None),
            elections=self.disk,
        )  # fmt: skip

    def vote(self, epoch: int) -> asyncio.Task[object]:
        asked = VoteRequest(CLUSTER_ID, None, epoch, ReplicaKey(2), OffsetAndEpoch(0, 0))
        return asyncio.create_task(self.driver.ask(asked, "CONTROLLER"))


@asynccontextmanager
async def running(log: InMemoryRaftLog | None = None) -> AsyncIterator[Driven]:
    """A node that has started."""
    driven = Driven(log=log)
    run = asyncio.create_task(driven.driver.run(driven.channels))
    await eventually(lambda: bool(driven.disk.written), "the node has started")
    try:
        yield driven
    finally:
        driven.disk.works.set()
        run.cancel()
        await asyncio.wait((run,))


async def test_a_vote_is_on_disk_before_it_is_given() -> None:
    async with running() as driven:
        driven.disk.works.clear()

        vote = driven.vote(7)
        await asyncio.sleep(0.1)  # the event loop goes on while the disk does not
        assert not vote.done()
        driven.disk.works.set()

        response = await vote
        assert isinstance(response, VoteResponse)
        assert response.vote_granted
        assert driven.disk.written[-1].voted_key == ReplicaKey(2)


async def test_a_fetch_is_answered_at_once_by_who_does_not_lead() -> None:
    async with running() as driven:
        fetch = FetchRequest(CLUSTER_ID, ReplicaKey(2), 0, 0, 0, 60_000, 1_000)

        async with asyncio.timeout(5):
            response = await driven.driver.ask(fetch, "CONTROLLER")

        assert isinstance(response, FetchResponse)
        assert response.error.name == "not_leader_or_follower"


class RecordingLog(InMemoryRaftLog):
    """Remembers what became of a snapshot from the leader."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    @override
    def append_download(self, data: bytes) -> int:
        self.done.append(f"part {data.decode()}")
        return super().append_download(data)

    @override
    def flush(self) -> None:
        self.done.append("flushed")
        super().flush()


async def test_each_part_of_a_snapshot_is_flushed_before_the_next_is_taken() -> None:
    async with running(RecordingLog()) as driven:
        assert isinstance(driven.log, RecordingLog)
        begin = BeginQuorumEpochRequest(CLUSTER_ID, None, 2, 7, {})
        await driven.driver.ask(begin, "CONTROLLER")
        snapshot_id = OffsetAndEpoch(50, 6)

        await answered(driven, FetchRequest, FetchResponse(snapshot_id=snapshot_id))
        driven.log.done.clear()
        for position, data in enumerate((b"a", b"b", b"c")):
            part = FetchSnapshotResponse(
                snapshot_id=snapshot_id, size=3, position=position, data=data
            )
            await answered(driven, FetchSnapshotRequest, part)

        await eventually(lambda: driven.log.end_offset == 50, "the snapshot is there")
        assert driven.log.done == ["flushed", "part a", "flushed", "part b", "flushed", "part c"]


async def answered(driven: Driven, kind: type[RaftRequest], response: AnyRaftResponse) -> None:
    """Has the leader, 2, answer the request of that kind that it is sent next."""
    sent = driven.channels.sent
    await eventually(lambda: bool(sent) and isinstance(sent[-1].request, kind), f"a {kind}")
    request = sent.pop()
    known = replace(response, leader_id=2, leader_epoch=7)
    driven.driver.put(RaftResponseReceived(2, request.correlation_id, known))


async def test_a_bounded_number_of_requests_waits_for_a_slow_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raft_driver, "MAX_QUEUED_REQUESTS", 5)

    async with running() as driven:
        driven.disk.works.clear()
        votes = [driven.vote(7 + number) for number in range(20)]

        def queued() -> int:
            # Other inputs, such as a lost connection, are few, and wait for no place.
            return sum(isinstance(each, RaftRequestReceived) for each in driven.driver._inputs)

        await eventually(lambda: queued() == 5, "the places are taken")
        await asyncio.sleep(0.05)
        assert queued() == 5
        driven.disk.works.set()
        responses = await asyncio.gather(*votes)
        assert all(isinstance(response, VoteResponse) for response in responses)


async def test_a_disk_that_fails_ends_the_node_and_its_waiting_requests() -> None:
    driven = Driven()
    running = asyncio.create_task(driven.driver.run(driven.channels))
    await eventually(lambda: bool(driven.disk.written), "the node has started")
    driven.disk.fails = True

    vote = driven.vote(7)

    with pytest.raises(OSError, match="No space left"):
        await running
    with pytest.raises(ConnectionAbortedError):
        await vote
    with pytest.raises(ConnectionAbortedError):
        await driven.vote(8)


async def test_records_are_written_after_the_linger_though_nothing_else_happens() -> None:
    alone = VoterSet({1: VOTERS.endpoints[1]})
    driven = Driven(alone)
    running = asyncio.create_task(driven.driver.run(driven.channels))
    node = driven.driver.node
    await eventually(lambda: node.high_watermark == 1, "it leads")

    last = driven.driver.prepare_append(node.epoch, [b"\1\x14\0\0", b"\1\x14\0\0"])
    await asyncio.sleep(0.1)
    assert driven.log.end_offset == 1  # prepared, and not yet to be written
    driven.driver.schedule_prepared_append()

    await eventually(lambda: node.high_watermark == 3, "they are committed")
    assert last == 2
    driven.driver.shut_down(1_000)
    assert await running


async def test_a_snapshot_is_read_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven()
    there, missing = OffsetAndEpoch(7, 1), OffsetAndEpoch(9, 1)
    driven.log.snapshots[there] = bytes(range(50))
    monkeypatch.setattr(raft_driver, "_READ_BYTES", 10)

    assert driven.driver.read_snapshot(there) == bytes(range(50))
    with pytest.raises(RaftFatal, match="cannot be loaded"):
        driven.driver.read_snapshot(missing)
    monkeypatch.setattr(raft_driver, "MAX_SNAPSHOT_BYTES", 49)
    with pytest.raises(RaftFatal, match="50 bytes"):
        driven.driver.read_snapshot(there)


async def test_a_listener_that_fails_ends_the_node() -> None:
    driven = Driven()
    running = asyncio.create_task(driven.driver.run(driven.channels))
    await eventually(lambda: bool(driven.disk.written), "the node has started")

    driven.driver.listener_failed(KeyError("a bug"))

    with pytest.raises(KeyError, match="a bug"):
        await running
    with pytest.raises(ConnectionAbortedError):
        await driven.vote(8)
