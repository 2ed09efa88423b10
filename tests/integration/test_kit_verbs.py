"""The kit's verbs on real processes.  The tests share one cluster, and leave it whole."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Timer
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v0.request import ListGroupsRequest

from kafka_common.errors import ConfigInvalid
from tests.integration.calls import address_of
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.waiting import NotInTime, until

pytestmark = pytest.mark.integration
confluent_kafka: Any = import_module("confluent_kafka")

SHORT_S: Final = 0.5
_names = itertools.count(1)


@pytest.fixture
def cluster(kafka_cluster_session: KafkaCluster) -> Iterator[KafkaCluster]:
    """Whole before and after each test."""
    cluster = kafka_cluster_session
    cluster.heal()
    for broker in cluster.broker_ids:
        if not cluster.is_alive(broker):
            cluster.start(broker)
    cluster.wait_registered()
    yield cluster
    cluster.epochs_monotonic()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """One partition on every broker, all in sync."""
    name = f"topic-{next(_names)}"
    cluster.create_topic(name, partitions=1, replication_factor=3)
    cluster.wait_isr(name)
    return name


def test_a_topic_waits_for_brokers_that_run_and_are_not_registered_again(
    cluster: KafkaCluster,
) -> None:
    broker = max({1, 2, 3} - {cluster.controller_id})
    cluster.pause(broker)
    cluster.expire_session(broker)
    cluster.wait_unregistered(broker)
    later = Timer(1.0, cluster.resume, [broker])
    later.start()

    cluster.create_topic("patient", replication_factor=3)

    later.join()
    assert set(cluster.wait_isr("patient")) == {1, 2, 3}


def followers(cluster: KafkaCluster, topic: str) -> list[int]:
    leader = cluster.wait_leader(topic)
    return [each for each in cluster.broker_ids if each != leader]


def test_the_cluster_is_where_it_says(cluster: KafkaCluster) -> None:
    admin = import_module("confluent_kafka.admin").AdminClient(cluster.client_config())

    known = admin.list_topics(timeout=20)

    assert sorted(known.brokers) == [1, 2, 3]
    assert known.controller_id == cluster.controller_id
    assert cluster.zookeeper_connect.count("/kafka-") == 1
    assert cluster.live_brokers == (1, 2, 3)
    addresses = {f"{each.host}:{each.port}" for each in known.brokers.values()}
    assert addresses == set(cluster.bootstrap_servers.split(","))


def test_each_broker_shows_what_it_knows(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)
    behind = max({1, 2, 3} - {leader, cluster.controller_id})
    near = cluster.wait_controller()
    cluster.delay("UpdateMetadata", 60_000, broker=behind)
    cluster.create_topic("unheard-of", replicas=[[near]])

    known = cluster.metadata(near)
    late = cluster.metadata(behind)

    assert known.controller_id == late.controller_id == near
    assert set(known.brokers) == {1, 2, 3}
    assert known.partitions[topic, 0].leader == leader
    assert set(known.partitions[topic, 0].isr) == {1, 2, 3}
    assert "unheard-of" in known.topics
    assert "unheard-of" not in late.topics


def test_each_broker_may_have_keys_of_its_own(
    kafka_cluster_factory: Callable[..., KafkaCluster],
) -> None:
    racks = {"broker.rack": "all"}
    cluster = kafka_cluster_factory(2, configs=racks, broker_configs={2: {"broker.rack": "two"}})

    assert [each.rack for _, each in sorted(cluster.metadata(1).brokers.items())] == ["all", "two"]
    with pytest.raises(ConfigInvalid, match="3 for broker_configs: is none of"):
        KafkaCluster(2, broker_configs={3: racks})


def test_what_a_broker_knows_is_not_waited_for_without_end(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigInvalid, match="is none of 1, 2, 3"):
        cluster.metadata(4)
    cluster.pause(3)
    with pytest.raises(NotInTime, match="broker 3 answers Metadata"):
        cluster.metadata(3, timeout_s=SHORT_S)
    cluster.resume(3)
    cluster.kill(3)
    with pytest.raises(ConfigInvalid, match="does not run"):
        cluster.metadata(3)


def test_a_broker_that_may_write_no_byte_loses_its_leaderships_and_no_record(
    cluster: KafkaCluster, topic: str
) -> None:
    leader = cluster.wait_leader(topic)
    ledger = cluster.ledger(topic)
    ledger.produce(3)

    cluster.disk_full(leader)
    ledger.produce(3)
    cluster.wait_stopped(leader)
    cluster.free_disk(leader)
    cluster.start(leader)

    assert cluster.wait_leader(topic) != leader
    cluster.wait_isr(topic)
    cluster.no_acknowledged_record_lost(ledger)


def test_a_broker_has_room_again_before_it_needs_some(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)
    cluster.pause(leader)
    cluster.disk_full(leader)
    cluster.free_disk(leader)
    cluster.resume(leader)

    cluster.ledger(topic).produce(3)

    assert cluster.is_alive(leader)


def test_an_election_raises_the_epoch(cluster: KafkaCluster) -> None:
    before = cluster.controller_epoch

    elected = cluster.elect_controller()

    assert cluster.controller_epoch > before
    assert elected in cluster.broker_ids


def test_a_killed_leader_is_followed_by_another_and_no_record_is_lost(
    cluster: KafkaCluster, topic: str
) -> None:
    leader = cluster.wait_leader(topic)
    others = followers(cluster, topic)
    ledger = cluster.ledger(topic)

    with ledger.producing():
        until(lambda: len(ledger.acknowledged) >= 20 or None, lambda: "20 records")
        cluster.kill(leader)
        cluster.expire_session(leader)
        cluster.wait_leader(topic, among=others)
        held = len(ledger.acknowledged)
        until(lambda: len(ledger.acknowledged) > held or None, lambda: "more records")
    cluster.start(leader)
    cluster.wait_isr(topic)

    cluster.no_acknowledged_record_lost(ledger)


def test_a_lost_record_is_seen(cluster: KafkaCluster, topic: str) -> None:
    ledger = cluster.ledger(topic)
    (offset,) = ledger.produce()
    ledger.acknowledged[offset + 5] = b"never written"

    with pytest.raises(AssertionError, match="has lost 1 of 2"):
        cluster.no_acknowledged_record_lost(ledger)


def test_a_stopped_broker_hands_its_leaderships_over(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)

    cluster.stop(leader)

    assert not cluster.is_alive(leader)
    assert cluster.leader(topic) not in (-1, leader)
    assert leader not in cluster.live_brokers


def test_a_bounced_broker_comes_back_with_another_epoch(cluster: KafkaCluster) -> None:
    before = cluster.broker_epoch(2)
    address = cluster.bootstrap_servers

    cluster.bounce(2, clean=False)

    assert cluster.wait_registered(2, after_epoch=before) > before
    assert cluster.bootstrap_servers == address


def test_a_paused_broker_loses_its_session_and_comes_back(cluster: KafkaCluster) -> None:
    broker = next(each for each in cluster.broker_ids if each != cluster.controller_id)
    before = cluster.broker_epoch(broker)

    cluster.pause(broker)
    cluster.expire_session(broker)
    cluster.wait_unregistered(broker)
    assert cluster.is_alive(broker)
    cluster.resume(broker)

    cluster.wait_registered(broker, after_epoch=before)


def test_a_broker_has_stopped_when_it_is_paused(cluster: KafkaCluster) -> None:
    process = cluster._brokers.entry(1).process
    assert process is not None
    for _ in range(20):
        cluster.pause(1)
        is_suspended = process.is_suspended
        cluster.resume(1)

        assert is_suspended


def test_an_expired_session_makes_a_broker_register_again(cluster: KafkaCluster) -> None:
    before = cluster.broker_epoch(3)

    cluster.expire_session(3)

    cluster.wait_registered(3, after_epoch=before)


def test_the_expired_session_of_the_controller_ends_its_office(cluster: KafkaCluster) -> None:
    epoch = cluster.controller_epoch
    controller = cluster.wait_controller()

    cluster.expire_session(controller)

    cluster.wait_controller(after_epoch=epoch)
    cluster.wait_registered()


def test_the_leader_of_a_new_topic_takes_records_at_once(cluster: KafkaCluster) -> None:
    for other in {*cluster.broker_ids} - {cluster.wait_controller()}:
        cluster.delay("UpdateMetadata", 1_000, broker=other)

    cluster.create_topic("new", partitions=3)

    for partition in range(3):
        leader = cluster.leader("new", partition)
        assert cluster.metadata(leader).partitions["new", partition].leader == leader


def test_a_follower_that_is_cut_off_leaves_the_isr_and_returns(
    kafka_cluster_factory: Callable[..., KafkaCluster],
) -> None:
    cluster = kafka_cluster_factory(2, configs={"replica.lag.time.max.ms": "1000"})
    cluster.create_topic("orders", replicas=[[1, 2]])
    cluster.wait_isr("orders")
    ledger = cluster.ledger("orders")

    cluster.cut(2, 1, one_way=True)
    ledger.produce()  # acknowledged once the follower is given up
    cluster.wait_isr("orders", 0, [1])
    cluster.heal()
    cluster.wait_isr("orders", 0, [1, 2])

    cluster.cut(2, 1, one_way=True, silent=True)
    ledger.produce()
    cluster.wait_isr("orders", 0, [1])
    cluster.heal()
    cluster.wait_isr("orders", 0, [1, 2])


def test_a_broker_that_is_cut_from_zookeeper_loses_its_registration(cluster: KafkaCluster) -> None:
    before = cluster.broker_epoch(1)

    cluster.cut(1, "zookeeper")
    cluster.wait_unregistered(1)
    cluster.heal()

    cluster.wait_registered(1, after_epoch=before)


def test_clients_that_are_cut_off_reach_no_broker(cluster: KafkaCluster) -> None:
    for broker in cluster.broker_ids:
        cluster.cut("clients", broker)
    admin = import_module("confluent_kafka.admin").AdminClient(
        {**cluster.client_config(), "log_level": 0}
    )

    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=SHORT_S)
    cluster.heal()

    assert admin.list_topics(timeout=20).brokers


def test_a_client_gets_the_error_as_often_as_arranged(cluster: KafkaCluster, topic: str) -> None:
    fault = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=2)
    other = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="another-topic")
    producer = confluent_kafka.Producer({**cluster.client_config(), "retry.backoff.ms": 10})
    errors: list[object] = []

    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)

    assert errors == [None]
    assert (fault.count, other.count) == (2, 0)


def test_a_dropped_answer_makes_a_producer_write_twice(cluster: KafkaCluster, topic: str) -> None:
    cluster.drop("Produce", topic=topic, answer=True)
    ledger = cluster.ledger(topic)

    (offset,) = ledger.produce()

    assert offset == 1
    assert ledger.read() == {0: b"record 1", 1: b"record 1"}


def test_a_dropped_request_never_reaches_the_broker(cluster: KafkaCluster, topic: str) -> None:
    fault = cluster.drop("Produce", topic=topic)
    ledger = cluster.ledger(topic)

    assert ledger.produce() == [0]
    assert fault.count == 1


def test_an_error_comes_at_its_turn_behind_a_produce_that_is_not_answered(
    cluster: KafkaCluster, topic: str
) -> None:
    ledger_module = import_module("zkcontroller_testing.ledger")
    fault = cluster.fail("ListGroups", "COORDINATOR_NOT_AVAILABLE")
    host, _, port = address_of(cluster, cluster.wait_leader(topic)).partition(":")

    async def ask() -> tuple[ErrorCode, ErrorCode]:
        connection = await ledger_module._open(host, int(port))
        try:
            # Of version 3: acks=0, 1 s, and no records for no topic.
            await connection._send(0, 3, 0, [struct.pack(">hhii", -1, 0, 1000, 0)])
            first = await connection.request(ListGroupsRequest())
            second = await connection.request(ListGroupsRequest())
        finally:
            await connection.close()
        return first.error_code, second.error_code

    results = cluster._loop.call(ask(), 20)

    assert results == (ErrorCode.coordinator_not_available, ErrorCode.none)
    assert fault.count == 1


def test_a_delayed_request_waits(cluster: KafkaCluster, topic: str) -> None:
    fault = cluster.delay("Produce", 60_000, topic=topic)
    ledger = cluster.ledger(topic)

    with pytest.raises(NotInTime, match="is not acknowledged"):
        ledger.produce(timeout_s=SHORT_S)
    assert fault.count >= 1
    assert ledger.read() == {}

    cluster.remove(fault)
    cluster.heal()
    assert ledger.produce() == [0]


def test_a_client_sees_only_the_versions_that_are_offered(cluster: KafkaCluster) -> None:
    cluster.offer_versions("Metadata", 0, 4)
    cluster.offer_versions("DescribeCluster", 1, 0)
    connection = import_module("zkcontroller_testing.ledger")

    result = cluster._loop.call(versions_offered(connection, cluster.bootstrap_servers))

    assert result[3] == (0, 4)
    assert 60 not in result


async def versions_offered(module: Any, servers: str) -> dict[int, tuple[int, int]]:
    from kio.schema.api_versions.v0.request import ApiVersionsRequest

    host, _, port = servers.split(",")[0].partition(":")
    connection = await module._open(host, int(port))
    try:
        result = await connection.request(ApiVersionsRequest())
    finally:
        await connection.close()
    return {
        int(each.api_key): (int(each.min_version), int(each.max_version))
        for each in result.api_keys
    }


def test_a_znode_can_be_watched_and_corrupted(cluster: KafkaCluster, topic: str) -> None:
    state = cluster.znode(f"/brokers/topics/{topic}/partitions/0/state")
    watch = state.watch()

    before = state.corrupt()

    assert watch.wait() == state.get() == b"{this is no JSON"
    assert before is not None
    state.set(before)
    assert cluster.leader(topic) in cluster.broker_ids
    assert cluster.znode("/no/such/znode").get() is None
    assert not cluster.znode("/no/such/znode").delete()


def test_the_state_changes_of_all_brokers_are_on_one_page(
    cluster: KafkaCluster, topic: str
) -> None:
    # A broker writes its lines a little after the event.
    until(
        lambda: any(row.get("topic") == topic for row in cluster.state_changes()) or None,
        lambda: f"a state change of {topic}",
    )

    folder = cluster.write_artefacts()

    page = (folder / "state-changes.txt").read_text()
    assert "controller_elected" in page
    assert f" topic={topic} " in page
    assert f"test        create topic {topic}" in page
    assert (folder / "broker-1/logs/server.log").exists()


def test_what_does_not_exist_is_refused_by_name(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigInvalid, match="is none of 1, 2, 3"):
        cluster.kill(9)
    with pytest.raises(ConfigInvalid, match="is none of 1, 2, 3, clients, zookeeper"):
        cluster.cut(1, 9)
    with pytest.raises(ConfigInvalid, match="they differ"):
        cluster.cut(1, 1)
    with pytest.raises(ConfigInvalid, match="is none of Produce, Fetch"):
        cluster.delay("Prodoose", 5)
    with pytest.raises(ConfigInvalid, match="is none of"):
        cluster.fail("Produce", "NO_SUCH_ERROR")
    with pytest.raises(ConfigInvalid, match="is none of controller"):
        cluster.at("controller.before_lunch")
    with pytest.raises(ConfigInvalid, match="runs already"):
        cluster.start(1)


def test_a_wait_that_is_in_vain_says_what_it_saw(cluster: KafkaCluster, topic: str) -> None:
    with pytest.raises(NotInTime, match=r"has the ISR \[7\].*in_sync_replicas"):
        cluster.wait_isr(topic, 0, [7], timeout_s=0)


def test_no_broker_is_a_zombie_of_ours(cluster: KafkaCluster) -> None:
    cluster.kill(2)

    process = cluster._file.broker(2)
    assert process is not None
    assert process.process is not None
    with pytest.raises(ChildProcessError):
        os.waitpid(process.process.pid, os.WNOHANG)
