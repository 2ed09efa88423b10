"""The same at a node of a KRaft quorum: the leader, which answers all that a controller can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Final

import pytest

from tests.attack.campaign import Campaign, huge_messages
from tests.attack.checks import assert_descriptors_return, assert_harmless, assert_serving, tell
from tests.attack.connections import offered
from tests.attack.random_requests import attack
from tests.attack.targets import quorum_target

ITEMS: Final = 20_000


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with (
        quorum_target(tmp_path_factory.mktemp("quorum")) as target,
        closing(Campaign(target)) as campaign,
    ):
        yield campaign


def test_huge_messages_do_not_end_a_node_of_a_quorum(
    campaign: Campaign, random: Random, share: float
) -> None:
    at_first = campaign.target.watch.read()
    for api_key, (first, last) in offered(campaign.target.address).items():
        for version in sorted({last, random.randint(first, last)}):
            for asked in huge_messages(api_key, version, items=ITEMS):
                if random.random() < share:
                    assert_harmless(campaign.send(asked))
    tell(campaign)
    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first.descriptors)


def test_random_requests_do_not_end_a_node_of_a_quorum(
    campaign: Campaign, random: Random, share: float
) -> None:
    attack(campaign, offered(campaign.target.address), random, share)
