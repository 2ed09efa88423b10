"""A real cluster for a test: broker processes, a ZooKeeper, and methods that cause faults.

Brokers are processes like those of ``zkctl cluster start``, in a folder that ``zkctl --dir`` can
use, too.  Every connection, of clients and of brokers to brokers and to ZooKeeper, goes through a
proxy in the test's process.  The proxies can break connections, delay requests and return errors.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import PLAINTEXT
from kafka_common.wall_time import MOST_OFFSET_MS
from zkcontroller.zookeeper.requests import ZkCode, Znode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    PartitionStateZnode,
    TopicZnode,
)
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.machine.cluster_file import BrokerEntry, ClusterFile, ZooKeeperEntry
from zkcontroller_cli.wire.metadata import answer_of
from zkcontroller_cli.wire.metadata_responses import ReportedMetadata
from zkcontroller_cli.wire.requests import (
    BrokerAddress,
    Deadline,
    ask_metadata,
    connected,
    create_topic,
    raise_for,
)
from zkcontroller_cli.wire.topics import creatable
from zkcontroller_cli.znodes.session import quiet
from zkcontroller_testing import checks
from zkcontroller_testing.brokers import BrokerProcesses
from zkcontroller_testing.client_history import ClientHistory
from zkcontroller_testing.disks import BrokerDisk
from zkcontroller_testing.door import Peer
from zkcontroller_testing.faults import Action, Fault, api_named, error_named
from zkcontroller_testing.holds import HoldPoint, HoldServer
from zkcontroller_testing.ledger import Ledger
from zkcontroller_testing.listeners import client_settings, kind_named, security_properties
from zkcontroller_testing.loop_thread import LoopThread
from zkcontroller_testing.network import LOOPBACK, BrokerPorts, Network
from zkcontroller_testing.reserved_ports import ReservedPorts
from zkcontroller_testing.waiting import PATIENCE_S, NotInTime, until
from zkcontroller_testing.znode import ZnodeHandle
from zkcontroller_testing.zookeeper_door import ResponseLoss, end_session
from zkcontroller_testing.zookeepers import EMBEDDED, remove_chroot, start_zookeeper

START_TIMEOUT_S: Final = 60.0
MOST_BROKERS: Final = 20
CREATE_RETRY_S: Final = 0.1
"""Pause between two tries to create a topic while the controller knows too few brokers."""
_SESSION_TIMEOUT_MS: Final = 30_000
_DEFAULTS: Final = {
    # The first consumer of a group need not wait for others.
    "group.initial.rebalance.delay.ms": "0",
    # Creating Kafka's default of fifty partitions would take most of the start.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Leaders move only when the test moves them, not by the check every five minutes.
    "auto.leader.rebalance.enable": "false",
    # A follower may fetch before the leader knows that it leads, and then waits this long.
    "replica.fetch.backoff.ms": "100",
}


class KafkaCluster:
    """A cluster of brokers 1 to ``brokers``; a ``with`` block starts and ends it.

    Instead of the block, call :meth:`start` and :meth:`close`.

    ``zookeeper``: ``embedded`` (its own; needs Java), ``shared`` (one for all workers of a pytest
    run), ``container`` (Docker), or ``host:port/chroot`` of a running one.  ``listeners``: the
    security of the clients' listener, ``plaintext``, ``tls``, ``sasl``,
    ``sasl_tls``, ``oauth`` or ``oauth_tls``.
    ``configs``: keys of ``server.properties`` for every broker; ``broker_configs``: the same by
    broker id, such as ``broker.rack``.  ``disks``: by broker id, the size in MB of a disk for the
    broker's data alone; needs root.

    Methods that wait raise :class:`NotInTime`, an ``AssertionError``, after ``timeout_s``.
    """

    def __init__(
        self,
        brokers: int = 3,
        zookeeper: str = EMBEDDED,
        *,
        listeners: str = "plaintext",
        configs: Mapping[str, str] | None = None,
        broker_configs: Mapping[int, Mapping[str, str]] | None = None,
        disks: Mapping[int, int] | None = None,
        directory: Path | None = None,
        shared_directory: Path | None = None,
    ) -> None:
        if not 1 <= brokers <= MOST_BROKERS:
            raise ConfigInvalid("brokers", brokers, f"is not between 1 and {MOST_BROKERS}")
        self._clients = kind_named(listeners)
        self._kind = zookeeper
        self._configs = dict(configs or {})
        self._shared_directory = shared_directory
        self.broker_ids: tuple[int, ...] = tuple(range(1, brokers + 1))
        for name, given in (("broker_configs", broker_configs or {}), ("disks", disks or {})):
            if strangers := given.keys() - {*self.broker_ids}:
                raise ConfigInvalid(name, min(strangers), f"is none of {self.broker_ids}")
        self._broker_configs = dict(broker_configs or {})
        self.directory = directory or Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        """Holds ``broker-N/logs``, ``broker-N/data``; ``zkctl --dir`` takes it."""
        self._disks: dict[int, BrokerDisk] = {}
        for broker_id, megabytes in (disks or {}).items():
            disk = BrokerDisk(self.directory.absolute(), broker_id, megabytes)
            self._disks[broker_id] = disk
        self.journal: list[tuple[float, str]] = []
        """The steps of the test, each with its time (seconds since 1970)."""
        self._file = ClusterFile(
            self.directory.absolute(), ZooKeeperEntry(zookeeper, is_embedded=False)
        )
        self._stack = contextlib.ExitStack()
        self._ledgers: list[Ledger] = []
        self._histories: list[ClientHistory] = []
        self._is_started = False

    # Start and end

    def start(self, broker_id: int | None = None, *, wait: bool = True) -> Self:
        """Starts the whole cluster, or one of its brokers again.

        Returns when the started brokers are registered and their Metadata names the controller.
        With ``wait`` False it returns at once.
        """
        if broker_id is None:
            assert not self._is_started, "the cluster runs"
            self._is_started = True
        try:
            if broker_id is None:
                self._build()
            ids = self.broker_ids if broker_id is None else (broker_id,)
            self._note(f"start {' '.join(map(str, ids))}")
            self._brokers.start(ids)
            if wait:
                self._brokers.wait_ready(
                    ids, lambda: self.controller_id, lambda: self.live_brokers, START_TIMEOUT_S
                )
        except BaseException:
            if broker_id is None:
                self.close()
            raise
        return self

    def close(self) -> None:
        """Kills every process.  The folder stays."""
        self._stack.close()
        self._is_started = False

    def __enter__(self) -> Self:
        return self if self._is_started else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # Addresses and state

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,host:port`` for clients; the same for as long as the cluster lives."""
        return self._file.bootstrap_servers

    def client_config(self) -> dict[str, str]:
        """The configuration of a librdkafka client: addresses and security."""
        settings = client_settings(self._clients, self.directory / "certificates")
        return {"bootstrap.servers": self.bootstrap_servers, **settings}

    @property
    def zookeeper_connect(self) -> str:
        """The connect string of this cluster, chroot included."""
        return self._zookeeper.connect

    @property
    def is_running(self) -> bool:
        return self._is_started

    @property
    def controller_id(self) -> int | None:
        """The broker that ``/controller`` names; None while there is none."""
        found = self._session.read(ControllerZnode.PATH)
        return ControllerZnode.decode(found.data).broker_id if isinstance(found, Znode) else None

    @property
    def controller_epoch(self) -> int:
        """The controller epoch, which is the number of controller elections; 0 before the first."""
        found = self._session.read(ControllerEpochZnode.PATH)
        return ControllerEpochZnode.decode(found.data) if isinstance(found, Znode) else 0

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that are registered in ZooKeeper, in order."""
        found = self._session.children("/brokers/ids")
        return (
            ()
            if isinstance(found, ZkCode)
            else tuple(sorted(int(each) for each in found if each.isdecimal()))
        )

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process exists; also True for a paused process."""
        return self._brokers.entry(broker_id).is_alive

    def pid(self, broker_id: int) -> int:
        """The id of the broker's process; ConfigInvalid if it does not run."""
        return self._brokers.running(broker_id).pid

    def logs_directory(self, broker_id: int) -> Path:
        """The folder of ``server.log``, ``state-change.log``, ``state-changes.jsonl``."""
        return self._file.logs_directory(broker_id)

    def metadata(self, broker_id: int, timeout_s: float = PATIENCE_S) -> ReportedMetadata:
        """This broker's Metadata response: ``brokers``, ``controller_id``, ``partitions``, ….

        ``partitions["orders", 0]`` has the leader, its epoch and the ISR as this broker knows them,
        which may be older than in ZooKeeper.

        Raises:
            ConfigInvalid: the broker does not run.
            NotInTime: it sends no response.
        """
        self._brokers.running(broker_id)
        try:
            return self._loop.call(self._ask_metadata(broker_id, Deadline(timeout_s)))
        except CommandFailed as error:
            raise NotInTime(f"broker {broker_id} answers Metadata: {error}") from error

    def znode(self, path: str) -> ZnodeHandle:
        """A handle to ``get``, ``set``, ``corrupt``, ``delete`` or ``watch`` a znode."""
        return ZnodeHandle(self._session, path)

    # The controller

    def wait_controller(
        self, *, after_epoch: int | None = None, timeout_s: float = PATIENCE_S
    ) -> int:
        """Waits for a controller, with ``after_epoch`` for one of a later epoch; returns its id."""

        def look() -> int | None:
            if after_epoch is not None and self.controller_epoch <= after_epoch:
                return None
            return self.controller_id

        return until(look, lambda: f"a controller after epoch {after_epoch}", timeout_s)

    def delete_controller(self) -> None:
        """Deletes ``/controller``: the controller resigns, and the brokers elect another one."""
        self._note("delete /controller")
        self.znode(ControllerZnode.PATH).delete()

    def elect_controller(self, timeout_s: float = PATIENCE_S) -> int:
        """Deletes ``/controller``, waits for the election, and returns the elected broker."""
        epoch = self.controller_epoch
        self.delete_controller()
        return self.wait_controller(after_epoch=epoch, timeout_s=timeout_s)

    # Broker processes

    def kill(self, broker_id: int) -> None:
        """Kills the process (SIGKILL), as a power cut would; its session expires later."""
        self._note(f"kill {broker_id}")
        self._brokers.signal(broker_id, signal.SIGKILL)
        self._brokers.await_end(broker_id, PATIENCE_S)

    def stop(self, broker_id: int, *, wait: bool = True, timeout_s: float = PATIENCE_S) -> None:
        """Stops the broker by controlled shutdown: its leaderships move first.

        With ``wait`` False it returns while the broker is stopping; :meth:`wait_stopped` waits.
        """
        self._note(f"stop {broker_id}")
        self._brokers.signal(broker_id, signal.SIGTERM)
        if wait:
            self.wait_stopped(broker_id, timeout_s)

    def wait_stopped(self, broker_id: int, timeout_s: float = PATIENCE_S) -> None:
        """Waits until the broker's process has ended."""
        self._brokers.await_end(broker_id, timeout_s)

    def pause(self, broker_id: int) -> None:
        """Stops the process (SIGSTOP), as a long garbage collection does; returns when it has."""
        self._note(f"pause {broker_id}")
        self._brokers.suspend(broker_id)

    def resume(self, broker_id: int) -> None:
        """Continues a paused process (SIGCONT)."""
        self._note(f"resume {broker_id}")
        self._brokers.signal(broker_id, signal.SIGCONT)

    def bounce(self, broker_id: int, *, clean: bool = True) -> None:
        """Restarts the broker at once: after a controlled shutdown, or if not ``clean``, a kill."""
        if clean:
            self.stop(broker_id)
        else:
            self.kill(broker_id)
        self.start(broker_id)

    def expire_session(self, broker_id: int) -> None:
        """Ends the broker's ZooKeeper session; its ephemeral znodes are gone when this returns."""
        self._note(f"expire the session of {broker_id}")
        self._brokers.entry(broker_id)
        session = self._network.session_of(broker_id)
        if session is None:
            raise NotInTime(f"broker {broker_id} has no ZooKeeper session yet")
        end_session(self._zookeeper.where.servers[0], session)

    def wait_registered(
        self, *broker_ids: int, after_epoch: int = -1, timeout_s: float = PATIENCE_S
    ) -> int:
        """Waits until these brokers (by default all) are registered.

        Returns their highest broker epoch.  With ``after_epoch``, each must have registered again
        with a higher broker epoch.
        """
        ids = broker_ids or self.broker_ids

        def look() -> int | None:
            epochs = [self.broker_epoch(each) for each in ids]
            return max(epochs) if min(epochs) > after_epoch else None

        return until(
            look, lambda: f"brokers {ids} registered, but only {self.live_brokers}", timeout_s
        )

    def wait_unregistered(self, broker_id: int, timeout_s: float = PATIENCE_S) -> None:
        """Waits until the broker is no longer registered, because its session has ended."""
        until(
            lambda: True if self.broker_epoch(broker_id) < 0 else None,
            lambda: f"broker {broker_id} is still registered",
            timeout_s,
        )

    def broker_epoch(self, broker_id: int) -> int:
        """The czxid of the broker's registration; -1 while there is none."""
        found = self._session.read(BrokerIdZnode.path(broker_id))
        return found.czxid if isinstance(found, Znode) else -1

    # Disks and clocks

    def disk_full(self, broker_id: int) -> None:
        """Leaves the broker no byte to write, until :meth:`free_disk`.

        A disk of the broker's own (``disks``) is filled: writes fail with ENOSPC.  Without one, all
        writes of the broker's process to files fail with EFBIG, also those to ``server.log``, until
        it is started again.
        """
        disk = self._disks.get(broker_id)
        self._note(f"fill the disk of {broker_id}")
        self._brokers.limit_files(broker_id, 0) if disk is None else disk.fill()

    def free_disk(self, broker_id: int) -> None:
        """Ends the effect of :meth:`disk_full`: the broker can write again."""
        disk = self._disks.get(broker_id)
        self._note(f"free the disk of {broker_id}")
        self._brokers.limit_files(broker_id, None) if disk is None else disk.free()

    def make_disk_read_only(self, broker_id: int) -> None:
        """Makes every write to the broker's own disk fail, as after a disk error."""
        disk = self._disk(broker_id)
        self._note(f"make the disk of {broker_id} read-only")
        disk.make_read_only()

    def lose_page_cache(self, broker_id: int) -> None:
        """Simulates a power cut: kills the broker, and its own disk loses data without an fsync."""
        disk = self._disk(broker_id)
        if self.is_alive(broker_id):
            self.kill(broker_id)
        self._note(f"lose the page cache of {broker_id}")
        disk.lose_unsynced()

    def mend_disk(self, broker_id: int) -> None:
        """Makes the disk of a stopped broker writable again, with free space."""
        disk = self._disk(broker_id)
        if self.is_alive(broker_id):
            raise ConfigInvalid("broker", broker_id, "runs: its disk cannot be mended now")
        self._note(f"mend the disk of {broker_id}")
        disk.repair()

    def set_clock(self, broker_id: int, ahead_ms: int) -> None:
        """Sets the broker's wall clock ``ahead_ms`` ahead of the machine's (negative: behind).

        The clock jumps at once, and keeps the difference after a restart.  0 sets it right.  The
        monotonic clock, which timeouts use, never jumps.
        """
        self._brokers.entry(broker_id)
        if abs(ahead_ms) > MOST_OFFSET_MS:
            raise ConfigInvalid("clock", ahead_ms, f"is more than {MOST_OFFSET_MS} ms away")
        self._note(f"set the clock of {broker_id} {ahead_ms} ms ahead")
        self._holds.set_clock(broker_id, ahead_ms, PATIENCE_S)

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> None:
        """Creates a topic; its leaders accept records when this returns.

        The replication factor is by default the number of brokers, at most three.  ``replicas``
        gives the assignment instead: a list of brokers for each partition, the preferred leader
        first.  If the controller does not know all running brokers yet, creation is retried.
        """
        factor = replication_factor or min(3, len(self.broker_ids))
        placed = replicas and ",".join(":".join(map(str, each)) for each in replicas)
        topic = creatable(
            name,
            None if placed else partitions,
            None if placed else factor,
            configs or {},
            placed or None,
        )
        self._note(f"create topic {name}")
        # Leave out brokers that do not run: their proxies accept connections and then break them.
        doors = zip(self.broker_ids, self._internal_doors, strict=True)
        alive = [f"{host}:{port}" for each, (host, port) in doors if self.is_alive(each)]
        if not alive:
            raise ConfigInvalid("broker", self.broker_ids, "none of them runs")
        where = Bootstrap(",".join(alive), PLAINTEXT)
        deadline = Deadline(timeout_s)
        while True:
            result = self._loop.call(create_topic(where, Deadline(timeout_s), topic))
            is_short_of_brokers = result.error_code is ErrorCode.invalid_replication_factor
            if not is_short_of_brokers or factor > len(alive) or deadline.is_over:
                break
            time.sleep(CREATE_RETRY_S)
        raise_for(result)
        self._wait_led(name, range(len(replicas) if replicas else partitions), timeout_s)

    def partition_state(self, topic: str, partition: int = 0) -> PartitionStateZnode | None:
        """The partition's state in ZooKeeper: leader, epochs and ISR; None: there is no znode."""
        path = PartitionStateZnode.path(topic, partition)
        found = self._session.read(path)
        return PartitionStateZnode.decode(path, found.data) if isinstance(found, Znode) else None

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader's broker id, from ZooKeeper; -1 while there is none."""
        state = self.partition_state(topic, partition)
        return -1 if state is None else state.leader

    def wait_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        among: Collection[int] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> int:
        """Waits until the partition has a leader (``among`` these brokers); returns its id."""

        def look() -> int | None:
            leader = self.leader(topic, partition)
            return leader if leader >= 0 and (among is None or leader in among) else None

        return until(
            look,
            lambda: f"{topic}-{partition} has a leader: {self.partition_state(topic, partition)}",
            timeout_s,
        )

    def wait_isr(
        self,
        topic: str,
        partition: int = 0,
        brokers: Collection[int] | None = None,
        *,
        timeout_s: float = PATIENCE_S,
    ) -> tuple[int, ...]:
        """Waits until the ISR has exactly these brokers (default: all of the cluster).

        Returns the ISR in its order.
        """
        wanted = set(self.broker_ids if brokers is None else brokers)

        def look() -> tuple[int, ...] | None:
            state = self.partition_state(topic, partition)
            isr = state.in_sync_replicas if state else ()
            return isr if set(isr) == wanted else None

        return until(
            look,
            lambda: (
                f"{topic}-{partition} has the ISR {sorted(wanted)}: "
                f"{self.partition_state(topic, partition)}"
            ),
            timeout_s,
        )

    # The network

    def cut(self, a: Peer, b: Peer, *, one_way: bool = False, silent: bool = False) -> None:
        """Cuts the network between two brokers, or a broker and ``zookeeper`` or ``clients``.

        Existing and new connections break.  A ``silent`` cut keeps connections open, but loses all
        data.  ``one_way``: only what ``a`` sends to ``b`` is cut.
        """
        self._note(f"cut {a} {'->' if one_way else '<->'} {b}{' silently' if silent else ''}")
        self._network.cut(a, b, one_way=one_way, silent=silent)

    def lose_zookeeper_response(
        self, broker_id: int, operation: str = "multi", *, times: int = 1
    ) -> ResponseLoss:
        """ZooKeeper executes the broker's request, but the broker does not get the response.

        Applies to the next ``times`` requests of the kind ``create``, ``delete``, ``set`` or
        ``multi``.  The connection breaks, the session stays.  A controller is elected by a multi,
        and writes by multis.  ``count`` of the returned value is the number of lost responses.
        """
        self._brokers.entry(broker_id)
        self._note(f"lose the response to {operation} of {broker_id}")
        return self._network.lose_responses(broker_id, operation, times)

    def heal(self) -> None:
        """Ends all cuts and faults, and the effects of :meth:`offer_versions`."""
        self._note("heal")
        self._network.heal()

    def delay(
        self,
        api: str | int,
        delay_ms: int,
        *,
        broker: int | None = None,
        sender: Peer | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Delays requests of this API, and later requests on the same connection."""
        fault = Fault(Action.DELAY, api_named(api), broker, sender, client_id, delay_ms=delay_ms)
        return self._arrange(fault, topic, times)

    def drop(
        self,
        api: str | int,
        *,
        broker: int | None = None,
        sender: Peer | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        times: int | None = 1,
        answer: bool = False,
    ) -> Fault:
        """Breaks the connection before the broker gets the request.

        With ``answer``, the broker handles the request, and only its response is lost.
        """
        action = Action.DROP_ANSWER if answer else Action.DROP_REQUEST
        return self._arrange(Fault(action, api_named(api), broker, sender, client_id), topic, times)

    def fail(
        self,
        api: str | int,
        error: str | int,
        *,
        broker: int | None = None,
        sender: Peer | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """Requests of this API get an error response; the broker never receives them."""
        fault = Fault(
            Action.ERROR, api_named(api), broker, sender, client_id, error=error_named(error)
        )
        return self._arrange(fault, topic, times)

    def offer_versions(
        self, api: str | int, least: int, most: int, *, broker: int | None = None
    ) -> None:
        """Limits the versions of an API that brokers offer in ApiVersions on new connections."""
        self._note(f"offer {api} {least} to {most}")
        self._network.offer_versions(api_named(api), broker, least, most)

    def versions_used(self, api: str | int) -> set[int]:
        """The versions of this API in clients' requests since the last :meth:`heal`."""
        self._require_readable_clients("api", api)
        return set(self._network.table.used.get(api_named(api), ()))

    def remove(self, fault: Fault) -> None:
        """Ends one fault."""
        self._network.remove(fault)

    # The controller's steps

    def at(self, name: str, *, broker: int | None = None) -> HoldPoint:
        """A named step at which the controller can be held; docs/testing.md lists the names."""
        return HoldPoint(self._holds, name, broker)

    # Records and epochs

    def ledger(self, topic: str, partition: int = 0) -> Ledger:
        """A ledger, which writes records with ``acks=all`` and remembers acknowledged ones."""
        ledger = Ledger(self._loop, self._internal_doors, topic, partition)
        self._ledgers.append(ledger)
        return ledger

    def history(self) -> ClientHistory:
        """A history, which records what clients do and get, and finds violations in it."""
        history = ClientHistory(self.client_config, self.state_changes)
        self._histories.append(history)
        return history

    def no_acknowledged_record_lost(self, *ledgers: Ledger, timeout_s: float = PATIENCE_S) -> None:
        """Raises AssertionError if an acknowledged record of the ledgers (default: all) is lost."""
        for ledger in ledgers or self._ledgers:
            lost = ledger.lost(timeout_s)
            assert not lost, (
                f"{ledger.topic}-{ledger.partition} has lost {len(lost)} of "
                f"{len(ledger.acknowledged)} acknowledged records: {dict(list(lost.items())[:10])}"
            )

    def epochs_monotonic(self) -> None:
        """Raises AssertionError if an epoch decreased, or two brokers led in one epoch."""
        faults = checks.epoch_faults(self.state_changes())
        assert not faults, "; ".join(faults)

    def state_changes(self) -> list[checks.StateChangeRow]:
        """The state changes that all brokers have written so far, in order of time."""
        return checks.read_state_changes(
            {each: self.logs_directory(each) for each in self.broker_ids}
        )

    def write_artefacts(self) -> Path:
        """Writes ``state-changes.txt``, ``journal.txt`` and histories; returns the folder."""
        (self.directory / "state-changes.txt").write_text(
            checks.page(self.state_changes(), self.journal), encoding="utf-8"
        )
        (self.directory / "journal.txt").write_text(checks.page((), self.journal), encoding="utf-8")
        for number, history in enumerate(self._histories, start=1):
            history.write(self.directory / f"history-{number}.txt")
        return self.directory

    # Private

    def _build(self) -> None:
        """Starts everything that brokers need: ZooKeeper, disks, proxies, files."""
        stack = self._stack
        self.directory.mkdir(parents=True, exist_ok=True)
        self._zookeeper = start_zookeeper(self._kind, self.directory, self._shared_directory)
        stack.callback(self._zookeeper.stop)
        if self._zookeeper.is_left_behind:
            stack.callback(remove_chroot, self._zookeeper.where)
        for disk in self._disks.values():
            stack.callback(disk.unmount)
            disk.make()
        self._loop = LoopThread()
        stack.callback(self._loop.close)
        self._holds = HoldServer(self._note)
        stack.callback(self._holds.close)
        ports = ReservedPorts()
        stack.callback(ports.close)
        quiet("kafka.zookeeper", "org.apache.zookeeper")
        self._session = ZooKeeperSession(
            ZooKeeperConfig(
                connect=self._zookeeper.connect,
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                name="kafka_cluster",
            )
        )
        self._session.start()
        stack.callback(self._session.close)
        self._network = Network(self._loop, self._zookeeper.where.servers)
        stack.callback(self._network.close)
        at = {
            each: self._network.add_broker(
                each, ports.take(), ports.take(), is_tls=self._clients.has_tls
            )
            for each in self.broker_ids
        }
        self._internal_doors = tuple((LOOPBACK, each.internal_door) for each in at.values())
        self._file.zookeeper.connect = self._zookeeper.connect
        self._file.brokers = [BrokerEntry(each, ports.clients_door) for each, ports in at.items()]
        secured = security_properties(self._clients, self.directory / "certificates")
        self._brokers = BrokerProcesses(
            self._file,
            {each: ports.internal for each, ports in at.items()},
            {each: {**secured, **self._overrides(each, ports)} for each, ports in at.items()},
            self._holds,
            self._loop,
        )
        stack.callback(self._close_ledgers)
        stack.callback(self._brokers.kill_all)

    def _overrides(self, broker_id: int, at: BrokerPorts) -> dict[str, str]:
        return {
            **_DEFAULTS,
            **self._configs,
            **self._broker_configs.get(broker_id, {}),
            "listeners": f"INTERNAL://{LOOPBACK}:{at.internal},CLIENTS://{LOOPBACK}:{at.clients}",
            "advertised.listeners": (
                f"INTERNAL://{LOOPBACK}:{at.internal_door},CLIENTS://{LOOPBACK}:{at.clients_door}"
            ),
            "zookeeper.connect": (f"{LOOPBACK}:{at.zookeeper_door}{self._zookeeper.where.chroot}"),
        }

    def _wait_led(self, topic: str, partitions: Iterable[int], timeout_s: float) -> None:
        """Waits until the leaders know that they lead; ZooKeeper has the state before they do."""

        def look() -> dict[int, int] | None:
            leaders = {each: self.leader(topic, each) for each in partitions}
            if not all(each >= 0 and self.is_alive(each) for each in leaders.values()):
                return None
            known = {each: self.metadata(each).partitions for each in set(leaders.values())}
            named = {
                each: found.leader if (found := known[leader].get((topic, each))) else None
                for each, leader in leaders.items()
            }
            return leaders if named == leaders else None

        until(look, lambda: f"the leaders of {topic} know that they are", timeout_s)

    async def _ask_metadata(self, broker_id: int, deadline: Deadline) -> ReportedMetadata:
        doors = dict(zip(self.broker_ids, self._internal_doors, strict=True))
        async with connected([BrokerAddress(*doors[broker_id])], deadline, PLAINTEXT) as connection:
            return answer_of(await ask_metadata(connection))

    def _require_readable_clients(self, name: str, value: object) -> None:
        if self._clients.has_tls:
            raise ConfigInvalid(
                name,
                value,
                f"what clients send by {self._clients.protocol} cannot be read on its way: it can "
                "be cut, not picked out",
            )

    def _arrange(self, fault: Fault, topic: str | None, times: int | None) -> Fault:
        if fault.sender == "clients":
            self._require_readable_clients("sender", fault.sender)
        fault.times = times
        if topic is not None:
            fault.needles = (topic.encode(), *self._topic_ids(topic))
        self._note(f"{fault.action.name.lower()} {fault.api_key.name}")
        return self._network.arrange(fault)

    def _topic_ids(self, topic: str) -> Sequence[bytes]:
        found = self._session.read(TopicZnode.path(topic))
        if not isinstance(found, Znode):
            return ()
        topic_id = TopicZnode.decode(TopicZnode.path(topic), found.data).topic_id
        return () if topic_id is None else (topic_id.bytes,)

    def _disk(self, broker_id: int) -> BrokerDisk:
        self._brokers.entry(broker_id)
        disk = self._disks.get(broker_id)
        if disk is None:
            reason = f"has no disk of its own: KafkaCluster(disks={{{broker_id}: 64}}) gives one"
            raise ConfigInvalid("broker", broker_id, reason)
        return disk

    def _close_ledgers(self) -> None:
        for ledger in self._ledgers:
            ledger.close()
        self._ledgers.clear()

    def _note(self, text: str) -> None:
        self.journal.append((time.time(), text))
