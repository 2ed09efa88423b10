"""Three of our brokers replicate: followers follow, ISRs shrink and grow, the dead come back.

What happens under load, and again and again, is in ``tests/faults``.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import Record
from kafka_common.protocol.versioned_messages import request_schema
from tests.integration.broker_processes import (
    BrokerProcess,
    Cluster,
    admin_client,
    cluster_in,
    state_of,
    wait_for,
)
from tests.support.metadata import wait_until_known
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

pytestmark = pytest.mark.integration
kafka_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic

LAG_MS: Final = 1_500
TIMEOUT_S: Final = 30
FETCH_VERSION: Final = 12
"""The newest that names topics."""


class Replicas:
    """A topic with one partition on three brokers, and what its replicas are seen to hold."""

    def __init__(self, cluster: Cluster, session: ZooKeeperSession, topic: str) -> None:
        self.topic = topic
        self.cluster = cluster
        self.session = session
        admin = admin_client(cluster.bootstrap_servers)
        wanted = kafka_admin.NewTopic(topic, 1, replica_assignment=[[1, 2, 3]])
        admin.create_topics([wanted], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)

    def broker(self, broker_id: int) -> BrokerProcess:
        return self.cluster.brokers[broker_id]

    def wait_for_state(self, leader: int, *in_sync: int) -> None:
        wait_for(
            lambda: (
                (state := state_of(self.session, self.topic)) is not None
                and (state.leader, set(state.in_sync_replicas)) == (leader, set(in_sync))
            ),
            f"leader {leader}, ISR {in_sync}, not {state_of(self.session, self.topic)}",
        )

    def produce(self, *values: str) -> None:
        """Returns when all of them are acknowledged."""
        errors: list[object] = []
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "acks": "all", "linger.ms": 0,
             "message.timeout.ms": TIMEOUT_S * 1000}
        )  # fmt: skip

        def delivered(error: object, _: object) -> None:
            errors.append(error)

        for value in values:
            producer.produce(self.topic, value.encode(), on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == [None] * len(values)

    def log(self, broker_id: int) -> bytes:
        """Every whole batch that a replica has on disk."""
        folder = self.broker(broker_id).data / f"{self.topic}-0"
        data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        return data[: sum(header.size for _, header in iterate_batches(data))]

    def wait_until_equal(self) -> None:
        wait_for(lambda: len({self.log(id_) for id_ in (1, 2, 3)}) == 1, "three equal logs")

    def high_watermark(self, broker_id: int) -> int:
        """As a replica answers a fetch."""
        return asyncio.run(_high_watermark(self.broker(broker_id).address, self.topic))


async def _high_watermark(address: str, topic: str) -> int:
    schema = request_schema(ApiKey.FETCH, FETCH_VERSION)
    partition = schema.part("FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1)
    request = schema.request(
        replica_id=-1, max_wait=timedelta(0), min_bytes=0, max_bytes=1, isolation_level=0,
        topics=(schema.part("FetchTopic", topic=topic, partitions=(partition,)),),
        forgotten_topics_data=(),
    )  # fmt: skip
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="test")
    try:
        answer = await connection.call(ApiKey.FETCH, FETCH_VERSION, (write(request),))
    finally:
        await connection.close()
    response: Any = read_response(ApiKey.FETCH, FETCH_VERSION, answer)
    watermark: int = response.responses[0].partitions[0].high_watermark
    return watermark


@pytest.fixture(scope="module")
def cluster(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers for all these tests, which leave them alive."""
    connect = f"{zookeeper_connect}/replication"
    with cluster_in(tmp_path_factory.mktemp("replication"), connect) as cluster:
        cluster.start(
            1, 2, 3,
            replica__lag__time__max__ms=str(LAG_MS),
            replica__fetch__backoff__ms="100",
            auto__create__topics__enable="false",
            auto__leader__rebalance__enable="false",
        )  # fmt: skip
        wait_until_known([broker.address for broker in cluster.brokers.values()], (1, 2, 3))
        yield cluster


@pytest.fixture
def replicas(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    """A topic of the test's own."""
    session = ZooKeeperSession(ZooKeeperConfig(cluster.connect))
    session.start()
    try:
        yield Replicas(cluster, session, request.node.name)
    finally:
        session.close()
        for broker in cluster.brokers.values():
            broker.tell()


def test_followers_have_what_the_leader_has_and_tell_how_much_of_it_is_committed(
    replicas: Replicas,
) -> None:
    replicas.wait_for_state(1, 1, 2, 3)
    replicas.produce("a", "b", "c")

    replicas.wait_until_equal()
    for broker in (1, 2, 3):
        wait_for(lambda id_=broker: replicas.high_watermark(id_) == 3, f"3 at broker {broker}")  # type: ignore[misc]


def test_a_frozen_follower_leaves_the_isr_and_comes_back(replicas: Replicas) -> None:
    replicas.produce("a")
    replicas.broker(3).signal(signal.SIGSTOP)
    # Acknowledged once the leader has dropped who does not fetch it; long before a session ends.
    replicas.produce("b")
    replicas.wait_for_state(1, 1, 2)
    replicas.broker(1).wait_for_line(f"[Partition {replicas.topic}-0 broker=1] Shrinking ISR")
    replicas.broker(3).signal(signal.SIGCONT)
    replicas.wait_for_state(1, 1, 2, 3)

    replicas.produce("c")
    replicas.wait_until_equal()


def test_what_a_dead_leader_alone_had_is_gone_when_it_comes_back(replicas: Replicas) -> None:
    replicas.produce("common")
    replicas.wait_until_equal()
    replicas.broker(1).kill()
    # As if it had taken a record a moment before, that no other replica has.
    [segment] = (replicas.broker(1).data / f"{replicas.topic}-0").glob("*.log")
    astray = encode_batch([Record(1, 0, None, b"never replicated")], partition_leader_epoch=0)
    with segment.open("ab") as file:
        file.write(astray)
    replicas.wait_for_state(2, 2, 3)
    replicas.produce("new", "newer")

    replicas.broker(1).start().ready()
    replicas.wait_for_state(2, 1, 2, 3)
    replicas.wait_until_equal()

    log = replicas.log(1)
    assert b"never replicated" not in log
    assert b"common" in log
    assert b"newer" in log
    replicas.broker(1).wait_for_line(
        f"Truncating partition {replicas.topic}-0 with TruncationState(offset=1,"
    )
