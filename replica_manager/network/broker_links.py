"""Connections of this broker to other brokers: one to each broker, for one purpose.

A broker's endpoint is looked up in the metadata cache before each request.

Source: Kafka ``InterBrokerSendThread``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kio.static.protocol import RequestPayload
from msgspec import Struct

from kafka_common.errors import InvalidFrame
from kafka_common.model import Endpoint
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from replica_manager.configuration.config import BrokerConfig
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache

MAX_DOUBLINGS: Final = 10
"""The most doublings of the connection setup timeout, which also has its own maximum."""


class LinkKeys(Struct, frozen=True):
    """Listener, timeouts and security of connections between brokers."""

    listener_name: str
    """``inter.broker.listener.name``"""
    client_id: str
    security: ClientSecurity = PLAINTEXT
    connect_timeout_ms: int = 10_000
    """``socket.connection.setup.timeout.ms``; doubled with each consecutive failure"""
    connect_timeout_max_ms: int = 30_000
    """``socket.connection.setup.timeout.max.ms``"""
    request_timeout_ms: int = 30_000
    """``request.timeout.ms``"""


def link_keys(
    config: BrokerConfig, security: Mapping[str, ClientSecurity], client_id: str
) -> LinkKeys:
    """The settings of connections between brokers; ``security`` is by listener name."""
    listener = config.listeners.inter_broker
    return LinkKeys(
        listener,
        client_id,
        security.get(listener, PLAINTEXT),
        config.integer("socket.connection.setup.timeout.ms"),
        config.integer("socket.connection.setup.timeout.max.ms"),
        config.integer("request.timeout.ms"),
    )


class BrokerLinks:
    """Connections, opened when needed, one per broker.  For the event loop."""

    def __init__(self, metadata_cache: ZkMetadataCache, keys: LinkKeys) -> None:
        self._metadata_cache = metadata_cache
        self._keys = keys
        self._connections: dict[int, tuple[Endpoint, Connection]] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._failures: dict[int, int] = {}
        """The number of consecutive failures to connect, by broker id."""

    def leads_to(self, broker_id: int) -> bool:
        """Whether the broker is live and has the inter-broker listener."""
        return self._endpoint(broker_id) is not None

    async def ask(self, broker_id: int, payload: RequestPayload) -> Any:
        """Sends a request to a broker and returns the response; one request per broker at a time.

        Raises OSError (TimeoutError is one) if the broker cannot be reached or does not respond,
        and InvalidFrame for an invalid response.
        """
        async with self._turns.setdefault(broker_id, asyncio.Lock()):
            connection = await self._connected(broker_id)
            try:
                return await connection.request(payload)
            except (OSError, InvalidFrame):
                del self._connections[broker_id]
                await connection.close()
                raise

    async def close(self) -> None:
        """Closes all connections; requests in flight fail."""
        connections = [connection for _, connection in self._connections.values()]
        for connection in connections:
            await connection.close()

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        return self._metadata_cache.snapshot.endpoint(broker_id, self._keys.listener_name)

    async def _connected(self, broker_id: int) -> Connection:
        endpoint = self._endpoint(broker_id)
        known = self._connections.get(broker_id)
        if known is not None:
            if known[0] == endpoint and known[1].is_usable():
                return known[1]
            del self._connections[broker_id]
            await known[1].close()
        if endpoint is None:
            raise ConnectionError(f"nobody knows where broker {broker_id} is")
        keys = self._keys
        failures = self._failures.get(broker_id, 0)
        try:
            connection = await Connection.open(
                endpoint.host,
                endpoint.port,
                client_id=keys.client_id,
                connect_timeout_ms=min(
                    keys.connect_timeout_ms << failures, keys.connect_timeout_max_ms
                ),
                request_timeout_ms=keys.request_timeout_ms,
                security=keys.security,
            )
        except OSError:
            self._failures[broker_id] = min(failures + 1, MAX_DOUBLINGS)
            raise
        self._failures.pop(broker_id, None)
        self._connections[broker_id] = (endpoint, connection)
        return connection
