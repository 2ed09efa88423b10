"""A connection to the current controller; it is opened again when the controller changes.

The metadata cache names the controller.  If a controller is frozen, a call to it ends as soon as
the cache names another controller, not only after the request timeout.

Source: Kafka ``NodeToControllerRequestThread``, which waits for a frozen controller up to
``controller.socket.timeout.ms``, even if another one has been elected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.net.connection import Connection
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

LOOK_AGAIN_S: Final = 1.0
"""How often a waiting call checks that the controller is still the same."""

T = TypeVar("T")


class ControllerNode(NamedTuple):
    """Id and address of the controller."""

    broker_id: int
    endpoint: Endpoint


def controller_in(metadata_cache: ZkMetadataCache, listener_name: str) -> ControllerNode | None:
    """The controller in the metadata cache; None if it is unknown or lacks that listener."""
    snapshot = metadata_cache.snapshot
    if snapshot.controller_id is None:
        return None
    endpoint = snapshot.endpoint(snapshot.controller_id, listener_name)
    return None if endpoint is None else ControllerNode(snapshot.controller_id, endpoint)


class ControllerConnection:
    """Connects when needed; allows one call at a time.  Runs on the event loop."""

    def __init__(
        self,
        broker_id: int,
        find: Callable[[], ControllerNode | None],
        *,
        connect_timeout_ms: int,
        request_timeout_ms: int,
        security: ClientSecurity,
        on_found: Callable[[ControllerNode], None] = lambda _: None,
    ) -> None:
        """``find`` returns the current controller; ``on_found`` is called when it has changed."""
        self._broker_id = broker_id
        self._find = find
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._security = security
        self._on_found = on_found
        self._connection: Connection | None = None
        self.node: ControllerNode | None = None
        """The controller of the current or last connection; None before the first one."""

    async def call(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of ``attempt``, called with a connection to the current controller.

        ConnectionError if the controller is unknown or has changed meanwhile.
        """
        node = self._find()
        if node is None:
            raise ConnectionError("nobody knows who the controller is")

        async def connect_and_attempt() -> T:
            return await attempt(await self._connected(node))

        asking = asyncio.create_task(connect_and_attempt())
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK_AGAIN_S)
                if not asking.done() and self._find() != node:
                    raise ConnectionError("the controller moved")
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def close(self) -> None:
        """Closes the connection if there is one; a call in flight ends with an error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self, node: ControllerNode) -> Connection:
        connection = self._connection
        if connection is not None and node == self.node and connection.is_usable():
            return connection
        await self.close()
        if node != self.node:
            self.node = node
            self._on_found(node)
        self._connection = await Connection.open(
            node.endpoint.host,
            node.endpoint.port,
            client_id=str(self._broker_id),
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            security=self._security,
        )
        return self._connection
