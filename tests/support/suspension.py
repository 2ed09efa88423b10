"""Suspends processes for a test, and waits until they are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from zkcontroller_testing.waiting import until


def suspend(pid: int) -> None:
    """SIGSTOP; returns when no thread of the process runs any more.

    The signal is for one thread, which stops the others when it gets a processor.  On a busy
    machine they run on until then: a broker can still answer, or win an election.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _is_suspended(pid) or None, lambda: f"process {pid} is suspended")


@contextlib.contextmanager
def suspended(*pids: int) -> Iterator[None]:
    """These processes stand still meanwhile."""
    try:
        for pid in pids:
            suspend(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _is_suspended(pid: int) -> bool:
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends just now
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return set(states) == {"T"}
