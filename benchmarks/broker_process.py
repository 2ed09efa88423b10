"""Brokers as processes, ours and Kafka's alike: same properties in, same words out.

Both write Kafka's log files and say ``started`` on stdout when they serve, so one who starts one
need not know which kind it is.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from typing_extensions import override

from benchmarks.process_memory import memory_mb

STARTED: Final = "started (kafka.server.KafkaServer)"


class BrokerDidNotStartError(Exception):
    """The process ended, or said nothing in time; the sentence names its output."""


class BrokerProcess(ABC):
    """A broker with data, logs and ``server.properties`` in a directory of its own.

    Listens on a free port of 127.0.0.1; ``overrides`` are further properties.
    """

    name: str

    def __init__(
        self,
        broker_id: int,
        zookeeper: str,
        directory: Path,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.logs = directory / "logs"
        self._properties = {
            "broker.id": str(broker_id),
            "zookeeper.connect": zookeeper,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory / "data"),
            "zookeeper.session.timeout.ms": "18000",
            "offsets.topic.replication.factor": "1",
        } | dict(overrides or {})
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._spoke = threading.Event()
        self._has_started = False

    @abstractmethod
    def _command(self, properties: Path) -> Sequence[str]: ...

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 120) -> None:
        """Starts the process and waits until it says that it serves."""
        self.launch()
        self.wait_until_started(timeout_s)

    def launch(self) -> None:
        """Starts the process.  It ends with the thread that calls this."""
        properties = self._write_properties()
        self._spoke.clear()
        self._has_started = False
        self._reader = threading.Thread(
            target=self._keep, args=(self._spawn(properties),), daemon=True
        )
        self._reader.start()

    def _spawn(self, properties: Path) -> IO[str]:
        """Starts the process, and returns what it says."""
        self._process = subprocess.Popen(
            [*_dying_with_us(), *self._command(properties)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        return self._process.stdout

    def wait_until_started(self, timeout_s: float = 120) -> None:
        """Waits until it says that it serves; BrokerDidNotStartError if it does not."""
        self._spoke.wait(timeout_s)
        if not self._has_started or not self.is_running:
            self.kill()
            raise BrokerDidNotStartError(
                f"{self.name} broker {self.broker_id} did not start:\n{self._last_words()}"
            )

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM, that is with a controlled shutdown; returns the exit code."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL; nothing to do if it is not running."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
        if self._reader is not None:
            self._reader.join(10)

    def log_lines(self, file: str) -> list[str]:
        """What stands in one of its log files, and before it in those of earlier hours."""
        paths = (*sorted(self.logs.glob(f"{file}.*")), self.logs / file)
        texts = (path.read_text(errors="replace") for path in paths if path.exists())
        return [line for text in texts for line in text.splitlines()]

    def peak_rss_bytes(self) -> int:
        """The most resident memory that the process ever had (``VmHWM``)."""
        return int(memory_mb(self.pid, "VmHWM") * 1024**2)

    def rss_mb(self) -> float:
        """Its resident memory."""
        return memory_mb(self.pid, "VmRSS")

    def forget_peak_rss(self) -> None:
        """From here on :meth:`peak_rss_bytes` tells the peak since now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def cpu_ms(self) -> float:
        """Processor time the process has used, all threads, in user and kernel mode."""
        # The command name may hold spaces, so fields are counted behind its closing bracket.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def _write_properties(self) -> Path:
        """Writes ``server.properties``, and makes the folder of the logs."""
        self.logs.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text(
            "".join(f"{key}={self._properties[key]}\n" for key in self._properties)
        )
        return properties

    def _keep(self, output: IO[str]) -> None:
        """Writes what the process says to a file, until its end closes the pipe."""
        with (self.directory / "stdout.log").open("a") as kept, output:
            for line in output:
                kept.write(line)
                kept.flush()
                if STARTED in line:
                    self._has_started = True
                    self._spoke.set()
        self._spoke.set()  # wakes those who wait: it has ended

    def _last_words(self) -> str:
        return "\n".join((self.directory / "stdout.log").read_text().splitlines()[-20:])


class OurBroker(BrokerProcess):
    """``python -m replica_manager``; ``under`` is a command to run it under, such as a profiler."""

    name = "zkcontroller"

    def __init__(
        self,
        broker_id: int,
        zookeeper: str,
        directory: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        under: Sequence[str] = (),
    ) -> None:
        super().__init__(broker_id, zookeeper, directory, overrides)
        self._under = under

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        broker = [sys.executable, "-m", "replica_manager", str(properties)]
        return [*self._under, *broker, "--logs-dir", str(self.logs)]


def _dying_with_us() -> list[str]:
    """Prefix of a command that ends when this process does, where the system knows how."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
