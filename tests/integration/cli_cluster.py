"""A local cluster for the tests of ``zkctl``, driven by its commands.

What starts or stops servers, or goes on until it is interrupted, has a process of its own.  The
other commands run in the process of the test: hundreds of processes would mostly import modules.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.support.cli_world import CommandResult, zkctl_here
from zkcontroller_testing.waiting import until

WITH_A_PROCESS: Final = frozenset(
    {"cluster", "demo", "quorum", "start", "stop", "storage", "top", "wait", "watch", "--watch"}
)
"""Words of command lines whose servers, signals or terminal need a process."""


def is_running(pid: int) -> bool:
    """Zombies, which no parent has reaped yet, do not count."""
    return import_module("zkcontroller_cli.machine.processes").ProcessId.of(pid) is not None


class LocalCluster:
    """``zkctl --dir DIR``, as a caller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = [sys.executable, "-m", "zkcontroller_cli", "--dir", str(directory)]
        self._standard = list(self.command)
        # The developer's own settings must not reach a test, nor a log of its broker the tree.
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ZKCTL_")},
            "LOG_DIR": str(directory / "logs"),
        }

    def __call__(self, *arguments: str, timeout_s: float = 90) -> CommandResult:
        """Run a command to its end."""
        if self.command == self._standard and not WITH_A_PROCESS.intersection(arguments):
            changed = set(self.environment.items()) - set(os.environ.items())
            return zkctl_here("--dir", str(self.directory), *arguments, **dict(changed))
        done = subprocess.run(
            [*self.command, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self.environment,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """Run a command that must succeed; what it says as JSON."""
        result = self(*arguments, "-o", "json")
        assert result.exit_code == 0, result.stderr
        return result.json

    def wait_for(self, condition: Callable[[], object], timeout_s: float = 30) -> None:
        """Ask until the answer is true; an assertion fails if it never is."""
        until(lambda: condition() or None, lambda: self("cluster", "status").stdout, timeout_s)

    def properties(self, broker_id: int) -> Path:
        """The broker's server.properties."""
        return self.directory / f"broker-{broker_id}" / "server.properties"

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        self("cluster", "stop", "--force")
