"""What is attacked: processes as operators start them, on loopback, in folders of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kio.schema.errors import ErrorCode
from typing_extensions import override

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker
from kafka_common.net.client_security import Credentials
from kafka_common.observability.loop_watch import VARIABLE
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, request_type, write
from tests.attack.connections import RawConnection, is_serving
from tests.attack.shapes import Message
from tests.attack.values import TOPIC
from tests.attack.watch import LOOP_BOUND_MS, Watch
from tests.integration.broker_processes import wait_for
from tests.integration.secured_cluster import scram_config
from tests.support.quorum import CLUSTER_ID, free_ports
from tests.support.topic_creation import create_topic
from zkcontroller.zookeeper.requests import Create, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode

STRANGER: Final = Credentials("SCRAM-SHA-256", "stranger", "stranger-secret-0451")
"""A user who logs in and may do nothing."""
_WAIT_S: Final = 60.0

OPEN_BROKER: Final = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
GUARDED_BROKER: Final = OPEN_BROKER | {
    "listeners": "PLAINTEXT://127.0.0.1:0,GUARDED://127.0.0.1:{port}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.guarded.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Target(ABC):
    """A process under attack."""

    name: str
    address: str
    """Where the attacker connects."""
    bystander_address: str
    """Where another client does."""
    credentials: Credentials | None = None
    watch: Watch

    @property
    @abstractmethod
    def pid(self) -> int: ...

    def connect(self) -> RawConnection:
        """A connection of the attacker's, logged in."""
        return RawConnection(self.address, self.credentials)

    def is_serving(self) -> bool:
        return is_serving(self.bystander_address, _WAIT_S)


class BrokerTarget(Target):
    """A broker, which is the controller of its cluster as well."""

    zookeeper: str
    """Its connect string."""

    def __init__(self, process: BrokerProcess, directory: Path, address: str, other: str) -> None:
        self.name = process.name
        self._process = process
        self.address = address
        self.bystander_address = other
        self.decoy = make_decoy(directory / "decoy")
        self.watch = Watch(process.pid, process.logs, self.decoy)

    @property
    @override
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """Ends it in order, as ``zkctl cluster stop`` does; returns the exit code."""
        return self._process.stop()


class QuorumTarget(Target):
    """The only voter of a quorum: it leads, and so everything is asked of it."""

    name = "quorum node"

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, port: int) -> None:
        self._process = process
        self.address = self.bystander_address = f"127.0.0.1:{port}"
        self.decoy = make_decoy(directory / "decoy")
        self.watch = Watch(process.pid, directory / "logs", self.decoy)

    @property
    @override
    def pid(self) -> int:
        return self._process.pid


def make_decoy(folder: Path) -> Path:
    """A tree that looks like a log directory's and is none of the target's business."""
    for name in ("orders-0", "sub"):
        (folder / name).mkdir(parents=True)
        (folder / name / "00000000000000000000.log").write_bytes(b"precious " * 100)
    (folder / "precious.txt").write_text("precious\n")
    return folder


@contextmanager
def broker_target(
    zookeeper: str,
    directory: Path,
    *,
    is_guarded: bool = False,
    is_real: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Iterator[BrokerTarget]:
    """A broker that serves, with a topic; ``is_guarded``: attacked by a user without rights.

    ``is_real``: Kafka 3.9.1 instead of ours.
    """
    os.environ.setdefault(VARIABLE, str(LOOP_BOUND_MS))
    settings = dict(GUARDED_BROKER if is_guarded else OPEN_BROKER) | dict(properties or {})
    session = ZooKeeperSession(ZooKeeperConfig(connect=zookeeper))
    session.start()
    open_port, guarded_port = free_ports(2)
    if is_guarded:
        _write_stranger(session)
    listeners = settings.get("listeners", "PLAINTEXT://127.0.0.1:0")
    settings["listeners"] = listeners.replace("127.0.0.1:0", f"127.0.0.1:{open_port}").replace(
        "{port}", str(guarded_port)
    )
    kind = KafkaBroker if is_real else OurBroker
    process: BrokerProcess = kind(0, zookeeper, directory / "broker", settings)
    # A broker dies with the thread that has started it: this one lives as long as the block.
    with ThreadPoolExecutor(1) as executor:
        try:
            executor.submit(process.start).result()
            other = f"127.0.0.1:{open_port}"
            target = BrokerTarget(
                process, directory, f"127.0.0.1:{guarded_port}" if is_guarded else other, other
            )
            target.zookeeper = zookeeper
            target.credentials = STRANGER if is_guarded else None
            _create_topic(other)
            yield target
        finally:
            process.kill()
            session.close()


def _write_stranger(session: ZooKeeperSession) -> None:
    session.create_missing([ConfigZnode.type_path("users")])
    for user, config in scram_config((STRANGER.username, STRANGER.password)).items():
        created = session.write(
            Create(ConfigZnode.path(f"users/{user}"), ConfigZnode(config).encode())
        )
        assert not isinstance(created, ZkCode)


def _create_topic(address: str) -> None:
    def is_there() -> bool:
        with RawConnection(address) as connection:
            error = create_topic(connection, TOPIC)
        exists = error in (ErrorCode.none, ErrorCode.topic_already_exists)
        return exists and _has_leader(address)

    wait_for(is_there, f"topic {TOPIC}")


def _has_leader(address: str) -> bool:
    request: Any = request_type(ApiKey.METADATA, 4)
    with RawConnection(address) as connection:
        body = connection.call(
            ApiKey.METADATA, 4, write(request(topics=None, allow_auto_topic_creation=False))
        )
    response: Any = read_response(ApiKey.METADATA, 4, body)
    return any(
        topic.name == TOPIC and all(each.leader_id == 0 for each in topic.partitions)
        for topic in response.topics
    )


def _body(asked: Message) -> bytes:
    return asked.data[10 + len("attacker") :]


@contextmanager
def quorum_target(
    directory: Path, properties: Mapping[str, str] | None = None
) -> Iterator[QuorumTarget]:
    """A node of a quorum of one, as ``zkctl quorum start`` runs it.

    The address is that of the listener CONTROLLER, whose port a further one in ``properties``
    leaves as ``{port}``.
    """
    os.environ.setdefault(VARIABLE, str(LOOP_BOUND_MS))
    [port] = free_ports(1)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "controller.properties"
    settings = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "data"),
    }
    settings |= {
        key: value.replace("{port}", str(port)) for key, value in (properties or {}).items()
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    zkctl = [sys.executable, "-m", "zkcontroller_cli"]
    subprocess.run(
        [*zkctl, "storage", "format", "-t", CLUSTER_ID, "-c", str(file)],
        check=True,
        capture_output=True,
    )
    (directory / "logs").mkdir()
    with (directory / "logs" / "console.log").open("wb") as console:
        process = subprocess.Popen(
            [*zkctl, "quorum", "start", str(file)],
            cwd=directory,
            stdout=console,
            stderr=console,
        )
    try:
        target = QuorumTarget(process, directory, port)
        wait_for(lambda: is_serving(target.address, 1.0), "the quorum node")
        yield target
    finally:
        process.kill()
        process.wait()
