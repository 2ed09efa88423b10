"""Kafka requests to brokers: metadata from any broker, changes to the controller.

Requests are built in one version, the newest that is needed; :mod:`.versions` speaks to each
broker in a version that it knows.  asyncio and kio are imported with this module, so verbs import
it when they run.
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
from kafka_common.net.client_security import ClientSecurity, LoginRefused
from kafka_common.net.connection import Connection
from zkcontroller_cli.console.errors import BadUsage, CannotConnect, NotLetIn, Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.wire.versions import BrokerConnection

T = TypeVar("T")
TopicResult = CreatableTopicResult | DeletableTopicResult

_CONNECT_TIMEOUT_MS: Final = 5_000
_RETRY_S: Final = 0.1
_CLIENT_ID: Final = "zkctl"
_PATIENCE_S: Final = 5.0
"""A broker that is not the last one named has at most so long to answer."""
_ANSWER_GRACE_MS: Final = 2_000
"""A broker whose timeout is the deadline answers a little later."""
_SAID_OF_WHAT_IS_DONE: Final = frozenset(
    {
        ErrorCode.topic_already_exists,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_partitions,
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.resource_not_found,
    }
)
"""A controller that has made the change refuses its repetition with one of these."""


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
    """A moment until which a verb may go on."""

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
    """Do the work to its end on an event loop of its own."""
    return asyncio.run(work)


@asynccontextmanager
async def connected(
    addresses: Sequence[BrokerAddress], deadline: Deadline, security: ClientSecurity
) -> AsyncIterator[BrokerConnection]:
    """A connection to the first broker that answers; CannotConnect, with reasons, if none does.

    A frozen broker still accepts connections: where others are named after it, it has a share of
    the time, and the next one is asked.
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
    """Like :func:`connected`, for requests whose version the caller chooses."""
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
        hint = ""
        if connection.last_correlation_id <= 0 and security.protocol == "PLAINTEXT":
            hint = "; if it asks for TLS or a login, say how with --command-config FILE"
        raise CannotConnect(f"broker {address} broke off: {_reason(error)}{hint}") from error
    finally:
        await connection.close()


async def _open(
    address: BrokerAddress, deadline: Deadline, security: ClientSecurity, others: int = 0
) -> BrokerConnection:
    """Connects, and logs in where that is configured; raises OSError with the broker's address.

    If ``others`` brokers are left to ask, the broker must also say in time which versions it has.
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
        raise
    return connection


def _none_answered(reasons: Sequence[OSError]) -> CannotConnect:
    is_refused = any(isinstance(each, LoginRefused) for each in reasons)
    return (NotLetIn if is_refused else CannotConnect)("; ".join(map(_reason, reasons)))


async def ask_metadata(
    connection: BrokerConnection, topics: Sequence[str] | None = None
) -> MetadataResponse:
    """What a broker knows of the cluster and of some topics (None: of all, empty: of none)."""
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


async def ask_controller(
    bootstrap: Bootstrap,
    deadline: Deadline,
    ask: Callable[[BrokerConnection], Awaitable[list[T]]],
    *,
    changes_nothing: bool = False,
) -> list[T]:
    """Put a request to the controller, and again while it moves.

    A refusal that an earlier try may have caused, whose connection broke before the response, has
    the error code REQUEST_TIMED_OUT: whether the change was made is not known.

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
            raise TimedOut(f"{error}; {_not_known(unanswered)}") from error
        outcome = await _ask_named_controller(known, deadline, bootstrap.security, ask)
        if isinstance(outcome, list):
            if unanswered is None:
                return outcome
            return [_in_doubt(result, unanswered) for result in outcome]
        if outcome.was_sent and not changes_nothing:
            unanswered = outcome.reason
        if deadline.is_over:
            if unanswered is not None:
                raise TimedOut(f"no controller answered in time; {_not_known(unanswered)}")
            raise TimedOut(f"no controller took the request in time: {outcome.reason}")
        await asyncio.sleep(min(_RETRY_S, deadline.left_s))


class _NotAnswered(NamedTuple):
    """Why a request must be sent again, and whether a controller may have carried it out."""

    reason: str
    was_sent: bool


async def _ask_named_controller(
    known: MetadataResponse,
    deadline: Deadline,
    security: ClientSecurity,
    ask: Callable[[BrokerConnection], Awaitable[list[T]]],
) -> list[T] | _NotAnswered:
    """The controller's results; or why they must be asked for again."""
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


def _in_doubt(result: T, unanswered: str) -> T:
    """The result of a repetition, which is no refusal where the first try may be its cause."""
    code = getattr(result, "error_code", None)
    if code not in _SAID_OF_WHAT_IS_DONE:
        return result
    refusal: Any = result
    changed: T = replace(
        refusal,
        error_code=ErrorCode.request_timed_out,
        error_message=f"{refusal.error_message or error_text(code)}, when it was asked again; "
        f"{_not_known(unanswered)}",
    )
    return changed


def _not_known(unanswered: str) -> str:
    return f"whether an earlier try did it is not known, for {unanswered}"


async def create_topic(
    bootstrap: Bootstrap,
    deadline: Deadline,
    topic: create_topics.CreatableTopic,
    *,
    is_dry_run: bool = False,
) -> CreatableTopicResult:
    """Create a topic, or have that checked; the result may carry an error code."""

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
    """Why a broker did not do what was asked: Kafka's name of the code, and its message."""

    error: str
    reason: str


def refusal_of(code: ErrorCode, message: str | None = None) -> BrokerRefusal | None:
    """The refusal that the code stands for; None if it is no error."""
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
    """An error code in words, for brokers that send no message."""
    return code.name.replace("_", " ")


def timeout_of(deadline: Deadline) -> i32Timedelta:
    """What is left, as the timeout of a request."""
    return i32Timedelta.parse(timedelta(milliseconds=deadline.left_ms))


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
