"""Well-formed requests that are huge in one array, one string or one run of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from kafka_common.protocol.api_versions import APIS, ApiKey
from tests.attack.campaign import Campaign, huge_messages
from tests.attack.checks import (
    GROWTH_BYTES,
    assert_descriptors_return,
    assert_harmless,
    assert_serving,
    tell,
)
from tests.attack.conftest import NewBroker
from tests.attack.connections import offered
from tests.support.request_shapes import OFFERED

NAMES = [ApiKey(api_key).name for api_key in OFFERED]
_LOGIN = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@pytest.fixture(scope="module")
def stranger(new_broker: NewBroker) -> Iterator[Campaign]:
    """An attacker who has logged in and may do nothing."""
    with closing(Campaign(new_broker(is_guarded=True))) as campaign:
        yield campaign


def attack(campaign: Campaign, api_key: int, random: Random, share: float) -> None:
    """Sends the huge shapes of the newest version, and of an older one."""
    first, last = OFFERED[api_key]
    at_first = campaign.target.watch.read()
    for version in sorted({last, random.randint(first, last)}):
        for asked in huge_messages(api_key, version):
            if random.random() < share:
                assert_harmless(campaign.send(asked))
    assert_serving(campaign.target)
    assert_descriptors_return(campaign, at_first.descriptors)


def test_every_api_that_a_broker_advertises_is_attacked(campaign: Campaign) -> None:
    assert offered(campaign.target.address) == OFFERED
    assert set(OFFERED) <= set(APIS)


@pytest.mark.parametrize("name", NAMES)
def test_a_huge_message_harms_no_other_client(
    name: str, campaign: Campaign, random: Random, share: float
) -> None:
    attack(campaign, ApiKey[name], random, share)


@pytest.mark.parametrize("name", [name for name in NAMES if ApiKey[name] not in _LOGIN])
def test_a_huge_message_of_a_user_without_rights_harms_no_other_client(
    name: str, stranger: Campaign, random: Random, share: float
) -> None:
    attack(stranger, ApiKey[name], random, share)


@pytest.mark.parametrize("who", ["campaign", "stranger"])
def test_the_memory_of_all_huge_messages_is_bounded(
    who: str, request: pytest.FixtureRequest
) -> None:
    campaign: Campaign = request.getfixturevalue(who)

    grown = sum(row.rss_growth_bytes for row in campaign.rows)

    tell(campaign)
    assert grown <= GROWTH_BYTES
