"""Requests with random values, half of them with bytes changed, cut out or put in."""

from __future__ import annotations

from contextlib import closing
from random import Random

import pytest

from tests.attack.campaign import Campaign
from tests.attack.conftest import NewBroker
from tests.attack.connections import offered
from tests.attack.random_requests import attack


@pytest.mark.parametrize("is_guarded", [False, True], ids=["open", "without rights"])
def test_random_requests_harm_no_other_client(
    is_guarded: bool, new_broker: NewBroker, random: Random, share: float
) -> None:
    target = new_broker(is_guarded=is_guarded)
    with closing(Campaign(target)) as campaign:
        attack(campaign, offered(target.address, target.credentials), random, share)
