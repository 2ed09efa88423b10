"""Which callbacks held an event loop by their own work, for tests of what may not hold it."""

from __future__ import annotations

from kafka_common.observability.loop_watch import LongCallback, LoopWatch


def held(watch: LoopWatch) -> list[LongCallback]:
    """Those that took the bound without collecting garbage, which may be that of other tests."""
    return [
        long for long in watch.long_callbacks if long.cpu_ms - long.collecting_ms >= watch.bound_ms
    ]
