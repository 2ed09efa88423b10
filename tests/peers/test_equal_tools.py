"""Kafka's own tools print the same about a cluster of ours as about one of Kafka's.

Each step is run on both, in this order, so that later ones see what earlier ones did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from tests.peers.cluster import TOPIC_COMMAND
from tests.peers.kafka_kit_cluster import KafkaKitCluster
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.waiting import until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

CONFIGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
TOOLS: Final = {
    "api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "acls": "kafka.admin.AclCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": TOPIC_COMMAND,
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
FILES: Final = {
    "delete.json": '{"partitions":[{"topic":"solo","partition":0,"offset":1}],"version":1}',
    "move.json": '{"version":1,"partitions":[{"topic":"solo","partition":0,"replicas":[2,3]}]}',
}
STEPS: Final = """
api-versions
cluster cluster-id
cluster list-endpoints
cluster unregister --id 3
features describe
features upgrade --metadata 3.9
features disable --feature transaction.version
metadata-quorum describe --status
client-metrics --list
client-metrics --alter --name m --metrics org.apache.kafka --interval 1000
topics --create --topic orders --replica-assignment 1:2:3,2:3:1,3:1:2 --config retention.ms=9000000
topics --create --topic solo --replica-assignment 1:2
topics --create --topic orders
topics --create --topic no/topic
topics --create --topic x --config nosuch=1
topics --create --topic x --replication-factor 4
topics --create --topic orders --if-not-exists
topics --describe --topic orders
topics --describe --topic nothing
topics --describe --under-replicated-partitions
topics --describe --topics-with-overrides
topics --alter --topic orders --partitions 1
console-producer --topic solo --property parse.key=true --property key.separator=: <a:1
console-producer --topic solo --property parse.key=true --property key.separator=: <b:2
console-consumer --topic solo --from-beginning --max-messages 2 --property print.key=true --group g
get-offsets --topic-partitions solo:0,orders:0-3
get-offsets --topic orders --time -2
get-offsets --topic solo --time -3
get-offsets --topic solo --time -4
get-offsets --topic solo --time -5
get-offsets --topic nothing
consumer-groups --list --state
consumer-groups --list --type
consumer-groups --describe --group g
consumer-groups --describe --group g --members --verbose
consumer-groups --describe --group g --state
consumer-groups --describe --group none
consumer-groups --reset-offsets --group g --topic solo --to-earliest --dry-run
consumer-groups --reset-offsets --group g --topic solo --shift-by -1 --execute
consumer-groups --reset-offsets --group g --all-topics --by-duration P1D --execute
console-consumer --topic __consumer_offsets --from-beginning --timeout-ms 6000 --formatter \
kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter
consumer-groups --delete-offsets --group g --topic solo
consumer-groups --delete --group g --group none
delete-records --offset-json-file FOLDER/delete.json
log-dirs --describe --topic-list solo,orders
log-dirs --describe --broker-list 9
leader-election --election-type preferred --topic orders --partition 0
leader-election --election-type unclean --all-topic-partitions
leader-election --election-type preferred --topic nothing --partition 0
reassign --execute --reassignment-json-file FOLDER/move.json --throttle 1000000
reassign --verify --reassignment-json-file FOLDER/move.json
reassign --list
reassign --cancel --reassignment-json-file FOLDER/move.json
configs --describe --all --entity-type topics --entity-name orders
configs --alter --entity-type brokers --entity-name 1 --add-config background.threads=12
configs --alter --entity-type brokers --entity-name 1 --add-config broker.id=4
configs --alter --entity-type topics --entity-name orders --delete-config flush.ms
configs --alter --entity-type topics --entity-name orders --add-config retention.ms=x
configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=1024
configs --describe --entity-type users --entity-name alice
configs --alter --entity-type clients --entity-default --add-config request_percentage=50
configs --alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=10
configs --describe --entity-type ips
configs --describe --entity-type client-metrics
configs --alter --entity-type broker-loggers --entity-name 1 --add-config no.such.logger=DEBUG
acls --list
transactions list
transactions describe --transactional-id none
transactions describe-producers --topic orders --partition 0
transactions find-hanging --broker-id 1
topics --delete --topic solo
topics --delete --topic nothing
topics --list --exclude-internal
""".strip().splitlines()
ANYTHING: Final = (
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[T ][\d:,.]+", "TIME"),
    (r"\b1\d{12}\b", "MS"),
    (r"SERVER +\(\d\) +", "COORDINATOR "),
)
"""What differs between any two clusters."""

NOT_OFFERED: Final = re.compile(r"\((?:68|69)\): ")
"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, which Kafka offers and then refuses."""


class Printed(NamedTuple):
    """What a tool printed, in lines that do not name the cluster."""

    exit_code: int
    lines: list[str]


def test_kafkas_tools_print_the_same(
    start_kit: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ours, kafkas = (
        run_all(start_kit(kind, 3, CONFIGS), tmp_path) for kind in (KafkaCluster, KafkaKitCluster)
    )

    different = {
        step: (own, real)
        for step, own, real in zip(STEPS, ours, kafkas, strict=True)
        if own != real
    }
    assert different == {}


def run_all(cluster: KafkaCluster, folder: Path) -> list[Printed]:
    printed = []
    for step in STEPS:
        if step.startswith("reassign --verify"):
            cluster.wait_isr("solo", brokers=(2, 3))
            until(lambda: cluster.leader("solo") == 2 or None, lambda: "broker 2 leads")
        printed.append(run(cluster, step, folder))
    return printed


def run(cluster: KafkaCluster, step: str, folder: Path) -> Printed:
    command, _, stdin = step.partition(" <")
    tool, *words = command.replace("FOLDER", str(folder)).split()
    servers = ["--bootstrap-server", cluster.bootstrap_servers]
    # The name of an action comes first, where there is one.
    actions = words[:1] if words and not words[0].startswith("--") else []
    is_global = tool in ("features", "metadata-quorum", "transactions")
    arguments = [*servers, *words] if is_global else [*actions, *servers, *words[len(actions) :]]
    done = run_kafka_tool(TOOLS[tool], *arguments, stdin=f"{stdin}\n" if stdin else "")
    return Printed(done.returncode, anonymous(done.stdout + done.stderr, cluster))


def anonymous(text: str, cluster: KafkaCluster) -> list[str]:
    """The lines without what names the cluster, in any order: Kafka's own come out of hash maps."""
    for server in cluster.bootstrap_servers.split(","):
        text = text.replace(server, "SERVER").replace(server.rpartition(":")[2], "PORT")
    text = text.replace(str(cluster.directory), "FOLDER")
    for pattern, name in ANYTHING:
        text = re.sub(pattern, name, text)
    return sorted(line for line in text.splitlines() if not NOT_OFFERED.search(line))
