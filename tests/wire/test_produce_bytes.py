"""Produce, straight from and to bytes, held to kio in every version."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.produce import (
    LAST_VERSION,
    NodeEndpoint,
    PartitionProduceResponse,
    produce_response,
    read_produce_request,
)
from kafka_common.protocol.versioned_messages import request_schema, response_schema

VERSIONS = range(LAST_VERSION + 1)
ENDPOINT = NodeEndpoint(3, "host3", 9092, None)


def request(version: int, transactional_id: str | None, records: bytes | None) -> Any:
    schema = request_schema(ApiKey.PRODUCE, version)
    return schema.request(
        transactional_id=transactional_id,
        acks=-1,
        timeout=i32Timedelta.parse(timedelta(milliseconds=1500)),
        topic_data=tuple(
            schema.part(
                "TopicProduceData",
                name=name,
                partition_data=tuple(
                    schema.part("PartitionProduceData", index=index, records=records)
                    for index in (0, 7)
                ),
            )
            for name in ("orders", "bills")
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [b"", b"x" * 300, None])
def test_a_request_is_read_as_kio_wrote_it(version: int, records: bytes | None) -> None:
    data = b"head" + write(request(version, "tx" if version >= 3 else None, records))

    found = read_produce_request(version, data, 4)

    assert found.transactional_id == ("tx" if version >= 3 else None)
    assert (found.acks, found.timeout_ms) == (-1, 1500)
    assert [topic for topic, _ in found.topics] == ["orders", "bills"]
    assert [(index, bytes(given.buffer)) for index, given in found.topics[1][1]] == [
        (0, records or b""),
        (7, records or b""),
    ]


@pytest.mark.parametrize("version", [3, 11])
def test_a_request_that_ends_too_early_is_no_request(version: int) -> None:
    data = write(request(version, "tx", b"records"))

    for end in range(len(data)):
        with pytest.raises(InvalidFrame):
            read_produce_request(version, data[:end], 0)


@given(version=st.sampled_from(VERSIONS), data=st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(version: int, data: bytes) -> None:
    with suppress(InvalidFrame):
        found = read_produce_request(version, data, 0)
        given = [each for _, partitions in found.topics for _, each in partitions]
        assert all(bytes(each.buffer) in data for each in given)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_what_kio_would_write(version: int) -> None:
    responses = [
        PartitionProduceResponse(0, ErrorCode.none, 42, 1_700_000_000_000, 5),
        PartitionProduceResponse(
            1, ErrorCode.invalid_record, -1, -1, 5, ((3, "no key"), (4, "none")), "bad"
        ),
    ]
    if version >= 10:
        responses.append(
            PartitionProduceResponse(
                2, ErrorCode.not_leader_or_follower, -1, -1, -1, current_leader=(3, 9)
            )
        )
    topics = [("orders", responses), ("bills", responses[:1])]

    body = produce_response(version, topics, [ENDPOINT], throttle_ms=250)

    found = read_response(ApiKey.PRODUCE, version, body)
    assert write(found) == body
    module = load_payload_module(ApiKey.PRODUCE, version, EntityType.response)
    schema = response_schema(ApiKey.PRODUCE, version)
    expected = schema.response(
        responses=tuple(
            schema.part(
                "TopicProduceResponse",
                name=name,
                partition_responses=tuple(_expected(schema, module, each) for each in responses),
            )
            for name, responses in topics
        ),
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=250)),
        node_endpoints=(
            (schema.part("NodeEndpoint", node_id=3, host="host3", port=9092, rack=None),)
            if version >= 10
            else ()
        ),
    )
    assert found == expected


def _expected(schema: Any, module: Any, response: PartitionProduceResponse) -> Any:
    time = response.log_append_time_ms
    values: dict[str, Any] = {
        "index": response.partition,
        "error_code": response.error_code,
        "base_offset": response.base_offset,
        "log_append_time": None if time < 0 else datetime.fromtimestamp(time / 1000, UTC),
        "log_start_offset": response.log_start_offset,
        "record_errors": ()
        if not hasattr(module, "BatchIndexAndErrorMessage")
        else tuple(
            schema.part(
                "BatchIndexAndErrorMessage", batch_index=index, batch_index_error_message=message
            )
            for index, message in response.record_errors
        ),
        "error_message": response.message,
    }
    if response.current_leader is not None:
        leader, epoch = response.current_leader
        values["current_leader"] = schema.part(
            "LeaderIdAndEpoch", leader_id=leader, leader_epoch=epoch
        )
    return schema.part("PartitionProduceResponse", **values)
