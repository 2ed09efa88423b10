"""Whatever happens, every controller makes the same state of the same log.

Three controllers, elections at any moment, commits early or late.  At the end each of them must
be where a newcomer gets that reads the log from its beginning, and what was answered must be there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import NamedTuple
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from replica_manager.quorum.controller_apis.cluster import HEARTBEAT_TIMEOUT_MS
from tests.support.quorum_controller_world import CLUSTER_ID, QuorumWorld, topic
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.cluster_requests import BrokerRegistrationRequest
from zkcontroller.kraft.controller.config_schema import ConfigResource
from zkcontroller.kraft.controller.configuration_control import ConfigOperation
from zkcontroller.kraft.controller.heartbeats import BrokerHeartbeat
from zkcontroller.kraft.controller.quorum_controller import QuorumController
from zkcontroller.kraft.controller.quorum_controller_requests import (
    DeleteTopics,
    IncrementalAlterConfigs,
    ProcessBrokerHeartbeat,
    RegisterBroker,
    UnregisterBroker,
)
from zkcontroller.kraft.controller.quorum_controller_state import DEFAULT_SESSION_TIMEOUT_MS
from zkcontroller.kraft.controller.quorum_controller_values import ControllerRequestReceived
from zkcontroller.kraft.controller.topic_requests import CreatableTopicResult
from zkcontroller.kraft.metadata.metadata_version import FEATURE_NAME
from zkcontroller.kraft.metadata.records import BrokerEndpoint, BrokerFeature
from zkcontroller.model import ConfigResourceType, OpType

BROKERS = (1, 2, 3)
TOPICS = ("orders", "payments")
HEARTBEAT_INTERVAL_MS = 2_000


class Step(NamedTuple):
    """One thing that happens; which one decides what the number means."""

    what: str
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            (
                "elect",
                "commit",
                "hold back",
                "restart",
                "register",
                "heartbeat",
                "fence",
                "shut down",
                "unregister",
                "create",
                "delete",
                "configure",
                "configure too much",
                "wait",
            )
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


class Scenario:
    """The steps, taken in a world."""

    def __init__(self) -> None:
        self.world = QuorumWorld(controllers=3)
        self.world.elect(3000)
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


def everything(controller: QuorumController) -> tuple[object, ...]:
    """What a controller made of the log."""
    state = controller.state
    topics = state.replication.state
    return (
        state.cluster.registrations(),
        {each.id: state.cluster.register_broker_record_offset(each.id)
         for each in state.cluster.registrations()},
        state.features.finalized_features(),
        {topic_id: (each.name, dict(each.partitions.items()))
         for topic_id, each in topics.topics.items()},
        dict(topics.topics_by_name.items()),
        set(topics.imbalanced_partitions),
        set(topics.brokers_to_isrs.partitions_with_no_leader()),
        [state.configs.configs(ConfigResource(ConfigResourceType.TOPIC, name)) for name in TOPICS],
        state.offsets.last_stable_offset,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_controller_gets_where_a_newcomer_gets(steps: list[Step]) -> None:
    scenario = Scenario()
    world = scenario.world
    for broker in BROKERS:
        scenario.register(broker, 0)
        scenario.heartbeat(broker)

    for step in steps:
        scenario.take(step)
        assert world.faults == []
    world.log.is_slow = False
    world.commit()
    world.advance(1_000)

    newcomer = world.start(3003)
    world.commit()
    # Where the log ends in a batch of the quorum itself, nothing is stable that was not before.
    for node_id, controller in world.controllers.items():
        assert everything(controller) == everything(newcomer), node_id

    for request_id, name in scenario.created.items():
        answer = world.answers[request_id]
        if isinstance(answer, ApiException):
            assert answer.error is ErrorCode.not_controller
            continue
        assert isinstance(answer, tuple)
        (result,) = answer
        assert isinstance(result, CreatableTopicResult)
        if not result.error.is_failure and name not in scenario.ever_deleted:
            assert newcomer.state.replication.state.topics_by_name[name] == result.topic_id


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30_000), max_size=6))
def test_no_long_step_fences_a_broker_whose_heartbeats_are_queued(durations_ms: list[int]) -> None:
    world = QuorumWorld()
    world.elect(3000)
    world.start_brokers(*BROKERS, 9)
    world.create_topic("orders", (*BROKERS, 9))
    cluster = world.active.state.cluster
    epochs = {each.id: each.epoch for each in cluster.registrations()}
    dead_since_ms, request_ids = world.now_ms, count(1_000_000)

    for duration_ms in durations_ms:
        until_ms = world.now_ms + duration_ms
        while world.now_ms < until_ms:
            for broker in BROKERS:
                heartbeat = ProcessBrokerHeartbeat(BrokerHeartbeat(broker, epochs[broker], 1_000))
                deadline_ms = world.now_ms + HEARTBEAT_TIMEOUT_MS
                request = ControllerRequestReceived(next(request_ids), heartbeat, deadline_ms)
                world.note(world.active.enqueue(request))
            world.now_ms = min(until_ms, world.now_ms + HEARTBEAT_INTERVAL_MS)
        world.feed(3000, None)

        assert all(map(cluster.is_unfenced, BROKERS))
    if world.now_ms > dead_since_ms + DEFAULT_SESSION_TIMEOUT_MS:
        assert not cluster.is_unfenced(9)
