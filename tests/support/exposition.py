"""What Prometheus would read of metrics, without a server."""

from __future__ import annotations

from prometheus_client import generate_latest

from kafka_common.observability.exposition import registry_of
from kafka_common.observability.metrics import Metrics


def exposition_of(metrics: Metrics) -> bytes:
    """Everything in Prometheus' text format."""
    return generate_latest(registry_of(metrics))
