"""One scenario on our brokers and on Kafka's: ``zkctl history`` finds the same in the logs of both.

The test compares the findings that a user of the history sees: the controllers, the lives of the
brokers and how they ended, the partitions without a leader and the cause, changes of the ISR,
deletions and reassignments.  Points in time differ, so the test leaves them out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.broker_process import BrokerProcess
from kafka_history.analyses.history import History
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.session import start_spark
from tests.peers.clients import run_tool
from tests.peers.cluster import Cluster
from zkcontroller.zookeeper.requests import Create, Written, Znode

pytestmark = pytest.mark.peers

EVERYBODY: Final = frozenset({1, 2, 3})
BOTH: Final = {
    # What cannot be handed over is tried three times.
    "controlled.shutdown.retry.backoff.ms": "200",
}
Start = Callable[[int, dict[str, str]], BrokerProcess]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A small one: the tables are tiny."""
    session = start_spark(
        "local[2]", memory="1g", settings={"spark.sql.shuffle.partitions": "2"}, is_brief=True
    )
    yield session
    session.stop()


@pytest.mark.timeout(900)
def test_the_same_events_give_the_same_findings(
    new_cluster: Callable[[], Cluster], spark: SparkSession, tmp_path: Path
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    with ThreadPoolExecutor(2) as pool:
        telling = [
            pool.submit(live, ours, ours.start_ours),
            pool.submit(live, kafkas, kafkas.start_kafka),
        ]
        logs_of_ours, logs_of_kafka = (told.result() for told in telling)

    our_findings = findings(spark, logs_of_ours, tmp_path / "ours")
    kafka_findings = findings(spark, logs_of_kafka, tmp_path / "kafka")

    # The expected findings, so that two empty histories do not pass.
    assert kafka_findings["tenures"] == [
        (1, 1, "controller_moved"),
        (2, 1, "clean_shutdown"),
    ]
    assert Counter(kafka_findings["broker lives"]) == Counter(
        [(1, "clean_shutdown"), (2, "killed"), (2, "clean_shutdown"), *2 * [(3, "clean_shutdown")]]
    )
    assert ("lone", 0, "broker 2 died", 2) in kafka_findings["leaderless"]
    assert ("moved", 0, "expand", 3, "leader", 1) in kafka_findings["ISR changes"]
    assert kafka_findings["deletions"] == [("brief", True)]
    assert Counter(kafka_findings["reassignments"]) == Counter(
        [
            ("moved", 0, "completed", "1,3"),
            ("moved", 0, "order only", "3,1"),
            ("moved", 0, "no change", "3,1"),
            ("moved", 0, "cancelled", "3,1"),
        ]
    )
    for what, expected in kafka_findings.items():
        assert our_findings[what] == expected, what


def findings(spark: SparkSession, logs: list[str], out: Path) -> dict[str, list[Any]]:
    """What the history finds in these logs, without times."""
    rows = ingest(spark, logs, IngestOptions(str(out)))
    unknown = rows.where("shape IS NULL")
    assert unknown.select("file", "line", "text").take(3) == []
    history = History(rows.persist())

    def told(response: DataFrame | Sequence[Any], *columns: str) -> list[Any]:
        entries = response.collect() if isinstance(response, DataFrame) else response
        return sorted((attrgetter(*columns)(entry) for entry in entries), key=repr)

    return {
        "tenures": told(history.tenures, "controller_epoch", "broker", "ended_by"),
        "broker lives": told(history.broker_lives, "broker", "ended_by"),
        "leaderless": told(history.leaderless, "topic", "partition", "cause", "next_leader"),
        "ISR changes": told(
            history.isr_changes, "topic", "partition", "change", "broker", "by", "leader"
        ),
        "deletions": sorted((each.topic, each.to_ms is not None) for each in history.deletions),
        "reassignments": sorted(
            (each.topic, each.partition, each.outcome, ",".join(map(str, each.new_replicas or ())))
            for each in history.reassignments
        ),
    }


def live(cluster: Cluster, start: Start) -> list[str]:
    """Runs the scenario until every broker has ended; the folders of their logs."""
    for broker_id in sorted(EVERYBODY):
        start(broker_id, BOTH)
    for topic, assignment in {
        "orders": "1:2:3,2:3:1,3:1:2", "lone": "2", "brief": "3:1,2:1", "moved": "1:2",
    }.items():  # fmt: skip
        cluster.topic_command(1, "--create", "--topic", topic, "--replica-assignment", assignment)
    cluster.wait_until_all_brokers_agree(7)

    cluster.topic_command(1, "--delete", "--topic", "brief")
    cluster.wait_until(lambda: is_deleted(cluster, "brief"), "brief is deleted", timeout_s=60)
    move(cluster, "moved", 0, (1, 3))
    cluster.wait_until(
        lambda: (
            cluster.partitions()["moved", 0].replicas == {1, 3}
            and cluster.partitions()["moved", 0].in_sync_replicas == {1, 3}
        ),
        "moved has moved",
        timeout_s=60,
    )
    for _ in ("another order", "no change"):
        wait_until_reassigned(cluster)
        move(cluster, "moved", 0, (3, 1))
    wait_until_reassigned(cluster)

    cluster.brokers[2].kill()
    cluster.wait_until(
        lambda: (
            cluster.partitions()["lone", 0].leader == -1
            and all(2 not in cluster.partitions()["orders", n].in_sync_replicas for n in range(3))
        ),
        "the death of broker 2 is noticed",
        timeout_s=60,
    )
    # A dead broker never catches up, so this move goes on until it is cancelled.
    # It also removes a replica: Kafka's tool does not cancel a move that only adds some.
    move(cluster, "moved", 0, (3, 2))
    cluster.wait_until(
        lambda: cluster.partitions()["moved", 0].replicas == {1, 2, 3}, "moved begins to move"
    )
    cancel(cluster, "moved", 0)
    cluster.wait_until(
        lambda: cluster.partitions()["moved", 0].replicas == {1, 3}, "the move is cancelled"
    )
    cluster.brokers[3].stop()
    cluster.wait_until(
        lambda: (
            cluster.live_brokers() == {1}
            and all(cluster.partitions()["orders", n].in_sync_replicas == {1} for n in range(3))
        ),
        "broker 3 leaves",
    )
    # No other broker may be elected.
    assert cluster.elect() == 1

    start(2, BOTH)
    wait_until_in_sync(cluster, EVERYBODY - {3})
    start(3, BOTH)
    wait_until_in_sync(cluster, EVERYBODY)
    cluster.wait_until_all_brokers_agree(5)

    # Their logs are whole when the processes have ended.
    for broker_id in sorted(EVERYBODY, reverse=True):
        cluster.brokers[broker_id].stop()
    return [str(cluster.brokers[broker_id].logs) for broker_id in sorted(EVERYBODY)]


def wait_until_in_sync(cluster: Cluster, brokers: frozenset[int]) -> None:
    """Waits until every replica on these brokers is in sync."""
    cluster.wait_until(
        lambda: all(
            view.in_sync_replicas == view.replicas & brokers and view.leader >= 0
            for view in cluster.partitions().values()
        ),
        f"replicas on {sorted(brokers)} are in sync",
        timeout_s=90,
    )


def move(cluster: Cluster, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
    """Asks for other replicas by znode, as Kafka's tool did before there was a request."""
    asked = [{"topic": topic, "partition": partition, "replicas": list(replicas)}]
    data = json.dumps({"version": 1, "partitions": asked}).encode()
    result = cluster.session.write(Create("/admin/reassign_partitions", data))
    assert isinstance(result, Written), result


def wait_until_reassigned(cluster: Cluster) -> None:
    """Waits until the controller has carried out the order in the znode."""
    cluster.wait_until(
        lambda: not isinstance(cluster.session.read("/admin/reassign_partitions"), Znode),
        "the order is carried out",
        timeout_s=60,
    )


def cancel(cluster: Cluster, topic: str, partition: int) -> None:
    """Cancels the reassignment of a partition with Kafka's own tool."""
    order = {
        "version": 1,
        "partitions": [{"topic": topic, "partition": partition, "replicas": [1]}],
    }
    file = cluster.brokers[1].directory / "cancel.json"
    file.write_text(json.dumps(order))
    run_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "--bootstrap-server", cluster.bootstrap(1),
        "--cancel", "--preserve-throttles", "--reassignment-json-file", str(file),
    )  # fmt: skip


def is_deleted(cluster: Cluster, topic: str) -> bool:
    """Nothing of the topic is left."""
    paths = (f"/brokers/topics/{topic}", f"/admin/delete_topics/{topic}")
    return not any(isinstance(cluster.session.read(path), Znode) for path in paths)
