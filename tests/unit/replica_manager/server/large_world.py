"""A broker for large requests."""

from __future__ import annotations

import asyncio

from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.network.connection import Peer, ResponseFrame
from tests.support.broker_world import metadata
from tests.support.frames import response_frame
from tests.support.group_api_world import GroupApiWorld
from tests.support.request_shapes import ORDERS


class LargeWorld(GroupApiWorld):
    """A broker that coordinates groups and transactions and knows thousands of partitions."""

    async def fill(self, count: int) -> None:
        """There are ``count`` topics of one partition, and one of ``count`` partitions."""
        self.transactions.start(1)
        self.groups.start(1)
        for topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC, ORDERS):
            self.lead(topic)
        topics = {f"t{number}": {0: metadata(1)} for number in range(1, count)}
        self.update({**topics, ORDERS: {number: metadata(1) for number in range(count)}})
        async with asyncio.timeout(20):
            while (await self.tell("list_groups", 5, states_filter=(), types_filter=())).error_code:
                await asyncio.sleep(0)

    async def respond(self, data: bytes) -> ResponseFrame:
        return await response_frame(
            data, Peer("PLAINTEXT", "192.0.2.1", self.principal), self.context
        )
