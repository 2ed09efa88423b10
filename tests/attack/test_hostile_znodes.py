"""Znodes written by hand: a broker lives on, and the controller goes on with its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from tests.attack.campaign import Campaign
from tests.attack.checks import assert_serving
from tests.attack.conftest import NewBroker
from tests.attack.targets import BrokerTarget
from tests.integration.broker_processes import wait_for
from tests.support.topic_creation import create_topic
from zkcontroller.zookeeper.requests import Create, Delete, SetData, Znode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

DEEP: Final = b"[" * 1_000 + b"]" * 1_000
HOSTILE: Final = (
    b"",
    b"\xff\x00",
    b"null",
    b'{"version":1}',
    b'{"version":1,"partitions":{"0":[' + b"9" * 400 + b"]}}",
    b'{"version":1,"partitions":{"0":' + DEEP + b"}}",
    b'{"version":1,"partitions":{"0":[0,0]}}',
    b'{"version":1,"partitions":[{"topic":"../x","partition":-1,"replicas":' + DEEP + b"}]}",
    b'{"version":1,"partitions":[{"topic":"attacked","partition":0,"replicas":[NaN]}]}',
    b'{"version":1,"config":' + DEEP + b"}",
    b'{"version":2,"entity_path":"topics/../../x"}',
    b'{"version":1,"isr":' + DEEP + b',"leader":0,"leader_epoch":0,"controller_epoch":1}',
    b"x" * 900_000,
)
PATHS: Final = (
    "/brokers/topics/hostile",
    "/brokers/topics/attacked/partitions/0/state",
    "/brokers/ids/99",
    "/config/topics/hostile",
    "/config/brokers/0",
    "/config/users/hostile",
    "/config/changes/config_change_0000000000",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/admin/delete_topics/hostile",
    "/isr_change_notification/isr_change_0000000000",
    "/log_dir_event_notification/log_dir_event_0000000000",
    "/kafka-acl-changes/acl_changes_0000000000",
    "/kafka-acl/Topic/hostile",
    "/latest_producer_id_block",
    "/feature",
)


@contextmanager
def operator(target: BrokerTarget) -> Iterator[ZooKeeperSession]:
    """A session of someone who may write every znode."""
    session = ZooKeeperSession(ZooKeeperConfig(connect=target.zookeeper))
    session.start()
    try:
        yield session
    finally:
        session.close()


@pytest.fixture(scope="module")
def campaign(new_broker: NewBroker) -> Iterator[Campaign]:
    with closing(Campaign(new_broker())) as campaign:
        yield campaign


@pytest.mark.parametrize("path", PATHS)
def test_a_hostile_znode_stops_neither_broker_nor_controller(path: str, campaign: Campaign) -> None:
    target = campaign.target
    assert isinstance(target, BrokerTarget)
    with operator(target) as session:
        before = session.read(path)
        session.create_missing([path.rpartition("/")[0] or "/"])
        for number, data in enumerate(HOSTILE):
            session.write(Create(path, data))
            session.write(SetData(path, data))
            if number % 4 == 0:
                session.write(Delete("/controller"))
        if isinstance(before, Znode):
            session.write(SetData(path, before.data))
        else:
            session.write(Delete(path))
        session.write(Delete("/controller"))
        name = "after-" + path.strip("/").replace("/", "-")

        def is_created() -> bool:
            expected = (ErrorCode.none, ErrorCode.topic_already_exists)
            with target.connect() as connection:
                return create_topic(connection, name) in expected

        wait_for(is_created, "a topic is created")

    assert campaign.target.watch.is_alive
    assert campaign.target.watch.new_tracebacks() == []
    assert campaign.target.watch.decoy_changes() == []
    assert_serving(target)
