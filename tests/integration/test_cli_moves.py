"""``zkctl reassign``, ``broker drain`` and ``log-dirs`` on four brokers of two directories each.

A move is over as soon as the new replica has caught up; where a test wants to see one under way,
its throttle is small.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.integration.broker_processes import Cluster, cluster_in, wait_for
from tests.support.cli_world import zkctl_here
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode, TopicZnode

pytestmark = pytest.mark.integration

BROKERS: Final = (1, 2, 3, 4)
FAST: Final = "1000000000"
SLOW: Final = "20000"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


class Said(NamedTuple):
    """What one command came to."""

    exit_code: int
    json: Any
    stderr: str


class World:
    """The cluster, ``zkctl``, and what ZooKeeper holds."""

    def __init__(self, cluster: Cluster, session: ZooKeeperSession) -> None:
        self.cluster = cluster
        self._session = session

    def command(self, *arguments: str) -> list[str]:
        # Broker 4 may be dead.
        first = ",".join(self.cluster.brokers[each].address for each in (1, 2))
        return [sys.executable, "-m", "zkcontroller_cli", "-b", first, "-o", "json", *arguments]

    def run(self, *arguments: str) -> Said:
        done = zkctl_here(*self.command(*arguments)[3:])
        return Said(done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr)

    def zkctl(self, *arguments: str) -> Any:
        """What a command says that must succeed."""
        said = self.run(*arguments)
        assert said.exit_code == 0, said.stderr
        return said.json

    def create(self, topic: str, assignment: str, *, size: int = 0) -> None:
        """A topic, with so many bytes in each partition."""
        self.zkctl("topic", "create", topic, "--replica-assignment", assignment)
        count = len(assignment.split(","))
        self.wait_until_led(topic, count)
        if size:
            confluent_kafka: Any = pytest.importorskip("confluent_kafka")
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": self.cluster.brokers[1].address, "acks": "all"}
            )
            for partition in range(count):
                for _ in range(0, size, 10_000):
                    producer.produce(topic, bytes(10_000), partition=partition)
            assert producer.flush(30) == 0

    def wait_until_led(self, topic: str, count: int) -> None:
        def is_led() -> bool:
            [found] = [self.zkctl("topic", "describe", topic)]
            return len(found["partitions"]) == count and all(
                each["leader"] >= 0 and len(each["isr"]) == len(each["replicas"])
                for each in found["partitions"]
            )

        wait_for(is_led, f"leaders of {topic}")

    def config(self, entity: str) -> dict[str, str]:
        """What is set on ``topics/NAME`` or ``brokers/ID``."""
        path = ConfigZnode.path(entity)
        znode = self._session.read(path)
        return (
            {} if isinstance(znode, ZkCode) else dict(ConfigZnode.decode(path, znode.data).config)
        )

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        """By partition, as ZooKeeper has them."""
        znode = self._session.read(TopicZnode.path(topic))
        assert not isinstance(znode, ZkCode)
        partitions = TopicZnode.decode(topic, znode.data).partitions
        return [partitions[number].replicas for number in sorted(partitions)]

    def throttles(self, *topics: str) -> list[dict[str, str]]:
        """What is set on every broker, and on those topics."""
        entities = [f"brokers/{each}" for each in BROKERS] + [f"topics/{each}" for each in topics]
        return [found for entity in entities if (found := self.config(entity))]

    def log_dirs(self, broker_id: int) -> list[str]:
        return [row["log_dir"] for row in self.zkctl("log-dirs", "sizes", str(broker_id))]


@pytest.fixture(scope="module")
def world(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("moves")
    with cluster_in(directory, f"{zookeeper_connect}/moves") as cluster:
        for broker_id in BROKERS:
            cluster.start(
                broker_id,
                log__dirs=f"{directory}/data-{broker_id},{directory}/second-{broker_id}",
                auto__leader__rebalance__enable="false",
                # A throttled replica gets one piece of 1 MiB in such a window.
                replication__quota__window__size__seconds="6",
            )
        session = ZooKeeperSession(ZooKeeperConfig(cluster.connect))
        session.start()
        yield World(cluster, session)
        session.close()


def plan_file(path: Path, *moves: tuple[str, int, Sequence[int]]) -> str:
    listed = [{"topic": t, "partition": p, "replicas": list(r)} for t, p, r in moves]
    path.write_text(json.dumps({"version": 1, "partitions": listed}))
    return str(path)


def until_done(world: World, *moves: str) -> Said:
    """Verifies, as often as it takes."""

    def verified() -> Said | None:
        said = world.run("reassign", "verify", "--yes", *moves)
        return said if said.exit_code == 0 else None

    return wait_for(verified, f"{moves} to be done")


def test_a_throttled_move_shows_its_bytes_and_leaves_no_throttle(world: World) -> None:
    # Twelve pieces, each in a window of six seconds: no machine is so slow that the move ends
    # before it is made faster.
    world.create("slow", "1:2,1:2", size=12_000_000)
    world.zkctl("config", "set", "topic", "slow", "--config", f"{LEADERS}=1:2", "--yes")

    dry = world.run("reassign", "start", "slow-0:3,2", "--throttle", "30000", "--dry-run")
    untouched = world.config("topics/slow"), world.replicas("slow")
    begun = world.zkctl("reassign", "start", "slow-0:3,2", "--throttle", "30000", "--yes")
    throttled = world.config("topics/slow"), [world.config(f"brokers/{each}") for each in BROKERS]
    status = world.run("reassign", "status", "--interval", "2")
    unfinished = world.run("reassign", "verify", "slow-0:3,2", "--yes")
    other = world.run("reassign", "start", "slow-1:2,1", "--yes")
    world.zkctl("reassign", "start", "slow-0:3,2", "--throttle", FAST, "--yes")
    faster = world.config("brokers/3")
    verified = until_done(world, "slow-0:3,2")

    assert untouched == ({LEADERS: "1:2"}, [(1, 2), (1, 2)])
    assert f"topic slow: {LEADERS}=0:1,0:2,1:2 (was 1:2)" in dry.stderr
    assert "11.5 MiB are copied, at 29.3 KiB/s in" in dry.stderr
    assert [row["status"] for row in begun] == ["in_progress"]
    rates = dict.fromkeys(RATES, "30000")
    assert throttled == (
        {LEADERS: "0:1,0:2,1:2", FOLLOWERS: "0:3"},
        [rates, rates, rates, {}],
    )
    [move] = status.json
    assert (move["topic"], move["partition"], move["adding_replicas"]) == ("slow", 0, [3])
    assert 0 <= move["copied_bytes"] < move["total_bytes"]
    assert move["total_bytes"] >= 12_000_000
    assert "broker 1: leader.replication.throttled.rate=30000" in status.stderr
    assert (unfinished.exit_code, unfinished.json[0]["status"]) == (1, "in_progress")
    assert other.exit_code == 5
    assert "1 other moves are under way, slow-0 among them" in other.stderr
    # Without any: the move was over when the command looked, so that it took the throttle away.
    assert faster in (dict.fromkeys(RATES, FAST), {})
    assert verified.json[0]["status"] == "done"
    assert "the throttle was removed: 8 configurations, read again" in verified.stderr
    # What stood there before stands there again.
    assert world.throttles("slow") == [{LEADERS: "1:2"}]


def test_a_plan_runs_in_waves_and_goes_on_where_it_was_interrupted(
    world: World, tmp_path: Path
) -> None:
    world.create("waves", "1:2,1:2,1:2,1:2,1:2", size=3_000_000)
    file = plan_file(tmp_path / "plan.json", *(("waves", n, (2, 3)) for n in range(5)))
    start = ("reassign", "start", "--file", file, "--yes", "--max-moves-in-flight", "2")
    with subprocess.Popen(
        world.command(*start, "--throttle", SLOW),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        wait_for(lambda: sum(len(each) == 3 for each in world.replicas("waves")) == 2, "two moves")
        first_wave = world.config("topics/waves")
        status = world.run("reassign", "status", "--file", file, "--interval", "0")
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    left = world.throttles("waves")
    resumed = world.run(*start, "--throttle", FAST)

    assert first_wave == {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:3"}
    assert "the plan: 5 moves: 2 in progress, 3 not as planned" in status.stderr
    assert [row["partition"] for row in status.json] == [0, 1]
    assert (running.returncode, json.loads(out)) == (130, [])
    assert "2 moves were asked for; those under way go on without this command" in said
    assert f"when all has moved, this removes it:  zkctl reassign verify --file {file}" in said
    assert f"this goes on where it stopped:  zkctl reassign start --file {file}" in said
    assert left == [*[dict.fromkeys(RATES, SLOW)] * 3, first_wave]
    assert resumed.exit_code == 0, resumed.stderr
    assert [row["status"] for row in resumed.json] == ["done"] * 5
    assert world.replicas("waves") == [(2, 3)] * 5
    assert world.throttles("waves") == []
    again = world.run("reassign", "start", "--file", file, "--throttle", FAST, "--yes")
    assert (again.exit_code, {row["status"] for row in again.json}) == (0, {"done"})
    assert world.throttles("waves") == []


def test_some_moves_are_cancelled_and_the_rates_go_with_the_last(
    world: World, tmp_path: Path
) -> None:
    world.create("turned", "1:2,1:2", size=4_000_000)
    file = plan_file(tmp_path / "plan.json", *(("turned", n, (1, 3)) for n in range(2)))
    world.zkctl("reassign", "start", "--file", file, "--throttle", SLOW, "--yes")
    dry = world.run("reassign", "cancel", "--file", file, "--dry-run")
    one = world.run("reassign", "cancel", "turned-1", "--yes")
    half = world.config("topics/turned"), world.config("brokers/2")
    rest = world.run("reassign", "cancel", "--all", "--yes")
    verified = world.run("reassign", "verify", "--file", file)
    none = world.run("reassign", "cancel", "--file", file, "--yes")
    idle = world.run("reassign", "cancel", "turned-0", "--dry-run")

    assert [(row["partition"], row["is_cancelled"]) for row in dry.json] == [(0, False), (1, False)]
    assert "turned-0: 1,3,2 -> 1,2" in dry.stderr
    assert [(row["partition"], row["is_cancelled"]) for row in one.json] == [(1, True)]
    assert half == ({LEADERS: "0:1,0:2", FOLLOWERS: "0:3"}, dict.fromkeys(RATES, SLOW))
    assert "these rates stay while 1 other partitions are being moved" in one.stderr
    assert one.exit_code == 5
    assert rest.exit_code == 0, rest.stderr
    assert [(row["partition"], row["is_cancelled"]) for row in rest.json] == [(0, True)]
    assert world.throttles("turned") == []
    assert world.replicas("turned") == [(1, 2)] * 2
    assert verified.exit_code == 1
    assert [row["status"] for row in verified.json] == ["not_as_planned"] * 2
    assert verified.json[1]["reason"] == "it is on 1,2, and nothing moves it"
    assert (none.exit_code, none.json) == (0, [])
    assert "none of them is under way" in none.stderr
    assert [(row["is_cancelled"], row["reason"]) for row in idle.json] == [
        (False, "it is not being moved")
    ]


def test_moves_beside_those_of_others_keep_what_stands_on_their_topics(world: World) -> None:
    world.create("theirs", "1:2", size=4_000_000)
    world.create("mine", "2:1")
    world.zkctl("config", "set", "topic", "theirs", "--config", f"{LEADERS}=9:1", "--yes")
    world.zkctl("reassign", "start", "theirs-0:1,3", "--throttle", SLOW, "--yes")

    start = ("reassign", "start", "mine-0:2,3", "--additional", "--throttle", SLOW, "--yes")
    world.zkctl(*start)
    both = world.config("topics/theirs"), world.config("topics/mine")
    # The second may have ended by itself; the throttle of both is taken away all the same.
    world.run("reassign", "cancel", "theirs-0", "mine-0", "--yes")

    assert both == (
        {LEADERS: "0:1,0:2,9:1", FOLLOWERS: "0:3"},
        {LEADERS: "0:1,0:2", FOLLOWERS: "0:3"},
    )
    assert world.throttles("theirs", "mine") == [{LEADERS: "9:1"}]


def test_a_broker_is_emptied_and_proved_to_be_empty(world: World, tmp_path: Path) -> None:
    world.create("full", "4:1,4:2,1:4", size=100_000)
    world.create("kept", "4:1")
    back = tmp_path / "back.json"

    planned = world.run("broker", "drain", "4", "--to", "2", "--to", "3", "--dry-run")
    drained = world.run(
        *("broker", "drain", "4", "--exclude", "kept", "--throttle", FAST),
        *("--max-moves-in-flight", "2", "--save-current", str(back), "--yes"),
    )
    again = world.run("broker", "drain", "4", "--exclude", "kept", "--yes")
    rest = world.run("broker", "drain", "4", "--yes")

    assert {row["topic"] for row in planned.json} == {"full", "kept"}
    assert all(set(row["adding_replicas"]) <= {2, 3} for row in planned.json)
    assert all(row["removing_replicas"] == [4] for row in planned.json)
    assert drained.exit_code == 0, drained.stderr
    assert drained.json["is_drained"]
    assert (drained.json["replica_count"], drained.json["log_count"]) == (0, 0)
    assert drained.json["excluded_count"] == 1
    assert [row["status"] for row in drained.json["moves"]] == ["done"] * 3
    assert "holds nothing more: metadata and its log directories" in drained.stderr
    assert [row["replicas"] for row in json.loads(back.read_text())["partitions"]] == [
        *([4, 1], [4, 2], [1, 4]),
    ]
    assert (again.exit_code, again.json["moves"]) == (0, [])
    assert rest.exit_code == 0, rest.stderr
    assert (rest.json["excluded_count"], len(rest.json["moves"])) == (0, 1)
    assert world.zkctl("log-dirs", "sizes", "4", "--by", "partition") == []
    assert world.throttles("full", "kept") == []


def test_a_drain_that_was_interrupted_goes_on_and_takes_its_throttle_away(world: World) -> None:
    world.create("leaving", "4:1,4:1,4:1", size=3_000_000)
    drain = ("broker", "drain", "4", "--to", "2", "--max-moves-in-flight", "1", "--yes")
    with subprocess.Popen(
        world.command(*drain, "--throttle", SLOW),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        wait_for(lambda: sum(len(each) == 3 for each in world.replicas("leaving")) == 1, "one move")
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    left = world.throttles("leaving")
    resumed = world.run(*drain, "--throttle", FAST)

    assert (running.returncode, out) == (130, "")
    assert "1 moves were asked for; those under way go on without this command" in said
    assert f"zkctl broker drain 4 --throttle {SLOW}" in said
    assert len(left) == 4  # brokers 1, 2 and 4, and the topic
    assert resumed.exit_code == 0, resumed.stderr
    assert "1 moves off broker 4 are under way already" in resumed.stderr
    assert [row["status"] for row in resumed.json["moves"]] == ["done"] * 3
    assert resumed.json["is_drained"]
    assert {frozenset(each) for each in world.replicas("leaving")} == {frozenset({1, 2})}
    assert world.throttles("leaving") == []
    unknown = world.run("broker", "drain", "9", "--yes")
    assert unknown.exit_code == 5
    assert "there is no broker 9" in unknown.stderr


def test_a_broker_hands_over_its_leaderships_and_keeps_its_replicas(world: World) -> None:
    world.create("ruled", "2:1:3,2:3:1,1:2:3")
    world.create("alone", "2")

    planned = world.run("broker", "drain", "2", "--leadership-only", "--dry-run")
    refused = world.run("broker", "drain", "2", "--leadership-only", "--yes")
    fine = world.run("broker", "drain", "2", "--leadership-only", "--exclude", "alone", "--yes")

    rows = [(row["topic"], row["partition"]) for row in planned.json]
    assert [row for row in rows if row[0] in ("alone", "ruled")] == [
        *(("alone", 0), ("ruled", 0), ("ruled", 1)),
    ]
    assert refused.exit_code == 5
    assert "alone-0: no other replica is in sync; 1 of" in refused.stderr
    assert fine.exit_code == 0, fine.stderr
    described = world.zkctl("topic", "describe", "ruled")["partitions"]
    assert [row["leader"] for row in described if row["leader"] == 2] == []
    assert [set(row["replicas"]) for row in described] == [{1, 2, 3}] * 3
    assert [row["replicas"][-1] for row in described] == [2, 2, 3]


def test_replicas_go_to_another_log_directory_and_are_proved_to_be_there(
    world: World, tmp_path: Path
) -> None:
    world.create("disks", "1:2,1:2", size=3_000_000)
    first, second = world.log_dirs(1)

    def where(topic: str = "disks") -> dict[int, str]:
        return {
            row["partition"]: row["log_dir"]
            for row in world.zkctl("log-dirs", "sizes", "1", "--by", "partition", "--topic", topic)
            if not row["is_future"]
        }

    target = second if where()[0] == first else first
    nowhere = world.run("log-dirs", "move", "1", "disks-0", "--to", "/nowhere", "--yes")
    absent = world.run("log-dirs", "move", "1", "none-0", "--to", target, "--yes")
    slow = world.run("log-dirs", "move", "1", "disks-0", "--to", target, "--throttle", "100000",
                     "--yes")  # fmt: skip
    rate = world.config("brokers/1")
    moving = world.run("log-dirs", "moves", "1", "--check")
    cancelled = world.run("log-dirs", "move", "1", "disks-0", "--cancel", "--yes")
    stayed = where()[0]
    moved = world.run("log-dirs", "move", "1", "disks-0", "--to", target, "--throttle", FAST,
                      "--wait", "--yes")  # fmt: skip
    world.zkctl("config", "unset", "broker", "1", "--yes",
                "--key", "replica.alter.log.dirs.io.max.bytes.per.second")  # fmt: skip

    assert nowhere.exit_code == absent.exit_code == 5
    assert "broker 1 has no log directory /nowhere" in nowhere.stderr
    assert "broker 1 has no replica of none-0" in absent.stderr
    assert (slow.exit_code, slow.json[0]["status"]) == (0, "in_progress"), slow.stderr
    assert rate == {"replica.alter.log.dirs.io.max.bytes.per.second": "100000"}
    assert "this takes it away:  zkctl config unset broker 1 --key replica.alter" in slow.stderr
    assert moving.exit_code == 1
    assert moving.json[0]["future_log_dir"] == target
    assert moving.json[0]["copied_bytes"] < moving.json[0]["total_bytes"]
    assert (cancelled.exit_code, cancelled.json[0]["status"]) == (0, "cancelled")
    assert stayed != target
    assert (moved.exit_code, moved.json[0]["status"]) == (0, "done"), moved.stderr
    assert where()[0] == target

    # A plan's log directories: a new replica is made there, and one that is there already goes.
    file = tmp_path / "plan.json"
    there = world.log_dirs(3)[1]
    listed = {"topic": "disks", "partition": 1, "replicas": [1, 3], "log_dirs": [target, there]}
    file.write_text(json.dumps({"partitions": [listed]}))
    started = world.run("reassign", "start", "--file", str(file), "--wait", "--yes")
    assert started.exit_code == 0, started.stderr
    assert [row["status"] for row in started.json] == ["done"]
    assert where()[1] == target
    assert [row["log_dir"] for row in world.zkctl("log-dirs", "sizes", "3", "--by", "partition",
            "--topic", "disks")] == [there]  # fmt: skip
    assert world.run("reassign", "verify", "--file", str(file)).exit_code == 0


def test_a_log_that_is_assigned_to_no_one_is_named_with_its_bytes(world: World) -> None:
    broker = world.cluster.brokers[4]
    broker.stop()
    (Path(broker.directory) / "data-4" / "stray-0").mkdir()
    broker.start()
    broker.ready()

    # It serves before the brokers that are asked know it again.
    wait_for(lambda: world.run("log-dirs", "sizes", "4").exit_code == 0, "broker 4 in the metadata")
    found = world.run("log-dirs", "strays", "4", "--check")
    others = world.zkctl("log-dirs", "strays", "1", "2", "3")

    assert found.exit_code == 1
    [stray] = [row for row in found.json if row["topic"] == "stray"]
    assert (stray["broker_id"], stray["partition"]) == (4, 0)
    assert stray["reason"] == "there is no such topic"
    assert stray["size_bytes"] == 0
    assert others == []


def test_a_move_to_a_broker_that_dies_is_named_with_its_reason(
    world: World, tmp_path: Path
) -> None:
    world.create("doomed", "1:2", size=4_000_000)
    file = plan_file(tmp_path / "plan.json", ("doomed", 0, (1, 4)))
    broker = world.cluster.brokers[4]
    world.zkctl("reassign", "start", "--file", file, "--throttle", SLOW, "--yes")
    broker.kill()
    # Until then its address is in the metadata, and it is asked in vain.
    wait_for(lambda: world.run("log-dirs", "sizes").exit_code == 0, "the end of its session")

    status = world.run("reassign", "status", "--interval", "0", "--check")
    waited = world.run("reassign", "start", "--file", file, "--wait", "--patience", "1", "--yes")
    impossible = world.run("reassign", "start", "doomed-0:1,9", "--additional", "--yes")
    cancelled = world.run("reassign", "cancel", "--file", file, "--yes")
    broker.start()
    broker.ready()
    last = world.run("reassign", "cancel", "--file", file, "--yes")

    assert status.exit_code == 1
    assert [row["stalled"] for row in status.json] == ["target broker 4 is not alive"]
    assert "1 of them are stalled" in status.stderr
    assert waited.exit_code == 4
    assert waited.stderr.endswith(
        "the first: doomed-0: target broker 4 is not alive; --patience SECONDS waits longer\n"
    )
    assert impossible.exit_code == 5
    assert "doomed-0: broker 9 is not alive; 1 of 1 moves cannot be made" in impossible.stderr
    assert [row["is_cancelled"] for row in cancelled.json] == [True]
    assert cancelled.exit_code == 5
    assert "broker 4 may keep its rates: not alive; when it is back" in cancelled.stderr
    assert last.exit_code == 0, last.stderr
    assert world.throttles("doomed") == []
    assert world.replicas("doomed") == [(1, 2)]
