"""What brokers tell clients of their cluster, asked without a client library.

librdkafka, given no broker by one that has just started, may not ask again for half a minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from kafka_common.errors import InvalidFrame
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema

PATIENCE_S: Final = 40.0
_VERSION: Final = 9


def wait_until_known(addresses: Iterable[str], broker_ids: Iterable[int]) -> None:
    """Until each address tells of just these brokers, and of a controller among them."""
    wanted = set(broker_ids)
    deadline = time.monotonic() + PATIENCE_S
    for address in addresses:
        while not asyncio.run(_knows(address, wanted)):
            assert time.monotonic() < deadline, f"{address} does not know {wanted}"
            time.sleep(0.05)


async def _knows(address: str, wanted: set[int]) -> bool:
    host, _, port = address.rpartition(":")
    schema = request_schema(ApiKey.METADATA, _VERSION)
    request = schema.request(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    try:
        connection = await Connection.open(host, int(port), client_id="tests")
        try:
            response: Any = await connection.request(request)
        finally:
            await connection.close()
    except (OSError, InvalidFrame):
        return False
    return {broker.node_id for broker in response.brokers} == wanted and (
        response.controller_id in wanted
    )
