"""What of Kafka tests run; ``scripts/fetch-kafka.sh`` fetches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.kafka_peer import VERSION, KafkaUnavailableError, kafka_libs


def required(find: Callable[[], Path]) -> Path:
    """What was fetched; the test is skipped, with the reason, where it was not."""
    try:
        return find()
    except KafkaUnavailableError as missing:
        pytest.skip(str(missing))


def required_libs(version: str = VERSION) -> Path:
    """The jars of that Kafka, as :func:`required`."""
    return required(lambda: kafka_libs(version))
