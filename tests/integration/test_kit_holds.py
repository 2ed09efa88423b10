"""The controller held between two of its steps, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from zkcontroller.runtime.hold_points import HOLD_POINTS
from zkcontroller_cli.machine.processes import ProcessId, wait_until
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.holds import Reached
from zkcontroller_testing.waiting import PATIENCE_S, NotInTime

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(kafka_cluster_session: KafkaCluster) -> Iterator[KafkaCluster]:
    """Whole before and after each test."""
    cluster = kafka_cluster_session
    for broker in cluster.broker_ids:
        if not cluster.is_alive(broker):
            cluster.start(broker)
    cluster.wait_registered()
    cluster.wait_controller()
    assert wait_until(lambda: has_begun(cluster) and is_in_sync(cluster), PATIENCE_S)
    yield cluster
    cluster.epochs_monotonic()


def has_begun(cluster: KafkaCluster) -> bool:
    """Whether the controller has read the topics: only of later ones is it notified."""
    epoch = cluster.controller_epoch
    return any(
        row["kind"] == "update_metadata_sending" and row["controller_epoch"] == epoch
        for row in cluster.state_changes()
    )


def is_in_sync(cluster: KafkaCluster) -> bool:
    """Whether no ISR will grow: that is a write of the controller, too."""
    states = cluster.metadata(cluster.wait_controller()).partitions.values()
    return all(set(each.isr) == set(each.replicas) for each in states)


def elect(cluster: KafkaCluster, _topic: str) -> None:
    cluster.delete_controller()


def expire_the_controller(cluster: KafkaCluster, _topic: str) -> None:
    cluster.expire_session(cluster.wait_controller())


def create_a_topic(cluster: KafkaCluster, topic: str) -> None:
    # Its znode is written by the broker that is asked, so this returns before leaders are elected.
    cluster.znode(f"/brokers/topics/{topic}").set(
        json.dumps(
            {
                "version": 3,
                "topic_id": "AAAAAAAAAAAAAAAAAAAAA" + "ABCDEFGHIJ"[len(topic) % 10],
                "partitions": {"0": [1, 2, 3]},
                "adding_replicas": {},
                "removing_replicas": {},
            }
        ).encode()
    )


def delete_a_topic(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)
    cluster.znode(f"/admin/delete_topics/{topic}").set(b"")


def stop_a_leader(cluster: KafkaCluster, topic: str) -> None:
    other = next(each for each in cluster.broker_ids if each != cluster.controller_id)
    cluster.create_topic(topic, replicas=[[other, *({1, 2, 3} - {other})]])
    cluster.wait_isr(topic)
    cluster.stop(other, wait=False)


def last_stop(cluster: KafkaCluster) -> str:
    return next(text for _, text in reversed(cluster.journal) if text.startswith("stop "))


@pytest.mark.parametrize(
    ("point", "cause"),
    [
        ("controller.before_election", elect),
        ("controller.after_election", elect),
        ("controller.on_reelect", elect),
        ("controller.before_read", elect),
        ("controller.after_read", elect),
        ("controller.before_send_update_metadata", elect),
        ("controller.on_expire", expire_the_controller),
        ("controller.before_register", expire_the_controller),
        ("controller.after_register", expire_the_controller),
        ("controller.on_register_broker_and_reelect", expire_the_controller),
        ("controller.on_topic_change", create_a_topic),
        ("controller.before_write", create_a_topic),
        ("controller.after_write", create_a_topic),
        ("controller.before_send_leader_and_isr", create_a_topic),
        ("controller.before_send_stop_replica", delete_a_topic),
        ("controller.on_topic_deletion", delete_a_topic),
        ("controller.before_answer", stop_a_leader),
        ("controller.on_controlled_shutdown", stop_a_leader),
        ("controller.on_broker_change", stop_a_leader),
    ],
)
def test_a_controller_is_held_where_it_was_asked_to_be(
    cluster: KafkaCluster, point: str, cause: Callable[[KafkaCluster, str], None]
) -> None:
    topic = "held-" + point.replace(".", "-")
    hold = cluster.at(point).hold()
    try:
        cause(cluster, topic)
        reached = hold.wait_reached()
    finally:
        hold.release()

    if cause is stop_a_leader:
        (stopping,) = [each for each in cluster.broker_ids if f"stop {each}" == last_stop(cluster)]
        cluster.wait_stopped(stopping)
    if cause is delete_a_topic:
        # Else the next test's controller is held in what is left of this deletion.
        marked = cluster.znode(f"/admin/delete_topics/{topic}")
        assert wait_until(lambda: marked.get() is None, 30)
    assert (reached.name, reached.broker_id in cluster.broker_ids) == (point, True)
    assert point in HOLD_POINTS
    cluster.wait_controller()


def test_what_is_decided_and_not_sent_is_in_zookeeper_alone(cluster: KafkaCluster) -> None:
    with cluster.at("controller.before_send_leader_and_isr").hold() as hold:
        create_a_topic(cluster, "decided")
        reached = hold.wait_reached()
        leader = cluster.wait_leader("decided")

        assert reached == Reached(cluster.wait_controller(), hold.name, reached.detail)
        assert reached.detail.startswith("to broker ")
        assert not (cluster.directory / f"broker-{leader}/data/decided-0").exists()
    cluster.ledger("decided").produce()


def test_a_zombie_controller_writes_nothing_once_another_is_elected(cluster: KafkaCluster) -> None:
    zombie = cluster.wait_controller()
    epoch = cluster.controller_epoch
    with cluster.at("controller.before_write", broker=zombie).hold() as hold:
        create_a_topic(cluster, "contested")
        assert "contested" in hold.wait_reached().detail
        cluster.delete_controller()
        cluster.wait_controller(after_epoch=epoch)
        cluster.wait_leader("contested")
        state = cluster.partition_state("contested")
        watch = cluster.znode("/brokers/topics/contested/partitions/0/state").watch()

    with pytest.raises(NotInTime):
        watch.wait(timeout_s=1)
    assert cluster.partition_state("contested") == state
    assert state is not None
    assert state.controller_epoch == epoch + 1


def test_a_point_of_another_broker_holds_no_one(cluster: KafkaCluster) -> None:
    controller = cluster.wait_controller()
    other = next(each for each in cluster.broker_ids if each != controller)

    with cluster.at("controller.before_write", broker=other).hold() as hold:
        cluster.create_topic("free")
        with pytest.raises(NotInTime, match=f"before_write of broker {other}"):
            hold.wait_reached(timeout_s=0)


def test_a_broker_that_starts_while_a_point_is_held_stops_there(cluster: KafkaCluster) -> None:
    broker = next(each for each in cluster.broker_ids if each != cluster.controller_id)
    cluster.kill(broker)
    cluster.expire_session(broker)

    with cluster.at("controller.on_startup").hold() as hold:
        cluster.start(broker, wait=False)
        assert hold.wait_reached().broker_id == broker


START: Final = """
import sys
from pathlib import Path
from zkcontroller_testing import KafkaCluster
cluster = KafkaCluster(2, directory=Path(sys.argv[1])).start()
cluster.pause(2)
print(*(cluster._brokers.entry(each).process.pid for each in (1, 2)), flush=True)
sys.stdin.read()
"""


def test_no_broker_and_no_zookeeper_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as test:
        assert test.stdout is not None
        pids = [int(word) for word in test.stdout.readline().split()]
        brokers = [found for pid in pids if (found := ProcessId.of(pid)) is not None]
        assert len(brokers) == 2
        test.kill()

    assert wait_until(lambda: not any(each.is_alive for each in brokers), 30)
    assert wait_until(lambda: not (tmp_path / "zookeeper/connect").exists(), 30)
