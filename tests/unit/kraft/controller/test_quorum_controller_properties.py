"""Whatever happens, every controller makes the same state of the same log.

Three controllers, elections at any moment, commits early or late.  At the end each of them must
be where a newcomer gets that reads the log from its beginning, and what was answered must be there.
"""

from __future__ import annotations

from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.model import ConfigResourceType
from kraft.controller.config_schema import ConfigResource
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller import QuorumController
from kraft.controller.quorum_controller_requests import ProcessBrokerHeartbeat
from kraft.controller.quorum_controller_state import DEFAULT_SESSION_TIMEOUT_MS
from kraft.controller.quorum_controller_values import ControllerRequestReceived
from kraft.controller.topic_requests import CreatableTopicResult
from kraft.node.controller_apis.cluster import HEARTBEAT_TIMEOUT_MS
from tests.support.quorum_controller_world import QuorumWorld
from tests.unit.kraft.controller.controller_scenario import BROKERS, TOPICS, Scenario, Step

HEARTBEAT_INTERVAL_MS = 2_000

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
        response = world.responses[request_id]
        if isinstance(response, ApiException):
            assert response.error is ErrorCode.not_controller
            continue
        assert isinstance(response, tuple)
        (result,) = response
        assert isinstance(result, CreatableTopicResult)
        if not result.error.is_failure and name not in scenario.ever_deleted:
            assert newcomer.state.replication.state.topics_by_name[name] == result.topic_id


# The check of sessions may be due before the heartbeats that wait have timed out and count, as in
# Kafka: then a step that is longer than a session fences brokers that are alive.
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, DEFAULT_SESSION_TIMEOUT_MS), max_size=6)
    | st.lists(st.integers(0, 30_000), max_size=1)
)
@example([8_001, 8_001, 9_000])
def test_no_long_step_fences_a_broker_whose_heartbeats_are_queued(durations_ms: list[int]) -> None:
    world = QuorumWorld.led()
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
