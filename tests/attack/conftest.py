"""The seed of what is tried, how much of it, and the ZooKeeper below the brokers under attack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import pytest

from tests.attack.campaign import Campaign
from tests.attack.targets import BrokerTarget, broker_target
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

_numbers = count()
SEED: Final = int(os.environ.get("ZKCONTROLLER_ATTACK_SEED", "1"))
SHARE: Final = float(os.environ.get("ZKCONTROLLER_ATTACK_SHARE", "1"))

NewBroker: TypeAlias = Callable[..., BrokerTarget]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What attacks is marked so and runs for long."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.attack)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """Makes the choices of one test; the seed is printed with a failure."""
    print(f"ZKCONTROLLER_ATTACK_SEED={SEED}")
    return Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def share() -> float:
    """Which part of all shapes is tried, chosen by the seed."""
    return SHARE


@pytest.fixture(scope="session")
def attack_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One server; each broker has a chroot of its own."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        yield zookeeper


@pytest.fixture(scope="module")
def new_broker(
    attack_zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NewBroker]:
    """Starts brokers, each the only one of its cluster, until the end of the file."""
    with ExitStack() as brokers:

        def start(**settings: object) -> BrokerTarget:
            chroot = f"{attack_zookeeper.connect}/attack-{next(_numbers)}"
            directory = tmp_path_factory.mktemp("attacked")
            starting = broker_target(chroot, directory, **settings)  # type: ignore[arg-type]
            return brokers.enter_context(starting)

        yield start


@pytest.fixture(scope="module")
def campaign(new_broker: NewBroker) -> Iterator[Campaign]:
    """An attacker at an open broker."""
    with closing(Campaign(new_broker())) as campaign:
        yield campaign
