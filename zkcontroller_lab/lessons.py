"""Scripted runs with captions, for example an election, a failover or a fenced controller.

A script waits until a caption is true before it adds the caption to the step.
``tests/unit/lab/test_lessons.py`` compares each caption with the frame of its step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_common.model import TopicPartition
from zkcontroller.zookeeper.requests import FencedBatch
from zkcontroller_lab.experiment import Experiment, record
from zkcontroller_lab.interventions import Intervention, in_order
from zkcontroller_lab.quorum_lesson import split_vote
from zkcontroller_lab.recording import Recording
from zkcontroller_simulation.process import ProcessState

ORDERS_0: Final = TopicPartition("orders", 0)
SEED: Final = 1
"""The seed of every lesson; without random faults it makes no visible difference."""


class Lesson(NamedTuple):
    """A lesson: its title, a summary of one sentence, and the function that records it."""

    title: str
    summary: str
    run: Callable[[Recording, Sequence[Intervention]], Recording]


def election(world: Experiment) -> None:
    """Three brokers start at once; one becomes the controller and elects leaders."""
    for broker_id in (1, 2, 3):
        world.start(broker_id)
    world.run_until(lambda: len(world.zookeeper.peek_children("/brokers")) > 0)
    world.say("Three brokers start at the same time. There is no controller yet.")

    world.run_until(lambda: world.controller_znode is not None)
    winner = world.controller_znode
    world.say(
        f"Broker {winner} is the controller: one transaction created /controller and raised "
        "/controller_epoch to 1. /controller is ephemeral, so it lives as long as the session."
    )

    world.run_until_quiet()
    world.say("The other two lost the race. They watch /controller, and wait for it to be deleted.")

    world.create_topic("orders", replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    world.run_until(lambda: world.has_state_znode("orders", 0))
    world.say(
        "A topic was created. The controller chose leaders: for each partition the first replica "
        "that is alive. ZooKeeper has the decision before any broker knows of it."
    )

    world.run_until_quiet()
    world.say("LeaderAndIsr has reached all three brokers: each leads one partition.")

    world.delete_controller_znode()
    world.run_until(lambda: world.controller_epoch == 2)
    world.say(
        f"An operator deleted /controller. Broker {world.controller_znode} won the new race, and "
        "the controller epoch is 2: whatever says epoch 1 from now on is out of date."
    )
    world.run_until_quiet()
    world.say("The leaders are the same as before. Only the controller is another one.")


def failover(world: Experiment) -> None:
    """The broker that is the controller and leads a partition dies."""
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    world.run_until_quiet()
    world.say("Broker 1 is the controller. It also leads orders-0.")

    world.kill(1)
    world.say(
        "Broker 1 is killed. ZooKeeper cannot know that: it waits until the session's time is "
        "over. Until then /controller names a dead broker, and orders-0 has a dead leader."
    )

    world.run_until(lambda: world.controller_znode is None)
    world.say(
        "The session is over. ZooKeeper deletes its ephemeral znodes, /controller and "
        "/brokers/ids/1, and the watches of the others fire."
    )

    world.run_until(lambda: world.controller is not None)
    world.say(
        f"Broker {world.active_controller} is the controller, in epoch 2. It knows nothing yet: "
        "it reads brokers, topics and states from ZooKeeper."
    )

    world.run_until(lambda: world.state_znode("orders", 0).leader != 1)
    world.say(
        "Broker 1 is dead, so the new controller took it out of every ISR. For a moment orders-0 "
        "has no leader: -1, in leader epoch 1."
    )

    world.run_until(lambda: world.state_znode("orders", 0).leader != -1)
    leader = world.state_znode("orders", 0).leader
    world.say(
        f"It elected broker {leader}: the first replica in the ISR that is alive. The leader "
        "epoch is 2."
    )

    world.run_until_quiet()
    world.say("The two brokers that live know the new leader. The ISR of orders-0 is without 1.")

    world.start(1)
    world.run_until_quiet()
    world.say(
        "Broker 1 is back with another broker epoch. It is a follower everywhere, and not yet "
        "in sync."
    )
    _catch_up(world, 3)
    world.say("The leaders let broker 1 into each ISR again (AlterPartition). It leads nothing.")


def unclean(world: Experiment) -> None:
    """A leader dies when no other replica is in sync; an operator allows an unclean election."""
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[2, 3]])
    world.run_until_quiet()
    world.say("orders-0 has two replicas. Broker 2 leads, and both are in sync.")

    world.fall_behind(ORDERS_0, 3)
    world.run_until(lambda: world.state_znode("orders", 0).in_sync_replicas == (2,))
    world.say(
        "Broker 3 fell behind. The leader asked the controller to take it out of the ISR: from "
        "now on a record counts as committed when broker 2 alone has it."
    )
    world.run_until_quiet()

    world.kill(2)
    world.run_until(lambda: world.state_znode("orders", 0).leader == -1)
    world.say(
        "Broker 2 died, and its session is over. Broker 3 is alive but not in sync, so the "
        "controller elects no leader: -1. The ISR still names broker 2: only it has everything."
    )
    world.run_until_quiet()

    world.allow_unclean_elections("orders")
    world.run_until(lambda: world.state_znode("orders", 0).leader == 3)
    world.say(
        "An operator set unclean.leader.election.enable. Broker 3 leads, alone in the ISR. Its "
        "log is the truth now: any committed record that only broker 2 has is lost."
    )
    world.run_until_quiet()

    world.start(2)
    world.run_until_quiet()
    world.say(
        "Broker 2 is back, as a follower of leader epoch 2. It must cut its log where broker 3's "
        "differs: whatever it alone had is thrown away."
    )


def zombie(world: Experiment) -> None:
    """A controller is stopped just before it writes, and another takes its place."""
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2, 3]])
    deposed = world.pause_controller_at(FencedBatch)
    world.say(
        "Broker 1 is the controller of epoch 1 and has decided to write. It is stopped just "
        "before it asks (SIGSTOP, a long garbage collection, a frozen machine)."
    )

    world.delete_controller_znode()
    world.run_until(lambda: world.active_controller not in (None, 1))
    world.say(
        f"/controller was deleted. Broker {world.active_controller} is the controller of epoch 2. "
        "Broker 1 does not know: it still takes itself for the controller."
    )
    world.run_until(lambda: world.has_state_znode("orders", 0))
    world.say("The new controller did the work: orders-0 has a leader, chosen in epoch 2.")
    world.run_for(1_000)

    deposed.resume()
    world.run_until(lambda: deposed.ended_with is not None)
    world.say(
        "Broker 1 goes on where it was, and asks. ZooKeeper refuses: the write is fenced by "
        "version 1 of /controller_epoch, which is at version 2. Nothing was written."
    )
    world.run_until_quiet()
    world.say("Broker 1 resigned. There is one controller, and the znodes are the new one's.")
    assert deposed.state is ProcessState.RUNNING


def reassignment(world: Experiment) -> None:
    """A partition moves from brokers 1 and 2 to brokers 2 and 3."""
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2]])
    world.run_until_quiet()
    world.say("orders-0 is on brokers 1 and 2. Broker 1 leads.")

    world.ask_for_reassignment({ORDERS_0: [2, 3]})
    world.run_until(lambda: bool(world.topic_znode("orders").partitions[0].adding_replicas))
    world.say(
        "An operator asked for brokers 2 and 3. The controller first makes the partition larger: "
        "replicas 2, 3 and 1, of which 3 is being added and 1 is being removed."
    )
    world.run_until(lambda: ORDERS_0 in world.living[3].broker.hosted)
    world.say("Broker 3 has the new replica and fetches. Nothing else moves until it is in sync.")
    world.run_until_quiet()

    world.catch_up(ORDERS_0)
    world.run_until(lambda: 3 in world.state_znode("orders", 0).in_sync_replicas)
    world.say("Broker 3 has everything, so the leader let it into the ISR: 1, 2 and 3 are in it.")

    world.run_until(lambda: world.state_znode("orders", 0).leader == 2)
    world.say("Broker 1 is to leave, so it may not lead. The controller elected broker 2.")

    world.run_until(lambda: ORDERS_0 not in world.living[1].broker.hosted)
    world.say("StopReplica told broker 1 to delete its replica.")
    world.run_until_quiet()
    world.say("orders-0 is on brokers 2 and 3. Nothing is being added or removed.")


def _catch_up(world: Experiment, partitions: int) -> None:
    for partition in range(partitions):
        world.catch_up(TopicPartition("orders", partition))
    world.run_until_quiet()


def _in_a_cluster(
    script: Callable[[Experiment], None],
) -> Callable[[Recording, Sequence[Intervention]], Recording]:
    return lambda recording, interventions: record(recording, SEED, interventions, script)


LESSONS: Final[Mapping[str, Lesson]] = {
    "election": Lesson(
        "Election",
        "Three brokers want to be the controller. ZooKeeper lets one.",
        _in_a_cluster(election),
    ),
    "failover": Lesson(
        "Failover",
        "The controller's broker is killed, and it leads a partition.",
        _in_a_cluster(failover),
    ),
    "unclean": Lesson(
        "Unclean loss",
        "The only replica in sync dies, and an operator wants a leader.",
        _in_a_cluster(unclean),
    ),
    "zombie": Lesson(
        "Zombie controller",
        "A stopped controller wakes up after it was replaced.",
        _in_a_cluster(zombie),
    ),
    "reassignment": Lesson(
        "Reassignment",
        "A partition moves to another broker while it is in use.",
        _in_a_cluster(reassignment),
    ),
    "split-vote": Lesson(
        "Split vote",
        "Three voters of a KRaft quorum want to lead in the same epoch.",
        split_vote,
    ),
}


def run_lesson(name: str, interventions: Sequence[Intervention] = ()) -> Recording:
    """The recording of a lesson; after an intervention it has no more captions.

    ``name`` is one of :data:`LESSONS`.  Raises InterventionRefused for an intervention that cannot
    be done.
    """
    lesson = LESSONS[name]
    ordered = in_order(interventions)
    source = {
        "kind": "lesson",
        "lesson": name,
        "summary": lesson.summary,
        "interventions": [each.as_json() for each in ordered],
        "takes_interventions": lesson.run is not split_vote,
    }
    return lesson.run(Recording(lesson.title, source), ordered)
