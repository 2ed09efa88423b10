"""Kafka requests to brokers: metadata from any broker, changes to the controller.

Requests are built in the newest version that is needed; :mod:`.versions` translates them for a
broker that knows only an older one.  This module imports asyncio and kio, which is slow, so a verb
imports it only when it runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.create_topics.v7 import request as create_topics
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6 import request as delete_topics
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32Timedelta
from typing_extensions import override

from kafka_common.errors import InvalidFrame
from kafka_common.model import address_text
from kafka_common.net.byte_stream import TlsBrokenOff
from kafka_common.net.client_security import ClientSecurity, LoginRefused
from kafka_common.net.connection import Connection
from zkcontroller_cli.console.errors import BadUsage, CannotConnect, NotLetIn, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, say
from zkcontroller_cli.wire.versions import BrokerConnection

T = TypeVar("T")
TopicResult = CreatableTopicResult | DeletableTopicResult

_CONNECT_TIMEOUT_MS: Final = 5_000
_RETRY_S: Final = 0.1
_CLIENT_ID: Final = "zkctl"
_FIRST_AFTER_VERSIONS: Final = 1
"""The correlation id of the request after ApiVersions, which has 0."""
_PATIENCE_S: Final = 5.0
"""The most seconds a broker has to answer, if other brokers are left to ask."""
_ANSWER_GRACE_MS: Final = 2_000
"""Extra time to wait after the deadline, as a broker that times out then answers a little later."""
_REFUSALS_OF_A_REPETITION: Final = frozenset(
    {
        ErrorCode.topic_already_exists,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_partitions,
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.resource_not_found,
    }
)
"""Errors with which a controller may refuse a repeated request, as it made the change before."""


class BrokerAddress(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        return address_text(self.host, self.port)


def parse_bootstrap(text: str) -> list[BrokerAddress]:
    """The addresses of a ``host:port,host:port`` list; BadUsage if it is none."""
    addresses = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = item.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadUsage(f"{item!r} is not HOST:PORT, in the brokers' addresses {text!r}")
        addresses.append(BrokerAddress(host.strip("[]"), int(port)))
    if not addresses:
        raise BadUsage("the list of brokers is empty: say -b HOST:PORT")
    return addresses


class Deadline:
    """The moment by which a verb must have finished, ``seconds`` from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - time.monotonic())

    @property
    def left_ms(self) -> int:
        return max(1, round(self.left_s * 1000))

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a new event loop."""
    return asyncio.run(work)


@asynccontextmanager
async def connected(
    addresses: Sequence[BrokerAddress], deadline: Deadline, security: ClientSecurity
) -> AsyncIterator[BrokerConnection]:
    """A connection to the first broker that answers; CannotConnect, with reasons, if none does.

    A hanging broker still accepts connections.  So each broker but the last one must answer
    ApiVersions within its share of the time, else the next broker is tried.
    """
    reasons: list[OSError] = []
    for place, address in enumerate(addresses):
        others = len(addresses) - place - 1
        try:
            connection = await _open(address, deadline, security, others)
        except OSError as error:
            reasons.append(error)
            continue
        async with _until_broken_off(address, connection.raw, security):
            yield connection
        return
    raise _none_answered(reasons)


@asynccontextmanager
async def connected_raw(
    address: BrokerAddress, deadline: Deadline, security: ClientSecurity
) -> AsyncIterator[Connection]:
    """A connection to one broker, for requests whose version the caller chooses.

    CannotConnect if it does not answer.
    """
    try:
        connection = (await _open(address, deadline, security)).raw
    except OSError as error:
        raise _none_answered([error]) from error
    async with _until_broken_off(address, connection, security):
        yield connection


@asynccontextmanager
async def _until_broken_off(
    address: BrokerAddress, connection: Connection, security: ClientSecurity
) -> AsyncIterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise TimedOut(f"broker {address} did not answer in time") from error
    except (OSError, EOFError, InvalidFrame) as error:
        # A listener that wants a login closes at the first request after ApiVersions.
        is_early = (
            connection.last_correlation_id <= _FIRST_AFTER_VERSIONS and security.credentials is None
        )
        hint = _protocol_hint(error, security) if is_early else ""
        raise CannotConnect(f"broker {address} broke off: {_reason(error)}{hint}") from error
    finally:
        await connection.close()


async def _open(
    address: BrokerAddress, deadline: Deadline, security: ClientSecurity, others: int = 0
) -> BrokerConnection:
    """Connect, and log in if that is configured; raises OSError with the broker's address.

    If ``others`` brokers are left to ask, this broker must also answer ApiVersions in time.
    """
    patience_s = min(_PATIENCE_S, deadline.left_s / (others + 1)) if others else None
    raw = None
    try:
        async with asyncio.timeout(patience_s):
            raw = await Connection.open(
                address.host,
                address.port,
                client_id=_CLIENT_ID,
                connect_timeout_ms=min(_CONNECT_TIMEOUT_MS, deadline.left_ms),
                request_timeout_ms=deadline.left_ms + _ANSWER_GRACE_MS,
                security=security,
            )
            connection = BrokerConnection(raw)
            if others:
                await connection.ask_versions()
    except BaseException as error:
        if raw is not None:
            await raw.close()
        if isinstance(error, TimeoutError) and patience_s is not None:
            raise TimeoutError(f"{address} did not answer within {patience_s:.1f} s") from error
        if isinstance(error, EOFError | InvalidFrame):
            raise ConnectionError(f"{address} broke off: {_reason(error)}") from error
        if raw is None and (hint := _protocol_hint(error, security)):
            raise ConnectionError(f"{_reason(error)}{hint}") from error
        raise
    return connection


def _protocol_hint(error: BaseException, security: ClientSecurity) -> str:
    """What may be wrong if one of the first requests on a connection fails, empty if not known."""
    if isinstance(error, TlsBrokenOff):
        return ""
    is_closed = isinstance(error, ConnectionResetError | BrokenPipeError | EOFError)
    is_other_protocol = isinstance(error, InvalidFrame) or isinstance(error.__cause__, InvalidFrame)
    if not is_closed and not is_other_protocol:
        return ""
    if security.protocol == "PLAINTEXT":
        return "; if it asks for TLS or a login, say how with --command-config FILE"
    return f"; is security.protocol={security.protocol} right for this listener?"


def _none_answered(reasons: Sequence[OSError]) -> CannotConnect:
    is_refused = any(isinstance(each, LoginRefused) for each in reasons)
    return (NotLetIn if is_refused else CannotConnect)("; ".join(map(_reason, reasons)))


def say_what_is_hidden(bootstrap: Bootstrap, things: str) -> None:
    """Say of an empty list that it may lack what this user may not see.

    Brokers leave that out without an error.  Nothing is said where no login is configured.
    """
    if bootstrap.security.protocol != "PLAINTEXT":
        say(f"note: brokers show no {things}: there are none, or this user may describe none")


async def ask_metadata(
    connection: BrokerConnection, topics: Sequence[str] | None = None
) -> MetadataResponse:
    """A broker's Metadata response, with those topics (None: all topics, empty: none)."""
    wanted = (
        None
        if topics is None
        else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics)
    )
    response = await connection.request(
        MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    )
    assert isinstance(response, MetadataResponse), "request() answers in kind"
    return response


async def metadata(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str] | None = None
) -> MetadataResponse:
    """Metadata from the first broker that answers."""
    async with connected(
        parse_bootstrap(bootstrap.servers), deadline, bootstrap.security
    ) as connection:
        return await ask_metadata(connection, topics)


async def visible_metadata(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str] | None = None
) -> MetadataResponse:
    """Metadata of these topics; Refused if this user may not describe one that is named.

    Its row in the response has no partitions, which must not read as an empty topic.
    """
    response = await metadata(bootstrap, deadline, topics)
    for topic in response.topics:
        if topic.error_code is ErrorCode.topic_authorization_failed:
            raise Refused(
                f"this user may not see topic {topic.name}, that takes Describe on it "
                "(TOPIC_AUTHORIZATION_FAILED)"
            )
    return response


async def ask_controller(
    bootstrap: Bootstrap,
    deadline: Deadline,
    ask: Callable[[BrokerConnection], Awaitable[list[T]]],
    *,
    changes_nothing: bool = False,
) -> list[T]:
    """Send a request to the controller, again while the controller moves.

    If a connection broke before the response, that try may have made the change.  A refusal of the
    next try that this would explain is returned as REQUEST_TIMED_OUT: whether the change was made
    is not known.

    CannotConnect if none of the bootstrap servers answers, TimedOut if no controller takes the
    request before the deadline.
    """
    unanswered: str | None = None
    while True:
        try:
            known = await metadata(bootstrap, deadline, ())
        except (CannotConnect, TimedOut) as error:
            if unanswered is None:
                raise
            raise TimedOut(f"{error}; {_uncertainty_text(unanswered)}") from error
        outcome = await _ask_named_controller(known, deadline, bootstrap.security, ask)
        if isinstance(outcome, list):
            if unanswered is None:
                return outcome
            return [_uncertain_result(result, unanswered) for result in outcome]
        if outcome.was_sent and not changes_nothing:
            unanswered = outcome.reason
        if deadline.is_over:
            if unanswered is not None:
                raise TimedOut(f"no controller answered in time; {_uncertainty_text(unanswered)}")
            raise TimedOut(f"no controller took the request in time: {outcome.reason}")
        await asyncio.sleep(min(_RETRY_S, deadline.left_s))


class _NotAnswered(NamedTuple):
    """Why a request must be sent again, and whether a controller may have executed it."""

    reason: str
    was_sent: bool


async def _ask_named_controller(
    known: MetadataResponse,
    deadline: Deadline,
    security: ClientSecurity,
    ask: Callable[[BrokerConnection], Awaitable[list[T]]],
) -> list[T] | _NotAnswered:
    """The results of the controller in ``known``, or why the request must be sent again."""
    controller = next((b for b in known.brokers if b.node_id == known.controller_id), None)
    if controller is None:
        return _NotAnswered("the brokers know no controller", was_sent=False)
    was_sent = False
    try:
        address = BrokerAddress(controller.host, controller.port)
        async with connected([address], deadline, security) as connection:
            await connection.ask_versions()
            was_sent = True
            results = await ask(connection)
    except CannotConnect as error:
        return _NotAnswered(str(error), was_sent)
    if any(getattr(result, "error_code", None) is ErrorCode.not_controller for result in results):
        reason = f"broker {controller.node_id} is the controller no more"
        return _NotAnswered(reason, was_sent=False)
    return results


def _uncertain_result(result: T, unanswered: str) -> T:
    """The result of a repeated request.

    A refusal that the first try may have caused, if it was executed, becomes REQUEST_TIMED_OUT.
    """
    code = getattr(result, "error_code", None)
    if code not in _REFUSALS_OF_A_REPETITION:
        return result
    refusal: Any = result
    changed: T = replace(
        refusal,
        error_code=ErrorCode.request_timed_out,
        error_message=f"{refusal.error_message or error_text(code)}, when it was asked again; "
        f"{_uncertainty_text(unanswered)}",
    )
    return changed


def _uncertainty_text(unanswered: str) -> str:
    return f"whether an earlier try did it is not known, for {unanswered}"


async def create_topic(
    bootstrap: Bootstrap,
    deadline: Deadline,
    topic: create_topics.CreatableTopic,
    *,
    is_dry_run: bool = False,
) -> CreatableTopicResult:
    """Create a topic, or only check that (dry run); the result may carry an error code."""

    async def ask(connection: BrokerConnection) -> list[CreatableTopicResult]:
        response = await connection.request(
            create_topics.CreateTopicsRequest(
                topics=(topic,), timeout=timeout_of(deadline), validate_only=is_dry_run
            )
        )
        assert isinstance(response, CreateTopicsResponse), "request() answers in kind"
        return list(response.topics)

    return (await ask_controller(bootstrap, deadline, ask, changes_nothing=is_dry_run))[0]


async def delete_topics_named(
    bootstrap: Bootstrap, deadline: Deadline, names: Sequence[str]
) -> list[DeletableTopicResult]:
    """Delete topics; each result may carry an error code."""

    async def ask(connection: BrokerConnection) -> list[DeletableTopicResult]:
        wanted = tuple(
            delete_topics.DeleteTopicState(name=TopicName(name), topic_id=None) for name in names
        )
        response = await connection.request(
            delete_topics.DeleteTopicsRequest(topics=wanted, timeout=timeout_of(deadline))
        )
        assert isinstance(response, DeleteTopicsResponse), "request() answers in kind"
        return list(response.responses)

    return await ask_controller(bootstrap, deadline, ask)


class BrokerRefusal(NamedTuple):
    """Why a broker refused a request: the name of the error code, and the message."""

    error: str
    reason: str


def refusal_of(code: ErrorCode, message: str | None = None) -> BrokerRefusal | None:
    """The refusal for an error code; None if the code is no error."""
    if code is ErrorCode.none:
        return None
    return BrokerRefusal(code.name.upper(), message or error_text(code))


def raise_for(result: TopicResult) -> None:
    """Raises Refused or TimedOut with the broker's message, unless there is no error."""
    raise_for_code(f"topic {result.name}", result.error_code, result.error_message)


def raise_for_code(what: str, code: ErrorCode, message: str | None = None) -> None:
    """Raises Refused or TimedOut with the broker's message, unless there is no error."""
    if code is ErrorCode.none:
        return
    said = f"{what}: {message or error_text(code)} ({code.name.upper()})"
    raise TimedOut(said) if code is ErrorCode.request_timed_out else Refused(said)


def error_text(code: ErrorCode) -> str:
    """The name of an error code as words, for a response without a message."""
    if code is ErrorCode.throttling_quota_exceeded:
        return "the quota controller_mutation_rate is used up for now: try again a little later"
    return code.name.replace("_", " ")


def timeout_of(deadline: Deadline) -> i32Timedelta:
    """The time left until the deadline, as the timeout of a request."""
    return i32Timedelta.parse(timedelta(milliseconds=deadline.left_ms))


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
