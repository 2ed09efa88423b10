"""Kafka's log files as log4j writes them: names, routing, levels, layout, hourly roll.

Python's loggers carry Kafka's class names
(``logging.getLogger("kafka.controller.KafkaController")``) and end up in the files that Kafka's
default ``log4j.properties`` gives them:

==========================================================  ====================  ===============
logger and below                                            file                  level
==========================================================  ====================  ===============
root (also to stdout)                                       server.log            INFO
``kafka.controller``                                        controller.log        TRACE
``org.apache.kafka.controller``                             controller.log        INFO
``state.change.logger``                                     state-change.log      INFO
``kafka.request.logger``, ``kafka.network.RequestChannel$``  kafka-request.log     WARN
``kafka.log.LogCleaner``                                    log-cleaner.log       INFO
``kafka.authorizer.logger``                                 kafka-authorizer.log  INFO
==========================================================  ====================  ===============

No caller waits for the disk: a call queues the record with its time, and one thread formats and
writes it some 200 ms later.  While the controller processes an event, many state changes may wait
up to 5 s.  The queue is limited in bytes (:data:`PENDING_BYTES_CAPACITY`); further records are
dropped, and their number is logged.  A state change (:attr:`state_changes`) becomes a line of
``state-change.log`` and a line of ``state-changes.jsonl``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TextIO

from typing_extensions import override

from kafka_common.observability.log_text import LEVEL_NAMES, TRACE, throwable_text
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER
from zkcontroller.state_changes.log_writer import LogWriter
from zkcontroller.state_changes.record import StateChange

LEVELS: Final[Mapping[str, int]] = {name: number for number, name in LEVEL_NAMES.items()}
"""log4j's levels by name, as Python's numbers."""

_FILE_OF: Final = {
    "": "server.log",
    "kafka.controller": "controller.log",
    "org.apache.kafka.controller": "controller.log",
    STATE_CHANGE_LOGGER: "state-change.log",
    "kafka.request.logger": "kafka-request.log",
    "kafka.network.RequestChannel$": "kafka-request.log",
    "kafka.log.LogCleaner": "log-cleaner.log",
    "kafka.authorizer.logger": "kafka-authorizer.log",
}

DEFAULT_LEVELS: Final[Mapping[str, str]] = {
    "": "INFO",
    "kafka.controller": "TRACE",
    "org.apache.kafka.controller": "INFO",
    STATE_CHANGE_LOGGER: "INFO",
    "kafka.request.logger": "WARN",
    "kafka.network.RequestChannel$": "WARN",
    "kafka.log.LogCleaner": "INFO",
    "kafka.authorizer.logger": "INFO",
    # Kafka does not have these libraries, so their INFO lines must not be in server.log.
    "asyncio": "WARN",
    "kazoo": "WARN",
}


class StateChangeSink(Protocol):
    """Where records of state changes are written."""

    def write(self, records: Sequence[StateChange]) -> None:
        """Queues records with the current time; any thread may call, without waiting for disk."""


def install_log_files(
    directory: Path,
    *,
    broker_id: int,
    levels: Mapping[str, str] | None = None,
    stdout: bool = True,
) -> LogFiles:
    """Routes Python's logging into Kafka's log files until :meth:`LogFiles.close`.

    ``levels`` overrides :data:`DEFAULT_LEVELS` logger by logger (``{"state.change.logger":
    "TRACE"}``); ``stdout`` repeats the content of server.log on standard output.  Call it once per
    process, because Python's loggers are global.  A directory that cannot be written is reported on
    stderr; no error is raised.
    """
    return LogFiles(directory, broker_id, {**DEFAULT_LEVELS, **(levels or {})}, stdout)


class LogFiles:
    """Kafka's log files of one broker; :func:`install_log_files` creates it."""

    def __init__(
        self, directory: Path, broker_id: int, levels: Mapping[str, str], stdout: bool
    ) -> None:
        self.directory = directory
        self.broker_id = broker_id
        console: TextIO | None = sys.stdout if stdout else None
        level_of_state_changes = levels[STATE_CHANGE_LOGGER]
        self._writer = LogWriter(
            directory,
            files=sorted(set(_FILE_OF.values())),
            console=console,
            state_change_levels=_levels_from(level_of_state_changes),
        )
        self.state_changes: StateChangeSink = self._writer
        """Thread-safe sink of state changes."""
        self.is_tracing_state_changes = level_of_state_changes == "TRACE"
        """Whether state changes of level TRACE are written, so that they must be made."""

        self._restore: list[tuple[logging.Logger, int, bool, logging.Handler | None]] = []
        logging.addLevelName(TRACE, "TRACE")
        for name in sorted({*_FILE_OF, *levels}):
            self._attach(name, levels.get(name))

    def give_way(self, is_awaited: Callable[[], bool]) -> None:
        """Delays the writing of many state changes while ``is_awaited`` returns True."""
        self._writer.is_awaited = is_awaited

    def flush(self) -> bool:
        """Waits until all records logged so far are written; False if that takes too long."""
        return self._writer.flush()

    def close(self) -> None:
        """Restores Python's loggers, writes the queued lines and closes the files."""
        while self._restore:
            logger, level, propagate, handler = self._restore.pop()
            logger.setLevel(level)
            logger.propagate = propagate
            if handler is not None:
                logger.removeHandler(handler)
        self._writer.close()

    def _attach(self, name: str, level_name: str | None) -> None:
        logger = logging.getLogger(name)
        file_name = _FILE_OF.get(name)
        handler = _QueueHandler(self._writer, file_name) if file_name is not None else None
        self._restore.append((logger, logger.level, logger.propagate, handler))
        if level_name is not None:
            logger.setLevel(_number_of(level_name))
        if handler is not None:
            logger.addHandler(handler)
            # log4j's additivity=false: lines of controller.log are not in server.log as well.
            logger.propagate = False


class _QueueHandler(logging.Handler):
    """Passes log records to the writer."""

    def __init__(self, writer: LogWriter, file_name: str) -> None:
        super().__init__()
        self._writer = writer
        self._file_name = file_name

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        # Handler's lock is not taken, because the writer has its own.
        is_wanted = bool(self.filter(record))
        if is_wanted:
            self.emit(record)
        return is_wanted

    @override
    def emit(self, record: logging.LogRecord) -> None:
        # Arguments may change later, so the message is made now; the writer makes the line.
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            self.handleError(record)
            return
        cause = getattr(record, "cause", None)
        if cause is None and record.exc_info and record.exc_info[1] is not None:
            cause = throwable_text(record.exc_info[1])
        level = LEVEL_NAMES.get(record.levelno, record.levelname)
        self._writer.log(self._file_name, record.created, level, record.name, message, cause)

    @override
    def flush(self) -> None:
        self._writer.flush()


def log_line(logger: str, level: str, message: str, cause: str | None = None) -> None:
    """Logs a line under Kafka's name for level and logger.

    ``cause`` is the exception's text as Java prints it, for the lines after the message:
    ``class: message``, then indented lines.
    """
    number = _number_of(level)
    found = logging.getLogger(logger)
    if found.isEnabledFor(number):
        found.log(number, "%s", message, extra=None if cause is None else {"cause": cause})


def _number_of(level: str) -> int:
    return LEVELS[level]


def _levels_from(lowest: str) -> frozenset[str]:
    return frozenset(name for name, number in LEVELS.items() if number >= _number_of(lowest))
