"""Brokers that register, accept whatever their controller tells them, and remember it.

They hold nothing, fetch nothing and never speak up; what a leader would ask the controller for is
asked by the test.  Their requests are read with kio's schemas, not with our own reader.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kio.index import load_request_schema
from kio.serial import entity_reader

from benchmarks.cluster_data import broker_znode
from zkcontroller.zookeeper.requests import Create, Delete, UnfencedBatch, Written
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller_simulation.control_requests import (
    ControlRequest,
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    from_entity,
    leader_and_isr_response,
    stop_replica_response,
    update_metadata_response,
)

_T = TypeVar("_T")
_RESPONSE_HEADER_TAGS: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class Received:
    """One request, with the fields of LeaderAndIsr and UpdateMetadata that simulations ignore."""

    request: ControlRequest
    type_: int
    is_kraft_controller: bool


class RecordingBroker:
    """One broker.  After :meth:`leave` it still listens, but it is not registered."""

    def __init__(self, broker_id: int, zookeeper: str) -> None:
        self.broker_id = broker_id
        self.port = 0
        self.epochs: list[int] = []
        """The broker epoch of each registration, in order."""
        self.received: list[Received] = []
        self.failures: list[Exception] = []
        """Why a connection was closed from here, if one was."""
        self.last_at_s = time.monotonic()
        self._zookeeper = zookeeper
        self._session: ZooKeeperSession | None = None

    @property
    def epoch(self) -> int:
        """That of the latest registration."""
        return self.epochs[-1]

    def register(self) -> None:
        """Begins a session of its own, and stands under ``/brokers/ids``."""
        self._session = ZooKeeperSession(ZooKeeperConfig(connect=self._zookeeper))
        self._session.start()
        self._created(self._session.write(self._registration()))

    def leave(self) -> None:
        """Ends the session, so that the registration goes with it."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def bounce(self) -> None:
        """Goes and is back before anybody can look: one transaction."""
        assert self._session is not None
        batch = UnfencedBatch([Delete(self._path), self._registration()])
        self._created(self._session.perform(batch)[1])

    @property
    def _path(self) -> str:
        return f"/brokers/ids/{self.broker_id}"

    def _registration(self) -> Create:
        return Create(self._path, broker_znode("127.0.0.1", self.port), ephemeral=True)

    def _created(self, result: object) -> None:
        assert isinstance(result, Written), result
        assert self._session is not None
        znode: Any = self._session.read(self._path)
        self.epochs.append(znode.czxid)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until its other end closes it."""
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                response = self._take(await reader.readexactly(size))
                writer.write(len(response).to_bytes(4, "big") + response)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the end, from there or from here
        except Exception as failure:  # noqa: BLE001 - the test must see every failure
            self.failures.append(failure)
        finally:
            writer.close()

    def _take(self, frame: bytes) -> bytes:
        api_key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        schema: Any = load_request_schema(api_key, version)
        header, size = entity_reader(schema.__header_schema__)(frame, 0)
        entity: Any
        entity, body_size = entity_reader(schema)(frame, size)
        assert size + body_size == len(frame)
        request = from_entity(entity)
        self.last_at_s = time.monotonic()
        self.received.append(
            Received(request, getattr(entity, "type_", 0), entity.is_k_raft_controller)
        )
        correlation_id: int = header.correlation_id
        match request:
            case ReceivedLeaderAndIsr():
                body = leader_and_isr_response(request, 0, dict.fromkeys(request.partitions, 0))
            case ReceivedStopReplica():
                body = stop_replica_response(request, 0, dict.fromkeys(request.partitions, 0))
            case _:
                body = update_metadata_response(request, 0)
        return correlation_id.to_bytes(4, "big") + _RESPONSE_HEADER_TAGS + body


class RecordingBrokers:
    """Some recording brokers on one chroot, served by one thread; none is registered yet."""

    def __init__(self, zookeeper: str, broker_ids: tuple[int, ...]) -> None:
        self._brokers = {
            broker_id: RecordingBroker(broker_id, zookeeper) for broker_id in broker_ids
        }
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for broker in self._brokers.values():
            server = self._call(asyncio.start_server(broker.serve, "127.0.0.1", 0))
            self._servers.append(server)
            broker.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(RecordingBroker.leave, self._brokers.values()))
        self._call(self._end_connections())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def __getitem__(self, broker_id: int) -> RecordingBroker:
        return self._brokers[broker_id]

    async def _end_connections(self) -> None:
        for server in self._servers:
            server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _call(self, awaitable: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(30)

    def wait_until_quiet(self, quiet_s: float, timeout_s: float = 60) -> None:
        """Waits until no broker gets a request for ``quiet_s``; earlier silence does not count."""
        began_s = time.monotonic()
        pause = threading.Event()
        while True:
            last_s = began_s
            for broker in self._brokers.values():
                assert not broker.failures, broker.failures
                last_s = max(last_s, broker.last_at_s)
            if time.monotonic() - last_s >= quiet_s:
                return
            assert time.monotonic() - began_s < timeout_s, "the controller does not come to rest"
            pause.wait(0.05)

    def take_received(self) -> dict[int, list[Received]]:
        """The requests that each broker has got since the last call."""
        taken = {}
        for broker_id, broker in self._brokers.items():
            count = len(broker.received)
            taken[broker_id] = broker.received[:count]
            del broker.received[:count]
        return taken
