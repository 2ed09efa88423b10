"""Suspends processes for a test, and waits until they are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from importlib import import_module

from zkcontroller_testing.waiting import until

processes = import_module("zkcontroller_cli.machine.processes")


def suspend(pid: int) -> None:
    """SIGSTOP; returns when no thread of the process runs any more.

    On a busy machine they run on for a while: a broker can still answer, or win an election.
    """
    process = processes.ProcessId.of(pid)
    assert process is not None, f"process {pid} has ended"
    os.kill(pid, signal.SIGSTOP)
    until(lambda: process.is_suspended or None, lambda: f"process {pid} is suspended")


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
