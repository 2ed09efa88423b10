"""Random faults: what an unlucky operator sees in a year, in some minutes of virtual time.

Every choice comes from the world's own random sequence, so the seed alone determines a run.  The
faults end with a repair: paused processes resume, brokers start, connections return.  The cluster
then comes to rest and must satisfy the invariants for a cluster at rest.  There are two exceptions,
which ZooKeeper-mode Kafka does not promise either:

* A StopReplica response of a broker's earlier incarnation may carry an error and be processed after
  the restart.  The topic is then ineligible for deletion until the next start of a broker or the
  next failover.  So the invariants require the end of a deletion only after one more failover.
* UpdateMetadata is a partial update.  The controller may be gone before its UpdateMetadata for a
  deletion reaches a broker.  That broker keeps the topic in its cache as long as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafka_common.model import ElectionType, TopicPartition
from zkcontroller.core.events import (
    ApiPartitionReassignment,
    ElectionTrigger,
    Event,
    ReplicaLeaderElection,
)
from zkcontroller.core.failover import ELECTION_RETRY_MS
from zkcontroller.core.refused_partitions import LONGEST_RETRY_MS
from zkcontroller.zookeeper.requests import SetData, ZkCode
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)
from zkcontroller_simulation.timeline import Bounds
from zkcontroller_simulation.weather import CALM, DRIZZLE, REFUSING, STORMY
from zkcontroller_simulation.world import World

BROKER_IDS: Final = (1, 2, 3, 4, 5)
MOST_TOPICS: Final = 8
MOST_PARTITIONS: Final = 4
LEAVING_MS: Final = 5_000
"""The longest time between a broker's controlled shutdown and its end."""
ROUNDS_TO_CATCH_UP: Final = 3
BALANCE_INTERVAL_S: Final = 20
DAMAGED: Final = b"not json"
SETTLE_MS: Final = 2_000
"""In addition to the session timeout: how long a cluster may be without a controller."""

Deed = Callable[[], None]


class Chaos:
    """Does random things to one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._random = world.timeline.random
        self._topics = 0
        self.unclean: set[str] = set()
        """Topics for which an unclean election was ever allowed."""
        self.deletions = 0
        """How often ``/controller`` was really deleted."""

    def begin(self) -> None:
        """A healthy cluster with two topics, and then the storm."""
        self.world.settings["leader_imbalance_check_interval_seconds"] = BALANCE_INTERVAL_S
        self.world.start_brokers(*BROKER_IDS)
        for _ in range(2):
            self._create_topic()
        self.world.settle()
        self.unclean = self.world.invariants.unclean = set()
        self.world.invariants.is_deletion_sure = False
        self.world.invariants.is_isr_sent = False
        self.world.invariants.is_forgetting_sure = False
        self.world.weather = STORMY
        self.world.timeline.is_shuffling = True

    def storm(self, actions: int, pause_ms: Bounds = (0, 4_000)) -> None:
        """Performs ``actions`` random actions, with a random pause after each."""
        table: list[tuple[int, Deed]] = [
            (4, self._delete_controller_znode),
            (3, self._kill),
            (4, self._start),
            (2, self._stop),
            (3, self._pause),
            (4, self._resume),
            (2, self._expire),
            (2, self._break_connection),
            (1, self._disconnect),
            (2, self._connect),
            (2, self._shut_down),
            (2, self._create_topic),
            (1, self._add_partitions),
            (1, self._delete_topic),
            (6, self._catch_up),
            (2, self._fall_behind),
            (2, self._reassign),
            (3, self._reassign_by_api),
            (1, self._cancel),
            (1, self._prefer),
            (2, self._elect),
            (1, self._allow_unclean_elections),
            (1, self._fail_log_dir),
        ]
        for _ in range(actions):
            self._do_one_of(table)
            self.world.run_for(self.world.timeline.within(pause_ms))

    def drizzle(self, actions: int) -> None:
        """Breaks connections to ZooKeeper all the time; no broker dies or restarts.

        So the controller itself must repair what a lost reply leaves behind.
        """
        self.world.weather = DRIZZLE
        choices: tuple[Deed, ...] = (
            self._break_connection,
            self._create_topic,
            self._catch_up,
            self._catch_up,
            self._fall_behind,
            self._reassign_by_api,
            self._elect,
            self._add_partitions,
        )
        for _ in range(actions):
            self._random.choice(choices)()
            self.world.run_for(self.world.timeline.within((0, 1_000)))
        self.world.weather = CALM
        self.world.settle()
        self._finish_reassignments()

    def live_calmly(self, actions: int) -> None:
        """Orders, moves, deaths and returns in fair weather; disks fail, a znode is unreadable.

        Whenever the cluster is quiet, each partition that can have a leader has one.  No failover
        comes at the end of it: that would mend what a controller has left undone.
        """
        self.world.weather = CALM
        table: list[tuple[int, Deed]] = [
            (6, self._reassign_by_api),
            (2, self._cancel),
            (1, self._reassign),
            (8, self._catch_up),
            (2, self._fall_behind),
            (2, self._prefer),
            (2, self._elect),
            (1, self._create_topic),
            (1, self._add_partitions),
            (1, self._delete_topic),
            (1, self._kill),
            (1, self._stop),
            (2, self._start),
            (1, self._shut_down),
            (1, self._expire),
            (1, self._break_connection),
            (1, lambda: self.world.run_for(1_000 * BALANCE_INTERVAL_S)),
            (1, self._fail_log_dir),
            (1, self._restart_with_mended_disks),
            (2, self._spoil),
        ]
        for _ in range(actions):
            self._do_one_of(table)
            if self._random.random() < 0.5:
                self.world.run_for(self.world.timeline.within((0, 3_000)))
            else:
                self.world.run_until_quiet()
                self.world.invariants.check_leaders()

    def refuse(self, actions: int) -> None:
        """ZooKeeper refuses parts of what controllers ask; brokers overlook partitions.

        When it is over one controller acts and knows what ZooKeeper holds: it was not misled, or it
        resigned and the next one has learnt everything anew.  Elections that were refused it has
        tried again by itself; what else was refused for one partition alone is made good by the
        failover of :meth:`end`.
        """
        self.world.weather = REFUSING
        self.world.invariants.is_refused = True
        table: list[tuple[int, Deed]] = [
            (2, self._delete_controller_znode),
            (2, self._kill),
            (5, self._start),
            (2, self._expire),
            (2, self._break_connection),
            (3, self._create_topic),
            (2, self._add_partitions),
            (2, self._delete_topic),
            (4, self._catch_up),
            (2, self._fall_behind),
            (2, self._reassign),
            (2, self._reassign_by_api),
            (1, self._cancel),
            (2, self._prefer),
            (2, self._elect),
        ]
        for _ in range(actions):
            self._do_one_of(table)
            self.world.run_for(self.world.timeline.within((0, 3_000)))
        self.world.weather = CALM
        if not self._candidates():
            self._start()  # else no broker could become the controller
        # A failed election of a controller is tried once more, and so are those of partitions.
        self.world.run_for(max(ELECTION_RETRY_MS, LONGEST_RETRY_MS) + SETTLE_MS)
        self.world.run_until_quiet()
        self.world.invariants.check_memory()
        self.world.invariants.check_leaders()

    def delete_controllers(self, count: int) -> None:
        """That many deletions of ``/controller``, with brokers killed and sessions expired around.

        At least one broker that has started is left alive; so after a deletion there is a
        controller within the session timeout and two seconds.
        """
        deeds: tuple[Deed, ...] = (
            self._kill_a_candidate,
            self._start,
            self._start,
            self._expire_a_candidate,
            lambda: None,
        )
        while self.deletions < count:
            for deed in self._random.choices(deeds, k=2):
                deed()
                self.world.run_for(self.world.timeline.within((0, 500)))
            self._delete_controller_znode()
            if self._random.random() < 0.7:
                self.await_controller()

    def await_controller(self) -> None:
        """A controller acts within the session timeout and two seconds."""
        self.world.run_until(
            lambda: self.world.active_controller is not None,
            within_ms=self.world.session_timeout_ms + SETTLE_MS,
        )

    def mend(self) -> None:
        """Fair weather, and everything that is broken made whole."""
        world = self.world
        world.weather = CALM
        for process in list(world.living.values()):
            world.connect(process.broker_id)
            if not process.is_running:
                world.resume(process.broker_id)
        world.run_for(LEAVING_MS + 1_000)  # those who said they would leave are gone now
        for process in list(world.living.values()):
            if process.broker.failed:
                world.stop(process.broker_id)  # its directories are mended while it is down
        for broker_id in BROKER_IDS:
            if broker_id not in world.living:
                world.start(broker_id)

    def end(self) -> None:
        """Mends everything, checks the cluster at rest, and once more after a last failover."""
        self.mend()
        self.world.settle()
        self.world.delete_controller_znode()
        self.world.invariants.is_deletion_sure = True
        self.world.settle()
        self._finish_reassignments()

    def _finish_reassignments(self) -> None:
        """With every broker alive, replicas catch up and what was moved is where it should be."""
        for _ in range(ROUNDS_TO_CATCH_UP):
            for topic, znode in self.world.topics().items():
                for partition in znode.partitions:
                    self.world.catch_up(TopicPartition(topic, partition))
            self.world.settle()
        assert not self._is_there(ReassignPartitionsZnode.PATH), "an order stays in its znode"
        assert not self._is_there(PreferredReplicaElectionZnode.PATH), "an order stays"
        for topic, znode in self.world.topics().items():
            if self._is_doomed(topic):
                continue
            for partition, assignment in znode.partitions.items():
                assert not assignment.is_being_reassigned, (topic, partition, assignment)
                state = self.world.state_znode(topic, partition)
                missing = set(assignment.replicas) - set(state.in_sync_replicas)
                assert not missing, (topic, partition, assignment, state)
                if not self.world.invariants.is_refused:
                    assert set(state.in_sync_replicas) == set(assignment.replicas), (topic, state)

    # ------------------------------------------------------------------ actions

    def _do_one_of(self, table: Sequence[tuple[int, Deed]]) -> None:
        """Performs one action of a table of weights and actions."""
        weights, choices = zip(*table, strict=True)
        (chosen,) = self._random.choices(choices, weights)
        chosen()

    def _any(self, broker_ids: list[int]) -> int | None:
        return self._random.choice(broker_ids) if broker_ids else None

    def _running(self) -> list[int]:
        return [b for b, process in self.world.living.items() if process.is_running]

    def _candidates(self) -> list[int]:
        return [b for b in self._running() if self.world.living[b].is_listening]

    def _kill_a_candidate(self) -> None:
        candidates = self._candidates()
        if len(candidates) > 1:
            self.world.kill(self._random.choice(candidates))

    def _expire_a_candidate(self) -> None:
        victim = self._any(self._candidates())
        if victim is not None:
            self.world.expire_session(broker=victim)

    def _delete_controller_znode(self) -> None:
        if self.world.controller_znode is not None:
            self.world.delete_controller_znode()
            self.deletions += 1

    def _kill(self) -> None:
        victim = self._any(list(self.world.living))
        if victim is not None and len(self.world.living) > 1:
            self.world.kill(victim)

    def _start(self) -> None:
        newcomer = self._any([b for b in BROKER_IDS if b not in self.world.living])
        if newcomer is not None:
            self.world.start(newcomer)

    def _stop(self) -> None:
        victim = self._any(self._running())
        if victim is not None and len(self.world.living) > 2:
            self.world.stop(victim)

    def _pause(self) -> None:
        victim = self._any(self._running())
        if victim is not None:
            self.world.pause(victim)

    def _resume(self) -> None:
        sleeper = self._any([b for b, p in self.world.living.items() if not p.is_running])
        if sleeper is not None:
            self.world.resume(sleeper)

    def _expire(self) -> None:
        victim = self._any(list(self.world.living))
        if victim is not None:
            self.world.expire_session(broker=victim)

    def _break_connection(self) -> None:
        victim = self._any(self._running())
        if victim is not None:
            self.world.break_connection(victim)

    def _disconnect(self) -> None:
        victim = self._any(self._running())
        if victim is not None:
            self.world.disconnect(victim)

    def _connect(self) -> None:
        cut_off = [b for b, p in self.world.living.items() if p.link.is_cut_off]
        lucky = self._any(cut_off)
        if lucky is not None:
            self.world.connect(lucky)

    def _shut_down(self) -> None:
        """A clean shutdown: the leaderships are handed over if there is time, then it stops."""
        controller = self.world.controller
        leaver = self._any(self._running())
        if controller is None or leaver is None or len(self.world.living) < 3:
            return
        self.world.shut_down(leaver)
        process = self.world.living[leaver]

        def stop() -> None:
            if self.world.living.get(leaver) is process:
                self.world.stop(leaver)

        delay_ms = self.world.timeline.within((0, LEAVING_MS))
        self.world.timeline.after(delay_ms, lambda: process.run(stop))

    def _assignment(self) -> list[int]:
        return self._random.sample(BROKER_IDS, self._random.randint(1, 3))

    def _create_topic(self) -> None:
        if len(self.world.topics()) < MOST_TOPICS:
            self._topics += 1
            partitions = self._random.randint(1, MOST_PARTITIONS)
            name = f"topic{self._topics}"
            self.world.create_topic(name, [self._assignment() for _ in range(partitions)])

    def _any_topic(self) -> str | None:
        topics = list(self.world.topics())
        return self._random.choice(topics) if topics else None

    def _add_partitions(self) -> None:
        topic = self._any_topic()
        if topic is not None:
            self.world.add_partitions(topic, [self._assignment()])

    def _catch_up(self) -> None:
        topic = self._any_topic()
        if topic is not None:
            for partition in self.world.topic_znode(topic).partitions:
                self.world.catch_up(TopicPartition(topic, partition))

    def _any_partition(self) -> TopicPartition | None:
        topic = self._any_topic()
        if topic is None:
            return None
        partitions = list(self.world.topic_znode(topic).partitions)
        # A topic under deletion may have none left.
        return TopicPartition(topic, self._random.choice(partitions)) if partitions else None

    def _is_there(self, path: str) -> bool:
        return self.world.zookeeper.peek(path) is not None

    def _reassign(self) -> None:
        moving = self._any_partition()
        if moving is not None and not self._is_there(ReassignPartitionsZnode.PATH):
            self.world.ask_for_reassignment({moving: self._assignment()})

    def _administer(self, make: Callable[[int], Event]) -> None:
        """Sends an administrator's request to the broker that ``/controller`` names.

        Without that znode a random running broker gets it.
        """
        broker_id = self.world.controller_znode or self._any(self._running())
        controller = self.world.living.get(broker_id) if broker_id is not None else None
        if controller is not None:
            self.world.request(controller, make)

    def _reassign_by_api(self) -> None:
        moving = self._any_partition()
        if moving is not None:
            target = tuple(self._assignment())
            self.world.timeline.tell(f"an administrator moves {moving} to {target}")
            self._administer(lambda i: ApiPartitionReassignment(((moving, target),), i))

    def _cancel(self) -> None:
        moving = self._any_partition()
        if moving is not None:
            self.world.timeline.tell(f"an administrator cancels the move of {moving}")
            self._administer(lambda i: ApiPartitionReassignment(((moving, None),), i))

    def _elect(self) -> None:
        led = self._any_partition()
        if led is not None:
            election_type = self._random.choice(list(ElectionType))
            if election_type is ElectionType.UNCLEAN:
                self.unclean.add(led.topic)
            self.world.timeline.tell(f"an administrator has {led} elected: {election_type.name}")
            trigger = ElectionTrigger.ADMIN_CLIENT
            self._administer(lambda i: ReplicaLeaderElection((led,), election_type, trigger, i))

    def _allow_unclean_elections(self) -> None:
        topic = self._any_topic()
        if topic is not None and self._random.random() < 0.3:
            self.unclean.add(topic)
            self.world.allow_unclean_elections(topic)

    def _fall_behind(self) -> None:
        tp = self._any_partition()
        if tp is not None:
            replicas = self.world.topic_znode(tp.topic).partitions[tp.partition].replicas
            self.world.fall_behind(tp, self._random.choice(replicas))

    def _fail_log_dir(self) -> None:
        unlucky = self._any(self._candidates())
        if unlucky is not None:
            hosted = list(self.world.living[unlucky].broker.hosted)
            lost = self._random.sample(hosted, min(len(hosted), self._random.randint(1, 4)))
            self.world.fail_log_dir(unlucky, lost)

    def _restart_with_mended_disks(self) -> None:
        unlucky = self._any([b for b in self._running() if self.world.living[b].broker.failed])
        if unlucky is not None:
            self.world.stop(unlucky)
            self.world.start(unlucky)

    def _spoil(self) -> None:
        """For a while one znode is damaged, or ZooKeeper refuses to show it; then it is mended."""
        world, tp, broker_id = self.world, self._any_partition(), self._any(self._candidates())
        world.run_until_quiet()
        if tp is None or broker_id is None or self._is_doomed(tp.topic):
            return
        topic_path = TopicZnode.path(tp.topic)
        paths = [topic_path, PartitionStateZnode.path(*tp), BrokerIdZnode.path(broker_id)]
        path = self._random.choice(paths)
        good = world.zookeeper.peek(path)
        if good is None:
            return
        is_damaged = self._random.random() < 0.5
        world.timeline.tell(f"{path} is {'damaged' if is_damaged else 'refused'}")
        if is_damaged:
            world.write(SetData(path, DAMAGED))
        else:
            world.refused[path] = ZkCode.NO_AUTH
        # Who knows the partitions of a topic may write their states, which the invariants compare
        # with the topic's znode.
        if path == topic_path or self._random.random() < 0.5:
            self._delete_controller_znode()
            world.run_for(SETTLE_MS)
        self._do_one_of([(1, each) for each in (self._kill, self._stop, self._start, self._expire)])
        world.run_for(world.timeline.within((0, 60_000)))
        world.refused.clear()
        found = world.zookeeper.peek(path)
        if found is not None and found.data == DAMAGED:
            world.write(SetData(path, good.data))
        world.timeline.tell(f"{path} is mended")
        world.run_for(LONGEST_RETRY_MS + SETTLE_MS)

    def _prefer(self) -> None:
        led = self._any_partition()
        if led is not None and not self._is_there(PreferredReplicaElectionZnode.PATH):
            self.world.ask_for_preferred_leaders(led)

    def _delete_topic(self) -> None:
        topic = self._any_topic()
        if topic is not None and not self._is_doomed(topic):
            self.world.delete_topic(topic)

    def _is_doomed(self, topic: str) -> bool:
        found = self.world.operator.exists(f"/admin/delete_topics/{topic}")
        return not isinstance(found, ZkCode)
