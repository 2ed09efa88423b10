"""One request to one broker, and where that is."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka_common.net.connection import Connection
from zkcontroller_testing import KafkaCluster


def address_of(cluster: KafkaCluster, broker_id: int) -> str:
    """``host:port`` of a broker, for its clients."""
    return cluster.bootstrap_servers.split(",")[broker_id - 1]


def call(address: str, request: Any) -> Any:
    """The answer of the broker at that address."""

    async def exchange() -> Any:
        host, _, port = address.rpartition(":")
        connection = await Connection.open(host, int(port), client_id="test")
        try:
            return await connection.request(request)
        finally:
            await connection.close()

    return asyncio.run(exchange())
