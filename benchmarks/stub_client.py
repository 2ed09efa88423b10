"""The measuring side of :mod:`benchmarks.stub_brokers`: starts them, asks what they received."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class StubBrokers:
    """The process of recording brokers of one chroot."""

    def __init__(self, zookeeper: str, first_id: int, brokers: int) -> None:
        self.brokers = brokers
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "benchmarks.stub_brokers",
                "--zookeeper", zookeeper,
                "--first-id", str(first_id),
                "--brokers", str(brokers),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )  # fmt: skip
        self._read()  # they are registered

    def mark(self) -> None:
        """Forget what was received so far."""
        self._ask({"mark": True})

    def collect(self, *, quiet_ms: int, timeout_ms: int) -> dict[str, Any]:
        """Every request since the mark, once all brokers know of topics and it is quiet."""
        return self._ask(
            {"collect": {"brokers": self.brokers, "quiet_ms": quiet_ms, "timeout_ms": timeout_ms}}
        )

    def collect_now(self) -> dict[str, Any]:
        """Every request since the mark."""
        return self._ask({"collect": {"brokers": 0, "quiet_ms": 0, "timeout_ms": 0}})

    def status(self) -> dict[str, Any]:
        """``requests`` since the mark, ``brokers_with_topics``, ``quiet_ms`` without a request."""
        return self._ask({"status": True})

    def leave(self, broker_id: int) -> int:
        """Ends a broker as a death does; returns when that began, in monotonic ns."""
        return int(self._ask({"leave": broker_id})["at_ns"])

    def join(self, broker_id: int) -> int:
        """Brings a broker back; returns when its registration began, in monotonic ns."""
        return int(self._ask({"join": broker_id})["at_ns"])

    def close(self) -> None:
        """Ends the process; its brokers leave ZooKeeper."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stub brokers ended with code {self._process.wait(10)}")
        response: dict[str, Any] = json.loads(line)
        return response
