"""Counts requests for quotas and writes throttle times into responses.

The handlers of Produce and Fetch count their requests themselves, because bytes have quotas, too.
All other requests are counted here, when their response is known.

Source: Kafka ``RequestHandlerHelper`` (``sendMaybeThrottle``, ``sendResponseExemptThrottle``).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from kio.static.primitive import i32Timedelta
from kio.static.protocol import ResponsePayload

from kafka_common.protocol.api_versions import ApiKey
from replica_manager.network.connection import ResponseFrame
from replica_manager.quotas.quota_managers import RequestUsage
from replica_manager.server.context import (
    EncodedBody,
    RequestContext,
    Response,
    Throttled,
    Unanswered,
)

P = TypeVar("P", bound=ResponsePayload)

_EXEMPT: Final = frozenset(
    map(
        int,
        (
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.ALTER_PARTITION,
        ),
    )
)
"""APIs that only brokers send, which are exempt from quotas."""
_THROTTLE_TIME: Final = "throttle_time"


def counted(response: Response, context: RequestContext, usage: RequestUsage) -> Response:
    """Counts the request; returns the response with the throttle time of the client's quotas."""
    if not usage.is_counted:
        if context.api_key in _EXEMPT:
            usage.exempt()
        else:
            return counted_as_clients(response, usage)
    return response


def counted_as_clients(response: Response, usage: RequestUsage) -> Response:
    """As :func:`counted`, but no API is exempt; for a client's request that was not authorized."""
    return _with_throttle_time(response, usage.throttle_ms) if usage.requested() > 0 else response


def used(response: ResponseFrame, usage: RequestUsage) -> ResponseFrame:
    """The response frame with the time that the quotas mute its connection."""
    response = response._replace(sent=(usage.finish,), loop_time=usage.loop_time)
    if usage.throttle_ms == 0 or usage.throttle_ms < response.mute_ms:
        return response
    return response._replace(mute_ms=usage.throttle_ms, muted=usage.waiting())


def _with_throttle_time(response: Response, throttle_ms: int) -> Response:
    match response:
        case EncodedBody(throttled=encode):
            return response if encode is None else response._replace(chunks=encode(throttle_ms))
        case Unanswered():
            return response
        case Throttled(payload, mutation_ms):
            longest_ms = max(throttle_ms, mutation_ms)
            if isinstance(payload, EncodedBody):
                assert payload.throttled is not None, "every such answer has a throttle time"
                return Throttled(payload._replace(chunks=payload.throttled(longest_ms)), longest_ms)
            return Throttled(throttled(payload, longest_ms), longest_ms)
        case _:
            return throttled(response, throttle_ms)


def throttled(response: P, throttle_ms: int) -> P:
    """The response with the throttle time; unchanged if its version has no field for it."""
    if not hasattr(response, _THROTTLE_TIME):
        return response
    throttle_time = i32Timedelta.parse(timedelta(milliseconds=throttle_ms))
    return cast(P, replace(cast(Any, response), **{_THROTTLE_TIME: throttle_time}))
