"""A ``zkctl`` to call in a test: the installed entry point, on a ZooKeeper in memory.

The simulated ZooKeeper is held to the real one's behaviour by the contract tests, so what a verb
reads here it would read there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import entry_points
from io import StringIO
from threading import current_thread, main_thread
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pytest

from kafka_common.model import Broker, Endpoint, ReplicaAssignment
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperConfig
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    PartitionStateZnode,
    TopicPartitionZnode,
    TopicZnode,
)
from zkcontroller_simulation.zookeeper import SimulatedSession, SimulatedZooKeeper

ORDERS_ID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)


class CommandResult(NamedTuple):
    """What one command line came to."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """stdout, which must be one JSON document."""
        return orjson.loads(self.stdout)


class Zkctl:
    """Calls ``zkctl`` in this process; ``zookeeper`` answers at any address."""

    def __init__(self, capsys: pytest.CaptureFixture[str], zookeeper: SimulatedZooKeeper) -> None:
        [entry_point] = entry_points(group="console_scripts", name="zkctl")
        self._main: Callable[[list[str]], int] = entry_point.load()
        self._capsys = capsys
        self.zookeeper = zookeeper
        self.connected_to: list[str] = []

    def __call__(self, *arguments: str) -> CommandResult:
        """Run one command line."""
        self._capsys.readouterr()
        exit_code = self._main(list(arguments))
        return CommandResult(int(exit_code), *self._capsys.readouterr())

    def open_session(self, config: ZooKeeperConfig, **callbacks: Any) -> SimulatedSession:
        """Stands in for ``ZooKeeperSession``."""
        self.connected_to.append(config.connect)
        _, slash, chroot = config.connect.partition("/")
        return SimulatedSession(self.zookeeper, chroot=f"{slash}{chroot}", **callbacks)

    def session(self) -> SimulatedSession:
        """A session of the test's own."""
        session = SimulatedSession(self.zookeeper)
        session.start()
        return session

    def create(self, path: str, data: bytes | None = None) -> None:
        """Put a znode, and its parents, into ZooKeeper."""
        session = SimulatedSession(self.zookeeper)
        session.start()
        parent = path.rpartition("/")[0]
        if parent:
            session.create_missing([parent])
        session.write(Create(path, data))


def zkctl_here(*arguments: str, **environment: str) -> CommandResult:
    """Runs one command line in this process, on whatever cluster it names.

    Nothing of the developer's own environment reaches it.  Several such calls are much quicker than
    as many processes.  It is for verbs that end by themselves and start no process that stays: only
    one call at a time can have stdout and stderr.
    """
    assert current_thread() is main_thread(), "stdout belongs to all threads: start a process"
    [entry_point] = entry_points(group="console_scripts", name="zkctl")
    main = entry_point.load()
    out, talk = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(talk):
        for variable in [name for name in os.environ if name.startswith("ZKCTL_")]:
            patch.delenv(variable)
        for name, value in environment.items():
            patch.setenv(name, value)
        exit_code = main(list(arguments))
    return CommandResult(int(exit_code), out.getvalue(), talk.getvalue())


def installed_zkctl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Zkctl]:
    """The body of a fixture: nothing of the developer's own environment, ZooKeeper in memory."""
    for variable in [name for name in os.environ if name.startswith("ZKCTL_")]:
        monkeypatch.delenv(variable)
    zkctl = Zkctl(capsys, SimulatedZooKeeper())
    module = import_module("zkcontroller_cli.znodes.session")
    monkeypatch.setattr(module, "ZooKeeperSession", zkctl.open_session)
    monkeypatch.setattr(module, "refused_by_all", lambda *_: None)
    yield zkctl


def furnish(zkctl: Zkctl, chroot: str = "") -> None:
    """Brokers 1 and 2 alive, 3 gone, 1 the controller; topic ``orders`` in three states."""
    for broker_id in (1, 2):
        endpoint = Endpoint("127.0.0.1", 9090 + broker_id, "PLAINTEXT", "PLAINTEXT")
        broker = BrokerIdZnode(Broker(broker_id, (endpoint,)), timestamp_ms=1_700_000_000_000)
        zkctl.create(chroot + BrokerIdZnode.path(broker_id), broker.encode())
    zkctl.create(chroot + ControllerZnode.PATH, ControllerZnode(1, 1_700_000_000_123).encode())
    zkctl.create(chroot + ControllerEpochZnode.PATH, ControllerEpochZnode.encode(7))
    assignment = ReplicaAssignment((1, 2))
    topic = TopicZnode(ORDERS_ID, {0: assignment, 1: assignment, 2: ReplicaAssignment((3, 2))})
    zkctl.create(chroot + TopicZnode.path("orders"), topic.encode())
    config = ConfigZnode({"retention.ms": "1000"})
    zkctl.create(chroot + ConfigZnode.topic_path("orders"), config.encode())
    states = (
        PartitionStateZnode(1, 4, (1, 2), 7),
        PartitionStateZnode(2, 5, (2,), 6),
        PartitionStateZnode(-1, 9, (3,), 6),
    )
    for partition, state in enumerate(states):
        zkctl.create(chroot + TopicPartitionZnode.path("orders", partition))
        zkctl.create(chroot + PartitionStateZnode.path("orders", partition), state.encode())
