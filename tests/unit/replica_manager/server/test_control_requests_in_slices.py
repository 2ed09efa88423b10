"""The controller's requests are carried out in slices: in order, whole, and others are served.

A slice is one step here, so that the event loop gets its turn after every partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import LEADER_DURING_DELETE, LeaderAndIsr, TopicPartition
from kafka_common.net.presence import ClientPresence
from kafka_common.protocol.bulk import (
    leader_and_isr_body,
    stop_replica_body,
    update_metadata_body,
    update_metadata_live_brokers,
    update_metadata_topics,
)
from kafka_common.protocol.messages import read_response
from replica_manager.replication.control_requests import StopReplicaPartition, StopReplicaRequest
from replica_manager.replication.fetch_requests import FetcherSettings
from replica_manager.replication.replica_fetchers import PARTITIONS_AT_ONCE, ReplicaFetchers
from replica_manager.replication.replica_log import ReplicaLog
from replica_manager.server import slices
from replica_manager.server.handlers import update_metadata
from replica_manager.server.slices import run_in_slices
from tests.support.broker_world import BrokerWorld, broker
from tests.support.control_entries import leader_and_isr_entry, update_metadata_entry
from tests.support.frames import parse_response_header, request_header
from zkcontroller.state_changes.record import Kind

COUNT: Final = 50
PARTITIONS: Final = [TopicPartition("orders", number) for number in range(COUNT)]


@pytest.fixture
def world(executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> BrokerWorld:
    monkeypatch.setattr(slices, "SLICE_S", 0)
    monkeypatch.setattr(slices, "STEPS_AT_ONCE", 1)
    return BrokerWorld(executor)


async def ask(world: BrokerWorld, api_key: int, version: int, body: tuple[bytes, ...]) -> Any:
    """The answer to a body as our own controller writes it."""
    data = request_header(api_key, version, 3, None) + b"".join(body)
    response = await world.ask_raw(data)
    _, start = parse_response_header(api_key, version, response)
    return read_response(api_key, version, response, start)


async def become_leaders(world: BrokerWorld, *, controller_epoch: int = 1) -> Any:
    state = LeaderAndIsr(1, 0, (1,), 0, 1)
    entries = [
        leader_and_isr_entry(7, "orders", number, state, (1,), (), (), True)
        for number in range(COUNT)
    ]
    body = leader_and_isr_body(
        7,
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=-1,
        topics=[("orders", None, entries)],
        live_leaders=[(1, "host1", 9092)],
    )
    return await ask(world, 4, 7, body)


async def follow(world: BrokerWorld, *, leader: int = 2) -> Any:
    state = LeaderAndIsr(leader, leader, (1, 2, 3), 0, 1)
    entries = [
        leader_and_isr_entry(7, "orders", number, state, (1, 2, 3), (), (), True)
        for number in range(COUNT)
    ]
    body = leader_and_isr_body(
        7,
        controller_id=1,
        controller_epoch=1,
        broker_epoch=-1,
        topics=[("orders", None, entries)],
        live_leaders=[(leader, f"host{leader}", 9092)],
    )
    return await ask(world, 4, 7, body)


async def delete_replicas(world: BrokerWorld, *, controller_epoch: int = 1) -> Any:
    body = stop_replica_body(
        4,
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=-1,
        topics=[("orders", [(number, -2, True) for number in range(COUNT)])],
        delete_partitions=True,
    )
    return await ask(world, 5, 4, body)


async def learn_topics(world: BrokerWorld, topics: list[str], *, leader: int = 1) -> Any:
    state = LeaderAndIsr(leader, 0, (1,), 0, 1)
    entries = [
        (topic, None, [update_metadata_entry(8, topic, 0, state, (1,), ())]) for topic in topics
    ]
    body = update_metadata_body(
        8,
        controller_id=1,
        controller_epoch=1,
        broker_epoch=-1,
        topics=update_metadata_topics(8, entries),
        live_brokers=update_metadata_live_brokers(8, [broker(1)]),
    )
    return await ask(world, 6, 8, body)


class Turns:
    """Counts the turns of another client, and looks at something in each."""

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        self._look = look
        self.seen: list[object] = []

    async def during(self, request: Any) -> Any:
        """The answer of ``request``; meanwhile the other client takes its turns."""
        task = asyncio.ensure_future(request)
        while not task.done():
            self.seen.append(self._look())
            await asyncio.sleep(0)
        return await task


async def until_one_is_carried_out(world: BrokerWorld) -> None:
    while not world.replicas.replica_state_change_lock.locked():
        await asyncio.sleep(0)


async def test_others_are_served_between_partitions(world: BrokerWorld) -> None:
    for request in (become_leaders, delete_replicas):
        turns = Turns()
        response = await turns.during(request(world))
        assert response.error_code is ErrorCode.none
        assert len(turns.seen) >= COUNT


async def test_requests_are_carried_out_one_after_the_other(world: BrokerWorld) -> None:
    become = asyncio.ensure_future(become_leaders(world))
    await until_one_is_carried_out(world)
    stop = asyncio.ensure_future(delete_replicas(world))
    while not become.done():
        await asyncio.sleep(0)
        assert not stop.done()
    await stop
    assert not world.replicas.partitions


async def test_an_older_controllers_request_that_waited_changes_nothing(world: BrokerWorld) -> None:
    new = asyncio.ensure_future(become_leaders(world, controller_epoch=2))
    await until_one_is_carried_out(world)
    old = await delete_replicas(world, controller_epoch=1)
    await new
    assert old.error_code is ErrorCode.stale_controller_epoch
    assert set(world.replicas.partitions) == set(PARTITIONS)


async def test_readers_see_the_metadata_of_before_or_of_after(world: BrokerWorld) -> None:
    before = world.cache.snapshot
    topics = [f"t{number}" for number in range(COUNT)]

    turns = Turns(lambda: world.cache.snapshot)
    await turns.during(learn_topics(world, topics))
    after = world.cache.snapshot
    assert set(after.partitions) == set(topics)
    assert all(seen is before or seen is after for seen in turns.seen)
    assert sum(seen is before for seen in turns.seen) >= COUNT


async def test_a_partition_that_goes_offline_meanwhile_gets_no_role(world: BrokerWorld) -> None:
    last = PARTITIONS[-1]

    request = asyncio.ensure_future(become_leaders(world))
    while last not in world.replicas.partitions:
        await asyncio.sleep(0)
    assert not world.replicas.partitions[last].is_leader
    world.replicas.mark_offline([last])
    response = await request
    [topic] = response.topics
    codes = {each.partition_index: each.error_code for each in topic.partition_errors}
    assert codes.pop(last.partition) is ErrorCode.kafka_storage_error
    assert set(codes.values()) == {ErrorCode.none}
    assert last not in world.replicas.partitions


class Fetchers:
    """The fetchers of a broker; their tasks are left out."""

    def __init__(self, world: BrokerWorld) -> None:
        def log_of(partition: TopicPartition) -> ReplicaLog:
            return world.replicas.partitions[partition].log

        settings = FetcherSettings(replica_id=1)
        self.all = ReplicaFetchers(1, log_of, settings, lambda *_: None, lambda _: None)
        world.replicas.fetchers = self.all
        world.update(brokers=[broker(number) for number in (1, 2, 3)])

    def count(self) -> int:
        """So many partitions are being fetched."""
        return sum(len(each.partitions) for each in self.all.fetchers.values())


async def test_others_are_served_while_fetchers_get_and_lose_partitions(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    fetchers = Fetchers(world)
    caplog.set_level(logging.INFO, "kafka.server.ReplicaFetcherManager")

    started = Turns(fetchers.count)
    await started.during(follow(world))
    assert {0, PARTITIONS_AT_ONCE, 2 * PARTITIONS_AT_ONCE} < set(started.seen)
    assert fetchers.count() == COUNT
    moved = Turns(fetchers.count)
    await moved.during(follow(world, leader=3))
    assert min(cast("list[int]", moved.seen)) == 0
    assert {key.leader for key in fetchers.all.fetchers} == {3}
    assert fetchers.count() == COUNT

    lines = [record.getMessage().split("] ", 1)[1].split(" for ")[0] for record in caplog.records]
    assert lines == [
        "Removed fetcher",
        "Added fetcher to broker 2",
        "Removed fetcher",
        "Added fetcher to broker 3",
    ]


async def test_a_partition_that_goes_offline_before_its_turn_is_not_fetched(
    world: BrokerWorld,
) -> None:
    fetchers = Fetchers(world)
    last = PARTITIONS[-1]

    request = asyncio.ensure_future(follow(world))
    while not fetchers.count():
        await asyncio.sleep(0)
    world.replicas.mark_offline([last])
    await request
    [fetcher] = fetchers.all.fetchers.values()
    assert set(fetcher.partitions) == set(PARTITIONS) - {last}


async def test_others_are_served_between_the_trace_records(world: BrokerWorld) -> None:
    async def turns_of(request: Any) -> int:
        turns = Turns()
        await turns.during(request)
        return len(turns.seen)

    untraced = await turns_of(become_leaders(world)), await turns_of(delete_replicas(world))
    world.replicas.is_tracing = lambda: True
    traced = await turns_of(become_leaders(world)), await turns_of(delete_replicas(world))
    # Received, started and completed; and received.
    assert traced[0] >= untraced[0] + 3 * COUNT
    assert traced[1] >= untraced[1] + COUNT


async def test_the_group_coordinator_learns_of_deleted_partitions_in_portions(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_metadata, "DELETED_AT_ONCE", 20)
    portions: list[int] = []
    monkeypatch.setattr(
        world.context.records.groups,
        "on_partitions_deleted",
        lambda those: portions.append(len(those)),
    )
    topics = [f"t{number}" for number in range(COUNT)]

    await learn_topics(world, topics)
    turns = Turns(lambda: len(portions))
    await turns.during(learn_topics(world, topics, leader=LEADER_DURING_DELETE))
    assert {0, 1, 2} <= set(turns.seen)

    assert portions == [20, 20, 10]
    assert not world.cache.snapshot.partitions


async def test_a_request_whose_controller_has_gone_is_carried_out_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0)
    monkeypatch.setattr(slices, "STEPS_AT_ONCE", 1)
    taken = 0

    def steps() -> Generator[None, None, None]:
        nonlocal taken
        for _ in range(COUNT):
            taken += 1
            yield

    async def serve(presence: list[ClientPresence]) -> None:
        presence.append(ClientPresence())
        await run_in_slices(steps())

    presence: list[ClientPresence] = []
    task = asyncio.create_task(serve(presence))
    while taken < COUNT // 2:
        await asyncio.sleep(0)
    presence[0].leave()
    await task

    assert taken == COUNT


async def left_at_once(request: Any) -> Any:
    """The answer to a request whose controller disconnects before anything is carried out."""
    presence: list[ClientPresence] = []

    async def serve() -> Any:
        presence.append(ClientPresence())
        return await request

    task = asyncio.create_task(serve())
    while not presence:
        await asyncio.sleep(0)
    presence[0].leave()
    return await task


async def test_a_request_is_carried_out_although_its_controller_has_gone_before_its_turn(
    world: BrokerWorld,
) -> None:
    topics = [f"t{number}" for number in range(COUNT)]

    for request in (become_leaders(world), learn_topics(world, topics)):
        response = await left_at_once(request)
        assert response.error_code is ErrorCode.none
    assert set(world.replicas.partitions) == set(PARTITIONS)
    assert all(each.is_leader for each in world.replicas.partitions.values())
    assert set(world.cache.snapshot.partitions) == set(topics)
    await left_at_once(delete_replicas(world))
    assert not world.replicas.partitions


async def test_a_request_waits_for_its_turn_although_its_controller_has_gone(
    world: BrokerWorld,
) -> None:
    become = asyncio.ensure_future(become_leaders(world))
    await until_one_is_carried_out(world)
    await left_at_once(delete_replicas(world))
    await become
    assert not world.replicas.partitions


def test_what_was_done_is_logged_when_the_broker_ends_midway(world: BrokerWorld) -> None:
    order = StopReplicaPartition(-2, delete_partition=True)
    steps = world.replicas.stop_replicas(
        StopReplicaRequest(1, 1, -1, dict.fromkeys(PARTITIONS, order)), 1
    )
    next(steps)
    assert world.kinds() == []

    steps.close()

    assert world.kinds() == [Kind.STOP_REPLICA_HANDLING]
