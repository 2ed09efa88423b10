"""Histories of real clients through faults of real brokers, and what a wrong one looks like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.client_history import ClientHistory
from zkcontroller_testing.operations import ClientAct
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.kit

PARTITIONS = 2
GROUP_ACTS = {ClientAct.COMMIT_OFFSET, ClientAct.FETCH_OFFSET}


def kill_the_leader(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)
    cluster.kill(leader)
    cluster.expire_session(leader)
    cluster.wait_leader(topic, among={1, 2, 3} - {leader})
    cluster.start(leader)
    cluster.wait_isr(topic)


def kill_the_controller(cluster: KafkaCluster, topic: str) -> None:
    controller = cluster.wait_controller()
    cluster.bounce(controller, clean=False)
    cluster.wait_isr(topic)


def freeze_the_leader(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)
    cluster.pause(leader)
    cluster.expire_session(leader)
    cluster.wait_leader(topic, among={1, 2, 3} - {leader})
    cluster.resume(leader)
    cluster.wait_isr(topic)


def cut_the_leader_off_from_followers(cluster: KafkaCluster, topic: str) -> None:
    leader = cluster.wait_leader(topic)
    for other in {1, 2, 3} - {leader}:
        cluster.cut(other, leader, one_way=True)
    cluster.wait_isr(topic, 0, {leader})
    cluster.heal()
    cluster.wait_isr(topic)


def lose_responses_to_producers(cluster: KafkaCluster, topic: str) -> None:
    lost = cluster.drop("Produce", topic=topic, answer=True, times=5)
    for _ in range(5):
        cluster.wait_leader(topic)
    assert lost.times == 5


@pytest.mark.parametrize(
    "hurt",
    [
        kill_the_leader,
        kill_the_controller,
        freeze_the_leader,
        cut_the_leader_off_from_followers,
        lose_responses_to_producers,
    ],
)
def test_clients_see_nothing_that_may_not_be(
    cluster: KafkaCluster, hurt: Callable[[KafkaCluster, str], None]
) -> None:
    topic = hurt.__name__.replace("_", "-")
    cluster.create_topic(topic, replicas=[[1, 2, 3]] * PARTITIONS)
    cluster.wait_isr(topic)
    history = cluster.history()

    with history.load(topic, PARTITIONS) as load:
        load.wait_progress(100)
        hurt(cluster, topic)
        load.wait_progress(100)
        # A group needs longer than a producer until its members have read and committed.
        until(
            lambda: acts_in(history) >= GROUP_ACTS or None,
            lambda: f"only {acts_in(history)} were seen",
        )

    history.check()
    assert acts_in(history) >= {
        ClientAct.SEND,
        ClientAct.READ,
        ClientAct.COMMIT,
        ClientAct.WATERMARK,
        ClientAct.READ_TO_END,
        *GROUP_ACTS,
    }


def acts_in(history: ClientHistory) -> set[ClientAct]:
    """What clients have done with success."""
    return {each.act for each in history.operations if each.is_ok}


def test_a_record_that_acks_1_lost_is_found(cluster: KafkaCluster) -> None:
    cluster.create_topic("careless", replicas=[[1, 2]])
    cluster.wait_isr("careless", 0, {1, 2})
    history = cluster.history()
    with history.producer(config={"enable.idempotence": False, "acks": 1}) as producer:
        # The leader knows that it leads: after the cut a controller on broker 2 could not tell it.
        producer.send("careless")
        producer.flush()
        cluster.cut(2, 1, silent=True)
        producer.send("careless")
        producer.flush()
        cluster.kill(1)
        cluster.expire_session(1)
        cluster.heal()
        cluster.wait_leader("careless", among={2})

    history.read_to_end("careless")

    # The first record, too, where the follower was cut off before it fetched it.
    found = history.violations()
    assert {(each.name, each.where) for each in found} == {("lost-record", "careless-0")}
    assert {tuple(step.act for step in each.part) for each in found} == {
        (ClientAct.SEND, ClientAct.READ_TO_END)
    }


def test_a_duplicate_without_idempotence_is_none_and_with_it_would_be(
    cluster: KafkaCluster, topic: str
) -> None:
    history = cluster.history()
    with (
        history.producer(config={"enable.idempotence": False}) as careless,
        history.producer() as careful,
    ):
        for producer in (careless, careful):
            lost = cluster.drop("Produce", topic=topic, answer=True)
            producer.send(topic)
            producer.flush()
            assert lost.count == 1

    history.read_to_end(topic)

    history.check()
    values = [each.value for each in history.operations if each.act is ClientAct.READ]
    assert [values.count(f"producer-{n}:1") for n in (1, 2)] == [2 * 2, 2 * 1]  # two readings


def test_group_offsets_of_a_transaction_are_recorded(cluster: KafkaCluster, topic: str) -> None:
    history = cluster.history()
    with history.producer() as producer:
        producer.send(topic)
    copier = history.producer(is_transactional=True)
    with history.consumer(topic, group="copiers") as reader:
        while not reader.poll():
            pass
        for ends in (copier.abort, copier.commit):
            copier.begin()
            copier.send(topic)
            copier.commit_group_offset(reader)
            assert ends()
        reader.committed()

    history.read_to_end(topic)

    history.check()
    fetched = [e.offset for e in history.operations if e.act is ClientAct.FETCH_OFFSET and e.is_ok]
    assert fetched[-1] == 1
