"""Three brokers of the kit: what they are put through, and what must be so afterwards."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

from kafka_common.errors import SessionExpired
from tests.support.replica_logs import whole_batches
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import Znode
from zkcontroller_testing import KafkaCluster

kafka_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic

BROKERS: Final = (1, 2, 3)
SESSION_TIMEOUT_MS: Final = 4_000
"""The shortest that a ZooKeeper with ticks of two seconds grants."""
LAG_MS: Final = 2_000
PATIENCE_S: Final = 40.0
LINES_TOLD: Final = 60

_POLL_S: Final = 0.05
_CONFIGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "request.timeout.ms": "4000",
    "controller.socket.timeout.ms": "4000",
    "replica.socket.timeout.ms": "4000",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
}


class FaultCluster(KafkaCluster):
    """A cluster whose ZooKeeper may be killed, too."""

    def __init__(
        self,
        directory: Path,
        zookeeper: EmbeddedZooKeeper,
        properties: Mapping[str, str],
        log_dirs: Mapping[int, Sequence[Path]],
    ) -> None:
        """``log_dirs`` of brokers that have others than ``data`` in their own folder."""
        super().__init__(
            len(BROKERS),
            zookeeper.connect,
            configs={**_CONFIGS, **properties},
            broker_configs={
                broker: {"log.dirs": ",".join(map(str, paths))}
                for broker, paths in log_dirs.items()
            },
            directory=directory,
        )
        self.zookeeper = zookeeper
        self.log_dirs = {
            broker: tuple(log_dirs.get(broker, (directory / f"broker-{broker}" / "data",)))
            for broker in BROKERS
        }

    def server_log(self, broker: int) -> list[str]:
        """The lines of its server.log."""
        return (self.logs_directory(broker) / "server.log").read_text().splitlines()

    def tell(self) -> None:
        """Prints what the brokers said last; pytest shows it if the test failed."""
        for broker in BROKERS:
            print(f"--- broker {broker}")
            print("\n".join(self.server_log(broker)[-LINES_TOLD:]))

    def create(
        self,
        topic: str,
        partitions: int,
        *,
        leader: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """A topic with three replicas, all in sync when this returns; two must be to write.

        ``leader`` is the preferred one of every partition.
        """
        self.create_topic(
            topic,
            partitions,
            configs={"min.insync.replicas": "2", **(configs or {})},
            replicas=None if leader is None else [[leader, *others_than(leader)]] * partitions,
        )
        self.wait_until_in_sync(topic, partitions)

    # What happens to brokers.

    def pause_until_out_of_isr(self, broker: int, topic: str, partition: int) -> None:
        """Pauses a follower until the leader of that partition has given it up."""
        self.pause(broker)
        try:
            self.wait_until(
                lambda: broker not in self.state(topic, partition)[1],
                lambda: f"{broker} leaves {self.state(topic, partition)}",
            )
        finally:
            self.resume(broker)

    @contextmanager
    def slow_follower(self, broker: int, topic: str, bytes_per_second: int) -> Iterator[None]:
        """While it is not in sync, that broker fetches the topic no faster, within the block."""
        throttle = {
            kafka_admin.ConfigResource("topic", topic): (
                "follower.replication.throttled.replicas",
                "*",
            ),
            kafka_admin.ConfigResource("broker", str(broker)): (
                "follower.replication.throttled.rate",
                str(bytes_per_second),
            ),
        }
        self._alter(throttle, kafka_admin.AlterConfigOpType.SET)
        yield
        # After a failure that broker may be down, and who cannot reach it waits for long.
        self._alter(throttle, kafka_admin.AlterConfigOpType.DELETE)

    def _alter(self, keys: Mapping[Any, tuple[str, str]], operation: Any) -> None:
        admin = kafka_admin.AdminClient({**self.client_config(), "log_level": 0})
        for resource, (name, value) in keys.items():
            entry = kafka_admin.ConfigEntry(name, value, incremental_operation=operation)
            resource.add_incremental_config(entry)
            [done] = admin.incremental_alter_configs([resource]).values()
            done.result(PATIENCE_S)
            resource.incremental_configs.clear()

    def keep_from_fetching(self, leader: int) -> None:
        """No other broker reaches that one; it reaches them, the controller among them."""
        for other in others_than(leader):
            self.cut(other, leader, one_way=True)

    def keep_from_others(self, broker: int) -> None:
        """It reaches no other broker; they reach it."""
        for other in others_than(broker):
            self.cut(broker, other, one_way=True)

    def isolate(self, broker: int) -> None:
        """It and the others do not reach each other; ZooKeeper and clients it does reach."""
        for other in others_than(broker):
            self.cut(broker, other)

    def keep_from_zookeeper(self, *brokers: int) -> None:
        """These have no way to ZooKeeper until :meth:`heal`."""
        for broker in brokers:
            self.cut(broker, "zookeeper")

    def wipe(self, broker: int) -> None:
        """A new, empty disk for a broker that is down."""
        assert not self.is_alive(broker)
        for log_dir in self.log_dirs[broker]:
            shutil.rmtree(log_dir)

    def tear_tails(self, broker: int, topic: str, random: Random) -> None:
        """The last bytes of its logs never came to the disk: for a broker that was killed."""
        assert not self.is_alive(broker)
        for log_dir in self.log_dirs[broker]:
            for folder in sorted(log_dir.glob(f"{topic}-*")):
                last = max(folder.glob("*.log"))
                size = last.stat().st_size
                os.truncate(last, size - min(size, random.randint(1, 300)))

    # What the znodes say, also while ZooKeeper comes and goes.

    def state(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """Leader and ISR; (-1, ()) while there is no state."""
        found = self._read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return -1, ()
        fields = json.loads(found.data)
        return fields["leader"], tuple(fields["isr"])

    def registered(self) -> set[int] | None:
        """Those that are registered; None while no one can say."""
        try:
            return set(self.live_brokers)
        except SessionExpired:
            return None

    def epoch_of(self, broker: int) -> int:
        """The czxid of its registration; -1 while there is none."""
        found = self._read(f"/brokers/ids/{broker}")
        return -1 if found is None else found.czxid

    def _read(self, path: str) -> Znode | None:
        try:
            found = self._session.read(path)
        except SessionExpired:
            return None
        return found if isinstance(found, Znode) else None

    def wait_until_in_sync(
        self, topic: str, partitions: int, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Every replica of that topic."""
        self.wait_until(
            lambda: all(len(self.state(topic, p)[1]) == 3 for p in range(partitions)),
            lambda: f"every ISR is full: {[self.state(topic, p) for p in range(partitions)]}",
            meanwhile,
        )

    def wait_until_out_of_isrs(self, broker: int, topic: str, partitions: int) -> None:
        """That replica, of every partition of the topic."""
        self.wait_until(
            lambda: all(broker not in self.state(topic, p)[1] for p in range(partitions)),
            lambda: f"{broker} in no ISR: {[self.state(topic, p) for p in range(partitions)]}",
        )

    def wait_until_alone(self, leader: int, topic: str, partitions: int) -> None:
        """That leader is the only one in every ISR."""
        self.wait_until(
            lambda: all(self.state(topic, p) == (leader, (leader,)) for p in range(partitions)),
            lambda: f"{leader} is alone: {[self.state(topic, p) for p in range(partitions)]}",
        )

    def wait_until_registered_anew(self, broker: int, before: int) -> None:
        """With a later broker epoch than ``before``."""
        self.wait_until(
            lambda: self.epoch_of(broker) > before,
            lambda: f"{broker} has a later epoch than {before}",
        )

    def wait_until(
        self,
        is_so: Callable[[], bool],
        what: Callable[[], str],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Looks again and again, and does ``meanwhile`` each time before it waits."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what()}"
            meanwhile()
            time.sleep(_POLL_S)

    # What the disks say.

    def wait_until_replicas_agree(self, topic: str, partitions: int) -> None:
        """Byte for byte.  Nothing is written any more, so they get there."""

        def differing() -> list[int]:
            return [
                p
                for p in range(partitions)
                if len({self.log_bytes(broker, topic, p) for broker in BROKERS}) > 1
            ]

        self.wait_until(lambda: not differing(), lambda: f"replicas agree, not {differing()}")

    def folder(self, broker: int, topic: str, partition: int) -> Path:
        """Of that replica, in whichever log directory it is."""
        name = f"{topic}-{partition}"
        found = [log_dir / name for log_dir in self.log_dirs[broker] if (log_dir / name).is_dir()]
        assert len(found) == 1, f"broker {broker} has {found} for {name}"
        return found[0]

    def log_bytes(self, broker: int, topic: str, partition: int) -> bytes:
        """Every batch of a replica, whole; segments may end elsewhere on another broker."""
        return whole_batches(self.folder(broker, topic, partition))


def others_than(broker: int) -> list[int]:
    return [other for other in BROKERS if other != broker]
