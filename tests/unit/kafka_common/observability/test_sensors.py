"""Kafka's own metrics library: windows of time, rates over them, MBeans without a name."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_common.observability.metrics import Metrics
from kafka_common.observability.sensors import MeterSensor, Samples, SpanSensor
from tests.support.exposition import exposition_of

MBEAN = "kafka.server:type=group-coordinator-metrics"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_burst_after_the_start_is_spread_over_a_full_window(clock: Clock) -> None:
    sensor = MeterSensor("offset-commit", now_ms=clock)
    sensor.record(60)
    clock.now_ms += 10_000

    # Two windows of 30 s: one that is full is missing, and counts as empty.
    assert sensor.attributes() == {"offset-commit-rate": 1.5, "offset-commit-count": 60}


def test_a_rate_is_over_the_time_that_its_windows_cover(clock: Clock) -> None:
    sensor = MeterSensor("x", now_ms=clock)
    for _ in range(50):
        sensor.record(2)
        clock.now_ms += 1_000

    attributes = sensor.attributes()
    assert attributes["x-rate"] == pytest.approx(2.0)
    assert attributes["x-count"] == 100


def test_what_is_older_than_all_windows_is_forgotten_but_for_the_count(clock: Clock) -> None:
    sensor = MeterSensor("x", now_ms=clock)
    sensor.record(10)
    clock.now_ms += 59_999
    assert sensor.attributes()["x-rate"] > 0
    clock.now_ms += 1

    assert sensor.attributes() == {"x-rate": 0.0, "x-count": 10}


def test_a_window_that_is_half_over_counts_whole() -> None:
    samples = Samples(samples=2, sample_ms=1_000)
    samples.record(1, 0)
    samples.record(1, 999)
    samples.record(1, 1_000)
    samples.record(1, 2_000)

    assert [each.count for each in samples.current(2_500)] == [2, 1, 1]
    assert [each.count for each in samples.current(2_999)] == [1, 1]
    assert samples.rate_per_s(2_999) == pytest.approx(2 / 1.999)


def test_an_average_and_a_maximum_are_of_what_came_lately(clock: Clock) -> None:
    sensor = SpanSensor("partition-load-time", now_ms=clock)
    nothing = sensor.attributes()
    assert set(nothing) == {"partition-load-time-avg", "partition-load-time-max"}
    assert all(math.isnan(value) for value in nothing.values())

    sensor.record(10)
    clock.now_ms += 40_000
    sensor.record(2)
    sensor.record(3)
    assert sensor.attributes() == {"partition-load-time-avg": 5.0, "partition-load-time-max": 10}

    clock.now_ms += 30_000
    assert sensor.attributes() == {"partition-load-time-avg": 2.5, "partition-load-time-max": 3}


def test_sensors_share_an_mbean_and_have_a_name_each_in_prometheus(clock: Clock) -> None:
    metrics = Metrics()
    metrics.sensor(MBEAN, MeterSensor("offset-commit", now_ms=clock)).record(30)
    metrics.sensor(MBEAN, SpanSensor("partition-load-time", now_ms=clock)).record(7)

    assert metrics.snapshot()[MBEAN] == {
        "offset-commit-rate": 1.0,
        "offset-commit-count": 30,
        "partition-load-time-avg": 7.0,
        "partition-load-time-max": 7,
    }
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(exposition_of(metrics).decode())
        for sample in family.samples
    }
    start = "kafka_server_group_coordinator_metrics_"
    assert samples[f"{start}offset_commit_count"] == 30
    assert samples[f"{start}partition_load_time_max"] == 7
