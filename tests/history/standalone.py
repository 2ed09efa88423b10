"""A standalone Spark cluster of a master and workers, each a process of its own, from pyspark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

from kafka_common.process.java_runtime import find_java

SPARK_HOME: Final = Path(pyspark.__path__[0])
STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Registering worker ")
START_S: Final = 180.0


class Standalone:
    """Started with ``with``; ``master`` is its URL, on a port that the master chose itself."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        java = Path(find_java())
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ZKCTL_", "PYSPARK_"))},
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        if java.is_absolute():
            self.environment["JAVA_HOME"] = str(java.parent.parent)
        self.master = ""

    def __enter__(self) -> Standalone:
        try:
            ports = ("--host", "localhost", "--port", "0", "--webui-port", "0")
            self._start("master", "org.apache.spark.deploy.master.Master", *ports)
            self.master = self._said("master", STARTED)
            for number in range(1, self._workers + 1):
                name = f"worker-{number}"
                self._start(
                    name, "org.apache.spark.deploy.worker.Worker", *ports, "--cores", "1",
                    "--memory", "1g", "--work-dir", str(self._folder / name), self.master,
                )  # fmt: skip
            self._said("master", REGISTERED, times=self._workers)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stop()

    def submit(self, *arguments: str, timeout_s: float = 1200) -> subprocess.CompletedProcess[str]:
        """``spark-submit`` on this cluster, to its end."""
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master,
            "--driver-memory", "1g", "--conf", "spark.executor.memory=600m", *arguments,
        ]  # fmt: skip
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout_s,
            check=False,
        )  # fmt: skip

    def said(self) -> str:
        """What master and workers wrote, for one who has to explain a failure."""
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}"
            for log in sorted(self._folder.glob("*.log"))
        )

    def _start(self, name: str, main: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self._processes.append(process)

    def _said(self, name: str, pattern: re.Pattern[str], *, times: int = 1) -> str:
        """Waits until a process has said something; what the first group found."""
        deadline = time.monotonic() + START_S
        while True:
            found = pattern.findall((self._folder / f"{name}.log").read_text(errors="replace"))
            if len(found) >= times:
                return str(found[0])
            assert time.monotonic() < deadline, self.said()
            assert all(p.poll() is None for p in self._processes), self.said()
            time.sleep(0.1)

    def _stop(self) -> None:
        # The workers first: each takes its executors with it.
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
