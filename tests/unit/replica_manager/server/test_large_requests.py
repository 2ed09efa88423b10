"""No request keeps the event loop from others, whatever array it puts its elements in.

Every array field of every API is filled and sent through the dispatcher to the real handler, whose
topics and partitions exist.  The watch on the loop says how long the longest callback took.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.observability.loop_watch import LoopWatch
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import write
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.network.connection import ResponseFrame
from replica_manager.server import slices
from replica_manager.server.slices import GROUPS_AT_ONCE, PIECE, in_slices
from tests.support.frames import request_header
from tests.support.request_shapes import ORDERS, Shape, all_shapes
from tests.unit.replica_manager.server.large_world import LargeWorld

pytestmark = pytest.mark.attack

ELEMENTS: Final = 3_000
LONGEST_MS: Final = 15.0
"""A handler that is not sliced takes 10 us for an element, and so 30 ms; slices are of 4 ms."""
SHARE_OF_ENCODING: Final = 1.25
"""The same bound for a slow machine, as a share of what kio takes to encode as many elements."""
TRIES: Final = 3
"""The shortest counts: a cold cache or a busy machine makes any callback look longer."""
MOST_BYTES_FOR_ONE: Final = 12
"""So many times as long as the request its answer may be."""
CORRELATION_ID: Final = 7


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> LargeWorld:
    return LargeWorld(executor, tmp_path, broker__id="1", auto__create__topics__enable="false")


def size_of(response: ResponseFrame) -> int:
    rest = sum(len(part) if isinstance(part, bytes) else part.length for part in response.rest)
    return len(response.frame) + rest


async def longest_ms(world: LargeWorld, data: bytes) -> tuple[float, int]:
    """Of the callbacks that answer the request in ``data``; and the size of the answer."""
    await asyncio.sleep(0)  # the callback that runs now belongs to the test
    with LoopWatch(LONGEST_MS).installed() as watch:
        response = await world.respond(data)
        await asyncio.sleep(0)
    # A collection is of all that lives in the process, tests included.
    collecting_ms = watch.longest.collecting_ms if watch.longest is not None else 0.0
    return watch.longest_ms - collecting_ms, size_of(response)


def encoding_ms() -> float:
    """Processor time of kio for a request of so many elements: some 13 ms, and more when slow."""
    resources = request_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources", count=ELEMENTS)
    began_ns = thread_time_ns()
    write(resources)
    return (thread_time_ns() - began_ns) / 1e6


@pytest.mark.parametrize("shape", list(all_shapes()), ids=lambda shape: shape.name)
async def test_a_request_of_many_elements_does_not_hold_the_event_loop(
    world: LargeWorld, shape: Shape
) -> None:
    head = request_header(shape.api_key, shape.version, CORRELATION_ID, "test")
    data = head + write(shape.request(ELEMENTS))

    await world.fill(ELEMENTS)
    best, size = await longest_ms(world, data)
    for _ in range(TRIES - 1):
        if best >= LONGEST_MS:
            best = min(best, (await longest_ms(world, data))[0])
    await world.end()

    assert best < LONGEST_MS or best < SHARE_OF_ENCODING * encoding_ms()
    assert size <= MOST_BYTES_FOR_ONE * len(data)


async def test_the_size_of_a_large_fetch_is_counted_for_a_quota_in_slices(
    world: LargeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition that is counted lets others in once more; a slice is one partition here."""
    count = 200
    shape = next(
        each for each in all_shapes() if each.name.startswith("Fetch") and each.version > 4
    )
    data = request_header(shape.api_key, shape.version, CORRELATION_ID, "test")
    data += write(shape.request(count))
    monkeypatch.setattr(slices, "SLICE_S", 0)

    async def turns() -> int:
        request = asyncio.ensure_future(world.respond(data))
        taken = 0
        while not request.done():
            await asyncio.sleep(0)
            taken += 1
        return taken

    await world.fill(1)
    without = await turns()
    world.quotas.is_enabled = True
    with_quotas = await turns()
    await world.end()

    assert with_quotas >= without + count


# What bounds an answer

OWN_BROKER: Final[Mapping[str, object]] = {
    "resource_type": 4,
    "resource_name": "1",
    "configuration_keys": None,
    "include_synonyms": True,
    "include_documentation": True,
}


def request_of(api_key: ApiKey, version: int, *path: str, count: int, **values: object) -> Any:
    return Shape(api_key, version, path).request(count, **values)


def test_the_own_broker_named_thousands_of_times_does_not_get_an_answer_without_bound(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    one = request_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources", count=1, **OWN_BROKER)
    many = request_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources", count=3_000, **OWN_BROKER)

    async def scenario(world: LargeWorld) -> tuple[Any, Any]:
        return await world.ask(one), await world.ask(many)

    most = 1_000_000
    world = LargeWorld(executor, tmp_path, broker__id="1", socket__request__max__bytes=str(most))
    described, refused = asyncio.run(scenario(world))

    assert len(described.results[0].configs) > 200
    assert 3_000 * len(write(described)) > most
    assert {each.error_code for each in refused.results} == {ErrorCode.invalid_request}
    assert len(refused.results) == 3_000


def test_a_resource_named_twice_is_described_twice_as_in_kafka(world: LargeWorld) -> None:
    twice = request_of(ApiKey.DESCRIBE_CONFIGS, 4, "resources", count=2, **OWN_BROKER)

    first, second = asyncio.run(world.ask(twice)).results

    assert first == second
    assert first.configs


def test_a_topic_that_is_missing_is_created_once_for_all_keys_of_a_find_coordinator(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []
    keys = request_of(ApiKey.FIND_COORDINATOR, 6, "coordinator_keys", count=1_000)

    world = LargeWorld(executor, tmp_path, broker__id="1")
    creation = world.context.auto_creation
    create = creation.create

    async def counted(names: Sequence[str], charge: Callable[[int], None]) -> Any:
        asked.append(tuple(names))
        return await create(names, charge)

    creation.create = counted  # type: ignore[method-assign]
    response = asyncio.run(world.ask(keys))

    assert asked == [(OFFSETS_TOPIC,)]
    errors = {each.error_code for each in response.coordinators}
    assert errors == {ErrorCode.coordinator_not_available}


async def test_a_group_named_a_thousand_times_is_described_once(world: LargeWorld) -> None:
    request = request_of(ApiKey.DESCRIBE_GROUPS, 5, "groups", count=1)
    request = replace(request, groups=("orders",) * 1_000)

    await world.fill(1)
    response = await world.ask(request)
    await world.end()
    assert [group.group_id for group in response.groups] == ["orders"]


async def test_a_large_commit_is_written_whole_in_several_batches(world: LargeWorld) -> None:
    count = 2 * PIECE + 1

    await world.fill(count)
    commit = request_of(
        ApiKey.OFFSET_COMMIT, 9, "topics", "partitions", count=count, committed_offset=5
    )
    committed = await world.ask(commit)
    fetched = await world.ask(
        request_of(
            ApiKey.OFFSET_FETCH, 9, "groups", "topics", "partition_indexes", count=count,
            member_id=None, member_epoch=-1,
        )
    )  # fmt: skip
    await world.end()

    [topic] = committed.topics
    assert {each.error_code for each in topic.partitions} == {ErrorCode.none}
    [[topic]] = [group.topics for group in fetched.groups]
    assert [each.committed_offset for each in topic.partitions] == [5] * count


async def test_offsets_of_many_partitions_are_deleted_in_several_steps(world: LargeWorld) -> None:
    """Also when a group is gone after the first of them, because it has lost its last offset."""
    count = 2 * PIECE + 1

    async def deleted_after(committed: int) -> Any:
        await world.ask(
            request_of(ApiKey.OFFSET_COMMIT, 9, "topics", "partitions", count=committed)
        )
        return await world.ask(
            request_of(ApiKey.OFFSET_DELETE, 0, "topics", "partitions", count=count)
        )

    await world.fill(count)
    whole, first = await deleted_after(count), await deleted_after(1)
    again = await world.ask(
        request_of(ApiKey.OFFSET_DELETE, 0, "topics", "partitions", count=count)
    )
    await world.end()

    for response in (whole, first):
        assert response.error_code is ErrorCode.none
        [topic] = response.topics
        assert [each.error_code for each in topic.partitions] == [ErrorCode.none] * count
    assert again.error_code is ErrorCode.group_id_not_found


async def test_many_groups_are_deleted_in_several_steps(world: LargeWorld) -> None:
    count = GROUPS_AT_ONCE + 1
    asked: list[int] = []

    await world.fill(1)
    for number in range(count):
        group_id = f"t{number}" if number else ORDERS
        await world.ask(request_of(ApiKey.OFFSET_COMMIT, 8, "topics", count=1, group_id=group_id))
    ask = world.groups.ask

    async def counted(request: Any, result_type: Any) -> Any:
        asked.append(len(request.group_ids))
        return await ask(request, result_type)

    world.groups.ask = counted  # type: ignore[method-assign]
    response = await world.ask(request_of(ApiKey.DELETE_GROUPS, 2, "groups_names", count=count))
    await world.end()

    assert [each.error_code for each in response.results] == [ErrorCode.none] * count
    assert asked == [GROUPS_AT_ONCE, 1]


async def test_a_request_ends_at_its_next_slice_when_its_client_has_gone() -> None:
    seen = 0

    async def endless() -> None:
        nonlocal seen
        async for _ in in_slices(itertools.count()):
            seen += 1

    task = asyncio.create_task(endless())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen > 0
