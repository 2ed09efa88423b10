"""What brokers answer to the controller, against kio in every version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.control_responses import (
    ControlResponse,
    PartitionError,
    read_leader_and_isr_response,
    read_stop_replica_response,
    read_update_metadata_response,
)
from kafka_common.protocol.messages import response_type, write

Reader = Callable[[int, bytes], ControlResponse]

STALE: Final = ErrorCode.stale_controller_epoch
STORAGE: Final = ErrorCode.kafka_storage_error
NONE: Final = ErrorCode.none


def _make(api_key: int, version: int, name: str, **fields: object) -> Any:
    return getattr(sys.modules[response_type(api_key, version).__module__], name)(**fields)


def _named_errors(api_key: int, version: int, name: str) -> tuple[Any, ...]:
    return tuple(
        _make(
            api_key,
            version,
            name,
            topic_name=topic,
            partition_index=partition,
            error_code=error,
        )
        for topic, partition, error in (("a", 0, NONE), ("b-ü", 1, STORAGE), ("c", 2, STALE))
    )


NAMED: Final = (PartitionError("b-ü", 1, 56), PartitionError("c", 2, 11))


@pytest.mark.parametrize("version", range(5))
def test_leader_and_isr_answers_with_names_before_version_5(version: int) -> None:
    errors = _named_errors(4, version, "LeaderAndIsrPartitionError")
    response = _make(4, version, "LeaderAndIsrResponse", error_code=NONE, partition_errors=errors)

    assert read_leader_and_isr_response(version, write(response)) == ControlResponse(0, NAMED)


@pytest.mark.parametrize("version", [5, 6, 7])
def test_leader_and_isr_answers_with_topic_ids_from_version_5(version: int) -> None:
    ids = UUID(int=1), UUID(int=2**127)
    topics = tuple(
        _make(
            4,
            version,
            "LeaderAndIsrTopicError",
            topic_id=topic_id,
            partition_errors=tuple(
                _make(
                    4,
                    version,
                    "LeaderAndIsrPartitionError",
                    partition_index=partition,
                    error_code=error,
                )
                for partition, error in ((0, NONE), (5, STORAGE))
            ),
        )
        for topic_id in ids
    )
    response = _make(4, version, "LeaderAndIsrResponse", error_code=STALE, topics=topics)

    assert read_leader_and_isr_response(version, write(response)) == ControlResponse(
        11, (PartitionError(ids[0], 5, 56), PartitionError(ids[1], 5, 56))
    )


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_answers_with_names(version: int) -> None:
    errors = _named_errors(5, version, "StopReplicaPartitionError")
    response = _make(5, version, "StopReplicaResponse", error_code=NONE, partition_errors=errors)

    assert read_stop_replica_response(version, write(response)) == ControlResponse(0, NAMED)


@pytest.mark.parametrize("version", range(9))
def test_update_metadata_answers_with_one_code(version: int) -> None:
    response = _make(6, version, "UpdateMetadataResponse", error_code=STALE)

    assert read_update_metadata_response(version, write(response)) == ControlResponse(11, ())


def test_an_unknown_error_code_is_kept() -> None:
    assert read_update_metadata_response(5, b"\x7f\xff") == ControlResponse(32767, ())


def test_unknown_tagged_fields_are_skipped() -> None:
    tags = b"\x01\x2a\x02hi"
    item = b"\x02a" + b"\0\0\0\x01" + b"\0\x0b" + tags

    read = read_stop_replica_response(4, b"\0\0" + b"\x02" + item + tags)

    assert read == ControlResponse(0, (PartitionError("a", 1, 11),))


@pytest.mark.parametrize(
    ("reader", "version", "response"),
    [
        (read_leader_and_isr_response, 7, bytes(2) + b"\x02" + bytes(16) + b"\x02" + bytes(9)),
        (read_leader_and_isr_response, 4, bytes(2) + b"\x02\x02a" + bytes(8)),
        (read_leader_and_isr_response, 1, bytes(2) + b"\0\0\0\x01\0\x01a" + bytes(6)),
        (read_stop_replica_response, 4, bytes(2) + b"\x02\x02a" + bytes(8)),
        (read_update_metadata_response, 8, bytes(3)),
    ],
)
def test_answers_cut_short_or_garbled_are_refused(
    reader: Reader, version: int, response: bytes
) -> None:
    random = Random(5)
    reader(version, response)

    for size in range(len(response)):
        with pytest.raises(InvalidFrame):
            reader(version, response[:size])
    for _ in range(300):
        garbled = bytearray(response)
        garbled[random.randrange(len(response))] = random.randrange(256)
        _read_or_refuse(reader, version, bytes(garbled))


def _read_or_refuse(reader: Reader, version: int, data: bytes) -> None:
    try:
        reader(version, data)
    except InvalidFrame:
        return


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"\0\0\0", id="a null array"),
        pytest.param(b"\0\0\x02\0" + bytes(8), id="a null name"),
        pytest.param(b"\0\0\xff\xff\xff\xff\x0f", id="four billion errors"),
        pytest.param(b"\0\0\x02\x02\xff\0\0\0\0\0\x0b\0\0", id="a name that is not UTF-8"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(response: bytes) -> None:
    with pytest.raises(InvalidFrame):
        read_stop_replica_response(4, response)
