"""Random requests at one address, each by a seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.attack.campaign import Campaign, random_messages
from tests.attack.checks import (
    GROWTH_BYTES,
    assert_descriptors_return,
    assert_harmless,
    assert_serving,
    tell,
)

REQUESTS: Final = 4_000


PATIENCE_S: Final = 1.0
"""A broken frame may leave the target waiting for the rest of it."""


def attack(
    campaign: Campaign, versions: Mapping[int, tuple[int, int]], random: Random, share: float
) -> None:
    """Sends them; nothing of them may stay."""
    at_first = campaign.target.watch.read()
    for asked in random_messages(versions, random, int(REQUESTS * share)):
        assert_harmless(campaign.send(asked, patience_s=PATIENCE_S))
    tell(campaign)
    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first.descriptors)
    assert campaign.target.watch.read().rss_bytes - at_first.rss_bytes <= GROWTH_BYTES
