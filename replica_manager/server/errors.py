"""How a handler refuses: an exception with the wire's code and a sentence for the client."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from zkcontroller.errors import ZkControllerError


class RequestRefused(ZkControllerError):
    """A request, or one topic of it, is refused; ``message`` may go to the client."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def before_producer_fenced(error: ErrorCode, api_version: int, fenced_since: int) -> ErrorCode:
    """The error as clients know it: PRODUCER_FENCED is new in a version of each API (KIP-588)."""
    if error is ErrorCode.producer_fenced and api_version < fenced_since:
        return ErrorCode.invalid_producer_epoch
    return error
