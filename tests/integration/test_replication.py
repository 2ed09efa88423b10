"""Three of our brokers replicate: followers follow, ISRs shrink and grow, the dead come back.

What happens under load, and again and again, is in ``tests/faults``.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import Record
from kafka_common.protocol.versioned_messages import request_schema
from tests.integration.broker_processes import wait_for
from tests.integration.calls import address_of, call
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

LAG_MS: Final = 1_500
FETCH_VERSION: Final = 12
"""The newest that names topics."""


class Replicas:
    """A topic with one partition on three brokers, and what its replicas are seen to hold."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.topic = topic
        self.cluster = cluster
        cluster.create_topic(topic, replicas=[[1, 2, 3]])
        self.ledger = cluster.ledger(topic)

    def wait_for_state(self, leader: int, *in_sync: int) -> None:
        self.cluster.wait_isr(self.topic, brokers=in_sync)
        assert self.cluster.wait_leader(self.topic, among=[leader]) == leader

    def segments(self, broker_id: int) -> list[Path]:
        folder = self.cluster.directory / f"broker-{broker_id}" / "data" / f"{self.topic}-0"
        return sorted(folder.glob("*.log"))

    def log(self, broker_id: int) -> bytes:
        """Every whole batch that a replica has on disk."""
        data = b"".join(file.read_bytes() for file in self.segments(broker_id))
        return data[: sum(header.size for _, header in iterate_batches(data))]

    def wait_until_equal(self) -> None:
        wait_for(lambda: len({self.log(id_) for id_ in (1, 2, 3)}) == 1, "three equal logs")

    def wait_for_line(self, broker_id: int, text: str) -> None:
        """In a server.log, of which each hour has a file of its own."""
        logs = self.cluster.logs_directory(broker_id)
        wait_for(
            lambda: any(text in file.read_text() for file in logs.glob("server.log*")),
            f"{text!r} in the log of broker {broker_id}",
        )

    def high_watermark(self, broker_id: int) -> int:
        """As a replica answers a fetch."""
        schema = request_schema(ApiKey.FETCH, FETCH_VERSION)
        partition = schema.part(
            "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1
        )
        request = schema.request(
            replica_id=-1, max_wait=timedelta(0), min_bytes=0, max_bytes=1, isolation_level=0,
            topics=(schema.part("FetchTopic", topic=self.topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )  # fmt: skip
        response: Any = call(address_of(self.cluster, broker_id), request)
        watermark: int = response.responses[0].partitions[0].high_watermark
        return watermark


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """Three brokers for all these tests, which leave them alive."""
    configs = {"replica.lag.time.max.ms": str(LAG_MS), "auto.create.topics.enable": "false"}
    return kafka_cluster_factory(3, zookeeper=zookeeper_connect, configs=configs)


@pytest.fixture
def replicas(cluster: KafkaCluster, request: pytest.FixtureRequest) -> Replicas:
    """A topic of the test's own."""
    return Replicas(cluster, request.node.name)


def test_followers_have_what_the_leader_has_and_tell_how_much_of_it_is_committed(
    replicas: Replicas,
) -> None:
    replicas.wait_for_state(1, 1, 2, 3)
    end = replicas.ledger.produce(3)[-1] + 1

    replicas.wait_until_equal()
    wait_for(
        lambda: {replicas.high_watermark(broker) for broker in (1, 2, 3)} == {end},
        f"the high watermark {end} at every broker",
    )


def test_a_frozen_follower_leaves_the_isr_and_comes_back(replicas: Replicas) -> None:
    replicas.ledger.produce()
    replicas.cluster.pause(3)
    # Acknowledged once the leader has dropped who does not fetch it; long before a session ends.
    replicas.ledger.produce()
    replicas.wait_for_state(1, 1, 2)
    replicas.wait_for_line(1, f"[Partition {replicas.topic}-0 broker=1] Shrinking ISR")
    replicas.cluster.resume(3)
    replicas.wait_for_state(1, 1, 2, 3)

    replicas.ledger.produce()
    replicas.wait_until_equal()


def test_what_a_dead_leader_alone_had_is_gone_when_it_comes_back(replicas: Replicas) -> None:
    end = replicas.ledger.produce()[-1] + 1
    replicas.wait_until_equal()
    replicas.cluster.kill(1)
    # As if it had taken a record a moment before, that no other replica has.
    [segment] = replicas.segments(1)
    astray = encode_batch([Record(end, 0, None, b"never replicated")], partition_leader_epoch=0)
    with segment.open("ab") as file:
        file.write(astray)
    replicas.wait_for_state(2, 2, 3)
    replicas.ledger.produce(2)

    replicas.cluster.start(1)
    replicas.wait_for_state(2, 1, 2, 3)
    replicas.wait_until_equal()

    log = replicas.log(1)
    assert b"never replicated" not in log
    assert all(value in log for value in replicas.ledger.acknowledged.values())
    replicas.wait_for_line(
        1, f"Truncating partition {replicas.topic}-0 with TruncationState(offset={end},"
    )
