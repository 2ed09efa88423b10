"""How a manager of the controller refuses: a code of Kafka's protocol, and a sentence.

As a value where an answer has one for each of its parts (:class:`ApiError`), as an exception where
the whole request ends (:class:`ApiException`).

Source: Kafka ``ApiError``, ``ApiException``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from zkcontroller.errors import ZkControllerError

LONGEST_MESSAGE: Final = 8_000
"""Characters.  A sentence may quote a client, and a string of the wire has 32,767 bytes."""


def clipped(message: str | None) -> str | None:
    """The sentence, cut off where it is too long to be sent."""
    if message is None or len(message) <= LONGEST_MESSAGE:
        return message
    return message[:LONGEST_MESSAGE] + "…"


class ApiError(NamedTuple):
    """The outcome of one part of a request; ``message`` is None where Kafka sends null."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None

    @property
    def is_failure(self) -> bool:
        return self.error is not ErrorCode.none


NO_ERROR: Final = ApiError()


class ApiException(ZkControllerError):
    """A request, or the part of it that is being looked at, is refused."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        self.message = clipped(message)
        super().__init__(self.message or error.name)
        self.error = error

    def to_error(self) -> ApiError:
        """The same as a value."""
        return ApiError(self.error, self.message)
