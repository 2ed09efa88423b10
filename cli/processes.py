"""Child processes that outlive the command that started them, told apart from strangers.

A process id is reused sooner or later, so each is kept with the time its process began: a signal
goes out only if both still match.  A zombie (ended, not yet reaped by whoever is its parent) counts
as gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, for ever: its pid and when it began."""

    pid: int
    started: str
    """Whatever the system says about the start, to be compared only (clock ticks on Linux)."""

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The process that has this pid now; None if none has."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started)

    def began_by(self, moment_ms: int) -> bool:
        """Whether it began before that moment (ms since 1970); a successor of its pid did not."""
        if not _PROC.exists():
            return True
        boot_s = next(
            int(line.split()[1])
            for line in (_PROC / "stat").read_text(encoding="ascii").splitlines()
            if line.startswith("btime ")
        )
        began_s = boot_s + int(self.started) / os.sysconf("SC_CLK_TCK")
        # The boot time is a whole second, rounded either way.
        return began_s <= moment_ms / 1000 + 1

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return _start_of(self.pid) == self.started

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process is gone."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False if it has not within ``timeout_s``."""
        return wait_until(lambda: not self.is_alive, timeout_s)


def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float = _POLL_S) -> bool:
    """Ask again and again until true; False when ``timeout_s`` is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True


def spawn(
    command: Sequence[str], console: Path, environment: Mapping[str, str] | None = None
) -> ProcessId:
    """Start a process that Ctrl-C does not reach; its output is added to ``console``."""
    console.parent.mkdir(parents=True, exist_ok=True)
    with console.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    # The child may have ended at once; its zombie still has a start time until we reap it.
    started = _start_of(child.pid, zombies=True)
    child.returncode = 0  # nobody waits for it: a dropped Popen would complain
    return ProcessId(child.pid, started or "gone")


def python_module(module: str, *arguments: str) -> list[str]:
    """The command line of a module; -P: nothing in the current folder is taken for a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def broker_command(properties: Path, overrides: Mapping[str, str]) -> list[str]:
    """The command line of a broker."""
    options = [f"--override={key}={value}" for key, value in overrides.items()]
    return python_module("replica_manager", str(properties), *options)


def last_lines(path: Path, count: int = 15) -> list[str]:
    """The last lines of a log; none if there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def _start_of(pid: int, *, zombies: bool = False) -> str | None:
    if not _PROC.exists():
        return _start_by_ps(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name stands in parentheses and may hold anything: count from the last one.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" and not zombies else fields[18]


def _start_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not answer or answer.startswith("Z") else answer.partition(" ")[2].strip()
