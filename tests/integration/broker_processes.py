"""Broker processes on a real ZooKeeper, for tests."""

from __future__ import annotations

import importlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    ControllerZnode,
    PartitionStateZnode,
)
from zkcontroller_testing.fork_server import ForkedProcess, ForkServer
from zkcontroller_testing.waiting import until

PATIENCE_S: Final = 40.0
POLL_S: Final = 0.05
SESSION_TIMEOUT_MS: Final = 6_000
LINES_TOLD: Final = 40
"""Of each log file, when a test fails."""

# What is left to the garbage collector is said on standard error, which tests look at.
_FORKED: Final = ForkServer("replica_manager", options=("-W", "default"))

T = TypeVar("T")


def wait_for(what: Callable[[], T | None], why: str) -> T:
    """The first answer of ``what`` that is not None or False; fails after a long patience."""

    def look() -> T | None:
        found = what()
        return None if found is False else found

    return until(look, lambda: why, PATIENCE_S)


def metadata_of(admin: Any) -> Any | None:
    """What a broker says to confluent-kafka's AdminClient; None while the broker knows no other.

    A broker serves before the first UpdateMetadata reaches it, as Kafka's does, and librdkafka
    refuses a response without brokers.
    """
    module: Any = importlib.import_module("confluent_kafka")
    try:
        return admin.list_topics(timeout=10)
    except module.KafkaException as refused:
        if refused.args[0].code() != module.KafkaError._PARTIAL:
            raise
        return None


def admin_client(bootstrap_servers: str) -> Any:
    """confluent-kafka's AdminClient, after the controller is known and knows these brokers.

    A broker serves before the controller counts it for a new topic.  librdkafka does not ask again
    soon when no controller is named, so each try is another client.
    """
    module: Any = importlib.import_module("confluent_kafka.admin")
    count = len(bootstrap_servers.split(","))

    def informed() -> Any | None:
        admin = module.AdminClient({"bootstrap.servers": bootstrap_servers})
        found = metadata_of(admin)
        is_informed = found and found.controller_id >= 0 and len(found.brokers) >= count
        return admin if is_informed else None

    return wait_for(informed, "a broker names the controller and all brokers")


class BrokerProcess:
    """One broker, as ``python -m replica_manager`` runs it."""

    def __init__(self, directory: Path, connect: str, broker_id: int, **properties: str) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.data = directory / f"data-{broker_id}"
        self.logs = directory / f"logs-{broker_id}"
        settings = {
            "broker.id": str(broker_id),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(self.data),
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "controlled.shutdown.retry.backoff.ms": "500",
            **{name.replace("__", "."): value for name, value in properties.items()},
        }
        self.file = directory / f"server-{broker_id}.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._errors = directory / f"stderr-{broker_id}"
        self._process: ForkedProcess | None = None

    def start(self, *options: str) -> BrokerProcess:
        """Starts the process; it may not be ready yet."""
        with self._errors.open("w") as errors:
            self._process = _FORKED.start(
                "replica_manager",
                [str(self.file), *options, "--logs-dir", str(self.logs), "--quiet"],
                stdout=1,
                stderr=errors.fileno(),
                environment=os.environ,
                directory=self.directory,
            )
        return self

    def ready(self) -> BrokerProcess:
        """Waits until it serves clients."""

        def is_ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._errors.read_text()
            status = self.data / "broker.json"
            return status.exists() and self.status["pid"] == self._process.pid

        wait_for(is_ready, f"broker {self.broker_id}")
        return self

    @property
    def status(self) -> dict[str, Any]:
        """What ``broker.json`` says."""
        status: dict[str, Any] = json.loads((self.data / "broker.json").read_text())
        return status

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """``host:port`` of its PLAINTEXT listener."""
        return str(self.status["listeners"]["PLAINTEXT"]).removeprefix("PLAINTEXT://")

    def log(self, name: str = "server.log") -> str:
        """The text of one of its log files, with the hours that have rolled away."""
        # The running file comes last, read after a roll or before it: a line may be there twice,
        # never missing.
        running = self.logs / name
        text = running.read_text() if running.exists() else ""
        rolled = sorted(self.logs.glob(f"{name}.*"))
        return "".join(file.read_text() for file in rolled) + text

    def wait_for_line(self, text: str) -> None:
        """Waits until server.log holds ``text``; lines are written a little after the event."""
        wait_for(lambda: text in self.log(), f"{text!r} in the log of broker {self.broker_id}")

    def tell(self) -> None:
        """Prints the ends of its log files; pytest shows them if the test failed."""
        for name in ("server.log", "controller.log"):
            print(f"--- broker {self.broker_id}, {name}")
            print("\n".join(self.log(name).splitlines()[-LINES_TOLD:]))

    def kill(self) -> None:
        """SIGKILL: nothing is said to anybody."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def exit_code(self) -> tuple[int, str]:
        """Waits for the end: exit code, and what it said on stderr."""
        assert self._process is not None
        return self._process.wait(PATIENCE_S), self._errors.read_text()

    def stop(self) -> tuple[int, str]:
        """SIGTERM, and the end."""
        self.signal(signal.SIGTERM)
        return self.exit_code()

    def end(self) -> None:
        """Whatever it does, it is gone afterwards."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


class Cluster:
    """Brokers of one test."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.directory = directory
        self.connect = connect
        self.brokers: dict[int, BrokerProcess] = {}

    def start(self, *broker_ids: int, **properties: str) -> list[BrokerProcess]:
        """Starts brokers and waits until each is ready and known to the first."""
        started = [
            BrokerProcess(self.directory, self.connect, broker_id, **properties).start()
            for broker_id in broker_ids
        ]
        self.brokers.update({broker.broker_id: broker for broker in started})
        return [broker.ready() for broker in started]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())


@contextmanager
def cluster_in(directory: Path, connect: str) -> Iterator[Cluster]:
    """A cluster whose processes end with the block."""
    cluster = Cluster(directory, connect)
    try:
        yield cluster
    finally:
        for broker in cluster.brokers.values():
            broker.end()
            broker.tell()


def controller_id(session: ZooKeeperSession) -> int | None:
    """Who ``/controller`` names; None while it is not there."""
    found = session.read(ControllerZnode.PATH)
    return None if isinstance(found, ZkCode) else ControllerZnode.decode(found.data).broker_id


def state_of(
    session: ZooKeeperSession, topic: str, partition: int = 0
) -> PartitionStateZnode | None:
    """The state of a partition; None while it has none."""
    path = PartitionStateZnode.path(topic, partition)
    found = session.read(path)
    return None if isinstance(found, ZkCode) else PartitionStateZnode.decode(path, found.data)
