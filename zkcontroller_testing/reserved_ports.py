"""Reserves TCP ports against other test processes of this user, for parallel workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TextIO

from zkcontroller_cli.machine.ports import pick_free


class ReservedPorts:
    """Free ports below the range of outgoing connections, reserved until :meth:`close`."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.gettempdir()) / f"zkcontroller-ports-{os.getuid()}"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._locks: list[TextIO] = []

    def take(self) -> int:
        """Another port.  Refused if there seems to be none."""
        taken: list[int] = []
        while True:
            port = pick_free(taken)
            # Do not remove the file: two processes could then lock two files of the same name.
            lock = (self._directory / str(port)).open("w", encoding="ascii")
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._locks.append(lock)
                return port
            lock.close()
            taken.append(port)

    def close(self) -> None:
        """Releases the ports."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()
