"""Rates, averages and maxima over a sliding window, as in Kafka's own metrics library.

Kafka has two libraries: Yammer's (:mod:`.instruments`) for what is older, and its own, whose
*sensors* count within windows of time and forget what is older than all of them.  An MBean of the
second kind has no ``name``: its attributes are the metrics.

A window is closed by the first value behind its end.  What is left out of a rate's first windows
counts as time in which nothing happened, so that a burst after the start is no high rate.

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
"""``metrics.num.samples``, as it is by default."""
SAMPLE_MS: Final = 30_000
"""``metrics.sample.window.ms``, as it is by default."""


@dataclass(slots=True)
class Sample:
    """The values of one window."""

    started_ms: int
    last_ms: int
    total: float = 0.0
    largest: float = -math.inf
    count: int = 0


class Samples:
    """The windows that still count; one more than ``samples``, for the current one."""

    def __init__(self, samples: int = SAMPLES, sample_ms: int = SAMPLE_MS) -> None:
        self.most = samples
        self.sample_ms = sample_ms
        self._kept: deque[Sample] = deque(maxlen=samples + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Takes a value."""
        if not self._kept or now_ms - self._kept[-1].started_ms >= self.sample_ms:
            self._kept.append(Sample(now_ms, now_ms))
        sample = self._kept[-1]
        sample.total += value
        sample.largest = max(sample.largest, value)
        sample.count += 1
        sample.last_ms = now_ms

    def current(self, now_ms: int) -> list[Sample]:
        """Those in which something happened lately, oldest first."""
        oldest_ms = now_ms - self.most * self.sample_ms
        while self._kept and self._kept[0].last_ms <= oldest_ms:
            self._kept.popleft()
        return list(self._kept)

    def rate_per_s(self, now_ms: int) -> float:
        """The sum of the values, for each second of the time that the windows cover."""
        rate, _ = self.rate_and_window(now_ms)
        return rate

    def rate_and_window(self, now_ms: int) -> tuple[float, int]:
        """The rate a second, and of how many milliseconds it is."""
        current = self.current(now_ms)
        elapsed_ms = now_ms - current[0].started_ms if current else 0
        full_windows = elapsed_ms // self.sample_ms
        elapsed_ms += max(0, self.most - 1 - full_windows) * self.sample_ms
        window_ms = max(elapsed_ms, 1)
        return sum(sample.total for sample in current) * 1000 / window_ms, window_ms


class Sensor(Protocol):
    """Takes values, and shows some attributes of an MBean."""

    def record(self, value: float) -> None:
        """Takes a value; any thread."""

    def attributes(self) -> dict[str, float]:
        """By name, as they are now; any thread."""


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class _SampledSensor:
    """What values come to in the last few windows of time."""

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
    """``<name>-rate`` a second, and ``<name>-count`` of all values since the start."""

    def __init__(
        self,
        name: str,
        samples: int = SAMPLES,
        sample_ms: int = SAMPLE_MS,
        now_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        super().__init__(name, samples, sample_ms, now_ms)
        self._total = 0.0

    @override
    def record(self, value: float) -> None:
        with self._lock:
            self._samples.record(value, self._now_ms())
            self._total += value

    def attributes(self) -> dict[str, float]:
        with self._lock:
            rate = self._samples.rate_per_s(self._now_ms())
            return {f"{self._name}-rate": rate, f"{self._name}-count": self._total}


class RateSensor(_SampledSensor):
    """``<name>``: the rate a second, nothing else.

    The caller may pass the time, and gets the new rate.
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
    """``<name>``: the average of the values; NaN while there was none lately."""

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
    """``<name>-avg`` and ``<name>-max`` of the values; NaN while there was none lately."""

    def attributes(self) -> dict[str, float]:
        with self._lock:
            current = self._samples.current(self._now_ms())
        count = sum(sample.count for sample in current)
        average = sum(sample.total for sample in current) / count if count else math.nan
        largest = max((sample.largest for sample in current), default=math.nan)
        return {f"{self._name}-avg": average, f"{self._name}-max": largest}
