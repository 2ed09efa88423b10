"""Sends a handler's request to the controller and converts the response.

The controller's result has an error code.  If it has no message, the response gets Kafka's default
message of that code, as in Kafka (``ApiError(Errors)``).

Source: Kafka ``KafkaController`` (the callbacks of its events), ``ApiError``, ``Errors``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext
from zkcontroller.core.effects import Result
from zkcontroller.core.events import RequestEvent

_SENTENCES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.feature_update_failed: (
        "Unable to update finalized features due to an unexpected server error."
    ),
    ErrorCode.no_reassignment_in_progress: "No partition reassignment is in progress.",
    ErrorCode.not_controller: "This is not the correct controller for this cluster.",
    ErrorCode.request_timed_out: "The request timed out.",
    ErrorCode.unknown_server_error: (
        "The server experienced an unexpected error when processing the request."
    ),
}

_R = TypeVar("_R", bound=Result)
_V = TypeVar("_V")


async def ask(
    broker: BrokerContext,
    make: Callable[[int], RequestEvent],
    kind: type[_R],
    timeout_ms: int = 0,
) -> _R:
    """The controller's result of the event that ``make`` builds from a request id.

    RequestRefused(REQUEST_TIMED_OUT) if too many requests wait for the controller, or after a
    timeout: ``timeout_ms`` of the client, or the time that a broker waits if that is longer.
    """
    result = await broker.administration.controller.ask(make, timeout_ms)
    if result is None:
        raise RequestRefused(ErrorCode.request_timed_out)
    assert isinstance(result, kind)
    return result


def sentence(error: ErrorCode, message: str | None = None) -> str | None:
    """``message``, or else Kafka's default message of the error code; None for NONE."""
    return message or _SENTENCES.get(error)


def by_topic(
    partitions: Sequence[tuple[TopicPartition, _V]],
) -> dict[str, list[tuple[int, _V]]]:
    """Partition results grouped by topic, in the given order."""
    grouped: dict[str, list[tuple[int, _V]]] = {}
    for tp, value in partitions:
        grouped.setdefault(tp.topic, []).append((tp.partition, value))
    return grouped


class _Timed(Protocol):
    @property
    def timeout(self) -> timedelta: ...


def timeout_ms_of(request: _Timed) -> int:
    """The request's timeout in milliseconds."""
    return round(request.timeout.total_seconds() * 1000)
