"""Tests that are coroutine functions, as a plugin of pytest.

Each runs in an event loop of its own, which ends with it, and for a limited time.  All else is
pytest's own: it hands in the fixtures, and refuses fixtures that are coroutines or asynchronous
generators, tests that are generators, and tests that return something.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

LIMIT_S = 60.0
"""Less than pytest-timeout's, which would show the loop waiting, and not where the test waits."""


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Replaces a coroutine function by one that runs it, for pytest to call."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _run_in_a_loop(pyfuncitem.obj)


def _run_in_a_loop(test: Callable[..., Awaitable[object]]) -> Callable[..., object]:
    async def limited(**fixtures: Any) -> object:
        limit = asyncio.timeout(LIMIT_S)
        try:
            async with limit:
                return await test(**fixtures)
        finally:
            # Also when the test took the cancellation for one of its own, and went on.
            if limit.expired():
                pytest.fail(f"still running after {LIMIT_S:g} s")

    # By its __wrapped__ pytest finds the test's own frame, where it begins a traceback.
    @functools.wraps(test)
    def run(**fixtures: Any) -> object:
        return asyncio.run(limited(**fixtures))

    return run
