"""Bugs of well-known clients that begin with what brokers do, and what must come of them here.

The first line of a docstring is the issue's number and what went wrong; docs/known-bugs.md lists
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.operations import ClientAct
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.kit
OFFSETS = "__consumer_offsets"


def test_a_group_goes_on_when_its_coordinator_loses_its_session(
    cluster: KafkaCluster, topic: str
) -> None:
    """confluentinc/librdkafka#3396: members are sent to a coordinator that says it is none."""
    history = cluster.history()
    with history.load(topic, producers=1, transactions=0, consumers=0, members=2) as load:
        load.wait_progress()
        coordinator = cluster.wait_leader(OFFSETS)
        cluster.expire_session(coordinator)
        load.wait_progress()
        wait_commits(history, 5)

    history.check()


def wait_commits(history: Any, more: int) -> None:
    def count() -> int:
        return sum(e.act is ClientAct.COMMIT_OFFSET and e.is_ok for e in history.operations)

    goal = count() + more
    until(lambda: count() >= goal or None, lambda: f"{goal} commits, and there are {count()}")


def test_a_consumer_without_a_subscription_finds_the_next_coordinator(
    cluster: KafkaCluster, topic: str
) -> None:
    """confluentinc/librdkafka#2791: with assign() a commit goes to the old coordinator for ever."""
    history = cluster.history()
    with history.producer() as producer:
        producer.send(topic)
    with history.consumer(topic) as consumer:
        read_some(consumer)
        consumer.commit()
        coordinator = cluster.wait_leader(OFFSETS)
        cluster.stop(coordinator)
        cluster.wait_leader(OFFSETS, among={1, 2, 3} - {coordinator})

        consumer.commit()
        consumer.committed()

    history.check()
    commits = [each for each in history.operations if each.act is ClientAct.COMMIT_OFFSET]
    assert [each.is_ok for each in commits] == [True, True]


def read_some(consumer: Any) -> None:
    until(lambda: consumer.poll() or None, lambda: "a record")


def test_a_partition_is_fine_when_zookeeper_was_away_for_all_brokers(
    cluster: KafkaCluster, topic: str
) -> None:
    """confluentinc/librdkafka#4340: after a loss of ZooKeeper some leader epochs stay wrong."""
    history = cluster.history()
    with history.load(topic, producers=1, transactions=0, consumers=1, members=0) as load:
        load.wait_progress()
        for broker in cluster.broker_ids:
            cluster.cut(broker, "zookeeper")
        for broker in cluster.broker_ids:
            cluster.wait_unregistered(broker)
        cluster.heal()
        cluster.wait_registered()
        cluster.wait_isr(topic)
        load.wait_progress()

    assert history.violations() == []


def test_an_end_can_be_asked_for_after_each_change_of_leader(
    cluster: KafkaCluster, topic: str
) -> None:
    """confluentinc/librdkafka#4620: ListOffsets is repeated with an old leader epoch in vain."""
    cluster.ledger(topic).produce(3)
    history = cluster.history()
    with history.consumer(topic) as consumer:
        for leader in (1, 2):
            assert consumer.watermark() == 3
            cluster.stop(leader)
            cluster.wait_leader(topic, among={1, 2, 3} - {leader})
            assert consumer.watermark() == 3
            cluster.start(leader)
            cluster.wait_isr(topic)

    history.check()


def test_a_producer_finds_the_leader_although_a_broker_has_old_metadata(
    cluster: KafkaCluster, topic: str
) -> None:
    """IBM/sarama#595: for a while after a failover a broker names the old leader to clients."""
    stale = next(each for each in (2, 3) if each != cluster.controller_id)
    fault = cluster.delay("UpdateMetadata", 3_000, broker=stale, times=3)
    history = cluster.history()

    with history.producer() as producer:
        producer.send(topic)
        producer.flush()
        cluster.stop(1)
        producer.send(topic)
        assert producer.flush(90) == 0

    history.read_to_end(topic)
    history.check()
    sent = [each for each in history.operations if each.act is ClientAct.SEND]
    assert [each.is_ok for each in sent] == [True, True]
    assert fault.count >= 1


def test_a_group_goes_on_when_every_broker_was_restarted(cluster: KafkaCluster, topic: str) -> None:
    """confluentinc/librdkafka#2944: after a rolling restart a consumer cannot join its group."""
    history = cluster.history()
    with history.load(topic, producers=1, transactions=0, consumers=0, members=1) as load:
        load.wait_progress()
        for broker in cluster.broker_ids:
            cluster.bounce(broker)
            cluster.wait_isr(topic)
        wait_commits(history, 5)

    assert history.violations() == []
