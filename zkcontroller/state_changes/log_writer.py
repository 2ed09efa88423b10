"""The one thread that formats and writes log records; no other thread waits for the disk.

Producers append to a deque under a lock held for a microsecond.  The thread sleeps until there is
something to write, waits a moment for more, then writes it in slices with a pause between two
slices, so that a hundred thousand lines do not keep the interpreter from the controller's thread.
While the controller processes an event (:attr:`LogWriter.is_awaited`), further slices wait, at most
PATIENCE_S seconds.

A failed write is reported once on stderr, counted, and reported in the log itself when the
disk works again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TextIO, TypeAlias

from kafka_common.observability.log_text import Clock, line_text, throwable_text
from kafka_common.observability.sturdy_file import LOST_LOGGER, SturdyFile, TroubleTeller
from zkcontroller.state_changes.export import FILE_NAME, json_line
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER, kafka_line, level_of
from zkcontroller.state_changes.record import StateChange

PENDING_BYTES_CAPACITY: Final = 256 * 1024 * 1024
"""Estimated bytes of records that may wait for the disk; more are dropped and counted."""

RECORD_BYTES: Final = 600
"""Estimated memory of one waiting StateChange."""

LINE_BYTES: Final = 300
"""Estimated memory of one waiting log line, besides its text."""

GATHER_S: Final = 0.05
FLUSH_TIMEOUT_S: Final = 10.0
SLICE_RECORDS: Final = 100
"""State changes formatted without a pause, in less than a millisecond."""
BREATH_S: Final = 0.001
PATIENCE_S: Final = 5.0
"""The most seconds that state changes wait while the controller processes an event."""


class _Line(NamedTuple):
    file_name: str
    time_s: float
    level: str
    logger: str
    message: str
    cause: str | None

    @property
    def size_bytes(self) -> int:
        return LINE_BYTES + len(self.message) + len(self.cause or "")


class _Changes(NamedTuple):
    time_s: float
    records: Sequence[StateChange]

    @property
    def size_bytes(self) -> int:
        return RECORD_BYTES * len(self.records)


_Item: TypeAlias = _Line | _Changes


class LogWriter:
    """Writes lines and state changes in a thread; any thread may call ``log`` and ``write``."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Sequence[str],
        state_change_levels: frozenset[str],
        console: TextIO | None = None,
        pending_bytes_capacity: int = PENDING_BYTES_CAPACITY,
    ) -> None:
        """Starts the thread; ``state_change_levels``: the levels written to state-change.log."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether other work is being done, which writing would delay; any thread may call it."""
        self._capacity = pending_bytes_capacity
        self._state_change_levels = state_change_levels
        self._host = socket.gethostname()
        self._console = console
        self._clock = Clock()
        teller = TroubleTeller()
        self._files = {
            name: SturdyFile(directory / name, teller)
            for name in (*files, FILE_NAME, "state-change.log")
        }
        self._lock = threading.Lock()
        self._pending: deque[_Item] = deque()
        self._pending_bytes = 0
        self._lost = 0
        self._has_work = threading.Event()
        self._is_closed = False
        self._drained = threading.Condition()
        self._accepted = self._written = 0
        for file in self._files.values():
            file.open()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def log(
        self,
        file_name: str,
        time_s: float,
        level: str,
        logger: str,
        message: str,
        cause: str | None = None,
    ) -> None:
        """Queues one line, which was logged at ``time_s`` (seconds since 1970)."""
        self._put(_Line(file_name, time_s, level, logger, message, cause), 1)

    def write(self, records: Sequence[StateChange]) -> None:
        """Queues state changes with the current time; do not change ``records`` afterwards."""
        if records:
            self._put(_Changes(time.time(), records), len(records))

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Waits until all queued records are written; False after ``timeout_s``."""
        with self._drained:
            goal = self._accepted
            self._has_work.set()
            return self._drained.wait_for(lambda: self._written >= goal, timeout_s)

    def close(self) -> None:
        """Writes the queued records, closes the files and ends the thread."""
        self._is_closed = True
        self._has_work.set()
        self._thread.join(FLUSH_TIMEOUT_S)

    def _put(self, item: _Item, count: int) -> None:
        size_bytes = item.size_bytes
        with self._lock:
            # An empty queue takes records of any size, so that a huge event does not lose them.
            if self._pending and self._pending_bytes + size_bytes > self._capacity:
                self._lost += count
                return
            self._pending.append(item)
            self._pending_bytes += size_bytes
            self._accepted += 1
        self._has_work.set()

    def _run(self) -> None:
        while True:
            self._has_work.wait()
            if not self._is_closed:
                # Many lines often follow each other: wait for them and write them together.
                time.sleep(GATHER_S)
            self._has_work.clear()
            self._drain()
            if self._is_closed and not self._pending:
                break
        for file in self._files.values():
            file.close()

    def _drain(self) -> None:
        taken = 0
        while self._pending:
            with self._lock:
                item = self._pending.popleft()
                lost, self._lost = self._lost, 0
            if lost:
                self._write_line(self._lost_line(lost))
            for _ in self._slices(item):
                self._breathe(item)
            with self._lock:
                self._pending_bytes -= item.size_bytes
            taken += 1
        for file in self._files.values():
            file.flush()
        if self._console is not None:
            self._console_flush()
        with self._drained:
            self._written += taken
            self._drained.notify_all()

    def _breathe(self, item: _Item) -> None:
        is_long = isinstance(item, _Changes) and len(item.records) > SLICE_RECORDS
        while not self._is_closed:
            time.sleep(BREATH_S)
            is_young = 0 <= time.time() - item.time_s < PATIENCE_S
            if not (is_long and is_young and self.is_awaited()):
                break

    def _slices(self, item: _Item) -> Iterator[None]:
        if isinstance(item, _Line):
            self._write_line(item)
            return
        for start in range(0, len(item.records), SLICE_RECORDS):
            self._write_changes(item.time_s, item.records[start : start + SLICE_RECORDS])
            yield

    def _write_line(self, line: _Line) -> None:
        stamp = self._clock.text(line.time_s)
        text = line_text(stamp, line.level, line.logger, line.message, line.cause)
        self._files[line.file_name].write(text.encode("utf-8", "replace"), line.time_s)
        if self._console is not None and line.file_name == "server.log":
            self._console_write(text)

    def _write_changes(self, time_s: float, records: Sequence[StateChange]) -> None:
        stamp = self._clock.text(time_s)
        time_ms = int(time_s * 1000)
        lines: list[str] = []
        exported: list[bytes] = []
        for record in records:
            try:
                exported.append(json_line(record, time_ms=time_ms, host=self._host))
                if level_of(record) not in self._state_change_levels:
                    continue
                line = kafka_line(record)
            except Exception as error:  # noqa: BLE001 one bad record must not end all logging
                self._write_line(_unprintable(time_s, record, error))
                continue
            if line is not None:
                lines.append(
                    line_text(stamp, line.level, STATE_CHANGE_LOGGER, line.message, line.cause)
                )
        self._files["state-change.log"].write("".join(lines).encode("utf-8", "replace"), time_s)
        self._files[FILE_NAME].write(b"".join(exported), time_s)

    @staticmethod
    def _lost_line(lost: int) -> _Line:
        message = f"{lost} log records were dropped because the disk is slower than they come"
        return _Line("server.log", time.time(), "WARN", LOST_LOGGER, message, None)

    def _console_write(self, text: str) -> None:
        try:
            assert self._console is not None
            encoding = self._console.encoding or "utf-8"
            self._console.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError):
            # stdout is closed; the file has all lines.
            self._console = None

    def _console_flush(self) -> None:
        try:
            assert self._console is not None
            self._console.flush()
        except (OSError, ValueError):
            self._console = None


def _unprintable(time_s: float, record: StateChange, error: Exception) -> _Line:
    message = f"Cannot print the state change {record!r}"
    return _Line("server.log", time_s, "ERROR", LOST_LOGGER, message, throwable_text(error))
