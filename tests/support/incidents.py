"""Incidents by seed on a real cluster: what was done, when, and what ZooKeeper said after it.

The acts follow one another in random order.  Each begins when the cluster has come to rest after
the one before, or a broker goes while an order is being carried out.  Dead brokers stay dead until
a later act starts them: deletions and moves wait for them meanwhile, partitions stay without a
leader.  :mod:`.incident_judge` compares this with
what ``zkctl history`` finds in the logs alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from typing_extensions import override

from kafka_common.model import TopicPartition
from tests.support.cli_world import zkctl_here
from zkcontroller.zookeeper.znodes import PartitionStateZnode, ReassignPartitionsZnode, TopicZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.waiting import until

CONFIGS: Final = {
    # The shortest session that a ZooKeeper with ticks of two seconds grants.
    "zookeeper.session.timeout.ms": "4000",
    # The controller takes out those that are gone; a follower that is slow for a moment stays.
    "replica.lag.time.max.ms": "60000",
    "unclean.leader.election.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "200",
}
BALANCED: Final = CONFIGS | {
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "1",
    "leader.imbalance.per.broker.percentage": "0",
}
"""The controller gives leaderships back by itself, as Kafka's does by default."""
PAUSE_S: Final = (7.0, 8.0)
"""A pause is proven where ZooKeeper was silent for a second longer than a session lasts."""
DISKS: Final[Mapping[int, int]] = dict.fromkeys((1, 2, 3), 32) if os.geteuid() == 0 else {}
"""Of each broker, in MB.  Only root can mount one: without it no broker runs out of room."""
SHORT_CUT_S: Final = 0.5
REST_S: Final = 1.0
"""So long must nothing change.  What is ordered within a second may be one order, too."""
SETTLE_S: Final = 60.0
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
NEAR_MS: Final = 500
"""A busy machine writes a line so much later than what it says has happened."""
Name = tuple[str, int]


@dataclass(frozen=True)
class PartitionView:
    """What ZooKeeper says of a partition."""

    replicas: tuple[int, ...]
    is_moving: bool
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int


@dataclass(frozen=True)
class ClusterView:
    """What ZooKeeper says of the cluster at a moment of rest."""

    at_ms: int
    controller: int
    controller_epoch: int
    live: tuple[int, ...]
    partitions: Mapping[Name, PartitionView]
    min_isr: Mapping[str, int]
    deleting: frozenset[str]
    """The topics whose deletion waits for a dead broker."""
    unclean: frozenset[str]
    """The topics that take a leader out of sync."""

    @property
    def dark(self) -> set[Name]:
        """The partitions without a leader."""
        return {name for name, view in self.partitions.items() if view.leader < 0}

    def led_by(self, broker: int) -> set[Name]:
        return {name for name, view in self.partitions.items() if view.leader == broker}


@dataclass
class IncidentAct:
    """One act, and what was so before and after it."""

    kind: str
    before: ClusterView
    begun_ms: int
    broker: int | None = None
    topic: str | None = None
    partitions: tuple[Name, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    done_ms: int = 0
    """When the cluster alone was left to act; for a pause or a cut, when it was over."""
    after: ClusterView | None = None

    @property
    def is_one_of_two(self) -> bool:
        """Done with another one at once: ``after`` is what followed from both."""
        return "is_last" in self.details

    @property
    def is_first(self) -> bool:
        """Whether the cluster was at rest when it began."""
        return not self.details.get("is_last", False)

    @property
    def is_rest(self) -> bool:
        """Whether the cluster came to rest before the next one."""
        return bool(self.details.get("is_last", True))

    @property
    def is_amid_order(self) -> bool:
        """Whether an order was being carried out when it began."""
        return bool(self.details.get("is_amid_order", False))

    @property
    def then(self) -> ClusterView:
        assert self.after is not None
        return self.after

    def is_within(self, at_ms: int | None, early_ms: int = 0) -> bool:
        """Whether it was between the beginning and the rest that followed."""
        return at_ms is not None and -early_ms <= at_ms - self.begun_ms <= self.span_ms + NEAR_MS

    @property
    def span_ms(self) -> int:
        return self.then.at_ms - self.begun_ms

    @override
    def __str__(self) -> str:
        where = [f"broker {self.broker}"] if self.broker is not None else []
        where += [self.topic] if self.topic is not None else []
        where += [f"{topic}-{number}" for topic, number in self.partitions]
        return f"{self.kind} {' '.join(where)} [{self.begun_ms}..{self.then.at_ms}]"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def properties_of(seed: int) -> dict[str, str]:
    """What the cluster of an incident needs; of each third one the controller balances leaders."""
    return BALANCED if seed % 3 == 0 else CONFIGS


class Incident:
    """Random acts on a cluster of three brokers; ``timeline`` is what was done."""

    def __init__(
        self,
        cluster: KafkaCluster,
        seed: int,
        *,
        has_disks: bool = False,
        without: Container[str] = (),
    ) -> None:
        """The cluster has :func:`properties_of` the seed; ``without``: what is not to be done.

        ``has_disks``: each broker has a disk of its own, which may be full.
        """
        self._has_disks = has_disks
        self._is_balanced = properties_of(seed) is BALANCED
        self._cluster = cluster
        self._view = ClusterView(now_ms(), -1, 0, (), {}, {}, frozenset(), frozenset())
        self._random = Random(seed)
        self._without = without
        self.timeline: list[IncidentAct] = []
        self._alive = set(cluster.broker_ids)
        self._topics: list[str] = []
        self._deleted: set[str] = set()
        self._min_isr: dict[str, int] = {}
        self._unclean: set[str] = set()
        self._made = 0
        self._is_hurried = False

    def run(self, acts: int) -> None:
        """Does so many, between topics that are created first and last."""
        for _ in range(2):
            self.create_topic()
        kinds: list[Callable[[], bool]] = [
            self.kill, self.kill, self.kill_two, self.stop, self.start, self.start, self.bounce,
            self.pause, self.expire, self.cut, self.cut_long, self.elect_controller,
            self.create_topic, self.delete_topic, self.elect_preferred, self.move, self.move,
            self.cancel_move, self.configure, self.grow, self.strand, self.elect_unclean,
            self.elect_unclean, self.fill_disk, self.fill_disk, self.go_amid_order,
            self.go_amid_order, self.go_amid_order,
        ]  # fmt: skip
        while acts > 0:
            kind = self._random.choice(kinds)
            acts -= kind.__name__ not in self._without and kind()
        # The answer to it comes when the controller has written all lines about what was before.
        self.create_topic()

    # Brokers

    def kill(self, broker: int | None = None) -> bool:
        broker = self._victim() if broker is None else broker
        if broker is None:
            return False
        act = self._begin("kill", broker)
        self._cluster.kill(broker)
        self._alive.discard(broker)
        act.done_ms = now_ms()
        if self._random.random() < 0.6:
            self._cluster.expire_session(broker)
        return self._end(act)

    def kill_two(self) -> bool:
        """One after the other, before the cluster knows of the first."""
        if len(self._alive) < 3:
            return False
        acts: list[IncidentAct] = []
        for broker in self._random.sample(sorted(self._alive), 2):
            acts.append(self._begin("kill", broker, is_last=bool(acts)))
            self._cluster.kill(broker)
            self._alive.discard(broker)
            acts[-1].done_ms = now_ms()
        self._end(acts[1])
        acts[0].after = acts[1].after
        return True

    def go_amid_order(self) -> bool:
        """A broker goes while the controller carries out an order, or takes office."""
        order = self._random.choice((
            self.create_topic, self.delete_topic, self.move, self.grow, self.elect_preferred,
            self.elect_controller,
        ))  # fmt: skip
        go = self._random.choice((self._kill_another, self.stop, self.expire))
        self._is_hurried = True
        is_ordered = len(self._alive) > 1 and order()
        self._is_hurried = False
        if not is_ordered:
            return False
        go()
        first, second = self.timeline[-2:]
        second.details |= {"is_last": True, "is_amid_order": True}
        first.after = second.after
        return True

    def _kill_another(self) -> bool:
        """Not the controller: the last lines of a process that is killed may be missing."""
        others = sorted(self._alive - {self._view.controller})
        return self.kill(self._random.choice(others))

    def fill_disk(self) -> bool:
        """Not a byte is left on a broker's only disk: it ends when it writes the next one."""
        broker = self._victim()
        if broker is None or not self._has_disks:
            return False
        act = self._begin("fill disk", broker)
        self._cluster.disk_full(broker)
        self._cluster.wait_stopped(broker)
        self._alive.discard(broker)
        act.done_ms = now_ms()
        self._cluster.mend_disk(broker)
        return self._end(act)

    def stop(self) -> bool:
        broker = self._victim()
        if broker is None:
            return False
        act = self._begin("stop", broker)
        self._cluster.stop(broker)
        self._alive.discard(broker)
        return self._end(act)

    def start(self, broker: int | None = None) -> bool:
        dead = [each for each in self._cluster.broker_ids if each not in self._alive]
        if not dead:
            return False
        broker = self._random.choice(dead) if broker is None else broker
        act = self._begin("start", broker)
        self._alive.add(broker)
        self._cluster.start(broker)
        return self._end(act)

    def bounce(self) -> bool:
        """Dies and is started at once, while its session lives."""
        broker = self._victim()
        if broker is None:
            return False
        act = self._begin("bounce", broker)
        self._cluster.kill(broker)
        act.done_ms = now_ms()
        self._cluster.start(broker)
        return self._end(act)

    def pause(self) -> bool:
        broker = self._victim()
        if broker is None:
            return False
        act = self._begin("pause", broker)
        epoch = self._cluster.broker_epoch(broker)
        length_s = self._random.uniform(*PAUSE_S)
        self._cluster.pause(broker)
        begun = time.monotonic()
        self._cluster.wait_unregistered(broker)
        time.sleep(max(begun + length_s - time.monotonic(), 0.0))
        act.done_ms = now_ms()
        self._cluster.resume(broker)
        self._cluster.wait_registered(broker, after_epoch=epoch)
        return self._end(act)

    def expire(self) -> bool:
        broker = self._victim()
        if broker is None:
            return False
        act = self._begin("expire", broker)
        epoch = self._cluster.broker_epoch(broker)
        self._cluster.expire_session(broker)
        self._cluster.wait_registered(broker, after_epoch=epoch)
        return self._end(act)

    def cut(self) -> bool:
        """So briefly that the session lives on."""
        return self._cut(self._random.choice(sorted(self._alive)), is_long=False)

    def cut_long(self) -> bool:
        broker = self._victim()
        return broker is not None and self._cut(broker, is_long=True)

    def _cut(self, broker: int, *, is_long: bool) -> bool:
        act = self._begin("cut for long" if is_long else "cut", broker)
        epoch = self._cluster.broker_epoch(broker)
        self._cluster.cut(broker, "zookeeper")
        if is_long:
            self._cluster.wait_unregistered(broker)
        else:
            time.sleep(SHORT_CUT_S)
        act.done_ms = now_ms()
        self._cluster.heal()
        # A connection that is broken is made again after a second or two.
        self._wait_connected(broker)
        if is_long:
            self._cluster.wait_registered(broker, after_epoch=epoch)
        return self._end(act)

    def _wait_connected(self, broker: int) -> None:
        """Waits until the broker says that its session stands."""
        marks = ("Session establishment complete", "Closing socket connection")

        def look() -> bool | None:
            lines = self._log(broker, "server.log").splitlines()
            said = [mark for line in lines for mark in marks if mark in line]
            return True if said[-1] == marks[0] else None

        until(look, lambda: f"broker {broker} is connected to ZooKeeper", SETTLE_S)

    def _log(self, broker: int, name: str) -> str:
        """All of a log, of which each hour has a file of its own."""
        files = self._cluster.logs_directory(broker).glob(f"{name}*")
        in_order = sorted(files, key=lambda path: (path.name == name, path.name))
        return "".join(path.read_text(errors="replace") for path in in_order)

    def elect_controller(self) -> bool:
        act = self._begin("delete /controller")
        self._cluster.elect_controller()
        return self._end(act)

    # Topics

    def create_topic(self) -> bool:
        """A new one, or one with the name of one that was deleted."""
        gone = [
            topic
            for topic in sorted(self._deleted)
            if self._cluster.znode(TopicZnode.path(topic)).get() is None
        ]
        self._made += 1
        topic = f"topic-{self._made}"
        if gone and self._random.random() < 0.6:
            topic = self._random.choice(gone)
            self._deleted.discard(topic)
        factor = self._random.choice((1, 2, 2, 3, 3))
        replicas = [self._some(factor) for _ in range(self._random.choice((1, 2, 3)))]
        self._min_isr.pop(topic, None)
        self._unclean.discard(topic)
        configs = {}
        if self._random.random() < 0.5:
            configs[MIN_ISR] = "2"
            self._min_isr[topic] = 2
        if self._random.random() < 0.3:
            configs[UNCLEAN] = "true"
            self._unclean.add(topic)
        act = self._begin("create", topic=topic)
        self._topics.append(topic)
        self._cluster.create_topic(topic, replicas=replicas, configs=configs)
        return self._end(act)

    def delete_topic(self) -> bool:
        idle = [topic for topic in self._idle() if len(self._topics) > 1]
        if not idle:
            return False
        topic = self._random.choice(idle)
        act = self._begin("delete", topic=topic)
        self._deleted.add(topic)
        self._topics.remove(topic)
        self._cluster.znode(f"/admin/delete_topics/{topic}").set(b"")
        return self._end(act)

    def grow(self) -> bool:
        # The request waits until every partition of the topic has a leader.
        dark = {topic for topic, _ in self._view.dark}
        topics = [topic for topic in self._idle() if topic not in dark]
        if not topics:
            return False
        topic = self._random.choice(topics)
        mine = [view for (name, _), view in self._view.partitions.items() if name == topic]
        count = self._random.choice((1, 2))
        factor = len(mine[0].replicas)
        if factor > len(self._alive):
            return False
        new = [self._some(factor) for _ in range(count)]
        act = self._begin("grow", topic=topic, count=count)
        self._zkctl(
            *("topic", "alter", topic, "--yes", "--partitions", str(len(mine) + count)),
            *("--replica-assignment", ",".join(":".join(map(str, each)) for each in new)),
        )
        return self._end(act)

    def configure(self) -> bool:
        topic = self._random.choice(self._topics)
        retention = str(self._random.randrange(10**6, 10**7))
        key, value = self._random.choice((
            ("retention.ms", retention), (MIN_ISR, "2"), (MIN_ISR, "1"), (MIN_ISR, None),
            (UNCLEAN, "true"),
        ))  # fmt: skip
        known = {MIN_ISR: self._min_isr.get(topic), UNCLEAN: topic in self._unclean or None}
        if key in known and str(known[key]).lower() == str(value).lower():
            return False
        act = self._begin("configure", topic=topic)
        change = ("--unset", key) if value is None else ("--config", f"{key}={value}")
        self._zkctl("config", "set", "topic", topic, "--yes", *change)
        if key == UNCLEAN:
            self._unclean.add(topic)
        if key == MIN_ISR:
            self._min_isr.pop(topic, None)
            self._min_isr |= {} if value is None else {topic: int(value)}
        return self._end(act)

    # Leaders and replicas

    def elect_preferred(self) -> bool:
        wanted = [
            name
            for name, view in self._view.partitions.items()
            if view.leader >= 0 and view.leader != view.replicas[0] and view.replicas[0] in view.isr
        ]
        if not wanted:
            return False
        act = self._begin("elect preferred", partitions=wanted)
        self._zkctl("partition", "elect", "--yes", *(f"{t}-{p}" for t, p in wanted))
        return self._end(act)

    def elect_unclean(self) -> bool:
        wanted = [
            name
            for name, view in self._view.partitions.items()
            if view.leader < 0 and set(view.replicas) & self._alive
        ]
        if not wanted:
            return False
        act = self._begin("elect unclean", partitions=wanted)
        self._zkctl("partition", "elect", "--yes", "--unclean", *(f"{t}-{p}" for t, p in wanted))
        return self._end(act)

    def strand(self) -> bool:
        """Leaves a partition without a leader beside a replica that is not in sync."""
        ready = [
            view
            for view in self._view.partitions.values()
            if len(view.replicas) == 2 and len(view.isr) == 2 and self._alive >= {1, 2, 3}
        ]
        if not ready:
            return False
        view = self._random.choice(ready)
        (other,) = set(view.replicas) - {view.leader}
        return self.kill(other) and self.kill(view.leader) and self.start(other)

    def move(self) -> bool:
        """To brokers of which one may be dead: then the move goes on until that one is back."""
        is_moving = self._cluster.znode(ReassignPartitionsZnode.PATH).get() is not None
        idle = self._idle()
        names = [
            name
            for name, view in self._view.partitions.items()
            if view.leader >= 0 and name[0] in idle
        ]
        if is_moving or not names:
            return False
        topic, _ = self._random.choice(names)
        mine = [name for name in names if name[0] == topic]
        replicas = {
            name: tuple(
                self._random.sample(self._cluster.broker_ids, self._random.choice((1, 2, 2, 3)))
            )
            for name in self._random.sample(mine, self._random.randint(1, min(2, len(mine))))
        }
        if not all(set(each) & self._alive for each in replicas.values()):
            return False
        act = self._begin("move", partitions=replicas, replicas=replicas)
        order = {TopicPartition(*name): each for name, each in replicas.items()}
        self._cluster.znode(ReassignPartitionsZnode.PATH).set(
            ReassignPartitionsZnode(order).encode()
        )
        return self._end(act)

    def cancel_move(self) -> bool:
        moving = [name for name, view in self._view.partitions.items() if view.is_moving]
        if not moving:
            return False
        act = self._begin("cancel move", partitions=moving)
        self._zkctl("reassign", "cancel", "--yes", *(f"{t}-{p}" for t, p in moving))
        return self._end(act)

    # Inside

    def _victim(self) -> int | None:
        """A live broker that may go: another one stays."""
        return self._random.choice(sorted(self._alive)) if len(self._alive) > 1 else None

    def _some(self, count: int) -> list[int]:
        return self._random.sample(sorted(self._alive), min(count, len(self._alive)))

    def _idle(self) -> list[str]:
        moving = {name[0] for name, view in self._view.partitions.items() if view.is_moving}
        return [topic for topic in self._topics if topic not in moving]

    def _zkctl(self, *words: str) -> None:
        ids = self._cluster.broker_ids
        addresses = zip(ids, self._cluster.bootstrap_servers.split(","), strict=True)
        servers = ",".join(address for each, address in addresses if each in self._alive)
        result = zkctl_here("-b", servers, *words)
        assert result.exit_code == 0, (words, result)

    def _begin(
        self,
        kind: str,
        broker: int | None = None,
        topic: str | None = None,
        partitions: Iterable[Name] = (),
        **details: Any,
    ) -> IncidentAct:
        act = IncidentAct(kind, self._view, now_ms(), broker, topic, tuple(partitions), details)
        self.timeline.append(act)
        return act

    def _end(self, act: IncidentAct) -> bool:
        act.done_ms = act.done_ms or now_ms()
        if self._is_hurried:
            act.details["is_last"] = False
            controller = self._cluster.wait_controller()
            epoch = self._cluster.controller_epoch
            self._view = replace(self._view, controller=controller, controller_epoch=epoch)
            return True
        self._view = act.after = self._rest(act)
        return True

    def _rest(self, act: IncidentAct) -> ClusterView:
        """The cluster, once it has come to rest."""
        seen: list[ClusterView | None] = [None]

        def look() -> ClusterView | None:
            view, first = self._at_rest(), seen[0]
            if first is None or view is None or first != replace(view, at_ms=first.at_ms):
                seen[0] = view
                return None
            return view if view.at_ms - first.at_ms >= REST_S * 1000 else None

        return until(look, lambda: f"rest after {act.kind}", SETTLE_S)

    def _at_rest(self) -> ClusterView | None:
        """The cluster, if nothing is left that it will do by itself."""
        cluster = self._cluster
        epoch, controller = cluster.controller_epoch, cluster.controller_id
        live = cluster.live_brokers
        if controller not in live or set(live) != self._alive or controller is None:
            return None
        ready = f"Ready to serve as the new controller with epoch {epoch}"
        if ready not in self._log(controller, "controller.log"):
            return None
        # The controller takes an order away when it has written all that belongs to it.
        is_ordered = cluster.znode(ReassignPartitionsZnode.PATH).get() is not None
        partitions: dict[Name, PartitionView] = {}
        deleting: set[str] = set()
        for topic in (*self._topics, *self._deleted):
            data = cluster.znode(TopicZnode.path(topic)).get()
            if data is None:
                if topic in self._topics:
                    return None
                continue
            found = TopicZnode.decode(topic, data).partitions
            if topic in self._deleted:
                if all(set(each.replicas) <= self._alive for each in found.values()):
                    return None
                deleting.add(topic)
                continue
            for number, assignment in found.items():
                path = PartitionStateZnode.path(topic, number)
                state, version = cluster.partition_state(topic, number), cluster.znode(path).version
                if state is None or version is None:
                    return None
                is_moving = bool(assignment.adding_replicas or assignment.removing_replicas)
                view = PartitionView(
                    tuple(assignment.replicas), is_moving, state.leader, state.leader_epoch,
                    tuple(state.in_sync_replicas), version,
                )  # fmt: skip
                if not self._is_settled(topic, view):
                    return None
                partitions[topic, number] = view
        if is_ordered and not any(view.is_moving for view in partitions.values()):
            return None
        return ClusterView(
            now_ms(), controller, epoch, live, partitions, dict(self._min_isr),
            frozenset(deleting), frozenset(self._unclean),
        )  # fmt: skip

    def _is_settled(self, topic: str, view: PartitionView) -> bool:
        alive = self._alive & set(view.replicas)
        if view.leader < 0:
            return not alive & (alive if topic in self._unclean else set(view.isr))
        is_waiting = not view.is_moving or set(view.replicas) - self._alive
        preferred = view.replicas[0]
        if self._is_balanced and preferred in alive - {view.leader} and not view.is_moving:
            return False
        return view.leader in alive and set(view.isr) == alive and bool(is_waiting)
