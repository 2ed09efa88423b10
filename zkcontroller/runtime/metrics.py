"""Kafka's MBeans, readable as a mapping and as Prometheus text.

Every metric is known by the name that Kafka's JMX would show, such as
``kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=2``.  Prometheus names
follow the rules that the JMX exporter's example for Kafka has spread over the world's dashboards
(``kafka-2_0_0.yml`` with ``lowercaseOutputName``):

=====================================  ==========================================================
``kafka.D:type=T,name=N[,k=v]``        exposed as
=====================================  ==========================================================
gauge                                  ``kafka_d_t_n{k="v"}``; text is a label ``value`` at 1
meter ``NPerSec``                      ``kafka_d_t_n_total{k="v"}``
histogram, timer                       ``kafka_d_t_n{quantile="0.99"}``, ``…_count``, ``…_sum``
sensors ``kafka.D:type=T``, attribute  ``kafka_d_t_a``
``A``
=====================================  ==========================================================

Nothing is global: each :class:`Metrics` owns its collector registry, so one process may host
several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from zkcontroller.runtime.instruments import (
    PERCENTILES,
    Attribute,
    Gauge,
    Histogram,
    Meter,
    Timer,
)
from zkcontroller.runtime.sensors import Sensor


class Sensors:
    """An MBean whose attributes are those of its sensors."""

    def __init__(self) -> None:
        self.sensors: list[Sensor] = []

    def attributes(self) -> dict[str, Attribute]:
        """Of all of them."""
        return {
            name: value
            for sensor in list(self.sensors)
            for name, value in sensor.attributes().items()
        }


Instrument: TypeAlias = Gauge | Meter | Histogram | Timer | Sensors
_PLAIN_JMX_VALUE: Final = re.compile(r"[\w%. \t-]*", re.ASCII)
_KEY_AND_VALUE: Final = re.compile(r'([^=]+)=("(?:[^"\\]|\\.)*"|[^,]*),?', re.DOTALL)
_ESCAPED: Final = {"n": "\n"}
_I = TypeVar("_I", Gauge, Meter, Histogram, Timer, Sensors)
_S = TypeVar("_S", bound=Sensor)


def mbean(domain: str, type_: str, name: str, tags: Mapping[str, object] | None = None) -> str:
    """The name in JMX: ``mbean("kafka.controller", "KafkaController", "ControllerState")``."""
    tail = "".join(f",{key}={value}" for key, value in (tags or {}).items())
    return f"{domain}:type={type_},name={name}{tail}"


def tagged_mbean(domain: str, type_: str, tags: Mapping[str, str]) -> str:
    """The name of an MBean of sensors, as ``kafka.server:type=Produce,user=alice``.

    A tag that is empty is left out; one with characters that JMX keeps for itself is quoted.

    Source: Kafka ``JmxReporter.getMBeanName``, ``Sanitizer.jmxSanitize``.
    """
    named = (f",{key}={_jmx_value(value)}" for key, value in tags.items() if value)
    return f"{domain}:type={type_}{''.join(named)}"


def _jmx_value(value: str) -> str:
    if _PLAIN_JMX_VALUE.fullmatch(value):
        return value
    escaped = re.sub(r'([\\"*?])', r"\\\1", value).replace("\n", "\\n")
    return f'"{escaped}"'


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), value[1:-1])


class Metrics:
    """The metrics of one broker.  Safe from any thread."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Exposition(self._instruments))

    def gauge(self, name: str, read: Callable[[], Attribute] | None = None) -> Gauge:
        """A gauge under that MBean name, replacing an earlier one; set by hand unless ``read``."""
        return self._put(name, Gauge(read))

    def meter(self, name: str, event_type: str = "events") -> Meter:
        """The meter of that MBean name, made if it is new."""
        return self._get_or_put(name, Meter, lambda: Meter(event_type))

    def histogram(self, name: str) -> Histogram:
        """The histogram of that MBean name, made if it is new."""
        return self._get_or_put(name, Histogram, Histogram)

    def timer(self, name: str) -> Timer:
        """The timer of that MBean name, made if it is new."""
        return self._get_or_put(name, Timer, Timer)

    def sensor(self, name: str, sensor: _S) -> _S:
        """That sensor, whose attributes are shown from now on in the MBean of that name."""
        self._get_or_put(name, Sensors, Sensors).sensors.append(sensor)
        return sensor

    def remove(self, name: str) -> None:
        """Forgets a metric; one that does not exist is no error."""
        self._instruments.pop(name, None)

    def snapshot(self) -> dict[str, dict[str, Attribute]]:
        """MBean name to attributes, as JMX would show them, in order of name."""
        return {
            name: found.attributes() for name, found in sorted(self._instruments.copy().items())
        }

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)

    def _put(self, name: str, instrument: _I) -> _I:
        self._instruments[name] = instrument
        return instrument

    def _get_or_put(self, name: str, kind: type[_I], make: Callable[[], _I]) -> _I:
        found = self._instruments.get(name)
        if found is None:
            return self._put(name, make())
        assert isinstance(found, kind), f"{name} is a {type(found).__name__}"
        return found


class _Exposition(Collector):
    def __init__(self, instruments: Mapping[str, Instrument]) -> None:
        self._instruments = instruments

    @override
    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for mbean_name, instrument in sorted(dict(self._instruments).items()):
            name, labels = _prometheus_name(mbean_name)
            _add(families, name, labels, instrument)
        return families.values()


def _prometheus_name(mbean_name: str) -> tuple[str, dict[str, str]]:
    domain, _, keys = mbean_name.partition(":")
    pairs = {key: _unquoted(value) for key, value in _KEY_AND_VALUE.findall(keys)}
    words = [domain, pairs.pop("type"), *([pairs.pop("name")] if "name" in pairs else [])]
    return _prometheus_word("_".join(words)), {
        re.sub(r"\W", "_", key): value for key, value in pairs.items()
    }


def _prometheus_word(text: str) -> str:
    return re.sub(r"\W", "_", text).lower()


def _add(
    families: dict[str, Metric], name: str, labels: dict[str, str], instrument: Instrument
) -> None:
    attributes = instrument.attributes()
    if isinstance(instrument, Sensors):
        for attribute, value in attributes.items():
            full = f"{name}_{_prometheus_word(attribute)}"
            unknown = families.setdefault(full, UnknownMetricFamily(full, full))
            unknown.add_sample(full, labels, float(value))
        return
    if isinstance(instrument, Gauge):
        value = attributes["Value"]
        if isinstance(value, str):
            labels, value = labels | {"value": value}, 1
        gauge = families.setdefault(name, GaugeMetricFamily(name, name))
        gauge.add_sample(name, labels, float(value))
        return

    count = float(attributes["Count"])
    if isinstance(instrument, Meter):
        name = name.removesuffix("persec")
        counter = families.setdefault(name, CounterMetricFamily(name, name))
        counter.add_sample(f"{name}_total", labels, count)
        return

    summary = families.setdefault(name, SummaryMetricFamily(name, name))
    for attribute, quantile in PERCENTILES:
        summary.add_sample(
            name, labels | {"quantile": f"{quantile:g}"}, float(attributes[attribute])
        )
    summary.add_sample(f"{name}_count", labels, count)
    summary.add_sample(f"{name}_sum", labels, count * float(attributes["Mean"]))
