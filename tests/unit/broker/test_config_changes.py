"""Which part of a broker gets which change of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from replica_manager.broker.config_changes import ConfigChanges
from replica_manager.broker.dynamic_config import DynamicConfig
from replica_manager.configuration.config import BrokerConfig
from tests.support.broker_world import BrokersSession
from zkcontroller.errors import ConfigInvalid, ZooKeeperRefused
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import PERSISTENT_PATHS, ConfigZnode
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

BEFORE = BrokerConfig.parse({"zookeeper.connect": "memory:1"})
AFTER = BrokerConfig.parse({"zookeeper.connect": "memory:1", "num.io.threads": "9"})


def test_a_change_of_the_broker_is_checked_and_passed_on_in_order() -> None:
    async def steps() -> list[str]:
        changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()
        changes.checks += [lambda *_: called.append("check 1"), lambda *_: called.append("check 2")]
        changes.brokers += [lambda *_: called.append("part 1"), lambda *_: called.append("part 2")]

        changes.prepare(BEFORE, AFTER)
        changes.broker_changed(BEFORE, AFTER)

        return called

    assert asyncio.run(steps()) == ["check 1", "check 2", "part 1", "part 2"]


def test_a_part_that_fails_keeps_no_other_from_the_change_and_gets_it_again() -> None:
    refusals = [ZooKeeperRefused("/brokers/ids/1", "CONNECTION_LOSS")]
    called: list[tuple[str, BrokerConfig, BrokerConfig]] = []

    def fails_once(before: BrokerConfig, after: BrokerConfig) -> None:
        if refusals:
            raise refusals.pop()
        called.append(("part 1", before, after))

    async def steps() -> None:
        changes = ConfigChanges(asyncio.get_running_loop())
        changes.brokers += [fails_once, lambda *change: called.append(("part 2", *change))]
        session = BrokersSession(SimulatedZooKeeper())
        session.start()
        session.create_missing(PERSISTENT_PATHS)
        dynamic = DynamicConfig(
            cast(ZooKeeperSession, session),
            1,
            BEFORE,
            prepare=changes.prepare,
            on_broker_config=changes.broker_changed,
            on_topic=changes.topic_changed,
            on_unclean_topic=changes.topic_became_unclean,
            on_client=changes.client_changed,
        )
        stored = ConfigZnode({"num.io.threads": "9"}).encode()
        session.write(Create(ConfigZnode.path("brokers/1"), stored))
        with pytest.raises(ZooKeeperRefused):
            dynamic.entity_changed("brokers/1")
        after = dynamic.current
        assert after.integer("num.io.threads") == 9
        assert called == [("part 2", BEFORE, after)]

        dynamic.entity_changed("brokers/1")

        assert called[1:] == [("part 1", BEFORE, after), ("part 2", after, after)]
        dynamic.entity_changed("brokers/1")
        assert len(called) == 3

    asyncio.run(steps())


def test_a_check_that_refuses_ends_the_preparation() -> None:
    def refuse(_: BrokerConfig, __: BrokerConfig) -> None:
        raise ConfigInvalid("num.io.threads", "9", "fewer")

    async def steps() -> list[str]:
        changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()
        changes.checks += [refuse, lambda *_: called.append("later")]
        with pytest.raises(ConfigInvalid):
            changes.prepare(BEFORE, AFTER)
        return called

    assert asyncio.run(steps()) == []


def test_topics_and_clients_are_passed_on_by_the_event_loop_from_any_thread() -> None:
    async def steps() -> list[tuple[str, str]]:
        loop, called = asyncio.get_running_loop(), list[tuple[str, str]]()
        changes = ConfigChanges(loop)

        def follow(kind: str, name: str, _: Mapping[str, str]) -> None:
            assert asyncio.get_running_loop() is loop
            called.append((kind, name))

        changes.topics.append(lambda *change: follow("topic", *change))
        changes.clients.append(lambda *change: follow("client", *change))

        await asyncio.to_thread(changes.topic_changed, "orders", {})
        await asyncio.to_thread(changes.client_changed, "users/alice", {})
        return called

    assert asyncio.run(steps()) == [("topic", "orders"), ("client", "users/alice")]


def test_a_part_that_follows_later_gets_later_changes_only() -> None:
    async def steps() -> list[str]:
        changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()

        changes.topic_became_unclean("orders")
        changes.unclean_topics.append(called.append)
        changes.topic_became_unclean("payments")

        return called

    assert asyncio.run(steps()) == ["payments"]
