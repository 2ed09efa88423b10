"""The clients of ``zkctl serve`` in other languages: their own tests, by their own tools.

Each drives a real client of its language through an election and a killed broker: kafka-clients,
franz-go, kafkajs.  ``make clients`` runs them; a suite whose tool is missing is skipped, and says
which.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.language_tools import environment_of_tools, require_go, said_by

pytestmark = [pytest.mark.clients, pytest.mark.timeout(420)]

SOURCES: Final = Path(__file__).parents[2] / "clients"
RUN_S: Final = 400
_LEAST_NODE: Final = 18
_LEAST_JAVA: Final = 17


def _environment() -> dict[str, str]:
    return {**environment_of_tools(), "ZKCTL": str(Path(sys.executable).with_name("zkctl"))}


def run(tmp_path: Path, language: str, folder: str, *command: str) -> str:
    """What a suite prints that passes, run on a copy: nothing is left in the tree."""
    copy = tmp_path / language
    shutil.copytree(
        SOURCES / language, copy, ignore=shutil.ignore_patterns("node_modules", "target")
    )
    done = subprocess.run(
        command,
        cwd=copy / folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_java(tmp_path: Path) -> None:
    version = re.search(r'version "(\d+)', said_by("java", "-version"))
    if version is None or int(version[1]) < _LEAST_JAVA:
        pytest.skip(f"java is older than {_LEAST_JAVA}")
    said_by("mvn", "-v")

    printed = run(tmp_path, "java", ".", "mvn", "-B", "-ntp", "test")

    found = re.findall(r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: 0", printed)
    assert found
    assert int(found[-1]) >= 6


def test_go(tmp_path: Path) -> None:
    require_go()

    printed = run(tmp_path, "go", "example", "go", "test", "-count=1", "-v", "./...")

    assert len(re.findall(r"^--- PASS", printed, re.MULTILINE)) >= 5


def test_javascript(tmp_path: Path) -> None:
    version = re.match(r"v(\d+)", said_by("node", "--version"))
    if version is None or int(version[1]) < _LEAST_NODE:
        pytest.skip(f"node is older than {_LEAST_NODE}")
    said_by("npm", "--version")

    printed = run(
        *(tmp_path, "javascript", ".", "bash", "-c"),
        "npm ci --no-audit --no-fund && node --test --test-reporter=tap test/*.test.js",
    )

    passed = re.search(r"^# pass (\d+)$", printed, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 5
