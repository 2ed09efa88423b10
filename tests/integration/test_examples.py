"""The programs in ``examples`` that start a ZooKeeper of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.integration


def printed(program: str) -> list[str]:
    """What an example prints, as its user runs it."""
    command = [sys.executable, str(ROOT / "examples" / program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


def test_a_controller_is_elected_again_when_its_znode_is_deleted() -> None:
    first, then = printed("elect_on_zookeeper.py")

    assert first.endswith(" in epoch 1")
    assert then.startswith("/controller was deleted: controller ")
    assert then.endswith(" in epoch 2")


def test_a_broker_in_a_thread_leads_what_was_created_on_it() -> None:
    expected = [f"orders-{partition}: leader 1" for partition in range(3)]

    assert printed("broker_in_a_thread.py") == expected
