"""Which part of a broker gets which change of the configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import cast

import pytest

from kafka_common.errors import ConfigInvalid, ZooKeeperRefused
from kafka_common.model import Broker
from replica_manager.broker.config_changes import ConfigChanges
from replica_manager.broker.dynamic_config import DynamicConfig
from replica_manager.configuration.config import BrokerConfig
from replica_manager.request_errors import RequestRefused
from replica_manager.server.topics.topic_admin import TopicAdmin
from replica_manager.server.topics.topic_creation import NewTopic
from tests.support.broker_world import BrokersSession
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import PERSISTENT_PATHS, ConfigChangeZnode, ConfigZnode
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

BEFORE = BrokerConfig.parse({"zookeeper.connect": "memory:1"})
AFTER = BrokerConfig.parse({"zookeeper.connect": "memory:1", "num.io.threads": "9"})


def started_session() -> BrokersSession:
    session = BrokersSession(SimulatedZooKeeper())
    session.start()
    session.create_missing(PERSISTENT_PATHS)
    return session


def dynamic_config(session: BrokersSession, changes: ConfigChanges) -> DynamicConfig:
    return DynamicConfig(
        cast(ZooKeeperSession, session),
        1,
        BEFORE,
        prepare=changes.prepare,
        on_broker_config=changes.broker_changed,
        on_topic=changes.topic_changed,
        on_unclean_topic=changes.topic_became_unclean,
        on_client=changes.client_changed,
    )


async def test_a_change_of_the_broker_is_checked_and_passed_on_in_order() -> None:
    changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()
    changes.checks += [lambda *_: called.append("check 1"), lambda *_: called.append("check 2")]
    changes.brokers += [lambda *_: called.append("part 1"), lambda *_: called.append("part 2")]

    changes.prepare(BEFORE, AFTER)
    changes.broker_changed(BEFORE, AFTER)

    assert called == ["check 1", "check 2", "part 1", "part 2"]


async def test_a_part_that_fails_keeps_no_other_from_the_change_and_gets_it_again() -> None:
    refusals = [ZooKeeperRefused("/brokers/ids/1", "CONNECTION_LOSS")]
    called: list[tuple[str, BrokerConfig, BrokerConfig]] = []

    def fails_once(before: BrokerConfig, after: BrokerConfig) -> None:
        if refusals:
            raise refusals.pop()
        called.append(("part 1", before, after))

    changes = ConfigChanges(asyncio.get_running_loop())
    changes.brokers += [fails_once, lambda *change: called.append(("part 2", *change))]
    session = started_session()
    dynamic = dynamic_config(session, changes)
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


async def test_each_notification_is_logged_with_the_configuration_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kafka.server.ZkConfigManager")
    session = started_session()
    stored = {
        "topics/orders": {"retention.ms": "7200000", "min.insync.replicas": "2"},
        "users/alice": {"SCRAM-SHA-256": "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5"},
        "brokers/2": {},
    }

    dynamic = dynamic_config(session, ConfigChanges(asyncio.get_running_loop()))
    for path, config in stored.items():
        session.write(Create(ConfigZnode.path(path), ConfigZnode(config).encode()))
        notification = ConfigChangeZnode(path).encode()
        session.write(Create(ConfigChangeZnode.CREATE_PATH, notification, sequential=True))
    dynamic.process_changes()

    # As Kafka 3.9.1 prints them.
    assert caplog.messages == [
        "Processing override for entityPath: topics/orders with config: "
        "HashMap(min.insync.replicas -> 2, retention.ms -> 7200000)",
        "Processing override for entityPath: users/alice with config: "
        "HashMap(SCRAM-SHA-256 -> [hidden])",
        "Processing override for entityPath: brokers/2 with config: HashMap()",
    ]


async def test_the_creation_of_a_topic_is_logged_as_kafka_does(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.zk.AdminZkClient")

    session = cast(ZooKeeperSession, started_session())
    admin = TopicAdmin(session, executor, lambda: BEFORE, Random(7))
    config = {"unclean.leader.election.enable": "true"}
    topic = NewTopic("risky", assignment=((0, (1, 2)), (1, (2, 3))), configs=config)
    brokers = {each: Broker(each, ()) for each in (1, 2, 3)}
    # The line comes before the write, which wants a controller.
    with pytest.raises(RequestRefused, match="there is no controller"):
        await admin.create(topic, brokers, is_cached=False, charge=lambda _: None)

    assert caplog.messages == [
        "Creating topic risky with configuration {unclean.leader.election.enable=true} and initial "
        "partition assignment HashMap(0 -> ArrayBuffer(1, 2), 1 -> ArrayBuffer(2, 3))"
    ]


async def test_a_check_that_refuses_ends_the_preparation() -> None:
    def refuse(_: BrokerConfig, __: BrokerConfig) -> None:
        raise ConfigInvalid("num.io.threads", "9", "fewer")

    changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()
    changes.checks += [refuse, lambda *_: called.append("later")]
    with pytest.raises(ConfigInvalid):
        changes.prepare(BEFORE, AFTER)

    assert called == []


async def test_topics_and_clients_are_passed_on_by_the_event_loop_from_any_thread() -> None:
    loop, called = asyncio.get_running_loop(), list[tuple[str, str]]()
    changes = ConfigChanges(loop)

    def follow(kind: str, name: str, _: Mapping[str, str]) -> None:
        assert asyncio.get_running_loop() is loop
        called.append((kind, name))

    changes.topics.append(lambda *change: follow("topic", *change))
    changes.clients.append(lambda *change: follow("client", *change))

    await asyncio.to_thread(changes.topic_changed, "orders", {})
    await asyncio.to_thread(changes.client_changed, "users/alice", {})

    assert called == [("topic", "orders"), ("client", "users/alice")]


async def test_a_part_that_follows_later_gets_later_changes_only() -> None:
    changes, called = ConfigChanges(asyncio.get_running_loop()), list[str]()

    changes.topic_became_unclean("orders")
    changes.unclean_topics.append(called.append)
    changes.topic_became_unclean("payments")

    assert called == ["payments"]
