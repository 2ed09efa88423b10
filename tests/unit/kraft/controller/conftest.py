"""A quorum of one controller."""

from __future__ import annotations

import pytest

from tests.support.quorum_controller_world import QUIET, QuorumWorld


@pytest.fixture
def world() -> QuorumWorld:
    """One controller that leads, and writes nothing of its own accord."""
    return QuorumWorld.led(config=QUIET)
