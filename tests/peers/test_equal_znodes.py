"""One scenario on our brokers and on Kafka's: after each chapter the znodes are byte-equal.

Random ids, ports and points in time cannot be equal; the test masks them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.cluster import Cluster
from zkcontroller.zookeeper.requests import ListChildren, ReadZnodes, Znode

pytestmark = pytest.mark.peers

_MASKS = (
    (re.compile(rb'"topic_id":"[\w-]{22}"'), b'"topic_id":"*"'),
    (re.compile(rb'"timestamp":"\d+"'), b'"timestamp":"*"'),
    (re.compile(rb'"version":"1","id":"[\w-]{22}"'), b'"version":"1","id":"*"'),
    (re.compile(rb"127\.0\.0\.1:\d+"), b"127.0.0.1:*"),
    (re.compile(rb'"port":\d+'), b'"port":*'),
)


class Content(NamedTuple):
    """What of a znode must be equal."""

    data: bytes
    zk_version: int
    is_ephemeral: bool


Znodes = dict[str, Content]


@pytest.mark.timeout(400)
def test_the_same_events_leave_the_same_znodes(new_cluster: Callable[[], Cluster]) -> None:
    ours, kafkas = new_cluster(), new_cluster()

    our_chapters = _scenario(ours, ours.start_ours)
    kafka_chapters = _scenario(kafkas, kafkas.start_kafka)

    assert list(our_chapters) == list(kafka_chapters)
    for chapter, expected in kafka_chapters.items():
        assert our_chapters[chapter] == expected, chapter


def _scenario(cluster: Cluster, start: Callable[[int], BrokerProcess]) -> dict[str, Znodes]:
    """Runs the scenario; the znodes after each chapter.

    Broker 1 starts first and never stops, so it is the controller throughout, on both sides.
    """
    chapters: dict[str, Znodes] = {}

    def end_chapter(name: str, partitions: int) -> None:
        cluster.wait_until_all_brokers_agree(partitions)
        assert cluster.controller_id() == 1
        chapters[name] = _znodes(cluster)

    for broker_id in (1, 2, 3):
        start(broker_id)
    end_chapter("three brokers", 0)

    # Twelve partitions and more: from there on Scala's maps no longer print in order.
    assignment = ",".join(f"{p % 3 + 1}:{(p + 1) % 3 + 1}:{(p + 2) % 3 + 1}" for p in range(13))
    cluster.topic_command(1, "--create", "--topic", "orders", "--replica-assignment", assignment)
    cluster.topic_command(
        2, "--create", "--topic", "audit", "--replica-assignment", "2:3,3:2,1:2",
        "--config", "cleanup.policy=compact", "--config", "retention.ms=1000",
    )  # fmt: skip
    cluster.topic_command(3, "--create", "--topic", "brief", "--replica-assignment", "3:1,2:1")
    end_chapter("three topics", 18)

    cluster.topic_command(1, "--delete", "--topic", "brief")
    cluster.wait_until(lambda: "/config/topics/brief" not in _znodes(cluster), "brief is deleted")
    cluster.wait_until(
        lambda: "/admin/delete_topics/brief" not in _znodes(cluster), "its deletion is over"
    )
    end_chapter("one topic deleted", 16)

    cluster.brokers[3].stop()
    cluster.wait_until(lambda: cluster.live_brokers() == {1, 2}, "broker 3 leaves")
    end_chapter("broker 3 shut down", 16)

    cluster.brokers[2].kill()
    cluster.wait_until(lambda: cluster.live_brokers() == {1}, "the session of broker 2 ends")
    cluster.wait_until(
        lambda: all(view.leader in (1, -1) for view in cluster.partitions().values()),
        "broker 1 leads what it can",
    )
    end_chapter("broker 2 killed", 16)

    cluster.elect()
    end_chapter("controller elected again", 16)
    return chapters


def _znodes(cluster: Cluster) -> Znodes:
    """Every znode below the chroot; none has appeared or gone between the two reads."""
    paths = [""]
    for path in paths:  # grows while it is walked: breadth first
        [children] = cluster.session.perform(ListChildren([path or "/"]))
        if isinstance(children, list):
            paths += [f"{path}/{child}" for child in sorted(children)]
    contents: Znodes = {}
    found = cluster.session.perform(ReadZnodes(paths[1:]))
    for path, znode in zip(paths[1:], found, strict=True):
        if isinstance(znode, Znode):
            data = znode.data
            for pattern, mask in _MASKS:
                data = pattern.sub(mask, data)
            contents[path] = Content(data, znode.zk_version, znode.ephemeral_owner != 0)
    return contents
