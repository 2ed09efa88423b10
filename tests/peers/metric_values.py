"""Metrics of ours, as Prometheus reads them, and of Kafka's, by JMX, under the same names."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Sequence
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
    done = run_kafka_tool(_MBEANS, str(pid), *groups)
    assert done.returncode == 0, done.stderr
    values: Values = {}
    for line in done.stdout.splitlines():
        mbean, attribute, value = line.split("\t")
        if attribute not in ("Value", "Count"):
            continue
        domain, _, keys = mbean.partition(":")
        labels = dict(pair.split("=", 1) for pair in keys.split(","))
        name = re.sub(r"\W", "_", f"{domain}_{labels.pop('type')}_{labels.pop('name')}").lower()
        if attribute == "Count":
            name = name.removesuffix("persec")
        labels = {key.replace("-", "_"): text for key, text in labels.items()}
        is_number = re.fullmatch(r"-?[\d.]+(E-?\d+)?", value)
        values[_sample(name, labels)] = float(value) if is_number else value
    return values


def _sample(name: str, labels: dict[str, str]) -> str:
    return f"{name}{sorted(labels.items())}"
