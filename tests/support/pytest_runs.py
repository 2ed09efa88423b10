"""Runs of pytest on made-up tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]


def run_of(directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest with our conftest, on one file of that text."""
    (directory / "test_it.py").write_text(dedent(text))
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, f"--rootdir={directory}", "test_it.py"],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
