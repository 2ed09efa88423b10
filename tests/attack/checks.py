"""What must hold of a target, whatever was sent: counts and bytes, never time on the clock."""

from __future__ import annotations

from typing import Final

from tests.attack.campaign import Campaign, Row, table
from tests.attack.targets import Target
from tests.integration.broker_processes import wait_for

LOG_BYTES_PER_BYTE: Final = 60
"""A line for each item that is worth one; an item takes some five bytes, a line some 250."""
LOG_BYTES: Final = 200_000
GROWTH_BYTES: Final = 400_000_000
"""Of resident memory, from the first shape to the last."""
SPARE_DESCRIPTORS: Final = 12
"""Segments and indexes of what an attack has created by right."""
ROWS_TOLD: Final = 15


def assert_harmless(row: Row) -> None:
    """Fails with the request that did harm."""
    what = f"{row.request.name}, bytes {row.request.data[:200].hex()}"
    assert row.problem is None, f"{what}: {row.problem}"
    allowed = LOG_BYTES_PER_BYTE * len(row.request.data) + LOG_BYTES
    assert row.log_growth_bytes <= allowed, f"{what}: {row.log_growth_bytes} bytes of log lines"


def assert_serving(target: Target) -> None:
    """Another client is served."""
    assert target.is_serving(), "a new connection gets no answer"


def assert_descriptors_return(campaign: Campaign, at_first: int) -> None:
    """What connections held is given back."""

    def is_back() -> bool:
        return campaign.target.watch.read().descriptors <= at_first + SPARE_DESCRIPTORS

    wait_for(is_back, f"descriptors fall to {at_first} again")


def tell(campaign: Campaign) -> None:
    """Prints what held others up longest; pytest shows it if the test failed."""
    rows = sorted(campaign.rows, key=lambda row: -row.longest_wait_ms)
    print(table(rows[:ROWS_TOLD]))
