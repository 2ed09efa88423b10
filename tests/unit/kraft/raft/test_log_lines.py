"""The lines of a raft node, word for word as Kafka's; times are those of the harness."""

from __future__ import annotations

import logging
import re
from itertools import pairwise

import pytest

from kraft.raft.inputs import RaftShutdown
from tests.support.raft_harness import RaftHarness, begin, following, granted, standing, vote


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """``message (class)``, without the voters' addresses and timeouts, which the harness draws."""
    found = [f"{each.getMessage()} ({each.name.rpartition('.')[2]})" for each in caplog.records]
    return [re.sub(r"(imeoutMs=)\d+", r"\1*", line) for line in found]


def test_a_candidate_that_wins_says_each_state_twice(caplog: pytest.LogCaptureFixture) -> None:
    node, sends = standing()
    caplog.clear()

    node.reply(sends[0], granted(1))

    before = (
        "CandidateState(localId=1, localDirectoryId=AAAAAAAAAAAAAAAAAAAAAA,epoch=1, retries=1, "
        "voteStates={1=GRANTED, 2=GRANTED, 3=UNRECORDED}, highWatermark=Optional.empty, "
        "electionTimeoutMs=*)"
    )
    replica = (
        "{0}=ReplicaState(replicaKey=ReplicaKey(id={0}, directoryId=Optional.empty), "
        "endOffset=Optional.empty, lastFetchTimestamp=-1, lastCaughtUpTimestamp=-1, "
        "hasAcknowledgedLeader={1})"
    )
    replicas = [replica.format(1, "true"), replica.format(2, "false"), replica.format(3, "false")]
    after = (
        "Leader(localReplicaKey=ReplicaKey(id=1, directoryId=Optional.empty), "
        "epoch=1, epochStartOffset=0, highWatermark=Optional.empty, "
        f"voterStates={{{', '.join(replicas)}}})"
    )
    assert lines(caplog) == [
        f"[RaftManager id=1] {done} transition to {after} from {before} (QuorumState)"
        for done in ("Attempting durable", "Completed")
    ]


def test_a_voter_says_how_it_votes_and_whom_it_follows(caplog: pytest.LogCaptureFixture) -> None:
    node = RaftHarness().start()
    caplog.clear()

    node.vote(vote(2, 5))
    node.begin(begin(2, 5))

    zero = "AAAAAAAAAAAAAAAAAAAAAA"
    unattached = (
        "Unattached(epoch={0}, votedKey={1}, voters=[1, 2, 3], electionTimeoutMs=*, "
        "highWatermark=Optional.empty)"
    )
    voted = unattached.format(5, "ReplicaKey(id=2, directoryId=Optional.empty)")
    follower = (
        "FollowerState(fetchTimeoutMs=*, epoch=5, leader=2, leaderEndpoints=Endpoints("
        "endpoints={ListenerName(CONTROLLER)=node-2/<unresolved>:9093}), voters=[1, 2, 3], "
        "highWatermark=Optional.empty, fetchingSnapshot=Optional.empty)"
    )
    steps = [unattached.format(0, "null"), unattached.format(5, "null"), voted, follower]
    said = [line for line in lines(caplog) if "Completed transition" in line]
    assert said == [
        f"[RaftManager id=1] Completed transition to {after} from {before} (QuorumState)"
        for before, after in pairwise(steps)
    ]
    [request] = [line for line in lines(caplog) if "Vote request" in line]
    assert request.endswith(
        "partitions=[PartitionData(partitionIndex=0, candidateEpoch=5, candidateId=2, "
        f"candidateDirectoryId={zero}, voterDirectoryId={zero}, lastOffsetEpoch=0, "
        "lastOffset=0)])]) with epoch 5 is granted (KafkaRaftClient)"
    ), request


def test_a_node_says_whether_its_shutdown_was_in_time(caplog: pytest.LogCaptureFixture) -> None:
    node, _ = following(2, epoch=4)
    leader = RaftHarness().start().become_leader()
    caplog.clear()

    node.step(RaftShutdown(5_000))
    leader.step(RaftShutdown(5_000))
    leader.run_ms(5_000)

    said = [line for line in lines(caplog) if "shutdown" in line]
    assert said == [
        "[RaftManager id=1] Beginning graceful shutdown (KafkaRaftClient)",
        "[RaftManager id=1] Graceful shutdown completed (KafkaRaftClient)",
        "[RaftManager id=1] Beginning graceful shutdown (KafkaRaftClient)",
        "[RaftManager id=1] Graceful shutdown timed out after 5000ms (KafkaRaftClient)",
    ]
