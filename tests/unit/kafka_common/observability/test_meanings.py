"""Every metric says what it means."""

from __future__ import annotations

import re

from kafka_common.observability.meanings import _MEANINGS, meaning_of
from kafka_common.observability.metrics import Metrics, mbean
from tests.support.exposition import exposition_of


def test_prometheus_reads_what_a_metric_means() -> None:
    metrics = Metrics()
    metrics.gauge(mbean("kafka.controller", "KafkaController", "OfflinePartitionsCount")).set(2)

    lines = exposition_of(metrics).decode().splitlines()

    name = "kafka_controller_kafkacontroller_offlinepartitionscount"
    [told] = [line for line in lines if line.startswith("# HELP")]
    assert told == f"# HELP {name} {meaning_of(name)}"
    assert meaning_of(name).startswith("Partitions without a leader")


def test_a_metric_of_an_unknown_name_has_its_name_for_a_meaning() -> None:
    assert meaning_of("kafka_server_other_thing") == "kafka_server_other_thing"


def test_meanings_are_sentences_and_tell_more_than_the_name() -> None:
    for start, group in _MEANINGS.items():
        for end, text in group.items():
            assert text.endswith("."), text
            assert re.sub(r"\W", "", text).lower() not in start + end


def test_what_is_measured_in_a_unit_names_it() -> None:
    units = {"ms": "Milliseconds", "bytes": "Bytes", "secs": "Seconds", "percent": "ercent|Share"}
    for group in _MEANINGS.values():
        for end, text in group.items():
            unit = next((unit for ending, unit in units.items() if end.endswith(ending)), "")
            assert re.search(unit, text) or end == "lastappliedrecordtimestamp", (end, text)
