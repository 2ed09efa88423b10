"""The controller's requests are carried out in slices: in order, whole, and others are served.

A slice is one step here, so that the event loop gets its turn after every partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.replication.control_requests import (
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.server import slices
from replica_manager.server.slices import run_in_slices
from tests.unit.broker_world import BrokerWorld, broker
from zkcontroller.model import LeaderAndIsr, TopicPartition
from zkcontroller.protocol.bulk import (
    leader_and_isr_body,
    leader_and_isr_entry,
    stop_replica_body,
    update_metadata_body,
    update_metadata_entry,
    update_metadata_live_brokers,
    update_metadata_topics,
)
from zkcontroller.protocol.framing import parse_response_header, request_header
from zkcontroller.protocol.messages import read_response
from zkcontroller.runtime.presence import ClientPresence
from zkcontroller.state_changes.record import Kind

COUNT: Final = 50
PARTITIONS: Final = [TopicPartition("orders", number) for number in range(COUNT)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerWorld]:
    monkeypatch.setattr(slices, "SLICE_S", 0)
    monkeypatch.setattr(slices, "STEPS_AT_ONCE", 1)
    with ThreadPoolExecutor(1) as executor:
        yield BrokerWorld(executor)


async def ask(world: BrokerWorld, api_key: int, version: int, body: tuple[bytes, ...]) -> Any:
    """The answer to a body as our own controller writes it."""
    data = request_header(api_key, version, 3, None) + b"".join(body)
    answer = await world.ask_raw(data)
    _, start = parse_response_header(api_key, version, answer)
    return read_response(api_key, version, answer, start)


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


async def learn_topics(world: BrokerWorld, topics: list[str]) -> Any:
    state = LeaderAndIsr(1, 0, (1,), 0, 1)
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


def test_others_are_served_between_partitions(world: BrokerWorld) -> None:
    async def steps() -> None:
        for request in (become_leaders, delete_replicas):
            turns = Turns()
            answer = await turns.during(request(world))
            assert answer.error_code is ErrorCode.none
            assert len(turns.seen) >= COUNT

    asyncio.run(steps())


def test_requests_are_carried_out_one_after_the_other(world: BrokerWorld) -> None:
    async def steps() -> None:
        become = asyncio.ensure_future(become_leaders(world))
        await until_one_is_carried_out(world)
        stop = asyncio.ensure_future(delete_replicas(world))
        while not become.done():
            await asyncio.sleep(0)
            assert not stop.done()
        await stop
        assert not world.replicas.partitions

    asyncio.run(steps())


def test_an_older_controllers_request_that_waited_changes_nothing(world: BrokerWorld) -> None:
    async def steps() -> None:
        new = asyncio.ensure_future(become_leaders(world, controller_epoch=2))
        await until_one_is_carried_out(world)
        old = await delete_replicas(world, controller_epoch=1)
        await new
        assert old.error_code is ErrorCode.stale_controller_epoch
        assert set(world.replicas.partitions) == set(PARTITIONS)

    asyncio.run(steps())


def test_readers_see_the_metadata_of_before_or_of_after(world: BrokerWorld) -> None:
    before = world.cache.snapshot
    topics = [f"t{number}" for number in range(COUNT)]

    async def steps() -> None:
        turns = Turns(lambda: world.cache.snapshot)
        await turns.during(learn_topics(world, topics))
        after = world.cache.snapshot
        assert set(after.partitions) == set(topics)
        assert all(seen is before or seen is after for seen in turns.seen)
        assert sum(seen is before for seen in turns.seen) >= COUNT

    asyncio.run(steps())


def test_a_partition_that_goes_offline_meanwhile_gets_no_role(world: BrokerWorld) -> None:
    last = PARTITIONS[-1]

    async def steps() -> None:
        request = asyncio.ensure_future(become_leaders(world))
        while last not in world.replicas.partitions:
            await asyncio.sleep(0)
        assert not world.replicas.partitions[last].is_leader
        world.replicas.mark_offline([last])
        answer = await request
        [topic] = answer.topics
        codes = {each.partition_index: each.error_code for each in topic.partition_errors}
        assert codes.pop(last.partition) is ErrorCode.kafka_storage_error
        assert set(codes.values()) == {ErrorCode.none}
        assert last not in world.replicas.partitions

    asyncio.run(steps())


def test_a_request_whose_controller_has_gone_is_carried_out_whole(
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

    async def story() -> None:
        presence: list[ClientPresence] = []
        task = asyncio.create_task(serve(presence))
        while taken < COUNT // 2:
            await asyncio.sleep(0)
        presence[0].leave()
        await task

    asyncio.run(story())

    assert taken == COUNT


def test_what_was_done_is_logged_when_the_broker_ends_midway(world: BrokerWorld) -> None:
    order = StopReplicaPartition(-2, delete_partition=True)
    steps = world.replicas.stop_replicas(
        StopReplicaRequest(1, 1, -1, dict.fromkeys(PARTITIONS, order)), 1
    )
    next(steps)
    assert world.kinds() == []

    steps.close()

    assert world.kinds() == [Kind.STOP_REPLICA_HANDLING]
