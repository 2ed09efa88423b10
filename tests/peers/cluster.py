"""A cluster whose brokers are ours, Kafka's, or both, and what ZooKeeper and clients say of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, run_kafka_tool
from kafka_common.net.connection import Connection
from tests.support.forked_broker import ForkedBroker
from zkcontroller.zookeeper.requests import Delete, ListChildren, Znode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller_testing.waiting import until

TOPIC_COMMAND: Final = "org.apache.kafka.tools.TopicCommand"
TOPIC_LEADERS: Final = str(Path(__file__).with_name("TopicLeaders.java"))

PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "6000",
    "auto.create.topics.enable": "false",
    # Nothing may change by itself while znodes are compared.
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "600000",
}


OF_PYTHON: Final = re.compile(
    r"\{'|\['|\b[a-z]+(?:_[a-z]+)+=|<[\w.]+ object at|\bErrorCode\.|Path\('|UUID\('"
)
"""A dict, a list, a value with fields or an enum, where a text was to be made of it."""


class PartitionView(NamedTuple):
    """A partition as ZooKeeper or a client shows it; the replicas and the ISR have no order."""

    leader: int
    leader_epoch: int
    in_sync_replicas: frozenset[int]
    replicas: frozenset[int]


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = 30) -> None:
    """Returns once ``condition`` holds; fails, naming ``what``, if it does not in time."""
    until(lambda: condition() or None, lambda: what, timeout_s)


class Cluster:
    """Brokers on one chroot, each in a process and a directory of its own."""

    def __init__(self, zookeeper: str, directory: Path) -> None:
        self.zookeeper = zookeeper
        self.brokers: dict[int, BrokerProcess] = {}
        self._directory = directory
        self.session = ZooKeeperSession(ZooKeeperConfig(connect=zookeeper))
        self.session.start()

    def close(self) -> None:
        """Ends every broker the hard way; fails if one of ours has logged text of Python's."""
        for broker in self.brokers.values():
            broker.kill()
        self.session.close()
        ours = [broker for broker in self.brokers.values() if isinstance(broker, OurBroker)]
        lines = (line for broker in ours for line in broker.log_lines("server.log"))
        odd = [line for line in lines if OF_PYTHON.search(line)]
        assert not odd, "\n".join(odd[:10])

    def start_ours(self, broker_id: int, overrides: Mapping[str, str] | None = None) -> OurBroker:
        """Starts one of our brokers; it is registered when this returns."""
        directory = self._directory / f"ours-{broker_id}"
        broker = OurBroker(broker_id, self.zookeeper, directory, PROPERTIES | dict(overrides or {}))
        self.start(broker)
        return broker

    def start_forked(
        self, broker_id: int, overrides: Mapping[str, str] | None = None
    ) -> ForkedBroker:
        """As :meth:`start_ours`, with less work for the processors."""
        directory = self._directory / f"ours-{broker_id}"
        properties = PROPERTIES | dict(overrides or {})
        broker = ForkedBroker(broker_id, self.zookeeper, directory, properties)
        self.start(broker)
        return broker

    def start_kafka(
        self,
        broker_id: int,
        overrides: Mapping[str, str] | None = None,
        *,
        libs: Path | None = None,
    ) -> KafkaBroker:
        """Starts a broker of Kafka 3.9.1, or of ``libs``, which logs every state change."""
        broker = KafkaBroker(
            broker_id,
            self.zookeeper,
            self._directory / f"kafka-{broker_id}",
            PROPERTIES | dict(overrides or {}),
            log_levels={"state.change.logger": "TRACE"},
            heap="512M",
            libs=libs,
            is_brief=True,
        )
        self.start(broker)
        return broker

    def start(self, broker: BrokerProcess) -> None:
        """Starts a broker that belongs to this cluster; it is registered when this returns."""
        self.brokers[broker.broker_id] = broker
        broker.start()
        self.wait_until(
            lambda: broker.broker_id in self.live_brokers(), f"broker {broker.broker_id} registers"
        )

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, timeout_s: float = 30
    ) -> None:
        """As :func:`wait_until`."""
        wait_until(condition, what, timeout_s=timeout_s)

    # What ZooKeeper says.

    def live_brokers(self) -> set[int]:
        """Ids under ``/brokers/ids``."""
        return {int(name) for name in self._children("/brokers/ids")}

    def controller_id(self) -> int | None:
        """Whom ``/controller`` names."""
        znode = self.session.read("/controller")
        return int(json.loads(znode.data)["brokerid"]) if isinstance(znode, Znode) else None

    def controller_epoch(self) -> int:
        """What ``/controller_epoch`` holds, 0 if nothing."""
        znode = self.session.read("/controller_epoch")
        return int(znode.data) if isinstance(znode, Znode) else 0

    def elect(self) -> int:
        """Deletes ``/controller`` and waits for the next; returns its id."""
        epoch = self.controller_epoch()
        self.session.write(Delete("/controller"))
        self.wait_until(
            lambda: self.controller_epoch() > epoch and self.controller_id() is not None,
            "a new controller",
        )
        elected = self.controller_id()
        assert elected is not None
        return elected

    def partitions(self) -> dict[tuple[str, int], PartitionView]:
        """Every partition that has a state znode."""
        views = {}
        for topic in self._children("/brokers/topics"):
            assignment = self.session.read(f"/brokers/topics/{topic}")
            if not isinstance(assignment, Znode):
                continue  # deleted since
            for name, replicas in json.loads(assignment.data)["partitions"].items():
                state = self.session.read(f"/brokers/topics/{topic}/partitions/{name}/state")
                if isinstance(state, Znode):
                    fields = json.loads(state.data)
                    views[topic, int(name)] = PartitionView(
                        fields["leader"],
                        fields["leader_epoch"],
                        frozenset(fields["isr"]),
                        frozenset(replicas),
                    )
        return views

    def wait_until_in_sync(self, *topics: str, timeout_s: float = 30) -> None:
        """Waits until every replica of these topics, or of all that there are, is in its ISR."""

        def are_full() -> bool:
            views = self.partitions()
            return {*topics} <= {topic for topic, _ in views} and all(
                view.leader >= 0 and view.in_sync_replicas == view.replicas
                for (topic, _), view in views.items()
                if not topics or topic in topics
            )

        self.wait_until(
            are_full, f"the ISRs of {topics or 'all topics'} are full", timeout_s=timeout_s
        )

    def _children(self, path: str) -> list[str]:
        [children] = self.session.perform(ListChildren([path]))
        return children if isinstance(children, list) else []

    # What clients see.

    def of(self, topic: str) -> dict[int, PartitionView]:
        """The partitions of one topic, as ZooKeeper has them."""
        return {key[1]: view for key, view in self.partitions().items() if key[0] == topic}

    def bootstrap(self, broker_id: int) -> str:
        """``host:port`` of that broker's first listener."""
        znode = self.session.read(f"/brokers/ids/{broker_id}")
        assert isinstance(znode, Znode), f"broker {broker_id} is not registered"
        endpoint: str = json.loads(znode.data)["endpoints"][0]
        return endpoint.partition("://")[2]

    def metadata_of(self, broker_id: int) -> dict[tuple[str, int], PartitionView]:
        """The partitions that this very broker answers to a Metadata request."""
        response = asyncio.run(ask_metadata(self.bootstrap(broker_id)))
        return {
            (topic.name, partition.partition_index): PartitionView(
                partition.leader_id,
                partition.leader_epoch,
                frozenset(partition.isr_nodes),
                frozenset(partition.replica_nodes),
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    def topic_command(self, broker_id: int, *arguments: str) -> str:
        """What Kafka's own topic tool prints; it must succeed."""
        done = run_kafka_tool(
            TOPIC_COMMAND, "--bootstrap-server", self.bootstrap(broker_id), *arguments
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def leaders_seen_by_java(self, broker_id: int) -> dict[tuple[str, int], int]:
        """Leaders as Kafka's own client sees them, bootstrapped at that broker."""
        done = run_kafka_tool(TOPIC_LEADERS, self.bootstrap(broker_id))
        assert done.returncode == 0, done.stdout + done.stderr
        rows = (line.split() for line in done.stdout.splitlines())
        return {(row[0], int(row[1])): int(row[2]) for row in rows}

    def wait_until_all_know_the_controller(self) -> None:
        """Waits until the controller has sent its first UpdateMetadata to every broker."""

        def know() -> bool:
            addresses = [self.bootstrap(each) for each in self.live_brokers()]
            known = {asyncio.run(ask_metadata(each)).controller_id for each in addresses}
            return known == {self.controller_id()}

        self.wait_until(know, "every broker to know the controller")

    def wait_until_all_brokers_agree(self, partitions: int) -> None:
        """Waits until that many partitions have state and every broker tells clients just that."""

        def agree() -> bool:
            znodes = self.partitions()
            return len(znodes) == partitions and all(
                self.metadata_of(broker_id) == znodes for broker_id in self.live_brokers()
            )

        self.wait_until(agree, f"{partitions} partitions, told alike by ZooKeeper and brokers")


async def ask_metadata(address: str) -> MetadataResponse:
    """What this very broker answers about all topics."""
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="peers")
    try:
        response = await connection.request(
            MetadataRequest(
                topics=None,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )
        )
    finally:
        await connection.close()
    assert isinstance(response, MetadataResponse)
    return response
