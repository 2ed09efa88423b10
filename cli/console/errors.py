"""Errors of verbs: one clear sentence and one stable exit code.

The codes are part of the interface (docs/zkctl.md): scripts branch on them, so none ever changes
its meaning.
"""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Final

from kafka_common import errors

ZOOKEEPER_AUTH: Final = "ZKCTL_ZOOKEEPER_AUTH"
"""The environment variable with the credentials at ZooKeeper."""


class ExitCode(IntEnum):
    """The exit codes of ``zkctl``."""

    OK = 0
    FINDING = 1
    """A verb that checks (``--check``) or compares has found something."""
    USAGE = 2
    NOT_CHECKED = 2
    """A verb that compares or checks has found nothing, and could not look at everything."""
    CANNOT_CONNECT = 3
    TIMED_OUT = 4
    REFUSED = 5
    """A precondition does not hold (no such topic, ``--yes`` missing), or a server refused."""
    OUTPUT_LOST = 74
    """The verb has run, but its result could not be written to stdout (EX_IOERR)."""
    INTERNAL = 70
    """A defect of zkctl itself (EX_SOFTWARE of sysexits.h); ``--debug`` shows where."""
    INTERRUPTED = 130


class CommandFailed(errors.ZkControllerError):
    """A verb has failed; the message is the one sentence that the user reads."""

    exit_code = ExitCode.REFUSED


class Refused(CommandFailed):
    """A precondition does not hold, a server refused a request, or a change is incomplete."""


class ApiNotKnown(Refused):
    """The broker's version of Kafka does not have this request, so it was not sent."""


class BadUsage(CommandFailed):
    """The command line contradicts itself or lacks something."""

    exit_code = ExitCode.USAGE


class CannotConnect(CommandFailed):
    """No server answers at the address."""

    exit_code = ExitCode.CANNOT_CONNECT


class NotLetIn(CannotConnect):
    """A server answers at the address, and refuses the login."""


class NotChecked(CommandFailed):
    """A verb could not read what it should check or compare."""

    exit_code = ExitCode.NOT_CHECKED


class TimedOut(CommandFailed):
    """An expected response or change did not come before the deadline.

    ``option`` is the option with which the verb waits longer.
    """

    exit_code = ExitCode.TIMED_OUT

    def __init__(self, message: str, *, option: str = "--timeout") -> None:
        super().__init__(message)
        self.option = option


class OutputLost(CommandFailed):
    """The result could not be written."""

    exit_code = ExitCode.OUTPUT_LOST


class ReaderGone(Exception):
    """The program that reads stdout has closed it (``zkctl … | head``), which is no error."""


def sentence_of(error: BaseException) -> str:
    """The error's message for the user, with a hint if ZooKeeper requires a login."""
    sentence = str(error) or type(error).__name__
    if isinstance(error, errors.ZooKeeperRefused) and error.code_name in ("NO_AUTH", "AUTH_FAILED"):
        sentence += f": {_right_text()}"
    return sentence


def _right_text() -> str:
    if os.environ.get(ZOOKEEPER_AUTH):
        return f"the user of {ZOOKEEPER_AUTH} has no right to it"
    return (
        f"say who you are with {ZOOKEEPER_AUTH}=digest:USER:PASSWORD or sasl:USER:PASSWORD, "
        "or show the certificate of another user by --zk-tls-config-file"
    )


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code for an exception."""
    match error:
        case CommandFailed():
            return error.exit_code
        case errors.ZooKeeperUnavailable() | errors.SessionExpired() | ConnectionError():
            return ExitCode.CANNOT_CONNECT
        case TimeoutError():
            return ExitCode.TIMED_OUT
        case errors.ConfigInvalid():
            return ExitCode.USAGE
        case errors.ZkControllerError():
            return ExitCode.REFUSED
        case _:
            return ExitCode.INTERNAL
