"""Three brokers of ours that can be killed, frozen, cut off and robbed of their disks.

Each is bound to a loopback address that only this process uses, so that it comes back where it was;
brokers reach one another through a :class:`~tests.faults.links.Link`, and ZooKeeper through a
:class:`~tests.integration.zookeeper_proxy.Proxy` of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.broker_process import OurBroker
from kafka_common.errors import SessionExpired
from kafka_common.protocol.record_batch import iterate_batches
from tests.faults.checks import differing_partitions
from tests.faults.links import Link
from tests.integration.zookeeper_proxy import Proxy
from tests.support.metadata import wait_until_known
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import Znode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

kafka_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic

BROKERS: Final = (1, 2, 3)
SESSION_TIMEOUT_MS: Final = 4_000
"""The shortest that a ZooKeeper with ticks of two seconds grants."""
LAG_MS: Final = 2_000
PATIENCE_S: Final = 40.0
_ANSWER_S: Final = 8.0
LINES_TOLD: Final = 60

_INTERNAL_PORT: Final = 19_091
_CLIENT_PORT: Final = 19_092
_POLL_S: Final = 0.05
_CHROOT: Final = "/faults"
_numbers = itertools.count()


class FaultCluster:
    """The brokers, the ZooKeeper, the links; and what the state znodes say."""

    def __init__(
        self,
        directory: Path,
        zookeeper: EmbeddedZooKeeper,
        properties: Mapping[str, str],
        log_dirs: Mapping[int, Sequence[Path]] | None = None,
    ) -> None:
        """``log_dirs`` of brokers that have others than ``data`` in their own folder."""
        self.log_dirs: dict[int, tuple[Path, ...]] = {
            broker: (directory / f"broker-{broker}" / "data",) for broker in BROKERS
        }
        for broker, paths in (log_dirs or {}).items():
            self.log_dirs[broker] = tuple(paths)
        self.zookeeper = zookeeper
        self._properties = properties
        self._number = next(_numbers)
        # A broker dies with the thread that has started it: these live as long as the cluster.
        self._executor = ThreadPoolExecutor(len(BROKERS))
        self.session = ZooKeeperSession(
            ZooKeeperConfig(
                connect=zookeeper.connect + _CHROOT, session_timeout_ms=SESSION_TIMEOUT_MS
            )
        )
        self.session.start()
        self.zookeeper_ways = {broker: Proxy(zookeeper.connect) for broker in BROKERS}
        self.links = {
            broker: Link(_host(self._number, broker), _INTERNAL_PORT) for broker in BROKERS
        }
        self.brokers = {
            broker: OurBroker(
                broker,
                self.zookeeper_ways[broker].connect + _CHROOT,
                directory / f"broker-{broker}",
                self._config(broker),
            )
            for broker in BROKERS
        }

    def _config(self, broker: int) -> dict[str, str]:
        host = _host(self._number, broker)
        return {
            "listeners": f"INTERNAL://{host}:{_INTERNAL_PORT},CLIENTS://{host}:{_CLIENT_PORT}",
            "advertised.listeners": (
                f"INTERNAL://127.0.0.1:{self.links[broker].port},CLIENTS://{host}:{_CLIENT_PORT}"
            ),
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": ",".join(map(str, self.log_dirs[broker])),
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "replica.lag.time.max.ms": str(LAG_MS),
            "replica.fetch.backoff.ms": "200",
            "request.timeout.ms": "4000",
            "controller.socket.timeout.ms": "4000",
            "replica.socket.timeout.ms": "4000",
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "unclean.leader.election.enable": "false",
            # A consumer looks for its coordinator, whether it needs one or not.
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "3",
            **self._properties,
        }

    def start(self, *broker_ids: int) -> None:
        """Starts brokers, the first time or again; they serve when this returns."""
        start = self._executor.map(lambda id_: self.brokers[id_].start(), broker_ids or BROKERS)
        list(start)

    def tell(self) -> None:
        """Prints what the brokers said last; pytest shows it if the test failed."""
        for broker_id, broker in self.brokers.items():
            print(f"--- broker {broker_id}")
            print("\n".join(broker.log_lines("server.log")[-LINES_TOLD:]))

    def close(self) -> None:
        """Ends everything the hard way."""
        for broker in self.brokers.values():
            broker.kill()
        for link in self.links.values():
            link.close()
        for way in self.zookeeper_ways.values():
            way.close()
        self.session.close()
        self._executor.shutdown()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(self.address, BROKERS))

    def address(self, broker: int) -> str:
        """Where clients reach that one."""
        return f"{_host(self._number, broker)}:{_CLIENT_PORT}"

    def wait_until_known(self) -> None:
        """Every broker tells clients of all of them."""
        wait_until_known(self.bootstrap_servers.split(","), BROKERS)

    def create(
        self,
        topic: str,
        partitions: int,
        *,
        leader: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """A topic with three replicas, all in sync when this returns; two must be to write.

        ``leader`` is the preferred one of every partition.
        """
        admin = kafka_admin.AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}
        )
        where: dict[str, Any] = {"replication_factor": len(BROKERS)}
        if leader is not None:
            where = {"replica_assignment": [[leader, *others_than(leader)]] * partitions}
        full_config = {"min.insync.replicas": "2", **(config or {})}
        new = kafka_admin.NewTopic(topic, partitions, **where, config=full_config)
        admin.create_topics([new], operation_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
        self.wait_until_in_sync(topic, partitions)

    # What happens to brokers.

    def kill(self, broker: int) -> None:
        """SIGKILL."""
        self.brokers[broker].kill()

    def freeze(self, broker: int) -> None:
        os.kill(self.brokers[broker].pid, signal.SIGSTOP)

    def thaw(self, broker: int) -> None:
        os.kill(self.brokers[broker].pid, signal.SIGCONT)

    def freeze_until_out_of_isr(self, broker: int, topic: str, partition: int) -> None:
        """Freezes a follower until the leader of that partition has given it up; then thaws it."""
        self.freeze(broker)
        try:
            self.wait_until(
                lambda: broker not in self.state(topic, partition)[1],
                lambda: f"{broker} leaves {self.state(topic, partition)}",
            )
        finally:
            self.thaw(broker)

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
        for resource, (name, value) in keys.items():
            entry = kafka_admin.ConfigEntry(name, value, incremental_operation=operation)
            resource.add_incremental_config(entry)
            deadline = time.monotonic() + PATIENCE_S
            while True:
                # A broker that has just started names no controller yet, and a client that was
                # given that answer does not ask again for long.
                admin = kafka_admin.AdminClient(
                    {"bootstrap.servers": self.bootstrap_servers, "log_level": 0}
                )
                [done] = admin.incremental_alter_configs([resource]).values()
                try:
                    done.result(_ANSWER_S)
                    break
                except TimeoutError:
                    if time.monotonic() > deadline:
                        raise
            resource.incremental_configs.clear()

    def keep_from_fetching(self, leader: int) -> None:
        """No other broker reaches that one; it reaches them, the controller among them."""
        self.links[leader].cut_off(*others_than(leader))

    def isolate(self, broker: int) -> None:
        """It and the others do not reach each other; ZooKeeper and clients it does reach."""
        self.keep_from_fetching(broker)
        for other in others_than(broker):
            self.links[other].cut_off(broker)

    def keep_from_zookeeper(self, *brokers: int) -> None:
        """These have no way to ZooKeeper until :meth:`heal`."""
        for broker in brokers:
            self.zookeeper_ways[broker].refuse()

    def heal(self) -> None:
        """Every way is open."""
        for link in self.links.values():
            link.cut_off()
        for way in self.zookeeper_ways.values():
            way.allow()

    def wipe(self, broker: int) -> None:
        """A new, empty disk for a broker that is down."""
        assert not self.brokers[broker].is_running
        for log_dir in self.log_dirs[broker]:
            shutil.rmtree(log_dir)

    def tear_tails(self, broker: int, topic: str, random: Random) -> None:
        """The last bytes of its logs never came to the disk: for a broker that was killed."""
        assert not self.brokers[broker].is_running
        for log_dir in self.log_dirs[broker]:
            for folder in sorted(log_dir.glob(f"{topic}-*")):
                last = max(folder.glob("*.log"))
                size = last.stat().st_size
                os.truncate(last, size - min(size, random.randint(1, 300)))

    # What the znodes say.

    def state(self, topic: str, partition: int) -> tuple[int, tuple[int, ...]]:
        """Leader and ISR; (-1, ()) while there is no state."""
        try:
            found = self.session.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        except SessionExpired:
            return -1, ()
        if not isinstance(found, Znode):
            return -1, ()
        fields = json.loads(found.data)
        return fields["leader"], tuple(fields["isr"])

    def leader(self, topic: str, partition: int) -> int:
        return self.state(topic, partition)[0]

    def live_brokers(self) -> set[int] | None:
        """Those that are registered; None while no broker can say."""
        try:
            names = self.session.children("/brokers/ids")
        except SessionExpired:
            return None
        return {int(name) for name in names} if isinstance(names, list) else None

    def broker_epoch(self, broker: int) -> int:
        """The czxid of its registration; -1 while there is none."""
        try:
            found = self.session.read(f"/brokers/ids/{broker}")
        except SessionExpired:
            return -1
        return found.czxid if isinstance(found, Znode) else -1

    def controller(self) -> int:
        """The broker that is controller; waits until there is one."""
        found: list[int] = []

        def is_there() -> bool:
            znode = self.session.read("/controller")
            if isinstance(znode, Znode):
                found.append(json.loads(znode.data)["brokerid"])
            return bool(found)

        self.wait_until(is_there, lambda: "a controller")
        return found[-1]

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
            lambda: self.broker_epoch(broker) > before,
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
            return differing_partitions(
                [self.log_bytes(broker, topic, p) for p in range(partitions)] for broker in BROKERS
            )

        self.wait_until(lambda: not differing(), lambda: f"replicas agree, not {differing()}")

    def folder(self, broker: int, topic: str, partition: int) -> Path:
        """Of that replica, in whichever log directory it is."""
        name = f"{topic}-{partition}"
        found = [log_dir / name for log_dir in self.log_dirs[broker] if (log_dir / name).is_dir()]
        assert len(found) == 1, f"broker {broker} has {found} for {name}"
        return found[0]

    def log_bytes(self, broker: int, topic: str, partition: int) -> bytes:
        """Every batch of a replica, whole; segments may end elsewhere on another broker."""
        folder = self.folder(broker, topic, partition)
        data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        return data[: sum(header.size for _, header in iterate_batches(data))]


def others_than(broker: int) -> list[int]:
    return [other for other in BROKERS if other != broker]


def _host(number: int, broker: int) -> str:
    """A loopback address of this process, that cluster of its and that broker."""
    pid = os.getpid()
    return f"127.{64 + (pid >> 8) % 128}.{pid & 255}.{10 * number + broker}"
