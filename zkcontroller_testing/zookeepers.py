"""Starts the ZooKeeper of a cluster: embedded, shared, in a container, or a given one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from zkcontroller.zookeeper.connect_string import ConnectString, parse_connect
from zkcontroller.zookeeper.requests import ANY_VERSION, Delete, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller_testing.shared_server import SharedServer

EMBEDDED: Final = "embedded"
SHARED: Final = "shared"
CONTAINER: Final = "container"

_numbers = itertools.count(1)


class RunningZooKeeper(NamedTuple):
    """A ZooKeeper server, and the chroot of one cluster in it."""

    where: ConnectString
    stop: Callable[[], None]
    is_left_behind: bool
    """Whether the server runs on after the test, so that the chroot must be removed."""

    @property
    def connect(self) -> str:
        """The connect string, chroot included."""
        return self.where.hosts + self.where.chroot


def start_zookeeper(kind: str, directory: Path, shared: Path | None = None) -> RunningZooKeeper:
    """Starts the ZooKeeper of this kind: embedded, shared, container, or ``host:port/chroot``.

    Every cluster gets a chroot of its own in it.  ``shared``: the folder of the shared server; if
    None, the kind ``shared`` is the same as ``embedded``.  Raises ConfigInvalid or
    ZooKeeperUnavailable if there is no such ZooKeeper.
    """
    if kind in (EMBEDDED, SHARED):
        is_shared = kind == SHARED and shared is not None
        user = SharedServer(shared if is_shared and shared else directory / "zookeeper")
        return RunningZooKeeper(_below(user.acquire()), user.release, is_left_behind=False)
    if kind == CONTAINER:
        from zkcontroller.zookeeper.container import ZooKeeperContainer

        container = ZooKeeperContainer()
        container.start()
        return RunningZooKeeper(_below(container.connect), container.stop, is_left_behind=False)
    return RunningZooKeeper(_below(kind), lambda: None, is_left_behind=True)


def remove_chroot(where: ConnectString) -> None:
    """Deletes the chroot and everything below it, deepest first."""
    parent, _, name = where.chroot.rpartition("/")
    session = ZooKeeperSession(ZooKeeperConfig(where.hosts + parent, name="kafka_cluster"))
    session.start()
    paths = [f"/{name}"]
    for path in paths:  # grows while it is read
        children = session.children(path)
        if not isinstance(children, ZkCode):
            paths += [f"{path}/{child}" for child in children]
    for path in reversed(paths):
        session.write(Delete(path, ANY_VERSION))
    session.close()


def _below(connect: str) -> ConnectString:
    where = parse_connect(connect)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return where._replace(chroot=f"{where.chroot}/kafka-{worker}-{os.getpid()}-{next(_numbers)}")
