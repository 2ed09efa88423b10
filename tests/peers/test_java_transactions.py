"""Kafka's own transactional producer and tools on our coordinator; its broker on our log, and back.

What they print of us is compared with what they print of a cluster of Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.clients import run_tool
from tests.peers.cluster import Cluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

TOOL: Final = str(Path(__file__).with_name("TransactionTool.java"))
DUMP_LOG: Final = "kafka.tools.DumpLogSegments"
BROKER: Final = 1
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
SCENARIO: Final = (
    "tool list",
    "tool describe --transactional-id ledger",
    "init ledger",
    "begin",
    "send orders 0 a",
    "send orders 1 b",
    "tool list",
    "tool describe --transactional-id ledger",
    "tool describe-producers --topic orders --partition 0",
    "read orders read_committed 0",
    "read orders read_uncommitted 2",
    "commit",
    "settle ledger",
    "read orders read_committed 2",
    "tool list",
    "tool describe-producers --topic orders --partition 0",
    "begin",
    "send orders 0 c",
    "offsets billing orders 1",
    "committed billing orders",
    "abort",
    "settle ledger",
    "committed billing orders",
    "tool list",
    "begin",
    "send orders 0 d",
    "offsets billing orders 2",
    "commit",
    "settle ledger",
    "committed billing orders",
    "read orders read_committed 3",
    "read orders read_uncommitted 4",
    "begin",
    "send orders 0 e",
    # The successor's epoch fences the one before, and ends its transaction.
    "init ledger",
    "former",
    "begin",
    "send orders 1 f",
    "commit",
    "settle ledger",
    "read orders read_committed 4",
    "tool list",
    "tool find-hanging --broker-id 1",
    # Kafka's way to end what hangs, which goes by WriteTxnMarkers of an administrator.
    "begin",
    "send orders 0 g",
    "tool abort --topic orders --partition 0 --start-offset 8",
    "read orders read_committed 4",
    "abort",
    "settle ledger",
    "tool list",
)


def told_of(cluster: Cluster, *lines: str) -> list[tuple[str, list[list[str]]]]:
    """What each line of input has printed: words by line, without what differs by chance."""
    printed = run_tool(
        TOOL, cluster.bootstrap(BROKER), stdin="".join(each + "\n" for each in lines)
    )
    # The start and the duration of a transaction, and timestamps of records.
    printed = re.sub(r"(60000\s+)\d{13}(\s+)\d+", r"\1TIME\2DURATION", printed)
    printed = re.sub(r"\b\d{13}\b", "TIME", printed)
    parts = [part.partition("\n") for part in printed.split("### ")[1:]]
    return [
        (line, [row.split() for row in rows.splitlines() if row.strip()]) for line, _, rows in parts
    ]


def create_orders(cluster: Cluster) -> None:
    cluster.topic_command(
        BROKER, "--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1"
    )


def state_log(broker: BrokerProcess) -> list[str]:
    """The records of ``__transaction_state`` as Kafka's tool prints them, without times."""
    [segment] = (broker.directory / "data" / "__transaction_state-0").glob("*.log")
    printed = run_tool(DUMP_LOG, "--files", str(segment), "--transaction-log-decoder")
    rows = [row for row in printed.splitlines() if "transaction_metadata::" in row]
    return [
        re.sub(
            r"partitions=\[(.*?)\]",
            lambda found: "partitions=" + str(sorted(found[1].split(","))),
            re.sub(r"\b\d{13}\b", "TIME", row),
        )
        for row in rows
    ]


def test_kafkas_producer_and_tool_find_in_us_what_they_find_in_kafka(
    new_cluster: Callable[[], Cluster],
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    our_broker = ours.start_ours(BROKER, SETTINGS)
    their_broker = kafkas.start_kafka(BROKER, SETTINGS)
    create_orders(ours)
    create_orders(kafkas)

    told = told_of(ours, *SCENARIO)

    assert told == told_of(kafkas, *SCENARIO)
    assert [line for line, _ in told] == list(SCENARIO)
    logged = state_log(our_broker)
    assert logged == state_log(their_broker)
    assert len(logged) > 20


@pytest.mark.parametrize("first", ["ours", "kafka"])
def test_who_takes_over_the_folder_goes_on_with_its_transactions(
    cluster: Cluster, tmp_path: Path, first: str
) -> None:
    settings = {**SETTINGS, "log.dirs": str(tmp_path / "shared")}
    start: dict[str, Callable[[], BrokerProcess]] = {
        "ours": lambda: cluster.start_ours(BROKER, settings),
        "kafka": lambda: cluster.start_kafka(BROKER, settings),
    }
    create = start.pop(first)
    [take_over] = start.values()
    before = create()
    create_orders(cluster)
    told_of(
        cluster,
        *("init ledger", "begin", "send orders 0 a", "offsets billing orders 1", "commit"),
        *("settle ledger", "begin", "send orders 0 b", "offsets billing orders 2"),
    )
    before.stop()
    cluster.wait_until(lambda: not cluster.live_brokers(), "the broker leaves")

    take_over()

    told = dict(
        told_of(
            cluster,
            *("tool list", "committed billing orders", "read orders read_committed 1"),
            *("init ledger", "begin", "send orders 0 c", "commit", "settle ledger"),
            *("read orders read_committed 2", "read orders read_uncommitted 3"),
        )
    )
    assert told["tool list"][1:] == [["ledger", "1", "0", "Ongoing"], ["exit", "0"]]
    assert told["committed billing orders"] == [["1"]]
    assert told["read orders read_committed 1"] == [["a"]]
    assert told["read orders read_committed 2"] == [["a", "c"]]
    assert told["read orders read_uncommitted 3"] == [["a", "b", "c"]]


@pytest.mark.parametrize("coordinator", ["ours", "kafka"])
def test_coordinator_and_leaders_of_both_kinds(cluster: Cluster, coordinator: str) -> None:
    settings = {**SETTINGS, "offsets.topic.num.partitions": "1"}
    leader: BrokerProcess
    if coordinator == "ours":
        cluster.start_ours(1, settings)
        leader = cluster.start_kafka(2, settings)
    else:
        cluster.start_kafka(1, settings)
        leader = cluster.start_ours(2, settings)
    for topic, assignment in (
        ("__transaction_state", "1"),
        ("__consumer_offsets", "2"),
        ("orders", "2,2"),
    ):
        cluster.topic_command(1, "--create", "--topic", topic, "--replica-assignment", assignment)

    told = dict(
        told_of(
            cluster,
            *("init ledger", "begin", "send orders 0 a", "send orders 1 b", "commit"),
            *("begin", "send orders 0 c", "offsets billing orders 1", "abort"),
            *("begin", "send orders 0 d", "offsets billing orders 2", "commit"),
            *("settle ledger", "committed billing orders", "read orders read_committed 3"),
            *("read orders read_uncommitted 4", "tool list"),
        )
    )
    assert told["committed billing orders"] == [["2"]]
    assert told["read orders read_committed 3"] == [["a", "b", "d"]]
    assert told["read orders read_uncommitted 4"] == [["a", "b", "c", "d"]]
    assert told["tool list"][1:] == [["ledger", "1", "0", "CompleteCommit"], ["exit", "0"]]
    assert (leader.directory / "data" / "orders-0").is_dir()
