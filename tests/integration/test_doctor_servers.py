"""``zkctl doctor`` and ZooKeeper's servers: an ensemble that loses members, one that is full."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.net.loopback_ports import free_port
from kafka_common.process.java_runtime import find_java
from tests.peers.cluster import Cluster, wait_until
from tests.support.doctor_causes import World
from zkcontroller.zookeeper.embedded import JVM_FLAGS, LOG4J2, EmbeddedZooKeeper
from zkcontroller.zookeeper.server_jars import find_jars

pytestmark = pytest.mark.integration

CONFIGURATION: Final = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=500
initLimit=40
syncLimit=20
forceSync=no
maxClientCnxns=0
admin.enableServer=false
{servers}
"""


class Ensemble:
    """Three ZooKeeper servers that elect a leader."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {number: free_port() for number in (1, 2, 3)}
        self._servers = "\n".join(
            f"server.{number}=127.0.0.1:{free_port()}:{free_port()}" for number in self._ports
        )
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def connect(self) -> str:
        return ",".join(map(self.address, self._ports))

    def address(self, number: int) -> str:
        return f"127.0.0.1:{self._ports[number]}"

    def start_all(self) -> None:
        for number, port in self._ports.items():
            directory = self._directory / f"server-{number}"
            (directory / "data").mkdir(parents=True)
            (directory / "data" / "myid").write_text(str(number))
            (directory / "log4j2.properties").write_text(LOG4J2.format(log_file=directory / "log"))
            (directory / "zoo.cfg").write_text(
                CONFIGURATION.format(data=directory / "data", port=port, servers=self._servers)
            )
            self._processes[number] = subprocess.Popen(
                [
                    find_java(None),
                    *JVM_FLAGS,
                    f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
                    "-cp",
                    os.pathsep.join(map(str, find_jars())),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(directory / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def close(self) -> None:
        for number in list(self._processes):
            self.kill(number)

    def of_mode(self, mode: str) -> list[int]:
        """The servers that say of themselves that they are that."""
        return [number for number in self._processes if f"Mode: {mode}" in self._srvr(number)]

    def _srvr(self, number: int) -> str:
        result = bytearray()
        try:
            with socket.create_connection(("127.0.0.1", self._ports[number]), 5) as connection:
                connection.sendall(b"srvr")
                while chunk := connection.recv(4096):
                    result += chunk
        except OSError:
            return ""
        return result.decode()


def texts(finding: Any) -> list[str]:
    return [f"{each['where']}: {each['what']}" for each in finding["evidence"]]


def test_an_ensemble_is_silent_until_it_loses_one_server_and_then_its_quorum(
    tmp_path: Path,
) -> None:
    ensemble = Ensemble(tmp_path)
    with ExitStack() as stack:
        stack.callback(ensemble.close)
        ensemble.start_all()
        wait_until(
            lambda: len(ensemble.of_mode("follower")) == 2 and len(ensemble.of_mode("leader")) == 1,
            "a leader and two followers",
        )
        cluster = Cluster(ensemble.connect, tmp_path)
        stack.callback(cluster.close)
        world = World(cluster, cluster.start_forked, tmp_path)
        world.start(1)
        cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")

        healthy = world.doctor()
        dead, left = ensemble.of_mode("follower")
        ensemble.kill(dead)
        with_a_quorum = world.doctor()
        [leader] = ensemble.of_mode("leader")
        ensemble.kill(leader)
        cluster.wait_until(lambda: not ensemble.of_mode("follower"), "the end of the quorum")
        rows = world.zkctl("doctor", "-z", ensemble.connect, "--timeout", "3", codes=(2,))

    assert healthy == {}
    [refused] = texts(with_a_quorum["Z02"])
    assert refused.startswith(f"srvr of {ensemble.address(dead)}: ")
    [without] = [row for row in rows if row["rule"] == "Z02"]
    assert f"srvr of {ensemble.address(left)}: serves no requests: it has no quorum" in texts(
        without
    )


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[World]:
    """One broker on a ZooKeeper that takes thirty connections of one host."""
    properties = {"maxClientCnxns": "30"}
    with EmbeddedZooKeeper(tmp_path / "zookeeper", properties=properties) as server:
        cluster = Cluster(server.connect, tmp_path)
        try:
            world = World(cluster, cluster.start_forked, tmp_path)
            world.start(1)
            cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")
            yield world
        finally:
            cluster.close()


def test_a_server_with_hardly_a_connection_left_is_found(alone: World) -> None:
    host, _, port = alone.cluster.zookeeper.rpartition(":")

    before = alone.doctor()
    with ExitStack() as stack:
        for _ in range(25):
            stack.enter_context(socket.create_connection((host, int(port)), 5))
        found = alone.doctor()

    assert before == {}
    [full] = texts(found["Z03"])
    assert "connections from 127.0.0.1, maxClientCnxns=30" in full


def test_watching_remembers_earlier_looks_and_outlives_zookeeper(
    tmp_path: Path, own_zookeeper: EmbeddedZooKeeper
) -> None:
    shown, said = tmp_path / "stdout", tmp_path / "stderr"
    cluster = Cluster(own_zookeeper.connect, tmp_path)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        world = World(cluster, cluster.start_forked, tmp_path)
        world.start(1)
        cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")
        watching = subprocess.Popen(
            [
                *(sys.executable, "-m", "zkcontroller_cli", "-z", cluster.zookeeper),
                *("--timeout", "2", "-o", "jsonl", "doctor", "--watch", "1"),
            ],
            stdout=stack.enter_context(shown.open("w")),
            stderr=stack.enter_context(said.open("w")),
        )
        stack.callback(watching.kill)
        cluster.wait_until(lambda: "they need --since" in said.read_text(), "a first look")

        cluster.elect()
        cluster.elect()
        cluster.wait_until(lambda: '"rule":"C03"' in shown.read_text(), "C03")
        own_zookeeper.stop()
        cluster.wait_until(lambda: "zkctl: no ZooKeeper at" in said.read_text(), "an error")
        seen = shown.read_text().count('"rule":"C03"')
        own_zookeeper.start()
        cluster.wait_until(lambda: shown.read_text().count('"rule":"C03"') > seen, "C03 again")
        watching.send_signal(signal.SIGINT)
        exit_code = watching.wait(30)

    assert exit_code == 130
    assert '"rule":"Z02"' in shown.read_text()
