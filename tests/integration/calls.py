"""One request to one broker."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka_common.net.connection import Connection


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
