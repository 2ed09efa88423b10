"""Fetch, straight from and to bytes, held to kio in every version."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.fetch import (
    LAST_VERSION,
    FetchPartition,
    PartitionData,
    fetch_response,
    read_fetch_request,
    write_fetch_request,
)
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.produce import NodeEndpoint
from kafka_common.protocol.versioned_messages import request_schema, response_schema

VERSIONS = range(LAST_VERSION + 1)
ORDERS, BILLS = UUID(int=7), UUID(int=8)


def request(version: int) -> Any:
    schema = request_schema(ApiKey.FETCH, version)
    values: dict[str, Any] = {
        "replica_id": 5,
        "max_wait": i32Timedelta.parse(timedelta(milliseconds=500)),
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": 1,
        "session_id": 9,
        "session_epoch": 3,
        "rack_id": "north",
        "topics": tuple(
            schema.part(
                "FetchTopic",
                topic=name,
                topic_id=topic_id,
                partitions=tuple(
                    schema.part(
                        "FetchPartition",
                        partition=partition,
                        current_leader_epoch=4,
                        fetch_offset=2**40,
                        last_fetched_epoch=3,
                        log_start_offset=11,
                        partition_max_bytes=100,
                    )
                    for partition in (0, 1)
                ),
            )
            for name, topic_id in (("orders", ORDERS), ("bills", BILLS))
        ),
        "forgotten_topics_data": (
            (schema.part("ForgottenTopic", topic="old", topic_id=ORDERS, partitions=(1, 2)),)
            if schema.has("ForgottenTopic")
            else ()
        ),
    }
    if schema.has("ReplicaState"):
        values["replica_state"] = schema.part("ReplicaState", replica_id=5, replica_epoch=77)
    return schema.request(**values)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_kio_wrote_it(version: int) -> None:
    found = read_fetch_request(version, b"head" + write(request(version)), 4)

    def since(first: int, value: Any, otherwise: Any = -1) -> Any:
        return value if version >= first else otherwise

    assert (found.replica_id, found.replica_epoch) == (5, since(15, 77))
    assert (found.max_wait_ms, found.min_bytes) == (500, 1)
    assert found.max_bytes == since(3, 1000, 2**31 - 1)
    assert found.is_read_committed == (version >= 4)
    assert (found.session_id, found.session_epoch) == (since(7, 9, 0), since(7, 3))
    assert found.rack_id == since(11, "north", "")
    assert [name for name, _ in found.topics] == since(13, [ORDERS, BILLS], ["orders", "bills"])
    topic_id = since(13, BILLS, None)
    expected = FetchPartition(topic_id, 2**40, 100, since(9, 4), since(12, 3), since(5, 11))
    assert found.topics[1][1][1] == (1, expected)
    assert found.forgotten == since(7, [(since(13, ORDERS, "old"), [1, 2])], [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_written_as_kio_writes_it(version: int) -> None:
    data = write(request(version))

    assert write_fetch_request(version, read_fetch_request(version, data, 0)) == data


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_request_that_ends_too_early_is_no_request(version: int) -> None:
    data = write(request(version))

    for end in range(len(data)):
        with pytest.raises(InvalidFrame):
            read_fetch_request(version, data[:end], 0)


@given(version=st.sampled_from(VERSIONS), data=st.binary(max_size=80))
def test_any_bytes_are_a_request_or_refused(version: int, data: bytes) -> None:
    with suppress(InvalidFrame):
        found = read_fetch_request(version, data, 0)
        # Nothing is read that is not there.
        assert sum(len(partitions) for _, partitions in found.topics) < len(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_what_kio_would_write(version: int) -> None:
    plain = PartitionData(0, ErrorCode.none, 42, 41, 5, b"records" * 30)
    responses = [
        plain,
        PartitionData(1, ErrorCode.none, 42, 41, 5, b"", ((7, 8), (9, 10)), 3),
        PartitionData(2, ErrorCode.none, 42, 41, 5, b"", (), -1, (4, 30)),
        PartitionData(3, ErrorCode.not_leader_or_follower, -1, -1, -1, b"", None, -1, None, (3, 9)),
    ]
    topics = [("orders", ORDERS, responses), ("bills", None, [plain])]
    named = [(name if version < 13 else topic_id, found) for name, topic_id, found in topics]
    endpoints = [NodeEndpoint(3, "host3", 9092, "north")]

    chunks = fetch_response(version, ErrorCode.none, 77, named, endpoints, throttle_ms=250)

    body = b"".join(chunks)
    schema = response_schema(ApiKey.FETCH, version)
    expected = schema.response(
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=250)),
        error_code=ErrorCode.none,
        session_id=77,
        responses=tuple(
            schema.part(
                "FetchableTopicResponse",
                topic=name,
                topic_id=topic_id,
                partitions=tuple(_expected(schema, each) for each in found),
            )
            for name, topic_id, found in topics
        ),
        node_endpoints=(
            (schema.part("NodeEndpoint", node_id=3, host="host3", port=9092, rack="north"),)
            if version >= 16
            else ()
        ),
    )
    assert read_response(ApiKey.FETCH, version, body) == expected
    assert plain.records in chunks


def _expected(schema: Any, response: PartitionData[bytes]) -> Any:
    values: dict[str, Any] = {
        "partition_index": response.partition,
        "error_code": response.error_code,
        "high_watermark": response.high_watermark,
        "last_stable_offset": response.last_stable_offset,
        "log_start_offset": response.log_start_offset,
        "preferred_read_replica": response.preferred_read_replica,
        "records": response.records,
        "aborted_transactions": None
        if response.aborted_transactions is None or not schema.has("AbortedTransaction")
        else tuple(
            schema.part("AbortedTransaction", producer_id=producer_id, first_offset=first)
            for producer_id, first in response.aborted_transactions
        ),
    }
    if response.diverging_epoch is not None and schema.has("EpochEndOffset"):
        epoch, end = response.diverging_epoch
        values["diverging_epoch"] = schema.part("EpochEndOffset", epoch=epoch, end_offset=end)
    if response.current_leader is not None and schema.has("LeaderIdAndEpoch"):
        leader, epoch = response.current_leader
        values["current_leader"] = schema.part(
            "LeaderIdAndEpoch", leader_id=leader, leader_epoch=epoch
        )
    return schema.part("PartitionData", **values)
