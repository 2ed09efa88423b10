"""What ``zkctl check perf`` measured, and whether that is within the limits.

The default limits are far above the times of a healthy cluster in one data centre, and far below
the timeouts of clients and sessions.  A p99 above them should be looked at, but is no alarm yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_common.json_values import JsonObject
from zkcontroller_cli.console.errors import BadUsage

LIMITS_MS: Final = {
    "zookeeper_read": 50.0,
    "zookeeper_write": 100.0,
    "controller": 200.0,
    "produce": 200.0,
    "consume": 200.0,
}
"""By check, the highest p99 that passes, in milliseconds."""
CLEANUP: Final = "cleanup"
"""The check that the temporary topic was deleted; it has no limit."""


@dataclass
class PerfResult:
    """The times of one check at one server, one for each round."""

    check: str
    where: str
    broker_id: int | None = None
    times_ms: list[float] = field(default_factory=list)
    error: str | None = None
    """Why the check ended before its last round; None if it did not."""

    def row(self, limit_ms: float | None) -> JsonObject:
        """The row of ``check perf``: PASS if no round failed and p99 is within the limit."""
        p50, p90, p99 = (percentile(self.times_ms, share) for share in (0.5, 0.9, 0.99))
        is_fast = limit_ms is None or (p99 is not None and p99 <= limit_ms)
        return {
            "check": self.check,
            "where": self.where,
            "broker_id": self.broker_id,
            "round_count": len(self.times_ms),
            "p50_ms": p50,
            "p90_ms": p90,
            "p99_ms": p99,
            "max_ms": round(max(self.times_ms), 3) if self.times_ms else None,
            "limit_ms": limit_ms,
            "result": "PASS" if self.error is None and is_fast else "FAIL",
            "error": self.error,
        }


def percentile(times_ms: Sequence[float], share: float) -> float | None:
    """The time that ``share`` (0 to 1) of the rounds did not exceed; None without rounds."""
    if not times_ms:
        return None
    rank = max(1, math.ceil(share * len(times_ms)))
    return round(sorted(times_ms)[rank - 1], 3)


def limits_of(texts: Iterable[str]) -> dict[str, float]:
    """The default limits, changed by ``--limit`` texts ``CHECK=MS``; BadUsage if one is invalid.

    Limits are in milliseconds.
    """
    limits = dict(LIMITS_MS)
    for text in texts:
        check, equals, number = text.partition("=")
        if check not in limits:
            raise BadUsage(f"--limit {text}: there are {', '.join(limits)}")
        try:
            limit_ms = float(number)
        except ValueError:
            limit_ms = -1.0
        if not equals or not 0 < limit_ms < math.inf:
            raise BadUsage(f"--limit {text}: not a number of milliseconds")
        limits[check] = limit_ms
    return limits
