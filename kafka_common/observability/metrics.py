"""Kafka's MBeans, readable as a mapping.

Every metric is known by the name that Kafka's JMX would show, such as
``kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=2``.  How Prometheus sees
them is described in :mod:`kafka_common.observability.exposition`, which reads a :class:`Metrics`.

Nothing is global, so one process may host several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from kafka_common.observability.instruments import Attribute, Gauge, Histogram, Meter, Timer
from kafka_common.observability.sensors import Sensor


class FamilySource(Protocol):
    """What Prometheus' client calls a collector: it counts at each scrape."""

    def collect(self) -> Iterable[Any]:
        """The metric families of ``prometheus_client``, as they are now."""


class Sensors:
    """An MBean whose attributes are those of its sensors."""

    def __init__(self) -> None:
        self.sensors: list[Sensor] = []

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of all sensors."""
        return {
            name: value
            for sensor in list(self.sensors)
            for name, value in sensor.attributes().items()
        }


Instrument: TypeAlias = Gauge | Meter | Histogram | Timer | Sensors
_PLAIN_JMX_VALUE: Final = re.compile(r"[\w%. \t-]*", re.ASCII)
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


class Metrics:
    """The metrics of one broker.  Safe from any thread."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}
        self.sources: list[FamilySource] = []
        """What is shown to Prometheus besides the MBeans, because there is too much of it."""

    @property
    def instruments(self) -> Mapping[str, Instrument]:
        """MBean name to instrument."""
        return self._instruments

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
        """The sensor of that name, shown in that MBean from now on."""
        self._get_or_put(name, Sensors, Sensors).sensors.append(sensor)
        return sensor

    def show(self, name: str, instrument: Instrument) -> None:
        """Shows an instrument that exists already under that MBean name."""
        self._instruments[name] = instrument

    def remove(self, name: str) -> None:
        """Removes a metric; one that does not exist is no error."""
        self._instruments.pop(name, None)

    def snapshot(self) -> dict[str, dict[str, Attribute]]:
        """MBean name to attributes, as JMX would show them, in order of name."""
        return {
            name: found.attributes() for name, found in sorted(self._instruments.copy().items())
        }

    def _put(self, name: str, instrument: _I) -> _I:
        self._instruments[name] = instrument
        return instrument

    def _get_or_put(self, name: str, kind: type[_I], make: Callable[[], _I]) -> _I:
        found = self._instruments.get(name)
        if found is None:
            return self._put(name, make())
        assert isinstance(found, kind), f"{name} is a {type(found).__name__}"
        return found
