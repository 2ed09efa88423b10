"""What a node of the quorum tells of itself: the states by Kafka's names, times and ratios."""

from __future__ import annotations

from random import Random
from typing import Final
from uuid import UUID

import pytest

from kafka_common.observability.exposition import registry_of
from kafka_common.observability.meanings import meaning_of
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.uuid_text import uuid_text
from kraft.node.raft_metrics import IdleRatio, RaftMetrics
from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import (
    ElectionPersisted,
    RaftInput,
    RaftRequestReceived,
    RaftResponseReceived,
    RaftTick,
    Resign,
)
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import BeginQuorumEpochRequest, VoteRequest, VoteResponse
from kraft.raft.outputs import PersistElection, RaftOutput, SendRequest
from kraft.raft.values import NodeAddress, OffsetAndEpoch, ReplicaKey, VoterSet
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

VOTERS: Final = VoterSet({each: NodeAddress("127.0.0.1", 9000 + each) for each in (1, 2, 3)})
ALONE: Final = VoterSet({1: VOTERS.endpoints[1]})
DIRECTORY: Final = UUID(int=77)
NO_OP: Final = b"\1\x14\0\0"


class Watched:
    """A node and its metrics."""

    def __init__(self, node_id: int = 1, voters: VoterSet = VOTERS) -> None:
        self.metrics = Metrics()
        local = ReplicaKey(node_id, DIRECTORY)
        self.node = KafkaRaftClient(
            local=local, cluster_id="cluster", voters=voters, log=InMemoryRaftLog(),
            config=QuorumConfig(), random=Random(1), listener_name="CONTROLLER",
            local_endpoints={"CONTROLLER": VOTERS.endpoints[1]},
        )  # fmt: skip
        self._raft_metrics = RaftMetrics(self.metrics, self.node, local)
        for output in self.node.start(None, 0):
            if isinstance(output, PersistElection):
                self.node.step(ElectionPersisted(output.election), 0)
        self._raft_metrics.observe(self.node, 0)

    def step(self, happened: RaftInput, now_ms: int) -> list[RaftOutput]:
        outputs = self.node.step(happened, now_ms)
        self._raft_metrics.observe(self.node, now_ms)
        return outputs

    def value(self, name: str) -> str | float:
        return self.metrics.snapshot()[f"kafka.server:type=raft-metrics,name={name}"]["Value"]

    def span(self, name: str) -> float:
        return float(self.metrics.snapshot()["kafka.server:type=raft-metrics"][name])


def test_every_metric_of_a_node_says_what_it_means() -> None:
    names = {family.name for family in registry_of(Watched().metrics).collect()}

    assert len(names) > 10
    assert {name for name in names if meaning_of(name) == name} == set()


def test_a_node_that_has_voted_shows_for_whom() -> None:
    watched = Watched()
    assert watched.value("current-state") == "unattached"
    assert watched.value("current-vote") == -1
    assert watched.value("current-vote-directory-id") == "A" * 22

    candidate = ReplicaKey(2, UUID(int=5))
    vote = VoteRequest("cluster", None, 4, candidate, OffsetAndEpoch(0, 0))
    watched.step(RaftRequestReceived(1, vote), 10)

    assert watched.value("current-state") == "voted"
    assert watched.value("current-vote") == 2
    assert watched.value("current-vote-directory-id") == uuid_text(UUID(int=5))
    assert watched.value("current-epoch") == 4
    assert watched.value("high-watermark") == -1


def test_a_candidate_shows_its_vote_for_itself_and_how_long_the_election_took() -> None:
    watched = Watched()
    watched.step(RaftTick(), 5_000)
    assert watched.value("current-state") == "candidate"
    assert watched.value("current-vote") == 1
    assert watched.value("current-vote-directory-id") == uuid_text(DIRECTORY)

    begin = BeginQuorumEpochRequest("cluster", None, 3, watched.node.epoch, {})
    watched.step(RaftRequestReceived(1, begin), 5_250)

    assert watched.value("current-state") == "follower"
    assert watched.value("current-leader") == 3
    assert watched.value("current-vote") == -1
    assert watched.span("election-latency-max") == 250


def test_who_is_no_voter_is_an_observer() -> None:
    watched = Watched(node_id=9)
    begin = BeginQuorumEpochRequest("cluster", None, 3, 6, {})

    watched.step(RaftRequestReceived(1, begin), 10)

    assert watched.value("current-state") == "observer"


def test_a_leader_counts_what_it_appends_and_times_the_commit_of_a_record() -> None:
    watched = Watched(voters=ALONE)
    assert watched.value("current-state") == "leader"
    node = watched.node

    node.prepare_append(node.epoch, [NO_OP] * 4, 1_000)
    node.schedule_prepared_append()
    watched.step(RaftTick(), 1_500)

    assert watched.value("log-end-offset") == 5
    assert watched.value("high-watermark") == 5
    assert float(watched.value("append-records-rate")) > 0
    assert watched.value("fetch-records-rate") == 0
    assert watched.span("commit-latency-avg") == 0  # alone, it commits as it appends


def test_a_leader_that_has_resigned_is_shown_as_kafka_shows_it() -> None:
    watched = Watched()
    outputs = watched.step(RaftTick(), 5_000)
    vote = next(output for output in outputs if isinstance(output, SendRequest))
    granted = VoteResponse(leader_epoch=watched.node.epoch, vote_granted=True)
    watched.step(RaftResponseReceived(vote.destination_id, vote.correlation_id, granted), 5_010)
    assert watched.value("current-state") == "leader"

    watched.step(Resign(watched.node.epoch), 5_020)

    assert watched.node.state_name == "resigned"
    assert watched.value("current-state") == "unattached"
    assert watched.value("current-leader") == 1


def test_the_idle_ratio_is_of_the_time_since_the_last_look() -> None:
    ratio = IdleRatio()
    assert ratio.measure() == 1.0

    ratio.record(100, now_ns=1_000)
    ratio.record(300, now_ns=1_700)
    assert ratio.measure() == pytest.approx(400 / 800)

    ratio.record(50, now_ns=1_900)
    assert ratio.measure() == pytest.approx(50 / 200)
