"""Kafka's MBeans, as a mapping from name to metric.

Every metric has the name that Kafka shows in JMX, such as
``kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=2``.
:mod:`kafka_common.observability.exposition` reads a :class:`Metrics` for Prometheus, and describes
the names there.

Nothing is global, so one process may host several brokers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from kafka_common.observability.instruments import Attribute, Gauge, Histogram, Meter, Timer
from kafka_common.observability.sensors import Sensor


class FamilySource(Protocol):
    """A collector of ``prometheus_client``: it computes its metrics at each scrape."""

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
    """The JMX name ``domain:type=type_,name=name``, followed by the tags."""
    tail = "".join(f",{key}={value}" for key, value in (tags or {}).items())
    return f"{domain}:type={type_},name={name}{tail}"


def tagged_mbean(domain: str, type_: str, tags: Mapping[str, str]) -> str:
    """The JMX name of an MBean of sensors, such as ``kafka.server:type=Produce,user=alice``.

    An empty tag is left out; a value with characters that JMX reserves is quoted.

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
        """Metrics for Prometheus alone, which are too many to be MBeans."""

    @property
    def instruments(self) -> Mapping[str, Instrument]:
        """The instruments by MBean name."""
        return self._instruments

    def gauge(self, name: str, read: Callable[[], Attribute] | None = None) -> Gauge:
        """A new gauge under that MBean name, which replaces an earlier one.

        Without ``read`` the caller sets its value.
        """
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
        """Adds a sensor to the MBean of that name, and returns it."""
        self._get_or_put(name, Sensors, Sensors).sensors.append(sensor)
        return sensor

    def show(self, name: str, instrument: Instrument) -> None:
        """Adds an existing instrument under that MBean name."""
        self._instruments[name] = instrument

    def remove(self, name: str) -> None:
        """Removes a metric, if it exists."""
        self._instruments.pop(name, None)

    def snapshot(self) -> dict[str, dict[str, Attribute]]:
        """The attributes of each MBean, by name and sorted by name, as JMX shows them."""
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
