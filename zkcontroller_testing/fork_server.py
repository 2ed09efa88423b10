"""Starts Python programs by fork, from one process that has imported them before.

Most of a broker's start is loading the interpreter and some 800 modules: a third of a second of
processor time.  A forked process has them already, and shares their memory.  It runs the function
that the command line would run, with its own environment, files, folder and process group.  Only
the command line that the system shows is that of the server.

The server (``python -m zkcontroller_testing.fork_server``) has only one thread, so that a fork is
safe.  It ends with the process that uses it.  The programs it started continue to run.

Source of the idea: Python's ``multiprocessing.forkserver``, which would run the caller's own main
module in each child.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

_FORK: Final = b"f"
"""The message of a request; its content is in the files sent with it."""
_FILES: Final = 4
"""Number of files sent with a request: its text, standard output and error, the status pipe."""
_NUMBER: Final = Struct(">i")
"""A number in the status pipe: first the pid, at the end the exit code."""
_POLL_S: Final = 0.005
servers: Final[dict[int, int]] = {}
"""The servers of this process: pid by descriptor of the socket."""


@cache
def is_available() -> bool:
    """Whether the system supports a fork server: it needs Linux 5.4 or newer, for its pidfds."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # a container may forbid the system call
        return False
    return True


class ForkedProcess:
    """A started program, with some of the methods of :class:`subprocess.Popen`."""

    def __init__(self, status: int) -> None:
        self._status = os.fdopen(status, "rb", buffering=0)
        self.returncode: int | None = None
        self.pid = self._said()
        os.set_blocking(status, False)

    def poll(self) -> int | None:
        """The exit code (negative: minus the signal's number); None while the program runs."""
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                self.returncode = self._said()
                self._status.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the exit code; subprocess.TimeoutExpired after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0)
            time.sleep(_POLL_S)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the program has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def leave(self) -> None:
        """Closes the status pipe; :meth:`poll` and :meth:`wait` cannot be used any more."""
        self._status.close()

    def _said(self) -> int:
        found = self._status.read(_NUMBER.size)
        if found is None:
            raise BlockingIOError
        if not found:
            self._status.close()
            raise ChildProcessError("the fork server has ended: why is on standard error")
        number: int
        (number,) = _NUMBER.unpack(found)
        return number


class ForkServer:
    """One server, which is started with the first program; threads of one process may share it.

    ``packages``: packages whose ``__main__`` is imported and can be run.  ``options``: options of
    Python, such as ``-W``.
    """

    def __init__(self, *packages: str, options: Sequence[str] = ()) -> None:
        self._command = [*options, "-P", "-m", __name__]
        self._packages = packages
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(
        self,
        package: str,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        environment: Mapping[str, str],
        directory: Path | None = None,
    ) -> ForkedProcess:
        """Runs ``main`` of the package's ``__main__``; its return value is the exit code.

        The program has no standard input, and a process group of its own in the caller's session.
        Its limits and umask are those that the caller had at the first start.
        """
        where = str(directory or Path.cwd())
        # The request is in a memory file, because the environment may be larger than a message.
        with os.fdopen(os.memfd_create("request"), "w", encoding="ascii") as request:
            json.dump([package, [*arguments], {**environment}, where], request)
            request.flush()
            files = [request.fileno(), stdout, stderr]
            with self._lock:
                is_new = self._socket is None
                try:
                    return self._forked(files)
                except (BrokenPipeError, ConnectionResetError, ChildProcessError):
                    if is_new:
                        raise
                    # The server was killed, perhaps just now, so its socket took the request.
                    self.close()
                    return self._forked(files)

    def close(self) -> None:
        """Ends the server; the programs it has started continue to run."""
        if self._socket is not None:
            servers.pop(self._socket.fileno(), None)
            self._socket.close()
            self._socket = None
        atexit.unregister(self.close)

    def _forked(self, files: Sequence[int]) -> ForkedProcess:
        status, theirs = os.pipe()
        try:
            socket.send_fds(self._connected(), [_FORK], [*files, theirs])
        except OSError:
            os.close(status)
            raise
        finally:
            os.close(theirs)
        return ForkedProcess(status)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            number = str(theirs.fileno())
            with theirs:
                server = subprocess.Popen(
                    # Children show this command line; brokers are found by "-m replica_manager".
                    [sys.executable, *self._command, number, "-m", *self._packages],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                )
            server.returncode = 0  # so that Popen does not warn: the server ends with this process
            servers[ours.fileno()] = server.pid
            atexit.register(self.close)
            self._socket = ours
        return self._socket


class _Server:
    """The loop of the server process."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def serve(self) -> _Program | None:
        """Forks for each request; returns the program in each child, and None in the server."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._end_of(key)
                    continue
                message, files, _, _ = socket.recv_fds(self._requests, len(_FORK), _FILES)
                if not message:
                    return None
                request, *outputs, status = files
                if child := os.fork():
                    for file in (request, *outputs):
                        os.close(file)
                    os.write(status, _NUMBER.pack(child))
                    self._selector.register(os.pidfd_open(child), selectors.EVENT_READ, status)
                else:
                    os.close(status)
                    self._forget()
                    return _become(request, outputs)

    def _end_of(self, key: selectors.SelectorKey) -> None:
        """Writes the exit code of a child that has ended to its status pipe."""
        self._selector.unregister(key.fileobj)
        found = os.waitid(os.P_PIDFD, key.fd, os.WEXITED)
        assert found is not None, "the descriptor is readable as the process has ended"
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        with contextlib.suppress(BrokenPipeError):  # the caller has closed the status pipe
            os.write(key.data, _NUMBER.pack(code))
        os.close(key.data)
        os.close(key.fd)

    def _forget(self) -> None:
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._requests:
                os.close(key.fd)
                os.close(key.data)
        self._selector.close()
        self._requests.close()


class _Program(NamedTuple):
    package: str
    arguments: list[str]

    def run(self) -> int:
        """Runs the program and returns its exit code."""
        sys.argv = [self.package, *self.arguments]
        code: int = import_module(f"{self.package}.__main__").main(self.arguments)
        return code


def _become(request: int, outputs: Sequence[int]) -> _Program:
    with os.fdopen(request, encoding="ascii") as text:
        text.seek(0)  # the file position is shared with the writer
        package, arguments, environment, directory = json.load(text)
    os.setpgid(0, 0)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(outputs, 1):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return _Program(package, arguments)


def main(arguments: Sequence[str]) -> int:
    """Imports the main modules of packages, then serves requests from a socket's descriptor."""
    descriptor, _, *packages = arguments
    for name in packages:
        import_module(f"{name}.__main__")
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(descriptor)) as requests:
        program = _Server(requests).serve()
    return 0 if program is None else program.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
