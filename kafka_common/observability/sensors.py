"""Rates, averages and maxima over a sliding window, as in Kafka's own metrics library.

Kafka has two metrics libraries: Yammer's (:mod:`.instruments`) for older metrics, and its own.  The
*sensors* of its own keep values in a few time windows and drop older ones.  An MBean of sensors has
no ``name``: its attributes are the metrics.

The first value after a window's end begins the next window.  After the start, windows that do not
exist yet count in a rate as time without values, so that a short burst gives no high rate.

Source: Kafka ``SampledStat``, ``Rate``, ``Max``, ``Avg``, ``Meter`` of
``org.apache.kafka.common.metrics.stats``.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from typing_extensions import override

SAMPLES: Final = 2
"""The default of ``metrics.num.samples``."""
SAMPLE_MS: Final = 30_000
"""The default of ``metrics.sample.window.ms``."""


@dataclass(slots=True)
class Sample:
    """The values of one window."""

    started_ms: int
    last_ms: int
    total: float = 0.0
    largest: float = -math.inf
    count: int = 0


class Samples:
    """The windows that are kept: ``samples`` past ones and the current one."""

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self.most = samples
        self.sample_ms = sample_ms
        self._kept: deque[Sample] = deque(maxlen=samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Adds a value to the current window."""
        if not self._kept or now_ms - self._kept[-1].started_ms >= self.sample_ms:
            self._kept.append(Sample(now_ms, now_ms))
        sample = self._kept[-1]
        sample.total += value
        sample.largest = max(sample.largest, value)
        sample.count += 1
        sample.last_ms = now_ms

    def current(self, now_ms: int) -> list[Sample]:
        """The windows with values of the last ``samples`` window lengths, oldest first."""
        oldest_ms = now_ms - self.most * self.sample_ms
        while self._kept and self._kept[0].last_ms <= oldest_ms:
            self._kept.popleft()
        return list(self._kept)

    def rate_per_s(self, now_ms: int) -> float:
        """The sum of the values per second of the time that the windows cover."""
        rate, _ = self.rate_and_window(now_ms)
        return rate

    def rate_and_window(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the milliseconds that it covers."""
        current = self.current(now_ms)
        elapsed_ms = now_ms - current[0].started_ms if current else 0
        full_windows = elapsed_ms // self.sample_ms
        elapsed_ms += max(0, self.most - 1 - full_windows) * self.sample_ms
        window_ms = max(elapsed_ms, 1)
        return sum(sample.total for sample in current) * 1000 / window_ms, window_ms


class Sensor(Protocol):
    """Records values, and computes some attributes of an MBean from them."""

    def record(self, value: float) -> None:
        """Takes a value; any thread."""

    def attributes(self) -> dict[str, float]:
        """The current attributes by name; any thread."""


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _SampledSensor:
    """A sensor over the values of the last few time windows."""

    def __init__(
        self,
        name: str,
        samples: int = SAMPLES,
        sample_ms: int = SAMPLE_MS,
        now_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        self._name = name
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._samples = Samples(samples, sample_ms)

    def record(self, value: float) -> None:
        """Takes a value; any thread."""
        with self._lock:
            self._samples.record(value, self._now_ms())


class MeterSensor(_SampledSensor):
    """``<name>-rate`` per second, and ``<name>-count``: the sum of all values since the start.

    Kafka calls the sum ``<name>-total`` in most of its metrics: ``total``.
    """

    def __init__(
        self,
        name: str,
        samples: int = SAMPLES,
        sample_ms: int = SAMPLE_MS,
        now_ms: Callable[[], int] = _monotonic_ms,
        *,
        total: str = "count",
    ) -> None:
        super().__init__(name, samples, sample_ms, now_ms)
        self._total_name = f"{name}-{total}"
        self._total = 0.0

    @override
    def record(self, value: float) -> None:
        with self._lock:
            self._samples.record(value, self._now_ms())
            self._total += value

    def attributes(self) -> dict[str, float]:
        with self._lock:
            rate = self._samples.rate_per_s(self._now_ms())
            return {f"{self._name}-rate": rate, self._total_name: self._total}


class SumSensor:
    """``<name>``: the sum of all values since the start.

    Source: Kafka ``CumulativeSum``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self.total = 0.0

    def record(self, value: float) -> None:
        with self._lock:
            self.total += value

    def attributes(self) -> dict[str, float]:
        return {self._name: self.total}


class RateSensor(_SampledSensor):
    """``<name>``: the rate per second.

    With :meth:`record_at` the caller passes the time and gets the new rate.
    """

    def record_at(self, value: float, now_ms: int) -> tuple[float, int]:
        """Records a value; returns the new rate and the milliseconds it covers."""
        with self._lock:
            self._samples.record(value, now_ms)
            return self._samples.rate_and_window(now_ms)

    def attributes(self) -> dict[str, float]:
        with self._lock:
            return {self._name: self._samples.rate_per_s(self._now_ms())}


class AverageSensor:
    """``<name>``: the average of the recent values; NaN if there are none."""

    def __init__(
        self,
        name: str,
        samples: int = SAMPLES,
        sample_ms: int = SAMPLE_MS,
        now_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        self._name = name
        self._span = SpanSensor(name, samples, sample_ms, now_ms)

    def record(self, value: float) -> None:
        self._span.record(value)

    def attributes(self) -> dict[str, float]:
        return {self._name: self._span.attributes()[f"{self._name}-avg"]}


class SpanSensor(_SampledSensor):
    """``<name>-avg`` and ``<name>-max`` of the recent values; NaN if there are none."""

    def attributes(self) -> dict[str, float]:
        with self._lock:
            current = self._samples.current(self._now_ms())
        count = sum(sample.count for sample in current)
        average = sum(sample.total for sample in current) / count if count else math.nan
        largest = max((sample.largest for sample in current), default=math.nan)
        return {f"{self._name}-avg": average, f"{self._name}-max": largest}
