"""Troubles that ``zkctl doctor`` must find, caused on real brokers, ours or Kafka's.

Each cause is a context: the trouble lasts until its end, and the cluster is well again then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.broker_process import BrokerProcess
from tests.peers.cluster import Cluster
from tests.support.cli_world import zkctl_here
from tests.support.suspension import suspended
from zkcontroller.zookeeper.requests import Create, Delete, SetData, Written, Znode

IDS: Final = (1, 2, 3)
EXTRA: Final = 4
"""A broker that single causes start."""
EDITED: Final = "edited"
"""A topic of one partition on brokers 1, 2 and 3, whose znodes are edited."""
STATE: Final = f"/brokers/topics/{EDITED}/partitions/0/state"
FROZEN_S: Final = 3
"""So long a frozen broker is waited for, in seconds; living ones answer in a tenth of it."""
SLOW: Final = "a request takes "
Start = Callable[[int, Mapping[str, str]], BrokerProcess]


class World:
    """Brokers 1 and 2 on rack a, 3 on rack b, and ``zkctl`` beside them."""

    def __init__(self, cluster: Cluster, start: Start, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self._start = start
        self._timeout: tuple[str, ...] = ()

    def start_all(self) -> None:
        """Starts the brokers and creates the topic :data:`EDITED`."""
        for broker_id in IDS:
            self.start(broker_id)
        self.create(EDITED, IDS)

    def start(self, broker_id: int, **properties: str) -> None:
        """Starts a broker, for the first time or again; it is registered then."""
        own = {
            # A frozen broker must stay registered while it is looked at.
            "zookeeper.session.timeout.ms": "45000",
            "broker.rack": "b" if broker_id == 3 else "a",
        }
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self._start(broker_id, own | given)

    def zkctl(self, *arguments: str, codes: Sequence[int] = (0,)) -> Any:
        """What a command prints as JSON."""
        done = zkctl_here("-o", "json", *self._timeout, *arguments)
        assert done.exit_code in codes, done.stderr
        return json.loads(done.stdout) if done.stdout else []

    def doctor(self, *arguments: str) -> dict[str, Any]:
        """The findings by rule, without the rows of rules that are not checked.

        That a request to ZooKeeper takes long is left out: it is true of a busy machine.
        """
        where = () if "-z" in arguments else ("-z", self.cluster.zookeeper)
        rows = self.zkctl("doctor", *where, *arguments, codes=(0, 1, 2))
        found = {row["rule"]: row for row in rows if row["severity"] != "unchecked"}
        if strained := found.get("Z03"):
            strained["evidence"] = [
                each for each in strained["evidence"] if not each["what"].startswith(SLOW)
            ]
            if not strained["evidence"]:
                del found["Z03"]
        return found

    def create(self, topic: str, *assignment: Sequence[int]) -> None:
        """Creates a topic and waits until every live broker knows it in full."""
        text = ",".join(":".join(map(str, replicas)) for replicas in assignment)
        at = self.cluster.bootstrap(self.controller)
        self.zkctl("-b", at, "topic", "create", topic, "--replica-assignment", text)
        self.wait_until_in_sync(topic)

    def wait_until_in_sync(self, *topics: str) -> None:
        """Waits until the ISRs are full and every live broker knows that."""

        def known(broker_id: int) -> bool:
            seen = self.cluster.metadata_of(broker_id)
            return all(
                seen.get((topic, partition)) == view
                for topic in topics
                for partition, view in self.cluster.of(topic).items()
            )

        self.cluster.wait_until(
            lambda: (
                all(
                    self.cluster.of(topic)
                    and all(
                        v.in_sync_replicas == v.replicas for v in self.cluster.of(topic).values()
                    )
                    for topic in topics
                )
                and all(known(broker_id) for broker_id in self.cluster.live_brokers())
            ),
            f"{topics} in sync and known",
            timeout_s=60,
        )

    def delete(self, *topics: str) -> None:
        """Deletes topics to the end."""
        at = self.cluster.bootstrap(self.controller)
        self.zkctl("-b", at, "topic", "delete", *topics, "--yes")
        self.cluster.wait_until(
            lambda: not any(self.cluster.of(topic) for topic in topics), f"the end of {topics}"
        )

    @property
    def controller(self) -> int:
        """The id of the controller."""
        controller = self.cluster.controller_id()
        assert controller is not None
        return controller

    @property
    def other(self) -> int:
        """A broker that is not the controller."""
        return max(set(IDS) - {self.controller})

    @property
    def rest(self) -> list[int]:
        """The brokers but :attr:`other`."""
        return [broker_id for broker_id in IDS if broker_id != self.other]

    @contextmanager
    def frozen(self, *broker_ids: int, patience_s: int = FROZEN_S) -> Iterator[None]:
        """These processes stand still meanwhile; ``zkctl`` waits so long for each."""
        pids = [self.cluster.brokers[broker_id].pid for broker_id in broker_ids]
        self._timeout = ("--timeout", str(patience_s))
        try:
            with suspended(*pids):
                yield
        finally:
            self._timeout = ()

    def read(self, path: str) -> bytes:
        """The data of a znode that is there."""
        znode = self.cluster.session.read(path)
        assert isinstance(znode, Znode), path
        return znode.data or b""

    def put(self, path: str, data: bytes) -> None:
        """Replaces the data of a znode."""
        assert isinstance(self.cluster.session.write(SetData(path, data)), Written)

    @contextmanager
    def edited(self, path: str, **fields: Any) -> Iterator[None]:
        """A znode has other fields meanwhile, as if an administrator had written them."""
        before = self.read(path)
        self.put(path, json.dumps(json.loads(before) | fields).encode())
        try:
            yield
        finally:
            self.put(path, before)

    @contextmanager
    def created(self, path: str, data: bytes) -> Iterator[None]:
        """A znode exists meanwhile."""
        assert isinstance(self.cluster.session.write(Create(path, data)), Written)
        try:
            yield
        finally:
            self.cluster.session.write(Delete(path))

    def save(self) -> str:
        """A file with what a look sees now."""
        file = self.directory / "look.json"
        self.doctor("--save", str(file))
        return str(file)

    @property
    def leader(self) -> int:
        """The leader of :data:`EDITED`."""
        return self.cluster.of(EDITED)[0].leader


@contextmanager
def started_world(cluster: Cluster, start: Start, directory: Path) -> Iterator[World]:
    """The brokers run and are in sync; they and the cluster end with the block."""
    try:
        world = World(cluster, start, directory)
        world.start_all()
        yield world
    finally:
        cluster.close()


class Cause(NamedTuple):
    """A trouble, the rules that find it, and what their evidence says."""

    what: str
    begin: Callable[[World], AbstractContextManager[tuple[str, ...]]]
    """Its value are further arguments of ``zkctl doctor``."""
    expected: Mapping[str, str]
    """By rule, a part of ``where: what`` of one of its evidences."""
    absent: tuple[str, ...] = ()
    """Rules that must find nothing."""


CAUSES: Final[list[Cause]] = []


def causes(
    what: str, *, absent: tuple[str, ...] = (), **expected: str
) -> Callable[[Callable[[World], Iterator[tuple[str, ...]]]], None]:
    """Adds a cause; the generator yields once, while the trouble lasts."""

    def add(begin: Callable[[World], Iterator[tuple[str, ...]]]) -> None:
        CAUSES.append(Cause(what, contextmanager(begin), expected, absent))

    return add


def check(world: World, cause: Cause) -> None:
    """Causes the trouble; ``zkctl doctor`` must find it by each of its rules."""
    with cause.begin(world) as arguments:
        found = world.doctor(*arguments)
    assert found.keys().isdisjoint(cause.absent), found
    for rule, part in cause.expected.items():
        assert rule in found, (rule, found)
        texts = [f"{each['where']}: {each['what']}" for each in found[rule]["evidence"]]
        assert any(part in text for text in texts), (rule, texts)


def mend_a_stuck_isr(world: World) -> None:
    """P10, mended by the command that the finding names; a new controller does not mend it."""
    world.create("stuck", IDS)
    before = json.loads(world.read("/brokers/topics/stuck"))["partitions"]["0"]
    leader = world.cluster.of("stuck")[0].leader
    state = "/brokers/topics/stuck/partitions/0/state"
    fields = json.loads(world.read(state)) | {"isr": [leader]}
    world.put(state, json.dumps(fields).encode())
    world.cluster.elect()
    found = world.doctor()
    assert "P10" in found, found

    zkctl, *words = found["P10"]["command"].split()
    assert zkctl == "zkctl"
    at = world.cluster.bootstrap(world.controller)
    world.zkctl("-b", at, *words, "--wait", "--yes")

    world.wait_until_in_sync("stuck")
    after = json.loads(world.read("/brokers/topics/stuck"))["partitions"]["0"]
    assert (after != before, sorted(after), after[0]) == (True, sorted(before), before[0])
    assert "P10" not in world.doctor()
    world.delete("stuck")


def find_a_refused_topic(world: World) -> str:
    """What the doctor says of a topic that has another id since the last controller's election."""

    def places() -> dict[str, str]:
        found = world.doctor().get("M02", {"evidence": ()})
        return {each["where"]: each["what"] for each in found["evidence"]}

    of_all = {f"Fetch of broker {broker}" for broker in (1, 2, 3)}
    with world.edited(f"/brokers/topics/{EDITED}", topic_id="AAECAwQFBgcICQoLDA0ODw"):
        world.cluster.elect()
        world.cluster.wait_until(lambda: places().keys() == of_all, "every broker refuses it")
        [what] = set(places().values())
    world.cluster.elect()
    world.cluster.wait_until(lambda: "M02" not in world.doctor(), "brokers have it again")
    return what


# Znodes that were edited, deleted or left behind.


@causes("a state znode names a leader that is not registered", P02="leader 9 is not registered")
def _dead_leader(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, leader=9):
        yield ()


@causes(
    "a state znode's ISR lacks the leader",
    P03="in sync",
    P14="not in sync: ",
    M01="says leader",
)
def _leader_out_of_sync(world: World) -> Iterator[tuple[str, ...]]:
    isr = [broker_id for broker_id in IDS if broker_id != world.leader]
    with world.edited(STATE, isr=isr):
        yield ()


@causes("a state znode's ISR has a broker that is not assigned", P04="in sync 9, assigned 1,2,3")
def _stranger(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, isr=[*IDS, 9]):
        yield ()


@causes(
    "a state znode's ISR is empty",
    P05="the list of replicas in sync is empty",
    P06="in sync none: fewer than min.insync.replicas=1",
)
def _empty(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, isr=[]):
        yield ()


@causes(
    "a state znode's ISR lacks followers that have the whole log",
    P10="is not in sync, and has the log up to 0 as the leader has",
)
def _caught_up(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, isr=[world.leader]):
        yield ()


@causes("a state znode is of a later controller", C06="above ")
def _later_controller(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, controller_epoch=1_000_000):
        yield ()


@causes("a state znode gets a smaller leader epoch", P07="leader epoch 3; 5 was seen before")
def _smaller_leader_epoch(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(STATE, leader_epoch=5):
        file = world.save()
        with world.edited(STATE, leader_epoch=3):
            yield ("--since", file)


@causes("a topic's znode gets another topic id", M02="topic id ")
def _other_topic_id(world: World) -> Iterator[tuple[str, ...]]:
    with world.edited(f"/brokers/topics/{EDITED}", topic_id="AAECAwQFBgcICQoLDA0ODw"):
        yield ()


@causes("`/migration` is left behind", C05="a migration to KRaft was begun")
def _migration(world: World) -> Iterator[tuple[str, ...]]:
    with world.created("/migration", b"{}"):
        yield ()


@causes("`/controller_epoch` is written back", C02="was seen by ")
def _epoch_back(world: World) -> Iterator[tuple[str, ...]]:
    world.cluster.elect()
    file = world.save()
    epoch = world.cluster.controller_epoch()
    world.put("/controller_epoch", str(epoch - 1).encode())
    try:
        yield ("--since", file)
    finally:
        world.put("/controller_epoch", str(epoch).encode())
        world.cluster.elect()


@causes("`/controller` is deleted twice within seconds", C03="s ago it held ")
def _two_changes(world: World) -> Iterator[tuple[str, ...]]:
    file = world.save()
    world.cluster.elect()
    world.cluster.elect()
    yield ("--since", file)


# Settings and assignments.


@causes("a topic's replicas are created on one rack of two", P08="1 racks of 2 possible")
def _one_rack(world: World) -> Iterator[tuple[str, ...]]:
    world.create("narrow", (1, 2))
    yield ()
    world.delete("narrow")


@causes("a topic allows unclean elections", S01=": unclean.leader.election.enable=true")
def _unclean(world: World) -> Iterator[tuple[str, ...]]:
    at = ("-b", world.cluster.bootstrap(world.controller))
    key = "unclean.leader.election.enable"
    world.zkctl(*at, "config", "set", "topic", EDITED, "--config", f"{key}=true", "--yes")
    yield ()
    world.zkctl(*at, "config", "unset", "topic", EDITED, "--key", key, "--yes")


@causes(
    "a throttled move has ended, and nothing has taken its throttle away",
    R04=".replication.throttled.",
)
def _throttle_left(world: World) -> Iterator[tuple[str, ...]]:
    at = ("-b", world.cluster.bootstrap(world.controller))
    world.create("moved", (1, 2))
    world.zkctl(*at, "reassign", "start", "moved-0:2,3", "--throttle", "1000000", "--yes")
    world.cluster.wait_until(
        lambda: world.cluster.of("moved")[0].replicas == {2, 3},
        "the end of the move",
    )
    yield ("--patience", "0")
    world.zkctl(*at, "reassign", "verify", "moved-0:2,3", "--yes")
    world.delete("moved")


# Frozen, stopped and killed processes.


@causes("a broker is frozen", absent=("C01",), B02="did not answer in time")
def _frozen_broker(world: World) -> Iterator[tuple[str, ...]]:
    with world.frozen(world.other):
        yield ()


def _orders() -> bytes:
    """An order of 14,000 moves, above 512 KiB."""
    moves = [{"topic": "ghost", "partition": p, "replicas": [1, 2]} for p in range(14_000)]
    return json.dumps({"version": 1, "partitions": moves}).encode()


@causes(
    "the controller is frozen; a notification, an order of 14,000 moves and a registration come",
    C01="ListPartitionReassignments of broker ",
    N01="/isr_change_notification/isr_change_0000000000: is ",
    R03="ghost-0 is ordered there, and is not being moved",
    Z01="/admin/reassign_partitions at version 0: ",
    M03="does not know the registered brokers 9",
)
def _frozen_controller(world: World) -> Iterator[tuple[str, ...]]:
    ghost = json.loads(world.read(f"/brokers/ids/{world.other}"))
    ghost |= {"endpoints": ["PLAINTEXT://127.0.0.1:1"], "host": "127.0.0.1", "port": 1}
    with ExitStack() as stack:
        stack.enter_context(world.frozen(world.controller))
        for path, data in (
            ("/isr_change_notification/isr_change_0000000000", b'{"version":1,"partitions":[]}'),
            ("/admin/reassign_partitions", _orders()),
            ("/brokers/ids/9", json.dumps(ghost).encode()),
        ):
            stack.enter_context(world.created(path, data))
        yield ("--patience", "0")


@causes("`/controller` is deleted while all brokers are frozen", C04="there is no such znode")
def _no_controller(world: World) -> Iterator[tuple[str, ...]]:
    epoch = world.cluster.controller_epoch()
    with world.frozen(*IDS):
        deleted = world.cluster.session.write(Delete("/controller"))
        assert isinstance(deleted, Written)
        yield ()
    world.cluster.wait_until(
        lambda: (
            world.cluster.controller_epoch() > epoch and world.cluster.controller_id() is not None
        ),
        "a controller",
    )


@causes(
    "a broker stops in order, and a topic with a replica on it is deleted",
    P01="leader -1, in sync were ",
    P06="as few as min.insync.replicas=1",
    P14="not in sync: ",
    D01="has replicas and is not alive",
)
def _stopped(world: World) -> Iterator[tuple[str, ...]]:
    stopped, (first, second) = world.other, world.rest
    world.create("lone", (stopped,))
    world.create("doomed", (stopped,))
    world.create("pair", (stopped, first))
    world.create("wide", (stopped, first, second))
    world.cluster.brokers[stopped].stop()
    world.cluster.session.write(Create("/admin/delete_topics/doomed"))
    yield ("--patience", "0")
    world.start(stopped)
    world.wait_until_in_sync("lone", "pair", "wide", EDITED)
    world.delete("lone", "pair", "wide")


@causes("a broker returns after a stop in order", P09="preferred ")
def _returned(world: World) -> Iterator[tuple[str, ...]]:
    returning, first = world.other, world.rest[0]
    world.create("pair", (returning, first))
    world.cluster.brokers[returning].stop()
    world.start(returning)
    world.wait_until_in_sync("pair", EDITED)
    yield ()
    world.delete("pair")


@causes("a replica is moved to a frozen broker", R01="not in sync yet: ")
def _stuck_move(world: World) -> Iterator[tuple[str, ...]]:
    target, (first, second) = world.other, world.rest
    at = world.cluster.bootstrap(world.controller)
    world.create("moving", (first, second))
    with world.frozen(target):
        move = f"moving-0:{first},{target}"
        world.zkctl("-b", at, "reassign", "start", move, "--yes")
        yield ("--patience", "0")
    world.cluster.wait_until(
        lambda: world.cluster.of("moving")[0].replicas == {first, target}, "the end of the move"
    )
    world.delete("moving")


@causes(
    "a replica is moved to a frozen broker, whose registration is deleted",
    R02="adding replicas on brokers that are not alive: ",
)
def _dead_target(world: World) -> Iterator[tuple[str, ...]]:
    target, (first, second) = world.other, world.rest
    at = world.cluster.bootstrap(world.controller)
    world.create("moving", (first, second))
    with world.frozen(target):
        move = f"moving-0:{first},{target}"
        world.zkctl("-b", at, "reassign", "start", move, "--yes")
        world.cluster.session.write(Delete(f"/brokers/ids/{target}"))
        yield ()
    world.cluster.brokers[target].kill()
    world.start(target)
    world.cluster.wait_until(
        lambda: world.cluster.of("moving")[0].replicas == {first, target}, "the end of the move"
    )
    world.wait_until_in_sync(EDITED)
    world.delete("moving")


@causes(
    "the registration of a living broker is deleted",
    B01="it answers, and is none of the registered brokers",
)
def _unregistered(world: World) -> Iterator[tuple[str, ...]]:
    lost = world.other
    address = world.cluster.bootstrap(lost)
    world.cluster.session.write(Delete(f"/brokers/ids/{lost}"))
    yield ("-b", address)
    world.cluster.brokers[lost].kill()
    world.start(lost)
    world.wait_until_in_sync(EDITED)


@causes("a broker starts with a directory that is assigned to no topic", L01="stray-0, which")
def _stray(world: World) -> Iterator[tuple[str, ...]]:
    broker = world.cluster.brokers[world.other]
    broker.stop()
    (broker.directory / "data" / "stray-0").mkdir()
    world.start(broker.broker_id)
    world.wait_until_in_sync(EDITED)
    yield ()
    # The topic makes the log its own, and takes it along.
    world.create("stray", (broker.broker_id,))
    world.delete("stray")


# A fourth broker.


@causes("a broker starts while the controller is frozen", B04="its Metadata names no broker at all")
def _never_addressed(world: World) -> Iterator[tuple[str, ...]]:
    with world.frozen(world.controller):
        world.start(EXTRA)
        yield ("--patience", "0")
    world.cluster.brokers[EXTRA].stop()


@causes("a broker starts with a log directory that is a file", L02="KAFKA_STORAGE_ERROR")
def _failed_directory(world: World) -> Iterator[tuple[str, ...]]:
    file = world.directory / "a-file"
    file.touch()
    world.start(EXTRA, log_dirs=f"{world.directory / 'good'},{file}")
    yield ()
    world.cluster.brokers[EXTRA].stop()


@causes(
    "a broker with a session timeout of 5 s is frozen for longer, and goes on",
    S02="zookeeper.session.timeout.ms=5000",
)
def _long_pause(world: World) -> Iterator[tuple[str, ...]]:
    world.start(EXTRA, zookeeper_session_timeout_ms="5000")
    registered = f"/brokers/ids/{EXTRA}"
    before = world.cluster.session.read(registered)
    with world.frozen(EXTRA, patience_s=6):
        file = world.save()
        world.cluster.wait_until(
            lambda: EXTRA not in world.cluster.live_brokers(), "the end of its session"
        )
    world.cluster.wait_until(
        lambda: EXTRA in world.cluster.live_brokers(), "a new registration", timeout_s=60
    )
    assert isinstance(before, Znode)
    yield ("--since", file)
    world.cluster.brokers[EXTRA].stop()


@causes("ZooKeeper's connect string names a server that is down", Z02="srvr of 127.0.0.1:1: ")
def _server_down(world: World) -> Iterator[tuple[str, ...]]:
    server, slash, chroot = world.cluster.zookeeper.partition("/")
    yield ("-z", f"{server},127.0.0.1:1{slash}{chroot}")


@causes(
    "a broker is killed, and its session has not expired yet",
    Z03="is registered and has no connection",
)
def _cut_off(world: World) -> Iterator[tuple[str, ...]]:
    world.start(EXTRA)
    world.cluster.brokers[EXTRA].kill()
    yield ()
    # Sooner than its session ends.
    world.cluster.session.write(Delete(f"/brokers/ids/{EXTRA}"))
