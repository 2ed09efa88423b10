"""What a request costs grows with its bytes, whatever array of whatever API holds its elements.

Each array is filled with different elements, and with the same one again and again, and sent to the
real handlers of a broker in this process.  Processor time is compared: of ten times as many
elements it may be some ten times as much.  A list that is searched for each element takes a hundred
times as much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import write
from tests.support.frames import request_header
from tests.support.request_shapes import Shape, all_shapes
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
APIS_WITH_ARRAYS: Final = sorted({shape.api_key for shape in SHAPES})


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


def encoded(shape: Shape, count: int, *, is_same: bool) -> bytes:
    """The whole request, with its header."""
    request = shape.request(1 if is_same else count)
    if is_same:
        request = repeated(request, shape.path, count)
    return request_header(shape.api_key, shape.version, 7, "test") + write(request)


async def seconds(world: LargeWorld, data: bytes) -> float:
    """The processor time of this process, of all its threads, until the answer is there."""
    begun = time.process_time()
    await world.respond(data)
    return time.process_time() - begun


@pytest.mark.parametrize("api_key", APIS_WITH_ARRAYS, ids=lambda key: APIS[ApiKey(key)].name)
def test_the_cost_of_a_request_grows_with_its_elements(
    world: LargeWorld, random: Random, share: float, api_key: int
) -> None:
    shapes = [shape for shape in SHAPES if shape.api_key == api_key]
    chosen = random.sample(shapes, max(1, round(share * len(shapes))))
    requests = [(shape, is_same) for shape in chosen for is_same in (False, True)]

    async def scenario() -> dict[str, str]:
        await world.fill(KNOWN)
        found = {}
        for shape, is_same in requests:
            few = await seconds(world, encoded(shape, FEW, is_same=is_same))
            many = await seconds(world, encoded(shape, MANY, is_same=is_same))
            if many > MOST_GROWTH * (few + NOISE_S) or many > NOISE_S + MANY * MOST_US / 1e6:
                name = f"{shape.name} x {MANY}{' the same' if is_same else ''}"
                found[name] = f"{many:.2f} s, and {few:.2f} s of {FEW}"
        await world.end()
        return found

    assert asyncio.run(scenario()) == {}
