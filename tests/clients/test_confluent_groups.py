"""confluent-kafka in groups: rebalances, commits, static members, what an administrator sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.clients.conftest import NewTopicName
from tests.integration.broker_processes import admin_client, wait_for
from zkcontroller_testing import KafkaCluster

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

PARTITIONS: Final = 6
RECORDS: Final = 60
END: Final = RECORDS // PARTITIONS


@pytest.fixture
def topic(cluster: KafkaCluster, new_topic: NewTopicName) -> str:
    """A topic of six partitions with ten records in each."""
    name = new_topic(PARTITIONS)
    produce(cluster, name)
    return name


def produce(cluster: KafkaCluster, topic: str) -> None:
    producer = confluent.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
    )
    failures: list[object] = []
    for number in range(RECORDS):
        producer.produce(
            topic, str(number).encode(), partition=number % PARTITIONS,
            on_delivery=lambda error, _: None if error is None else failures.append(error),
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert failures == []


class Member:
    """A consumer, what it was given to consume, and what it has consumed."""

    def __init__(self, cluster: KafkaCluster, group: str, topic: str, **settings: object) -> None:
        self.consumer = confluent.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                # No one is thought dead because the machine is slow.
                "session.timeout.ms": 45_000,
                **settings,
            }
        )
        self.assignments: list[frozenset[int]] = []
        self.values: Counter[bytes] = Counter()
        self.consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, _: object, partitions: list[Any]) -> None:
        self.assignments.append(frozenset(each.partition for each in partitions))

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(each.partition for each in self.consumer.assignment())

    @property
    def positions(self) -> list[int]:
        """Where it is in each of its partitions."""
        return [each.offset for each in self.consumer.position(self.consumer.assignment())]

    def poll(self) -> None:
        """A moment of its life."""
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values[message.value()] += 1

    def close(self) -> None:
        self.consumer.close()


def live_until(members: list[Member], is_it: Callable[[], bool], why: str) -> None:
    """All members poll until it is so."""

    def is_it_now() -> bool:
        for member in members:
            member.poll()
        return is_it()

    wait_for(is_it_now, why)


def sizes(members: list[Member]) -> list[int]:
    """How many partitions each has; empty unless each partition belongs to just one."""
    given = [partition for member in members for partition in member.partitions]
    if sorted(given) != list(range(PARTITIONS)):
        return []
    return sorted(len(member.partitions) for member in members)


def committed(cluster: KafkaCluster, group: str, topic: str) -> list[int]:
    """Committed offsets by partition, -1001 where there is none."""
    consumer = confluent.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    )
    try:
        wanted = [confluent.TopicPartition(topic, each) for each in range(PARTITIONS)]
        return [each.offset for each in consumer.committed(wanted, timeout=30)]
    finally:
        consumer.close()


def test_a_group_of_three_shares_a_topic_commits_and_goes_on(
    cluster: KafkaCluster, topic: str
) -> None:
    members = [Member(cluster, "sharing", topic) for _ in range(3)]
    try:
        live_until(
            members,
            lambda: (
                sizes(members) == [2, 2, 2]
                and all(each.positions == [END, END] for each in members)
            ),
            "three to share six partitions",
        )
        assert {value for member in members for value in member.values} == {
            b"%d" % number for number in range(RECORDS)
        }
        for member in members:
            member.consumer.commit(asynchronous=False)
        assert committed(cluster, "sharing", topic) == [END] * PARTITIONS

        members.pop().close()
        live_until(members, lambda: sizes(members) == [3, 3], "two to take over from the third")
    finally:
        for member in members:
            member.close()

    produce(cluster, topic)
    late = Member(cluster, "sharing", topic)
    try:
        live_until([late], lambda: late.values.total() >= RECORDS, "what came since")
        # Nothing twice, although everything of the first round is still there.
        assert late.values == {b"%d" % number: 1 for number in range(RECORDS)}
    finally:
        late.close()


def test_a_static_member_comes_back_to_what_it_had(cluster: KafkaCluster, topic: str) -> None:
    names = ("a", "b")
    members = {
        name: Member(cluster, "static", topic, **{"group.instance.id": name}) for name in names
    }
    try:
        everybody = list(members.values())
        live_until(everybody, lambda: sizes(everybody) == [3, 3], "two to share")
        had = members["a"].partitions
        rounds = len(members["b"].assignments)

        # A static member does not say that it leaves.
        members["a"].close()
        members["a"] = Member(cluster, "static", topic, **{"group.instance.id": "a"})
        everybody = list(members.values())
        live_until(everybody, lambda: sizes(everybody) == [3, 3], "the member to be back")

        assert members["a"].partitions == had
        assert len(members["b"].assignments) == rounds, "nobody else noticed"
    finally:
        for member in members.values():
            member.close()


def test_groups_are_listed_described_and_deleted(cluster: KafkaCluster, topic: str) -> None:
    admin = admin_client(cluster.bootstrap_servers)
    member = Member(cluster, "described", topic, **{"client.id": "reader"})
    try:
        live_until([member], lambda: len(member.partitions) == PARTITIONS, "the only member")
        member.consumer.commit(offsets=[confluent.TopicPartition(topic, 0, 7)], asynchronous=False)
        listed = admin.list_consumer_groups().result(20)
        assert "described" in {group.group_id for group in listed.valid}
        assert listed.errors == []
        described = admin.describe_consumer_groups(["described"])["described"].result(20)
        assert described.state.name == "STABLE"
        [seen] = described.members
        assert seen.client_id == "reader"
        assert len(seen.assignment.topic_partitions) == PARTITIONS
        refused = admin.delete_consumer_groups(["described"])["described"]
        with pytest.raises(confluent.KafkaException, match="NON_EMPTY_GROUP"):
            refused.result(20)
    finally:
        member.close()

    assert committed(cluster, "described", topic)[0] == 7
    assert admin.delete_consumer_groups(["described"])["described"].result(20) is None
    assert committed(cluster, "described", topic)[0] == -1001
