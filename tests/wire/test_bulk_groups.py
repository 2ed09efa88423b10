"""The response to ListGroups against kio, byte for byte, in every version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk_groups import (
    LIST_GROUPS_VERSIONS,
    encoded_groups,
    encoded_throttle_time,
)
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import response_schema
from tests.wire.bulk_columns import NAMES

GROUPS = st.lists(st.tuples(NAMES, NAMES, NAMES, NAMES), max_size=4)


def as_kio_writes_it(version: int, error: ErrorCode, groups: Any, throttle_ms: int) -> bytes:
    schema = response_schema(ApiKey.LIST_GROUPS, version)
    listed = tuple(
        schema.part(
            "ListedGroup",
            group_id=group_id,
            protocol_type=protocol_type,
            group_state=state,
            group_type=group_type,
        )
        for group_id, protocol_type, state, group_type in groups
    )
    throttled = {} if version == 0 else {"throttle_time": timedelta(milliseconds=throttle_ms)}
    return write(schema.response(error_code=error, groups=listed, **throttled))


@pytest.mark.parametrize("version", LIST_GROUPS_VERSIONS)
@given(error=st.sampled_from(ErrorCode), groups=GROUPS, throttle_ms=st.integers(0, 2**31 - 1))
@settings(max_examples=30)
def test_list_groups_is_written_as_kio_writes_it(
    version: int, error: ErrorCode, groups: Any, throttle_ms: int
) -> None:
    written = encoded_throttle_time(version, throttle_ms) + encoded_groups(
        version, error.value, groups
    )

    assert written == as_kio_writes_it(version, error, groups, throttle_ms)
