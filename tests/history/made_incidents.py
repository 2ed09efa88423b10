"""Incidents made by seed: a small cluster as rows of its logs, and a book of what was done.

The model knows nothing of the analyses. It keeps what a partition, a broker and the controller
would be at each moment, writes the rows that Kafka's lines become, and notes in its book what a
reader of these logs must find: each window without a leader to the millisecond, each departure with
what followed, each order. Broker 9 is the controller, and nothing is done to it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.event_rows import START_MS, Row, row
from tests.support.partition_rows import online, shrunk

from .rows import elected

BROKERS: Final = (1, 2, 3, 4)
CONTROLLER: Final = 9
SESSION_MS: Final = 6_000
STEP_MS: Final = 30_000
"""Between two acts, long enough for the cluster to settle."""
Name = tuple[str, int]


@dataclass
class Partition:
    replicas: list[int]
    leader: int
    isr: list[int]
    epoch: int = 0
    version: int = 0
    dark_since: int | None = None
    noticed: int | None = None
    cause: str = ""


@dataclass
class Book:
    """What must be found, times counted from ``START_MS``."""

    windows: list[tuple[str, int, int, int | None, int | None, str]] = field(default_factory=list)
    departures: dict[tuple[int, int, str], list[int]] = field(default_factory=dict)
    """Broker, beginning, how: leaders moved, partitions without a leader, ISRs shrunk."""
    pauses: list[tuple[int, int, int]] = field(default_factory=list)
    acts: list[tuple[int, str, str | None]] = field(default_factory=list)


class MadeIncident:
    """``rows`` and ``book`` of a seed."""

    def __init__(self, seed: int, acts: int) -> None:
        self.random = random.Random(seed)
        self.rows: list[Row | list[Row]] = [elected(0, CONTROLLER, 1)]
        self.book = Book()
        self.partitions: dict[Name, Partition] = {}
        self.live = set(BROKERS)
        for broker in BROKERS:
            self._starts(broker, 100)
        self.now = 1_000
        for number in range(3):
            self._create(f"topic-{number}")
            self.now += STEP_MS
        kinds = (self._kill, self._start, self._stop, self._pause, self._elect, self._delete)
        while acts:
            acts -= self.random.choice(kinds)()
            self.now += STEP_MS
        for (topic, number), partition in self.partitions.items():
            if partition.dark_since is not None:
                self._light(topic, number, partition, None)

    # What is done.

    def _create(self, topic: str) -> None:
        said = {"added": f"HashSet({topic})"}
        self.rows.append(row("topics-changed", self.now, CONTROLLER, values=said))
        self.book.acts.append((self.now, "topic created", topic))
        for number in range(3):
            replicas = self.random.sample(BROKERS, self.random.choice((1, 2, 3)))
            made = Partition(replicas, replicas[0], list(replicas))
            self.partitions[topic, number] = made
            self.rows.append(
                row("partition-new", self.now + 5, CONTROLLER, controller_epoch=1, topic=topic,
                    partition=number, replicas=replicas, from_state="NonExistentPartition",
                    to_state="NewPartition")
            )  # fmt: skip
            self._write((topic, number), self.now + 10, "NewPartition")

    def _delete(self) -> bool:
        topics = sorted({topic for topic, _ in self.partitions})
        whole = [
            t
            for t in topics
            if all(
                p.leader > 0 and set(p.replicas) <= self.live
                for (n, _), p in self.partitions.items()
                if n == t
            )
        ]
        if len(topics) < 2 or not whole:
            return False
        topic = self.random.choice(whole)
        self.book.acts.append((self.now, "topic deleted", topic))
        self.rows.append(row("delete-starting", self.now, CONTROLLER, values={"topics": topic}))
        for name in [name for name in self.partitions if name[0] == topic]:
            gone = self.partitions.pop(name)
            for broker in gone.replicas:
                gone.isr = [b for b in gone.isr if b != broker] or gone.isr
                gone.leader = -1 if gone.leader == broker else gone.leader
                self._shrink(name, gone, broker, self.now + 30)
        self.rows.append(row("delete-completed", self.now + 300, CONTROLLER, topic=topic))
        return True

    def _kill(self) -> bool:
        broker = self._some_live()
        if broker is None:
            return False
        self.rows.append(row("thread-life", self.now, broker, "the last word"))
        self._goes(broker, self.now, "killed", f"broker {broker} died", self.now + SESSION_MS)
        return True

    def _stop(self) -> bool:
        broker = self._some_live()
        if broker is None:
            return False
        self.rows += [
            row("server-life", self.now, broker, "shutting down"),
            row("server-life", self.now + 500, broker, "shut down completed"),
        ]
        self._goes(broker, self.now, "clean_shutdown", f"broker {broker} was stopped", None)
        return True

    def _pause(self) -> bool:
        broker = self._some_live()
        if broker is None:
            return False
        length = self.random.randrange(9_000, 14_000)
        awake = self.now + length
        self._goes(broker, self.now, "paused", f"broker {broker} was paused", self.now + SESSION_MS)
        # ZooKeeper's last answer came half a ping before the pause.
        heard = length + SESSION_MS // 6
        self.rows += [
            row("zk-timeout", awake, broker, "Client session timed out, have not heard from server",
                elapsed_ms=heard),
            row("zkc-session", awake + 100, broker, "Session expired."),
            row("broker-registered", awake + 300, broker, peer=broker),
        ]  # fmt: skip
        self.book.pauses.append((broker, self.now, awake))
        self._comes(broker, awake + 400)
        return True

    def _start(self) -> bool:
        dead = sorted(set(BROKERS) - self.live)
        if not dead:
            return False
        broker = self.random.choice(dead)
        self._starts(broker, self.now)
        self._comes(broker, self.now + 2_000)
        return True

    def _elect(self) -> bool:
        wanted = [
            name for name, p in self.partitions.items()
            if p.leader > 0 and p.leader != p.replicas[0] and p.replicas[0] in p.isr
        ]  # fmt: skip
        if not wanted:
            return False
        self.book.acts.append((self.now, "preferred election", None))
        names = ",".join(f"{topic}-{number}" for topic, number in wanted)
        self.rows.append(
            row("elect-start", self.now, CONTROLLER,
                values={"partitions": names, "type": "PREFERRED",
                        "trigger": "AdminClientTriggered"})
        )  # fmt: skip
        for name in wanted:
            partition = self.partitions[name]
            partition.leader = partition.replicas[0]
            self._raise(name, self.now + 20)
        return True

    # What follows.

    def _some_live(self) -> int | None:
        return self.random.choice(sorted(self.live)) if len(self.live) > 1 else None

    def _starts(self, broker: int, at: int) -> None:
        self.rows += [
            row("server-life", at, broker, "starting"),
            row("zk-session", at + 50, broker, "Session establishment complete on server zk, "
                f"session id = 0x1, negotiated timeout = {SESSION_MS}"),
        ]  # fmt: skip

    def _changed(self, at: int, **who: int) -> None:
        values = {"live": ",".join(map(str, sorted({*self.live, CONTROLLER})))}
        values |= {key: str(broker) for key, broker in who.items()}
        self.rows.append(row("ctl-brokers-changed", at, CONTROLLER, values=values))

    def _goes(self, broker: int, at: int, how: str, cause: str, missed: int | None) -> None:
        """The controller acts at ``missed``; None: a stop, at which it acts at once."""
        self.live.discard(broker)
        counts = self.book.departures.setdefault((broker, at, how), [0, 0, 0])
        if missed is not None:
            self._changed(missed, deleted=broker)
        act_at = at + 100 if missed is None else missed + 50
        for name, partition in self.partitions.items():
            if partition.leader == broker:
                rest = [b for b in partition.replicas if b in partition.isr and b in self.live]
                if missed is not None or not rest:
                    partition.dark_since = at if missed is not None else act_at
                    partition.noticed = act_at
                    partition.cause = cause
                    counts[1] += 1
                if rest:
                    counts[0] += 1
                    counts[2] += 1
                    partition.leader = rest[0]
                    partition.isr = [b for b in partition.isr if b != broker]
                    self._raise(name, act_at)
                    self._light(*name, partition, act_at)
                else:
                    partition.leader = -1
                    self._shrink(name, partition, broker, act_at)
            elif broker in partition.isr and len(partition.isr) > 1:
                counts[2] += 1
                partition.isr = [b for b in partition.isr if b != broker]
                self._shrink(name, partition, broker, act_at)
        if missed is None:
            self._changed(at + 600, deleted=broker)

    def _comes(self, broker: int, at: int) -> None:
        self.live.add(broker)
        self._changed(at, added=broker)
        for name, partition in self.partitions.items():
            if partition.leader == -1 and broker in partition.isr:
                partition.leader, partition.isr = broker, [broker]
                self._raise(name, at + 50)
                self._light(*name, partition, at + 50)
        for name, partition in self.partitions.items():
            for member in partition.replicas:
                if partition.leader > 0 and member in self.live and member not in partition.isr:
                    partition.isr = [*partition.isr, member]
                    partition.version += 1
                    self.rows.append(
                        row("ctl-isr-updated", at + 4_000, CONTROLLER, topic=name[0],
                            partition=name[1], leader=partition.leader,
                            leader_epoch=partition.epoch, isr=list(partition.isr),
                            zk_version=partition.version)
                    )  # fmt: skip

    def _light(self, topic: str, number: int, partition: Partition, at: int | None) -> None:
        if partition.dark_since is not None:
            window = (f"{topic}-{number}", partition.dark_since, partition.noticed or 0, at,
                      partition.leader if at else None, partition.cause)  # fmt: skip
            self.book.windows.append(window)
            partition.dark_since = None

    def _raise(self, name: Name, at: int) -> None:
        partition = self.partitions[name]
        partition.epoch += 1
        partition.version += 1
        self._write(name, at, "OnlinePartition")

    def _write(self, name: Name, at: int, from_state: str) -> None:
        p = self.partitions[name]
        self.rows.append(
            online(at, CONTROLLER, 1, name, p.leader, p.epoch, p.isr, p.version,
                   from_state=from_state)
        )  # fmt: skip

    def _shrink(self, name: Name, partition: Partition, removed: int, at: int) -> None:
        partition.epoch += 1
        partition.version += 1
        self.rows.append(
            shrunk(at, CONTROLLER, 1, name, partition.leader, partition.epoch, partition.isr,
                   partition.version, removed)
        )  # fmt: skip


def since_start(moment: Any) -> int | None:
    """A time of a finding, counted as the book counts."""
    return None if moment is None else int(moment) - START_MS
