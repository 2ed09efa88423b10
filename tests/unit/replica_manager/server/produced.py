"""A broker that is produced to."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from kio.static.primitive import i32Timedelta

from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.log.unified_log import UnifiedLog
from tests.support.broker_world import BrokerWorld

ORDERS = TopicPartition("orders", 0)


def request(
    records: bytes | None,
    *,
    version: int = 11,
    acks: int = 1,
    topic: str = "orders",
    partition: int = 0,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> Any:
    schema = request_schema(ApiKey.PRODUCE, version)
    return schema.request(
        transactional_id=transactional_id,
        acks=acks,
        timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
        topic_data=(
            schema.part(
                "TopicProduceData",
                name=topic,
                partition_data=(
                    schema.part("PartitionProduceData", index=partition, records=records),
                ),
            ),
        ),
    )


def produce(world: BrokerWorld, records: bytes | None, **how: Any) -> Any:
    """The answer for the one partition."""
    response = asyncio.run(world.ask(request(records, **how)))
    [topic] = response.responses
    [answer] = topic.partition_responses
    return answer


def log_of(world: BrokerWorld, tp: TopicPartition = ORDERS) -> UnifiedLog:
    log = world.logs.log(tp)
    assert log is not None
    return log
