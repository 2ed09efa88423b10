"""Errors of verbs: one clear sentence and one stable exit code.

The codes are part of the interface (docs/zkctl.md): scripts branch on them, so none ever changes
its meaning.
"""

from __future__ import annotations

from enum import IntEnum

from kafka_common import errors


class ExitCode(IntEnum):
    """What ``zkctl`` answers its caller."""

    OK = 0
    FINDING = 1
    """Asked to check (``--check``) or to compare, and something was found."""
    USAGE = 2
    NOT_CHECKED = 2
    """A verb that compares or checks has found nothing, and could not look at everything."""
    CANNOT_CONNECT = 3
    TIMED_OUT = 4
    REFUSED = 5
    """A precondition does not hold: no such topic, directory in use, ``--yes`` missing."""
    OUTPUT_LOST = 74
    """It was done, but the result could not be written: stdout is full or closed (EX_IOERR)."""
    INTERNAL = 70
    """A defect of zkctl itself (EX_SOFTWARE of sysexits.h); ``--debug`` shows where."""
    INTERRUPTED = 130


class CommandFailed(errors.ZkControllerError):
    """A verb cannot go on; the message is the one sentence its user reads."""

    exit_code = ExitCode.REFUSED


class Refused(CommandFailed):
    """A precondition does not hold; nothing was done."""


class ApiNotKnown(Refused):
    """The broker is of a Kafka that does not have this request yet; it was not sent."""


class BadUsage(CommandFailed):
    """The command line contradicts itself or lacks something."""

    exit_code = ExitCode.USAGE


class CannotConnect(CommandFailed):
    """No server answers at the address."""

    exit_code = ExitCode.CANNOT_CONNECT


class NotLetIn(CannotConnect):
    """A server answers at the address, and refuses the login."""


class NotChecked(CommandFailed):
    """What is to be checked or compared could not be read."""

    exit_code = ExitCode.NOT_CHECKED


class TimedOut(CommandFailed):
    """It did not happen in the time allowed."""

    exit_code = ExitCode.TIMED_OUT


class OutputLost(CommandFailed):
    """The result could not be written."""

    exit_code = ExitCode.OUTPUT_LOST


class ReaderGone(Exception):
    """Who reads stdout has closed it (``zkctl … | head``): no error, it has what it wanted."""


def sentence_of(error: BaseException) -> str:
    """What the user reads of an error, with a hint where ZooKeeper wants a login."""
    sentence = str(error) or type(error).__name__
    if isinstance(error, errors.ZooKeeperRefused) and error.code_name in ("NO_AUTH", "AUTH_FAILED"):
        sentence += ": say who you are with ZKCTL_ZOOKEEPER_AUTH=digest:USER:PASSWORD"
    return sentence


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
