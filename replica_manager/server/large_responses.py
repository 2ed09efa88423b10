"""Runs work for large requests and responses in a thread, so that the event loop is not blocked.

:mod:`.slices` explains what a thread can and cannot do here.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast

from kio.static.protocol import ResponsePayload

from kafka_common.protocol.responses import write_response
from replica_manager.server.context import EncodedBody
from replica_manager.server.error_counts import error_counts
from replica_manager.server.throttled_responses import throttled

T = TypeVar("T")

READ_ASIDE_BYTES: Final = 8 * 1024
"""A request of at least this many bytes is decoded in a thread, and its response is encoded in one.

So many bytes are some 4,000 names of one letter, which take kio 8 ms.
"""
ENTRIES_AT_ONCE: Final = 1_000
"""The most entries of a response that is made and encoded on the event loop: some 8 ms."""
_THROTTLE_BYTES: Final = 4
"""The size of the throttle time, which is the first field of almost every response."""


async def composed(
    entry_count: int, compose: Callable[[], ResponsePayload]
) -> ResponsePayload | EncodedBody:
    """The result of ``compose``, which runs in a thread if there are many entries.

    So ``compose`` must not use state that belongs to the event loop.
    """
    if entry_count <= ENTRIES_AT_ONCE:
        return compose()
    return await asyncio.to_thread(lambda: encoded(compose()))


async def aside(entry_count: int, work: Callable[[], T]) -> T:
    """The result of ``work``, which runs in a thread if there are many entries.

    So ``work`` must not use state that belongs to the event loop.
    """
    if entry_count <= ENTRIES_AT_ONCE:
        return work()
    return await asyncio.to_thread(work)


def encoded(response: ResponsePayload) -> EncodedBody:
    """The response encoded to bytes, with its errors counted."""
    errors = error_counts(response.__api_key__, response)
    body = write_response(response)

    def with_throttle_time(throttle_ms: int) -> Sequence[bytes]:
        if _begins_with_throttle_time(type(response)):
            return throttle_ms.to_bytes(_THROTTLE_BYTES, "big"), body[_THROTTLE_BYTES:]
        return (write_response(throttled(response, throttle_ms)),)

    return EncodedBody((body,), errors=lambda: errors, throttled=with_throttle_time)


@cache
def _begins_with_throttle_time(response_type: type) -> bool:
    first = dataclasses.fields(cast(Any, response_type))[:1]
    return [field.name for field in first] == ["throttle_time"]
