"""Who coordinates a group or a transactional id, asked of a cluster."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest

from kafka_common.net.connection import Connection
from tests.integration.broker_processes import Cluster, wait_for

OF_GROUP: Final = 0
OF_TRANSACTION: Final = 1


def coordinator_of(cluster: Cluster, kind: int, key: str, *, but: int | None = None) -> int:
    """The broker that coordinates ``key``, when there is one, and another than ``but``.

    ``kind``: OF_GROUP or OF_TRANSACTION.
    """

    async def ask() -> int | None:
        broker = next(each for each in cluster.brokers.values() if each.broker_id != but)
        host, _, port = broker.address.rpartition(":")
        connection = await Connection.open(host, int(port), client_id="test")
        try:
            answer: Any = await connection.request(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))  # type: ignore[arg-type]
            )
        finally:
            await connection.close()
        [found] = answer.coordinators
        is_there = found.error_code is ErrorCode.none and found.node_id != but
        return int(found.node_id) if is_there else None

    return wait_for(lambda: asyncio.run(ask()), f"a coordinator of {key}")
