"""The environment of the processes that tests start."""

from __future__ import annotations

import subprocess
import sys

from tests.support.child_processes import environment

SHOWN = "import sys, replica_manager.__main__; print('hypothesis.strategies' in sys.modules)"


def test_a_broker_that_a_test_starts_loads_no_hypothesis() -> None:
    found = subprocess.run(
        [sys.executable, "-c", SHOWN], env=environment(), capture_output=True, text=True, check=True
    )

    assert found.stdout == "False\n"
