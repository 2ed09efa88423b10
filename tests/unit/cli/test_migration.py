"""``zkctl migration check``: each obstacle of znodes and brokers is named, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import pytest

from kafka_common.model import Broker, Endpoint, ReplicaAssignment, TopicPartition
from tests.support.cli_world import ORDERS_ID, Zkctl, furnish, installed_zkctl
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode
from zkcontroller.zookeeper.requests import SetData, Znode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

obstacles: Any = import_module("zkcontroller_cli.migrations.obstacles")
snapshots: Any = import_module("zkcontroller_cli.snapshots.file")

TOKEN: Final = DelegationTokenZnode("t", "User:a", "User:a", (), 1, 3, 2)
HEALTHY: Final = obstacles.MigratingBroker(
    1,
    {
        "inter.broker.protocol.version": "3.9-IV0",
        "log.dirs": "/a,/b",
        "broker.id": "1",
        "broker.id.generation.enable": "true",
        "reserved.broker.max.id": "1000",
        "authorizer.class.name": "",
        "control.plane.listener.name": None,
    },
)
NOTHING: Final = snapshots.SavedMetadata(snapshots.SavedHeader("c", 0, "ZooKeeper"), [])


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    """Three brokers that no client of plaintext reaches, so that only znodes are judged."""
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        for broker_id in (1, 2, 3):
            endpoint = Endpoint("127.0.0.1", 9090 + broker_id, "SSL", "SSL")
            data = BrokerIdZnode(Broker(broker_id, (endpoint,)), timestamp_ms=1).encode()
            if broker_id == 3:
                zkctl.create(BrokerIdZnode.path(3), data)
            else:
                zkctl.session().write(SetData(BrokerIdZnode.path(broker_id), data))
        yield zkctl


def found(zkctl: Zkctl) -> dict[tuple[str, str], list[str]]:
    """By severity and check the places."""
    result = zkctl("-z", "zk:1", "-o", "json", "migration", "check")
    rows = {(row["effect"], row["check"]): row["where"] for row in result.json}
    silent = rows.pop(("not_checked", "silent-broker"))
    assert silent == [f"broker {each}: it has no PLAINTEXT listener" for each in (1, 2, 3)]
    assert result.exit_code == (1 if any(severity == "blocks" for severity, _ in rows) else 2)
    return rows


def test_znodes_in_order_stand_in_no_way(zkctl: Zkctl) -> None:
    assert found(zkctl) == {}


def test_what_the_quorum_must_not_be_is_said(zkctl: Zkctl) -> None:
    result = zkctl("-z", "zk:1", "migration", "check")

    assert "node.id of a controller must be none of 1, 2, 3" in result.stderr


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        (
            ControllerZnode.PATH,
            b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":4}',
            {("blocks", "kraft-controller"): ["/controller"]},
        ),
        (
            "/migration",
            b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":4,'
            b'"kraft_metadata_offset":120,"kraft_metadata_epoch":4}',
            {("blocks", "remnant"): ["/migration"]},
        ),
        (
            "/migration",
            b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":4,'
            b'"kraft_metadata_offset":-1,"kraft_metadata_epoch":-1}',
            {("prepare", "remnant"): ["/migration"]},
        ),
        (
            TopicZnode.path("orders"),
            TopicZnode(None, {0: ReplicaAssignment((1, 2))}).encode(),
            {("blocks", "topic-without-id"): ["orders"]},
        ),
        (
            TopicZnode.path("moving"),
            TopicZnode(ORDERS_ID, {0: ReplicaAssignment((7, 1, 2), (7,), (1,))}).encode(),
            {
                ("blocks", "absent-broker"): ["broker 7: 1 replicas"],
                ("loses", "missing-state"): ["moving-0"],
            },
        ),
        (
            TopicZnode.path("orders"),
            b"{",
            {("blocks", "corrupt-znode"): ["/brokers/topics/orders"]},
        ),
        (
            ConfigZnode.topic_path("orders"),
            b"{",
            {("blocks", "corrupt-znode"): ["/config/topics/orders"]},
        ),
        (
            ConfigZnode.path("clients/app"),
            ConfigZnode({"producer_byte_rate": "fast"}).encode(),
            {("blocks", "quota"): ["client-id=app: producer_byte_rate=fast"]},
        ),
        (
            PartitionStateZnode.path("orders", 0),
            b"{",
            {("loses", "missing-state"): ["orders-0"]},
        ),
        (
            DeleteTopicZnode.path("orders"),
            None,
            {("loses", "pending-deletion"): ["orders"]},
        ),
        (
            ReassignPartitionsZnode.PATH,
            ReassignPartitionsZnode({TopicPartition("orders", 0): (2, 3)}).encode(),
            {("loses", "pending-order"): ["reassignment orders-0"]},
        ),
        (
            ConfigZnode.broker_path(1),
            ConfigZnode({"ssl.key.password": "encoded", "log.cleaner.threads": "2"}).encode(),
            {("prepare", "password"): ["broker 1: ssl.key.password"]},
        ),
        (
            DelegationTokenZnode.path("t"),
            TOKEN.encode(),
            {("prepare", "delegation-token"): ["t"]},
        ),
        (
            DelegationTokenZnode.path("t"),
            b"{",
            {("loses", "corrupt-znode"): [DelegationTokenZnode.path("t")]},
        ),
    ],
)
def test_what_a_znode_does_to_a_migration_is_said(
    zkctl: Zkctl, path: str, data: bytes | None, expected: dict[tuple[str, str], list[str]]
) -> None:
    session = zkctl.session()
    if isinstance(session.read(path), Znode):
        session.write(SetData(path, data or b""))
    else:
        zkctl.create(path, data)

    assert found(zkctl) == expected


def test_a_topic_that_is_deleted_stands_in_no_way_whatever_is_wrong_with_it(zkctl: Zkctl) -> None:
    without_id = TopicZnode(None, {0: ReplicaAssignment((9,))})
    zkctl.create(TopicZnode.path("leaving"), without_id.encode())
    zkctl.create(DeleteTopicZnode.path("leaving"))

    assert found(zkctl) == {("loses", "pending-deletion"): ["leaving"]}


def test_five_places_are_named_and_the_others_counted(zkctl: Zkctl) -> None:
    partitions = {number: ReplicaAssignment((1,)) for number in range(9)}
    zkctl.create(TopicZnode.path("many"), TopicZnode(ORDERS_ID, partitions).encode())

    [row] = zkctl("-z", "zk:1", "-o", "json", "migration", "check").json[:1]

    assert row["count"] == 9
    assert row["where"] == [*(f"many-{number}" for number in range(5)), "and 4 more"]


def test_without_a_broker_nothing_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        result = zkctl("-z", "zk:1", "migration", "check")

        assert result.exit_code == 2
        assert "no broker is registered" in result.stderr


def test_what_may_not_be_read_is_not_called_in_order() -> None:
    hidden = snapshots.SavedMetadata(NOTHING.header, [], {"acl": "NO_AUTH", "quota": "NO_AUTH"})

    [row] = [each.row() for each in obstacles.obstacles_of(hidden, [HEALTHY])]

    assert (row["effect"], row["where"]) == ("not_checked", ["acl", "quota"])


def of_broker(**configs: str) -> Any:
    changed = {key.replace("_", "."): value for key, value in configs.items()}
    return replace(HEALTHY, configs={**HEALTHY.configs, **changed})


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        (HEALTHY, []),
        (of_broker(authorizer_class_name=obstacles._AUTHORIZER), []),
        (of_broker(inter_broker_protocol_version="3.9"), []),
        (of_broker(inter_broker_protocol_version="3.7-IV2"), ["prepare protocol-version"]),
        (
            of_broker(inter_broker_protocol_version="3.6", log_dirs="/a"),
            ["prepare protocol-version"],
        ),
        (
            of_broker(inter_broker_protocol_version="3.6"),
            ["blocks log-dirs", "prepare protocol-version"],
        ),
        (
            of_broker(inter_broker_protocol_version="2.8-IV1", log_dirs="/a"),
            ["blocks protocol-version"],
        ),
        (replace(HEALTHY, failed_log_dirs=["/b"]), ["blocks failed-log-dir"]),
        (of_broker(broker_id="-1"), ["blocks broker-id"]),
        (replace(of_broker(broker_id="1001"), broker_id=1001), ["blocks broker-id"]),
        (of_broker(control_plane_listener_name="C"), ["prepare control-plane-listener"]),
        (
            of_broker(authorizer_class_name="kafka.security.authorizer.AclAuthorizer"),
            ["prepare authorizer"],
        ),
        (replace(HEALTHY, error="timed out"), ["not_checked silent-broker"]),
    ],
)
def test_what_a_broker_does_to_a_migration_is_said(broker: Any, expected: list[str]) -> None:
    judged = obstacles.obstacles_of(NOTHING, [broker])

    assert [f"{each.effect} {each.check}" for each in judged] == expected
    assert all(
        f"broker {broker.broker_id}" in place or "brokers [1]" in place
        for each in judged
        for place in each.where
    )


def test_brokers_that_differ_in_their_protocol_are_named_by_it() -> None:
    other = replace(of_broker(inter_broker_protocol_version="3.8"), broker_id=2)

    [judged] = obstacles.obstacles_of(NOTHING, [HEALTHY, other])

    assert (judged.effect, judged.check) == ("blocks", "protocol-version")
    assert judged.where == ["3.8: brokers [2]", "3.9-IV0: brokers [1]"]
