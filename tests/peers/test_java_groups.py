"""Kafka's own group tool and consumers on our coordinator; Kafka's broker on our offsets, and back.

What Kafka's tool prints of a group is compared with what it prints of a cluster of Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.clients import produce, run_tool
from tests.peers.cluster import Cluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

GROUP_TOOL: Final = str(Path(__file__).with_name("GroupTool.java"))
BROKER: Final = 1
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
VALUES: Final = [str(number) for number in range(12)]


def told_of(cluster: Cluster, *lines: str) -> list[tuple[str, list[list[str]]]]:
    """What each line of input has printed: words by line, without what differs by chance."""
    printed = run_tool(
        GROUP_TOOL, cluster.bootstrap(BROKER), stdin="".join(line + "\n" for line in lines)
    )
    printed = re.sub(r"127\.0\.0\.1:\d+", "BROKER", printed)
    printed = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", printed)
    parts = [part.partition("\n") for part in printed.split("### ")[1:]]
    return [
        (line, [row.split() for row in rows.splitlines() if row.strip()]) for line, _, rows in parts
    ]


def create_orders(cluster: Cluster) -> None:
    cluster.topic_command(
        BROKER, "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "1"
    )
    produce(cluster.bootstrap(BROKER), "orders", VALUES)


RESET: Final = "tool --reset-offsets --group billing --topic orders"
SCENARIO: Final = (
    "tool --list",
    "tool --describe --group billing",
    "consume billing orders 5",
    "tool --list",
    "tool --list --state",
    "tool --list --type",
    "tool --describe --group billing",
    "tool --describe --group billing --state",
    "tool --describe --group billing --members",
    "tool --describe --all-groups --offsets",
    f"{RESET} --to-offset 3 --dry-run",
    f"{RESET} --to-offset 3 --execute",
    "tool --describe --group billing",
    "consume billing orders 9",
    f"{RESET} --to-earliest --execute",
    f"{RESET} --shift-by 2 --execute",
    f"{RESET} --to-latest --execute",
    "hold billing orders",
    "tool --list --state stable",
    "tool --list --state empty",
    "tool --describe --group billing",
    "tool --describe --group billing --state",
    "tool --describe --group billing --members --verbose",
    f"{RESET} --to-earliest --execute",
    "tool --delete-offsets --group billing --topic orders",
    "tool --delete --group billing",
    "release",
    "tool --delete-offsets --group billing --topic orders",
    "tool --describe --group billing",
    "tool --delete --group billing",
    "tool --delete --group billing",
    "tool --delete-offsets --group billing --topic orders",
    "tool --list",
)


def test_the_group_tool_prints_of_us_what_it_prints_of_kafka(
    new_cluster: Callable[[], Cluster],
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    ours.start_ours(BROKER, SETTINGS)
    kafkas.start_kafka(BROKER, SETTINGS)
    create_orders(ours)
    create_orders(kafkas)

    told = told_of(ours, *SCENARIO)

    assert told == told_of(kafkas, *SCENARIO)
    assert [line for line, _ in told] == list(SCENARIO)


@pytest.mark.parametrize("first", ["ours", "kafka"])
def test_who_takes_over_the_folder_knows_the_offsets(
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
    [*_, described] = told_of(
        cluster, "consume billing orders 5", "tool --describe --group billing"
    )
    before.stop()
    cluster.wait_until(lambda: not cluster.live_brokers(), "the broker leaves")

    take_over()

    [again, (_, consumed)] = told_of(
        cluster, "tool --describe --group billing", "consume billing orders 7"
    )
    assert again == described
    assert consumed == [[value] for value in VALUES[5:]]
