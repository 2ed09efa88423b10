"""Writes one record to a partition (Produce with acks=all), and reads it (Fetch by a consumer).

Both requests have a version without topic ids, which every Kafka since 0.11 knows.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from kio.schema.fetch.v11 import request as fetch
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.produce.v9 import request as produce
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from zkcontroller_cli.console.errors import TimedOut
from zkcontroller_cli.wire.requests import Deadline, raise_for_code, timeout_of
from zkcontroller_cli.wire.versions import BrokerConnection

_ALL_IN_SYNC: Final = -1
_MOST_WAIT_MS: Final = 500
"""The longest time a broker may hold a Fetch that finds no record."""
_MAX_BYTES: Final = 1024 * 1024


async def produce_record(
    connection: BrokerConnection,
    partition: tuple[str, int],
    key: bytes,
    value: bytes,
    deadline: Deadline,
) -> int:
    """Write a record and return its offset, once every in-sync replica has it.

    Raises Refused or TimedOut for an error code of the leader.
    """
    topic, index = partition
    batch = encode_batch([Record(0, time.time_ns() // 1_000_000, key, value)])
    response = await connection.request(
        produce.ProduceRequest(
            transactional_id=None,
            acks=i16(_ALL_IN_SYNC),
            timeout=timeout_of(deadline),
            topic_data=(
                produce.TopicProduceData(
                    name=TopicName(topic),
                    partition_data=(
                        produce.PartitionProduceData(
                            index=i32(index), records=Records.parse(batch)
                        ),
                    ),
                ),
            ),
        )
    )
    assert isinstance(response, ProduceResponse), "request() answers in kind"
    [written] = response.responses[0].partition_responses
    raise_for_code(f"Produce to {topic}-{index}", written.error_code, written.error_message)
    return int(written.base_offset)


async def fetch_record(
    connection: BrokerConnection, partition: tuple[str, int], offset: int, deadline: Deadline
) -> None:
    """Wait until a Fetch as a consumer returns a record at that offset.

    Refused for an error code of the leader, TimedOut if there is no record before the deadline.
    """
    topic, index = partition
    while True:
        wait_ms = min(_MOST_WAIT_MS, deadline.left_ms)
        response = await connection.request(
            fetch.FetchRequest(
                max_wait=i32Timedelta.parse(timedelta(milliseconds=wait_ms)),
                min_bytes=i32(1),
                max_bytes=i32(_MAX_BYTES),
                topics=(
                    fetch.FetchTopic(
                        topic=TopicName(topic),
                        partitions=(
                            fetch.FetchPartition(
                                partition=i32(index),
                                fetch_offset=i64(offset),
                                partition_max_bytes=i32(_MAX_BYTES),
                            ),
                        ),
                    ),
                ),
                forgotten_topics_data=(),
            )
        )
        assert isinstance(response, FetchResponse), "request() answers in kind"
        where = f"Fetch of {topic}-{index}"
        raise_for_code(where, response.error_code)
        [found] = response.responses[0].partitions
        raise_for_code(where, found.error_code)
        if found.records:
            return
        if deadline.is_over:
            raise TimedOut(f"{where}: no record at offset {offset} in time")
