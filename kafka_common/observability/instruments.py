"""Meters, histograms and timers with the formulas of Yammer metrics 2.2, which Kafka uses.

Rates are exponentially weighted moving averages ticked every 5 seconds; percentiles come from an
exponentially decaying reservoir of 1,028 samples.  Overdue ticks are made when a caller marks or
reads, so that no thread has to wake up for them.

Source: Yammer ``Meter``, ``EWMA``, ``ExponentiallyDecayingSample``, ``Histogram``, ``Timer``.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from heapq import heappush, heapreplace
from typing import Final, TypeAlias

Attribute: TypeAlias = int | float | str

TICK_S: Final = 5.0
RESERVOIR_SIZE: Final = 1_028
DECAY_PER_S: Final = 0.015
RESCALE_S: Final = 3_600.0
"""The weights of samples grow exponentially; once an hour they are scaled to small numbers."""

PERCENTILES: Final = (
    ("50thPercentile", 0.50),
    ("75thPercentile", 0.75),
    ("95thPercentile", 0.95),
    ("98thPercentile", 0.98),
    ("99thPercentile", 0.99),
    ("999thPercentile", 0.999),
)

_WINDOWS_S: Final = (60.0, 300.0, 900.0)
_RATES: Final = ("OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")


class Meter:
    """Counts occurrences, and their rate per second."""

    def __init__(
        self, event_type: str = "events", monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.event_type = event_type
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._count = 0
        self._uncounted = 0
        self._started_s = self._ticked_s = monotonic_s()
        self._rates = [0.0, 0.0, 0.0]
        self._has_ticked = False

    @property
    def count(self) -> int:
        return self._count

    def mark(self, count: int = 1) -> None:
        """Counts ``count`` occurrences."""
        with self._lock:
            self._tick()
            self._count += count
            self._uncounted += count

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the MBean; rates are per second."""
        with self._lock:
            self._tick()
            age_s = self._monotonic_s() - self._started_s
            values: dict[str, Attribute] = {
                "Count": self._count,
                "MeanRate": self._count / age_s if age_s > 0 else 0.0,
            }
            values.update(zip(_RATES, self._rates, strict=True))
            values["EventType"] = self.event_type
            values["RateUnit"] = "SECONDS"
            return values

    def _tick(self) -> None:
        ticks = int((self._monotonic_s() - self._ticked_s) / TICK_S)
        if ticks <= 0:
            return
        self._ticked_s += ticks * TICK_S
        instant = self._uncounted / TICK_S
        self._uncounted = 0
        for position, window_s in enumerate(_WINDOWS_S):
            alpha = 1 - math.exp(-TICK_S / window_s)
            rate = self._rates[position]
            # The very first tick sets the average; later ones move it.
            rate = rate + alpha * (instant - rate) if self._has_ticked else instant
            # In the other overdue ticks nothing occurred: each of them decays the rate once.
            self._rates[position] = rate * (1 - alpha) ** (ticks - 1)
        self._has_ticked = True


class Histogram:
    """The distribution of a value; its percentiles favour the last five minutes."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._random = random.Random()
        self._lock = threading.Lock()
        self.clear()

    @property
    def count(self) -> int:
        return self._count

    def clear(self) -> None:
        """Removes all values."""
        with self._lock:
            self._count = 0
            self._sum = 0.0
            self._sum_of_squares = 0.0
            self._min = math.inf
            self._max = -math.inf
            self._heap: list[tuple[float, float]] = []  # (priority, value)
            self._landmark_s = self._monotonic_s()

    def update(self, value: float) -> None:
        """Adds one value."""
        with self._lock:
            self._count += 1
            self._sum += value
            self._sum_of_squares += value * value
            self._min = min(self._min, value)
            self._max = max(self._max, value)
            age_s = self._monotonic_s() - self._landmark_s
            if age_s >= RESCALE_S:
                self._rescale(age_s)
                age_s = 0.0
            # 1 - random() is never 0.
            priority = math.exp(DECAY_PER_S * age_s) / (1.0 - self._random.random())
            if len(self._heap) < RESERVOIR_SIZE:
                heappush(self._heap, (priority, value))
            elif priority > self._heap[0][0]:
                heapreplace(self._heap, (priority, value))

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the MBean; an empty histogram is all zeros, as Yammer's."""
        with self._lock:
            values = sorted(value for _, value in self._heap)
            count, total, squares = self._count, self._sum, self._sum_of_squares
            lowest, highest = self._min, self._max
        if not count:
            zeros: dict[str, Attribute] = dict.fromkeys(("Mean", "Min", "Max", "StdDev"), 0.0)
            return {"Count": 0} | zeros | {name: 0.0 for name, _ in PERCENTILES}
        variance = (squares - total * total / count) / (count - 1) if count > 1 else 0.0
        attributes: dict[str, Attribute] = {
            "Count": count,
            "Mean": total / count,
            "Min": lowest,
            "Max": highest,
            "StdDev": math.sqrt(max(variance, 0.0)),
        }
        for name, quantile in PERCENTILES:
            attributes[name] = _percentile(values, quantile)
        return attributes

    def _rescale(self, age_s: float) -> None:
        factor = math.exp(-DECAY_PER_S * age_s)
        # One positive factor for all keeps their order, so the heap stays a heap.
        self._heap = [(priority * factor, value) for priority, value in self._heap]
        self._landmark_s += age_s


class Timer:
    """Counts calls, and the distribution of their durations in milliseconds."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._meter = Meter("calls", monotonic_s)
        self._histogram = Histogram(monotonic_s)

    @property
    def count(self) -> int:
        return self._meter.count

    def update(self, duration_ms: float) -> None:
        """Adds one duration."""
        self._histogram.update(duration_ms)
        self._meter.mark()

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the MBean: those of a histogram and those of a meter."""
        return (
            self._meter.attributes()
            | self._histogram.attributes()
            | {"LatencyUnit": "MILLISECONDS"}
        )


class Gauge:
    """A value that is either set by its owner or computed by ``read`` whenever it is read."""

    def __init__(self, read: Callable[[], Attribute] | None = None) -> None:
        self._read = read
        self._value: Attribute = 0

    def set(self, value: Attribute) -> None:
        """Replaces the value."""
        assert self._read is None, "this gauge is computed"
        self._value = value

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the MBean: ``Value`` alone."""
        return {"Value": self._value if self._read is None else self._read()}


def _percentile(ordered: list[float], quantile: float) -> float:
    position = quantile * (len(ordered) + 1)
    if position < 1:
        return ordered[0]
    if position >= len(ordered):
        return ordered[-1]
    below, above = ordered[int(position) - 1], ordered[int(position)]
    return below + (position - math.floor(position)) * (above - below)
