"""What an API's function is given beside the request, and what all of them share.

An API is one coroutine: ``answer(request, version, controller)``.  The controller's refusal of a
whole request reaches it as :class:`~zkcontroller.kraft.controller.api_error.ApiException`; it says
so in the terms of its message.

Source: Kafka ``ControllerApis``, ``ControllerRequestContext``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kio.static.protocol import ResponsePayload

from zkcontroller.kraft.controller.quorum_controller_requests import ControllerRequest

ZERO_UUID: Final = UUID(int=0)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Controller(Protocol):
    """The controller of this node, active or not."""

    async def ask(self, request: ControllerRequest, timeout_ms: int | None = None) -> Any:
        """Its answer, once that is committed; ApiException if it refuses.

        With ``timeout_ms`` it is not begun later than that.
        """


Answering: TypeAlias = Callable[[Any, int, Controller], Awaitable[ResponsePayload]]


class ControllerApi(NamedTuple):
    """One API: the versions that are answered, and by what."""

    first_version: int
    last_version: int
    answer: Answering


def uuid_or_zero(value: UUID | None) -> UUID:
    """An id of the wire; kio reads one of zeros as None."""
    return ZERO_UUID if value is None else value


def milliseconds(duration: timedelta) -> int:
    """A time of the wire."""
    return duration // _MILLISECOND
