"""A terminal in memory, with a real program on the other side of a pseudo terminal."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

import pyte

_PATIENCE_S: Final = 60.0
_READ_BYTES: Final = 65_536


class Terminal:
    """Runs a command and keeps its screen; ``raw`` is everything that it wrote."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int, rows: int
    ) -> None:
        self.raw = b""
        self._fd, other = os.openpty()
        self.modes_before = termios.tcgetattr(other)
        """The modes of the terminal before the program began."""
        self._other = other
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._fd)
        os.close(self._other)

    @property
    def lines(self) -> list[str]:
        """The screen as it stands."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def modes(self) -> object:
        """The modes of the terminal now."""
        return termios.tcgetattr(self._other)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, and tell the program as a terminal does."""
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """The screen as soon as it is so; an assertion fails if it never is.

        The rest of a picture may still be on its way: all that is wanted of one belongs to the
        condition.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not condition(self.lines):
            assert time.monotonic() < deadline, "\n".join(self.lines)
            assert self.process.poll() is None, "\n".join(self.lines)
            self._take()
        return self.lines

    def until_ended(self) -> int:
        """The exit code, once everything that the program wrote is on the screen."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "\n".join(self.lines)
            self._take()
        while self._take():
            pass
        return self.process.returncode

    def _take(self) -> bool:
        readable, _, _ = select.select([self._fd], [], [], 0.05)
        if not readable:
            return False
        written = os.read(self._fd, _READ_BYTES)
        self.raw += written
        self._stream.feed(written)
        return True

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
