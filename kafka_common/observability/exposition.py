"""Shows Kafka's MBeans as Prometheus metrics.

The names follow the rules that the JMX exporter's example for Kafka has spread over the world's
dashboards (``kafka-2_0_0.yml`` with ``lowercaseOutputName``):

=====================================  ==========================================================
``kafka.D:type=T,name=N[,k=v]``        exposed as
=====================================  ==========================================================
gauge                                  ``kafka_d_t_n{k="v"}``; text is a label ``value`` at 1
meter ``NPerSec``                      ``kafka_d_t_n_total{k="v"}``
meter ``N``                            ``kafka_d_t_n_count{k="v"}``
histogram, timer                       ``kafka_d_t_n{quantile="0.99"}``, ``…_count``, ``…_sum``
sensors ``kafka.D:type=T``, attribute  ``kafka_d_t_a``
``A``
=====================================  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from kafka_common.observability.instruments import PERCENTILES, Gauge, Meter
from kafka_common.observability.meanings import meaning_of
from kafka_common.observability.metrics import Instrument, Metrics, Sensors

_KEY_AND_VALUE: Final = re.compile(r'([^=]+)=("(?:[^"\\]|\\.)*"|[^,]*),?', re.DOTALL)
_ESCAPED: Final = {"n": "\n"}


def registry_of(metrics: Metrics) -> CollectorRegistry:
    """A Prometheus registry of these metrics, which reads them at each scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Exposition(metrics))
    return registry


class _Exposition(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @override
    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for mbean_name, instrument in sorted(dict(self._metrics.instruments).items()):
            name, labels = _prometheus_name(mbean_name)
            _add(families, name, labels, instrument)
        sources = list(self._metrics.sources)
        return chain(families.values(), *(source.collect() for source in sources))


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
            unknown = families.setdefault(full, UnknownMetricFamily(full, meaning_of(full)))
            unknown.add_sample(full, labels, float(value))
        return
    if isinstance(instrument, Gauge):
        value = attributes["Value"]
        if isinstance(value, str):
            labels, value = labels | {"value": value}, 1
        gauge = families.setdefault(name, GaugeMetricFamily(name, meaning_of(name)))
        gauge.add_sample(name, labels, float(value))
        return

    count = float(attributes["Count"])
    if isinstance(instrument, Meter):
        if not name.endswith("persec"):
            # No rule of the exporter matches such a meter but its last one, which adds _count.
            name = f"{name}_count"
            unknown = families.setdefault(name, UnknownMetricFamily(name, meaning_of(name)))
            unknown.add_sample(name, labels, count)
            return
        name = name.removesuffix("persec")
        counter = families.setdefault(name, CounterMetricFamily(name, meaning_of(name)))
        counter.add_sample(f"{name}_total", labels, count)
        return

    summary = families.setdefault(name, SummaryMetricFamily(name, meaning_of(name)))
    for attribute, _ in PERCENTILES:
        # The exporter's rule puts the attribute's digits after "0.": 50thPercentile is 0.50.
        quantile = f"0.{attribute.removesuffix('thPercentile')}"
        summary.add_sample(name, labels | {"quantile": quantile}, float(attributes[attribute]))
    summary.add_sample(f"{name}_count", labels, count)
    summary.add_sample(f"{name}_sum", labels, count * float(attributes["Mean"]))


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), value[1:-1])
