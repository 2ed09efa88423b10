"""The running clusters, and what clients name by number: faults, holds, ledgers, watches.

Several requests may concern one cluster at the same time: one waits, another one kills a broker.
Requests that wait or only read take no lock; short changes hold ``ServedCluster.lock``.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.faults import Fault
from zkcontroller_testing.holds import HoldPoint
from zkcontroller_testing.ledger import Ledger
from zkcontroller_testing.serving.bodies import NewClusterFields
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.znode import ZnodeWatch

MOST_KEPT: Final = 1_000
"""Limit of each kind in one cluster: faults, holds, ledgers, watches."""
SHARED_FOLDER: Final = "zookeeper"
"""Name of the folder of the ZooKeeper that clusters share."""
_STARTED_S: Final = 15.0
"""How long :meth:`ServedClusters.end` waits for the start of a cluster."""

State: TypeAlias = Literal["starting", "running", "removing"]
T = TypeVar("T")


class Numbered(Generic[T]):
    """Objects of one kind by number, from 1; a number is never used again."""

    def __init__(self, kind: str, most: int = MOST_KEPT) -> None:
        self._kind = kind
        self._most = most
        self._numbers = itertools.count(1)
        self._kept: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, thing: T) -> int:
        """Adds an object and returns its number; ApiRefusal ``too_many`` at the limit."""
        self.check_room()
        number = next(self._numbers)
        self._kept[number] = thing
        return number

    def check_room(self) -> None:
        """Raises ApiRefusal ``too_many`` at the limit."""
        if len(self._kept) >= self._most:
            raise refusal(
                "too_many", f"no room for another {self._kind}: the limit is {self._most}"
            )

    def get(self, number: int) -> T:
        """The object with this number; ApiRefusal ``not_found`` if there is none."""
        found = self._kept.get(number)
        if found is None:
            raise refusal("not_found", f"there is no {self._kind} {number}")
        return found

    def pop(self, number: int) -> T:
        """Removes and returns the object; ApiRefusal ``not_found`` if there is none."""
        found = self.get(number)
        self._kept.pop(number, None)
        return found

    def items(self) -> list[tuple[int, T]]:
        """Numbers and objects, in order of the numbers."""
        return list(self._kept.items())


@dataclass(eq=False)
class KeptLedger:
    """A ledger; closing ``producing`` ends its writes in the background, None: there are none."""

    ledger: Ledger
    producing: contextlib.ExitStack | None = None


@dataclass(eq=False)
class ServedCluster:
    """One cluster, with the faults, holds, ledgers and watches that clients created."""

    kafka: KafkaCluster
    state: State = "starting"
    lock: threading.Lock = field(default_factory=threading.Lock)
    faults: Numbered[Fault] = field(default_factory=lambda: Numbered("fault"))
    holds: Numbered[HoldPoint] = field(default_factory=lambda: Numbered("hold"))
    ledgers: Numbered[KeptLedger] = field(default_factory=lambda: Numbered("ledger"))
    watches: Numbered[ZnodeWatch] = field(default_factory=lambda: Numbered("watch"))
    started: threading.Event = field(default_factory=threading.Event)
    _works: set[str] = field(default_factory=set)

    def starting(self, broker_id: int) -> contextlib.AbstractContextManager[None]:
        """A block that starts a broker; ``wrong_state`` if another request is starting it."""
        return self._alone(f"is starting broker {broker_id}")

    def using_disk(self, broker_id: int) -> contextlib.AbstractContextManager[None]:
        """A block that changes a broker's disk; ``wrong_state`` if another request does so.

        A request that fills a disk while another one unmounts it would fill the machine's disk.
        """
        return self._alone(f"is changing the disk of broker {broker_id}")

    @contextlib.contextmanager
    def _alone(self, work: str) -> Iterator[None]:
        with self.lock:
            if work in self._works:
                raise refusal("wrong_state", f"another request {work}")
            self._works.add(work)
        try:
            yield
        finally:
            with self.lock:
                self._works.discard(work)


class ServedClusters:
    """All clusters of one server, at most ``most``; each has a folder in ``directory``."""

    def __init__(self, directory: Path, most: int) -> None:
        self.most = most
        self._directory = directory
        self._lock = threading.Lock()
        self._clusters: Numbered[ServedCluster] = Numbered("cluster", most)
        self._is_ending = False

    def start(self, wanted: NewClusterFields) -> tuple[int, ServedCluster]:
        """Starts a cluster, waits until its brokers serve, and returns its number and itself.

        ApiRefusal ``too_many`` or ``ending``; also the errors of :class:`KafkaCluster`, after which
        no process and no file of the cluster is left.
        """
        with self._lock:
            if self._is_ending:
                raise refusal("ending", "the server is ending")
            self._clusters.check_room()
            served = ServedCluster(self._new_cluster(wanted))
            number = self._clusters.add(served)
        try:
            served.kafka.start()
        except BaseException:
            self._forget(number, served)
            raise
        finally:
            served.started.set()
        served.state = "running"
        return number, served

    def _new_cluster(self, wanted: NewClusterFields) -> KafkaCluster:
        directory = Path(tempfile.mkdtemp(prefix="cluster-", dir=self._directory))
        try:
            return KafkaCluster(
                wanted.brokers,
                wanted.zookeeper,
                listeners=wanted.listeners,
                configs=wanted.configs,
                broker_configs=wanted.broker_configs,
                disks=wanted.disks,
                directory=directory,
                shared_directory=self._directory / SHARED_FOLDER,
            )
        except ConfigInvalid:
            directory.rmdir()
            raise

    def running(self, number: int) -> ServedCluster:
        """The running cluster with this number.

        ApiRefusal: ``not_found``; ``wrong_state`` while it is starting; ``removed`` while it is
        being removed.
        """
        served = self._clusters.get(number)
        if served.state == "starting":
            raise refusal("wrong_state", f"cluster {number} is starting")
        if served.state == "removing":
            raise refusal("removed", f"cluster {number} is being removed")
        return served

    def is_running(self, number: int) -> bool:
        """Whether the cluster has started and is not being removed."""
        return any(
            each == number and served.state == "running" for each, served in self._clusters.items()
        )

    @property
    def numbers(self) -> list[int]:
        """The numbers of all clusters, also while they are starting or being removed."""
        with self._lock:
            return [number for number, _ in self._clusters.items()]

    def remove(self, number: int, *, keep_files: bool) -> Path | None:
        """Kills every process of the cluster and deletes its folder, or returns it if kept.

        ApiRefusal as in :meth:`running`.
        """
        with self._lock:
            served = self.running(number)
            served.state = "removing"
        served.kafka.close()
        with self._lock, contextlib.suppress(Exception):
            self._clusters.pop(number)
        if keep_files:
            return served.kafka.directory
        shutil.rmtree(served.kafka.directory, ignore_errors=True)
        return None

    def end(self) -> None:
        """Ends all clusters, those that are starting after their start, and refuses new ones."""
        with self._lock:
            self._is_ending = True
            clusters = self._clusters.items()
        for number, served in clusters:
            # Another thread cannot take down a cluster that is half built.  If its start takes too
            # long, its processes end by themselves when this process has ended.
            if served.started.wait(_STARTED_S):
                with contextlib.suppress(Exception):
                    self.remove(number, keep_files=False)

    def _forget(self, number: int, served: ServedCluster) -> None:
        with self._lock:
            self._clusters.pop(number)
        shutil.rmtree(served.kafka.directory, ignore_errors=True)
