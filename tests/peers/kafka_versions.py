"""The versions of Kafka that tests run; ``scripts/fetch-kafka.sh`` fetches each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kafka_peer import VERSION, KafkaUnavailableError, kafka_libs


def required_libs(version: str = VERSION) -> Path:
    """The jars of that Kafka; the test is skipped, with the reason, where there are none."""
    try:
        return kafka_libs(version)
    except KafkaUnavailableError as missing:
        pytest.skip(str(missing))
