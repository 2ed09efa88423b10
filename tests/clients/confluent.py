"""Consumers of confluent-kafka, as several tests use them."""

from __future__ import annotations

from typing import Any

import pytest

from zkcontroller_testing import KafkaCluster

confluent: Any = pytest.importorskip("confluent_kafka")


TIMEOUT_S = 30


def consumer_of(cluster: KafkaCluster, **settings: Any) -> Any:
    return confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            **settings,
        }
    )


def start_of(topic: str, partition: int) -> Any:
    return confluent.TopicPartition(topic, partition, confluent.OFFSET_BEGINNING)
