"""The bulk reader of UpdateMetadata against kio: the same values, and the same refusals."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import InvalidFrame
from kafka_common.protocol import bulk
from kafka_common.protocol.bulk_reading import VERSIONS, read_update_metadata
from kafka_common.protocol.messages import read_request, request_type, write
from tests.support.control_entries import update_metadata_entry
from tests.wire.bulk_columns import BROKERS, HEADS, UPDATE_METADATA_TOPICS


def body(version: int, head: tuple[int, int, int], topics: list[Any], brokers: list[Any]) -> bytes:
    grouped = [
        (
            topic,
            topic_id,
            [
                update_metadata_entry(version, topic, partition, state, replicas, offline)
                for partition, state, replicas, offline in partitions
            ],
        )
        for topic, topic_id, partitions in topics
    ]
    return b"".join(
        bulk.update_metadata_body(
            version,
            controller_id=head[0],
            controller_epoch=head[1],
            broker_epoch=head[2],
            topics=bulk.update_metadata_topics(version, grouped),
            live_brokers=bulk.update_metadata_live_brokers(version, brokers),
        )
    )


def by_kio(version: int, data: bytes) -> tuple[Any, list[Any]]:
    """The request without topics, and the topics in the reader's shape."""
    message: Any = read_request(6, version, data)
    topics = [
        (
            topic.topic_name,
            getattr(topic, "topic_id", None),
            [
                (
                    state.partition_index,
                    (
                        state.controller_epoch,
                        state.leader,
                        state.leader_epoch,
                        state.isr,
                        state.zk_version,
                        state.replicas,
                        state.offline_replicas,
                    ),
                )
                for state in topic.partition_states
            ],
        )
        for topic in message.topic_states
    ]
    return message, topics


@settings(max_examples=150, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    head=HEADS,
    topics=UPDATE_METADATA_TOPICS,
    brokers=st.lists(BROKERS, max_size=3),
    before=st.binary(max_size=5),
)
def test_what_is_read_is_what_kio_reads(
    version: int,
    head: tuple[int, int, int],
    topics: list[Any],
    brokers: list[Any],
    before: bytes,
) -> None:
    data = body(version, head, topics, brokers)

    message, expected = by_kio(version, data)
    request = read_update_metadata(version, before + data, len(before), lambda fields: fields)
    ours: Any = request.head

    assert request.topics == expected
    assert (ours.controller_id, ours.controller_epoch) == head[:2]
    assert ours.broker_epoch == message.broker_epoch
    assert ours.live_brokers == message.live_brokers
    assert ours.topic_states == ()


@settings(max_examples=150, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    topics=UPDATE_METADATA_TOPICS,
    brokers=st.lists(BROKERS, max_size=2),
    data=st.data(),
)
def test_what_is_cut_short_is_refused(
    version: int, topics: list[Any], brokers: list[Any], data: st.DataObject
) -> None:
    whole = body(version, (1, 2, 3), topics, brokers)
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(InvalidFrame):
        read_update_metadata(version, whole[:size], 0, lambda fields: fields)


@settings(max_examples=300, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    topics=UPDATE_METADATA_TOPICS,
    brokers=st.lists(BROKERS, max_size=2),
    data=st.data(),
)
def test_what_is_garbled_is_read_as_kio_reads_it_or_refused(
    version: int, topics: list[Any], brokers: list[Any], data: st.DataObject
) -> None:
    garbled = bytearray(body(version, (1, 2, 3), topics, brokers))
    for _ in range(data.draw(st.integers(1, 4))):
        garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))

    try:
        _, expected = by_kio(version, bytes(garbled))
    except InvalidFrame:
        with pytest.raises(InvalidFrame):
            read_update_metadata(version, bytes(garbled), 0, lambda fields: fields)
    else:
        request = read_update_metadata(version, bytes(garbled), 0, lambda fields: fields)
        assert request.topics == expected


def test_tagged_fields_of_later_versions_are_skipped() -> None:
    later = b"\x01\x63\x03abc"  # one field, tag 99, three bytes
    partition = b"\x00" * 16 + b"\x01" + b"\x00" * 4 + b"\x01" + b"\x01" + later
    topic = b"\x02t" + b"\x00" * 16 + b"\x02" + partition + later
    data = b"\x00" * 17 + b"\x02" + topic + b"\x01" + b"\x00"

    request = read_update_metadata(8, data, 0, lambda fields: fields)

    assert request.topics == [("t", None, [(0, (0, 0, 0, (), 0, (), ()))])]


def test_more_brokers_than_one_byte_can_count_are_read() -> None:
    many = tuple(range(200))
    schema: Any = sys.modules[request_type(6, 8).__module__]
    state = schema.UpdateMetadataPartitionState(
        partition_index=1,
        controller_epoch=2,
        leader=3,
        leader_epoch=4,
        isr=many,
        zk_version=5,
        replicas=many,
        offline_replicas=(),
    )
    topic = schema.UpdateMetadataTopicState(
        topic_name="t", topic_id=None, partition_states=(state, state)
    )
    data = write(
        schema.UpdateMetadataRequest(
            controller_id=1, controller_epoch=1, topic_states=(topic,), live_brokers=()
        )
    )

    request = read_update_metadata(8, data, 0, lambda fields: fields)

    assert request.topics[0].partitions == [(1, (2, 3, 4, many, 5, many, ()))] * 2
