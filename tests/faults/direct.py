"""A record given to one broker, whether or not anybody else still thinks that it leads.

A client library would ask around first, and find the right one.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from kafka_common.protocol.versioned_messages import request_schema
from zkcontroller_testing.client_history import ClientHistory
from zkcontroller_testing.operations import ClientAct

_VERSION: Final = 8
_ALL_IN_SYNC: Final = -1


def produce_to(
    address: str, topic: str, partition: int, history: ClientHistory, *, timeout_ms: int
) -> ErrorCode:
    """What that broker answers to one record with acks=all; ``timeout_ms``: it waits no longer."""
    value = name = history.name("direct")
    invocation = history.invoke(name, ClientAct.SEND, topic=topic, partition=partition, value=value)
    response = asyncio.run(_ask(address, _request(topic, partition, value, timeout_ms)))
    error: ErrorCode = response.responses[0].partition_responses[0].error_code
    if error is ErrorCode.none:
        invocation.ok()
    else:
        invocation.info(error.name)
    return error


def _request(topic: str, partition: int, value: str, timeout_ms: int) -> Any:
    schema = request_schema(ApiKey.PRODUCE, _VERSION)
    record = Record(0, time.time_ns() // 1_000_000, None, value.encode())
    data = schema.part("PartitionProduceData", index=partition, records=encode_batch([record]))
    return schema.request(
        transactional_id=None,
        acks=_ALL_IN_SYNC,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(schema.part("TopicProduceData", name=topic, partition_data=(data,)),),
    )


async def _ask(address: str, request: Any) -> Any:
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="direct")
    try:
        return await connection.request(request)
    finally:
        await connection.close()
