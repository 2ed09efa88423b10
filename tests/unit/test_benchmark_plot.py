"""The benchmark's figures are read out of what it printed."""

from __future__ import annotations

import pytest

from benchmarks.growth import table
from benchmarks.operations import print_table
from benchmarks.plot import Curve, read_growth, read_ratios
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


def test_curves_are_read_as_they_were_printed() -> None:
    sides: list[tuple[str, list[dict[str, float]]]] = [
        ("zkcontroller", [{"memory, MB": 49.15, "p50, ms": 0.2}, {"memory, MB": 78, "p50, ms": 1}]),
        ("kafka 3.9.1", [{"memory, MB": 376.84, "p50, ms": 3}, {"memory, MB": 1e4, "p50, ms": 4}]),
    ]
    printed = table("partitions", (10, 5_000), sides) + "\n\nMetadata, ms   1.0 / 2.0\n"

    assert read_growth(printed) == {
        ("partitions", "memory, MB"): Curve([10, 5_000], [49.15, 78], [376.84, 1e4]),
        ("partitions", "p50, ms"): Curve([10, 5_000], [0.2, 1], [3, 4]),
    }
    with pytest.raises(ValueError, match="1 figures for 2 sizes"):
        read_growth(printed.replace("49.15 / 376.84", ""))


def test_a_quantile_is_a_wait_that_occurred() -> None:
    waits = [5.0, 1.0, 3.0, 2.0, 4.0]

    assert quantile(waits, 0.5) == 3.0
    assert quantile(waits, 0.99) == 5.0
    assert quantile(waits, 0.0) == 1.0
    assert quantile([], 0.5) == 0.0
