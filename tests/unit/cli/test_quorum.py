"""``zkctl quorum``: describe from any node, dump files, refuse to start what it cannot be."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from kafka_common.protocol.uuid_text import uuid_text
from kraft.metadata.metadata_batches import encode_control_batch
from kraft.node.metadata_log import FOLDER
from kraft.raft.control_records import SnapshotFooter, SnapshotHeader
from tests.support.cli_world import CommandResult, Zkctl, installed_zkctl
from tests.support.quorum import CLUSTER_ID, Quorum, eventually, free_ports

NO_OP = b"\1\x14\0\0"


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def test_the_leader_is_found_from_any_node(tmp_path: Path, zkctl: Zkctl) -> None:
    async def described(quorum: Quorum, node_id: int, *options: str) -> CommandResult:
        endpoint = quorum.voters.endpoints[node_id]
        address = f"{endpoint.host}:{endpoint.port}"
        return await asyncio.to_thread(
            zkctl, "quorum", "describe", "--bootstrap-controller", address, "-o", "json", *options
        )

    async def steps(quorum: Quorum) -> None:
        await quorum.start(1, 2, 3, 9)
        leader = await quorum.leader()
        for node_id in quorum.voters:
            result = await described(quorum, node_id)
            assert result.exit_code == 0, result.stderr
            assert result.json == {
                "leader_id": leader,
                "leader_epoch": quorum.leaders()[leader],
                "high_watermark": 1,
                "max_follower_lag": 0,
                "max_follower_lag_time_ms": result.json["max_follower_lag_time_ms"],
                "current_voters": [1, 2, 3],
                "current_observers": [9],
            }
            assert result.json["max_follower_lag_time_ms"] >= 0
        rows = (await described(quorum, leader, "--replication")).json
        assert [row["node_id"] for row in rows][0::3] == [leader, 9]
        assert [row["status"] for row in rows] == ["leader", "follower", "follower", "observer"]
        directory_id = quorum.settings(9).local.directory_id
        assert directory_id is not None
        assert rows[-1]["directory_id"] == uuid_text(directory_id)
        assert {row["log_end_offset"] for row in rows} == {1}
        assert {row["lag"] for row in rows} == {0}

    _run(tmp_path, steps)


def test_a_quorum_without_a_leader_is_no_answer(tmp_path: Path, zkctl: Zkctl) -> None:
    async def steps(quorum: Quorum) -> None:
        await quorum.start(1)
        endpoint = quorum.voters.endpoints[1]
        result = await asyncio.to_thread(
            zkctl, "quorum", "describe",
            "--bootstrap-controller", f"{endpoint.host}:{endpoint.port}",
        )  # fmt: skip

        assert result.exit_code == 5
        assert "no node of the quorum leads" in result.stderr

    _run(tmp_path, steps)


def test_an_unreachable_quorum_is_reported(zkctl: Zkctl) -> None:
    [port] = free_ports(1)

    result = zkctl("quorum", "describe", "--bootstrap-controller", f"127.0.0.1:{port}")

    assert result.exit_code == 3
    assert str(port) in result.stderr


def test_the_records_of_a_log_are_dumped(tmp_path: Path, zkctl: Zkctl) -> None:
    async def steps(quorum: Quorum) -> None:
        await quorum.start(1, 2, 3)
        leader = await quorum.leader()
        driver = quorum.nodes[leader].driver
        epoch = driver.node.epoch
        driver.prepare_append(epoch, [NO_OP, NO_OP])
        driver.schedule_prepared_append()
        await eventually(lambda: driver.node.high_watermark == 3, "two records are committed")
        segment = tmp_path / f"node-{leader}" / FOLDER / f"{0:020}.log"

        result = zkctl("quorum", "dump", str(segment))
        cut = tmp_path / "cut.log"
        cut.write_bytes(segment.read_bytes()[:-3])
        of_cut = zkctl("quorum", "dump", str(cut))

        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.exit_code == 0, result.stderr
        assert [row["offset"] for row in rows] == [0, 1, 2]
        assert {row["epoch"] for row in rows} == {epoch}
        assert rows[0]["type"] == "LEADER_CHANGE"
        assert rows[0]["data"]["leaderId"] == leader
        assert rows[0]["data"]["voters"] == [1, 2, 3]
        assert [row["type"] for row in rows[1:]] == ["NO_OP_RECORD"] * 2
        assert [row["is_control"] for row in rows] == [True, False, False]
        # What is before the damage is still shown.
        assert of_cut.exit_code == 1
        assert [json.loads(line)["offset"] for line in of_cut.stdout.splitlines()] == [0]
        assert "cut.log" in of_cut.stderr

    _run(tmp_path, steps)


def test_a_snapshot_is_dumped_and_files_longer_than_a_window_too(
    tmp_path: Path, zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkcontroller_cli.local.quorum_dump.WINDOW_BYTES", 200)
    place = {"epoch": 4, "timestamp": 1_700_000_000_000}
    snapshot = tmp_path / "00000000000000000007-0000000004.checkpoint"
    batches = [encode_control_batch([SnapshotHeader(99)], base_offset=0, **place)]
    batches += [
        encode_control_batch([SnapshotFooter()], base_offset=offset, **place)
        for offset in range(1, 30)
    ]
    snapshot.write_bytes(b"".join(batches))

    result = zkctl("quorum", "dump", str(snapshot))

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0, result.stderr
    assert rows[0]["data"] == {"lastContainedLogTimestamp": 99}
    assert [row["offset"] for row in rows] == list(range(30))
    assert rows[-1]["type"] == "SNAPSHOT_FOOTER"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process.roles", "broker,controller"),
        ("listener.security.protocol.map", "CONTROLLER:KERBEROS"),
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("early.start.listeners", "CONTROLLER,OTHER"),
        ("controller.quorum.voters", "1@0.0.0.0:9093"),
    ],
)
def test_a_node_that_would_only_seem_to_obey_does_not_start(
    tmp_path: Path, zkctl: Zkctl, key: str, value: str
) -> None:
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "log.dirs": str(tmp_path / "data"),
        key: value,
    }
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))

    result = zkctl("quorum", "start", str(file))

    assert result.exit_code == 2
    assert key in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_node_without_a_format_does_not_start(tmp_path: Path, zkctl: Zkctl) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:9093\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )

    result = zkctl("quorum", "start", str(file))

    assert result.exit_code == 5
    assert "meta.properties" in result.stderr


def _run(directory: Path, steps: Callable[[Quorum], Awaitable[None]]) -> None:
    async def run() -> None:
        quorum = Quorum(directory)
        try:
            await steps(quorum)
        finally:
            await quorum.close()

    asyncio.run(run())


def test_a_node_runs_until_it_is_stopped_and_fails_with_1(tmp_path: Path, zkctl: Zkctl) -> None:
    [port] = free_ports(1)
    file = tmp_path / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{port}\n"
        f"controller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    formatted = zkctl("storage", "format", "-t", CLUSTER_ID, "-c", str(file))
    assert formatted.exit_code == 0, formatted.stderr
    command = [sys.executable, "-m", "zkcontroller_cli", "quorum", "start", str(file)]

    with subprocess.Popen(
        [*command, "--metrics-port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "Completed transition to Leader(" in line:
                break
        # It says so a moment before it counts so.
        described = zkctl(
            "quorum", "describe", "--bootstrap-controller", f"127.0.0.1:{port}", "-o", "json"
        )
        found = re.search(r"Serving metrics at (http://\S+)", "".join(said))
        assert found is not None
        with urlopen(found[1], timeout=10) as page:
            metrics = page.read().decode()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(timeout=30) == 0
    assert described.json["leader_id"] == 1
    assert 'kafka_server_raft_metrics_current_state{value="leader"} 1.0' in metrics

    (tmp_path / "data" / FOLDER / "quorum-state").write_text("nonsense")
    failed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert failed.returncode == 1
    assert "Encountered fatal fault" in failed.stderr
    assert "quorum-state" in failed.stderr
