"""Fails a test of which one callback held the event loop for too long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_common.observability.loop_watch import LoopWatch
from tests.support.loop_holds import held

LOOP_BOUND_MS = 1_000.0
"""Processor time of one callback, garbage collection left out.

A coroutine of a test makes its own data in its callbacks, on a machine that may be busy: a bound as
tight as a broker's would fail for the test's own work.  What keeps others from being served takes
seconds here.
"""

WATCHED = frozenset({"broker", "coordinators", "network", "quotas", "server"})
"""The rooms whose tests are watched: those of a broker's requests."""

HELD_ON_PURPOSE: dict[str, str] = {}
"""Tests that may hold the loop for longer, by file and name, each with the reason."""


@pytest.fixture(autouse=True)
def loop_watch(request: pytest.FixtureRequest) -> Iterator[None]:
    """Watches every event loop of the test."""
    if request.path.parent.name not in WATCHED:
        yield
        return
    with LoopWatch(LOOP_BOUND_MS).installed() as watch:
        yield
    test = f"{request.path.name}::{getattr(request.node, 'originalname', request.node.name)}"
    assert test in HELD_ON_PURPOSE or not held(watch), f"held the event loop: {held(watch)}"
