"""Answers that may be large: made and encoded in a thread, so that others need not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kio.static.protocol import ResponsePayload

from replica_manager.server.context import EncodedBody
from replica_manager.server.error_counts import error_counts
from replica_manager.server.throttled_answers import throttled
from zkcontroller.protocol.messages import write

ENTRIES_AT_ONCE: Final = 1_000
"""So many entries are made and encoded on the event loop: some 8 ms."""


async def answer_of(
    make: Callable[[], ResponsePayload], entry_count: int
) -> ResponsePayload | EncodedBody:
    """What ``make`` makes, which must need nothing that belongs to the event loop."""
    if entry_count <= ENTRIES_AT_ONCE:
        return make()
    return await asyncio.to_thread(lambda: encoded(make()))


def encoded(answer: ResponsePayload) -> EncodedBody:
    """That answer as bytes, its errors counted."""
    errors = error_counts(answer.__api_key__, answer)
    return EncodedBody(
        (write(answer),),
        errors=lambda: errors,
        throttled=lambda throttle_ms: (write(throttled(answer, throttle_ms)),),
    )
