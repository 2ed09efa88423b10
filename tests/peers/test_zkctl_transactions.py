"""``zkctl txn`` and ``kafka-transactions`` say the same of Kafka 3.9.1; 2.8.2 lacks some APIs."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson
import pytest

from tests.integration.lost_producers import (
    LOST_PRODUCER,
    committed_end,
    transaction_of,
    write_without_coordinator,
)
from tests.peers.clients import run_tool
from tests.peers.real_cluster import BROKER, RealCluster, started_real_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

pytest.importorskip("confluent_kafka")

TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.partition.verification.enable": "false",
}


def by_kafka(cluster: RealCluster, *arguments: str) -> list[list[str]]:
    """The rows of Kafka's tool, without their titles."""
    printed = run_tool(TOOL, "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    return [row.split() for row in printed.splitlines() if row.strip()][1:]


def create(cluster: RealCluster, topic: str) -> None:
    cluster.zkctl("topic", "create", topic, "--partitions", "1")


def cells(row: dict[str, Any], *keys: str) -> list[str]:
    return ["None" if row[key] is None else str(row[key]) for key in keys]


@pytest.fixture(scope="module")
def newest(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with started_real_cluster(
        "3.9.1", f"{zookeeper.connect}/txn-3", tmp_path_factory.mktemp("txn-3"), SETTINGS
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def old(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with started_real_cluster(
        "2.8.2", f"{zookeeper.connect}/txn-2", tmp_path_factory.mktemp("txn-2"), SETTINGS
    ) as cluster:
        yield cluster


def test_a_transaction_is_what_kafkas_tool_says_it_is(newest: RealCluster) -> None:
    create(newest, "orders")
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": newest.bootstrap_servers, "transactional.id": "idle"}
    confluent_kafka.Producer(settings).init_transactions(30)
    producer = transaction_of(newest, "ledger", "orders")

    idle = newest.zkctl("txn", "describe", "idle")
    [of_idle] = by_kafka(newest, "describe", "--transactional-id", "idle")
    listed = newest.zkctl("txn", "list")
    described = newest.zkctl("txn", "describe", "ledger")
    known = newest.zkctl("txn", "producers", "orders-0")
    [of_describe] = by_kafka(newest, "describe", "--transactional-id", "ledger")
    partition = ("--topic", "orders", "--partition", "0")
    of_producers = by_kafka(newest, "describe-producers", *partition)
    of_list = by_kafka(newest, "list")
    producer.abort_transaction(30)

    keys = ("transactional_id", "coordinator_id", "producer_id", "state")
    assert [cells(row, *keys) for row in listed] == sorted(of_list)
    assert of_idle[4:8] == cells(idle, "state", "timeout_ms", "started_at_ms", "open_ms")
    assert of_describe[:7] == cells(
        described, "coordinator_id", "transactional_id", "producer_id", "producer_epoch", "state",
        "timeout_ms", "started_at_ms",
    )  # fmt: skip
    assert of_describe[8] == ",".join(described["partitions"])
    assert of_producers == [
        cells(row, "producer_id", "producer_epoch", "coordinator_epoch", "last_sequence",
              "last_record_at_ms", "start_offset")
        for row in known
    ]  # fmt: skip


def test_what_hangs_for_kafkas_tool_hangs_for_us_and_ends(newest: RealCluster) -> None:
    create(newest, "stuck")
    start = write_without_coordinator(newest.bootstrap(BROKER), "stuck")
    narrowed = ("--topic", "stuck")

    found = newest.zkctl("txn", "find-hanging", *narrowed, "--max-age", "0")
    of_tool = by_kafka(newest, "find-hanging", *narrowed, "--max-transaction-timeout", "0")
    before = committed_end(newest, "stuck")
    done = newest.zkctl("txn", "abort", "stuck-0", "--start-offset", str(start), "--yes")
    of_producers = by_kafka(newest, "describe-producers", *narrowed, "--partition", "0")

    keys = ("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch",
            "start_offset", "last_record_at_ms")  # fmt: skip
    assert [cells(row, *keys) for row in found] == [row[:7] for row in of_tool]
    assert (before, done["is_aborted"]) == (0, True)
    assert [row[-1] for row in of_producers] == ["None"]
    assert committed_end(newest, "stuck") == 2


def test_kafka_2_8_ends_what_is_named_by_its_epochs_and_lacks_the_rest(old: RealCluster) -> None:
    create(old, "stuck")
    write_without_coordinator(old.bootstrap(BROKER), "stuck")
    before = committed_end(old, "stuck")

    lacking = [
        old.run("txn", *arguments)
        for arguments in (("list",), ("describe", "ledger"), ("find-hanging", "--topic", "stuck"))
    ]
    done = old.run(
        "txn", "abort", "stuck-0", "--producer-id", str(LOST_PRODUCER),
        "--producer-epoch", "3", "--coordinator-epoch", "0", "--yes",
    )  # fmt: skip

    assert [each.returncode for each in lacking] == [5, 5, 5]
    assert all("needs Kafka 3.0 or later" in each.stderr for each in lacking)
    assert done.returncode == 0, done.stderr
    assert "warning: whether the transaction hangs is not known" in done.stderr
    assert re.search(r"producer 4000, epoch 3", done.stderr)
    assert orjson.loads(done.stdout)["is_aborted"] is True
    assert (before, committed_end(old, "stuck")) == (0, 2)
