"""The benchmark's figures are read out of what it printed."""

from __future__ import annotations

import pytest

from benchmarks.operations import print_table
from benchmarks.plot import read_ratios
from benchmarks.stall_probe import quantile


def test_ratios_are_read_as_they_were_printed(capsys: pytest.CaptureFixture[str]) -> None:
    side = {
        "seconds": 1.5,
        "cpu_s": 2.0,
        "peak_rss_mib": 300.0,
        "stall_p50_ms": 0.4,
        "stall_p99_ms": 20.0,
        "stall_max_ms": 100.0,
    }
    summary = {
        "a broker's death": {"ours": side, "kafka": side, "ratio": {"seconds": 0.125}},
        "failover": {"ours": side, "kafka": side, "ratio": {"seconds": 1.25}},
    }
    tables = []
    for partitions in (10_000, 400_000):
        print_table(summary, ["ours", "kafka"], partitions)
        tables.append(capsys.readouterr().out)

    assert read_ratios(tables) == {
        "a broker's death": {10_000: 0.125, 400_000: 0.125},
        "failover": {10_000: 1.25, 400_000: 1.25},
    }


def test_a_quantile_is_a_wait_that_occurred() -> None:
    waits = [5.0, 1.0, 3.0, 2.0, 4.0]

    assert quantile(waits, 0.5) == 3.0
    assert quantile(waits, 0.99) == 5.0
    assert quantile(waits, 0.0) == 1.0
    assert quantile([], 0.5) == 0.0
