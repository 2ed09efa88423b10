"""No string of a message is longer than Kafka reads, whatever API and version it is of."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
)

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk_reading import read_update_metadata
from kafka_common.protocol.control_responses import read_stop_replica_response
from kafka_common.protocol.fetch import read_fetch_request
from kafka_common.protocol.framing import parse_request_header
from kafka_common.protocol.messages import (
    read_request,
    read_response,
    request_type,
    response_type,
    write,
)
from kafka_common.protocol.primitives import MAX_STRING_BYTES, compact_length
from kafka_common.protocol.produce import read_produce_request
from replica_manager.replication.fetch_response import read_fetch_response
from tests.support.filled_messages import filled
from tests.support.frames import request_header

LONGEST: Final = "x" * MAX_STRING_BYTES
TOO_LONG: Final = LONGEST + "x"


def has_strings(entity_type: Any) -> bool:
    for field in fields(entity_type):
        match classify_field(field):
            case EntityField(nested) | EntityTupleField(nested):
                if has_strings(nested):
                    return True
            case _ if get_schema_field_type(field) == "string" and get_field_tag(field) is None:
                return True
            case _:
                pass
    return False


def messages() -> list[tuple[int, int, Any, Callable[..., Any]]]:
    return [
        (api_key, version, of(api_key, version), read)
        for api_key, name in api_key_map.items()
        for version in schema_name_map[name]
        for of, read in ((request_type, read_request), (response_type, read_response))
    ]


def test_every_flexible_message_is_refused_with_a_string_that_is_too_long() -> None:
    refused = 0
    for api_key, version, entity_type, read in messages():
        if not entity_type.__flexible__ or not has_strings(entity_type):
            continue
        with pytest.raises(InvalidFrame, match="32767 are allowed"):
            read(api_key, version, write(filled(entity_type, TOO_LONG)))
        refused += 1

    assert refused > 150


def test_every_message_is_read_with_strings_of_the_largest_size() -> None:
    for api_key, version, entity_type, read in messages():
        message = filled(entity_type, LONGEST if has_strings(entity_type) else "")

        # As bytes: some messages are read into classes with numbers for durations.
        assert write(read(api_key, version, write(message))) == write(message)


@pytest.mark.parametrize(
    ("read", "api_key"),
    [
        (read_produce_request, ApiKey.PRODUCE),
        (read_fetch_request, ApiKey.FETCH),
        (
            lambda version, data, offset: read_update_metadata(version, data, offset, tuple),
            ApiKey.UPDATE_METADATA,
        ),
    ],
)
def test_our_own_readers_of_requests_refuse_it_too(read: Any, api_key: ApiKey) -> None:
    read_some = 0
    for version in schema_name_map[api_key_map[api_key]]:
        entity_type = request_type(api_key, version)
        if not entity_type.__flexible__ or not has_strings(entity_type):
            continue
        with pytest.raises(InvalidFrame):
            read(version, write(filled(entity_type, TOO_LONG)), 0)
        read_some += 1
    assert read_some


@given(st.binary(max_size=200), st.integers(0, 17))
@settings(deadline=None, max_examples=300)
def test_whatever_announces_more_than_it_has_is_refused(rest: bytes, version: int) -> None:
    announced = compact_length(len(rest) + 1 + MAX_STRING_BYTES)
    for api_key in (
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ):
        if version in schema_name_map[api_key_map[api_key]]:
            entity_type = request_type(api_key, version)
            if entity_type.__flexible__:
                with pytest.raises(InvalidFrame):
                    read_request(api_key, version, announced + rest)


def test_our_own_readers_of_responses_refuse_it_too() -> None:
    stop_replica = write(filled(response_type(ApiKey.STOP_REPLICA, 4), TOO_LONG))
    with pytest.raises(InvalidFrame, match="32767 are allowed"):
        read_stop_replica_response(4, stop_replica)

    fetch = write(filled(response_type(ApiKey.FETCH, 12), TOO_LONG))
    with pytest.raises(InvalidFrame, match="32767 are allowed"):
        read_fetch_response(12, memoryview(fetch), {})


def test_a_client_id_has_two_bytes_of_length_in_every_header() -> None:
    header = request_header(ApiKey.METADATA, 12, 1, LONGEST)
    assert parse_request_header(header)[0].client_id == LONGEST
    with pytest.raises(struct.error):
        request_header(ApiKey.METADATA, 12, 1, TOO_LONG)
