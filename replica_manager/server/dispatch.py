"""From a request frame to its response frame: decodes, authorizes and runs the handler.

Only APIs with a handler are supported and offered to clients.  An invalid frame, or a request of an
unsupported API or version, closes the connection without a response; ApiVersions gets a response
in any version.  If a handler raises, the response has the error code of the exception.

Source: Kafka ``RequestContext.parseRequest``, ``KafkaApis.handle``, ``RequestHandlerHelper``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar, cast

from kio.schema.errors import ErrorCode

from kafka_common.errors import UnsupportedVersion, ZkControllerError
from kafka_common.protocol.api_versions import (
    APIS,
    ApiKey,
    unsupported_api_versions_response,
)
from kafka_common.protocol.error_codes import error_code_for, error_name
from kafka_common.protocol.framing import frame, parse_request_header, response_header
from kafka_common.protocol.messages import read_request
from kafka_common.protocol.produce import TooManyPartitions, read_produce_request
from kafka_common.protocol.responses import write_response
from replica_manager.log.files import FileSlice
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.network.connection import Begun, Peer, ResponseFrame
from replica_manager.quotas.loop_time import Timed
from replica_manager.quotas.quota_managers import RequestUsage
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import check_cluster_gate
from replica_manager.server.context import (
    BrokerContext,
    EncodedBody,
    Handler,
    Later,
    RequestContext,
    Response,
    Throttled,
    Unanswered,
)
from replica_manager.server.error_counts import ErrorCounts, error_counts
from replica_manager.server.handlers import fetch, produce, update_metadata
from replica_manager.server.large_responses import READ_ASIDE_BYTES, encoded
from replica_manager.server.request_metrics import RequestTimes
from replica_manager.server.throttled_responses import counted, counted_as_clients, used

R = TypeVar("R")

_log = logging.getLogger("kafka.server.KafkaApis")


# Decoders of our own, for requests with many partitions or frequent ones; kio decodes the others.
READERS: Final[Mapping[int, Callable[[int, bytes, int], object]]] = {
    int(handler.API_KEY): handler.read for handler in (update_metadata, produce, fetch)
}

PRODUCED_PARTITIONS_AT_ONCE: Final = 2_000
"""The most topics and partitions of a Produce request decoded on the event loop: some 3 ms."""

READ_FAST_ASIDE_BYTES: Final = 64 * 1024
"""A request of READERS with at least this many bytes is decoded in a thread.

The limit for other requests is READ_ASIDE_BYTES.
"""


class _Request(NamedTuple):
    """A request that is handled."""

    data: bytes
    start: int
    """Where its header ends in ``data``."""
    context: RequestContext
    broker: BrokerContext
    times: RequestTimes | None
    """None to measure nothing."""


async def respond(data: bytes, peer: Peer, broker: BrokerContext) -> Begun:
    """The response frame to the request in ``data``; InvalidFrame closes the connection.

    Of a handler that responds later, what waits for the frame; not while quotas are enforced, as a
    client that is throttled is muted before its next request.
    """
    header, start = parse_request_header(data)
    usage = None
    if broker.quotas.is_enabled and peer.is_in:
        usage = broker.quotas.begin(peer.principal.name, header.client_id or "", len(data))
    context = RequestContext(
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id or "",
        peer.listener_name,
        peer.address,
        peer.principal,
        usage,
        peer.is_token_authenticated,
    )
    times = None
    if broker.request_metrics is not None:
        times = broker.request_metrics.begin(len(data))
    request = _Request(data, start, context, broker, times)
    try:
        response = await _in_turns(_response(request), usage)
    finally:
        if times is not None:
            # The request is still in the queue if it could not be decoded, so that no handler ran.
            times.leave_queue()
    if not isinstance(response, Later):
        return await _finished(request, response)
    then = partial(_finished_later, request, response)
    return then if usage is None else await then()


async def _finished_later(request: _Request, later: Later) -> ResponseFrame:
    response = await _in_turns(later.response(), request.context.usage)
    return await _finished(request, response)


def _in_turns(responding: Coroutine[Any, Any, R], usage: RequestUsage | None) -> Awaitable[R]:
    """The same, with its time on the event loop counted for the client's quotas."""
    return responding if usage is None else Timed(responding, usage.loop_time)


async def _finished(request: _Request, response: Response) -> ResponseFrame:
    """The frame of the response, with what the quotas and the metrics have to do with it."""
    data, start, context, broker, times = request
    usage = context.usage
    if usage is not None:
        response = counted(response, context, usage)
    # An unsupported ApiVersions version gets a response of version 0, whose header is the same.
    head = response_header(context.api_key, context.api_version, context.correlation_id)
    try:
        answer = await _encoded(head, response, context, times, len(data))
    except Exception:  # noqa: BLE001 - an encoding failure must not end the connection loop
        error = ErrorCode.unknown_server_error
        _log_failure(context, broker, error)
        # Decode the request again: keeping it until here would cost memory for every request.
        decoded, handler = await _request_in(data, start, context), broker.handlers[context.api_key]
        response = await _refused(handler, decoded, context, len(data), error)
        answer = await _encoded(head, response, context, times, len(data))
    if usage is not None:
        answer = used(answer, usage)
    if times is not None:
        answer = answer._replace(sent=(*answer.sent, partial(times.sent, answer.mute_ms)))
    return answer


async def _encoded_aside(response: Response, request_bytes: int) -> Response:
    """The response; if the request was large, the response is encoded in a thread."""
    if request_bytes < READ_ASIDE_BYTES:
        return response
    match response:
        case EncodedBody() | Unanswered():
            return response
        case Throttled(payload, throttle_ms):
            if isinstance(payload, EncodedBody):
                return response
            return Throttled(await asyncio.to_thread(encoded, payload), throttle_ms)
        case _:
            return await asyncio.to_thread(encoded, response)


async def _encoded(
    head: bytes,
    response: Response,
    context: RequestContext,
    times: RequestTimes | None,
    request_bytes: int,
) -> ResponseFrame:
    response = await _encoded_aside(response, request_bytes)
    with nullcontext() if context.usage is None else context.usage.loop_time.turn():
        if times is None:
            return _answer(head, response)
        with times.encoding():
            answer = _answer(head, response)
        times.answered(*_measured_of(context.api_key, response))
        return answer


def _measured_of(api_key: int, response: Response) -> tuple[ErrorCounts, RecordConversions]:
    """The errors in the response, and the cost of its message conversions."""
    match response:
        case EncodedBody(_, errors, conversions, _) | Unanswered(_, errors, conversions):
            return errors(), conversions
        case Throttled(payload, _):
            return _measured_of(api_key, payload)
        case _:
            return error_counts(api_key, response), NO_CONVERSIONS


def _answer(head: bytes, response: Response) -> ResponseFrame:
    match response:
        case EncodedBody(chunks=chunks):
            return _framed([head, *chunks])
        case Throttled(payload, throttle_ms):
            return _answer(head, payload)._replace(mute_ms=throttle_ms)
        case Unanswered(closes, _, _):
            return ResponseFrame(b"", closes=closes)
        case _:
            return ResponseFrame(frame((head, write_response(response))))


def _framed(chunks: Sequence[bytes | FileSlice]) -> ResponseFrame:
    """The chunks as one frame; consecutive bytes are joined."""
    parts: list[bytes | FileSlice] = []
    for kind, together in groupby(chunks, type):
        if kind is FileSlice:
            parts.extend(together)
        else:
            parts.append(b"".join(cast(Iterator[bytes], together)))
    size = sum(map(len, parts))
    first, *rest = parts
    assert isinstance(first, bytes), "a header comes first"
    return ResponseFrame(size.to_bytes(4, "big") + first, rest=rest)


async def _response(request: _Request) -> Response | Later:
    data, start, context, broker, times = request
    handler = broker.handlers.get(context.api_key)
    if handler is None:
        raise UnsupportedVersion(f"{APIS[context.api_key].name} is not answered here")
    first, last = handler.VERSIONS
    if not first <= context.api_version <= last:
        if context.api_key == ApiKey.API_VERSIONS:
            return unsupported_api_versions_response()
        raise UnsupportedVersion(
            f"{APIS[context.api_key].name} version {context.api_version} is not answered here"
        )
    decoded = await _request_in(data, start, context)
    if times is not None:
        times.begin_handling(context.api_key, context.api_version, decoded)

    def handle() -> Coroutine[Any, Any, Response | Later]:
        check_cluster_gate(context, broker)
        return handler.handle(decoded, context, broker)

    refused_with = partial(_refused, handler, decoded, context, len(data))
    response = await _guarded(request, refused_with, handle)
    if not isinstance(response, Later):
        return response
    return Later(partial(_guarded, request, refused_with, response.response))


async def _guarded(
    request: _Request,
    refused_with: Callable[[ErrorCode], Awaitable[Response]],
    handle: Callable[[], Coroutine[Any, Any, R]],
) -> R | Response:
    """What the handler returns; if it raises, the response with the error."""
    _, _, context, broker, times = request
    try:
        handling = handle()
        return await (handling if times is None else times.timed(handling))
    except RequestRefused as refused:
        response = await refused_with(refused.error)
        if context.usage is None or refused.error is not ErrorCode.cluster_authorization_failed:
            return response
        return counted_as_clients(response, context.usage)
    except ZkControllerError as failure:
        error = error_code_for(failure)
        _log_failure(context, broker, error)
        return await refused_with(error)
    except Exception:  # noqa: BLE001 - a defect in one handler must not end the connection loop
        _log_failure(context, broker, ErrorCode.unknown_server_error)
        return await refused_with(ErrorCode.unknown_server_error)


async def _refused(
    handler: Handler, request: object, context: RequestContext, request_bytes: int, error: ErrorCode
) -> Response:
    if request_bytes < READ_ASIDE_BYTES:
        return handler.refuse(request, context, error)
    return await asyncio.to_thread(handler.refuse, request, context, error)


def refusal(handlers: Mapping[int, Handler], data: bytes, error: ErrorCode) -> bytes | None:
    """The response frame with ``error`` to the request in ``data``; None if not supported."""
    header, start = parse_request_header(data)
    handler = handlers.get(header.api_key)
    if handler is None or not handler.VERSIONS[0] <= header.api_version <= handler.VERSIONS[1]:
        return None
    context = RequestContext(
        header.api_key, header.api_version, header.correlation_id, header.client_id or "", "", ""
    )
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return _answer(head, handler.refuse(_read(context, data, start), context, error)).frame


async def _request_in(data: bytes, start: int, context: RequestContext) -> object:
    """Decodes the request, in a thread if it is large."""
    if context.api_key == ApiKey.PRODUCE:
        # A Produce is decoded here whatever its size: its records are not decoded yet, and it
        # mostly has few partitions.
        with suppress(TooManyPartitions):
            return read_produce_request(
                context.api_version, data, start, PRODUCED_PARTITIONS_AT_ONCE
            )
        return await asyncio.to_thread(_read, context, data, start)
    is_fast = context.api_key in READERS
    if len(data) >= (READ_FAST_ASIDE_BYTES if is_fast else READ_ASIDE_BYTES):
        return await asyncio.to_thread(_read, context, data, start)
    return _read(context, data, start)


def _read(context: RequestContext, data: bytes, start: int) -> object:
    read = READERS.get(context.api_key)
    if read is not None:
        return read(context.api_version, data, start)
    return read_request(context.api_key, context.api_version, data, start)


def _log_failure(context: RequestContext, broker: BrokerContext, error: ErrorCode) -> None:
    _log.error(
        "[KafkaApi-%d] Error when handling request: clientId=%s, correlationId=%d, api=%s, "
        "version=%d, listener=%s, answered with %s",
        broker.broker_id,
        context.client_id,
        context.correlation_id,
        APIS[context.api_key].name,
        context.api_version,
        context.listener_name,
        error_name(error),
        exc_info=True,
    )
