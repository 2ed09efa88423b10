"""The demonstrations whole: every fact is true, and no process is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.integration.cli_cluster import LocalCluster, is_running

pytestmark = pytest.mark.kit


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "cluster")
    yield cluster
    cluster.end()


def test_the_demo_finds_every_fact_true_and_leaves_nothing_behind(cluster: LocalCluster) -> None:
    result = cluster("demo", "-o", "json")

    assert result.exit_code == 0, result.stderr
    facts = result.json
    assert len(facts) >= 9
    assert all(fact["is_true"] for fact in facts)
    assert "is killed (SIGKILL)" in result.stderr
    assert "✓ another broker is the controller" in result.stderr
    assert cluster.json("cluster", "status")["state"] == "stopped"


def test_an_interrupted_demo_leaves_no_process_behind(cluster: LocalCluster) -> None:
    with subprocess.Popen(
        [*cluster.command, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cluster.environment,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        pids: list[int] = []
        while len(pids) < 3:
            line = demo.stdout.readline()
            assert line, "the demo ended before its brokers were up"
            pids += [int(pid) for pid in re.findall(r"pid (\d+)", line)]
        assert all(map(is_running, pids))

        demo.send_signal(signal.SIGTERM)
        demo.stdout.read()
        assert demo.wait(60) == 130

    assert not any(map(is_running, pids))


def test_the_demo_of_a_quorum_finds_every_fact_true_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "zkcontroller_cli", "quorum", "demo"]
    done = subprocess.run(
        [*command, "--dir", str(tmp_path), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    facts = orjson.loads(done.stdout)
    assert len(facts) == 7
    assert all(fact["is_true"] for fact in facts)
    assert "the leader, is killed (SIGKILL)" in done.stderr
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", done.stderr)]
    assert len(pids) == 5
    assert not any(map(is_running, pids))
