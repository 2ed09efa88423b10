"""A local cluster for the tests of ``zkctl``, driven by real commands in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.support import child_processes


class Answer(NamedTuple):
    """What one command came to."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """stdout, which must be one JSON document."""
        return orjson.loads(self.stdout)


class LocalCluster:
    """``zkctl --dir DIR``, as a caller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = [sys.executable, "-m", "zkcontroller_cli", "--dir", str(directory)]
        # The developer's own settings must not reach a test.
        self.environment = {
            k: v for k, v in child_processes.environment().items() if not k.startswith("ZKCTL_")
        }

    def __call__(self, *arguments: str, timeout_s: float = 90) -> Answer:
        """Run a command to its end."""
        done = subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self.environment,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """Run a command that must succeed; what it says as JSON."""
        answer = self(*arguments, "-o", "json")
        assert answer.exit_code == 0, answer.stderr
        return answer.json

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30) -> None:
        """Ask until it is so; an assertion fails if it never is."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, self("cluster", "status").stdout

    def properties(self, broker_id: int) -> Path:
        """The broker's server.properties."""
        return self.directory / f"broker-{broker_id}" / "server.properties"

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        self("cluster", "stop", "--force")
