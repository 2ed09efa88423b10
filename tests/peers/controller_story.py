"""Actions that a controller reacts to, on a cluster of one real broker and recording brokers.

Each action is a write to ZooKeeper or a request to broker 1.  Broker 1 is the only candidate for
the controller and holds no partition.  So two clusters can get exactly the same actions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from benchmarks.cluster_data import topic_znode
from kafka_common.net.connection import Connection
from tests.peers.cluster import Cluster
from tests.peers.recording_brokers import RecordingBrokers
from zkcontroller.zookeeper.requests import Create, Delete, SetData, Written, Znode
from zkcontroller.zookeeper.znodes import TopicZnode

# Untyped, so that plain numbers do.
isr: Any = import_module("kio.schema.alter_partition.v3.request")
reassignment: Any = import_module("kio.schema.alter_partition_reassignments.v0.request")
shutdown: Any = import_module("kio.schema.controlled_shutdown.v3.request")
election: Any = import_module("kio.schema.elect_leaders.v2.request")

CANDIDATE: Final = 1
_TIMEOUT: Final = timedelta(seconds=15)


class ScenarioRunner:
    """Performs actions on one cluster and keeps the response to every request."""

    def __init__(self, cluster: Cluster, brokers: RecordingBrokers) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.responses: list[Any] = []

    # Znodes, as Kafka's admin tools and brokers write them.

    def create_topic(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """A topic with an id made of its name."""
        self._create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        self._create(f"/brokers/topics/{topic}", topic_znode(topic, assignment))

    def assign(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """More partitions for a topic."""
        self._set(f"/brokers/topics/{topic}", topic_znode(topic, assignment))

    def delete_topic(self, topic: str) -> None:
        """Asks for its deletion."""
        self._create(f"/admin/delete_topics/{topic}", b"")

    def configure_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Another configuration, and the notice of it."""
        text = json.dumps({"version": 1, "config": dict(config)}, separators=(",", ":"))
        self._set(f"/config/topics/{topic}", text.encode())
        notice = f'{{"version":2,"entity_path":"topics/{topic}"}}'.encode()
        self._create("/config/changes/config_change_", notice, sequential=True)

    def ask_for_preferred_leaders(self, *partitions: tuple[str, int]) -> None:
        """Writes ``/admin/preferred_replica_election``."""
        asked = [{"topic": topic, "partition": partition} for topic, partition in partitions]
        text = json.dumps({"version": 1, "partitions": asked}, separators=(",", ":"))
        self._create("/admin/preferred_replica_election", text.encode())

    def ask_for_reassignment(self, targets: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Writes ``/admin/reassign_partitions``."""
        asked = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in targets.items()
        ]
        text = json.dumps({"version": 1, "partitions": asked}, separators=(",", ":"))
        self._create("/admin/reassign_partitions", text.encode())

    def notify_isr_change(self, *partitions: tuple[str, int]) -> None:
        """What a leader of an older version writes after it wrote an ISR itself."""
        changed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
        text = json.dumps({"version": 1, "partitions": changed}, separators=(",", ":"))
        self._create("/isr_change_notification/isr_change_", text.encode(), sequential=True)

    def notify_log_dir_failure(self, broker_id: int) -> None:
        """What a broker writes when one of its log directories fails."""
        text = f'{{"version":1,"broker":{broker_id},"event":1}}'
        self._create("/log_dir_event_notification/log_dir_event_", text.encode(), sequential=True)

    def delete_controller(self) -> None:
        """Takes the seat away; the only candidate takes it again."""
        assert self.cluster.elect() == CANDIDATE

    def _create(self, path: str, data: bytes, *, sequential: bool = False) -> None:
        result = self.cluster.session.write(Create(path, data, sequential=sequential))
        assert isinstance(result, Written), (path, result)

    def _set(self, path: str, data: bytes) -> None:
        result = self.cluster.session.write(SetData(path, data))
        assert isinstance(result, Written), (path, result)

    # Requests to the controller.

    def alter_isr(self, topic: str, partition: int, new_isr: Sequence[int]) -> None:
        """What the partition's leader asks when its ISR should be another."""
        state = self._json(f"/brokers/topics/{topic}/partitions/{partition}/state")
        znode = self.cluster.session.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        assert isinstance(znode, Znode)
        leader = self.brokers[state["leader"]]
        self._ask(
            isr.AlterPartitionRequest(
                broker_id=leader.broker_id,
                broker_epoch=leader.epoch,
                topics=(
                    isr.TopicData(
                        topic_id=self._topic_id(topic),
                        partitions=(
                            isr.PartitionData(
                                partition_index=partition,
                                leader_epoch=state["leader_epoch"],
                                new_isr_with_epochs=tuple(
                                    isr.BrokerState(
                                        broker_id=broker_id,
                                        broker_epoch=self.brokers[broker_id].epoch,
                                    )
                                    for broker_id in new_isr
                                ),
                                leader_recovery_state=0,
                                partition_epoch=znode.zk_version,
                            ),
                        ),
                    ),
                ),
            )
        )

    def reassign(self, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
        """Moves a partition by API; None cancels what is under way."""
        target = reassignment.ReassignablePartition(
            partition_index=partition, replicas=None if replicas is None else tuple(replicas)
        )
        self._ask(
            reassignment.AlterPartitionReassignmentsRequest(
                timeout=_TIMEOUT,
                topics=(reassignment.ReassignableTopic(name=topic, partitions=(target,)),),
            )
        )

    def elect_leader(self, topic: str, partition: int, *, unclean: bool) -> None:
        """An election by API."""
        self._ask(
            election.ElectLeadersRequest(
                election_type=int(unclean),
                topic_partitions=(election.TopicPartitions(topic=topic, partitions=(partition,)),),
                timeout=_TIMEOUT,
            )
        )

    def shut_down(self, broker_id: int) -> None:
        """What a broker asks for before it stops."""
        epoch = self.brokers[broker_id].epoch
        self._ask(shutdown.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch))

    def _ask(self, request: Any) -> None:
        async def exchange() -> Any:
            host, _, port = self.cluster.bootstrap(CANDIDATE).rpartition(":")
            connection = await Connection.open(host, int(port), client_id="peers")
            try:
                return await connection.request(request)
            finally:
                await connection.close()

        self.responses.append(asdict(asyncio.run(exchange())))

    # What ZooKeeper says.

    def exists(self, path: str) -> bool:
        return isinstance(self.cluster.session.read(path), Znode)

    def is_deleted(self, topic: str) -> bool:
        """Nothing of the topic is left."""
        paths = (f"/brokers/topics/{topic}", f"/admin/delete_topics/{topic}")
        return not any(map(self.exists, paths))

    def is_moving(self, topic: str) -> bool:
        """Partitions of it are being reassigned."""
        fields = self._json(f"/brokers/topics/{topic}")
        return bool(fields["adding_replicas"] or fields["removing_replicas"])

    def _topic_id(self, topic: str) -> Any:
        path = f"/brokers/topics/{topic}"
        znode = self.cluster.session.read(path)
        assert isinstance(znode, Znode), znode
        return TopicZnode.decode(topic, znode.data).topic_id

    def _json(self, path: str) -> Any:
        znode = self.cluster.session.read(path)
        assert isinstance(znode, Znode), (path, znode)
        return json.loads(znode.data)

    def forget_controller(self) -> None:
        """Deletes ``/controller`` and waits for nothing."""
        self.cluster.session.write(Delete("/controller"))
