"""Three real brokers under our controller: Kafka's tools and clients find nothing amiss."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.clients import RunningProducer, consume, produce, run_tool
from tests.peers.real_brokers import EVERYWHERE, OURS, REAL, RealBrokers
from zkcontroller.zookeeper.requests import Znode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(150)]

CONFIG_COMMAND: Final = "kafka.admin.ConfigCommand"
ELECTION_COMMAND: Final = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN_COMMAND: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture
def cluster(real_brokers: RealBrokers) -> RealBrokers:
    """One cluster for all these tests, each of which ends under our controller without errors."""
    return real_brokers


def test_topics_are_created_grown_described_and_deleted(cluster: RealBrokers) -> None:
    cluster.create("fruit", "1:2,2:3", "--config", "min.insync.replicas=2")

    cluster.topic_command(
        2, "--alter", "--topic", "fruit", "--partitions", "3",
        "--replica-assignment", "1:2,2:3,3:1",
    )  # fmt: skip
    cluster.wait_until(lambda: len(cluster.of("fruit")) == 3, "the third partition")
    cluster.wait_until_all_brokers_know("fruit")
    described = cluster.topic_command(3, "--describe", "--topic", "fruit")

    assert "PartitionCount: 3" in described
    assert "min.insync.replicas=2" in described
    for partition, leader in enumerate((1, 2, 3)):
        assert re.search(rf"Partition: {partition}\s+Leader: {leader}\s", described)

    cluster.topic_command(1, "--delete", "--topic", "fruit")
    cluster.wait_until(lambda: cluster.of("fruit") == {}, "the znodes of fruit are gone")
    cluster.wait_until_all_brokers_know("fruit")
    for broker_id in REAL:
        data = cluster.brokers[broker_id].directory / "data"
        assert [path.name for path in data.glob("fruit-?")] == []


def test_idempotent_records_reach_a_consumer_group(cluster: RealBrokers) -> None:
    cluster.create("letters")

    produce(cluster.clients, "letters", ["a", "b", "c"])
    first = consume(cluster.clients, "letters", "readers", 2)
    second = consume(cluster.clients, "letters", "readers", 1)

    assert sorted(first + second) == ["a", "b", "c"]
    # The producer's id came out of a block that our controller gave to one of Kafka's brokers.
    znode = cluster.session.read("/latest_producer_id_block")
    assert isinstance(znode, Znode)
    assert json.loads(znode.data)["broker"] in REAL


def test_a_broker_that_stops_leaves_no_partition_offline(cluster: RealBrokers) -> None:
    cluster.create("steady")
    stopped = cluster.brokers[2]

    stopped.stop()

    assert any(
        "Controlled shutdown request returned successfully" in line
        for line in stopped.log_lines("server.log")
    )
    cluster.wait_until(lambda: 2 not in cluster.live_brokers(), "broker 2 leaves")
    for view in cluster.of("steady").values():
        assert view.leader in (1, 3)
        assert view.leader_epoch == 1
        assert view.in_sync_replicas == {1, 3}

    cluster.start_real(2)
    cluster.wait_until_in_sync("steady", "__consumer_offsets")


def test_killed_brokers_return_and_leaders_are_elected_on_request(cluster: RealBrokers) -> None:
    cluster.create("kept")
    cluster.create("lost", "1:2")
    produce(cluster.clients, "kept", ["before"])

    cluster.brokers[2].stop()
    cluster.wait_until(lambda: cluster.of("lost")[0].in_sync_replicas == {1}, "2 leaves the ISR")
    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.of("lost")[0].leader == -1, "lost has lost its leader")
    cluster.wait_until(
        lambda: all(view.leader == 3 for view in cluster.of("kept").values()), "3 leads the rest"
    )
    produce(cluster.clients, "kept", ["meanwhile"])

    cluster.start_real(2)
    cluster.wait_until(lambda: cluster.of("kept")[0].in_sync_replicas == {2, 3}, "2 is in sync")
    assert cluster.of("lost")[0].leader == -1
    _elect(cluster, "unclean", "lost", 0)
    assert cluster.of("lost")[0].leader == 2
    assert cluster.of("lost")[0].in_sync_replicas == {2}

    cluster.start_real(1)
    cluster.wait_until_in_sync("kept", "lost", "__consumer_offsets")
    for partition in range(3):
        _elect(cluster, "preferred", "kept", partition)
    _elect(cluster, "preferred", "lost", 0)
    assert [cluster.of("kept")[partition].leader for partition in range(3)] == [1, 2, 3]
    assert cluster.of("lost")[0].leader == 1
    assert sorted(consume(cluster.clients, "kept", "kept", 2)) == ["before", "meanwhile"]


def _elect(cluster: RealBrokers, kind: str, topic: str, partition: int) -> None:
    run_tool(
        ELECTION_COMMAND, "--bootstrap-server", cluster.bootstrap(3), "--election-type", kind,
        "--topic", topic, "--partition", str(partition),
    )  # fmt: skip


def test_partitions_move_and_moves_are_called_off(cluster: RealBrokers, tmp_path: Path) -> None:
    cluster.create("moving", "1:2,2:3")
    # Ten times what one fetch brings.
    values = [f"{number:0>1000}" for number in range(400)]
    produce(cluster.clients, "moving", values)

    plan = _plan(tmp_path, "moving", {0: [2, 3], 1: [3, 1]})
    _reassign(cluster, "--execute", plan)
    cluster.wait_until(
        lambda: "is still in progress" not in _reassign(cluster, "--verify", plan), "moved"
    )
    verified = _reassign(cluster, "--verify", plan)
    assert verified.count("is completed") == 2
    moved = cluster.of("moving")
    assert [moved[partition].replicas for partition in (0, 1)] == [{2, 3}, {3, 1}]
    assert [moved[partition].in_sync_replicas for partition in (0, 1)] == [{2, 3}, {3, 1}]

    back = _plan(tmp_path, "moving", {0: [1, 2]})
    _reassign(cluster, "--execute", back, "--throttle", "1000")
    assert "is still in progress" in _reassign(cluster, "--verify", back)
    assert _assignment(cluster, "moving")["adding_replicas"] == {"0": [1]}
    _reassign(cluster, "--cancel", back)
    assert _assignment(cluster, "moving") == {
        "partitions": {"0": [2, 3], "1": [3, 1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    cluster.wait_until_all_brokers_know("moving")
    assert sorted(consume(cluster.clients, "moving", "movers", 400)) == values


def test_a_move_begun_under_one_controller_is_finished_under_the_next(
    cluster: RealBrokers, tmp_path: Path
) -> None:
    cluster.create("handed", "1:2")
    values = [f"{number:0>1000}" for number in range(400)]
    produce(cluster.clients, "handed", values)

    def in_sync() -> frozenset[int]:
        return cluster.of("handed")[0].in_sync_replicas

    plan = _plan(tmp_path, "handed", {0: [2, 3]})
    _reassign(cluster, "--execute", plan, "--throttle", "1000")
    cluster.brokers[OURS].kill()
    cluster.wait_until(lambda: cluster.controller_id() in REAL, "one of Kafka's takes over")
    assert _assignment(cluster, "handed")["adding_replicas"] == {"0": [3]}
    _reassign(cluster, "--execute", plan, "--additional", "--throttle", "100000000", at=1)
    cluster.wait_until(lambda: in_sync() == {2, 3}, "2 and 3 have everything")

    cluster.start_ours_again()
    back = _plan(tmp_path, "handed", {0: [1, 2]})
    _reassign(cluster, "--execute", back, "--throttle", "1000", at=2)
    cluster.elect_ours()
    assert _assignment(cluster, "handed")["adding_replicas"] == {"0": [1]}
    _reassign(cluster, "--execute", back, "--additional", "--throttle", "100000000")
    cluster.wait_until(lambda: in_sync() == {1, 2}, "1 and 2 have everything")

    assert "is completed" in _reassign(cluster, "--verify", back)
    cluster.wait_until_all_brokers_know("handed")
    assert sorted(consume(cluster.clients, "handed", "handed", 400)) == values


def _plan(directory: Path, topic: str, targets: dict[int, list[int]]) -> str:
    path = directory / f"plan-{len(list(directory.iterdir()))}.json"
    moves = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for partition, replicas in targets.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return str(path)


def _reassign(cluster: RealBrokers, what: str, plan: str, *more: str, at: int = OURS) -> str:
    return run_tool(
        REASSIGN_COMMAND, "--bootstrap-server", cluster.bootstrap(at),
        "--reassignment-json-file", plan, what, *more,
    )  # fmt: skip


def _assignment(cluster: RealBrokers, topic: str) -> dict[str, object]:
    znode = cluster.session.read(f"/brokers/topics/{topic}")
    assert isinstance(znode, Znode)
    fields = json.loads(znode.data)
    return {key: fields[key] for key in ("partitions", "adding_replicas", "removing_replicas")}


def test_a_configuration_set_at_any_broker_reaches_all(cluster: RealBrokers) -> None:
    cluster.create("tuned")

    for at, days in ((OURS, 1), (2, 2)):
        milliseconds = str(days * 86_400_000)
        _configure(
            cluster, at, "--entity-type", "topics", "--entity-name", "tuned",
            "--alter", "--add-config", f"retention.ms={milliseconds}",
        )  # fmt: skip
        for reader in (1, OURS):
            _wait_for_config(cluster, reader, f"retention.ms={milliseconds}", "topics", "tuned")
    _configure(
        cluster, 1, "--entity-type", "brokers", "--entity-default",
        "--alter", "--add-config", "log.cleaner.threads=2",
    )  # fmt: skip

    for broker_id in REAL:
        cluster.wait_until(
            lambda broker=cluster.brokers[broker_id]: _has_applied(broker),  # type: ignore[misc]
            f"broker {broker_id} applies both",
        )


def _configure(cluster: RealBrokers, at: int, *arguments: str) -> str:
    return run_tool(CONFIG_COMMAND, "--bootstrap-server", cluster.bootstrap(at), *arguments)


def _wait_for_config(cluster: RealBrokers, at: int, expected: str, kind: str, name: str) -> None:
    cluster.wait_until(
        lambda: (
            expected
            in _configure(cluster, at, "--entity-type", kind, "--entity-name", name, "--describe")
        ),
        f"broker {at} tells {expected}",
    )


def _has_applied(broker: BrokerProcess) -> bool:
    log = "\n".join(broker.log_lines("server.log"))
    return "retention.ms -> 172800000" in log and "log.cleaner.threads" in log


def test_no_acknowledged_record_is_lost_while_the_controllership_moves(
    cluster: RealBrokers, tmp_path: Path
) -> None:
    cluster.create("stream", EVERYWHERE, "--config", "min.insync.replicas=2")
    producer = RunningProducer(cluster.clients, "stream", tmp_path)

    def more_is_acknowledged() -> None:
        count = len(producer.acknowledged)
        cluster.wait_until(
            lambda: len(producer.acknowledged) >= count + 100, "a hundred more are acknowledged"
        )

    try:
        more_is_acknowledged()
        epoch = cluster.controller_epoch()
        for elect in _moves(cluster):
            elect()
            more_is_acknowledged()
        producer.stop()
    finally:
        producer.kill()

    assert cluster.controller_epoch() == epoch + 4
    assert producer.failed == []
    consumed = consume(cluster.clients, "stream", "stream", len(producer.acknowledged))
    assert sorted(consumed) == sorted(producer.acknowledged)
    assert all(view.leader_epoch == 0 for view in cluster.of("stream").values())


def _moves(cluster: RealBrokers) -> list[Callable[[], None]]:
    return [cluster.elect_real, cluster.elect_ours, cluster.elect_real, cluster.elect_ours]
