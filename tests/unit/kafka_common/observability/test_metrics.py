"""Kafka's metrics: Yammer's arithmetic, JMX names, Prometheus text."""

from __future__ import annotations

import math

import pytest

from kafka_common.observability.instruments import RESERVOIR_SIZE, Gauge, Histogram, Meter, Timer
from kafka_common.observability.metrics import Metrics, mbean
from tests.support.exposition import exposition_of

CHANNELS = "ControllerChannelManager"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_meter_counts_and_averages_over_its_life() -> None:
    clock = Clock()
    meter = Meter("elections", clock)
    meter.mark()
    meter.mark(29)
    clock.now_s += 10

    attributes = meter.attributes()

    assert attributes["Count"] == 30
    assert attributes["MeanRate"] == 3.0
    assert attributes["EventType"] == "elections"
    assert attributes["RateUnit"] == "SECONDS"


def test_the_rates_of_a_meter_are_those_of_yammer() -> None:
    """The figures of Yammer's own EWMATest: 3 in the first 5 s, then silence."""
    clock = Clock()
    meter = Meter("events", clock)
    meter.mark(3)
    clock.now_s += 5
    assert meter.attributes()["OneMinuteRate"] == pytest.approx(0.6)

    clock.now_s += 60
    after_a_minute = meter.attributes()
    assert after_a_minute["OneMinuteRate"] == pytest.approx(0.22072766)
    assert after_a_minute["FiveMinuteRate"] == pytest.approx(0.49123845)
    assert after_a_minute["FifteenMinuteRate"] == pytest.approx(0.56130419)

    clock.now_s += 60
    assert meter.attributes()["OneMinuteRate"] == pytest.approx(0.08120117)


def test_an_empty_histogram_is_all_zeros() -> None:
    assert Histogram().attributes() == {
        "Count": 0,
        "Mean": 0.0,
        "Min": 0.0,
        "Max": 0.0,
        "StdDev": 0.0,
        "50thPercentile": 0.0,
        "75thPercentile": 0.0,
        "95thPercentile": 0.0,
        "98thPercentile": 0.0,
        "99thPercentile": 0.0,
        "999thPercentile": 0.0,
    }


def test_a_histogram_that_holds_everything_is_exact() -> None:
    histogram = Histogram(Clock())
    for value in range(1, 1001):
        histogram.update(value)

    attributes = histogram.attributes()

    assert attributes["Count"] == 1000
    assert attributes["Mean"] == 500.5
    assert (attributes["Min"], attributes["Max"]) == (1, 1000)
    assert attributes["StdDev"] == pytest.approx(math.sqrt(1000 * 1001 / 12))
    assert attributes["50thPercentile"] == 500.5
    assert attributes["99thPercentile"] == pytest.approx(990.99)
    assert attributes["999thPercentile"] == pytest.approx(999.999)


def test_the_reservoir_has_a_bound_and_forgets_old_values() -> None:
    clock = Clock()
    histogram = Histogram(clock)
    for _ in range(5 * RESERVOIR_SIZE):
        histogram.update(1_000)
    clock.now_s += 3_000
    for _ in range(RESERVOIR_SIZE):
        histogram.update(1)

    assert histogram.attributes()["50thPercentile"] == 1
    assert histogram.attributes()["Max"] == 1_000


def test_the_reservoir_survives_days() -> None:
    clock = Clock()
    histogram = Histogram(clock)
    for day in range(30):
        clock.now_s += 86_400
        histogram.update(day)

    assert histogram.attributes()["Count"] == 30
    assert histogram.attributes()["Max"] == 29


def test_a_timer_has_the_attributes_that_jmx_shows() -> None:
    timer = Timer(Clock())
    timer.update(12.5)

    assert set(timer.attributes()) == {
        "Count", "Mean", "Min", "Max", "StdDev",
        "50thPercentile", "75thPercentile", "95thPercentile",
        "98thPercentile", "99thPercentile", "999thPercentile",
        "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate",
        "RateUnit", "EventType", "LatencyUnit",
    }  # fmt: skip
    assert timer.attributes()["EventType"] == "calls"
    assert timer.attributes()["LatencyUnit"] == "MILLISECONDS"


def test_a_gauge_is_set_or_computed() -> None:
    fixed, computed = Gauge(), Gauge(lambda: 4)
    fixed.set(3)

    assert fixed.attributes() == {"Value": 3}
    assert computed.attributes() == {"Value": 4}


def test_metrics_are_known_by_their_names_in_jmx() -> None:
    metrics = Metrics()
    metrics.gauge(mbean("kafka.controller", "KafkaController", "ActiveControllerCount")).set(1)
    metrics.timer(
        mbean("kafka.controller", CHANNELS, "RequestRateAndQueueTimeMs", {"broker-id": 2})
    ).update(3)

    snapshot = metrics.snapshot()

    assert snapshot["kafka.controller:type=KafkaController,name=ActiveControllerCount"] == {
        "Value": 1
    }
    name = f"kafka.controller:type={CHANNELS},name=RequestRateAndQueueTimeMs,broker-id=2"
    assert snapshot[name]["Mean"] == 3


def test_a_metric_asked_for_twice_is_the_same_and_a_removed_one_is_gone() -> None:
    metrics = Metrics()
    name = mbean("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")

    metrics.meter(name).mark()
    metrics.meter(name).mark()
    assert metrics.snapshot()[name]["Count"] == 2

    metrics.remove(name)
    metrics.remove(name)
    assert name not in metrics.snapshot()
    assert metrics.meter(name).count == 0


def test_prometheus_sees_the_names_of_the_jmx_exporter() -> None:
    metrics = Metrics()
    metrics.gauge(mbean("kafka.controller", "KafkaController", "ActiveControllerCount")).set(1)
    metrics.gauge(mbean("kafka.server", "SessionExpireListener", "SessionState")).set("CONNECTED")
    for broker in (1, 2):
        tags = {"broker-id": broker}
        metrics.gauge(mbean("kafka.controller", CHANNELS, "QueueSize", tags)).set(broker)
    metrics.meter(
        mbean("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")
    ).mark(3)
    metrics.timer(mbean("kafka.controller", "ControllerStats", "TopicChangeRateAndTimeMs")).update(
        5
    )

    lines = exposition_of(metrics).decode().splitlines()

    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in lines
    assert 'kafka_server_sessionexpirelistener_sessionstate{value="CONNECTED"} 1.0' in lines
    assert 'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"} 1.0' in lines
    assert 'kafka_controller_controllerchannelmanager_queuesize{broker_id="2"} 2.0' in lines
    assert "kafka_controller_controllerstats_uncleanleaderelections_total 3.0" in lines
    timer = "kafka_controller_controllerstats_topicchangerateandtimems"
    quantiles = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
    assert [line for line in lines if line.startswith(f"{timer}{{")] == [
        f'{timer}{{quantile="{quantile}"}} 5.0' for quantile in quantiles
    ]
    assert f"{timer}_count 1.0" in lines
    assert f"{timer}_sum 5.0" in lines


def test_two_brokers_in_one_process_share_no_metric() -> None:
    one, other = Metrics(), Metrics()
    name = mbean("kafka.controller", "KafkaController", "ActiveControllerCount")
    one.gauge(name).set(1)

    assert name not in other.snapshot()
    assert b"activecontrollercount" not in exposition_of(other)
