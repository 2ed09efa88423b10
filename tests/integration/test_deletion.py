"""``zkctl deletion`` and ``zkctl wait`` beside our brokers: found, named, and ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.cluster import Cluster
from tests.support.doctor_causes import FROZEN_S, World
from tests.support.suspension import suspend
from zkcontroller.zookeeper.requests import Create, Znode

pytestmark = pytest.mark.integration

SHORT = {"zookeeper_session_timeout_ms": "6000"}


@pytest.fixture(scope="module")
def world(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("deletion")
    cluster = Cluster(f"{zookeeper_connect}/deletion", directory)
    try:
        world = World(cluster, cluster.start_forked, directory)
        world.start_all()
        yield world
    finally:
        cluster.close()


def at(world: World) -> tuple[str, str]:
    return "-z", world.cluster.zookeeper


def status(world: World, topic: str) -> Any:
    [row] = world.zkctl("deletion", "status", topic, *at(world))
    return row


def kinds(world: World, topic: str) -> list[str]:
    return [each["kind"] for each in status(world, topic)["blockers"]]


def kill(world: World, broker_id: int) -> None:
    """The broker is dead, and its session is over."""
    world.cluster.brokers[broker_id].kill()
    world.cluster.wait_until(
        lambda: broker_id not in world.cluster.live_brokers(), "the end of its session"
    )


def test_a_deletion_waits_for_a_dead_broker_and_ends_when_it_returns(world: World) -> None:
    dead, (first, second) = world.other, world.rest
    world.cluster.brokers[dead].stop()
    world.start(dead, **SHORT)
    world.create("blocked", (first, dead), (first, second))
    kill(world, dead)

    late = world.zkctl(
        "topic", "delete", "blocked", *at(world), "--yes", "--timeout", "1", codes=(4,)
    )
    row = status(world, "blocked")
    refused = world.zkctl("deletion", "unblock", "blocked", *at(world), "--yes", codes=(5,))
    kept = ("--keep-topic", "blocked")
    lost = world.zkctl("deletion", "unblock", "blocked", *kept, *at(world), "--yes", codes=(5,))
    waiting = subprocess.Popen(
        [
            *(sys.executable, "-m", "zkcontroller_cli", "wait", *at(world), "-o", "json"),
            *("--for=deleted=blocked", f"--for=broker={dead}", "--timeout", "60"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    said = waiting.stderr.readline() + waiting.stderr.readline()
    world.start(dead)
    out, _ = waiting.communicate(timeout=90)

    assert [each["is_deleted"] for each in late] == [False]
    assert [each["what"] for each in row["blockers"]] == [
        f"broker {dead} has replicas and is not alive"
    ]
    left = {each["broker_id"]: each["left_count"] for each in row["brokers"]}
    assert left == {first: 0, second: 0, dead: None}
    assert (refused, lost) == ([], [])
    assert "waits for deleted=blocked: topic blocked is still there" in said
    assert f"waits for broker={dead}: broker {dead} is not registered" in said
    assert waiting.returncode == 0
    assert [each["is_met"] for each in json.loads(out)] == [True, True]
    assert world.zkctl("deletion", "status", *at(world)) == []


def test_a_deletion_that_a_reassignment_blocks_is_unblocked(world: World) -> None:
    new, (first, second) = world.other, world.rest
    world.cluster.brokers[new].stop()
    # The verb asks it for its disks, in vain, and it must still be registered then.
    world.start(new, zookeeper_session_timeout_ms="20000")
    world.create("moving", (first, second))
    # It cannot catch up, and dies before it has begun.
    suspend(world.cluster.brokers[new].pid)
    asked = ("-b", world.cluster.bootstrap(world.controller))
    start = ("reassign", "start", f"moving-0:{new},{second}", "--timeout", str(FROZEN_S))
    world.zkctl(*start, *asked, "--yes")
    kill(world, new)
    delete = ("topic", "delete", "moving", *at(world), "--yes", "--timeout", "1")
    world.zkctl(*delete, codes=(4,))

    blocked = kinds(world, "moving")
    planned = world.zkctl("deletion", "unblock", "moving", *at(world), "--dry-run")
    still = kinds(world, "moving")
    ended = world.zkctl("deletion", "unblock", "moving", *at(world), "--yes")

    assert blocked == still == ["dead_broker", "reassignment"]
    assert (planned["is_dry_run"], planned["action"]) == (True, "cancel_reassignment")
    assert len(planned["steps"]) == 3
    assert (ended["is_deleted"], ended["is_marked_for_deletion"]) == (True, False)
    assert ended["controller_epoch"] > ended["controller_epoch_before"]
    assert world.cluster.of("moving") == {}
    world.start(new)


def test_a_silent_controller_is_replaced_to_delete_a_topic_or_to_keep_it(world: World) -> None:
    controller = world.controller
    others = [broker for broker in (1, 2, 3) if broker != controller]
    world.create("deleted", others)
    world.create("kept", others)
    topic = world.cluster.session.read("/brokers/topics/kept")

    with world.frozen(controller):
        for name in ("deleted", "kept"):
            # As an old kafka-topics --zookeeper --delete orders it.
            world.cluster.session.write(Create(f"/admin/delete_topics/{name}"))
        found = kinds(world, "kept")
        world.cluster.wait_until(
            lambda: status(world, "kept")["age_ms"] > 10_000, "an age at which nothing is sent"
        )
        kept = ("deletion", "unblock", "kept", "--keep-topic", "kept")
        keeping = world.zkctl(*kept, *at(world), "--yes")
        ended = world.zkctl("wait", "--for=deleted=deleted", *at(world))
        # Its own controller deletes the other one now.
        leaders = [view.leader for view in world.cluster.of("kept").values()]

    after = world.cluster.session.read("/brokers/topics/kept")
    assert found == ["silent_controller"]
    assert (keeping["action"], keeping["is_marked_for_deletion"]) == ("keep_topic", False)
    assert keeping["controller_id"] in others
    assert [each["is_met"] for each in ended] == [True]
    assert isinstance(topic, Znode)
    assert isinstance(after, Znode)
    assert after.czxid == topic.czxid
    assert set(leaders) <= set(others)
    world.wait_until_in_sync("kept")
    assert world.zkctl("deletion", "status", *at(world)) == []
