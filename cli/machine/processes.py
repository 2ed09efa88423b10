"""Child processes that outlive the command that started them, and how to recognise them.

The system reuses a pid, so each pid is kept with the start time of its process and the boot id of
the machine.  A signal is sent only if all of them still match, and through a file descriptor of
that process, so that no other process can get it.  A process that a file names by its pid alone
must also belong to this user, and have the expected command line.  A zombie (ended, not yet reaped
by its parent) counts as gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.02
_TAIL_BYTES: Final = 64 * 1024
_LINES_AFTER_AN_ERROR: Final = 60
"""More than a broker writes while it shuts down because of the error."""
_ENDED: Final = frozenset("ZX")
_SUSPENDED: Final = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Identifies one process by its pid and its start."""

    pid: int
    started: str
    """The start as the system shows it (on Linux boot id and clock ticks); only for comparing."""

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The process that has this pid now; None if there is none."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started)

    def began_by(self, moment_ms: int) -> bool:
        """Whether the process began before ``moment_ms`` (since 1970).

        A later process with the same pid did not.  Without ``/proc`` always True.
        """
        if not _PROC.exists():
            return True
        boot_s = next(
            int(line.split()[1])
            for line in (_PROC / "stat").read_text(encoding="ascii").splitlines()
            if line.startswith("btime ")
        )
        began_s = boot_s + int(self.started.rpartition(" ")[2]) / os.sysconf("SC_CLK_TCK")
        # The boot time is rounded to a whole second, up or down.
        return began_s <= moment_ms / 1000 + 1

    @property
    def is_alive(self) -> bool:
        """Whether exactly this process still runs; a zombie does not."""
        return _start_of(self.pid) == self.started

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, and is no zombie any more."""
        return _start_of(self.pid, zombies=True) != self.started

    @property
    def is_suspended(self) -> bool:
        """Whether the process is suspended by a signal, such as SIGSTOP: each of its threads.

        One thread gets the signal, and stops the others when it gets a processor.
        """
        return _thread_states(self.pid) <= _SUSPENDED and self.is_alive

    def runs(self, *arguments: str) -> bool:
        """Whether the process is this user's, with those arguments in its command line in order.

        False if the system does not show it.
        """
        found = _owner_and_command(self.pid)
        if found is None:
            return False
        owner, command = found
        words = iter(command)
        return owner == os.getuid() and all(each in words for each in arguments) and self.is_alive

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if the process is gone, or another one has its pid now."""
        try:
            process = _open_process(self.pid)
        except ProcessLookupError:
            return False
        try:
            # Check while the descriptor is open: from then on it cannot refer to a later process.
            if not self.is_alive:
                return False
            if process is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(process, number)
        except ProcessLookupError:
            return False
        finally:
            if process is not None:
                os.close(process)
        return True

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False if it has not within ``timeout_s``."""
        return wait_until(lambda: not self.is_alive, timeout_s)


def wait_until(condition: Callable[[], bool], timeout_s: float, poll_s: float = _POLL_S) -> bool:
    """Wait until the condition is true; False if it is not within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True


def spawn(
    command: Sequence[str],
    console: Path,
    environment: Mapping[str, str] | None = None,
    *,
    is_bound: bool = False,
) -> ProcessId:
    """Start a process that Ctrl-C does not reach; its output is appended to ``console``.

    ``is_bound``: the process stays in the session of zkctl.  If it is suspended when zkctl ends,
    the system then continues and ends it.
    """
    console.parent.mkdir(parents=True, exist_ok=True)
    with console.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=not is_bound,
            process_group=0 if is_bound else None,
            env={**os.environ, **(environment or {})},
        )
    # If the child has ended at once, its zombie still has a start time until it is reaped.
    started = _start_of(child.pid, zombies=True)
    child.returncode = 0  # nothing waits for the child, and Popen would warn about that
    return ProcessId(child.pid, started or "gone")


ZKCTL: Final = __name__.partition(".")[0]
"""The package name with which ``python -m`` runs ``zkctl``."""
BROKER: Final = "replica_manager"
"""The package name with which ``python -m`` runs a broker."""


def python_module(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module; with -P Python ignores the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def spawn_module(
    module: str,
    arguments: Sequence[str],
    console: Path,
    environment: Mapping[str, str],
) -> ProcessId:
    """Start a process that runs a Python module, by :func:`spawn`."""
    return spawn(python_module(module, *arguments), console, environment)


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where a broker serves its metrics, and whether it includes metrics of single partitions."""

    port: int | None = None
    """None: the broker serves no metrics."""
    host: str = "127.0.0.1"
    of_partitions: bool = False

    @property
    def url(self) -> str:
        """The URL of the metrics page."""
        return f"http://{self.reached_at}:{self.port}/metrics"

    @property
    def reached_at(self) -> str:
        """The host in the form of a URL, reachable from this machine."""
        # A server on the wildcard address is reached from this machine by the loopback address.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]" if ":" in host else host

    @property
    def arguments(self) -> list[str]:
        """The options of the broker's command line for these metrics."""
        if self.port is None:
            return []
        partitions = ["--metrics-of-partitions"] if self.of_partitions else []
        return [f"--metrics-port={self.port}", f"--metrics-host={self.host}", *partitions]


NO_METRICS: Final = MetricsOptions()


def broker_command(
    properties: Path, overrides: Mapping[str, str], metrics: MetricsOptions = NO_METRICS
) -> list[str]:
    """The command line of a broker."""
    return python_module(BROKER, *broker_arguments(properties, overrides, metrics))


def broker_arguments(
    properties: Path, overrides: Mapping[str, str], metrics: MetricsOptions
) -> list[str]:
    """The arguments after the module in a broker's command line."""
    options = [f"--override={key}={value}" for key, value in overrides.items()]
    return [str(properties), *options, *metrics.arguments]


def last_lines(path: Path, count: int = 15) -> list[str]:
    """The last lines of a log file; empty if there is no such file.

    They are more than ``count`` where the reason of the end, an ERROR, stands shortly before them:
    a broker that cannot start shuts down, and writes that, too.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read().decode("utf-8", "replace").splitlines()[-_LINES_AFTER_AN_ERROR:]
    except FileNotFoundError:
        return []
    shown = (at for at, line in enumerate(tail[:-count]) if "] ERROR " in line)
    return tail[next(shown, -count) :]


def _owner_and_command(pid: int) -> tuple[int, list[str]] | None:
    if not _PROC.exists():
        words = subprocess.run(
            ["ps", "-o", "uid=,args=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout.split()
        return (int(words[0]), words[1:]) if words else None
    try:
        owner = (_PROC / str(pid)).stat().st_uid
        command = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    return owner, command.decode("utf-8", "replace").split("\0")


def _open_process(pid: int) -> int | None:
    """A file descriptor of the process (pidfd); None if the system does not support it.

    Raises ProcessLookupError if there is no such process.
    """
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None  # a kernel before 5.3


def _start_of(pid: int, *, zombies: bool = False) -> str | None:
    state, started = _state_and_start(pid)
    return None if state in _ENDED and not zombies else started


def _thread_states(pid: int) -> frozenset[str]:
    """The states of the threads; that of the process where threads are not shown."""
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return frozenset({_state_and_start(pid)[0]})
    stats = filter(None, map(_stat_in, threads))  # without those that end just now
    return frozenset(state for state, *_ in stats)


def _state_and_start(pid: int) -> tuple[str, str | None]:
    if not _PROC.exists():
        return _state_and_start_by_ps(pid)
    stat = _stat_in(_PROC / str(pid))
    if stat is None:
        return "", None
    state, *fields = stat
    return state, f"{_boot_id()} {fields[18]}"


def _stat_in(folder: Path) -> list[str] | None:
    """What the system says of a process or thread, from its state on; None if it has ended."""
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may contain any character: split at the last one.
    return stat.rpartition(")")[2].split()


@cache
def _boot_id() -> str:
    """The id of the current boot, as the clock ticks of start times begin at 0 after a boot."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "-"


def _state_and_start_by_ps(pid: int) -> tuple[str, str | None]:
    result = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = result.partition(" ")
    return state[:1], started.strip() or None
