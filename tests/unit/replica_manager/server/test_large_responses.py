"""Responses that a thread has encoded before their throttle time was known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kafka_common.protocol.messages import response_type
from kafka_common.protocol.responses import write_response
from replica_manager.server.large_responses import encoded
from replica_manager.server.throttled_responses import throttled
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.filled_messages import filled


def test_the_throttle_time_is_put_into_any_encoded_response_as_into_a_message() -> None:
    changed = 0
    for key, handler in HANDLERS.items():
        first, last = handler.VERSIONS
        for version in range(first, last + 1):
            response = filled(response_type(key, version), "x")
            put_in = encoded(response).throttled
            assert put_in is not None
            expected = write_response(throttled(response, 1_234))

            assert b"".join(cast("Sequence[bytes]", put_in(1_234))) == expected, (key, version)
            changed += expected != write_response(response)

    assert changed > 100
