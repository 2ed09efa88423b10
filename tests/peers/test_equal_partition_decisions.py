"""A KRaft controller's decisions about partitions: ours equal Kafka's for the same requests.

Kafka's ReplicationControlManager runs in a Java process without a quorum.  Both sides replay the
records that they generate.  After each step the response, the kinds and versions of the records,
and every partition must be equal.  Equal random numbers must give equal placements of replicas.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, MutableSequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kafka_common.api_error import ApiError, ApiException
from kafka_common.model import ElectionType
from kraft.controller.alter_partition import (
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.cluster_view import UsableBroker
from kraft.controller.partition_registration import PartitionRegistration
from kraft.controller.reassignment_control import (
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.controller.replica_placer import StripedReplicaPlacer
from kraft.controller.replication_control import ReplicationConfig
from kraft.controller.result import VersionedRecord
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kraft.metadata.metadata_version import from_level
from tests.support.kraft_world import KraftWorld, RegisteredNode, directory, no_quota

pytestmark = pytest.mark.peers

SOURCE = Path(__file__).with_name("KafkaReplication.java")
MAIN_CLASS = "org.apache.kafka.controller.KafkaReplication"
BROKERS = (1, 2, 3, 4, 5)
STEPS = 400
LOW_BITS = (1 << 64) - 1


def run_kafka(kafka: Path, compiled: Path, lines: list[str]) -> list[str]:
    """What Kafka's managers say to each line."""
    done = subprocess.run(
        ["java", "-cp", f"{compiled}:{kafka}/*", MAIN_CLASS],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return [said.strip("\n") for said in done.stdout.split("=\n")]


@pytest.fixture(scope="module")
def compiled(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with our Java class: in Kafka's package, which alone may make these managers."""
    folder = tmp_path_factory.mktemp("kafka-replication")
    subprocess.run(["javac", "-cp", f"{kafka}/*", "-d", str(folder), str(SOURCE)], check=True)
    return folder


class Scenario:
    """Random requests: our side performs each one at once, and Kafka's side gets ``lines``."""

    def __init__(self, seed: int, level: int) -> None:
        self.random = Random(seed)
        self.level = level
        self.has_directories = level >= 17
        with_elr = level >= 22
        self.world = KraftWorld(
            metadata_version=from_level(level),
            config=ReplicationConfig(eligible_leader_replicas_enabled=with_elr),
        )
        self.topics: dict[str, UUID] = {}
        self.lines = [f"cluster {level} {'elr' if with_elr else '-'}"]
        self.ours = [self.described("")]
        for broker_id in BROKERS:
            self.register(broker_id)
            self.tell(f"unfence {broker_id}")
        for _ in range(2):
            self.create()
        for _ in range(STEPS):
            self.step()

    # ------------------------------------------------------------------ making up

    def step(self) -> None:
        random = self.random
        broker_id = random.choice(BROKERS)
        match random.randrange(20):
            case 0 | 1 | 2 if broker_id in self.world.cluster.nodes:
                self.tell(f"fence {broker_id}")
            case 3 | 4 | 5 | 6 if broker_id in self.world.cluster.nodes:
                self.tell(f"unfence {broker_id}")
            case 7 if broker_id in self.world.cluster.nodes:
                self.tell(f"shutdown {broker_id}")
            case 8 if random.random() < 0.3 and broker_id in self.world.cluster.nodes:
                self.tell(f"unregister {broker_id}")
            case 9 if broker_id not in self.world.cluster.nodes:
                self.register(broker_id)
            case 10 | 11 | 12 | 13:
                self.propose()
            case 14 | 15:
                self.reassign()
            case 16:
                topic, index = self.some_partition()
                self.tell(f"elect {random.randrange(2)} {topic} {index}")
            case 17:
                self.tell(random.choice(["balance", "unclean"]))
            case 18:
                self.configure()
            case 19 if broker_id in self.world.cluster.nodes:
                self.about_directories(broker_id)

    def some_partition(self) -> tuple[str, int]:
        if self.random.random() < 0.05:
            return "nothing", 0
        name = self.random.choice(sorted(self.topics))
        return name, self.random.choice([0, 0, 1, 1, 2, 9])

    def register(self, broker_id: int) -> None:
        count = self.random.choice([1, 2]) if self.has_directories else 0
        numbers = [1000 * broker_id + number for number in range(count)]
        self.tell(f"register {broker_id} {joined(numbers)}")

    def create(self) -> None:
        replication_factor = self.random.randint(1, 3)
        partitions = [self.random.sample(BROKERS, replication_factor) for _ in range(3)]
        replicas = ";".join(joined(partition) for partition in partitions)
        self.tell(f"create topic.{len(self.topics)} {replicas}")

    def propose(self) -> None:
        random = self.random
        topic, index = self.some_partition()
        partition = self.partition(topic, index)
        if partition is None:
            self.tell(f"alter 3 1 {self.epoch(1)} {topic} {index} 0 0 0 1:-1")
            return
        sender = partition.leader if partition.leader > 0 and random.random() < 0.9 else 1
        members = [
            broker_id
            for broker_id in partition.replicas
            if self.world.cluster.is_active(broker_id) or random.random() < 0.1
        ]
        if random.random() < 0.4 and members:
            members = random.sample(members, random.randint(1, len(members)))
        if sender not in members and random.random() < 0.8:
            members.append(sender)
        isr = ",".join(f"{m}:{random.choice([-1, 100 + m, 100 + m, 100 + m, 7])}" for m in members)
        leader_epoch = partition.leader_epoch + random.choice([0] * 18 + [1, -1])
        partition_epoch = partition.partition_epoch + random.choice([0] * 18 + [1, -1])
        recovery_state = random.choice([0, 0, 0, 1])
        version = random.choice([1, 2, 3, 3, 3])
        self.tell(
            f"alter {version} {sender} {self.epoch(sender)} {topic} {index} {leader_epoch} "
            f"{partition_epoch} {recovery_state} {isr or '-'}"
        )

    def reassign(self) -> None:
        topic, index = self.some_partition()
        if self.random.random() < 0.3:
            self.tell(f"reassign {topic} {index} cancel")
            return
        target = self.random.sample(BROKERS, self.random.randint(1, 4))
        if self.random.random() < 0.05:
            target.append(self.random.choice([1, 9]))
        self.tell(f"reassign {topic} {index} {joined(target)}")

    def configure(self) -> None:
        topic = self.random.choice(sorted(self.topics))
        if self.random.random() < 0.7:
            allowed = self.random.choice(["true", "false", "false"])
            self.tell(f"config {topic} unclean.leader.election.enable {allowed}")
        else:
            self.tell(f"config {topic} min.insync.replicas {self.random.randint(1, 3)}")

    def about_directories(self, broker_id: int) -> None:
        chosen = 1000 * broker_id + self.random.choice([0, 0, 1, 1, 2])
        topic, index = self.some_partition()
        match self.random.randrange(4):
            case 0 if self.has_directories:
                online = self.world.cluster.nodes[broker_id].directories
                if len(online) > 1:
                    self.tell(f"offline {broker_id} {chosen}")
            case 1:
                self.tell(f"unclean-shutdown {broker_id}")
            case _ if self.level < 22:
                # From there on Kafka 3.9 forgets the ELR of whatever a broker assigns.
                self.tell(f"assign {broker_id} {chosen} {topic} {index}")

    # ------------------------------------------------------------------ ours

    def tell(self, line: str) -> None:
        """Lets ours do what the line says, and keeps the line for Kafka."""
        self.lines.append(line)
        words = line.split(" ")
        try:
            response, records = self.perform(words)
        except ApiException as refused:
            self.ours.append(self.described(refused.error.name.upper()))
            return
        self.world.replay(records)
        kinds = sorted(f"{type(each.record).__name__}{each.version}" for each in records)
        self.ours.append(self.described(f"{response} {','.join(kinds)}"))

    def perform(self, words: list[str]) -> tuple[str, list[VersionedRecord]]:
        world, control = self.world, self.world.control
        match words:
            case ["register", broker_id, numbers]:
                world.cluster.nodes[int(broker_id)] = RegisteredNode(
                    100 + int(broker_id), fenced=True, directories=directories(numbers)
                )
                return "ok", []
            case ["fence", broker_id]:
                return "ok", control.brokers.handle_broker_fenced(int(broker_id))
            case ["unfence", broker_id]:
                node = world.cluster.nodes[int(broker_id)]
                world.cluster.nodes[int(broker_id)] = RegisteredNode(
                    node.epoch, fenced=True, directories=node.directories
                )
                return "ok", control.brokers.handle_broker_unfenced(int(broker_id), node.epoch)
            case ["shutdown", broker_id]:
                return "ok", control.brokers.handle_broker_in_controlled_shutdown(
                    int(broker_id), self.epoch(broker_id)
                )
            case ["unclean-shutdown", broker_id]:
                return "ok", control.brokers.handle_broker_unclean_shutdown(int(broker_id))
            case ["unregister", broker_id]:
                return "ok", control.brokers.handle_broker_unregistered(
                    int(broker_id), self.epoch(broker_id)
                )
            case ["offline", broker_id, numbers]:
                return "ok", control.brokers.handle_directories_offline(
                    int(broker_id), self.epoch(broker_id), directories(numbers)
                )
            case ["config", topic, name, value]:
                world.set_topic_config(topic, name, value)
                return "ok", []
            case ["balance"]:
                return "ok", list(control.elections.maybe_balance_partition_leaders().records)
            case ["unclean"]:
                return "ok", list(control.elections.maybe_elect_unclean_leaders().records)
            case _:
                return self.asked(words)

    def asked(self, words: list[str]) -> tuple[str, list[VersionedRecord]]:
        control = self.world.control
        match words:
            case ["create", name, replicas]:
                assignments = tuple(
                    CreatableReplicaAssignment(index, ids(partition))
                    for index, partition in enumerate(replicas.split(";"))
                )
                request = CreateTopicsRequest((CreatableTopic(name, assignments=assignments),))
                created = control.topics.create_topics(request, no_quota)
                self.topics[name] = created.response[0].topic_id
                return text(created.response[0].error), list(created.records)
            case ["alter", *proposed]:
                return self.altered(*proposed)
            case ["reassign", topic, index, replicas]:
                target = None if replicas == "cancel" else ids(replicas)
                ordered = ReassignableTopic(topic, (ReassignablePartition(int(index), target),))
                moved = control.reassignments.alter_partition_reassignments((ordered,))
                return text(moved.response[0].partitions[0][1]), list(moved.records)
            case ["elect", kind, topic, index]:
                elected = control.elections.elect_leaders(
                    ElectionType(int(kind)), [(topic, (int(index),))]
                )
                return text(elected.response[0].partitions[0][1]), list(elected.records)
            case ["assign", broker_id, number, topic, index]:
                (chosen,) = directories(number)
                topic_id = self.topics.get(topic, UUID(int=9))
                asked = AssignedDirectory(chosen, ((topic_id, (int(index),)),))
                assigned = control.brokers.assign_replicas_to_dirs(
                    int(broker_id), self.epoch(broker_id), [asked]
                )
                ((_, ((_, error),)),) = assigned.response[0].topics
                return str(int(error)), list(assigned.records)
            case _:
                raise AssertionError(words)

    def altered(
        self, version: str, sender: str, epoch: str, topic: str, index: str, *rest: str
    ) -> tuple[str, list[VersionedRecord]]:
        leader_epoch, partition_epoch, recovery_state, isr = rest
        members = [] if isr == "-" else [member.split(":") for member in isr.split(",")]
        # Versions below 3 carry no broker epochs.
        states = tuple(IsrMember(int(m), int(e) if version == "3" else -1) for m, e in members)
        proposed = ProposedPartition(
            int(index), int(leader_epoch), int(partition_epoch), states, int(recovery_state)
        )
        topic_id = self.topics.get(topic, UUID(int=9))
        request = AlterPartitionRequest(
            int(sender), int(epoch), (ProposedTopic((proposed,), topic_id, topic),)
        )
        result = self.world.control.isr.alter(request, int(version))
        answered = result.response[0].partitions[0]
        if answered.error != 0:
            return str(int(answered.error)), list(result.records)
        return (
            f"0 {answered.leader_id} {answered.leader_epoch} {list(answered.isr)} "
            f"{answered.leader_recovery_state} {answered.partition_epoch}"
        ), list(result.records)

    def epoch(self, broker_id: int | str) -> int:
        return 100 + int(broker_id)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        info = self.world.control.state.topic_named(topic)
        return None if info is None else info.partitions.get(index)

    def described(self, response: str) -> str:
        return "\n".join([*([response] if response else []), *self.partition_lines()])

    def partition_lines(self) -> Iterator[str]:
        for name in sorted(self.topics):
            info = self.world.control.state.topic_named(name)
            assert info is not None
            for index, p in sorted(info.partitions.items()):
                chosen = ",".join(f"{d.int >> 64}:{d.int & LOW_BITS}" for d in p.directories)
                yield (
                    f"{name}-{index} {listed(p.replicas)} {listed(p.isr)} "
                    f"{listed(p.removing_replicas)} {listed(p.adding_replicas)} {p.leader} "
                    f"{p.leader_recovery_state} {p.leader_epoch} {p.partition_epoch} "
                    f"{listed(p.elr)} {listed(p.last_known_elr)} {chosen}"
                )


class JavaRandom:
    """The numbers of ``java.util.Random``, and ``Collections.shuffle`` with them."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _next(self) -> int:
        self._seed = (self._seed * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return self._seed >> 17

    def randrange(self, stop: int, /) -> int:
        if stop & (stop - 1) == 0:
            return (stop * self._next()) >> 31
        drawn = self._next()
        while drawn - drawn % stop + stop - 1 >= 1 << 31:
            drawn = self._next()
        return drawn % stop

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        for last in range(len(x) - 1, 0, -1):
            other = self.randrange(last + 1)
            x[last], x[other] = x[other], x[last]


def some_cluster(random: Random) -> list[UsableBroker]:
    """Brokers whose racks come up in the order in which a HashMap keeps them."""
    racks = [None, "a", "b", "c"][: random.randint(1, 4)]
    described = [
        (rack, random.random() < 0.3) for rack in racks for _ in range(random.randint(1, 4))
    ]
    return [UsableBroker(10 + i, rack, fenced) for i, (rack, fenced) in enumerate(described)]


def placed_by_ours(seed: int, count: int, factor: int, cluster: list[UsableBroker]) -> str:
    try:
        placed = StripedReplicaPlacer(JavaRandom(seed)).place(count, factor, cluster)
    except ApiException as refused:
        return refused.message or ""
    return ";".join(str(list(replicas)) for replicas in placed)


def test_the_same_draws_make_the_same_placement(kafka: Path, compiled: Path) -> None:
    random = Random(11)
    lines, ours = [], []
    for seed in range(300):
        cluster = some_cluster(random)
        count, factor = random.randint(1, 40), random.randint(0, len(cluster) + 1)
        brokers = ",".join(
            f"{b.broker_id}:{b.rack or '-'}:{'fenced' if b.fenced else 'up'}" for b in cluster
        )
        lines.append(f"place {seed} {count} {factor} {brokers}")
        ours.append(placed_by_ours(seed, count, factor, cluster))

    said = run_kafka(kafka, compiled, lines)

    assert ours == said[:-1]


def text(error: ApiError) -> str:
    return f"{int(error.error)}/{'null' if error.message is None else error.message}"


def joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def listed(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def ids(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split(",")))


def directories(words: str) -> tuple[UUID, ...]:
    return tuple(directory(0, int(word)) for word in words.split(",") if word != "-")


@pytest.mark.parametrize("level", [21, 17, 12, 7, 5, 2, 22])
def test_the_same_requests_make_the_same_partitions(
    kafka: Path, compiled: Path, level: int
) -> None:
    scenarios = [Scenario(seed, level) for seed in range(8)]

    said = run_kafka(kafka, compiled, [line for scenario in scenarios for line in scenario.lines])

    ours = [
        (line, heard)
        for scenario in scenarios
        for line, heard in zip(scenario.lines, scenario.ours, strict=True)
    ]
    for number, ((line, expected), actual) in enumerate(zip(ours, said, strict=False)):
        told = "\n".join(line for line, _ in ours[max(number - 5, 0) : number + 1])
        assert expected.strip() == actual.strip(), f"after these lines:\n{told}"
    assert len(said) == len(ours) + 1  # the last is what follows the last mark
