"""Tests that are coroutine functions run as others do, and none passes that has not run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.pytest_runs import run_of

loops: list[asyncio.AbstractEventLoop] = []


@pytest.mark.parametrize("earlier", [0, 1])
async def test_each_has_its_fixtures_its_parameters_and_a_loop_of_its_own(
    earlier: int, tmp_path: Path
) -> None:
    await asyncio.sleep(0)

    assert tmp_path.is_dir()
    assert len(loops) == earlier
    assert all(loop.is_closed() for loop in loops)
    loops.append(asyncio.get_running_loop())


TESTS = """
    import asyncio
    import socket

    import pytest
    from hypothesis import given, strategies as st

    from tests.support import coroutine_tests, leftovers

    coroutine_tests.LIMIT_S = 0.2
    leftovers.GRACE_S = 0.05
    kept = []

    async def test_that_passes(tmp_path):
        await asyncio.sleep(0)

    class TestOfAClass:
        async def test_that_passes(self, tmp_path):
            await asyncio.sleep(0)

    async def test_that_fails():
        await asyncio.sleep(0)
        assert kept == "the reason"

    async def test_that_is_skipped():
        pytest.skip("why")

    async def test_that_waits():
        await asyncio.Event().wait()  # where it waits

    async def test_that_waits_and_goes_on():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

    async def test_that_returns():
        return 1

    async def test_that_yields():
        yield

    @pytest.fixture
    async def coroutine():
        return 1

    @pytest.fixture
    async def generator():
        yield 1

    async def test_with_a_coroutine(coroutine):
        pass

    async def test_with_a_generator(generator):
        pass

    @given(st.integers())
    async def test_of_hypothesis(number):
        pass

    async def test_that_leaves_a_socket():
        kept.append(socket.socket())

    def not_awaited():
        async def test():
            pass
        return lambda: test()

    test_that_is_not_awaited = not_awaited()
"""


def test_what_fails_waits_or_was_not_awaited_fails_by_itself(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    run = run_of(tmp_path, TESTS)

    assert set(re.findall(r"^FAILED test_it\.py::(\w+)", run.stdout, re.MULTILINE)) == {
        "test_that_fails",
        "test_that_waits",
        "test_that_waits_and_goes_on",
        "test_that_returns",
        "test_that_yields",
        "test_of_hypothesis",
        "test_that_is_not_awaited",
    }
    assert set(re.findall(r"^ERROR test_it\.py::(\w+)", run.stdout, re.MULTILINE)) == {
        "test_with_a_coroutine",
        "test_with_a_generator",
        "test_that_leaves_a_socket",
    }
    assert "7 failed, 3 passed, 1 skipped, 3 errors" in run.stdout
    assert len(re.findall("^E +Failed: still running after 0.2 s$", run.stdout, re.MULTILINE)) == 2
    assert ">       await asyncio.Event().wait()  # where it waits" in run.stdout
