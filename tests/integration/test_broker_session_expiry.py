"""A broker whose ZooKeeper session ends: it registers again, with a new epoch, and goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from replica_manager.broker.broker_server import BrokerServer
from replica_manager.broker.zookeeper_broker import zookeeper_broker
from replica_manager.broker.zookeeper_metadata import ZooKeeperMembership
from replica_manager.configuration.config import BrokerConfig
from tests.integration.broker_processes import PATIENCE_S, POLL_S
from tests.support.zookeepers import end_session
from zkcontroller.state_changes.record import StateChange
from zkcontroller.zookeeper.requests import Create, SetData, ZkCode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
)

pytestmark = pytest.mark.integration


class Unwritten:
    """State changes that no one reads."""

    def write(self, records: Sequence[StateChange]) -> None:
        assert all(isinstance(record, StateChange) for record in records)


def broker_in(directory: Path, connect: str) -> BrokerServer:
    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "zookeeper.connect": connect,
        }
    )
    return zookeeper_broker(config, state_changes=Unwritten())


async def until(condition: Callable[[], bool], why: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(condition):
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pytest.fail(f"waited {PATIENCE_S} s in vain for {why}")


def membership_of(broker: BrokerServer) -> ZooKeeperMembership:
    membership = broker.running.membership
    assert isinstance(membership, ZooKeeperMembership)
    return membership


def is_controller(broker: BrokerServer) -> bool:
    membership = membership_of(broker)
    znode = membership.session.read(ControllerZnode.PATH)
    return (
        not isinstance(znode, ZkCode)
        and znode.ephemeral_owner == membership.session.session_id
        and membership.runtime.is_active
    )


def test_an_expired_session_is_followed_by_a_new_registration_and_election(
    tmp_path: Path, zookeeper_connect: str, chroot: str
) -> None:
    async def scenario() -> None:
        connect = zookeeper_connect + chroot
        broker = broker_in(tmp_path, connect)
        await broker.start()
        try:
            await until(lambda: is_controller(broker), "the first election")
            first_epoch, first_session = (
                broker.broker_epoch,
                membership_of(broker).session.session_id,
            )

            await asyncio.to_thread(end_session, connect, membership_of(broker).session)

            await until(lambda: broker.broker_epoch > first_epoch, "a new broker epoch")
            await until(lambda: is_controller(broker), "the second election")
            znode = membership_of(broker).session.read(BrokerIdZnode.path(1))
            assert not isinstance(znode, ZkCode)
            assert znode.czxid == broker.broker_epoch
            assert (
                znode.ephemeral_owner == membership_of(broker).session.session_id != first_session
            )
            assert broker.state.name == "RUNNING"
            assert not broker.has_failed.is_set()
            status = json.loads((tmp_path / "broker.json").read_text())
            assert status["broker_epoch"] == broker.broker_epoch
        finally:
            await broker.stop()
        assert broker.state.name == "NOT_RUNNING"

    asyncio.run(scenario())


def test_a_dynamic_configuration_is_followed_also_after_an_expired_session(
    tmp_path: Path, zookeeper_connect: str, chroot: str
) -> None:
    async def scenario() -> None:
        connect = zookeeper_connect + chroot
        broker = broker_in(tmp_path, connect)
        await broker.start()

        def set_max_connections(count: int) -> None:
            session = membership_of(broker).session
            path = ConfigZnode.broker_path(None)
            data = ConfigZnode({"max.connections": str(count)}).encode()
            if session.write(SetData(path, data)) is ZkCode.NO_NODE:
                session.write(Create(path, data))
            change = ConfigChangeZnode("brokers/<default>").encode()
            session.write(Create(ConfigChangeZnode.CREATE_PATH, change, sequential=True))

        def limit() -> int:
            return broker.running.listeners.server.limits.max_connections

        try:
            await asyncio.to_thread(set_max_connections, 11)
            await until(lambda: limit() == 11, "the new limit")
            epoch = broker.broker_epoch

            await asyncio.to_thread(end_session, connect, membership_of(broker).session)
            await until(lambda: broker.broker_epoch > epoch, "a new session")
            await asyncio.to_thread(set_max_connections, 12)

            await until(lambda: limit() == 12, "the limit after that")
        finally:
            await broker.stop()

    asyncio.run(scenario())
