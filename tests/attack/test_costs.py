"""What a request costs grows with its bytes, whatever array of whatever API holds its elements.

Each array is filled with different elements, and with the same one again and again, and sent to the
real handlers of a broker in this process.  Processor time is compared: of ten times as many
elements it may be some ten times as much.  A list that is searched for each element takes a hundred
times as much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import write
from kraft.node.controller_apis.table import OFFERED_BY_CONTROLLER
from tests.support.frames import request_header
from tests.support.request_shapes import Shape, all_shapes
from tests.unit.kraft.node.controller_client import client_of_voter
from tests.unit.replica_manager.server.large_world import LargeWorld

FEW: Final = 10_000
MANY: Final = 100_000
KNOWN: Final = 1_000
"""So many of the elements exist."""
MOST_GROWTH: Final = 30.0
"""Ten times the elements, and caches that are too small for them."""
NOISE_S: Final = 0.02
"""What begins and ends a request, and what a collection of garbage adds."""
MOST_US: Final = 200.0
"""Microseconds of an element, from its bytes to those of its answer."""

SHAPES: Final = all_shapes()
CONTROLLER_SHAPES: Final = all_shapes(OFFERED_BY_CONTROLLER)


def each_api(shapes: Sequence[Shape]) -> pytest.MarkDecorator:
    """A test of each API that has arrays."""
    keys = sorted({shape.api_key for shape in shapes})
    return pytest.mark.parametrize("api_key", keys, ids=lambda key: APIS[ApiKey(key)].name)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LargeWorld]:
    with ThreadPoolExecutor(1) as executor:
        yield LargeWorld(executor, tmp_path, broker__id="1", auto__create__topics__enable="false")


def repeated(entity: Any, path: tuple[str, ...], count: int) -> Any:
    """The same request with the first element of one array so many times."""
    name, *rest = path
    first = getattr(entity, name)[0]
    if rest:
        return replace(entity, **{name: (repeated(first, tuple(rest), count),)})
    return replace(entity, **{name: (first,) * count})


def filled(shape: Shape, count: int, *, is_same: bool) -> Any:
    """The request with so many elements, different ones or the same one."""
    request = shape.request(1 if is_same else count)
    return repeated(request, shape.path, count) if is_same else request


async def seconds(response: Awaitable[object]) -> float:
    """The processor time of this process, of all its threads, until the answer is there."""
    begun = time.process_time()
    await response
    return time.process_time() - begun


async def too_costly(
    shapes: Sequence[Shape], ask: Callable[[Shape, bytes], Awaitable[object]]
) -> dict[str, str]:
    """By request, what it costs, if that is too much; ``ask`` sends the encoded body."""
    found = {}
    for shape, is_same in product(shapes, (False, True)):
        few, many = [
            await seconds(ask(shape, body))
            for count in (FEW, MANY)
            for body in [write(filled(shape, count, is_same=is_same))]
        ]
        if many > MOST_GROWTH * (few + NOISE_S) or many > NOISE_S + MANY * MOST_US / 1e6:
            name = f"{shape.name} x {MANY}{' the same' if is_same else ''}"
            found[name] = f"{many:.2f} s, and {few:.2f} s of {FEW}"
    return found


def some_of(shapes: Sequence[Shape], api_key: int, random: Random, share: float) -> list[Shape]:
    """That share of the API's shapes, one at least."""
    of_api = [shape for shape in shapes if shape.api_key == api_key]
    return random.sample(of_api, max(1, round(share * len(of_api))))


@each_api(SHAPES)
def test_the_cost_of_a_request_grows_with_its_elements(
    world: LargeWorld, random: Random, share: float, api_key: int
) -> None:
    chosen = some_of(SHAPES, api_key, random, share)

    async def scenario() -> dict[str, str]:
        await world.fill(KNOWN)
        found = await too_costly(
            chosen,
            lambda shape, body: world.respond(
                request_header(api_key, shape.version, 7, "test") + body
            ),
        )
        await world.end()
        return found

    assert asyncio.run(scenario()) == {}


@each_api(CONTROLLER_SHAPES)
def test_the_cost_at_a_controller_of_a_quorum_grows_with_its_elements(
    tmp_path: Path, random: Random, share: float, api_key: int
) -> None:
    chosen = some_of(CONTROLLER_SHAPES, api_key, random, share)
    found = {}

    async def scenario() -> None:
        async with client_of_voter(tmp_path) as client:
            await client.join()
            await client.create("orders")
            found.update(
                await too_costly(
                    chosen,
                    lambda shape, body: client.connection.call(api_key, shape.version, (body,)),
                )
            )

    asyncio.run(scenario())
    assert found == {}
