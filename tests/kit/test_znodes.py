"""Each znode that a controller reads, corrupt: what it says, what it keeps, and that it goes on."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.kit.conftest import QUICK
from zkcontroller_testing import KafkaCluster, NotInTime
from zkcontroller_testing.waiting import until
from zkcontroller_testing.znode import NOT_JSON

pytestmark = pytest.mark.kit


@pytest.fixture(scope="module")
def module_settings() -> dict[str, Any]:
    return {"brokers": 2, "configs": QUICK}


def said(cluster: KafkaCluster, path: str) -> str:
    """What controllers have logged of a znode that is corrupt."""
    logs = (cluster.logs_directory(each) / "controller.log" for each in cluster.broker_ids)
    lines = "\n".join(log.read_text(encoding="utf-8") for log in logs).splitlines()
    of_it = (f"znode {path} is corrupt", f"Broker {path.rpartition('/')[2]} counts as")
    return "\n".join(line for line in lines if any(each in line for each in of_it))


def wait_said(cluster: KafkaCluster, path: str, *words: str) -> None:
    until(
        lambda: all(each in said(cluster, path) for each in words) or None,
        lambda: f"a controller says {words} of {path}: {said(cluster, path)}",
    )


TOPIC: Final = "spoilt"
STAYS: Final = NOT_JSON
GOES: Final = None


@pytest.mark.parametrize(
    ("path", "words", "left"),
    [
        ("/brokers/ids/2", "Broker 2 counts as not live until that is mended", STAYS),
        (f"/brokers/topics/{TOPIC}", "leaving it as it is", STAYS),
        (f"/brokers/topics/{TOPIC}/partitions/0/state", "counts as having no leader", STAYS),
        ("/feature", "leaving it as it is", STAYS),
        ("/admin/reassign_partitions", "it names no reassignment", STAYS),
        ("/admin/preferred_replica_election", "it names no partition", GOES),
    ],
)
def test_a_failover_over_a_corrupt_znode_names_it_and_goes_on(
    cluster: KafkaCluster, path: str, words: str, left: bytes | None
) -> None:
    if cluster.leader(TOPIC) < 0:
        cluster.create_topic(TOPIC)
    place = path.strip("/").replace("/", "-")

    with cluster.znode(path).corrupted():
        controller = cluster.elect_controller()
        while path == f"/brokers/ids/{controller}":  # it would tell itself of no topic
            controller = cluster.elect_controller()
        wait_said(cluster, path, "not JSON", words)
        cluster.create_topic(f"beside-{place}", replicas=[[1]])

        assert cluster.znode(path).get() == left
        assert cluster.is_alive(controller)
    cluster.elect_controller()

    cluster.wait_isr(TOPIC)
    cluster.create_topic(f"after-{place}", replicas=[[2, 1]])


@pytest.mark.parametrize(
    "path",
    [
        "/admin/delete_topics/no-such-topic",
        "/isr_change_notification/isr_change_0000000099",
        "/log_dir_event_notification/log_dir_event_0000000099",
    ],
)
def test_a_request_that_no_one_understands_is_deleted(cluster: KafkaCluster, path: str) -> None:
    with cluster.znode(path).corrupted():
        until(lambda: cluster.znode(path).get() is None or None, lambda: f"{path} goes")

    cluster.create_topic("after-" + path.rpartition("/")[2])


def test_no_controller_is_elected_over_a_corrupt_controller_znode(cluster: KafkaCluster) -> None:
    cluster.delete_controller()
    cluster.wait_controller()
    epoch = cluster.controller_epoch
    handle = cluster.znode("/controller")

    handle.corrupt()
    wait_said(cluster, "/controller", "can be elected until it is removed")

    assert cluster.controller_epoch == epoch
    handle.delete()
    assert cluster.wait_controller(after_epoch=epoch) in cluster.broker_ids


def test_no_controller_is_elected_without_an_epoch_to_go_on_from(cluster: KafkaCluster) -> None:
    epoch = cluster.controller_epoch
    with cluster.znode("/controller_epoch").corrupted(b"seven"):
        cluster.delete_controller()
        wait_said(cluster, "/controller_epoch", "not a whole number: 'seven'")
        with pytest.raises(NotInTime):
            cluster.wait_controller(timeout_s=0.5)

    assert cluster.wait_controller(after_epoch=epoch) in cluster.broker_ids


def test_a_watch_sees_each_change_and_that_a_znode_has_gone(cluster: KafkaCluster) -> None:
    handle = cluster.znode("/watched")
    watch = handle.watch()

    handle.set(b"one")
    assert watch.wait() == b"one"
    handle.set(b"one")  # the same data again is a change
    assert watch.wait() == b"one"
    assert handle.delete()
    assert watch.wait() is None
    with pytest.raises(NotInTime, match="/watched changes"):
        watch.wait(timeout_s=0)
