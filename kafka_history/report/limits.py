"""How much of each answer a report has."""

from __future__ import annotations

from typing import Final

REPORT_VERSION: Final = 1
"""Grows when a key of ``report.json`` changes its meaning or goes away."""
ROWS_MAX: Final = 1_000
LEADERLESS_MAX: Final = 10_000
BROKERS_MAX: Final = 10_000
UNKNOWN_MAX: Final = 20
TOP_PARTITIONS_MAX: Final = 50
BIOGRAPHIES_MAX: Final = 20
BIOGRAPHY_ROWS_MAX: Final = 100
STEPS_MAX: Final = 400
"""Points of a curve, and columns of the heat map."""
HEAT_STEPS_MS: Final = (1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
BIOGRAPHY: Final = (
    "time_ms", "incarnation", "leader", "leader_epoch", "isr", "zk_version", "controller_epoch",
    "kind", "is_deleted", "file", "line",
)  # fmt: skip
"""What a line of a partition's biography has of a state."""
