"""Steps of a quorum's controller, as Hypothesis draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import ConfigResourceType, OpType
from kraft.controller.cluster_requests import BrokerRegistrationRequest
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller_requests import (
    DeleteTopics,
    IncrementalAlterConfigs,
    ProcessBrokerHeartbeat,
    RegisterBroker,
    UnregisterBroker,
)
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld, topic

BROKERS = (1, 2, 3)


TOPICS = ("orders", "payments")


class Step(NamedTuple):
    """One thing that happens; which one decides what the number means."""

    what: str
    number: int


class Scenario:
    """Takes steps in a world of three controllers."""

    def __init__(self) -> None:
        self.world = QuorumWorld.led(controllers=3)
        self.created: dict[int, str] = {}
        self.ever_deleted: set[str] = set()

    def take(self, step: Step) -> None:
        world, number = self.world, step.number
        match step.what:
            case "elect":
                world.elect(3000 + number % 3)
            case "commit":
                world.log.is_slow = False
                world.commit()
            case "hold back":
                world.log.is_slow = True
            case "restart":
                self.restart_standby(3000 + number % 3)
            case "wait":
                world.advance(2_000 * number)
            case "configure too much":
                self.configure_too_much()
            case "create" | "delete" | "configure":
                self.change_topic(step.what, TOPICS[number % 2], number)
            case _:
                self.change_broker(step.what, BROKERS[number % 3], number)

    def restart_standby(self, node_id: int) -> None:
        if not self.world.controllers[node_id].is_active:
            self.world.start(node_id)
            self.world.commit()

    def change_topic(self, what: str, name: str, number: int) -> None:
        if what == "create":
            replicas = (BROKERS, BROKERS[::-1], (2,))[number % 3]
            self.created[self.world.send(topic(name, replicas, replicas))] = name
        elif what == "delete":
            self.delete(name)
        else:
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            change = {"retention.ms": ConfigOperation(OpType.SET, str(number))}
            self.world.send(IncrementalAlterConfigs({resource: change}))

    def configure_too_much(self) -> None:
        """A value that no record holds costs no one the leadership."""
        epoch, faults = self.world.active.claim_epoch, list(self.world.faults)
        every_broker = ConfigResource(ConfigResourceType.BROKER, "")
        change = {"retention.ms": ConfigOperation(OpType.SET, "1" * 40_000)}
        request = IncrementalAlterConfigs({every_broker: change})
        assert self.world.refusal(request).error is ErrorCode.invalid_request
        assert (self.world.active.claim_epoch, self.world.faults) == (epoch, faults)

    def change_broker(self, what: str, broker: int, number: int) -> None:
        if what == "register":
            self.register(broker, number)
        elif what == "unregister":
            self.world.send(UnregisterBroker(broker))
        else:
            is_fenced, is_stopping = what == "fence", what == "shut down"
            self.heartbeat(broker, want_fence=is_fenced, want_shut_down=is_stopping)

    def register(self, broker: int, incarnation: int) -> None:
        request = BrokerRegistrationRequest(
            broker,
            CLUSTER_ID,
            UUID(int=(incarnation << 80) + broker),
            (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
            (BrokerFeature(FEATURE_NAME, 1, 21),),
            log_dirs=(UUID(int=(1 << 64) + broker),),
        )
        self.world.send(RegisterBroker(request))

    def heartbeat(self, broker: int, **wishes: bool) -> None:
        active = self.world.active
        registration = active.state.cluster.registration(broker)
        if registration is not None:
            offset = active.state.offsets.next_write_offset
            heartbeat = BrokerHeartbeat(broker, registration.epoch, offset)
            heartbeat = replace(heartbeat, **wishes)  # type: ignore[arg-type] # two of its fields
            self.world.send(ProcessBrokerHeartbeat(heartbeat))

    def delete(self, name: str) -> None:
        topic_id = self.world.active.state.replication.state.topics_by_name.get(name)
        if topic_id is not None:
            self.ever_deleted.add(name)
            self.world.send(DeleteTopics((topic_id,)))
