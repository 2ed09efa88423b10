"""``zkctl txn`` on brokers of ours: a transaction that lives, and one that really hangs.

A hanging transaction is written without its coordinator, as by a producer whose late batch arrives
after the marker; brokers that verify partitions (KIP-890) would refuse it.
"""

from __future__ import annotations

import json

import pytest

from tests.integration.calls import address_of
from tests.integration.lost_producers import (
    LOST_PRODUCER,
    committed_end,
    confluent,
    transaction_of,
    write_without_coordinator,
)
from tests.integration.zkctl_brokers import refused, run, zkctl
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    configs = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "2",
    }
    return kafka_cluster_factory(2, zookeeper=zookeeper_connect, configs=configs)


def test_a_transaction_is_listed_described_and_not_taken_for_hanging(cluster: KafkaCluster) -> None:
    zkctl(cluster, "topic", "create", "orders", "--partitions", "2")
    producer = transaction_of(cluster, "ledger", "orders")

    [listed] = zkctl(cluster, "txn", "list", "--state", "Ongoing")
    described = zkctl(cluster, "txn", "describe", "ledger")
    [known] = zkctl(cluster, "txn", "producers", "orders-0")
    hanging = zkctl(cluster, "txn", "find-hanging", "--topic", "orders", "--max-age", "0")
    start = str(known["start_offset"])
    not_ended = refused(cluster, "txn", "abort", "orders-0", "--start-offset", start, "--yes")
    producer.commit_transaction(30)
    after = zkctl(cluster, "txn", "describe", "ledger")
    missing = refused(cluster, "txn", "describe", "nobody")

    assert (listed["transactional_id"], listed["state"]) == ("ledger", "Ongoing")
    assert described["coordinator_id"] == listed["coordinator_id"]
    assert (described["partitions"], described["timeout_ms"]) == (["orders-0"], 60_000)
    assert 0 <= described["open_ms"] < 60_000
    assert known["producer_id"] == listed["producer_id"] == described["producer_id"]
    assert (known["start_offset"], known["last_sequence"]) == (0, 0)
    assert hanging == []
    assert "does not hang: its coordinator has ledger as Ongoing" in not_ended
    assert after["state"] in ("CompleteCommit", "PrepareCommit")
    assert "no transactional id nobody; zkctl txn list shows all" in missing


def test_a_transactional_id_without_a_transaction_has_no_start(cluster: KafkaCluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "idle"}
    confluent.Producer(settings).init_transactions(30)

    described = zkctl(cluster, "txn", "describe", "idle")

    assert (described["state"], described["partitions"]) == ("Empty", [])
    assert (described["started_at_ms"], described["open_ms"]) == (None, None)


def test_a_hanging_transaction_is_found_and_aborted(cluster: KafkaCluster) -> None:
    zkctl(cluster, "topic", "create", "stuck", "--replica-assignment", "1")
    start = write_without_coordinator(address_of(cluster, 1), "stuck")
    before = committed_end(cluster, "stuck")

    young = zkctl(cluster, "txn", "find-hanging")
    found = run(cluster, "txn", "find-hanging", "--max-age", "0", "--check")
    on_one = zkctl(cluster, "txn", "find-hanging", "--max-age", "0", "--broker", "1")
    on_other = zkctl(cluster, "txn", "find-hanging", "--max-age", "0", "--broker", "2")
    abort = ("txn", "abort", "stuck-0", "--start-offset", str(start))
    planned = zkctl(cluster, *abort, "--dry-run")
    unasked = refused(cluster, *abort)
    still = committed_end(cluster, "stuck")
    done = zkctl(cluster, *abort, "--yes")
    again = refused(cluster, *abort, "--yes")

    assert young == []
    assert found.exit_code == 1
    [row] = json.loads(found.stdout)
    assert (row["topic"], row["partition"], row["start_offset"]) == ("stuck", 0, 0)
    assert (row["producer_id"], row["producer_epoch"]) == (LOST_PRODUCER, 3)
    assert (row["coordinator_epoch"], row["transactional_id"]) == (-1, None)
    assert "next: zkctl txn abort stuck-0 --start-offset 0 --dry-run" in found.stderr
    assert [each["topic"] for each in on_one] == ["stuck"]
    assert on_other == []
    assert (planned["is_aborted"], planned["producer_id"]) == (False, LOST_PRODUCER)
    assert "say --yes" in unasked
    assert (before, still) == (0, 0)
    assert done["is_aborted"] is True
    assert "stuck-0 has no open transaction that starts at offset 0" in again
    assert committed_end(cluster, "stuck") == 2
    assert zkctl(cluster, "txn", "find-hanging", "--max-age", "0") == []


def test_a_hanging_transaction_is_aborted_by_its_epochs(cluster: KafkaCluster) -> None:
    zkctl(cluster, "topic", "create", "wedged", "--replica-assignment", "1")
    write_without_coordinator(address_of(cluster, 1), "wedged")
    abort = ("txn", "abort", "wedged-0", "--producer-id", str(LOST_PRODUCER), "--yes")

    incomplete = refused(cluster, *abort, "--producer-epoch", "3", exit_code=2)
    fenced = refused(cluster, *abort, "--producer-epoch", "1", "--coordinator-epoch", "-1")
    done = zkctl(cluster, *abort, "--producer-epoch", "3", "--coordinator-epoch", "-1")

    assert "say --start-offset, or --producer-id, --producer-epoch" in incomplete
    assert "INVALID_PRODUCER_EPOCH" in fenced
    assert (done["coordinator_epoch"], done["is_aborted"]) == (0, True)
    assert committed_end(cluster, "wedged") == 2
