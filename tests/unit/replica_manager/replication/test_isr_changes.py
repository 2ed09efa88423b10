"""Proposals on their way: over a socket to a controller that the test plays, or into ZooKeeper.

Source of the behaviours: Kafka ``AlterPartitionManagerTest``,
``NodeToControllerRequestThreadTest``, ``ReplicationUtilsTest``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import Endpoint, TopicPartition
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.inter_broker_versions import LATEST, version_of
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.replication.alter_partition_manager import AlterPartitionManager
from replica_manager.replication.controller_connection import ControllerNode
from replica_manager.replication.controller_link import ControllerLink, ControllerLinkSettings
from replica_manager.replication.isr import CommittedIsr
from replica_manager.replication.isr_znodes import CHECK_INTERVAL_MS, IsrZnodes
from tests.support.kafka_log_shapes import shape_of
from tests.support.wire_peer import HANG_UP, WirePeer, until
from tests.unit.replica_manager.replication.led_isr import (
    ID,
    LAG_MS,
    LEADER_EPOCH,
    ONE,
    PARTITION_EPOCH,
    ZERO,
    led,
    shrink,
)
from zkcontroller.zookeeper.requests import Create, SetData, Znode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    PERSISTENT_PATHS,
    IsrChangeNotificationSequenceZnode,
    IsrChangeNotificationZnode,
    PartitionStateZnode,
)
from zkcontroller_simulation.zookeeper import SimulatedSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

BROKER_EPOCH = 42


class Controller:
    """Broker 9, which decides as the test says."""

    def __init__(self, newest: int = 3) -> None:
        self.newest = newest
        self.requests: list[tuple[int, Any]] = []
        self.responses: list[object] = []
        """What it answers one after the other; ``accept`` when nothing is left."""
        self.peer = WirePeer(self._answer)

    async def _answer(self, key: int, version: int, request: Any) -> Any:
        schema = response_schema(key, version)
        if key == ApiKey.API_VERSIONS:
            apis = [(ApiKey.ALTER_PARTITION, self.newest)] if self.newest >= 0 else []
            return schema.response(
                error_code=ErrorCode.none,
                api_keys=tuple(
                    schema.part("ApiVersion", api_key=int(api), min_version=0, max_version=newest)
                    for api, newest in apis
                ),
            )
        self.requests.append((version, request))
        response = self.responses.pop(0) if self.responses else accepted
        return response(version, request) if callable(response) else response


def accepted(version: int, request: Any) -> Any:
    return answered(version, request, {})


def top_level(error: ErrorCode) -> Any:
    return lambda version, _: response_schema(ApiKey.ALTER_PARTITION, version).response(
        error_code=error, topics=()
    )


def refused(errors: dict[int, ErrorCode]) -> Any:
    return lambda version, request: answered(version, request, errors)


def answered(version: int, request: Any, errors: dict[int, ErrorCode]) -> Any:
    schema = response_schema(ApiKey.ALTER_PARTITION, version)
    topics = []
    for topic in request.topics:
        told = []
        for asked in topic.partitions:
            error = errors.get(asked.partition_index, ErrorCode.none)
            states = getattr(asked, "new_isr_with_epochs", ())
            isr = getattr(asked, "new_isr", None) or tuple(s.broker_id for s in states)
            told.append(
                schema.part(
                    "PartitionData",
                    partition_index=asked.partition_index,
                    error_code=error,
                    leader_id=1,
                    leader_epoch=asked.leader_epoch,
                    isr=isr,
                    leader_recovery_state=0,
                    partition_epoch=asked.partition_epoch + 1,
                )
            )
        topics.append(
            schema.part(
                "TopicData",
                topic_name=getattr(topic, "topic_name", ""),
                topic_id=getattr(topic, "topic_id", None),
                partitions=tuple(told),
            )
        )
    return schema.response(error_code=ErrorCode.none, topics=tuple(topics))


class Broker:
    """Broker 1: partitions, and what brings their proposals to the controller."""

    def __init__(self, controller: Controller, version: str = LATEST.name) -> None:
        self.where: ControllerNode | None = None
        self.find(controller)
        self.metrics = Metrics()
        self.changed: list[TopicPartition] = []
        self.broker_epoch = BROKER_EPOCH
        settings = ControllerLinkSettings(1, version_of(version), 5_000)
        link = ControllerLink(settings, lambda: self.where, lambda: self.broker_epoch)
        self.changes = AlterPartitionManager(
            link, self.metrics, lambda: LAG_MS + 2, self.changed.append
        )

    def find(self, controller: Controller, broker_id: int = 9) -> None:
        endpoint = Endpoint("127.0.0.1", controller.peer.port, "L", "PLAINTEXT")
        self.where = ControllerNode(broker_id, endpoint)

    def meter(self, name: str) -> int:
        return self.metrics.meter(mbean("kafka.server", "ReplicaManager", name)).count


@asynccontextmanager
async def brokers(newest: int = 3, **options: Any) -> AsyncIterator[tuple[Controller, Broker]]:
    controller = Controller(newest)
    await controller.peer.listen()
    broker = Broker(controller, **options)
    broker.changes.start()
    try:
        yield controller, broker
    finally:
        await broker.changes.stop()
        await controller.peer.close()


async def test_what_the_controller_accepts_is_the_isr_and_commits_records() -> None:
    async with brokers() as (controller, broker):
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: partition.isr_state == CommittedIsr((1,)))

        assert partition.partition_epoch == PARTITION_EPOCH + 1
        assert broker.changed == [ZERO]
        assert broker.meter("IsrShrinksPerSec") == 1
        assert broker.meter("FailedIsrUpdatesPerSec") == 0
        ((version, request),) = controller.requests
        assert version == 3
        assert (request.broker_id, request.broker_epoch) == (1, BROKER_EPOCH)
        assert request.topics[0].topic_id == ID
        (asked,) = request.topics[0].partitions
        assert (asked.leader_epoch, asked.partition_epoch) == (LEADER_EPOCH, PARTITION_EPOCH)
        assert [(s.broker_id, s.broker_epoch) for s in asked.new_isr_with_epochs] == [(1, -1)]


@pytest.mark.parametrize(
    ("newest", "ibp", "topic_id", "version"),
    [
        (3, "3.9", ID, 3),
        (2, "3.9", ID, 2),
        (0, "3.9", ID, 0),
        (3, "2.7", ID, 1),
        (3, "3.9", None, 1),
    ],
)
async def test_the_version_is_the_newest_that_both_sides_the_dialect_and_the_topic_allow(
    newest: int, ibp: str, topic_id: UUID | None, version: int
) -> None:
    async with brokers(newest, version=ibp) as (controller, broker):
        partition = led(topic_id=topic_id)
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: partition.isr_state == CommittedIsr((1,)))
        assert [sent for sent, _ in controller.requests] == [version]


@pytest.mark.parametrize(
    "first",
    [
        HANG_UP,
        top_level(ErrorCode.not_controller),
        top_level(ErrorCode.stale_broker_epoch),
        top_level(ErrorCode.cluster_authorization_failed),
        refused({0: ErrorCode.not_controller}),
        refused({0: ErrorCode.unknown_server_error}),
    ],
)
async def test_a_proposal_is_sent_until_it_is_decided(first: object) -> None:
    async with brokers() as (controller, broker):
        controller.responses = [first, first]
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: partition.isr_state == CommittedIsr((1,)))
        assert len(controller.requests) == 3


async def test_the_epoch_of_a_broker_that_has_registered_anew_goes_along() -> None:
    async with brokers() as (controller, broker):
        controller.responses = [top_level(ErrorCode.stale_broker_epoch)]
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: bool(controller.requests))
        broker.broker_epoch = BROKER_EPOCH + 1
        await until(lambda: partition.isr_state == CommittedIsr((1,)))
        assert controller.requests[-1][1].broker_epoch == BROKER_EPOCH + 1


async def test_a_refusal_reverts_or_leaves_pending_as_its_code_says() -> None:
    async with brokers() as (controller, broker):
        controller.responses = [
            refused({0: ErrorCode.ineligible_replica, 1: ErrorCode.invalid_update_version})
        ]
        zero, one = led(ZERO), led(ONE)
        pending = shrink(one)
        # Both wait before the task gets its turn, so one request takes them along.
        broker.changes.submit(zero, shrink(zero))
        broker.changes.submit(one, pending)
        await until(lambda: zero.isr_state == CommittedIsr((1, 2, 3)))

        assert one.isr_state == pending
        assert len(controller.requests) == 1
        assert broker.meter("FailedIsrUpdatesPerSec") == 2


async def test_a_second_proposal_of_a_partition_is_not_attempted() -> None:
    async with brokers() as (_, broker):
        broker.where = None
        partition = led()
        first = shrink(partition)
        broker.changes.submit(partition, first)
        again = led()  # the topic was deleted and created again
        broker.changes.submit(again, shrink(again))
        assert again.isr_state == CommittedIsr((1, 2, 3))
        assert partition.isr_state == first


async def test_a_controller_that_is_not_known_yet_is_waited_for() -> None:
    async with brokers() as (controller, broker):
        broker.where = None
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await asyncio.sleep(0)
        broker.find(controller)
        await until(lambda: partition.isr_state == CommittedIsr((1,)))


async def test_a_frozen_controller_is_left_when_another_one_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replica_manager.replication.controller_connection.LOOK_AGAIN_S", 0.01)

    async with brokers() as (frozen, broker):
        never = asyncio.Event()
        frozen.peer._answer = lambda *_: never.wait()
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: frozen.peer.connections == 1)

        successor = Controller()
        await successor.peer.listen()
        broker.find(successor, broker_id=8)
        await until(lambda: partition.isr_state == CommittedIsr((1,)))
        never.set()
        await broker.changes.stop()
        await successor.peer.close()


async def test_the_lines_are_those_of_kafka(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async with brokers() as (controller, broker):
        controller.responses = [
            top_level(ErrorCode.stale_broker_epoch),
            refused({0: ErrorCode.unknown_server_error}),
            refused({0: ErrorCode.ineligible_replica}),
        ]
        partition = led()
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: partition.isr_state == CommittedIsr((1, 2, 3)))
        broker.changes.submit(partition, shrink(partition))
        await until(lambda: partition.isr_state == CommittedIsr((1,)))
    families = []
    for line in caplog.records:
        if not line.name.startswith("kafka."):
            continue
        found = shape_of(line.getMessage())
        assert found is not None, line.getMessage()
        assert {"WARNING": "WARN"}.get(line.levelname, line.levelname) in found[0].levels
        families.append(found[0].family)
    assert families == [
        "isr-shrinking",
        "new-controller",
        "isr-alter-sender",
        "isr-alter-retry",
        "isr-alter-rejected",
        "isr-shrinking",
        "isr-updated",
    ]


# ---------------------------------------------------------------------- ZooKeeper


PATH = PartitionStateZnode.path(*ZERO)


class Znodes:
    """Broker 1 below 2.7-IV2, and a simulated ZooKeeper."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.session = SimulatedSession(SimulatedZooKeeper())
        self.session.start()
        self.session.create_missing(PERSISTENT_PATHS)
        self.session.create_missing([PATH.rpartition("/")[0]])
        old = PartitionStateZnode(1, LEADER_EPOCH, (1, 2, 3), 3).encode()
        self.session.write(Create(PATH, b""))
        for _ in range(PARTITION_EPOCH):
            self.session.write(SetData(PATH, old))
        self.now_ms = 0
        self.partition = led()
        self.route = IsrZnodes(
            cast(ZooKeeperSession, self.session),
            executor,
            1,
            lambda _: self.partition.controller_epoch,
            lambda: self.now_ms,
        )
        self.changes = AlterPartitionManager(
            self.route, Metrics(), lambda: self.now_ms, lambda _: None
        )

    def state(self) -> tuple[PartitionStateZnode, int]:
        znode = self.session.read(PATH)
        assert isinstance(znode, Znode)
        return PartitionStateZnode.decode(PATH, znode.data), znode.zk_version

    def notes(self) -> list[str]:
        names = self.session.children(IsrChangeNotificationZnode.PATH)
        assert isinstance(names, list)
        return names


@pytest.fixture
def znodes(executor: ThreadPoolExecutor) -> Znodes:
    return Znodes(executor)


async def test_below_2_7_the_leader_writes_the_isr_itself(znodes: Znodes) -> None:
    znodes.changes.start()
    znodes.changes.submit(znodes.partition, shrink(znodes.partition))
    await until(lambda: znodes.partition.isr_state == CommittedIsr((1,)))
    await znodes.changes.stop()
    assert znodes.state() == (PartitionStateZnode(1, LEADER_EPOCH, (1,), 3), PARTITION_EPOCH + 1)
    assert znodes.partition.partition_epoch == PARTITION_EPOCH + 1


async def test_a_leader_that_the_controller_has_deposed_writes_nothing(znodes: Znodes) -> None:
    decided = PartitionStateZnode(2, LEADER_EPOCH + 1, (2, 3), 4)
    znodes.session.write(SetData(PATH, decided.encode()))
    pending = shrink(znodes.partition)

    znodes.changes.start()
    znodes.changes.submit(znodes.partition, pending)
    await until(lambda: not znodes.changes._proposals._waiting)
    await znodes.changes.stop()
    assert znodes.state() == (decided, PARTITION_EPOCH + 1)
    assert znodes.partition.isr_state == pending


async def test_a_write_that_finds_its_own_work_has_succeeded(znodes: Znodes) -> None:
    znodes.session.write(SetData(PATH, PartitionStateZnode(1, LEADER_EPOCH, (1,), 3).encode()))

    znodes.changes.start()
    znodes.changes.submit(znodes.partition, shrink(znodes.partition))
    await until(lambda: znodes.partition.isr_state == CommittedIsr((1,)))
    await znodes.changes.stop()
    assert znodes.partition.partition_epoch == PARTITION_EPOCH + 1


async def test_the_controller_is_notified_once_the_isrs_have_come_to_rest(
    znodes: Znodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica_manager.replication.isr_znodes.CHECK_INTERVAL_MS", 1)
    assert CHECK_INTERVAL_MS == 2_500

    znodes.changes.start()
    znodes.changes.submit(znodes.partition, shrink(znodes.partition))
    await until(lambda: znodes.partition.isr_state == CommittedIsr((1,)))
    znodes.now_ms = 5_000
    looked = znodes.route._is_time()
    assert not looked
    assert znodes.notes() == []

    znodes.now_ms = 5_001
    await until(lambda: len(znodes.notes()) == 1)
    znodes.now_ms = 100_000
    await until(lambda: not znodes.route._changed)
    await znodes.changes.stop()
    (name,) = znodes.notes()
    path = IsrChangeNotificationSequenceZnode.path(name)
    znode = znodes.session.read(path)
    assert isinstance(znode, Znode)
    assert IsrChangeNotificationSequenceZnode.decode(path, znode.data).partitions == (ZERO,)
