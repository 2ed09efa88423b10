"""The exception by which a handler refuses a request: error code and message for the client."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError


class RequestRefused(ZkControllerError):
    """A request, or one part of it, is refused; the client may get ``message``."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def before_producer_fenced(error: ErrorCode, api_version: int, fenced_since: int) -> ErrorCode:
    """The error; below version ``fenced_since`` INVALID_PRODUCER_EPOCH for PRODUCER_FENCED.

    Source: KIP-588.
    """
    if error is ErrorCode.producer_fenced and api_version < fenced_since:
        return ErrorCode.invalid_producer_epoch
    return error
