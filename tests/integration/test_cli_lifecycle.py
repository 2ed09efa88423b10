"""Clusters that live for one test: in the foreground, on a ZooKeeper of someone else, failing."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.integration.cli_cluster import LocalCluster, is_running
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    yield cluster
    cluster.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_a_signal_stops_everything(
    cluster: LocalCluster, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [*cluster.command, "cluster", "start", "--brokers", "2", "-o", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cluster.environment,
    ) as foreground:
        assert foreground.stdout is not None
        started = orjson.loads(foreground.stdout.readline())
        pids = [started["zookeeper_pid"], *(broker["pid"] for broker in started["brokers"])]
        assert all(map(is_running, pids))

        foreground.send_signal(number)
        _, said = foreground.communicate(timeout=60)
        assert foreground.returncode == 0, said.decode()

    assert not any(map(is_running, pids))
    assert cluster.json("cluster", "status")["state"] == "stopped"


def test_a_foreground_cluster_stopped_elsewhere_ends(cluster: LocalCluster) -> None:
    with subprocess.Popen(
        [*cluster.command, "cluster", "start", "--brokers", "1", "-o", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cluster.environment,
    ) as foreground:
        assert foreground.stdout is not None
        assert orjson.loads(foreground.stdout.readline())["state"] == "running"

        assert cluster.json("cluster", "stop")["state"] == "stopped"
        assert foreground.wait(30) == 0


def test_brokers_join_an_external_zookeeper_under_its_chroot(
    cluster: LocalCluster, zookeeper_connect: str, chroot: str
) -> None:
    connect = f"{zookeeper_connect}{chroot}/kafka"
    # Only said by a flag: from the environment no broker joins anything.
    cluster.environment["ZKCTL_ZOOKEEPER"] = "127.0.0.1:1"

    started = cluster.json("cluster", "start", "--brokers", "1", "-z", connect, "--detach")
    del cluster.environment["ZKCTL_ZOOKEEPER"]

    assert started["zookeeper"] == connect
    assert started["zookeeper_pid"] is None
    assert cluster.json("controller", "show")["controller_id"] == 1
    assert cluster.json("znode", "get", "/controller", "-z", connect)["data"]["brokerid"] == 1
    assert cluster.json("cluster", "stop")["state"] == "stopped"
    assert cluster.json("broker", "list") == []


def test_a_wrong_override_is_refused_before_anything_starts(cluster: LocalCluster) -> None:
    result = cluster("cluster", "start", "--override", "num.partitions=none", "--detach")

    assert result.exit_code == 2
    assert "num.partitions" in result.stderr
    assert not list(cluster.directory.glob("broker-*"))


def test_a_broker_that_cannot_start_takes_nothing_with_it(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")

    result = cluster(
        *("cluster", "start", "--brokers", "1", "--detach"),
        *("--override", f"log.dirs={tmp_path / 'file' / 'below'}"),
    )

    assert result.exit_code == 5
    assert result.stdout == ""
    assert "broker 1 ended while starting; the last lines of " in result.stderr
    assert "console.log" in result.stderr
    assert cluster.json("cluster", "status")["state"] == "stopped"


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_broker_whose_port_is_taken_is_not_said_to_be_started(
    cluster: LocalCluster,
    zookeeper_connect: str,
    chroot: str,
    tmp_path: Path,
    detach: tuple[str, ...],
) -> None:
    """As in Kafka it has registered already when it finds that out."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        file = tmp_path / "server.properties"
        file.write_text(
            f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n"
            f"zookeeper.connect={zookeeper_connect}{chroot}\n"
        )

        result = cluster("broker", "start", str(file), *detach)

    assert result.exit_code != 0
    assert result.stdout == ""
    assert f"PLAINTEXT://127.0.0.1:{port}" in result.stderr
    assert "Address already in use" in result.stderr


def test_a_cluster_that_is_not_ready_in_time_is_ended(cluster: LocalCluster) -> None:
    # No one listens on port 1: however busy the machine is, the brokers cannot be ready.
    nowhere = ("--override", "zookeeper.connect=127.0.0.1:1")
    result = cluster("cluster", "start", "--brokers", "2", "--detach", "--timeout", "1", *nowhere)

    assert result.exit_code == 4
    assert cluster.json("cluster", "status")["state"] == "stopped"


def test_force_kills_at_once(cluster: LocalCluster) -> None:
    started = cluster.json("cluster", "start", "--brokers", "1", "--detach")

    stopped = cluster.json("cluster", "stop", "--force")

    assert stopped["state"] == "stopped"
    assert not is_running(started["brokers"][0]["pid"])
    assert (cluster.directory / "broker-1" / "data" / "broker.json").exists()


def test_a_verb_does_not_wait_for_ever_for_a_zookeeper_that_is_gone(
    cluster: LocalCluster, own_zookeeper: EmbeddedZooKeeper
) -> None:
    with subprocess.Popen(
        [*cluster.command, "controller", "watch", "-z", own_zookeeper.connect, "-o", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cluster.environment,
        text=True,
    ) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert watch.stdout.readline()

        own_zookeeper.kill()

        assert watch.wait(30) == 3
        assert "lost the connection to ZooKeeper" in watch.stderr.read()
