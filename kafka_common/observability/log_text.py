"""Formats log lines, times and exceptions as log4j prints them.

Source: log4j 1.2 ``PatternLayout`` with ``[%d] %p %m (%c)%n``, ``Throwable.printStackTrace``.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from typing import Final

from typing_extensions import override

from kafka_common import errors

JAVA_CLASS_OF: Final[dict[type[BaseException], str]] = {
    errors.ControllerMoved: "org.apache.kafka.common.errors.ControllerMovedException",
    errors.StateChangeFailed: "kafka.common.StateChangeFailedException",
    errors.IllegalState: "java.lang.IllegalStateException",
    errors.SessionExpired: "org.apache.zookeeper.KeeperException$SessionExpiredException",
    errors.AuthenticationFailed: "org.apache.zookeeper.KeeperException$AuthFailedException",
    errors.UnsupportedVersion: "org.apache.kafka.common.errors.UnsupportedVersionException",
    errors.InvalidFrame: "org.apache.kafka.common.errors.InvalidRequestException",
    errors.ConfigInvalid: "org.apache.kafka.common.config.ConfigException",
    errors.InvalidRecord: "org.apache.kafka.common.InvalidRecordException",
    errors.InvalidTimestamp: "org.apache.kafka.common.errors.InvalidTimestampException",
    errors.UnsupportedCompressionType: (
        "org.apache.kafka.common.errors.UnsupportedCompressionTypeException"
    ),
    errors.UnsupportedForMessageFormat: (
        "org.apache.kafka.common.errors.UnsupportedForMessageFormatException"
    ),
    errors.OutOfOrderSequence: "org.apache.kafka.common.errors.OutOfOrderSequenceException",
    errors.InvalidProducerEpoch: "org.apache.kafka.common.errors.InvalidProducerEpochException",
    errors.InvalidTxnState: "org.apache.kafka.common.errors.InvalidTxnStateException",
    errors.TransactionCoordinatorFenced: (
        "org.apache.kafka.common.errors.TransactionCoordinatorFencedException"
    ),
    errors.InconsistentClusterId: "kafka.common.InconsistentClusterIdException",
    TimeoutError: "java.net.SocketTimeoutException",
    OSError: "java.io.IOException",
}
"""The Java class that Kafka's log names for the same error."""

TRACE: Final = 5
LEVEL_NAMES: Final = {
    TRACE: "TRACE",
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}
"""log4j's names for Python's levels."""

_CAUSES_CAPACITY: Final = 8


def throwable_text(error: BaseException) -> str:
    """The exception as Java prints it: ``class: message``, indented stack frames, causes."""
    lines: list[str] = []
    for position, link in enumerate(_chain(error)):
        said = _message(link)
        head = f"{java_class(link)}: {said}" if said else java_class(link)
        lines.append(head if position == 0 else f"Caused by: {head}")
        frames = traceback.extract_tb(link.__traceback__)
        # Java prints the innermost call first.
        lines.extend(
            f"\tat {frame.name}({frame.filename.rpartition('/')[2]}:{frame.lineno})"
            for frame in reversed(frames)
        )
    return "\n".join(lines)


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_CAUSES_CAPACITY):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _message(error: BaseException) -> str:
    """The exception's message; for a failed system call ``file (reason)``, as in Java."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename} ({error.strerror})"


def java_class(error: BaseException) -> str:
    """The Java class that Kafka's log names for the same error; Python's if there is none."""
    for kind in type(error).__mro__:
        if kind in JAVA_CLASS_OF:
            return JAVA_CLASS_OF[kind]
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


class Clock:
    """Formats local time as log4j's ``%d``; the text of a second is made once."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, time_s: float) -> str:
        """The time as text, such as ``2026-11-20 18:08:31,404``."""
        millis = int(time_s * 1000)
        second = millis // 1000
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._text},{millis % 1000:03d}"


def line_text(stamp: str, level: str, logger: str, message: str, cause: str | None = None) -> str:
    """One log record with its line end, and the text of its exception on the lines after it."""
    tail = "" if cause is None else f"{cause}\n"
    return f"[{stamp}] {level} {message} ({logger})\n{tail}"


class Log4jFormatter(logging.Formatter):
    """Formats a whole record as Kafka's ``log4j.properties`` has it."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = Clock()

    @override
    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        text = line_text(
            self._clock.text(record.created),
            LEVEL_NAMES.get(record.levelno, record.levelname),
            record.name,
            record.getMessage(),
            None if error is None else throwable_text(error),
        )
        return text.removesuffix("\n")
