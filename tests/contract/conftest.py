"""The same tests for the simulated ZooKeeper and the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from tests.support.zookeepers import Recorder, end_session
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession
from zkcontroller_simulation.zookeeper import SimulatedSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper


class Client:
    """A session, what it reported, and how to end it from the server's side."""

    def __init__(self, make: Callable[[Recorder[WatchFired], Recorder[SessionState]], Any]) -> None:
        self.watches: Recorder[WatchFired] = Recorder()
        self.states: Recorder[SessionState] = Recorder()
        # Any: the two sessions share their interface by these tests, not by a base class.
        self.session = make(self.watches, self.states)
        self.session.start()
        self.perform = self.session.perform


class ZooKeeper(Protocol):
    """A ZooKeeper as the contract sees it."""

    def connect(self) -> Client:
        """A new client, closed after the test."""

    def expire(self, client: Client) -> None:
        """Ends the client's session on the server."""


class Simulated:
    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._server = SimulatedZooKeeper()

    def connect(self) -> Client:
        return Client(
            lambda watches, states: SimulatedSession(
                self._server, chroot=self._chroot, on_watch=watches, on_state=states
            )
        )

    def expire(self, client: Client) -> None:
        self._server.end_session(client.session.session_id)


class Real:
    def __init__(self, connect: str, chroot: str) -> None:
        self._connect = connect + chroot
        self._clients: list[Client] = []

    def connect(self) -> Client:
        config = ZooKeeperConfig(self._connect)
        client = Client(
            lambda watches, states: ZooKeeperSession(config, on_watch=watches, on_state=states)
        )
        self._clients.append(client)
        return client

    def expire(self, client: Client) -> None:
        end_session(self._connect, client.session)

    def close(self) -> None:
        for client in self._clients:
            client.session.close()


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.integration)])
def zookeeper(request: pytest.FixtureRequest, chroot: str) -> Iterator[ZooKeeper]:
    """An empty ZooKeeper, simulated or real."""
    if request.param == "simulated":
        yield Simulated(chroot)
        return
    real = Real(request.getfixturevalue("zookeeper_connect"), chroot)
    yield real
    real.close()


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Client:
    """One client of it."""
    return zookeeper.connect()


@pytest.fixture
def other(zookeeper: ZooKeeper) -> Client:
    """Another."""
    return zookeeper.connect()
