"""``zkctl wait``: its conditions over one look, and the verb on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pytest

from kafka_common.model import ReplicaAssignment
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.requests import Delete, SetData
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    TopicZnode,
)

conditions: Any = import_module("zkcontroller_cli.waiting.conditions")
moves: Any = import_module("zkcontroller_cli.values.moves")
errors: Any = import_module("zkcontroller_cli.console.errors")

HERE: Final = ("-z", "zookeeper:2181", "-o", "json", "--timeout", "0.2")


def part(leader: int, *isr: int, wanted: int = 2, is_moving: bool = False) -> Any:
    replicas = tuple(range(1, wanted + 1))
    return conditions.PartitionLook(leader, isr, replicas, is_moving)


def missing(text: str, *topics: str, controller: int | None = 1, **partitions: Any) -> list[str]:
    """What is not as wanted where brokers 1 and 2 live; ``orders_0=…`` is orders-0."""
    look = conditions.ClusterLook(
        controller,
        (1, 2),
        {
            moves.NamedPartition(name.partition("_")[0], int(name.partition("_")[2])): each
            for name, each in partitions.items()
        },
        ("doomed",),
    )
    found: list[str] = conditions.missing_for(conditions.parse_condition(text), look, topics)
    return found


def test_full_isrs_need_a_live_leader_and_every_replica() -> None:
    assert missing("isr=full", orders_0=part(1, 1, 2), audit_0=part(2, 2, 1)) == []
    assert missing("isr=full", orders_0=part(1, 1)) == ["orders-0 lacks 2 in sync"]
    assert missing("isr=full", orders_0=part(-1, 1, 2)) == ["orders-0 has no leader"]
    assert missing("isr=full", orders_0=part(3, 1, 2)) == ["leader 3 of orders-0 is not registered"]
    assert missing("isr=full") == []


def test_topics_limit_what_is_waited_for_and_must_be_there() -> None:
    partitions = {"orders_0": part(1, 1), "audit_0": part(1, 1, 2)}

    assert missing("isr=full", "aud*", **partitions) == []
    assert missing("isr=full", "o*", **partitions) == ["orders-0 lacks 2 in sync"]
    assert missing("isr=full", "audit", "lost", **partitions) == ["there is no topic lost"]
    moving = {"orders_0": part(1, 1, 2, is_moving=True)}
    assert missing("reassigned", **moving) == ["orders-0 is being moved"]
    assert missing("reassigned", "audit", **moving) == []


def test_a_controller_must_be_registered() -> None:
    assert missing("controller") == []
    assert missing("controller", controller=None) == ["there is no controller"]
    assert missing("controller", controller=3) == ["the controller, broker 3, is not registered"]


def test_brokers_leaders_and_deletions_are_waited_for_by_name() -> None:
    assert missing("broker=2") == []
    assert missing("broker=3") == ["broker 3 is not registered"]
    assert missing("deleted=gone") == []
    assert missing("deleted=doomed") == ["topic doomed is still there"]
    assert missing("leader=orders-0", orders_0=part(2, 2)) == []
    assert missing("leader=orders-0", orders_0=part(-1)) == ["orders-0 has no leader"]
    assert missing("leader=orders-1", orders_0=part(2, 2)) == ["there is no partition orders-1"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "isr", "isr=some", "controller=1", "reassigned=", "deleted", "deleted="),
        *("broker", "broker=x", "broker=-1", "leader", "leader=", "leader=orders", "other=1"),
    ],
)
def test_what_is_no_condition_is_bad_usage(text: str) -> None:
    with pytest.raises(errors.BadUsage):
        conditions.parse_condition(text)


def test_a_long_list_is_cut_and_counted() -> None:
    names = [f"orders-{number}" for number in range(23)]

    assert conditions.summary_of(names[:20]) == names[:20]
    assert conditions.summary_of(names) == [*names[:20], "and 3 more"]


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def cluster(zkctl: Zkctl) -> Zkctl:
    furnish(zkctl)
    return zkctl


def test_what_holds_already_ends_at_once(cluster: Zkctl) -> None:
    result = cluster(
        "wait", *HERE, "--for=controller", "--for", "broker=2", "--for=deleted=lost",
        "--for=leader=orders-0", "--for=reassigned",
    )  # fmt: skip

    assert result.exit_code == 0, result.stderr
    assert {row["is_met"] for row in result.json} == {True}
    assert [row["condition"] for row in result.json] == [
        *("controller", "broker=2", "deleted=lost", "leader=orders-0", "reassigned")
    ]


def test_what_does_not_come_ends_with_4_and_names_what_lacks(cluster: Zkctl) -> None:
    result = cluster("wait", *HERE, "--for=isr=full", "--for=controller")

    assert result.exit_code == 4
    found = {row["condition"]: row for row in result.json}
    assert found["controller"]["is_met"] is True
    assert found["isr=full"]["waits_for"] == [
        *("orders-1 lacks 1 in sync", "orders-2 has no leader", "orders-2 lacks 2 in sync")
    ]
    assert "waits for isr=full: orders-1 lacks 1 in sync" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("zkctl: not in time: waits for isr=full")


def test_a_marked_topic_is_still_there_and_its_isrs_do_not_count(cluster: Zkctl) -> None:
    cluster.create(DeleteTopicZnode.path("orders"))

    deleted = cluster("wait", *HERE, "--for=deleted=orders")
    in_sync = cluster("wait", *HERE, "--for=isr=full")

    assert deleted.exit_code == 4
    assert "topic orders is still there" in deleted.stderr
    assert in_sync.exit_code == 0


def test_a_move_in_a_topics_znode_is_waited_for(cluster: Zkctl) -> None:
    moving = TopicZnode(None, {0: ReplicaAssignment((1, 2), adding_replicas=(2,))})
    cluster.create(TopicZnode.path("moving"), moving.encode())

    result = cluster("wait", *HERE, "--for=reassigned")

    assert (result.exit_code, result.json[0]["waits_for"]) == (4, ["moving-0 is being moved"])


def test_a_watch_wakes_it_when_the_change_comes(
    cluster: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Any = import_module("zkcontroller_cli.waiting.looks")
    watch_for = looks.watch_for
    session = cluster.session()
    watched = []

    def change_after_watching(*arguments: Any) -> None:
        """All is as wanted a moment after the watches were left."""
        watch_for(*arguments)
        watched.append(1)
        if len(watched) > 1:
            return
        for partition, state in ((1, PartitionStateZnode(2, 6, (2, 1), 7)), (2, None)):
            path = PartitionStateZnode.path("orders", partition)
            state = state or PartitionStateZnode(2, 10, (3, 2), 7)
            session.write(SetData(path, state.encode()))
        session.write(Delete(ControllerZnode.PATH))
        cluster.create(ControllerZnode.PATH, ControllerZnode(2, 1_700_000_000_999).encode())

    monkeypatch.setattr(looks, "watch_for", change_after_watching)

    result = cluster("wait", *HERE[:-1], "60", "--for=isr=full", "--for=controller")

    assert result.exit_code == 0, result.stderr
    assert [row["is_met"] for row in result.json] == [True, True]
    assert "orders-2 has no leader" in result.stderr
    assert len(watched) == 1


def test_a_vanished_broker_is_waited_for_until_it_is_back(
    cluster: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: Any = import_module("zkcontroller_cli.waiting.looks")
    look = looks.look_at_zookeeper
    path = BrokerIdZnode.path(2)
    data = cluster.session().read(path)
    cluster.session().write(Delete(path))

    def come_back(*arguments: Any) -> Any:
        seen = look(*arguments)
        if 2 not in seen.live_brokers:
            cluster.create(path, getattr(data, "data", b""))
        return seen

    monkeypatch.setattr(looks, "look_at_zookeeper", come_back)

    result = cluster("wait", *HERE[:-1], "60", "--for=broker=2")

    assert result.exit_code == 0, result.stderr
    assert "waits for broker=2: broker 2 is not registered" in result.stderr


def test_topics_without_a_condition_that_they_limit_are_bad_usage(cluster: Zkctl) -> None:
    result = cluster("wait", *HERE, "--for=controller", "--topic", "orders")

    assert (result.exit_code, "neither is waited for" in result.stderr) == (2, True)


def test_brokers_that_do_not_answer_are_asked_until_the_time_is_over(zkctl: Zkctl) -> None:
    at = ("-b", "127.0.0.1:1", "-o", "json", "--timeout", "0.5")

    result = zkctl("wait", *at, "--for=broker=1")

    assert result.exit_code == 4
    assert result.json[0]["is_met"] is False
    assert "broker=1" in result.stderr
