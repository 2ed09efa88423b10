"""Sessions on a real ZooKeeper, directly and through a proxy that loses things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.zookeeper_proxy import Proxy
from tests.support.zookeepers import Recorder
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession


class Client:
    """A started session and what it reported."""

    def __init__(self, connect: str, **settings: Any) -> None:
        self.watches: Recorder[WatchFired] = Recorder()
        self.states: Recorder[SessionState] = Recorder()
        self.latencies_ms: Recorder[float] = Recorder()
        self.session = ZooKeeperSession(
            ZooKeeperConfig(connect, **settings),
            on_watch=self.watches,
            on_state=self.states,
            on_latency_ms=self.latencies_ms,
        )
        self.perform = self.session.perform


OpenClient = Callable[..., Client]


@pytest.fixture
def open_client() -> Iterator[OpenClient]:
    """Makes started clients, which are closed after the test.

    Their sessions outlive a server that starts on a busy machine, unless a test says otherwise.
    """
    clients: list[Client] = []

    def open_one(connect: str, **settings: Any) -> Client:
        client = Client(connect, **{"session_timeout_ms": 60_000, **settings})
        clients.append(client)
        client.session.start()
        return client

    yield open_one
    for client in clients:
        client.session.close()


@pytest.fixture
def proxy(zookeeper_connect: str) -> Iterator[Proxy]:
    """A proxy before the ZooKeeper of the test run."""
    proxy = Proxy(zookeeper_connect)
    yield proxy
    proxy.close()


@pytest.fixture
def direct(zookeeper_connect: str, chroot: str, open_client: OpenClient) -> Client:
    """A client whose connection stands."""
    return open_client(zookeeper_connect + chroot)


@pytest.fixture
def shaky(proxy: Proxy, chroot: str, open_client: OpenClient, direct: Client) -> Client:
    """A client behind the proxy; ``direct`` sees the same znodes."""
    assert direct.session.session_id
    return open_client(proxy.connect + chroot)
