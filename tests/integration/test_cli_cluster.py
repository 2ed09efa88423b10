"""``zkctl`` on three real brokers and a real ZooKeeper."""

from __future__ import annotations

import csv
import io
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import yaml

from tests.integration.cli_cluster import LocalCluster
from tests.support.cli_world import zkctl_here

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    started = cluster(
        *("cluster", "start", "--brokers", "3", "--detach"),
        *("--override", "zookeeper.session.timeout.ms=4000"),
    )
    assert started.exit_code == 0, started.stderr
    cluster.json("topic", "create", "orders", "--partitions", "6", "--replication-factor", "3")
    yield cluster
    cluster.end()


def test_status_tells_addresses_processes_registrations_and_the_controller(
    cluster: LocalCluster,
) -> None:
    status = cluster.json("cluster", "status", "--check")

    assert status["state"] == "running"
    assert status["controller_id"] in (1, 2, 3)
    assert len(status["bootstrap_servers"].split(",")) == 3
    assert status["zookeeper"].startswith("127.0.0.1:")
    for broker in status["brokers"]:
        assert broker["alive"]
        assert broker["registered"]
        assert broker["broker_epoch"] > 0
        os.kill(broker["pid"], 0)


def test_a_directory_in_use_is_refused(cluster: LocalCluster) -> None:
    result = cluster("cluster", "start", "--brokers", "1", "--detach")

    assert result.exit_code == 5
    assert "is in use by a running cluster: broker 1 (pid" in result.stderr
    assert cluster.json("cluster", "status")["state"] == "running"


def test_brokers_and_znodes_tell_the_same_of_a_topic(cluster: LocalCluster) -> None:
    zookeeper = cluster.json("cluster", "status")["zookeeper"]

    from_brokers = cluster.json("topic", "describe", "orders")
    from_znodes = cluster.json("topic", "describe", "orders", "-z", zookeeper)

    # Brokers do not know which topics are marked for deletion.
    assert from_znodes == from_brokers | {"is_marked_for_deletion": False}
    assert from_brokers["is_marked_for_deletion"] is None
    assert from_brokers["partition_count"] == 6
    listed = cluster.json("topic", "list", "-z", zookeeper)
    assert [row | {"is_marked_for_deletion": None} for row in listed] == cluster.json(
        "topic", "list"
    )


def test_a_topic_is_created_as_asked_and_deleted(cluster: LocalCluster) -> None:
    created = cluster.json(
        *("topic", "create", "assigned", "--replica-assignment", "3:1,1:2"),
        *("--config", "retention.ms=5000", "--config", "cleanup.policy=compact"),
    )
    zookeeper = cluster.json("cluster", "status")["zookeeper"]
    described = cluster.json("topic", "describe", "assigned", "-z", zookeeper)
    deleted = cluster.json("topic", "delete", "assigned", "--yes")

    assert created["is_created"] is True
    assert created["topic_id"] == described["topic_id"]
    assert described["configs"] == {"cleanup.policy": "compact", "retention.ms": "5000"}
    assert [p["replicas"] for p in described["partitions"]] == [[3, 1], [1, 2]]
    assert deleted == [{"topic": "assigned", "is_deleted": True, "error": None, "reason": None}]
    assert [topic["topic"] for topic in cluster.json("topic", "list")] == ["orders"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("create", "orders"), "TOPIC_ALREADY_EXISTS"),
        (("create", "no/slash"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "big", "--replication-factor", "4"), "INVALID_REPLICATION_FACTOR"),
        (("create", "odd", "--config", "no.such.key=1"), "INVALID_CONFIG"),
        (("create", "uneven", "--replica-assignment", "1:2,3"), "INVALID_REPLICA_ASSIGNMENT"),
        (("delete", "nosuch", "--yes"), "there is no topic nosuch"),
    ],
)
def test_what_the_controller_refuses_is_exit_code_5(
    cluster: LocalCluster, arguments: tuple[str, ...], error: str
) -> None:
    result = cluster("topic", *arguments)

    assert result.exit_code == 5
    assert error in result.stderr
    assert result.stdout == ""


def test_an_existing_or_missing_topic_can_be_no_error(cluster: LocalCluster) -> None:
    existing = cluster.json("topic", "create", "orders", "--if-not-exists")
    missing = cluster.json("topic", "delete", "nosuch", "--yes", "--if-exists")

    assert existing["is_created"] is False
    assert existing["partition_count"] == 6
    assert [(row["topic"], row["is_deleted"], row["error"]) for row in missing] == [
        ("nosuch", False, None)
    ]


def test_offsets_are_those_that_the_leaders_tell(cluster: LocalCluster) -> None:
    client: Any = pytest.importorskip("confluent_kafka")
    cluster.json("topic", "create", "written", "--partitions", "2", "--replication-factor", "3")
    producer = client.Producer(
        {"bootstrap.servers": cluster.json("cluster", "status")["bootstrap_servers"], "acks": "all"}
    )
    for number in range(5):
        producer.produce("written", b"%d" % number, partition=1)
    assert producer.flush(30) == 0

    rows = cluster.json("topic", "offsets", "written", "orders")

    leaders = {
        (topic["topic"], each["partition"]): each["leader"]
        for topic in cluster.json("topic", "describe", "written", "orders")
        for each in topic["partitions"]
    }
    ends = {("written", 1): 5}
    assert rows == [
        {
            "topic": topic, "partition": partition, "leader": leaders[topic, partition],
            "earliest_offset": 0, "latest_offset": ends.get((topic, partition), 0),
            "offset_count": ends.get((topic, partition), 0), "error": None,
        }
        for topic, partition in sorted(leaders)
    ]  # fmt: skip
    missing = cluster("topic", "offsets", "nosuch")
    assert missing.exit_code == 5
    assert "topic nosuch" in missing.stderr
    cluster.json("topic", "delete", "written", "--yes")


def test_log_directories_of_every_broker_or_of_one_are_listed(cluster: LocalCluster) -> None:
    rows = cluster.json("log-dirs", "sizes")

    assert [row["broker_id"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert row["log_dir"].endswith(f"broker-{row['broker_id']}/data")
        assert row["replica_count"] >= 6
        assert row["future_replica_count"] == 0
        assert row["size_bytes"] >= 0
        assert row["error"] is None
    assert [row["broker_id"] for row in cluster.json("log-dirs", "sizes", "2")] == [2]
    assert cluster("log-dirs", "sizes", "9").exit_code == 5


VERBS = (
    ("cluster", "status"),
    ("broker", "list"),
    ("broker", "describe", "1"),
    ("controller", "show"),
    ("controller", "elect", "--dry-run"),
    ("controller", "elect", "--yes"),
    ("controller", "watch", "--count", "1"),
    ("topic", "list"),
    ("topic", "describe", "orders"),
    ("topic", "offsets", "orders"),
    ("log-dirs", "sizes"),
    ("log-dirs", "sizes", "--by", "broker"),
    ("log-dirs", "sizes", "--by", "topic", "--topic", "orders"),
    ("log-dirs", "sizes", "1", "--by", "partition"),
    ("reassign", "plan", "--replication-factor", "2", "--topic", "orders"),
    ("topic", "create", "orders", "--if-not-exists"),
    ("topic", "delete", "nosuch", "--if-exists", "--yes"),
    ("partition", "list"),
    ("znode", "ls", "/"),
    ("znode", "get", "/controller", "--stat"),
    ("znode", "tree", "/brokers", "--depth", "2"),
)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_obeys_every_format(cluster: LocalCluster, verb: tuple[str, ...]) -> None:
    said = {}
    for output_format in ("table", "json", "jsonl", "yaml", "csv", "name"):
        result = zkctl_here(*verb, "--dir", str(cluster.directory), "-o", output_format)
        assert result.exit_code == 0, result.stderr
        said[output_format] = result.stdout

    in_json = orjson.loads(said["json"])
    objects = in_json if isinstance(in_json, list) else [in_json]
    keys = list(objects[0])
    assert [list(orjson.loads(line)) for line in said["jsonl"].splitlines()] == [
        list(row) for row in objects
    ]
    in_yaml = yaml.safe_load(said["yaml"])
    assert list(in_yaml[0] if isinstance(in_yaml, list) else in_yaml) == keys
    assert next(csv.reader(io.StringIO(said["csv"]))) == keys
    assert len(said["name"].splitlines()) == len(objects)
    assert said["table"].strip()


def test_an_election_proves_the_new_controller(cluster: LocalCluster) -> None:
    for _ in range(5):
        before = cluster.json("controller", "show")
        election = cluster.json("controller", "elect", "--yes")
        after = cluster.json("controller", "show")

        assert election["controller_id_before"] == before["controller_id"]
        assert election["controller_epoch_before"] == before["controller_epoch"]
        assert election["controller_epoch"] == before["controller_epoch"] + 1
        assert election["controller_id"] == after["controller_id"]
        assert election["controller_epoch"] == after["controller_epoch"]
        assert 0 < election["elapsed_ms"] < 6000
        # Whichever broker won: its first UpdateMetadata was seen, and it reached all of them.
        assert 0 < election["first_update_metadata_ms"] <= election["all_brokers_updated_ms"]
        assert election["first_update_metadata_reason"] is None
        was_reelected = election["controller_id"] == election["controller_id_before"]
        source = "state_changes" if was_reelected else "metadata"
        assert election["first_update_metadata_source"] == source


@pytest.mark.parametrize(("result", "exit_code"), [("n", 5), ("y", 0)])
def test_on_a_terminal_an_election_is_asked_for(
    cluster: LocalCluster, result: str, exit_code: int
) -> None:
    before = cluster.json("controller", "show")
    ours, theirs = pty.openpty()
    os.write(ours, f"{result}\n".encode())

    done = subprocess.run(
        [*cluster.command, "controller", "elect", "-o", "json"],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
        env=cluster.environment,
        check=False,
    )
    os.close(ours)
    os.close(theirs)

    assert done.returncode == exit_code
    assert "to delete:  /controller at zk_version 0" in done.stderr
    assert "Delete it? [y/N]" in done.stderr
    after = cluster.json("controller", "show")
    assert after["controller_epoch"] - before["controller_epoch"] == (result == "y")


def test_a_watch_sees_an_election(cluster: LocalCluster) -> None:
    epoch = cluster.json("controller", "show")["controller_epoch"]
    with subprocess.Popen(
        [*cluster.command, "controller", "watch", "-o", "jsonl"],
        stdout=subprocess.PIPE,
        env=cluster.environment,
    ) as watch:
        assert watch.stdout is not None
        current = orjson.loads(watch.stdout.readline())

        cluster.json("controller", "elect", "--yes")
        seen = [current]
        while seen[-1]["controller_epoch"] == epoch or seen[-1]["controller_id"] is None:
            seen.append(orjson.loads(watch.stdout.readline()))
        watch.send_signal(signal.SIGINT)

    assert current["change"] == "current"
    assert seen[-1]["change"] == "elected"
    assert seen[-1]["controller_epoch"] == epoch + 1
    assert watch.returncode == 130


def test_a_killed_broker_loses_its_partitions_and_comes_back_with_a_new_epoch(
    cluster: LocalCluster,
) -> None:
    before = {b["broker_id"]: b for b in cluster.json("cluster", "status")["brokers"]}
    victim = cluster.json("partition", "list")[0]["leader"]

    stopped = cluster.json("broker", "stop", str(victim), "--kill")
    assert (stopped["signal"], stopped["alive"]) == ("SIGKILL", False)
    assert cluster("cluster", "status", "--check").exit_code == 1
    cluster.wait_for(
        lambda: all(victim not in row["isr"] for row in cluster.json("partition", "list"))
    )

    assert all(row["leader"] not in (victim, -1) for row in cluster.json("partition", "list"))
    assert cluster("partition", "list", "--under-replicated", "--check").exit_code == 1
    assert cluster("partition", "list", "--offline", "--check").exit_code == 0
    assert cluster("broker", "stop", str(victim)).exit_code == 5

    started = cluster.json("broker", "start", str(cluster.properties(victim)), "--detach")
    after = {b["broker_id"]: b for b in cluster.json("cluster", "status")["brokers"]}
    assert started["broker_id"] == victim
    assert after[victim]["pid"] == started["pid"]
    assert after[victim]["broker_epoch"] == started["broker_epoch"]
    assert after[victim]["broker_epoch"] > before[victim]["broker_epoch"]


def test_a_broker_is_stopped_by_its_log_directory_and_started_in_the_foreground(
    cluster: LocalCluster,
) -> None:
    log_dir = cluster.directory / "broker-3" / "data"
    stopped = cluster.json("broker", "stop", "3", "--log-dir", str(log_dir))
    assert stopped["signal"] == "SIGTERM"

    with subprocess.Popen(
        [*cluster.command, "-o", "jsonl", "broker", "start", str(cluster.properties(3))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cluster.environment,
    ) as broker:
        assert broker.stdout is not None
        record = orjson.loads(broker.stdout.readline())
        status = cluster.json("cluster", "status")

        # It has become the broker: its pid is the one we started.
        assert record["broker_id"] == 3
        assert record["pid"] == broker.pid == status["brokers"][2]["pid"]
        assert status["state"] == "running"
        broker.send_signal(signal.SIGINT)
        assert broker.wait(30) == 0
        assert broker.stdout.read() == b""

    assert cluster.json("broker", "start", str(cluster.properties(3)), "--detach")


def test_a_stopped_cluster_starts_again_with_its_topics_and_addresses(
    cluster: LocalCluster,
) -> None:
    before = cluster.json("cluster", "status")

    stopped = cluster.json("cluster", "stop")
    assert stopped["state"] == cluster.json("cluster", "status")["state"] == "stopped"
    assert cluster("controller", "show", "--timeout", "2").exit_code == 3
    assert cluster("topic", "list", "--timeout", "2").exit_code == 3
    assert cluster.json("cluster", "stop")["state"] == "stopped"

    again = cluster.json("cluster", "start", "--detach")
    assert again["bootstrap_servers"] == before["bootstrap_servers"]
    assert again["zookeeper"] == before["zookeeper"]
    assert again["controller_epoch"] > before["controller_epoch"]
    assert cluster.json("topic", "describe", "orders")["partition_count"] == 6
