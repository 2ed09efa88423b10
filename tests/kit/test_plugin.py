"""The pytest plugin as users have it: in runs of pytest of its own, warnings being errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.errors import ConfigInvalid
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller_testing.cluster import KafkaCluster

pytestmark = pytest.mark.kit

RUN_S: Final = 170


class Run:
    """Ended runs of pytest in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, source: str, *options: str) -> tuple[int, str]:
        """Exit code and output of pytest on that file."""
        (self.folder / "test_user.py").write_text(source)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-W", "error", "--strict-markers", *options],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Run(tmp_path)


def test_a_run_that_asks_for_no_cluster_imports_nothing_of_it(run: Run) -> None:
    code, output = run(
        "import sys\n"
        "def test_it():\n"
        "    ours = {m for m in sys.modules if m.partition('.')[0] in\n"
        "            ('zkcontroller', 'zkcontroller_cli', 'replica_manager', 'kio', 'kazoo')}\n"
        "    assert not ours\n"
        "    assert 'zkcontroller_testing.plugin' in sys.modules\n"
    )

    assert code == 0, output


def test_the_fixtures_and_the_marker_are_listed(run: Run) -> None:
    _, fixtures = run("def test_it(): pass\n", "--fixtures", "-q")
    _, markers = run("def test_it(): pass\n", "--markers")

    assert "kafka_cluster -- " in fixtures
    assert "kafka_cluster_session [session scope] -- " in fixtures
    assert "kafka_cluster_module [module scope] -- " in fixtures
    assert "kafka_cluster_factory [session scope] -- " in fixtures
    assert "@pytest.mark.kafka_cluster(brokers=3" in markers


WORKERS: Final = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range(2))
@pytest.mark.kafka_cluster(brokers=1)
def test_it(kafka_cluster, number):
    kafka_cluster.create_topic("orders")
    kafka_cluster.ledger("orders").produce()
    kafka_cluster.no_acknowledged_record_lost()
    with pathlib.Path("connects").open("a") as file:
        print(kafka_cluster.zookeeper_connect, kafka_cluster.bootstrap_servers, file=file)
"""


def test_workers_share_one_zookeeper_and_nothing_else(run: Run) -> None:
    code, output = run(WORKERS, "-n", "2", f"--basetemp={run.folder / 'base'}")

    assert code == 0, output
    lines = [line.split() for line in (run.folder / "connects").read_text().splitlines()]
    servers, chroots = zip(*(line[0].split("/") for line in lines), strict=True)
    assert len(set(servers)) == 1
    assert len(set(chroots)) == 2
    assert len({line[1] for line in lines}) == 2
    assert not (run.folder / "base/kafka-zookeeper/connect").exists()


FAILING: Final = """
def test_it(kafka_cluster_factory):
    cluster = kafka_cluster_factory(1)
    cluster.create_topic("orders")
    cluster.elect_controller()
    assert False, "on purpose"
"""


def test_a_failed_test_shows_what_the_cluster_did_and_keeps_its_logs(run: Run) -> None:
    code, output = run(FAILING, "--kafka-artefacts=kept", "--kafka-zookeeper=embedded")

    assert code == 1, output
    assert "- kafka_cluster -" in output
    assert "test        delete /controller" in output
    assert "controller_elected" in output
    again = "pytest test_user.py::test_it --kafka-zookeeper=embedded --kafka-artefacts=kept"
    assert f"again: {again}" in output
    (kept,) = (run.folder / "kept").iterdir()
    assert (kept / "broker-1/logs/server.log").exists()
    assert (kept / "state-changes.txt").exists()
    assert not (kept / "broker-1/data").exists()


def test_a_setting_that_is_wrong_is_refused_with_what_is_allowed(run: Run) -> None:
    source = "def test_it(kafka_cluster): pass\n"

    _, listeners = run(source, "--kafka-listeners=ssl", "--kafka-zookeeper=localhost:1")
    _, brokers = run(source, "--kafka-brokers=99", "--kafka-zookeeper=localhost:1")
    _, configs = run(source, "-o", "kafka_configs=num.io.threads=many", "--kafka-brokers=1")

    assert "invalid value 'ssl' for listeners: is none of plaintext, tls, sasl" in listeners
    assert "invalid value 99 for brokers: is not between 1 and 20" in brokers
    assert "broker 1 ended while starting" in configs
    assert "test        start 1" in configs
    assert "num.io.threads" in configs


@pytest.mark.parametrize("listeners", ["tls", "sasl", "sasl_tls", "oauth"])
def test_clients_speak_what_the_listener_wants(
    kafka_cluster_factory: Callable[..., KafkaCluster], listeners: str
) -> None:
    from importlib import import_module

    admin: Any = import_module("confluent_kafka.admin")
    cluster = kafka_cluster_factory(1, listeners=listeners)

    known = admin.AdminClient(cluster.client_config()).list_topics(timeout=20)

    assert list(known.brokers) == [1]
    assert len(cluster.client_config()) > 1
    if not listeners.endswith("tls"):
        assert cluster.versions_used("Metadata") != set()
        cluster.remove(cluster.drop("Produce", sender="clients"))
    else:
        with pytest.raises(ConfigInvalid, match=r"what clients send by .*SSL cannot be read"):
            cluster.versions_used("Metadata")
        with pytest.raises(ConfigInvalid, match="it can be cut, not picked out"):
            cluster.drop("Produce", sender="clients")
        cluster.remove(cluster.drop("AlterPartition", sender=1))


def test_a_cluster_on_another_zookeeper_leaves_nothing_behind(
    zookeeper_connect: str, chroot: str, tmp_path: Path
) -> None:
    connect = zookeeper_connect + chroot
    with KafkaCluster(1, connect, directory=tmp_path) as cluster:
        assert cluster.zookeeper_connect.startswith(connect + "/kafka-")
        cluster.create_topic("orders")

    session = ZooKeeperSession(ZooKeeperConfig(connect))
    session.start()
    assert session.children("/") == []
    session.close()


SCOPES: Final = """
import pytest
from pathlib import Path

pytestmark = pytest.mark.kafka_cluster(brokers=1, zookeeper="embedded")
started = {}

def running():
    return {name for name, each in started.items() if each.is_running}

@pytest.fixture(scope="module")
def mine(kafka_cluster_factory):
    return kafka_cluster_factory(2, zookeeper="embedded")

@pytest.fixture
def ones(kafka_cluster_factory):
    cluster = kafka_cluster_factory(1, zookeeper="embedded")
    yield cluster
    assert cluster.is_running

def test_one(kafka_cluster_module, mine, ones, kafka_cluster_factory):
    started.update(module=kafka_cluster_module, mine=mine, fixture=ones)
    started["test"] = kafka_cluster_factory(1, zookeeper="embedded")
    assert started["module"].broker_ids == (1,)
    assert running() == {"module", "mine", "fixture", "test"}

def test_two(kafka_cluster_module, mine):
    assert started["module"] is kafka_cluster_module
    assert running() == {"module", "mine"}
    mine.create_topic("orders")
    assert False, "on purpose"
"""


def test_a_cluster_ends_with_the_test_or_the_fixture_that_has_started_it(run: Run) -> None:
    code, output = run(SCOPES)

    assert code == 1, output
    assert "1 failed, 1 passed" in output
    assert output.count("- kafka_cluster -") == 2  # those that the failed test had
    assert "create topic orders" in output


def test_a_test_that_is_a_coroutine_can_use_a_cluster(run: Run) -> None:
    code, output = run(
        "import asyncio\n"
        "from zkcontroller_testing import AsyncKafkaCluster\n"
        "def test_it(kafka_cluster_factory):\n"
        "    async def run():\n"
        "        cluster = AsyncKafkaCluster(kafka_cluster_factory(1))\n"
        "        beside = asyncio.create_task(asyncio.sleep(0))\n"
        "        await cluster.create_topic('orders')\n"
        "        assert beside.done()\n"
        "        cluster.blocking.bounce(1)\n"
        "        assert await cluster.controller_id() == 1\n"
        "        assert await cluster.wait_leader('orders', 0) == 1\n"
        "    asyncio.run(run())\n"
    )

    assert code == 0, output
