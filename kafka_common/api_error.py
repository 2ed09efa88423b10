"""Errors of the controller's managers: Kafka's error code and a message.

:class:`ApiError` is the error of one part of a response.  :class:`ApiException` is raised and ends
the request or the part.

Source: Kafka ``ApiError``, ``ApiException``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError


class ApiError(NamedTuple):
    """The result of one part of a request; ``message`` is None where Kafka sends null."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None

    @property
    def is_failure(self) -> bool:
        return self.error is not ErrorCode.none


NO_ERROR: Final = ApiError()
_EXCEPTION_NAMES: Final = {
    ErrorCode.request_timed_out: "TimeoutException",
    ErrorCode.unknown_server_error: "UnknownServerException",
}
"""Kafka's classes of exceptions that are not called as their errors."""


def exception_name(error: ErrorCode) -> str:
    """Kafka's class of an error, for log lines: ``NotControllerException``."""
    words = error.name.removesuffix("_exception").split("_")
    return _EXCEPTION_NAMES.get(error) or f"{''.join(map(str.capitalize, words))}Exception"


class ApiException(ZkControllerError):
    """A request, or one part of it, is refused."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        self.message = message
        super().__init__(message or error.name)
        self.error = error

    def to_error(self) -> ApiError:
        """The same as an :class:`ApiError`."""
        return ApiError(self.error, self.message)
