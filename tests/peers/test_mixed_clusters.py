"""Our brokers and Kafka's in one cluster: each kind obeys a controller of the other."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from benchmarks.broker_process import BrokerProcess
from tests.peers.cluster import Cluster

pytestmark = pytest.mark.peers

# "[Broker id=2] Leader orders-1 with topic id Some(…) starts at leader epoch 0 from offset 0 …"
_STARTED = re.compile(
    r"\[Broker id=(\d+)\] (Leader|Follower) (\S+)-(\d+) .*starts at leader epoch (\d+) "
)


def test_a_kafka_broker_obeys_our_controller(cluster: Cluster) -> None:
    cluster.start_ours(1)
    kafka = cluster.start_kafka(2)
    cluster.start_ours(3)
    assert cluster.controller_id() == 1

    _create_orders(cluster, at=2)

    views = cluster.partitions()
    assert {view.leader for view in views.values()} == {1, 2, 3}
    assert cluster.leaders_seen_by_java(2) == {key: view.leader for key, view in views.items()}
    _assert_obeyed(kafka, cluster)


def test_our_broker_obeys_a_kafka_controller(cluster: Cluster) -> None:
    cluster.start_kafka(1)
    ours = cluster.start_ours(2)
    cluster.start_kafka(3)
    assert cluster.controller_id() == 1

    _create_orders(cluster, at=2)

    views = cluster.partitions()
    assert {view.leader for view in views.values()} == {1, 2, 3}
    assert cluster.leaders_seen_by_java(2) == {key: view.leader for key, view in views.items()}
    _assert_obeyed(ours, cluster)


def test_a_kafka_broker_shuts_down_and_returns_under_our_controller(cluster: Cluster) -> None:
    cluster.start_ours(1)
    kafka = cluster.start_kafka(2)
    cluster.start_ours(3)
    _create_orders(cluster, at=1)

    kafka.stop()

    assert any("Controlled shutdown request returned successfully" in line
               for line in kafka.log_lines("server.log"))  # fmt: skip
    _assert_broker_2_handed_over(cluster)

    cluster.start_kafka(2)
    cluster.wait_until_all_brokers_agree(partitions=6)
    _assert_obeyed(kafka, cluster)


def test_our_broker_shuts_down_and_returns_under_a_kafka_controller(cluster: Cluster) -> None:
    cluster.start_kafka(1)
    ours = cluster.start_ours(2)
    cluster.start_kafka(3)
    _create_orders(cluster, at=1)

    assert ours.stop() == 0

    assert any("Controlled shutdown request returned successfully" in line
               for line in ours.log_lines("server.log"))  # fmt: skip
    _assert_broker_2_handed_over(cluster)

    cluster.start_ours(2)
    cluster.wait_until_all_brokers_agree(partitions=6)
    _assert_obeyed(ours, cluster)


def test_the_controller_goes_from_kafka_to_us_and_back(cluster: Cluster) -> None:
    kafka = cluster.start_kafka(1)
    ours = cluster.start_ours(2)
    _create_orders(cluster, at=1, replication_factor=2)

    kafka.stop()
    cluster.wait_until(lambda: cluster.controller_id() == 2, "ours takes over")
    cluster.wait_until(
        lambda: all(view.leader == 2 for view in cluster.partitions().values()), "ours leads all"
    )
    assert cluster.controller_epoch() == 2

    kafka = cluster.start_kafka(1)
    cluster.wait_until_all_brokers_agree(partitions=6)
    _assert_obeyed(kafka, cluster)
    cluster.wait_until(
        lambda: all(view.in_sync_replicas == {1, 2} for view in cluster.partitions().values()),
        "Kafka has caught up with ours",
    )
    under_ours = cluster.partitions()

    ours.stop()
    cluster.wait_until(lambda: cluster.live_brokers() == {1}, "ours leaves")
    cluster.wait_until(lambda: cluster.controller_id() == 1, "Kafka takes over")
    cluster.wait_until(
        lambda: all(view.leader == 1 for view in cluster.partitions().values()), "Kafka leads all"
    )
    cluster.wait_until_all_brokers_agree(partitions=6)
    assert cluster.controller_epoch() == 3
    for key, view in cluster.partitions().items():
        assert view.leader_epoch > under_ours[key].leader_epoch


def _create_orders(cluster: Cluster, *, at: int, replication_factor: int = 3) -> None:
    cluster.topic_command(
        at, "--create", "--topic", "orders", "--partitions", "6",
        "--replication-factor", str(replication_factor),
    )  # fmt: skip
    cluster.wait_until_all_brokers_agree(partitions=6)


def _assert_obeyed(broker: BrokerProcess, cluster: Cluster) -> None:
    """The broker leads and follows what the znodes say, and refused nothing that it was sent."""
    expected = {
        key: ("Leader" if view.leader == broker.broker_id else "Follower", view.leader_epoch)
        for key, view in cluster.partitions().items()
    }

    def last_roles() -> dict[tuple[str, int], tuple[str, int]]:
        return {key: roles[-1] for key, roles in _roles_taken(broker).items()}

    # Metadata comes before LeaderAndIsr, and what is done before what is logged.
    cluster.wait_until(
        lambda: last_roles() == expected, f"broker {broker.broker_id} leads and follows as told"
    )
    for roles in _roles_taken(broker).values():
        epochs = [epoch for _, epoch in roles]
        assert epochs == sorted(epochs)
    _assert_no_errors(broker)


def _roles_taken(broker: BrokerProcess) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """Every role with its leader epoch, in the order in which the broker logged them."""
    roles: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for line in broker.log_lines("state-change.log"):
        if started := _STARTED.search(line):
            assert int(started[1]) == broker.broker_id
            roles[started[3], int(started[4])].append((started[2], int(started[5])))
    return roles


def _assert_no_errors(broker: BrokerProcess) -> None:
    # A new controller sends every broker the current leader epochs again; they are ignored.
    refused = [
        line
        for line in broker.log_lines("state-change.log")
        if re.match(r"\[[^]]+\] (WARN|ERROR|FATAL) ", line)
        or ("Ignoring" in line and "matches the current leader epoch" not in line)
    ]
    assert refused == []


def _assert_broker_2_handed_over(cluster: Cluster) -> None:
    cluster.wait_until(lambda: cluster.live_brokers() == {1, 3}, "broker 2 leaves")
    cluster.wait_until_all_brokers_agree(partitions=6)
    for view in cluster.partitions().values():
        assert view.leader in (1, 3)
        assert view.leader_epoch == 1
        assert view.in_sync_replicas == {1, 3}
