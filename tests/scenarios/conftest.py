"""A world in fair weather for every scenario."""

from __future__ import annotations

import pytest

from zkcontroller_simulation.world import World


@pytest.fixture
def world() -> World:
    """No broker, no topic, no bad luck."""
    return World()
