"""A cluster in which our broker is the controller and Kafka's brokers hold all replicas.

Our broker holds no replica, so only Kafka's brokers handle records.  Our broker has only the
inter-broker listener, which administrators use as well.  Clients have a listener of their own, and
only Kafka's brokers have it.  ``__consumer_offsets`` is created beforehand for the same reason:
automatic creation may place its replicas on every live broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.peers.cluster import Cluster, PartitionView
from tests.support.suspension import suspended
from zkcontroller.zookeeper.requests import Znode

OURS: Final = 4
REAL: Final = (1, 2, 3)
EVERYWHERE: Final = "1:2:3,2:3:1,3:1:2"

BOTH: Final = {
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "controlled.shutdown.enable": "true",
    # A group of one member need not wait for others.
    "group.initial.rebalance.delay.ms": "0",
    # Small fetches, so that a throttled move cannot be over at once.
    "replica.fetch.max.bytes": "16384",
}

# Brokers log these as errors under any controller.
_TO_BE_EXPECTED: Final = re.compile(
    # We have no listener for clients.
    r"Listeners are not identical across brokers"
    # A broker has returned, and a partition of it waits for its last leader.
    r"|cannot become follower since the new leader -1 is unavailable"
    # A broker has died, and no other replica may become the leader of its partition.
    r"|failed to change state for partition \S+ from OfflinePartition to OnlinePartition"
    # A new controller goes on with a move whose new replicas are online already.
    r"|replica \d for partition \S+ from OnlineReplica to NewReplica failed"
    # One of Kafka's has been deposed, has not noticed, and is refused.
    r"|Unexpected error handling request .*apiKey=UPDATE_METADATA.*\(controllerId=[123],"
)


class RealBrokers(Cluster):
    """Our broker, which is the controller, and three of Kafka's, which hold everything."""

    def start_all(self) -> None:
        self.start_ours_again()
        for broker_id in REAL:
            self.start_real(broker_id)
        self.topic_command(
            1, "--create", "--topic", "__consumer_offsets", "--replica-assignment", "1:2:3",
            "--config", "cleanup.policy=compact",
        )  # fmt: skip

    def start_ours_again(self) -> None:
        """Starts our broker, for the first time or again."""
        self.start_ours(OURS, BOTH | {"listeners": "INTERNAL://127.0.0.1:0"})

    def start_real(self, broker_id: int) -> None:
        """Starts one of Kafka's brokers, for the first time or again."""
        listeners = "INTERNAL://127.0.0.1:0,CLIENTS://127.0.0.1:0"
        self.start_kafka(broker_id, BOTH | {"listeners": listeners})

    @property
    def clients(self) -> str:
        """Where clients find the brokers that are alive."""
        addresses = []
        for broker_id in sorted(self.live_brokers() & set(REAL)):
            znode = self.session.read(f"/brokers/ids/{broker_id}")
            assert isinstance(znode, Znode)
            [address] = re.findall(r"CLIENTS://([^\"]+)", znode.data.decode())
            addresses.append(address)
        return ",".join(addresses)

    def create(self, topic: str, assignment: str = EVERYWHERE, *more: str) -> None:
        """Creates a topic with these replicas and waits until every broker knows it."""
        self.topic_command(
            OURS, "--create", "--topic", topic, "--replica-assignment", assignment, *more
        )
        self.wait_until_all_brokers_know(topic)

    def wait_until_all_brokers_know(self, topic: str) -> None:
        """Waits until every broker tells clients of this topic what ZooKeeper holds."""

        def known_by(broker_id: int) -> dict[int, PartitionView]:
            told = self.metadata_of(broker_id)
            return {key[1]: view for key, view in told.items() if key[0] == topic}

        self.wait_until(
            lambda: all(known_by(broker) == self.of(topic) for broker in self.live_brokers()),
            f"everybody knows {topic}",
        )

    @contextmanager
    def frozen(self, *broker_ids: int) -> Iterator[None]:
        """These brokers stand still meanwhile, for less than their sessions last."""
        with suspended(*(self.brokers[broker_id].pid for broker_id in broker_ids)):
            yield

    def elect_ours(self) -> None:
        """Moves the controllership to our broker."""
        with self.frozen(*REAL):
            assert self.elect() == OURS

    def elect_real(self) -> None:
        """Moves the controllership away from our broker, which finds out by itself."""
        with self.frozen(OURS):
            assert self.elect() in REAL

    def error_lines(self) -> list[str]:
        """What brokers complain of, and Kafka's would not under a controller of their own."""
        return [
            f"broker {broker_id}, {file}: {line}"
            for broker_id in (*REAL, OURS)
            for file in ("server.log", "state-change.log", "controller.log")
            for line in self.brokers[broker_id].log_lines(file)
            if re.match(r"\[[^]]+\] (ERROR|FATAL) ", line) and not _TO_BE_EXPECTED.search(line)
        ]
