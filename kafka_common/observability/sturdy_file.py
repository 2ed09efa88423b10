"""A log file that survives a full disk or a removed directory.

A failure is reported once on stderr.  Bytes that are written during the failure are lost and
counted.  Every second the next write opens the file again.  The first line after the failure says
how many bytes are missing.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka_common.observability.log_text import Clock, line_text
from kafka_common.observability.rolling_file import RollingFile

RETRY_S: Final = 1.0
"""Pause before a file that failed is opened again."""

LOST_LOGGER: Final = "kafka.utils.Logging"


class TroubleTeller:
    """Reports on stderr, once for all files, that files cannot be written."""

    def __init__(self) -> None:
        self._in_trouble: set[Path] = set()

    def failed(self, path: Path, error: OSError) -> None:
        """Reports that a file cannot be written, unless another file has failed already."""
        if not self._in_trouble:
            sys.stderr.write(
                f"cannot write {path}: {error.strerror or error}; "
                f"what is logged in {path.parent} is lost until it can be written again\n"
            )
        self._in_trouble.add(path)

    def recovered(self, path: Path) -> None:
        """Notes that a file can be written again."""
        self._in_trouble.discard(path)


class SturdyFile:
    """A rolling file whose methods never raise OSError.  For one thread."""

    def __init__(
        self,
        path: Path,
        teller: TroubleTeller,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = RollingFile(path)
        self._teller = teller
        self._monotonic_s = monotonic_s
        self._retry_s: float | None = None
        """The monotonic time in seconds of the next try; None while the file can be written."""
        self._unflushed_bytes = 0

    def open(self) -> None:
        """Opens or creates the file and the directories above it."""
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    def write(self, data: bytes, time_s: float) -> None:
        """Appends ``data``, logged at ``time_s`` (seconds since 1970), or counts it as lost."""
        if not data:
            return
        self._unflushed_bytes += len(data)
        if self._retry_s is not None and self._monotonic_s() < self._retry_s:
            return
        try:
            if self._retry_s is not None:
                self._open()
                self._retry_s = None
                self._file.write(self._loss_note(self._unflushed_bytes - len(data)), time_s)
            self._file.write(data, time_s)
        except OSError as error:
            self._fail(error)

    def flush(self) -> None:
        """Writes all buffered bytes to the operating system."""
        if self._retry_s is not None:
            return
        try:
            self._file.flush()
        except OSError as error:
            self._fail(error)
        else:
            # Only a flush shows that the file can be written: a write may end in the buffer.
            self._teller.recovered(self._file.path)
            self._unflushed_bytes = 0

    def close(self) -> None:
        """Flushes and closes."""
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)

    def _open(self) -> None:
        self._file.path.parent.mkdir(parents=True, exist_ok=True)
        self._file.open(time.time())

    def _fail(self, error: OSError) -> None:
        self._teller.failed(self._file.path, error)
        self._retry_s = self._monotonic_s() + RETRY_S
        # Closing flushes, which fails like the write did; the descriptor is released anyway.
        with contextlib.suppress(OSError):
            self._file.close()

    def _loss_note(self, lost_bytes: int) -> bytes:
        # Only log files get this line: the export (JSON lines) holds nothing but records.
        if self._file.path.suffix != ".log" or not lost_bytes:
            return b""
        message = f"{lost_bytes} bytes of this log were lost: the file could not be written"
        return line_text(Clock().text(time.time()), "WARN", LOST_LOGGER, message).encode()
