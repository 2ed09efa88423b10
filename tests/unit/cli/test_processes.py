"""Processes, ports and the cluster file: distinguished, found again, never mistaken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.json import encode

from kafka_common.net.loopback_ports import is_free
from replica_manager.broker.broker_status import BrokerStatus
from replica_manager.regular_files import write_private
from zkcontroller.zookeeper.server_jars import JARS_VARIABLE

processes = import_module("zkcontroller_cli.machine.processes")
ports = import_module("zkcontroller_cli.machine.ports")
cluster_file = import_module("zkcontroller_cli.machine.cluster_file")
local_cluster = import_module("zkcontroller_cli.local.local_cluster")
broker_process = import_module("zkcontroller_cli.local.broker_process")
errors = import_module("zkcontroller_cli.console.errors")

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


def test_a_process_lives_until_it_is_killed_and_a_zombie_does_not_count(tmp_path: Path) -> None:
    process = processes.spawn(SLEEP, tmp_path / "console.log")
    assert process.is_alive

    assert process.signal(signal.SIGKILL)

    # No one has reaped it: it is a zombie of ours.
    assert process.wait_gone(10)
    assert not process.signal(signal.SIGTERM)
    os.waitpid(process.pid, 0)


def test_a_reused_pid_is_a_stranger() -> None:
    ours = processes.ProcessId.of(os.getpid())
    assert ours.is_alive

    earlier = replace(ours, started="1")

    assert not earlier.is_alive
    assert not earlier.signal(signal.SIGKILL)


def test_what_a_process_prints_is_kept(tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text("".join(f"line {number}\n" for number in range(100)))

    process = processes.spawn([sys.executable, "-c", "print('last words')"], console)
    process.wait_gone(10)
    os.waitpid(process.pid, 0)

    assert processes.last_lines(console, 2) == ["line 99", "last words"]
    assert processes.last_lines(tmp_path / "missing") == []


def test_the_last_lines_of_a_process_begin_with_its_error(tmp_path: Path) -> None:
    """However much it has written while it shut down because of it."""
    console = tmp_path / "console.log"
    why, shutdown = "[2026-11-30 23:31:11,219] ERROR Fatal error", ["Shutting down."] * 30
    console.write_text("\n".join(["[…] INFO starting"] * 100 + [why, *shutdown]))

    assert processes.last_lines(console) == [why, *shutdown]

    console.write_text("\n".join([why, *shutdown * 3]))
    assert processes.last_lines(console) == shutdown[:15]


def test_a_port_in_use_is_refused_by_number_and_owner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)

        with pytest.raises(errors.Refused, match=f"port {port}, which broker 1 needs, is in use"):
            ports.require_free(port, "broker 1")

    assert ports.pick_free() not in (0, port)


def test_a_cluster_file_reads_back_what_was_saved(tmp_path: Path) -> None:
    us = processes.ProcessId.of(os.getpid())
    saved = cluster_file.ClusterFile(
        tmp_path,
        cluster_file.ZooKeeperEntry("127.0.0.1:2181", True, 2181, us),
        [cluster_file.BrokerEntry(1, 9092, us), cluster_file.BrokerEntry(2, 9093)],
    )
    saved.save()

    loaded = cluster_file.ClusterFile.load(tmp_path)

    assert loaded == saved
    assert loaded.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093"
    assert list(loaded.processes) == ["broker 1", "ZooKeeper"]
    assert cluster_file.ClusterFile.load(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"zookeeper":1,"brokers":[]}', b"\xff"])
def test_a_damaged_cluster_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cluster.json").write_bytes(content)

    with pytest.raises(errors.Refused, match=r"cluster\.json is not a cluster file"):
        cluster_file.ClusterFile.load(tmp_path)


def test_only_one_command_at_a_time_starts_or_stops_a_cluster(tmp_path: Path) -> None:
    with (
        cluster_file.exclusive(tmp_path),
        pytest.raises(errors.Refused, match="another zkctl"),
        cluster_file.exclusive(tmp_path),
    ):
        pass

    with cluster_file.exclusive(tmp_path):
        pass


def test_a_directory_whose_cluster_runs_is_in_use(tmp_path: Path) -> None:
    us = processes.ProcessId.of(os.getpid())
    cluster_file.ClusterFile(
        tmp_path,
        cluster_file.ZooKeeperEntry("127.0.0.1:1", True, 1),
        [cluster_file.BrokerEntry(1, 2, us)],
    ).save()

    with pytest.raises(
        errors.Refused, match=rf"in use by a running cluster: broker 1 \(pid {us.pid}"
    ):
        local_cluster.plan(tmp_path, None, None, 0)


def test_the_next_start_takes_the_same_brokers_and_ports(tmp_path: Path) -> None:
    first = local_cluster.plan(tmp_path, 2, None, 0)
    first.save()

    again = local_cluster.plan(tmp_path, None, None, 0)
    more = local_cluster.plan(tmp_path, 4, None, 0)

    assert again == first
    assert more.brokers[:2] == first.brokers
    assert len({entry.port for entry in more.brokers} | {more.zookeeper.port}) == 5


def test_an_external_zookeeper_stays_external(tmp_path: Path) -> None:
    local_cluster.plan(tmp_path, 1, "zk:2181/chroot", 0).save()

    again = local_cluster.plan(tmp_path, None, None, 0)
    back = local_cluster.plan(tmp_path, None, "embedded", 0)

    assert again.zookeeper.connect == "zk:2181/chroot"
    assert not again.zookeeper.is_embedded
    assert back.zookeeper.is_embedded


def test_a_base_port_numbers_brokers_and_then_zookeeper(tmp_path: Path) -> None:
    base = ports.pick_free()

    planned = local_cluster.plan(tmp_path, 2, None, base)

    assert [entry.port for entry in planned.brokers] == [base, base + 1]
    assert planned.zookeeper.port == base + 2


def test_what_a_user_added_to_server_properties_stays(tmp_path: Path) -> None:
    planned = local_cluster.plan(tmp_path, 1, None, 0)
    path = planned.properties_path(1)
    path.parent.mkdir(parents=True)
    path.write_text("num.partitions=7\nzookeeper.session.timeout.ms=9000\nbroker.id=5\n")

    properties = local_cluster.properties_of(planned, planned.brokers[0])

    assert properties["num.partitions"] == "7"
    assert properties["zookeeper.session.timeout.ms"] == "9000"
    assert properties["broker.id"] == "1"
    assert properties["listeners"] == f"PLAINTEXT://127.0.0.1:{planned.brokers[0].port}"


def test_the_keeper_of_an_embedded_server_reports_why_it_could_not_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zkcontroller_cli.machine.embedded_server", str(tmp_path), "1"],
        env=os.environ | {JARS_VARIABLE: str(tmp_path / "empty")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "the jars of a ZooKeeper server" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_is_found_by_its_log_directory(tmp_path: Path) -> None:
    # The arguments of a broker, behind a program that does nothing.
    broker = processes.spawn([*SLEEP, "-m", "replica_manager"], tmp_path / "console.log")
    started_at_ms = time.time_ns() // 1_000_000
    BrokerStatus(broker.pid, 1, 1, started_at_ms, {}).write(tmp_path)
    try:
        processes.wait_until(lambda: broker.runs("-m", "replica_manager"), 10)

        assert broker_process.process_of_log_dir(tmp_path, 1) == broker
    finally:
        broker.signal(signal.SIGKILL)
        os.waitpid(broker.pid, 0)


def test_a_process_that_is_no_broker_gets_no_signal_whatever_a_file_says(tmp_path: Path) -> None:
    stranger = processes.spawn(SLEEP, tmp_path / "console.log")
    started_at_ms = time.time_ns() // 1_000_000 + 5_000
    BrokerStatus(stranger.pid, 1, 1, started_at_ms, {}).write(tmp_path)
    try:
        with pytest.raises(errors.Refused, match="is no broker of this user"):
            broker_process.process_of_log_dir(tmp_path, 1)
        assert stranger.is_alive
    finally:
        stranger.signal(signal.SIGKILL)
        os.waitpid(stranger.pid, 0)


def test_a_process_of_an_earlier_boot_is_a_stranger() -> None:
    ours = processes.ProcessId.of(os.getpid())

    ticks = ours.started.rpartition(" ")[2]

    assert not replace(ours, started=f"another-boot {ticks}").is_alive
    assert ours.runs()
    assert not ours.runs("-m", "replica_manager", "and more")


def test_the_generated_properties_of_a_broker_are_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("old")
    path.chmod(0o644)

    write_private(path, "ssl.key.password=s3cret\n")

    assert path.read_text() == "ssl.key.password=s3cret\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "no broker runs in this log directory"),
        (BrokerStatus(os.getpid(), 2, 1, 2**62, {}), "is of broker 2"),
        (BrokerStatus(os.getpid(), 1, 1, 1, {}), "does not run any more"),
        (BrokerStatus(2**22 + 1, 1, 1, 1, {}), "does not run any more"),
        ({"broker_id": 1}, "does not say which process"),
        ([], "does not say which process"),
    ],
)
def test_no_other_process_is_taken_for_a_broker(
    tmp_path: Path, status: object, reason: str
) -> None:
    if status is not None:
        (tmp_path / "broker.json").write_bytes(encode(status))

    with pytest.raises(errors.Refused, match=reason):
        broker_process.process_of_log_dir(tmp_path, 1)
