"""The versions that Kafka offers."""

from __future__ import annotations

from kafka_common.protocol.api_versions import APIS


def all_versions() -> dict[int, tuple[int, int]]:
    """What a real Kafka 3.9 broker in ZooKeeper mode offers: key to (min, max)."""
    return {
        row.key: (row.min_version, row.max_version) for row in APIS.values() if row.is_advertised
    }
