"""A whole controller, its threads and sockets real, on a ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import Broker, Endpoint, ReplicaAssignment
from kafka_common.observability.metrics import Metrics
from tests.support.kafka_log_shapes import shape_of
from tests.support.stub_broker import TIMEOUT_S, StubBroker
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.effects import ControlledShutdownResult, OngoingReassignments
from zkcontroller.core.events import ControlledShutdown, ListPartitionReassignments, TopicChange
from zkcontroller.runtime import controller_runtime
from zkcontroller.runtime.controller_runtime import ControllerRuntime
from zkcontroller.state_changes.kafka_lines import FIELDS, kafka_line
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import Create, WatchFired, WatchKind, ZkRequest, Znode
from zkcontroller.zookeeper.session import SessionState
from zkcontroller.zookeeper.session_router import SessionRouter
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ControllerZnode, TopicZnode
from zkcontroller_simulation.registration import PERSISTENT_PATHS
from zkcontroller_simulation.zookeeper import SimulatedSession, SimulatedZooKeeper

KAFKA_CONTROLLER = "kafka.controller:type=KafkaController"
UNKNOWN_BROKER = 9
TOPIC_ID = UUID("3de57b87-b854-4605-abf9-5b0674da3cc1")


class Records:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.written: list[StateChange] = []

    def write(self, records: Sequence[StateChange]) -> None:
        self.written.extend(records)

    @property
    def kinds(self) -> set[Kind]:
        return {record.kind for record in self.written}


class OneAtATime:
    """The simulated session, which knows no threads, behind a lock."""

    def __init__(self, session: SimulatedSession) -> None:
        self._session = session
        self._lock = threading.RLock()
        self.has_asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def session_id(self) -> int:
        return self._session.session_id

    def perform(self, request: ZkRequest, session_id: int | None = None) -> object:
        self.has_asked.set()
        assert self.may_answer.wait(TIMEOUT_S)
        with self._lock:
            return self._session.perform(request, session_id)


class World:
    """One broker, which is a controller candidate too."""

    def __init__(self, broker: StubBroker, control_plane: StubBroker | None = None) -> None:
        self.broker = broker
        self.control_plane = control_plane
        self.server = SimulatedZooKeeper()
        self.records = Records()
        self.metrics = Metrics()
        self.registrations = 0
        router = SessionRouter()
        self.zk = SimulatedSession(self.server, on_watch=router.fired, on_state=router.entered)
        self.session = OneAtATime(self.zk)
        self.runtime = ControllerRuntime(
            config=ControllerConfig(
                1,
                listener_name="PLAINTEXT" if control_plane is None else "CONTROL",
                trace_state_changes=True,
            ),
            session=self.session,
            loop=asyncio.get_running_loop(),
            register_broker=self.register,
            state_changes=self.records,
            metrics=self.metrics,
        )
        self.runtime.follow(router)

    def register(self) -> int:
        self.registrations += 1
        endpoints = [Endpoint("127.0.0.1", self.broker.port, "PLAINTEXT", "PLAINTEXT")]
        if self.control_plane is not None:
            port = self.control_plane.port
            endpoints.append(Endpoint("127.0.0.1", port, "CONTROL", "PLAINTEXT"))
        znode = BrokerIdZnode(Broker(1, tuple(endpoints)), timestamp_ms=0)
        self.zk.write(Create(BrokerIdZnode.path(1), znode.encode(), ephemeral=True))
        registered = self.zk.read(BrokerIdZnode.path(1))
        assert isinstance(registered, Znode)
        return registered.czxid

    async def becomes(self, condition: Callable[[], bool]) -> None:
        """Returns once it holds, looking again whenever the event thread has done what waited."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                # A request for an unknown broker is answered at its turn and changes nothing.
                await self.runtime.controlled_shutdown(UNKNOWN_BROKER, broker_epoch=5)

    async def is_idle(self) -> None:
        """Returns once everything that waited has been done."""
        await self.runtime.controlled_shutdown(UNKNOWN_BROKER, broker_epoch=5)

    def gauge(self, name: str) -> Any:
        return self.metrics.snapshot()[f"{KAFKA_CONTROLLER},name={name}"]["Value"]


@asynccontextmanager
async def world(control_plane: StubBroker | None = None) -> AsyncIterator[World]:
    broker = StubBroker()
    await broker.listen()
    w = World(broker, control_plane)
    w.zk.start()
    for path in PERSISTENT_PATHS:
        w.zk.write(Create(path))
    w.register()
    w.runtime.start()
    try:
        yield w
    finally:
        w.session.may_answer.set()
        await asyncio.to_thread(w.runtime.shutdown)
        broker.close()


def run(scenario: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * TIMEOUT_S):
            await scenario()

    asyncio.run(bounded())


async def test_a_lone_broker_becomes_controller_and_tells_itself() -> None:
    async with world() as w:
        await w.broker.has_received(1)

        assert w.runtime.is_active
        assert w.runtime.controller_epoch == 1
        assert w.broker.frames[0][:4] == b"\x00\x06\x00\x08"  # UpdateMetadata 8
        await w.becomes(lambda: w.gauge("ActiveBrokerCount") == 1)
        assert w.gauge("ActiveControllerCount") == 1
        current = "kafka.server:type=MetadataLoader,name=CurrentControllerId"
        assert w.metrics.snapshot()[current]["Value"] == 1


async def test_with_a_control_plane_the_first_request_and_its_answer_go_through_it_alone() -> None:
    control_plane = StubBroker()
    await control_plane.listen()
    async with world(control_plane) as w:
        await control_plane.has_received(1)
        await w.becomes(lambda: any(r.kind is Kind.RESPONSE_RECEIVED for r in w.records.written))

        (request,) = control_plane.frames
        assert request[:4] == b"\x00\x06\x00\x08"  # UpdateMetadata 8
        assert (w.broker.connections, w.broker.frames) == (0, [])
    control_plane.close()


async def test_a_new_topic_gets_a_leader_and_the_answer_is_recorded() -> None:
    async with world() as w:
        await w.broker.has_received(1)

        topic = TopicZnode(TOPIC_ID, {0: ReplicaAssignment((1,))})
        w.zk.write(Create(TopicZnode.path("orders"), topic.encode()))
        await w.becomes(lambda: w.gauge("GlobalPartitionCount") == 1)
        await w.becomes(lambda: any(r.request == "LeaderAndIsr" for r in w.records.written
                                    if r.kind is Kind.RESPONSE_RECEIVED))  # fmt: skip

        assert {Kind.PARTITION_STATE_CHANGED, Kind.LEADER_AND_ISR_SENDING} <= w.records.kinds
        response = next(r for r in w.records.written if r.request == "LeaderAndIsr"
                      and r.kind is Kind.RESPONSE_RECEIVED)  # fmt: skip
        assert response.response == (
            "LeaderAndIsrResponseData(errorCode=0, partitionErrors=[], topics=[])"
        )
        assert response.peer_address == f"127.0.0.1:{w.broker.port}"


async def test_a_controlled_shutdown_is_answered_by_the_core() -> None:
    async with world() as w:
        await w.broker.has_received(1)

        stale = await w.runtime.controlled_shutdown(1, broker_epoch=0)
        unknown = await w.runtime.controlled_shutdown(UNKNOWN_BROKER, broker_epoch=5)

        assert stale.error_code == 77  # STALE_BROKER_EPOCH
        assert unknown.error_code != 0


async def test_a_preempted_controlled_shutdown_learns_that_the_controller_moved() -> None:
    async with world() as w:
        await w.broker.has_received(1)
        await w.is_idle()
        w.session.has_asked.clear()
        w.session.may_answer.clear()
        w.runtime.put(TopicChange())
        await asyncio.to_thread(w.session.has_asked.wait, TIMEOUT_S)

        waiting = asyncio.create_task(w.runtime.controlled_shutdown(1, broker_epoch=72))
        closing = asyncio.create_task(asyncio.to_thread(w.runtime.shutdown))

        assert await waiting == ControlledShutdownResult(ErrorCode.stale_controller_epoch)
        w.session.may_answer.set()
        await closing


def test_a_controlled_shutdown_that_outlives_its_session_learns_that_the_controller_moved() -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.broker.has_received(1)
            await w.is_idle()
            topic = TopicZnode(TOPIC_ID, {0: ReplicaAssignment((1, 2))})
            w.zk.write(Create(TopicZnode.path("orders"), topic.encode()))
            await w.becomes(lambda: w.gauge("GlobalPartitionCount") == 1)
            w.session.has_asked.clear()
            w.session.may_answer.clear()

            waiting = asyncio.create_task(w.runtime.controlled_shutdown(1, broker_epoch=-1))
            await asyncio.to_thread(w.session.has_asked.wait, TIMEOUT_S)
            w.server.end_session(w.zk.session_id)
            w.session.may_answer.set()

            assert await waiting == ControlledShutdownResult(ErrorCode.stale_controller_epoch)

    run(scenario)


async def test_after_shutdown_a_controlled_shutdown_is_refused_at_once() -> None:
    async with world() as w:
        await asyncio.to_thread(w.runtime.shutdown)

        assert await w.runtime.controlled_shutdown(1, 72) == ControlledShutdownResult(
            ErrorCode.stale_controller_epoch
        )


def test_an_expired_session_ends_the_reign_and_the_next_begins_a_new_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.broker.has_received(1)
            assert w.registrations == 1

            w.server.end_session(w.zk.session_id)
            w.zk.reconnect()
            await w.becomes(lambda: w.runtime.controller_epoch == 2)

            assert w.runtime.is_active
            assert w.registrations == 2
            znode = w.zk.read(ControllerZnode.PATH)
            assert isinstance(znode, Znode)
            assert znode.ephemeral_owner == w.zk.session_id
            name = "kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec"
            assert w.metrics.snapshot()[name]["Count"] == 1

    with caplog.at_level(logging.DEBUG):
        run(scenario)
    families = [found[0].family for r in caplog.records if (found := shape_of(r.getMessage()))]
    assert families.count("ctl-elected") == 2
    assert families.index("ctl-resigned") > families.index("ctl-elected")


async def test_resigning_does_not_wait_for_the_next_session() -> None:
    async with world() as w:
        await w.broker.has_received(1)
        await w.is_idle()

        w.server.end_session(w.zk.session_id)
        w.zk.forget()

        await w.becomes(lambda: not w.runtime.is_active)
        assert w.zk.session_id == 0
        w.zk.reconnect = lambda: False  # type: ignore[method-assign]


async def test_who_waits_longer_than_a_broker_is_answered_also_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        await w.broker.has_received(1)
        await w.is_idle()
        monkeypatch.setattr(controller_runtime, "RESPONSE_TIMEOUT_S", 0.01)
        w.session.may_answer.clear()
        w.runtime.put(TopicChange())  # its question to ZooKeeper holds up what follows

        patient = asyncio.ensure_future(
            w.runtime.ask(lambda i: ListPartitionReassignments(None, i), 60_000)
        )
        hurried = await w.runtime.ask(lambda i: ListPartitionReassignments(None, i), 1)

        assert hurried is None
        assert not patient.done()
        w.session.may_answer.set()
        assert await patient == OngoingReassignments(ErrorCode.none)


async def test_shutdown_resigns_but_leaves_the_znode_to_the_session() -> None:
    async with world() as w:
        await w.broker.has_received(1)

        await asyncio.to_thread(w.runtime.shutdown)

        assert not w.runtime.is_active
        assert isinstance(w.zk.read(ControllerZnode.PATH), Znode)
        left = [name for name in w.metrics.snapshot() if name.startswith(KAFKA_CONTROLLER)]
        assert left == []


async def test_the_thirteen_gauges_of_kafka_are_there_from_the_start() -> None:
    async with world() as w:
        names = [
            name.partition("name=")[2]
            for name in w.metrics.snapshot()
            if name.startswith(KAFKA_CONTROLLER)
        ]
        assert names == [
            "ActiveBrokerCount",
            "ActiveControllerCount",
            "ControllerState",
            "FencedBrokerCount",
            "GlobalPartitionCount",
            "GlobalTopicCount",
            "OfflinePartitionsCount",
            "PreferredReplicaImbalanceCount",
            "ReplicasIneligibleToDeleteCount",
            "ReplicasToDeleteCount",
            "TopicsIneligibleToDeleteCount",
            "TopicsToDeleteCount",
            "ZkMigrationState",
        ]
        assert w.gauge("ZkMigrationState") == 4
    assert not [name for name in w.metrics.snapshot() if name.startswith(KAFKA_CONTROLLER)]


async def test_an_irrelevant_watch_becomes_no_event() -> None:
    async with world() as w:
        await w.broker.has_received(1)
        await w.is_idle()
        w.session.has_asked.clear()

        w.runtime.on_watch(WatchFired(WatchKind.NODE_DATA_CHANGED, "/elsewhere"))
        await w.runtime.controlled_shutdown(
            UNKNOWN_BROKER, broker_epoch=5
        )  # the queue was passed by it

        assert not w.session.has_asked.is_set()


async def test_a_runtime_that_never_started_can_be_shut_down() -> None:
    w = World(StubBroker())
    w.runtime.put(ControlledShutdown(1, 72, request_id=99))
    w.runtime.on_session_state(SessionState.SUSPENDED)

    await asyncio.to_thread(w.runtime.shutdown)

    assert not w.runtime.is_active


def test_whatever_the_core_says_kafka_could_have_said(caplog: pytest.LogCaptureFixture) -> None:
    records: list[StateChange] = []

    async def scenario() -> None:
        async with world() as w:
            await w.broker.has_received(1)
            topic = TopicZnode(TOPIC_ID, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((1,))})
            w.zk.write(Create(TopicZnode.path("orders"), topic.encode()))
            await w.becomes(lambda: w.gauge("GlobalPartitionCount") == 2)
            await w.runtime.controlled_shutdown(1, broker_epoch=-1)
            w.server.end_session(w.zk.session_id)
            w.zk.reconnect()
            await w.becomes(lambda: w.runtime.controller_epoch == 2)
            w.zk.write(Create("/admin/delete_topics/orders"))
            await w.becomes(lambda: w.gauge("TopicsToDeleteCount") == 1)
            await asyncio.to_thread(w.runtime.shutdown)
            records.extend(w.records.written)

    with caplog.at_level(5):
        run(scenario)
    unknown: list[str] = []
    for record in records:
        missing = [name for name in FIELDS[record.kind] if getattr(record, name) is None]
        assert missing == [], record
        line = kafka_line(record)
        if line is not None:
            found = shape_of(line.message)
            if found is None or line.level not in found[0].levels:
                unknown.append(line.message)
    said = (r.getMessage() for r in caplog.records if r.name.startswith("kafka.controller"))
    unknown.extend(message for message in said if shape_of(message) is None)
    assert unknown == []
    assert len({record.kind for record in records}) >= 10
