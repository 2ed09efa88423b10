"""The program in ``examples`` that asks Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.history, pytest.mark.timeout(900)]

LOGS = Path(__file__).parent / "data" / "incidents-a"


def test_an_incident_is_reported_from_python() -> None:
    command = [sys.executable, str(ROOT / "examples" / "incident_report.py"), str(LOGS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)

    assert run.returncode == 0, run.stderr
    assert "**Broker 3 was a zombie controller for 11.3 s" in run.stdout
