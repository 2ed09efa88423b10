"""Metrics of ours, as Prometheus reads them, and of Kafka's, by JMX, under the same names."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.kafka_peer import run_kafka_tool

_MBEANS: Final = str(Path(__file__).with_name("MBeans.java"))

Values = dict[str, float | str]
"""Sample, as ``name{label="value"}``, to what it says; of histograms and timers their counts."""


def scraped(url: str) -> Values:
    """What Prometheus would read there."""
    with urllib.request.urlopen(url, timeout=10) as response:
        text = response.read().decode()
    values: Values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_sum") or "quantile" in sample.labels:
                continue
            name = sample.name
            if family.type in ("counter", "summary"):
                name = name.removesuffix("_total").removesuffix("_count")
            labels = dict(sample.labels)
            said = labels.pop("value", None)
            values[_sample(name, labels)] = sample.value if said is None else said
    return values


def kafkas_metrics(pid: int, groups: Sequence[str]) -> Values:
    """The MBeans of those patterns in a process of Kafka, renamed as the JMX exporter does."""
    values: Values = {}
    for domain, labels, attribute, value in _attributes(pid, groups):
        if attribute not in ("Value", "Count"):
            continue
        name = _word(f"{domain}_{labels.pop('type')}_{labels.pop('name')}")
        if attribute == "Count":
            name = name.removesuffix("persec")
        is_number = re.fullmatch(r"-?[\d.]+(E-?\d+)?", value)
        values[_sample(name, labels)] = float(value) if is_number else value
    return values


def kafkas_sensors(pid: int, groups: Sequence[str]) -> Values:
    """As :func:`kafkas_metrics`, of MBeans without a name: each attribute is a metric."""
    return {
        _sample(_word(f"{domain}_{labels.pop('type')}_{attribute}"), labels): float(value)
        for domain, labels, attribute, value in _attributes(pid, groups)
    }


def _attributes(pid: int, groups: Sequence[str]) -> Iterator[tuple[str, dict[str, str], str, str]]:
    """Domain, keys, attribute and value."""
    done = run_kafka_tool(_MBEANS, str(pid), *groups)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        mbean, attribute, value = line.split("\t")
        domain, _, keys = mbean.partition(":")
        labels = dict(pair.split("=", 1) for pair in keys.split(","))
        yield (
            domain,
            {key.replace("-", "_"): text for key, text in labels.items()},
            attribute,
            value,
        )


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text).lower()


def _sample(name: str, labels: dict[str, str]) -> str:
    return f"{name}{sorted(labels.items())}"
