"""The proxies of one cluster, the cuts, and the faults of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kafka_common.errors import ConfigInvalid
from zkcontroller_testing.door import CLIENTS, ZOOKEEPER, Peer
from zkcontroller_testing.faults import Fault
from zkcontroller_testing.kafka_door import FaultTable, KafkaDoor
from zkcontroller_testing.loop_thread import LoopThread
from zkcontroller_testing.raw_door import RawDoor
from zkcontroller_testing.zookeeper_door import OPERATIONS, ResponseLoss, ZooKeeperDoor

LOOPBACK: Final = "127.0.0.1"
_CHANGE_TIMEOUT_S: Final = 10.0


class _AnyDoor(Protocol):
    async def open(self) -> int: ...

    async def close(self) -> None: ...

    def cut_off(self, cuts: Mapping[Peer, bool]) -> None: ...


class BrokerPorts(NamedTuple):
    """The ports of one broker, and those of its proxies."""

    internal: int
    """The broker's own port, for the other brokers."""
    clients: int
    internal_door: int
    """The port of the proxy before ``internal``, which the broker advertises."""
    clients_door: int
    zookeeper_door: int


class Network:
    """The proxies between brokers, clients and ZooKeeper."""

    def __init__(self, loop: LoopThread, zookeeper: Sequence[tuple[str, int]]) -> None:
        self.table = FaultTable()
        self._loop = loop
        self._zookeeper = zookeeper
        self._cuts: dict[tuple[Peer, Peer], bool] = {}
        self._internal: dict[int, _AnyDoor] = {}
        self._clients: dict[int, _AnyDoor] = {}
        self._sessions: dict[int, ZooKeeperDoor] = {}

    def add_broker(
        self, broker_id: int, internal: int, clients: int, *, is_tls: bool
    ) -> BrokerPorts:
        """Opens the three proxies of a broker; with TLS, clients' requests get no faults."""
        servers = [(LOOPBACK, clients)]
        self._internal[broker_id] = KafkaDoor(
            broker_id, lambda: [(LOOPBACK, internal)], self.table, is_between_brokers=True
        )
        self._clients[broker_id] = (
            RawDoor(lambda: servers)
            if is_tls
            else KafkaDoor(broker_id, lambda: servers, self.table, is_between_brokers=False)
        )
        self._sessions[broker_id] = ZooKeeperDoor(broker_id, lambda: self._zookeeper)
        doors = self._internal[broker_id], self._clients[broker_id], self._sessions[broker_id]
        at = [self._loop.call(door.open(), _CHANGE_TIMEOUT_S) for door in doors]
        return BrokerPorts(internal, clients, *at)

    def session_of(self, broker_id: int) -> tuple[int, bytes] | None:
        """Id and password of the broker's ZooKeeper session; None: it has none yet."""
        return self._sessions[broker_id].session

    def lose_responses(self, broker_id: int, operation: str, times: int) -> ResponseLoss:
        """Loses the responses to the broker's next ``times`` ZooKeeper requests of this kind."""
        if operation not in OPERATIONS:
            raise ConfigInvalid("operation", operation, f"is none of {', '.join(OPERATIONS)}")
        return self._sessions[broker_id].lose_responses(operation, times)

    def cut(self, a: Peer, b: Peer, *, one_way: bool, silent: bool) -> None:
        """Cuts what ``a`` sends to ``b`` and, unless it is one way, the reverse."""
        self._check(a, b)
        for sender, receiver in ((a, b),) if one_way else ((a, b), (b, a)):
            # Clients open the connections to brokers, and brokers those to ZooKeeper.
            if receiver == CLIENTS or sender == ZOOKEEPER:
                sender, receiver = receiver, sender
            self._cuts[sender, receiver] = silent
        self._apply()

    def heal(self) -> None:
        """Ends all cuts, faults, lost responses and limited versions."""
        self._cuts.clear()
        self.table.faults = ()
        self.table.versions = {}
        self.table.used = {}
        for door in self._sessions.values():
            door.forget_losses()
        self._apply()

    def arrange(self, fault: Fault) -> Fault:
        """Applies the fault from now on."""
        self.table.faults = (*self.table.faults, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Ends one fault."""
        self.table.faults = tuple(each for each in self.table.faults if each is not fault)

    def offer_versions(self, api_key: int, broker: int | None, least: int, most: int) -> None:
        """Limits the versions of an API in ApiVersions responses; ``broker`` None: of all."""
        self.table.versions = {**self.table.versions, (broker, api_key): (least, most)}

    def close(self) -> None:
        """Closes every proxy."""
        for doors in (self._internal, self._clients, self._sessions):
            for door in doors.values():
                self._loop.call(door.close(), _CHANGE_TIMEOUT_S)

    def _check(self, *peers: Peer) -> None:
        known = (*self._internal, CLIENTS, ZOOKEEPER)
        for peer in peers:
            if peer not in known:
                raise ConfigInvalid("cut", peer, f"is none of {', '.join(map(str, known))}")
        if not any(isinstance(peer, int) for peer in peers) or peers[0] == peers[1]:
            raise ConfigInvalid("cut", peers, "one of the two is a broker, and they differ")

    def _apply(self) -> None:
        async def apply() -> None:
            for broker, door in self._internal.items():
                door.cut_off(
                    {
                        sender: silent
                        for (sender, receiver), silent in self._cuts.items()
                        if receiver == broker and sender != CLIENTS
                    }
                )
            for broker, door in self._clients.items():
                door.cut_off(self._one_cut(CLIENTS, broker))
            for broker, session in self._sessions.items():
                cuts = self._one_cut(broker, ZOOKEEPER)
                session.cut_off(cuts)

        self._loop.call(apply(), _CHANGE_TIMEOUT_S)

    def _one_cut(self, sender: Peer, receiver: Peer) -> dict[Peer, bool]:
        silent = self._cuts.get((sender, receiver))
        return {} if silent is None else {sender: silent}
