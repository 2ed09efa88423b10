"""A log file that rolls by the hour: ``DailyRollingFileAppender`` with ``'.'yyyy-MM-dd-HH``.

The current file has the plain name.  The first write in a new hour renames the file after the hour
in which it was written.  Hours without a write leave no file, and a restart appends.  Deviation: if
the renamed file exists already (an hour that occurs twice at the end of summer time), log4j deletes
it and we append to it.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import IO

_BUFFER_BYTES = 1 << 16


class RollingFile:
    """Appends bytes.  Every method may raise OSError; call :meth:`close` then, and write again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._hour = ""
        self._next_hour_s = 0.0

    def open(self, time_s: float) -> None:
        """Opens or creates the file; content of an earlier hour is rolled at the first write."""
        written_s = time_s
        with contextlib.suppress(FileNotFoundError):
            found = self.path.stat()
            written_s = found.st_mtime if found.st_size else time_s
        self._file = self.path.open("ab", buffering=_BUFFER_BYTES)
        self._set_hour(written_s)

    def write(self, data: bytes, time_s: float) -> None:
        """Appends ``data``, which was logged at ``time_s`` (seconds since 1970)."""
        if self._file is None:
            self.open(time_s)
        if time_s >= self._next_hour_s:
            self._roll(time_s)
        assert self._file is not None
        self._file.write(data)

    def flush(self) -> None:
        """Writes all buffered bytes to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Flushes and closes the file; the next write opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _roll(self, time_s: float) -> None:
        self.close()
        rolled = self.path.with_name(f"{self.path.name}.{self._hour}")
        if rolled.exists():
            with self.path.open("rb") as source, rolled.open("ab") as target:
                shutil.copyfileobj(source, target)
            self.path.unlink()
        elif self.path.exists() and self.path.stat().st_size:
            self.path.rename(rolled)
        self.open(time_s)

    def _set_hour(self, time_s: float) -> None:
        local = time.localtime(time_s)
        self._hour = time.strftime("%Y-%m-%d-%H", local)
        self._next_hour_s = time_s - local.tm_min * 60 - local.tm_sec - time_s % 1 + 3600
