"""Our node and Kafka's controllers in one quorum: each other's observers, voters and leaders."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from benchmarks.quorum_kills import KillScenario
from kafka_common.model import Endpoint
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from kraft.raft.values import NodeAddress, ReplicaKey, VoterSet
from tests.peers.quorum_cluster import CLUSTER_ID, MixedQuorum, Voter, committed
from tests.support.quorum import RecordingListener, free_ports

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

QUORUM_COMMAND: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
DUMP_LOG: Final = "kafka.tools.DumpLogSegments"
OURS: Final = 3
REAL: Final = (1, 2)
OBSERVER: Final = 9
ROUNDS: Final = 8

NewQuorum = Callable[..., MixedQuorum]


@pytest.fixture
def new_quorum(
    kafka: Path,  # noqa: ARG001 - skips the test without Kafka
    tmp_path: Path,
) -> Iterator[NewQuorum]:
    """Makes a formatted quorum; its processes end with the test, and none may end before."""
    made: list[MixedQuorum] = []

    def make(ours: Sequence[int] = (OURS,)) -> MixedQuorum:
        made.append(MixedQuorum(tmp_path / f"quorum-{len(made)}", ours))
        return made[-1]

    yield make
    try:
        for quorum in made:
            for voter in quorum.voters.values():
                assert not voter.has_died, voter.obituary()
    finally:
        for quorum in made:
            quorum.close()


def assert_equal_below(high_watermark: int, voters: Sequence[Voter]) -> None:
    logs = {voter.node_id: committed(voter, high_watermark) for voter in voters}
    assert len(set(logs.values())) == 1, {node_id: len(log) for node_id, log in logs.items()}
    assert logs[voters[0].node_id]


def zkctl_json(*arguments: str) -> Any:
    command = [sys.executable, "-m", "zkcontroller_cli", "-o", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Observer


def observer_settings(quorum: MixedQuorum, directory: Path) -> QuorumNodeSettings:
    endpoint = NodeAddress("127.0.0.1", free_ports(1)[0])
    return QuorumNodeSettings(
        local=ReplicaKey(OBSERVER, UUID(int=4711)),
        cluster_id=CLUSTER_ID,
        metadata_log_dir=directory,
        voters=VoterSet(
            {each: NodeAddress("127.0.0.1", port) for each, port in quorum.ports.items()}
        ),
        listeners=(Endpoint(endpoint.host, endpoint.port, "CONTROLLER", "PLAINTEXT"),),
        advertised={"CONTROLLER": endpoint},
    )


def test_our_observer_holds_the_log_of_a_real_quorum_byte_for_byte(
    new_quorum: NewQuorum, tmp_path: Path
) -> None:
    quorum = new_quorum(ours=())
    quorum.start()
    quorum.leader()

    async def follow() -> None:
        node = QuorumNode(observer_settings(quorum, tmp_path / "observer"))
        listener = RecordingListener(node)
        running = asyncio.create_task(node.run())
        await node.started()
        first = await asyncio.to_thread(quorum.leader)
        await asyncio.to_thread(quorum.grow, 3)
        await asyncio.to_thread(quorum.voters[first].kill)
        await asyncio.to_thread(quorum.leader)
        high_watermark = await asyncio.to_thread(quorum.grow, 3)
        async with asyncio.timeout(30):
            while listener.next_offset < high_watermark:
                await asyncio.sleep(0.05)

        described = await asyncio.to_thread(quorum.described)
        assert described is not None
        assert [each.replica for each in described.observers] == [
            ReplicaKey(OBSERVER, UUID(int=4711))
        ]
        [survivor, _] = quorum.running
        expected = committed(survivor, high_watermark)
        assert listener.data.startswith(expected)
        assert node.driver.node.log.read(0, 2**30).startswith(expected)
        node.stop()
        assert await running

    asyncio.run(follow())


# Voter


def test_records_are_committed_by_our_vote_when_a_real_voter_is_killed(
    new_quorum: NewQuorum,
) -> None:
    quorum = new_quorum()
    quorum.start()
    leader = quorum.make_lead(*REAL)
    [other] = set(REAL) - {leader}

    quorum.voters[other].kill()
    high_watermark = quorum.grow(6)

    described = quorum.described()
    assert described is not None
    assert described.leader_id == leader
    offsets = {voter.replica.id: voter.log_end_offset for voter in described.voters}
    assert offsets[OURS] >= high_watermark
    assert_equal_below(high_watermark, [quorum.voters[leader], quorum.voters[OURS]])


def test_a_real_leader_that_is_killed_is_followed_by_another_with_our_vote(
    new_quorum: NewQuorum,
) -> None:
    quorum = new_quorum()
    quorum.start()
    leader = quorum.make_lead(*REAL)
    quorum.grow(3)

    quorum.voters[leader].kill()
    successor = quorum.leader()

    assert successor != leader
    quorum.start(leader)
    quorum.wait_until_all_follow()
    assert_equal_below(quorum.high_watermark(), list(quorum.voters.values()))


def test_leaders_killed_round_and_round_leave_one_leader_an_epoch_and_equal_logs(
    new_quorum: NewQuorum,
) -> None:
    quorum = new_quorum()
    quorum.start()

    scenario = KillScenario(quorum, seed=391)
    scenario.run(rounds=ROUNDS)

    assert set(scenario.leaders.values()) <= {OURS, *REAL}
    assert len(scenario.leaders) > ROUNDS / 2


# Leader


def test_real_controllers_follow_our_leader_and_take_over_when_it_stops(
    new_quorum: NewQuorum,
) -> None:
    quorum = new_quorum()
    quorum.start()
    quorum.make_lead(OURS)
    quorum.wait_until_all_follow()
    before = quorum.described()
    assert before is not None

    # Longer than any timeout of the quorum: no voter may start an election.
    asyncio.run(asyncio.sleep(8))

    after = quorum.described()
    assert after is not None
    assert (after.leader_id, after.leader_epoch) == (OURS, before.leader_epoch)
    assert_equal_below(after.high_watermark, list(quorum.voters.values()))
    bootstrap = f"127.0.0.1:{quorum.ports[1]}"
    status = zkctl_json("quorum", "describe", "--bootstrap-controller", bootstrap)
    assert status["leader_id"] == OURS
    assert status["max_follower_lag"] <= 1
    assert status["current_voters"] == [1, 2, 3]

    assert quorum.voters[OURS].stop() == 0
    assert quorum.leader() in REAL


# Tools


def test_kafkas_tool_and_ours_say_the_same_of_the_quorum(new_quorum: NewQuorum) -> None:
    quorum = new_quorum()
    quorum.start()
    leader = quorum.make_lead(*REAL)
    quorum.grow(3)

    def kafkas(what: str) -> str:
        done = run_kafka_tool(
            QUORUM_COMMAND, "--bootstrap-controller", f"127.0.0.1:{quorum.ports[leader]}",
            "describe", what,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    status = dict(line.split(":", 1) for line in kafkas("--status").splitlines())
    rows = [line.split() for line in kafkas("--replication").splitlines()[1:]]
    bootstrap = f"127.0.0.1:{quorum.ports[OURS]}"
    ours = zkctl_json("quorum", "describe", "--bootstrap-controller", bootstrap)
    our_rows = zkctl_json(
        "quorum", "describe", "--bootstrap-controller", bootstrap, "--replication"
    )

    assert int(status["LeaderId"]) == ours["leader_id"] == leader
    assert int(status["LeaderEpoch"]) == ours["leader_epoch"]
    assert int(status["HighWatermark"]) <= ours["high_watermark"]
    assert int(status["MaxFollowerLag"]) <= 1
    assert "".join(status["CurrentVoters"].split()).count('"id"') == 3 or (
        json.loads(status["CurrentVoters"]) == [1, 2, 3]
    )
    shown = {int(row[0]): row[-1].lower() for row in rows}
    assert shown == {row["node_id"]: row["status"] for row in our_rows}
    assert shown[OURS] == "follower"
    assert our_rows[0]["node_id"] == leader
    assert all(row["lag"] <= 1 for row in our_rows)


# Files


def test_each_goes_on_with_the_folder_of_the_other(new_quorum: NewQuorum) -> None:
    quorum = new_quorum()
    quorum.start()
    quorum.make_lead(*REAL)
    quorum.grow(3)

    quorum.voters[OURS].stop()
    quorum.voters[1].stop()
    quorum.as_other(OURS)
    quorum.as_other(1)
    quorum.start(1, OURS)

    quorum.make_lead(2, OURS)
    high_watermark = quorum.grow(3)
    quorum.wait_until_all_follow()
    assert_equal_below(high_watermark, list(quorum.voters.values()))


def test_kafkas_decoder_reads_our_segments(new_quorum: NewQuorum) -> None:
    quorum = new_quorum()
    quorum.start()
    quorum.make_lead(*REAL)
    quorum.grow(3)
    quorum.wait_until_all_follow()
    ours = quorum.voters[OURS]
    ours.stop()
    [segment] = sorted((ours.data / "__cluster_metadata-0").glob("*.log"))

    done = run_kafka_tool(DUMP_LOG, "--cluster-metadata-decoder", "--files", str(segment))
    dumped = subprocess.run(
        [sys.executable, "-m", "zkcontroller_cli", "quorum", "dump", str(segment)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    kafkas = [
        json.loads(line.partition("payload: ")[2])
        for line in done.stdout.splitlines()
        if "payload: " in line
    ]
    rows = [json.loads(line) for line in dumped.stdout.splitlines()]
    ours_said = [
        {name: row[name] for name in ("type", "version", "data")}
        for row in rows
        if not row["is_control"]
    ]
    assert ours_said == kafkas
    assert any(row["type"] == "LEADER_CHANGE" for row in rows)
