"""What a node of the quorum is configured with when nothing is said; the names of its metrics."""

from __future__ import annotations

from random import Random

import pytest

from kafka_common.observability.metrics import Metrics
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.raft_metrics import RaftMetrics
from kraft.raft.config import (
    MAX_BATCH_BYTES,
    MAX_COMPLETED_BATCHES,
    MAX_FETCH_BYTES,
    MAX_FETCH_WAIT_MS,
    OBSERVER_SESSION_MS,
    RETRY_BACKOFF_BASE_MS,
    QuorumConfig,
)
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.values import METADATA_PARTITION, METADATA_TOPIC, ReplicaKey
from tests.support.raft_harness import LISTENER, endpoint, voter_set
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

NODE = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": "1@one:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://one:9093",
    "log.dirs": "/data",
}


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("controller.quorum.election.timeout.ms", 1_000),
        ("controller.quorum.fetch.timeout.ms", 2_000),
        ("controller.quorum.election.backoff.max.ms", 1_000),
        ("controller.quorum.append.linger.ms", 25),
        ("controller.quorum.request.timeout.ms", 2_000),
        ("controller.quorum.retry.backoff.ms", 20),
        ("metadata.log.segment.bytes", 2**30),
        ("metadata.log.segment.min.bytes", 8 * 2**20),
        ("metadata.log.segment.ms", 7 * 86_400_000),
        ("metadata.max.retention.bytes", 100 * 2**20),
        ("metadata.max.retention.ms", 7 * 86_400_000),
        ("metadata.log.max.record.bytes.between.snapshots", 20 * 2**20),
        ("metadata.log.max.snapshot.interval.ms", 3_600_000),
        ("metadata.max.idle.interval.ms", 500),
        ("broker.heartbeat.interval.ms", 2_000),
        ("broker.session.timeout.ms", 9_000),
        ("unclean.leader.election.interval.ms", 300_000),
        ("leader.imbalance.check.interval.seconds", 300),
    ],
)
def test_the_defaults_are_kafkas(key: str, default: int) -> None:
    assert ControllerServerConfig.parse(NODE).integer(key) == default


def test_the_timers_of_a_node_are_those_of_its_configuration() -> None:
    config = ControllerServerConfig.parse(NODE).quorum

    assert config == QuorumConfig(1_000, 2_000, 1_000, 25, 2_000, 20)
    assert (config.check_quorum_timeout_ms, config.begin_quorum_epoch_period_ms) == (3_000, 1_000)
    assert QuorumConfig(fetch_timeout_ms=333).check_quorum_timeout_ms == 499


def test_the_constants_of_the_quorum_are_kafkas() -> None:
    assert (METADATA_TOPIC, METADATA_PARTITION) == ("__cluster_metadata", 0)
    assert (RETRY_BACKOFF_BASE_MS, MAX_FETCH_WAIT_MS) == (100, 500)
    assert MAX_BATCH_BYTES == MAX_FETCH_BYTES == 8_388_608
    assert (MAX_COMPLETED_BATCHES, OBSERVER_SESSION_MS) == (10, 300_000)


def test_the_metrics_are_all_there_under_kafkas_names() -> None:
    local, metrics = ReplicaKey(1), Metrics()
    node = KafkaRaftClient(
        local=local,
        cluster_id="cluster",
        voters=voter_set(1, 2, 3),
        log=InMemoryRaftLog(),
        config=QuorumConfig(),
        random=Random(1),
        listener_name=LISTENER,
        local_endpoints={LISTENER: endpoint(1)},
    )
    RaftMetrics(metrics, node, local)

    told = metrics.snapshot()

    mbean = "kafka.server:type=raft-metrics"
    assert {name.removeprefix(f"{mbean},name=") for name in told if name != mbean} == {
        "current-state",
        "current-leader",
        "current-vote",
        "current-vote-directory-id",
        "current-epoch",
        "high-watermark",
        "log-end-offset",
        "log-end-epoch",
        "number-unknown-voter-connections",
        "fetch-records-rate",
        "append-records-rate",
        "poll-idle-ratio-avg",
    }
    assert set(told[mbean]) == {
        "commit-latency-avg", "commit-latency-max", "election-latency-avg", "election-latency-max",
    }  # fmt: skip
    assert told[f"{mbean},name=number-unknown-voter-connections"] == {"Value": 0}
    assert told[f"{mbean},name=high-watermark"] == {"Value": -1}
