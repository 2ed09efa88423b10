"""Registers this broker in ZooKeeper: cluster id, broker id, ``/brokers/ids/<id>``.

The registration znode is ephemeral.  Its czxid is the *broker epoch*, which differs for each
registration of a broker.  As in Kafka, one transaction creates the znode and writes its data, so no
client sees it empty.

When a broker restarts quickly, the registration of its old ZooKeeper session may still exist.
Kafka's broker fails then; here the broker logs the owner of the znode, waits until that session
ends, and registers.  The wait is bounded (:data:`PREDECESSOR_SLACK_MS`), because a registration
that does not vanish belongs to a live broker.

All functions block, so they must not run on the event loop.  The registration itself is a
generator of ZooKeeper requests, so that a simulator can perform them as well.

Source: Kafka ``KafkaServer.startup``, ``KafkaZkClient.registerBroker``, ``CheckedEphemeral``.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

from msgspec import Struct

from kafka_common.errors import (
    BrokerIdInUse,
    ConfigInvalid,
    ZnodeCorrupt,
    ZooKeeperRefused,
)
from kafka_common.model import Broker, Endpoint
from kafka_common.wall_time import wall_time_ms
from replica_manager.configuration.listeners import connection_string
from zkcontroller.core.brokers import endpoint_text
from zkcontroller.core.effects import Pause
from zkcontroller.core.journal import scala_seq
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Committed,
    Create,
    Delete,
    ReadZnodes,
    RolledBack,
    SetData,
    Stat,
    UnfencedBatch,
    ZkCode,
    ZkRequest,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerIdsZnode,
    BrokerIdZnode,
    BrokerSequenceIdZnode,
    ClusterIdZnode,
    ClusterZnode,
)

PREDECESSOR_SLACK_MS: Final = 6_000
"""How much longer than its timeout a dead session may exist.

ZooKeeper checks its sessions once per tick, and raises a timeout that is below two ticks.
"""

PREDECESSOR_POLL_MS: Final = 200
_MOST_ATTEMPTS: Final = 100
"""Limit of attempts to register; one fails if a foreign registration exists and then vanishes."""

T = TypeVar("T")
Registering: TypeAlias = Generator[ZkRequest | Pause, Any, T]
"""A generator: yields ZooKeeper requests and pauses, receives responses, returns a result."""

_log = logging.getLogger("kafka.zk.KafkaZkClient")
_server_log = logging.getLogger("kafka.server.KafkaServer")


def create_persistent_paths(session: ZooKeeperSession) -> None:
    """Creates the parent znodes that all brokers need."""
    session.create_missing(PERSISTENT_PATHS)


def cluster_id(session: ZooKeeperSession) -> str:
    """The cluster id in ``/cluster/id``; the first broker of a cluster generates it."""
    found = session.read(ClusterIdZnode.PATH)
    if found is ZkCode.NO_NODE:
        session.create_missing([ClusterZnode.PATH])
        new_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        created = session.write(Create(ClusterIdZnode.PATH, ClusterIdZnode(new_id).encode()))
        if not isinstance(created, ZkCode):
            return new_id
        # Another broker was faster, or the response to this write was lost: read the id.
        found = session.read(ClusterIdZnode.PATH)
    return ClusterIdZnode.decode(required(ClusterIdZnode.PATH, found).data).cluster_id


def generate_broker_id(session: ZooKeeperSession, reserved_max_id: int) -> int:
    """A new broker id above ``reserved_max_id``, from the version of ``/brokers/seqid``."""
    written = session.write(SetData(BrokerSequenceIdZnode.PATH, b""))
    return required(BrokerSequenceIdZnode.PATH, written).zk_version + reserved_max_id


def check_endpoints(
    session: ZooKeeperSession, broker_id: int, endpoints: Sequence[Endpoint]
) -> None:
    """Raises ConfigInvalid if another live broker advertises the address of an endpoint."""
    names = required(BrokerIdsZnode.PATH, session.children(BrokerIdsZnode.PATH))
    others = [int(name) for name in names if name.isdecimal() and int(name) != broker_id]
    ours = {(endpoint.host, endpoint.port) for endpoint in endpoints}
    znodes = session.perform(ReadZnodes([BrokerIdZnode.path(other) for other in others]))
    for other, result in zip(others, znodes, strict=True):
        znode = optional(BrokerIdZnode.path(other), result)
        if znode is None:
            continue  # the broker has stopped meanwhile
        try:
            registered = BrokerIdZnode.decode(other, znode.data).broker
        except ZnodeCorrupt as corrupt:
            _server_log.warning("%s", corrupt)
            continue
        for endpoint in registered.endpoints:
            if (endpoint.host, endpoint.port) in ours:
                raise ConfigInvalid(
                    "advertised.listeners",
                    f"{endpoint.host}:{endpoint.port}",
                    f"an address that is not registered already, by broker {other}",
                )


class _Owner(NamedTuple):
    session_id: int
    description: str


class ZooKeeperRegistration(Struct, frozen=True):
    """Registers this broker, or updates its registration."""

    session: ZooKeeperSession
    broker: Broker
    znode_version: int
    session_timeout_ms: int
    is_stopping: Callable[[], bool] = lambda: False
    """Whether the broker is stopping; this ends the wait for an old registration."""
    now_s: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = wall_time_ms
    sleep: Callable[[float], None] = time.sleep

    def register(self) -> int:
        """Registers in the current ZooKeeper session; returns the broker epoch.

        Raises BrokerIdInUse if a live broker has the id, ZooKeeperRefused if ZooKeeper refuses.
        """
        steps = self.steps()
        result: object = None
        while True:
            try:
                question = steps.send(result)
            except StopIteration as registered:
                return int(registered.value)
            if isinstance(question, Pause):
                self.sleep(question.delay_ms / 1000)
                result = None
            else:
                result = self.session.perform(question)

    def steps(self) -> Registering[int]:
        """The steps of :meth:`register`; the caller performs the requests and pauses."""
        deadline_s: float | None = None
        for _ in range(_MOST_ATTEMPTS):
            epoch = yield from self._create()
            if epoch is None:
                owner = yield from self._owner()
                if owner is None:
                    continue  # the registration vanished meanwhile
                epoch = yield from self._epoch_if_ours(owner)
                if epoch is None and owner.session_id in self.session.past_session_ids:
                    # An earlier session of this process, not cleared by ZooKeeper (ZOOKEEPER-2985).
                    yield from self._delete(owner)
                    continue
                if epoch is None:
                    deadline_s = deadline_s or self.now_s() + self._longest_wait_s()
                    yield from self._wait_for_end_of(owner, deadline_s)
                    continue
            _log.info(
                "Registered broker %d at path %s with addresses: %s, czxid (broker epoch): %d",
                self.broker.broker_id,
                self._path,
                ",".join(connection_string(endpoint) for endpoint in self.broker.endpoints),
                epoch,
            )
            return epoch
        raise BrokerIdInUse(
            f"{self._path} was created and deleted by others {_MOST_ATTEMPTS} times "
            "while this broker tried to register"
        )

    def update(self) -> None:
        """Writes the broker's current endpoints into its registration.

        Does nothing if this session has no registration: the next registration has the endpoints.
        """
        znode = optional(self._path, self.session.read(self._path))
        if znode is None or znode.ephemeral_owner != self.session.session_id:
            return
        written = self.session.write(SetData(self._path, self._data(), znode.zk_version))
        if written is ZkCode.NO_NODE:
            return
        if isinstance(written, ZkCode):
            raise ZooKeeperRefused(self._path, written.name)
        _log.info(
            "Updated broker %d at path %s with addresses: %s",
            self.broker.broker_id,
            self._path,
            scala_seq("ArrayBuffer", map(endpoint_text, self.broker.endpoints)),
        )

    @property
    def _path(self) -> str:
        return BrokerIdZnode.path(self.broker.broker_id)

    def _longest_wait_s(self) -> float:
        return (self.session_timeout_ms + PREDECESSOR_SLACK_MS) / 1000

    def _create(self) -> Registering[int | None]:
        """Creates the registration; returns its czxid, or None if the id is already registered."""
        data = self._data()
        _log.info("Creating %s (is it secure? false)", self._path)
        result: Committed | RolledBack = yield ZkTransaction(
            [Create(self._path, None, ephemeral=True), SetData(self._path, data, 0)]
        )
        if isinstance(result, Committed):
            # Only the result of the second operation has a stat, which contains the czxid.
            return result.results[1].czxid
        if result.code is not ZkCode.NODE_EXISTS:
            raise ZooKeeperRefused(self._path, result.code.name)
        return None

    def _data(self) -> bytes:
        return BrokerIdZnode(self.broker, self.now_ms(), version=self.znode_version).encode()

    def _owner(self) -> Registering[_Owner | None]:
        """The session that owns the existing registration; None if the znode is gone."""
        (found,) = yield ReadZnodes([self._path])
        znode: Znode | None = optional(self._path, found)
        if znode is None:
            return None
        return _Owner(znode.ephemeral_owner, self._describe(znode))

    def _describe(self, znode: Znode) -> str:
        try:
            registered = BrokerIdZnode.decode(self.broker.broker_id, znode.data)
        except ZnodeCorrupt:
            where = "unreadable data"
        else:
            where = ",".join(connection_string(each) for each in registered.broker.endpoints)
        return f"session 0x{znode.ephemeral_owner & (2**64 - 1):x} ({where})"

    def _epoch_if_ours(self, owner: _Owner) -> Registering[int | None]:
        """The czxid of the registration if this session owns it, else None.

        This session owns it if the response to its own transaction was lost.
        """
        if owner.session_id != self.session.session_id:
            return None
        (found,) = yield CheckExists([self._path])
        stat: Stat | None = optional(self._path, found)
        if stat is None or stat.ephemeral_owner != owner.session_id:
            return None
        return stat.czxid

    def _delete(self, owner: _Owner) -> Registering[None]:
        _log.info("Deleting %s of our earlier %s", self._path, owner.description)
        (deleted,) = yield UnfencedBatch([Delete(self._path)])
        optional(self._path, deleted)

    def _wait_for_end_of(self, owner: _Owner, deadline_s: float) -> Registering[None]:
        _server_log.warning(
            "Broker id %d is registered by %s, which is not this process. If that is this broker "
            "before its last restart, the session ends by itself; waiting at most %.1f s for it.",
            self.broker.broker_id,
            owner.description,
            max(deadline_s - self.now_s(), 0),
        )
        while True:
            # Decide before the check, so that a process that was suspended beyond the deadline
            # checks once more.
            is_last = self.now_s() >= deadline_s or self.is_stopping()
            (stat,) = yield CheckExists([self._path])
            # Any other code says nothing about the registration: check again.
            is_gone = stat is ZkCode.NO_NODE
            if is_gone or (isinstance(stat, Stat) and stat.ephemeral_owner != owner.session_id):
                return
            if is_last:
                break
            yield Pause(PREDECESSOR_POLL_MS)
        raise BrokerIdInUse(
            f"broker id {self.broker.broker_id} is in use: {self._path} belongs to "
            f"{owner.description} and has not gone within the "
            f"{self._longest_wait_s():.1f} s in which a dead broker's would have. Stop that "
            "broker, or give this one another broker.id."
        )
