"""What a controller of a quorum tells of itself: Kafka's MBeans.

Source of the behaviours: Kafka ``QuorumControllerMetricsTest``, ``ControllerMetadataMetricsTest``,
``ControllerMetricsChangesTest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from kafka_common.model import ConfigResourceType, OpType
from kafka_common.observability.exposition import registry_of
from kafka_common.observability.instruments import Attribute
from kafka_common.observability.meanings import meaning_of
from kafka_common.observability.metrics import Metrics
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.quorum_controller_requests import DeleteTopics, IncrementalAlterConfigs
from kraft.node.quorum_controller_metrics import QuorumControllerMetrics
from tests.support.quorum import eventually
from tests.support.quorum_controller_world import QuorumWorld, topic
from tests.support.quorum_controllers import Controllers

SESSION_MS: Final = 9_000


class Observed:
    """A controller, and what its metrics say after each look."""

    def __init__(self, leader_id: int | None = 3000) -> None:
        self.world = QuorumWorld(controllers=2)
        self.metrics = Metrics()
        self.observer = QuorumControllerMetrics(
            self.metrics, lambda: self.world.now_ms, lambda: leader_id
        )

    def look(self) -> None:
        self.observer.observe(self.world.controllers[3000])

    def of(self, type_: str, domain: str = "kafka.controller") -> Mapping[str, int]:
        """Name to value, of one type's gauges."""
        start = f"{domain}:type={type_},name="
        return {
            name.removeprefix(start): int(attributes["Value"])
            for name, attributes in self.metrics.snapshot().items()
            if name.startswith(start) and "Value" in attributes
        }

    @property
    def unclean_elections(self) -> Attribute:
        name = "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec"
        return self.metrics.snapshot()[name]["Count"]


def test_every_metric_of_a_controller_says_what_it_means() -> None:
    names = {family.name for family in registry_of(Observed().metrics).collect()}

    assert len(names) > 20
    assert {name for name in names if meaning_of(name) == name} == set()


def test_before_anything_has_happened_there_is_a_value_for_each() -> None:
    observed = Observed(leader_id=None)

    assert observed.of("KafkaController") == {
        "ActiveControllerCount": 0,
        "LastAppliedRecordOffset": -1,
        "LastCommittedRecordOffset": -1,
        "LastAppliedRecordTimestamp": -1,
        "LastAppliedRecordLagMs": observed.world.now_ms + 1,
        "TimedOutBrokerHeartbeatCount": 0,
        "EventQueueOperationsStartedCount": 0,
        "EventQueueOperationsTimedOutCount": 0,
        "NewActiveControllersCount": 0,
        "MetadataErrorCount": 0,
        "FencedBrokerCount": 0,
        "ActiveBrokerCount": 0,
        "MigratingZkBrokerCount": 0,
        "GlobalTopicCount": 0,
        "GlobalPartitionCount": 0,
        "OfflinePartitionsCount": 0,
        "PreferredReplicaImbalanceCount": 0,
        "ZkMigrationState": 0,
    }
    assert observed.of("MetadataLoader", "kafka.server") == {
        "CurrentMetadataVersion": 0,
        "CurrentControllerId": -1,
        "HandleLoadSnapshotCount": 0,
    }


def test_brokers_topics_and_partitions_are_counted_as_they_come_change_and_go() -> None:
    observed = Observed()
    world = observed.world
    world.elect(3000)
    world.start_brokers(1, 2)
    world.register(3)
    world.create_topic("orders", (1, 2), (2, 1))
    single = world.create_topic("single", (1,))

    observed.look()
    found = observed.of("KafkaController")
    assert (found["ActiveBrokerCount"], found["FencedBrokerCount"]) == (2, 1)
    assert (found["GlobalTopicCount"], found["GlobalPartitionCount"]) == (2, 3)
    assert (found["OfflinePartitionsCount"], found["PreferredReplicaImbalanceCount"]) == (0, 0)
    assert found["ActiveControllerCount"] == found["NewActiveControllersCount"] == 1
    assert found["EventQueueOperationsStartedCount"] > 5
    assert observed.of("MetadataLoader", "kafka.server") == {
        "CurrentMetadataVersion": 21,
        "CurrentControllerId": 3000,
        "HandleLoadSnapshotCount": 0,
    }

    for _ in range(4):
        world.advance(SESSION_MS // 3)
        world.heartbeat(2)
    observed.look()
    found = observed.of("KafkaController")
    assert (found["ActiveBrokerCount"], found["FencedBrokerCount"]) == (1, 2)
    # No one leads single-0; orders-0 is led by another than its first replica.
    assert (found["OfflinePartitionsCount"], found["PreferredReplicaImbalanceCount"]) == (1, 2)

    world.ask(DeleteTopics((single,)), dict)
    observed.look()
    found = observed.of("KafkaController")
    assert (found["GlobalTopicCount"], found["GlobalPartitionCount"]) == (1, 2)
    assert (found["OfflinePartitionsCount"], found["PreferredReplicaImbalanceCount"]) == (0, 1)


def test_what_was_never_committed_is_not_counted_any_more() -> None:
    observed = Observed()
    world = observed.world
    world.elect(3000)
    world.start_brokers(1)
    world.commit()
    observed.look()
    before = observed.of("KafkaController")
    world.log.is_slow = True
    world.send(topic("lost", (1,)))
    observed.look()
    assert observed.of("KafkaController")["GlobalTopicCount"] == 1
    assert observed.of("KafkaController")["GlobalPartitionCount"] == 1

    world.elect(3001)
    observed.look()

    after = observed.of("KafkaController")
    assert (after["GlobalTopicCount"], after["GlobalPartitionCount"]) == (0, 0)
    assert after["ActiveControllerCount"] == 0
    assert after["LastAppliedRecordOffset"] == before["LastCommittedRecordOffset"]


@pytest.mark.parametrize("has_caught_up", [True, False])
def test_unclean_elections_count_from_the_time_when_it_knew_what_there_was(
    has_caught_up: bool,
) -> None:
    observed = Observed()
    world = observed.world
    world.elect(3000)
    world.start_brokers(1, 2)
    world.create_topic("orders", (1, 2))
    unclean = {"unclean.leader.election.enable": ConfigOperation(OpType.SET, "true")}
    orders = ConfigResource(ConfigResourceType.TOPIC, "orders")
    world.ask(IncrementalAlterConfigs({orders: unclean}), dict)
    observed.look()
    if has_caught_up:
        observed.observer.caught_up()

    # Broker 2 leaves the ISR with its session, then broker 1 goes and broker 2 is back.
    for _ in range(4):
        world.advance(SESSION_MS // 3)
        world.heartbeat(1)
    world.heartbeat(2)
    world.advance(2 * SESSION_MS)
    world.heartbeat(2)
    world.advance(SESSION_MS)
    observed.look()

    assert observed.of("KafkaController")["OfflinePartitionsCount"] == 0
    assert observed.unclean_elections == (1 if has_caught_up else 0)


async def test_a_node_serves_them_and_times_what_its_controller_does(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.start(1, 2, 3)
        active = await quorum.active()
        for number in range(12):
            await quorum.configure(active, str(number))

        def value(node_id: int, name: str) -> Attribute:
            mbean = f"kafka.controller:type=KafkaController,name={name}"
            return quorum.metrics[node_id].snapshot()[mbean]["Value"]

        assert [value(each, "ActiveControllerCount") for each in sorted(quorum.nodes)] == [
            int(each == active) for each in sorted(quorum.nodes)
        ]
        end = quorum.nodes[active].driver.node.log.end_offset

        def is_there(node_id: int, name: str) -> bool:
            return value(node_id, name) == end - 1

        for each in quorum.nodes:
            for name in ("LastCommittedRecordOffset", "LastAppliedRecordOffset"):
                await eventually(partial(is_there, each, name), name)
        assert 0 <= int(value(active, "LastAppliedRecordLagMs")) < 60_000
        times = quorum.metrics[active].snapshot()
        manager = "kafka.controller:type=ControllerEventManager,name="
        assert int(times[f"{manager}EventQueueTimeMs"]["Count"]) > 12
        assert int(times[f"{manager}EventQueueProcessingTimeMs"]["Count"]) > 12
        loader = "kafka.server:type=MetadataLoader,name=CurrentControllerId"
        assert {quorum.metrics[each].snapshot()[loader]["Value"] for each in quorum.nodes} == {
            active
        }
