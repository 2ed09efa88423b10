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
