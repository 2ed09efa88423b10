"""Real clients administer a running cluster, and the znodes say that it has happened.

A move is over as soon as the new replica has caught up; where a test wants to see one under way,
the broker of that replica stands still meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ReplicaAssignment
from tests.integration.broker_processes import admin_client, wait_for
from tests.integration.calls import address_of, call
from tests.support.cli_world import zkctl_here
from tests.support.znode_configs import config_of
from zkcontroller.zookeeper.znodes import PartitionStateZnode, TopicZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

ANSWER_S: Final = 4
"""A frozen broker is waited for so long; the others answer in a tenth of it."""


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """Three brokers, for all clients; broker 3 may be frozen for a while without being missed."""
    patient = {3: {"zookeeper.session.timeout.ms": "40000"}}
    cluster = kafka_cluster_factory(3, zookeeper=zookeeper_connect, broker_configs=patient)
    while cluster.wait_controller() == 3:
        cluster.elect_controller()
    return cluster


@contextmanager
def frozen(cluster: KafkaCluster, broker_id: int) -> Iterator[None]:
    """The broker stands still meanwhile: it lives, and catches up with nothing."""
    cluster.pause(broker_id)
    try:
        yield
    finally:
        cluster.resume(broker_id)


def zkctl(cluster: KafkaCluster, *arguments: str, exit_code: int = 0) -> Any:
    """What ``zkctl`` says, as JSON."""
    at = ("-b", cluster.bootstrap_servers)
    done = zkctl_here(*at, "-o", "json", "--timeout", str(ANSWER_S), *arguments)
    assert done.exit_code == exit_code, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def test_a_frozen_broker_that_is_named_first_leaves_time_for_the_next(
    cluster: KafkaCluster,
) -> None:
    alive, still = (address_of(cluster, broker) for broker in (1, 3))
    with frozen(cluster, 3):
        names = [sys.executable, "-m", "zkcontroller_cli", "--timeout", "6", "topic", "list"]
        first_still = subprocess.run(
            [*names, "-b", f"{still},{alive}"], capture_output=True, text=True, timeout=60
        )
        only_still = subprocess.run(
            [*names, "-b", still], capture_output=True, text=True, timeout=60
        )

    assert (first_still.returncode, first_still.stderr) == (0, "")
    assert (only_still.returncode, only_still.stderr) == (
        4,
        f"zkctl: broker {still} did not answer in time; --timeout SECONDS waits longer\n",
    )


def create(cluster: KafkaCluster, topic: str, assignment: str) -> None:
    """A topic whose partitions have leaders, known to every broker."""
    zkctl(cluster, "topic", "create", topic, "--replica-assignment", assignment)
    wait_until_known(cluster, topic, len(assignment.split(",")))


def wait_until_known(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Until every broker, whichever a command may ask, knows so many partitions of the topic."""
    every = {(topic, partition) for partition in range(count)}
    wait_for(
        lambda: all(
            every <= cluster.metadata(each).partitions.keys() for each in cluster.broker_ids
        ),
        f"every broker to know {topic}",
    )


def controllers_address(cluster: KafkaCluster) -> str:
    """Where other brokers reach the controller."""
    controller = cluster.wait_controller()
    known = cluster.metadata(controller).brokers[controller]
    return f"{known.host}:{known.port}"


def topic_znode(cluster: KafkaCluster, topic: str) -> TopicZnode:
    data = cluster.znode(TopicZnode.path(topic)).get()
    assert data is not None
    return TopicZnode.decode(topic, data)


def change_isr(cluster: KafkaCluster, topic: str, partition: int, *isr: int) -> ErrorCode:
    """What the leader says when a follower has caught up, or has fallen behind."""
    schema: Any = import_module("kio.schema.alter_partition.v3.request")
    state = cluster.partition_state(topic, partition)
    assert state is not None
    request = schema.AlterPartitionRequest(
        broker_id=state.leader,
        broker_epoch=cluster.broker_epoch(state.leader),
        topics=(
            schema.TopicData(
                topic_id=topic_znode(cluster, topic).topic_id,
                partitions=(
                    schema.PartitionData(
                        partition_index=partition,
                        leader_epoch=state.leader_epoch,
                        new_isr_with_epochs=tuple(
                            schema.BrokerState(broker_id=broker, broker_epoch=-1) for broker in isr
                        ),
                        leader_recovery_state=0,
                        partition_epoch=cluster.znode(
                            PartitionStateZnode.path(topic, partition)
                        ).version,
                    ),
                ),
            ),
        ),
    )
    response = call(controllers_address(cluster), request)
    if response.error_code is not ErrorCode.none:
        return ErrorCode(response.error_code)
    [told] = response.topics[0].partitions
    return ErrorCode(told.error_code)


# Partitions


def test_topics_grow(cluster: KafkaCluster) -> None:
    admin_module = pytest.importorskip("confluent_kafka.admin")
    create(cluster, "growing", "2:3")
    admin = admin_client(cluster.bootstrap_servers)

    [grown] = admin.create_partitions(
        [admin_module.NewPartitions("growing", 3)], operation_timeout=20
    ).values()
    grown.result(30)

    assert topic_znode(cluster, "growing").partitions == {
        0: ReplicaAssignment((2, 3)),
        1: ReplicaAssignment((3, 2)),
        2: ReplicaAssignment((1, 3)),
    }
    state = cluster.partition_state("growing", 2)
    assert state is not None
    assert (state.leader, state.in_sync_replicas) == (1, (1, 3))

    wait_until_known(cluster, "growing", 3)
    told = zkctl(
        cluster,
        *("topic", "alter", "growing", "--partitions", "4", "--replica-assignment", "1:2"),
        "--yes",
    )
    assert told == {
        "topic": "growing",
        "current_partition_count": 3,
        "partition_count": 4,
        "is_dry_run": False,
        "error": None,
        "reason": None,
    }
    assert topic_znode(cluster, "growing").partitions[3] == ReplicaAssignment((1, 2))
    wait_until_known(cluster, "growing", 4)
    again = ("topic", "alter", "growing", "--partitions", "4", "--yes")
    assert zkctl(cluster, *again, exit_code=5) is None


def test_kafka_pythons_topics_grow(cluster: KafkaCluster) -> None:
    kafka = pytest.importorskip("kafka")
    create(cluster, "pythons", "1")
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_partitions({"pythons": 2}, timeout_ms=20_000)
    finally:
        admin.close()

    assert len(topic_znode(cluster, "pythons").partitions) == 2


# Reassignments


def test_replicas_move_when_the_new_one_has_caught_up(cluster: KafkaCluster) -> None:
    create(cluster, "moving", "1:2")

    with frozen(cluster, 3):
        begun = zkctl(cluster, "reassign", "start", "--yes", "moving-0:3,2")
        ongoing = zkctl(cluster, "reassign", "status")
        expanded = topic_znode(cluster, "moving").partitions[0]
        growing = ("topic", "alter", "moving", "--partitions", "2", "--yes")
        grown = zkctl(cluster, *growing, exit_code=5)

    assert begun == [
        {
            "topic": "moving",
            "partition": 0,
            "replicas": [3, 2],
            "status": "in_progress",
            "error": None,
            "reason": None,
        }
    ]
    [move] = ongoing
    assert (move["topic"], move["partition"], move["replicas"]) == ("moving", 0, [3, 2])
    assert (move["adding_replicas"], move["removing_replicas"]) == ([3], [1])
    assert move["in_sync_count"] == 0
    assert move["stalled"].startswith("target broker 3 does not answer")
    assert expanded == ReplicaAssignment((3, 2, 1), (3,), (1,))
    assert grown is None
    wait_for(
        lambda: topic_znode(cluster, "moving").partitions[0] == ReplicaAssignment((3, 2)),
        "the end of the move",
    )
    state = cluster.partition_state("moving", 0)
    assert state is not None
    assert state.leader == 3
    assert set(state.in_sync_replicas) == {2, 3}
    assert zkctl(cluster, "reassign", "status", "--check") == []


def test_a_planned_drain_is_carried_out_and_undone(cluster: KafkaCluster, tmp_path: Path) -> None:
    create(cluster, "drained", "1:2,2:3,3:1")
    forth, back = tmp_path / "forth.json", tmp_path / "back.json"

    planned = zkctl(
        cluster, "reassign", "plan", "--drain", "2", "--topic", "drained",
        "--save", str(forth), "--save-current", str(back),
    )  # fmt: skip
    before = topic_znode(cluster, "drained").partitions
    zkctl(cluster, "reassign", "start", "--file", str(forth), "--yes", "--wait")
    after = topic_znode(cluster, "drained").partitions
    again = zkctl(cluster, "reassign", "plan", "--drain", "2", "--topic", "drained")
    zkctl(cluster, "reassign", "start", "--file", str(back), "--yes", "--wait")

    assert [(row["partition"], row["removing_replicas"]) for row in planned] == [(0, [2]), (1, [2])]
    assert {p: each.replicas for p, each in after.items()} == {
        **{p: each.replicas for p, each in before.items()},
        **{row["partition"]: tuple(row["replicas"]) for row in planned},
    }
    assert again == []
    assert topic_znode(cluster, "drained").partitions == before


def test_no_plan_is_made_while_a_partition_is_being_moved(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    create(cluster, "restless", "1:2")
    file = tmp_path / "plan.json"
    plan = ("reassign", "plan", "--replication-factor", "1", "--topic", "restless")
    with frozen(cluster, 3):
        zkctl(cluster, "reassign", "start", "--yes", "restless-0:3,2")
        refused = zkctl(cluster, *plan, "--save", str(file), exit_code=5)
        written = file.exists()
        zkctl(cluster, "reassign", "cancel", "--yes", "restless-0")

    assert (refused, written) == (None, False)
    assert [len(row["replicas"]) for row in zkctl(cluster, *plan)] == [1]
    zkctl(cluster, "reassign", "plan", "--balance", "--topic", "no-such-*", exit_code=5)
    zkctl(cluster, "reassign", "plan", "--replication-factor", "4", exit_code=5)


def test_a_move_is_called_off(cluster: KafkaCluster) -> None:
    create(cluster, "staying", "1:2")
    with frozen(cluster, 3):
        zkctl(cluster, "reassign", "start", "--yes", "staying-0:3,2")
        cancelled = zkctl(cluster, "reassign", "cancel", "--yes", "staying-0")
    again = zkctl(cluster, "reassign", "cancel", "--yes", "staying-0", exit_code=5)

    assert [row["error"] for row in cancelled] == [None]
    # What is left of 3,2,1 without 3: Kafka does not remember which came first either.
    assert topic_znode(cluster, "staying").partitions[0] == ReplicaAssignment((2, 1))
    assert [(row["error"], row["reason"]) for row in again] == [
        ("NO_REASSIGNMENT_IN_PROGRESS", "No partition reassignment is in progress.")
    ]


# Elections


def test_leaders_return_to_their_preferred_brokers(cluster: KafkaCluster) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    create(cluster, "elected", "1:2,1:2")
    for partition in (0, 1):
        lead_elsewhere(cluster, "elected", partition)

    admin = admin_client(cluster.bootstrap_servers)
    named = [kafka.TopicPartition("elected", 0), kafka.TopicPartition("none", 0)]
    outcomes = admin.elect_leaders(kafka.ElectionType.PREFERRED, named).result(30)

    refused = {each.topic: error for each, error in outcomes.items() if error is not None}
    assert list(refused) == ["none"]
    assert cluster.leader("elected", 0) == 1
    assert cluster.leader("elected", 1) == 2

    elected = zkctl(cluster, "partition", "elect", "--yes", "--all")
    again = zkctl(cluster, "partition", "elect", "--yes", "elected-0", "elected-1")

    rows = [(row["partition"], row["is_elected"]) for row in elected if row["topic"] == "elected"]
    assert rows == [(1, True)]
    assert [(row["is_elected"], row["error"]) for row in again] == [(False, None), (False, None)]
    assert cluster.leader("elected", 1) == 1


def lead_elsewhere(cluster: KafkaCluster, topic: str, partition: int) -> None:
    """Broker 2 leads a partition that prefers 1: the order is changed for one election."""
    zkctl(cluster, "reassign", "start", "--yes", f"{topic}-{partition}:2,1")
    wait_for(
        lambda: topic_znode(cluster, topic).partitions[partition] == ReplicaAssignment((2, 1)),
        "the replicas in the other order",
    )
    # Both replicas were in sync all along, so the move ends at once; the leader has stayed.
    assert cluster.leader(topic, partition) == 1
    zkctl(cluster, "partition", "elect", "--yes", f"{topic}-{partition}")
    assert cluster.leader(topic, partition) == 2
    zkctl(cluster, "reassign", "start", "--yes", f"{topic}-{partition}:1,2")
    assert cluster.leader(topic, partition) == 2


# Configurations


def test_configurations_change(cluster: KafkaCluster) -> None:
    admin_module = pytest.importorskip("confluent_kafka.admin")
    create(cluster, "configured", "1")
    admin = admin_client(cluster.bootstrap_servers)
    operation = admin_module.AlterConfigOpType
    entry = admin_module.ConfigEntry
    resource = admin_module.ConfigResource(
        "topic",
        "configured",
        incremental_configs=[
            entry("retention.ms", "5000", incremental_operation=operation.SET),
            entry("cleanup.policy", "compact", incremental_operation=operation.APPEND),
        ],
    )

    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(20)
    assert config_of(cluster, "topics/configured") == {
        "retention.ms": "5000",
        "cleanup.policy": "delete,compact",
    }

    told = zkctl(cluster, "config", "get", "topic", "configured")
    assert [(row["name"], row["value"], row["source"]) for row in told] == [
        ("cleanup.policy", "delete,compact", "topic"),
        ("retention.ms", "5000", "topic"),
    ]
    topic = ("topic", "configured", "--yes")
    more = ("--subtract", "cleanup.policy=delete", "--config", "segment.bytes=2000")
    zkctl(cluster, "config", "set", *topic, *more, "--unset", "retention.ms")
    assert config_of(cluster, "topics/configured") == {
        "cleanup.policy": "compact",
        "segment.bytes": "2000",
    }
    refused = ("config", "set", *topic, "--config", "no.key=1")
    assert zkctl(cluster, *refused, exit_code=5) is None


def test_brokers_take_over_what_is_changed_for_all_and_for_one(cluster: KafkaCluster) -> None:
    every, second = ("broker", "--default", "--yes"), ("broker", "2", "--yes")
    zkctl(cluster, "config", "set", *every, "--config", "max.connections=500")
    zkctl(cluster, "config", "set", *second, "--config", "max.connections=700")

    def told(broker: str) -> tuple[Any, ...]:
        rows = zkctl(cluster, "config", "get", "broker", broker, "--key", "max.connections")
        return tuple((row["value"], row["source"]) for row in rows)

    wait_for(lambda: told("1") == (("500", "dynamic_default_broker"),), "broker 1 to change")
    wait_for(lambda: told("2") == (("700", "dynamic_broker"),), "broker 2 to change")
    assert config_of(cluster, "brokers/<default>") == {"max.connections": "500"}

    zkctl(cluster, "config", "unset", *every, "--key", "max.connections")
    zkctl(cluster, "config", "unset", *second, "--key", "max.connections")
    wait_for(lambda: told("2") == (("2147483647", "default"),), "broker 2 to change back")


def test_the_levels_of_one_brokers_loggers_change(cluster: KafkaCluster) -> None:
    logger = "kafka.controller.KafkaController"

    def level(broker: str) -> Any:
        [row] = zkctl(cluster, "config", "get", "logger", broker, "--key", logger)
        return row["value"]

    zkctl(cluster, "config", "set", "logger", "2", "--config", f"{logger}=ERROR", "--yes")

    assert (level("1"), level("2")) == ("TRACE", "ERROR")

    zkctl(cluster, "config", "unset", "logger", "2", "--key", logger, "--yes")

    assert level("2") == "TRACE"


# Between brokers


def test_blocks_of_producer_ids_do_not_overlap(cluster: KafkaCluster) -> None:
    schema: Any = import_module("kio.schema.allocate_producer_ids.v0.request")
    address = controllers_address(cluster)
    epoch = cluster.broker_epoch(2)

    def block(broker_epoch: int) -> Any:
        request = schema.AllocateProducerIdsRequest(broker_id=2, broker_epoch=broker_epoch)
        return call(address, request)

    first, second = block(epoch), block(epoch)

    assert (first.error_code, first.producer_id_len) == (ErrorCode.none, 1000)
    assert second.producer_id_start == first.producer_id_start + 1000
    assert block(1).error_code is ErrorCode.stale_broker_epoch


def test_who_is_not_the_controller_says_so(cluster: KafkaCluster) -> None:
    schema: Any = import_module("kio.schema.list_partition_reassignments.v0.request")
    request = schema.ListPartitionReassignmentsRequest(timeout=timedelta(seconds=5), topics=None)
    others = {*cluster.broker_ids} - {cluster.wait_controller()}

    responses = [call(address_of(cluster, broker), request) for broker in others]

    assert [response.error_code for response in responses] == [ErrorCode.not_controller] * 2


def test_a_stale_leader_changes_no_isr(cluster: KafkaCluster) -> None:
    create(cluster, "shrinking", "1:2")

    assert change_isr(cluster, "shrinking", 0, 1) is ErrorCode.none
    assert change_isr(cluster, "shrinking", 0, 1, 9) is ErrorCode.ineligible_replica
    state = cluster.partition_state("shrinking", 0)

    assert state is not None
    assert state.in_sync_replicas == (1,)
