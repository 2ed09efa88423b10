"""Elects a controller, and leaders, with the pure core alone: no ZooKeeper, no socket, no thread.

    python examples/elect_in_memory.py

Three controllers share a ZooKeeper that is a dictionary in memory.  Each is driven by hand: an
event goes in, the driver answers what the core asks, and the effects that it wants are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from uuid import uuid4

from kafka_common.model import ReplicaAssignment
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.controller import KafkaController
from zkcontroller.core.effects import Effect, Put, SendControlRequest
from zkcontroller.core.events import Event, Startup
from zkcontroller.core.watches import event_for_watch
from zkcontroller.runtime.driver import Driver
from zkcontroller.zookeeper.requests import Create, WatchFired, Written
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    PartitionStateZnode,
    TopicPartitionsZnode,
    TopicZnode,
)
from zkcontroller_simulation.registration import broker_of, create_persistent_paths
from zkcontroller_simulation.zookeeper import SimulatedSession, SimulatedZooKeeper

TOPIC = "orders"
REQUESTS = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}


class Candidate:
    """A broker's controller: its session, its events, and the driver that runs one of them."""

    def __init__(self, zookeeper: SimulatedZooKeeper, broker_id: int) -> None:
        self.broker_id = broker_id
        self.events: deque[Event] = deque([Startup()])
        self.session = SimulatedSession(zookeeper, on_watch=self._watch_fired)
        self.session.start()
        self.controller = KafkaController(ControllerConfig(broker_id), uuid4)
        self._driver = Driver(self.controller.outbox, self.session, self.register, self._perform)
        self._driver.run(create_persistent_paths())
        self.register()

    def register(self) -> int:
        """Creates ``/brokers/ids/<id>``; returns the broker epoch, the transaction's id."""
        znode = BrokerIdZnode(broker_of(self.broker_id), timestamp_ms=0).encode()
        path = BrokerIdZnode.path(self.broker_id)
        written = self.session.write(Create(path, znode, ephemeral=True))
        assert isinstance(written, Written), written
        return written.czxid

    def run(self) -> None:
        """Handles one event, to its end."""
        self._driver.run(self.controller.handle(self.events.popleft(), now_ms=0))

    def _watch_fired(self, fired: WatchFired) -> None:
        if (event := event_for_watch(fired)) is not None:
            self.events.append(event)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendControlRequest(to, api_key):
                    print(f"  broker {self.broker_id} sends {REQUESTS[api_key]} to broker {to}")
                case Put(event, delay_ms) if not delay_ms:
                    self.events.append(event)


def settle(zookeeper: SimulatedZooKeeper, candidates: Sequence[Candidate]) -> None:
    """Runs all events, then shows who leads."""
    while waiting := [each for each in candidates if each.events]:
        waiting[0].run()
    print("controller:", *[each.broker_id for each in candidates if each.controller.is_active])
    for partition in zookeeper.peek_children(TopicPartitionsZnode.path(TOPIC)):
        path = PartitionStateZnode.path(TOPIC, int(partition))
        znode = zookeeper.peek(path)
        assert znode is not None
        state = PartitionStateZnode.decode(path, znode.data)
        print(f"{TOPIC}-{partition}: leader {state.leader}, in sync {state.in_sync_replicas}")


def main() -> None:
    """A topic is created; then its leader, which is the controller too, dies."""
    zookeeper = SimulatedZooKeeper()
    candidates = [Candidate(zookeeper, broker_id) for broker_id in (1, 2, 3)]
    settle(zookeeper, candidates)

    print("\na topic is created")
    operator = SimulatedSession(zookeeper)
    operator.start()
    topic = TopicZnode(uuid4(), {0: ReplicaAssignment((1, 3)), 1: ReplicaAssignment((2, 1))})
    operator.write(Create(TopicZnode.path(TOPIC), topic.encode()))
    settle(zookeeper, candidates)

    print("\nbroker 1 dies, and its session with it")
    candidates.pop(0).session.close()
    settle(zookeeper, candidates)


if __name__ == "__main__":
    main()
