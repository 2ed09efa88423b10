"""Tools of other languages: whether they are there, and with which settings they run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

import pytest

_GO: Final = re.compile(r"go1\.(\d+)")
_LEAST_GO: Final = 22


def said_by(*command: str) -> str:
    """What a tool prints; skips the test if it is not there."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on the PATH")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def require_go() -> None:
    """Skips the test without a Go that the clients can be built with."""
    version = _GO.search(said_by("go", "version"))
    if version is None or int(version[1]) < _LEAST_GO:
        pytest.skip(f"go is older than 1.{_LEAST_GO}")


def environment_of_tools() -> dict[str, str]:
    """The machine's own caches serve Go and npm; the tests' own settings have none."""
    return {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
