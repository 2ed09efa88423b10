"""Bugs that Kafka had in ZooKeeper mode, each as a test that the kit can write in a few lines.

The first line of a docstring is the bug's number and what went wrong; docs/known-bugs.md lists
them.
"""

from __future__ import annotations

import contextlib
import json
from importlib import import_module
from typing import Any

import pytest

from zkcontroller_testing import KafkaCluster, NotInTime
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.kit
confluent_kafka: Any = import_module("confluent_kafka")


def others(cluster: KafkaCluster, *brokers: int | None) -> list[int]:
    return [each for each in cluster.broker_ids if each not in brokers]


def state_path(topic: str) -> str:
    return f"/brokers/topics/{topic}/partitions/0/state"


def test_an_election_whose_answer_is_lost_ends_with_a_controller_that_works(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-13407: the winner of an election misses ZooKeeper's answer and takes itself for beaten.

    ``/controller`` then names a broker that does nothing.
    """
    epoch = cluster.controller_epoch
    lost = [cluster.lose_zookeeper_response(broker, "multi") for broker in cluster.broker_ids]

    cluster.delete_controller()
    cluster.wait_controller(after_epoch=epoch)

    cluster.create_topic("elected")  # only a controller that works elects its leader
    assert cluster.leader("elected") in cluster.broker_ids
    assert sum(each.count for each in lost) >= 1


def test_a_zombie_controller_writes_nothing(cluster: KafkaCluster) -> None:
    """KAFKA-6082: a controller sleeps before a write, and writes over what the next one decided."""
    zombie, epoch = cluster.wait_controller(), cluster.controller_epoch
    cluster.create_topic("zombie", replicas=[[1, 2, 3]])
    cluster.wait_isr("zombie")
    victim = others(cluster, zombie)[0]

    with cluster.at("controller.before_write", broker=zombie).hold() as step:
        cluster.kill(victim)
        cluster.expire_session(victim)
        assert "/zombie/" in step.wait_reached().detail
        cluster.delete_controller()
        cluster.wait_controller(after_epoch=epoch)
        cluster.wait_isr("zombie", 0, {1, 2, 3} - {victim})
        decided = cluster.znode(state_path("zombie")).watch()

    # The next controller may go on writing; the zombie may not.
    with contextlib.suppress(NotInTime):
        written = decided.wait(timeout_s=1)
        assert written is not None
        assert json.loads(written)["controller_epoch"] > epoch


def test_a_broker_that_bounces_before_the_controller_looks_gets_its_partitions(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-7235: a broker is back before the controller has looked, and gets no partitions."""
    broker = others(cluster, cluster.controller_id)[0]
    epoch = cluster.broker_epoch(broker)

    with cluster.at("controller.on_broker_change").hold() as step:
        cluster.kill(broker)
        cluster.expire_session(broker)
        step.wait_reached()
        cluster.start(broker, wait=False)
        cluster.wait_registered(broker, after_epoch=epoch)

    cluster.wait_isr(topic)
    assert cluster.ledger(topic).produce() == [0]


def test_an_isr_grows_although_the_answer_to_its_leader_is_lost(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-12686: the answer to an AlterPartition is lost, and the leader's ISR is out of date."""
    lost = cluster.drop("AlterPartition", answer=True)

    cluster.bounce(others(cluster, cluster.controller_id, 1)[0])

    cluster.wait_isr(topic)
    assert lost.count == 1


def test_an_isr_can_change_again_after_a_proposal_of_what_is_already_so(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-12751: a repeated proposal changes nothing, and the leader waits for it for ever."""
    follower = others(cluster, cluster.controller_id, 1)[0]
    lost = cluster.drop("AlterPartition", answer=True, topic=topic, times=2)
    cluster.bounce(follower)
    cluster.wait_isr(topic)

    cluster.bounce(follower)

    cluster.wait_isr(topic)
    assert lost.count == 2


def test_a_controller_is_elected_however_often_sessions_expire(cluster: KafkaCluster) -> None:
    """KAFKA-4229: after several expired sessions no controller starts any more."""
    for _ in range(5):
        epoch = cluster.controller_epoch
        cluster.expire_session(cluster.wait_controller())
        cluster.wait_controller(after_epoch=epoch)
    cluster.wait_registered()

    cluster.create_topic("after-expiries")
    assert cluster.leader("after-expiries") in cluster.broker_ids


def test_a_registration_whose_answer_is_lost_is_found_to_be_its_own(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-7165: a registration meets an ephemeral of its own, and the broker stays out."""
    broker = others(cluster, cluster.controller_id)[0]
    epoch = cluster.broker_epoch(broker)
    lost = cluster.lose_zookeeper_response(broker, "multi")

    cluster.expire_session(broker)

    assert cluster.wait_registered(broker, after_epoch=epoch) > epoch
    assert lost.count == 1


def test_every_broker_comes_back_after_a_cut_from_zookeeper(cluster: KafkaCluster) -> None:
    """KAFKA-14845: brokers are cut from ZooKeeper, and one is not registered until a restart."""
    epochs = {broker: cluster.broker_epoch(broker) for broker in (1, 2)}
    for broker in epochs:
        cluster.cut(broker, "zookeeper")
        cluster.lose_zookeeper_response(broker, "multi")
    for broker in epochs:
        cluster.wait_unregistered(broker)
    cluster.heal()

    for broker, epoch in epochs.items():
        assert cluster.wait_registered(broker, after_epoch=epoch) > epoch


def test_a_session_that_expires_while_the_event_thread_is_busy_blocks_nothing(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-8532: the event thread and the handler of an expired session wait for each other."""
    controller, epoch = cluster.wait_controller(), cluster.controller_epoch

    with cluster.at("controller.before_read", broker=controller).hold() as step:
        cluster.znode("/brokers/topics/no-topic").set(b"{}")
        step.wait_reached()
        registered = cluster.broker_epoch(controller)
        cluster.expire_session(controller)
        cluster.wait_controller(after_epoch=epoch)
    cluster.znode("/brokers/topics/no-topic").delete()

    assert cluster.wait_registered(controller, after_epoch=registered) > registered


def test_a_controller_that_is_elected_again_has_forgotten_what_it_knew(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-5310: a controller of old comes back with its old memory and undoes a reassignment."""
    first = cluster.wait_controller()
    cluster.create_topic("moved", replicas=[[1, 2]])
    while cluster.elect_controller() == first:
        pass
    reassign(cluster, "moved", [2, 3])
    cluster.wait_isr("moved", 0, {2, 3})
    while cluster.elect_controller() != first:
        pass

    cluster.bounce(2)
    cluster.wait_isr("moved", 0, {2, 3})

    assert replicas(cluster, "moved") == [2, 3]


def reassign(cluster: KafkaCluster, topic: str, brokers: list[int]) -> None:
    move = {"topic": topic, "partition": 0, "replicas": brokers}
    plan = json.dumps({"version": 1, "partitions": [move]}).encode()
    cluster.znode("/admin/reassign_partitions").set(plan)


def replicas(cluster: KafkaCluster, topic: str) -> list[int]:
    found = cluster.znode(f"/brokers/topics/{topic}").get()
    assert found is not None
    placed: list[int] = json.loads(found)["partitions"]["0"]
    return placed


def test_a_broker_stops_while_zookeeper_is_away(cluster: KafkaCluster) -> None:
    """KAFKA-9189: a broker that is being stopped waits for ZooKeeper, which is away, for ever."""
    broker = others(cluster, cluster.controller_id)[0]
    cluster.cut(broker, "zookeeper")

    cluster.stop(broker)

    assert not cluster.is_alive(broker)


def test_a_new_controller_tells_who_lives_before_who_leads(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-4443: after a failover LeaderAndIsr comes first, and followers know no address."""
    cluster.wait_leader(topic)
    leadership = cluster.at("controller.before_send_leader_and_isr").hold()
    with cluster.at("controller.before_send_update_metadata").hold() as step:
        cluster.delete_controller()
        step.wait_reached()
        with pytest.raises(NotInTime):
            leadership.wait_reached(timeout_s=0)
    leadership.release()
    cluster.wait_isr(topic)


def test_a_reassignment_of_what_is_not_there_does_not_stay(cluster: KafkaCluster) -> None:
    """KAFKA-9478: entries of partitions that cannot be moved stay, and no new ones are taken."""
    cluster.create_topic("movable", replicas=[[1, 2]])

    reassign(cluster, "no-such-topic", [1, 2])
    until(
        lambda: cluster.znode("/admin/reassign_partitions").get() is None or None,
        lambda: "the znode of reassignments goes",
    )
    reassign(cluster, "movable", [2, 3])

    cluster.wait_isr("movable", 0, {2, 3})


def delete_topic(cluster: KafkaCluster, topic: str) -> None:
    admin = import_module("confluent_kafka.admin").AdminClient(cluster.client_config())
    admin.delete_topics([topic])[topic].result(20)


def test_a_topic_that_is_made_again_has_no_records_of_the_one_before(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-13132: a replica that slept keeps the log of a deleted topic for its successor."""
    cluster.create_topic("again", replicas=[[1, 2, 3]])
    cluster.wait_isr("again")
    cluster.ledger("again").produce(20)
    sleeper = others(cluster, cluster.controller_id)[-1]
    cluster.kill(sleeper)
    cluster.expire_session(sleeper)
    awake = others(cluster, sleeper)
    delete_topic(cluster, "again")
    cluster.start(sleeper, wait=False)
    until(
        lambda: cluster.znode("/brokers/topics/again").get() is None or None, lambda: "it is gone"
    )

    cluster.create_topic("again", replicas=[[*awake, sleeper]])
    cluster.wait_isr("again")
    cluster.stop(awake[0])

    ledger = cluster.ledger("again")
    ledger.produce()
    # Twice, if the response to a first attempt was lost with its leader.
    assert set(ledger.read().values()) == set(ledger.acknowledged.values())
    assert len(ledger.acknowledged) == 1
    assert ledger.lost() == {}


def test_logs_are_equal_after_two_fast_failovers(cluster: KafkaCluster) -> None:
    """KAFKA-6361: two leaders in quick succession leave a follower's log different from theirs."""
    cluster.create_topic("fast", replicas=[[1, 2]], configs={"min.insync.replicas": "1"})
    cluster.wait_isr("fast", 0, {1, 2})
    ledger = cluster.ledger("fast")
    with ledger.producing():
        for leader in (1, 2, 1):
            cluster.wait_leader("fast", among={leader})
            cluster.kill(leader)
            cluster.expire_session(leader)
            cluster.wait_leader("fast", among={3 - leader})
            cluster.start(leader)
            cluster.wait_isr("fast", 0, {1, 2})

    cluster.no_acknowledged_record_lost(ledger)
    logs = {
        (cluster.directory / f"broker-{b}/data/fast-0/00000000000000000000.log").read_bytes()
        for b in (1, 2)
    }
    assert len(logs) == 1


def test_a_broker_that_is_stopping_does_not_come_back_into_an_isr(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-14140: a broker that is being stopped fetches on, and enters the ISR once more."""
    broker = others(cluster, cluster.controller_id, 1)[0]

    lost = cluster.drop("ControlledShutdown", answer=True, times=2)

    cluster.stop(broker, wait=False)  # it asks again, and fetches on meanwhile
    cluster.wait_isr(topic, 0, {1, 2, 3} - {broker})
    changed = cluster.znode(state_path(topic)).watch()
    cluster.ledger(topic).produce(20)
    cluster.wait_stopped(broker)

    assert lost.count == 2
    with pytest.raises(NotInTime):
        changed.wait(timeout_s=0)


def test_brokers_know_the_leader_epoch_that_a_reassignment_has_made(cluster: KafkaCluster) -> None:
    """KAFKA-9212: after a reassignment ListOffsets is refused with FENCED_LEADER_EPOCH for ever."""
    cluster.create_topic("fenced", replicas=[[1, 2]])
    cluster.ledger("fenced").produce(3)
    history = cluster.history()
    with history.consumer("fenced") as consumer:
        assert consumer.watermark() == 3

        reassign(cluster, "fenced", [2, 3])
        cluster.wait_isr("fenced", 0, {2, 3})

        assert consumer.watermark() == 3


def test_a_broker_takes_requests_for_an_epoch_that_it_does_not_know_yet(
    cluster: KafkaCluster,
) -> None:
    """KAFKA-9839: a controller knows a broker's new epoch first, and its requests are refused."""
    broker = others(cluster, cluster.controller_id)[0]
    epoch = cluster.broker_epoch(broker)

    with cluster.at("controller.after_register", broker=broker).hold() as step:
        cluster.expire_session(broker)
        step.wait_reached()
        cluster.wait_registered(broker, after_epoch=epoch)
        cluster.create_topic("early", replicas=[[broker]])
        assert cluster.ledger("early").produce() == [0]


def test_a_leader_that_lost_zookeeper_does_not_keep_followers_out(
    cluster: KafkaCluster, topic: str
) -> None:
    """KAFKA-2729: a leader has an old version of its znode, and skips every change of the ISR."""
    ledger = cluster.ledger(topic)
    ledger.produce(5)

    cluster.cut(1, "zookeeper")
    cluster.wait_leader(topic, among={2, 3})
    cluster.heal()
    ledger.produce(5)

    cluster.wait_isr(topic)
    assert ledger.lost() == {}


def test_a_deletion_ends_although_a_broker_died_in_it(cluster: KafkaCluster) -> None:
    """linkedin/kafka#337: a broker dies between StopReplica and its answer; the topic stays."""
    broker = others(cluster, cluster.controller_id)[0]
    cluster.create_topic("dying", replicas=[[1, 2, 3]])
    cluster.wait_isr("dying")

    with cluster.at("controller.before_send_stop_replica").hold() as step:
        cluster.znode("/admin/delete_topics/dying").set(b"")
        step.wait_reached()
        cluster.kill(broker)
    cluster.start(broker)

    until(
        lambda: cluster.znode("/admin/delete_topics/dying").get() is None or None,
        lambda: "the topic is gone",
    )
    assert cluster.znode("/brokers/topics/dying").get() is None
