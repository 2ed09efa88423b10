"""The wall clock that a test of the kit may set, and no one else."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafka_common import wall_time

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _machine_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    yield
    wall_time.set_wall_time_offset(0)


def test_it_is_the_machines_until_it_is_set() -> None:
    assert wall_time.wall_time_ms() == 1_700_000_000_000

    wall_time.set_wall_time_offset(-HOUR_MS)

    assert wall_time.wall_time_ms() == 1_700_000_000_000 - HOUR_MS


@pytest.mark.parametrize(("socket", "offset_ms"), [("/run/test", HOUR_MS), ("", 0)])
def test_a_process_starts_with_another_clock_only_where_a_test_listens(
    monkeypatch: pytest.MonkeyPatch, socket: str, offset_ms: int
) -> None:
    monkeypatch.setenv(wall_time.SOCKET_VARIABLE, socket)
    monkeypatch.setenv(wall_time.OFFSET_VARIABLE, str(HOUR_MS))

    wall_time.set_wall_time_by_environment()

    assert wall_time.wall_time_ms() == 1_700_000_000_000 + offset_ms
