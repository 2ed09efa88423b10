"""A KRaft cluster: a quorum of ours or of Kafka's, and two of Kafka's brokers."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer

from benchmarks.kafka_peer import run_kafka_tool
from tests.peers.cluster import ask_metadata
from tests.peers.quorum_cluster import MixedQuorum, RealBroker

BROKERS: Final = (11, 12)
PATIENCE_S: Final = 60.0
_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic


class KRaftCluster:
    """The quorum and its brokers; ``ours``: the voters that are ours."""

    def __init__(
        self,
        directory: Path,
        ours: Sequence[int] = (1, 2, 3),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``properties``: of controllers and brokers."""
        given = dict(properties or {})
        self.quorum = MixedQuorum(directory / "quorum", ours, given)
        self.brokers = {
            broker_id: RealBroker(directory / f"broker-{broker_id}", broker_id, self.quorum, given)
            for broker_id in BROKERS
        }
        self.admin = _admin.AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def start(self) -> None:
        self.quorum.start()
        for broker in self.brokers.values():
            broker.start()
        self.wait_until(lambda: self.live_brokers() == set(BROKERS), "both brokers are there")

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None and broker.process.poll() is None:
                broker.end(signal.SIGKILL)
        self.quorum.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def live_brokers(self) -> set[int]:
        try:
            return set(self.admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def tool(self, main_class: str, *arguments: str, may_fail: bool = False) -> str:
        done = run_kafka_tool(main_class, "--bootstrap-server", self.bootstrap, *arguments)
        assert may_fail or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
        """Leader, replicas and ISR of each partition."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {
            index: (partition.leader, list(partition.replicas), sorted(partition.isrs))
            for index, partition in found.items()
        }

    def create(self, topic: str, partitions: int, replicas: int, **configs: str) -> None:
        new = _admin.NewTopic(topic, partitions, replicas, config=configs)
        self.admin.create_topics([new])[topic].result(PATIENCE_S)
        self.wait_until_known(topic, partitions)

    def wait_until_known(self, topic: str, partitions: int) -> None:
        """Until each broker knows the topic with so many partitions: any of them may be asked."""
        for address in self.bootstrap.split(","):
            self.wait_until(
                partial(_has_partitions, address, topic, partitions), f"{address} knows {topic}"
            )

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        self.quorum.wait_until(condition, what, timeout_s=PATIENCE_S)

    def produce(self, topic: str, values: range) -> list[int]:
        """Sends numbers idempotently; those that were acknowledged."""
        acknowledged: list[int] = []

        def on_delivery(error: object, message: Message) -> None:
            if error is None:
                acknowledged.append(int(message.value() or b""))

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        for value in values:
            producer.produce(topic, str(value).encode(), on_delivery=on_delivery)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        return acknowledged

    def consume(self, topic: str, count: int, group: str) -> list[int]:
        """The first so many numbers of a topic, read by a group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        try:
            while len(found) < count and time.monotonic() < deadline:
                messages = consumer.consume(500, timeout=0.5)
                found += [int(each.value() or b"") for each in messages if each.error() is None]
        finally:
            consumer.close()
        return found


def _has_partitions(address: str, topic: str, partitions: int) -> bool:
    topics = asyncio.run(ask_metadata(address)).topics
    return [len(each.partitions) for each in topics if each.name == topic] == [partitions]
