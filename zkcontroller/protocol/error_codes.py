"""Kafka's error codes by name, and the one mapping from our exceptions to them.

Source: Kafka ``Errors``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from zkcontroller.errors import (
    ConfigInvalid,
    ControllerMoved,
    InconsistentClusterId,
    InvalidFrame,
    UnsupportedVersion,
    ZkControllerError,
)

_NAMES: Final[dict[int, str]] = {code.value: code.name.upper() for code in ErrorCode}

# Most specific first: UnsupportedVersion is an InvalidFrame.
_BY_EXCEPTION: Final[tuple[tuple[type[ZkControllerError], ErrorCode], ...]] = (
    (UnsupportedVersion, ErrorCode.unsupported_version),
    (InvalidFrame, ErrorCode.invalid_request),
    (ControllerMoved, ErrorCode.stale_controller_epoch),
    (ConfigInvalid, ErrorCode.invalid_config),
    (InconsistentClusterId, ErrorCode.inconsistent_cluster_id),
)


def error_name(code: int) -> str:
    """``NOT_CONTROLLER`` for 41; the number itself for a code that Kafka 3.9 does not know."""
    return _NAMES.get(code, str(code))


def error_code(name: str) -> ErrorCode:
    """The code called ``NOT_CONTROLLER``; KeyError if Kafka 3.9 has none of that name."""
    return ErrorCode[name.lower()]


def error_code_for(error: BaseException) -> ErrorCode:
    """What to answer a client whose request ended with that exception.

    Whatever is not expected is UNKNOWN_SERVER_ERROR, as in Kafka, ZooKeeper's troubles too.
    """
    return next(
        (code for kind, code in _BY_EXCEPTION if isinstance(error, kind)),
        ErrorCode.unknown_server_error,
    )
