"""Partitions whose replicas lie on our brokers and on Kafka's, and folders that change hands.

librdkafka writes and reads the records.  The test compares the acknowledged records with those
that are there in the end.  The logs of all replicas must be equal, byte for byte.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.broker_process import BrokerProcess
from tests.faults.load import loaded
from tests.peers.cluster import Cluster
from tests.support.replica_logs import whole_batches
from zkcontroller_testing.client_history import ClientHistory

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

TOPIC: Final = "orders"
OURS, REAL, CONTROLLER = 1, 2, 3
KILLS: Final = 4
PATIENCE_S: Final = 60
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: Final = {
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.backoff.ms": "200",
    "offsets.topic.num.partitions": "1",
}


@pytest.mark.parametrize("controller", ["ours", "kafka"])
def test_leaders_killed_back_and_forth_between_ours_and_kafkas(
    cluster: Cluster, controller: str
) -> None:
    start: dict[int, Callable[[], BrokerProcess]] = {
        OURS: lambda: cluster.start_ours(OURS, SETTINGS),
        REAL: lambda: cluster.start_kafka(REAL, SETTINGS),
    }
    if controller == "ours":
        cluster.start_ours(CONTROLLER, SETTINGS)
    else:
        cluster.start_kafka(CONTROLLER, SETTINGS)
    start[OURS]()
    start[REAL]()
    assert cluster.controller_id() == CONTROLLER
    cluster.topic_command(
        CONTROLLER, "--create", "--topic", TOPIC, "--replica-assignment", "1:2:3",
        "--config", "min.insync.replicas=2",
    )  # fmt: skip
    cluster.wait_until_in_sync(TOPIC, timeout_s=PATIENCE_S)
    servers = ",".join(cluster.bootstrap(broker) for broker in (OURS, REAL, CONTROLLER))

    history = ClientHistory(lambda: {"bootstrap.servers": servers}, lambda: ())
    with loaded(history, TOPIC, 1) as load:
        load.wait_for_progress()
        leaders = []
        for _ in range(KILLS):
            leader = leader_of(cluster)
            leaders.append(leader)
            cluster.brokers[leader].kill()
            cluster.wait_until(lambda: leader_of(cluster) not in (-1, leader), "another leads")  # noqa: B023
            load.wait_for_progress()
            start[leader]()
            cluster.wait_until_in_sync(TOPIC, timeout_s=PATIENCE_S)
        load.wait_for_progress()

    assert leaders == [OURS, REAL] * (KILLS // 2)
    assert cluster.controller_id() == CONTROLLER
    history.check()
    assert load.acknowledged() > KILLS * 100
    wait_until_replicas_agree(cluster)


def leader_of(cluster: Cluster) -> int:
    return cluster.partitions()[TOPIC, 0].leader


def wait_until_replicas_agree(cluster: Cluster) -> None:
    """Waits for equal logs; the producers must have ended."""

    def agree() -> bool:
        logs = {log_of(broker) for broker in cluster.brokers.values()}
        return len(logs) == 1 and logs != {b""}

    cluster.wait_until(agree, "the replicas' logs are the same bytes")


def log_of(broker: BrokerProcess) -> bytes:
    return whole_batches(broker.directory / "data" / f"{TOPIC}-0")


# ---------------------------------------------------------------------- folders


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_data_folder_serves_on_in_the_other_kind_of_broker(cluster: Cluster, end: str) -> None:
    ours = cluster.start_ours(1, SETTINGS)
    cluster.topic_command(1, "--create", "--topic", TOPIC, "--replica-assignment", "1")
    written = produce(cluster.bootstrap(1), "by us")
    assert read(cluster.bootstrap(1), len(written)) == written
    finish(cluster, ours, end)

    kafka = start_on_copy(cluster, ours.directory, "kafka")
    assert read(cluster.bootstrap(1), len(written)) == written
    written += produce(cluster.bootstrap(1), "by Kafka")
    assert read(cluster.bootstrap(1), len(written)) == written
    finish(cluster, kafka, end)

    again = start_on_copy(cluster, kafka.directory, "ours")
    assert read(cluster.bootstrap(1), len(written)) == written
    written += produce(cluster.bootstrap(1), "by us again")
    assert read(cluster.bootstrap(1), len(written)) == written
    assert log_of(again).startswith(log_of(kafka))


def finish(cluster: Cluster, broker: BrokerProcess, end: str) -> None:
    """Ends the only broker and waits until its registration is gone."""
    if end == "stopped":
        broker.stop()
    else:
        broker.kill()
    cluster.wait_until(lambda: cluster.live_brokers() == set(), "the broker is gone")


def start_on_copy(cluster: Cluster, old: Path, kind: str) -> BrokerProcess:
    """Broker 1 of that kind on a copy of another's data folder."""
    new = old.with_name(f"{kind}-1")
    shutil.rmtree(new / "data", ignore_errors=True)
    shutil.copytree(old / "data", new / "data")
    start = cluster.start_kafka if kind == "kafka" else cluster.start_ours
    broker = start(1, SETTINGS)
    cluster.wait_until(lambda: leader_of(cluster) == 1, "it leads")
    return broker


def produce(bootstrap: str, text: str) -> list[tuple[int, bytes]]:
    """Batches of every codec; offsets and values."""
    delivered: list[tuple[int, bytes]] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        delivered.append((offset, value))

    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "compression.codec": codec,
             "enable.idempotence": True, "linger.ms": 50}
        )  # fmt: skip
        for number in range(50):
            value = f"{text} {codec} {number}".encode()
            producer.produce(TOPIC, value, key=b"k", headers={"h": b"1"}, on_delivery=on_delivery)
        assert producer.flush(PATIENCE_S) == 0
    return sorted(delivered)


def read(bootstrap: str, count: int) -> list[tuple[int, bytes]]:
    """As many records from the beginning, and no more."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        messages = consumer.consume(count, timeout=PATIENCE_S)
        assert messages, f"{len(found)} of {count} records came"
        for message in messages:
            assert message.error() is None, message.error()
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert isinstance(value, bytes)
            found.append((offset, value))
    end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)[1]
    consumer.close()
    assert end == count
    return found
