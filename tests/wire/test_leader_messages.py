"""What a follower and its leader say to each other, held to kio's reading of Kafka's schemas."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from kafka_common.protocol.inter_broker_versions import LATEST, version_of
from kafka_common.protocol.messages import read_request, write
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_requests import (
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochQuestion,
    OffsetQuestion,
)
from replica_manager.replication.fetch_session_handler import FetchSessionRequest
from replica_manager.replication.fetch_values import (
    FetchMetadata,
    FetchPartitionData,
    TopicIdPartition,
)
from replica_manager.replication.leader_messages import (
    FetchLimits,
    LeaderRequestVersions,
    decode_epoch_response,
    decode_fetch_response,
    decode_offsets_response,
    epoch_request,
    fetch_request,
    offsets_request,
)

FETCH, LIST_OFFSETS, EPOCHS = 1, 2, 23
ORDERS, BILLS = UUID(int=7), UUID(int=8)
ZERO, ONE, OTHER = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("bills", 0),
)
FETCH_VERSIONS = range(18)


def question(topic_id: UUID | None, offset: int) -> FetchPartition:
    return FetchPartition(topic_id, offset, 1_000, 4, 3, 2)


def asked(topic_id: UUID | None = ORDERS, other_id: UUID | None = BILLS) -> AskRecords:
    to_send = {
        ZERO: question(topic_id, 10),
        OTHER: question(other_id, 20),
        ONE: question(topic_id, 30),
    }
    forgotten = [TopicIdPartition(topic_id, "orders", 5), TopicIdPartition(topic_id, "orders", 6)]
    replaced = [TopicIdPartition(UUID(int=9), "bills", 7)]
    return AskRecords(
        FetchSessionRequest(
            FetchMetadata(77, 5), to_send, forgotten, replaced, to_send, topic_id is not None
        )
    )


def read_back(version: int, request: AskRecords) -> Any:
    body = fetch_request(version, request, FetchLimits(400, 2, 9_000), 1, 42)
    return read_request(FETCH, version, body)


def test_a_fetch_names_the_follower_its_epoch_and_what_it_takes() -> None:
    request = read_back(17, asked())

    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 42)
    assert request.max_wait == timedelta(milliseconds=400)
    assert (request.min_bytes, request.max_bytes, request.isolation_level) == (2, 9_000, 0)
    assert (request.session_id, request.session_epoch) == (77, 5)


def test_partitions_are_asked_for_in_the_order_in_which_the_leader_is_to_serve_them() -> None:
    request = read_back(17, asked())

    order = [(t.topic_id, [p.partition for p in t.partitions]) for t in request.topics]
    assert order == [(ORDERS, [0]), (BILLS, [0]), (ORDERS, [1])]
    (first,) = request.topics[0].partitions
    assert (first.fetch_offset, first.partition_max_bytes) == (10, 1_000)
    assert (first.current_leader_epoch, first.last_fetched_epoch) == (4, 3)
    assert first.log_start_offset == 2


def test_topics_that_came_again_under_another_id_are_forgotten_only_where_ids_are_sent() -> None:
    by_id = [(t.topic_id, t.partitions) for t in read_back(13, asked()).forgotten_topics_data]
    assert by_id == [(ORDERS, (5, 6)), (UUID(int=9), (7,))]

    by_name = [(t.topic, t.partitions) for t in read_back(12, asked()).forgotten_topics_data]
    assert by_name == [("orders", (5, 6))]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_version_says_who_asks_and_for_which_offsets(version: int) -> None:
    request = read_back(version, asked())

    state = getattr(request, "replica_state", request)
    assert state.replica_id == 1
    offsets = [p.fetch_offset for topic in request.topics for p in topic.partitions]
    assert offsets == [10, 20, 30]


def test_versions_follow_the_inter_broker_protocol() -> None:
    assert LeaderRequestVersions.of(LATEST) == LeaderRequestVersions(17, 9, 4)
    assert LeaderRequestVersions.of(version_of("2.8")) == LeaderRequestVersions(12, 6, 4)
    assert LeaderRequestVersions.of(version_of("2.6")) == LeaderRequestVersions(11, 5, 3)
    assert LeaderRequestVersions.of(version_of("0.8.2")) == LeaderRequestVersions(0, 0, 0)


# ---------------------------------------------------------------------- answers


def written(version: int, responses: list[tuple[UUID, str, list[tuple[int, Any]]]]) -> bytes:
    """A Fetch response of kio's."""
    schema = response_schema(FETCH, version)
    topics = []
    for topic_id, topic, partitions in responses:
        told = []
        for index, response in partitions:
            fields = response._asdict()
            diverging = fields.pop("diverging_epoch")
            del fields["aborted_transactions"]  # the follower finds them among the records
            if diverging is not None and version >= 12:
                fields["diverging_epoch"] = schema.part(
                    "EpochEndOffset", epoch=diverging.epoch, end_offset=diverging.end_offset
                )
            aborted: tuple[Any, ...] = ()
            if schema.has("AbortedTransaction"):
                aborted = (schema.part("AbortedTransaction", producer_id=1, first_offset=2),)
            told.append(
                schema.part(
                    "PartitionData",
                    partition_index=index,
                    error_code=fields.pop("error"),
                    aborted_transactions=aborted,
                    **fields,
                )
            )
        topics.append(
            schema.part(
                "FetchableTopicResponse", topic=topic, topic_id=topic_id, partitions=tuple(told)
            )
        )
    extra: dict[str, Any] = {}
    if version >= 16:
        node = schema.part("NodeEndpoint", node_id=1, host="here", port=9092, rack=None)
        extra["node_endpoints"] = (node,)
    return write(
        schema.response(
            throttle_time=timedelta(milliseconds=3),
            error_code=ErrorCode.none,
            session_id=77,
            responses=tuple(topics),
            **extra,
        )
    )


ANSWER = FetchPartitionData(ErrorCode.none, 12, 11, 1, b"records", EpochEndOffset(3, 9), -1)


def expected(version: int, response: FetchPartitionData) -> FetchPartitionData:
    """What of an answer that version can say."""
    return response._replace(
        last_stable_offset=response.last_stable_offset if version >= 4 else -1,
        log_start_offset=response.log_start_offset if version >= 5 else -1,
        diverging_epoch=response.diverging_epoch if version >= 12 else None,
    )


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_answers_of_every_version_are_read(version: int) -> None:
    refused = FetchPartitionData(ErrorCode.not_leader_or_follower, -1, -1, -1, b"")
    body = written(
        version, [(ORDERS, "orders", [(0, ANSWER), (1, refused)]), (BILLS, "bills", [(0, ANSWER)])]
    )

    responses = decode_fetch_response(version, memoryview(body), {ORDERS: "orders", BILLS: "bills"})

    assert responses.partitions == {
        ZERO: expected(version, ANSWER),
        ONE: refused,
        OTHER: expected(version, ANSWER),
    }
    assert responses.session_id == (77 if version >= 7 else 0)
    assert responses.throttle_time_ms == (3 if version >= 1 else 0)
    assert list(responses.topic_ids) == ([ORDERS, BILLS] if version >= 13 else [])


def test_records_are_views_into_what_arrived() -> None:
    body = bytearray(written(17, [(ORDERS, "orders", [(0, ANSWER)])]))
    responses = decode_fetch_response(17, memoryview(body), {ORDERS: "orders"})
    records = responses.partitions[ZERO].records

    body[body.index(b"records")] = ord("R")

    assert isinstance(records, memoryview)
    assert bytes(records) == b"Records"


def test_a_topic_that_was_not_requested_is_logged_and_left_out() -> None:
    body = written(17, [(BILLS, "bills", [(0, ANSWER)]), (ORDERS, "orders", [(0, ANSWER)])])

    responses = decode_fetch_response(17, memoryview(body), {ORDERS: "orders"})

    assert list(responses.partitions) == [ZERO]
    assert list(responses.topic_ids) == [BILLS, ORDERS]


def test_a_code_that_no_kafka_3_9_knows_is_an_unknown_server_error() -> None:
    body = bytearray(written(17, [(ORDERS, "orders", [(0, ANSWER)])]))
    # throttle, error, session, one topic, its id, one partition, its index
    place = 4 + 2 + 4 + 1 + 16 + 1 + 4
    assert body[place : place + 2] == b"\0\0"
    body[place : place + 2] = (29_999).to_bytes(2, "big")

    responses = decode_fetch_response(17, memoryview(body), {ORDERS: "orders"})

    assert responses.partitions[ZERO].error is ErrorCode.unknown_server_error


@pytest.mark.parametrize("version", [0, 4, 7, 11, 12, 13, 17])
def test_a_response_cut_short_anywhere_is_no_response(version: int) -> None:
    body = written(version, [(ORDERS, "orders", [(0, ANSWER), (1, ANSWER)])])

    for size in range(len(body)):
        with pytest.raises(InvalidFrame):
            decode_fetch_response(version, memoryview(body)[:size], {ORDERS: "orders"})


@settings(deadline=None)
@given(st.sampled_from(FETCH_VERSIONS), st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(version: int, body: bytes) -> None:
    with contextlib.suppress(InvalidFrame):
        responses = decode_fetch_response(version, memoryview(body), {ORDERS: "orders"})
        assert len(responses.partitions) <= len(body)


@settings(deadline=None)  # classes of a version are loaded by its first example
@given(
    st.sampled_from([12, 13, 17]),
    st.lists(
        st.builds(
            FetchPartitionData,
            st.sampled_from(ErrorCode),
            *[st.integers(-1, 2**63 - 1)] * 3,
            st.binary(max_size=300),
            st.none() | st.builds(EpochEndOffset, st.integers(0, 2**31 - 1), st.integers(-1, 99)),
            st.integers(-1, 9),
            st.none(),
        ),
        max_size=5,
    ),
)
def test_whatever_kio_writes_is_read(version: int, answers: list[FetchPartitionData]) -> None:
    body = written(version, [(ORDERS, "orders", list(enumerate(answers)))])

    read = decode_fetch_response(version, memoryview(body), {ORDERS: "orders"})

    assert list(read.partitions.values()) == answers


# ---------------------------------------------------------------------- the two other questions


@pytest.mark.parametrize("version", range(5))
def test_epochs_are_asked_for_and_answered_in_every_version(version: int) -> None:
    question = EpochQuestion(5, 4)
    asked = AskEpochEnds({ZERO: question, OTHER: question, ONE: question})
    request: Any = read_request(EPOCHS, version, epoch_request(version, asked, 1))
    assert getattr(request, "replica_id", 1) == 1
    assert [(t.topic, [p.partition for p in t.partitions]) for t in request.topics] == [
        ("orders", [0, 1]),
        ("bills", [0]),
    ]
    assert {
        getattr(p, "current_leader_epoch", 5) for t in request.topics for p in t.partitions
    } == {5}

    schema = response_schema(EPOCHS, version)
    told = [(0, ErrorCode.none, 4, 99), (1, ErrorCode.unknown_leader_epoch, -1, -1)]
    partitions = tuple(
        schema.part(
            "EpochEndOffset", partition=index, error_code=error, leader_epoch=epoch, end_offset=end
        )
        for index, error, epoch, end in told
    )
    topic = schema.part("OffsetForLeaderTopicResult", topic="orders", partitions=partitions)
    responses = decode_epoch_response(version, write(schema.response(topics=(topic,))))

    epoch = 4 if version >= 1 else -1
    assert responses == {
        ZERO: (ErrorCode.none, EpochEndOffset(epoch, 99)),
        ONE: (ErrorCode.unknown_leader_epoch, EpochEndOffset(-1, -1)),
    }


@pytest.mark.parametrize("version", range(10))
def test_offsets_are_asked_for_and_answered_in_every_version(version: int) -> None:
    asked = AskOffsets({ZERO: OffsetQuestion(5, -1), ONE: OffsetQuestion(5, -2)})
    request: Any = read_request(LIST_OFFSETS, version, offsets_request(version, asked, 1))
    assert request.replica_id == 1
    (topic,) = request.topics
    assert [p.timestamp for p in topic.partitions] == [-1, -2]

    schema = response_schema(LIST_OFFSETS, version)
    partitions = tuple(
        schema.part(
            "ListOffsetsPartitionResponse",
            partition_index=index,
            error_code=error,
            old_style_offsets=(offset,) if offset >= 0 else (),
            timestamp=-1,
            offset=offset,
            leader_epoch=3,
        )
        for index, error, offset in [(0, ErrorCode.none, 7), (1, ErrorCode.fenced_leader_epoch, -1)]
    )
    topic = schema.part("ListOffsetsTopicResponse", name="orders", partitions=partitions)
    responses = decode_offsets_response(version, write(schema.response(topics=(topic,))))

    assert responses == {ZERO: (ErrorCode.none, 7), ONE: (ErrorCode.fenced_leader_epoch, -1)}
