"""The clock of the coordinators is the wall clock as it was at the start, and goes on evenly."""

from __future__ import annotations

import time

import pytest

from kafka_common.process.wall_clock import WallClock

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def test_who_sets_the_clock_of_the_machine_changes_nothing_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_ns = 0
    set_by_ns = 0
    monkeypatch.setattr(time, "time_ns", lambda: START_NS + passed_ns + set_by_ns)
    monkeypatch.setattr(time, "monotonic_ns", lambda: passed_ns)
    clock = WallClock()
    assert clock() == START_NS // 1_000_000

    set_by_ns = -3_600 * SECOND_NS
    passed_ns = 2 * SECOND_NS

    assert clock() == START_NS // 1_000_000 + 2_000
