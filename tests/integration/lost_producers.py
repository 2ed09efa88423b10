"""Transactions whose producers are gone."""

from __future__ import annotations

import time
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from tests.integration.calls import call
from tests.integration.zkctl_brokers import Brokers

confluent = pytest.importorskip("confluent_kafka")


LOST_PRODUCER = 4_000


def write_without_coordinator(address: str, topic: str) -> int:
    """Opens a transaction that no coordinator knows, on partition 0; its start offset."""
    schema: Any = import_module("kio.schema.produce.v9.request")
    records = encode_batch(
        [Record(0, round(time.time() * 1000), None, b"lost")],
        producer_id=LOST_PRODUCER,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    request = schema.ProduceRequest(
        transactional_id="lost",
        acks=-1,
        timeout=timedelta(seconds=10),
        topic_data=(
            schema.TopicProduceData(
                name=topic,
                partition_data=(schema.PartitionProduceData(index=0, records=records),),
            ),
        ),
    )
    [written] = call(address, request).responses[0].partition_responses
    assert written.error_code.value == 0, written
    return int(written.base_offset)


def committed_end(cluster: Brokers, topic: str) -> int:
    """Where a consumer of committed records must stop: the last stable offset."""
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "looking",
            "isolation.level": "read_committed",
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(confluent.TopicPartition(topic, 0), timeout=20)
    finally:
        consumer.close()
    return int(end)


def transaction_of(cluster: Brokers, name: str, topic: str) -> Any:
    """A producer with an open transaction of one record in partition 0."""
    producer = confluent.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(30) == 0
    return producer
