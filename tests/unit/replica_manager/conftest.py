"""A thread for what would block the event loop of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    """Of one thread."""
    with ThreadPoolExecutor(1) as executor:
        yield executor
