"""Nodes of a quorum on real sockets: elections, appends, restarts, listeners, metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.exposition import exposition_of
from tests.support.quorum import QUICK, Quorum, eventually


async def append(quorum: Quorum, leader: int, *values: bytes) -> int:
    """Has the leader write these values as one batch; gives the offset of the last one."""
    driver = quorum.nodes[leader].driver
    offset = driver.prepare_append(driver.node.epoch, list(values))
    driver.schedule_prepared_append()
    await eventually(lambda: (driver.node.high_watermark or 0) > offset, f"{offset} is committed")
    return offset


async def test_three_voters_elect_a_leader_and_hold_the_same_log(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()

        last = await append(quorum, leader, b"\1\x14\0\0", b"\1\x14\0\0")

        assert last == 2
        await eventually(
            lambda: {listener.next_offset for listener in quorum.listeners.values()} == {3},
            "every listener has all of it",
        )
        logs = {quorum.log_bytes(node_id) for node_id in quorum.nodes}
        assert len(logs) == 1
        assert {listener.data for listener in quorum.listeners.values()} == logs
        assert quorum.listeners[leader].offsets == [0, 1]
        epoch = quorum.leaders()[leader]
        assert {listener.leaders[-1] for listener in quorum.listeners.values()} == {(leader, epoch)}


async def test_a_leader_that_is_killed_is_replaced_and_comes_back_with_the_same_log(
    tmp_path: Path,
) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3, quorum=QUICK)
        first = await quorum.leader()
        first_epoch = quorum.leaders()[first]
        await append(quorum, first, b"\1\x14\0\0")

        await quorum.kill(first)
        second = await quorum.leader()
        assert second != first
        assert quorum.leaders()[second] > first_epoch
        await append(quorum, second, b"\1\x14\0\0")
        await quorum.start(first)

        leader = await quorum.leader()
        await append(quorum, leader, b"\1\x14\0\0")
        await eventually(
            lambda: len({quorum.log_bytes(node_id) for node_id in quorum.nodes}) == 1,
            "three equal logs",
        )


async def test_a_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        first = await quorum.leader()
        epoch = quorum.leaders()[first]

        assert await quorum.stop(first)

        second = await quorum.leader()
        assert quorum.leaders()[second] > epoch


async def test_the_last_one_cannot_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Quorum(tmp_path) as quorum:
        monkeypatch.setattr("kraft.node.quorum_node.SHUTDOWN_TIMEOUT_MS", 300)
        await quorum.start(1)

        assert not await quorum.stop(1)


async def test_an_observer_follows_and_does_not_vote(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3, 9)
        leader = await quorum.leader()
        await append(quorum, leader, b"\1\x14\0\0")
        await eventually(lambda: quorum.listeners[9].next_offset == 2, "the observer has it")

        assert quorum.log_bytes(9) == quorum.log_bytes(leader)
        await quorum.kill(leader)
        [other, _] = [each for each in quorum.nodes if each != 9]
        await quorum.kill(other)
        await asyncio.sleep(1)

        # One of three voters, with an observer beside it, is no majority.
        assert quorum.leaders() == {}


async def test_a_wiped_node_gets_everything_again(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        for _ in range(5):
            await append(quorum, leader, b"\1\x14\0\0" * 3)
        follower = next(each for each in quorum.nodes if each != leader)
        await quorum.kill(follower)
        folder = tmp_path / f"node-{follower}"
        folder.rename(tmp_path / "gone")

        await quorum.start(follower)

        await eventually(
            lambda: quorum.log_bytes(follower) == quorum.log_bytes(leader), "the log is back"
        )


async def test_a_voter_alone_leads_and_commits(tmp_path: Path) -> None:
    async with Quorum(tmp_path, (1,)) as quorum:
        await quorum.start(1)
        assert await quorum.leader() == 1
        await append(quorum, 1, b"\1\x14\0\0")
        assert await quorum.stop(1)


async def test_the_metrics_have_kafkas_names_and_tell_the_truth(tmp_path: Path) -> None:
    async with Quorum(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        await append(quorum, leader, b"\1\x14\0\0")
        [follower, _] = [each for each in quorum.nodes if each != leader]
        await eventually(
            lambda: _value(quorum, follower, "high-watermark") == 2, "the follower knows it"
        )

        assert _value(quorum, leader, "current-state") == "leader"
        assert _value(quorum, follower, "current-state") == "follower"
        assert _value(quorum, leader, "current-vote") == leader
        assert _value(quorum, follower, "current-vote") == -1
        for node_id in (leader, follower):
            assert _value(quorum, node_id, "current-leader") == leader
            assert _value(quorum, node_id, "current-epoch") == quorum.leaders()[leader]
            assert _value(quorum, node_id, "log-end-offset") == 2
            assert _value(quorum, node_id, "log-end-epoch") == quorum.leaders()[leader]
            assert 0 < float(_value(quorum, node_id, "poll-idle-ratio-avg")) <= 1
        assert float(_value(quorum, leader, "append-records-rate")) > 0
        assert float(_value(quorum, follower, "fetch-records-rate")) > 0
        spans = quorum.metrics[leader].snapshot()["kafka.server:type=raft-metrics"]
        assert float(spans["commit-latency-max"]) >= float(spans["commit-latency-avg"]) >= 0
        assert float(spans["election-latency-max"]) > 0
        text = exposition_of(quorum.metrics[leader]).decode()
        assert 'kafka_server_raft_metrics_current_state{value="leader"} 1.0' in text
        assert "kafka_server_raft_metrics_high_watermark 2.0" in text


def _value(quorum: Quorum, node_id: int, name: str) -> str | float:
    mbean = f"kafka.server:type=raft-metrics,name={name}"
    return quorum.metrics[node_id].snapshot()[mbean]["Value"]
