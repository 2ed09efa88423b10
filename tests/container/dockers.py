"""Docker's command line in a test: what it says, how it ends, and waiting for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from zkcontroller_testing.waiting import until

IMAGE: Final = os.environ.get("ZKCONTROLLER_IMAGE", "zkcontroller")
COMMAND_TIMEOUT_S: Final = 500
"""Builds and Spark take a minute, and more on a busy machine."""


def run(
    *command: str, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command that has ended, whatever its exit code."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        input=stdin,
        env=None if env is None else {**os.environ, **env},
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


def docker(*arguments: str) -> str:
    """What ``docker`` prints; an AssertionError with its errors if it fails."""
    done = run("docker", *arguments)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout.strip()


def status(container: str) -> str:
    """``healthy``, ``unhealthy``, ``starting``; or ``exited`` and the like."""
    return docker(
        *("inspect", "--format"),
        "{{if .State.Running}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}",
        container,
    )


def wait_for(look: Callable[[], bool], what: Callable[[], str], timeout_s: float = 60) -> None:
    """Returns when ``look`` says so; an AssertionError that says ``what`` if it does not."""
    until(lambda: look() or None, what, timeout_s)


def wait_for_status(container: str, wanted: str, timeout_s: float = 60) -> None:
    """Returns when the container has that status."""
    wait_for(
        lambda: status(container) == wanted,
        lambda: f"{status(container)}: {run('docker', 'logs', '--tail', '20', container)}",
        timeout_s,
    )
