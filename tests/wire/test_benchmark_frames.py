"""The benchmark's recording brokers: they count what a controller sends, and answer all of it."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from benchmarks.control_frames import (
    KNOWN_VERSIONS,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    UnexpectedRequestError,
    answer_body,
    answer_frame,
    partition_count,
    read_header,
)
from kafka_common.model import LeaderAndIsr
from kafka_common.protocol import bulk
from kafka_common.protocol.control_responses import (
    read_leader_and_isr_response,
    read_stop_replica_response,
    read_update_metadata_response,
)
from kafka_common.protocol.messages import read_response
from tests.support.control_entries import leader_and_isr_entry, update_metadata_entry

TOPICS = {"orders": (UUID(int=1), range(3)), "bills": (UUID(int=2), range(200))}
# More replicas than one byte of a length can count.
REPLICAS = tuple(range(150))
STATE = LeaderAndIsr(1, 2, (1, 2, 3), 4, 5)


def request_frame(api_key: int) -> bytes:
    version = KNOWN_VERSIONS[api_key]
    if api_key == LEADER_AND_ISR:
        body = bulk.leader_and_isr_body(
            version,
            controller_id=1,
            controller_epoch=6,
            broker_epoch=7,
            topics=[
                (
                    topic,
                    topic_id,
                    [
                        leader_and_isr_entry(
                            version, topic, partition, STATE, REPLICAS, (4,), (), False
                        )
                        for partition in partitions
                    ],
                )
                for topic, (topic_id, partitions) in TOPICS.items()
            ],
            live_leaders=[(1, "host", 9092)],
        )
    elif api_key == UPDATE_METADATA:
        entries = [
            (
                topic,
                topic_id,
                [
                    update_metadata_entry(version, topic, partition, STATE, REPLICAS, (3,))
                    for partition in partitions
                ],
            )
            for topic, (topic_id, partitions) in TOPICS.items()
        ]
        body = bulk.update_metadata_body(
            version,
            controller_id=1,
            controller_epoch=6,
            broker_epoch=7,
            topics=bulk.update_metadata_topics(version, entries),
            live_brokers=bulk.update_metadata_live_brokers(version, []),
        )
    else:
        body = bulk.stop_replica_body(
            version,
            controller_id=1,
            controller_epoch=6,
            broker_epoch=7,
            topics=[
                (topic, [(partition, 2, True) for partition in partitions])
                for topic, (_, partitions) in TOPICS.items()
            ],
        )
    return struct.pack(">hhih", api_key, version, 99, 1) + b"1" + b"\x00" + b"".join(body)


@pytest.mark.parametrize("api_key", KNOWN_VERSIONS)
def test_every_partition_of_a_request_is_counted(api_key: int) -> None:
    frame = request_frame(api_key)

    header = read_header(frame)

    assert (header.api_key, header.api_version) == (api_key, KNOWN_VERSIONS[api_key])
    assert (header.correlation_id, header.controller_id) == (99, 1)
    assert (header.controller_epoch, header.broker_epoch) == (6, 7)
    assert partition_count(frame, header) == 203


def test_leader_and_isr_is_answered_for_each_partition() -> None:
    frame = request_frame(LEADER_AND_ISR)

    body = answer_body(frame, read_header(frame))

    response: Any = read_response(LEADER_AND_ISR, 7, body)
    topics = {
        topic.topic_id: [error.partition_index for error in topic.partition_errors]
        for topic in response.topics
    }
    assert topics == {UUID(int=1): [0, 1, 2], UUID(int=2): list(range(200))}
    assert read_leader_and_isr_response(7, body) == (0, ())


def test_the_other_two_are_answered_without_errors() -> None:
    stop, update = request_frame(STOP_REPLICA), request_frame(UPDATE_METADATA)

    stopped = answer_body(stop, read_header(stop))

    response: Any = read_response(STOP_REPLICA, 4, stopped)
    assert len(response.partition_errors) == 203
    assert read_stop_replica_response(4, stopped) == (0, ())
    assert read_update_metadata_response(8, answer_body(update, read_header(update))) == (0, ())


def test_an_answer_names_the_request_it_belongs_to() -> None:
    assert answer_frame(99, b"\x00\x00\x00") == struct.pack(">iiB", 8, 99, 0) + b"\x00\x00\x00"


def test_what_a_controller_does_not_send_is_refused() -> None:
    with pytest.raises(UnexpectedRequestError, match="api key 3 version 12"):
        read_header(struct.pack(">hhih", 3, 12, 1, -1) + b"\x00" * 30)
