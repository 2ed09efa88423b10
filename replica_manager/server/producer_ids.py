"""Producer ids from blocks that are allocated to this broker.

From ``inter.broker.protocol.version`` 3.0 on, the controller allocates the blocks.  The next block
is requested when nine tenths of a block are used.  If that block comes too late, clients retry.
Below 3.0, brokers take blocks from ZooKeeper themselves.

Source: Kafka ``RPCProducerIdManager``, ``ZkProducerIdManager`` (KIP-730).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZooKeeperRefused
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_name
from kafka_common.protocol.messages import request_type
from replica_manager.replication.controller_channel import ControllerChannel
from replica_manager.request_errors import RequestRefused
from zkcontroller.core.producer_ids import BLOCK_LENGTH, LAST_PRODUCER_ID
from zkcontroller.zookeeper.requests import Create, SetData, ZkCode
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ProducerIdBlockZnode

RETRY_MS: Final = 50
"""The time in milliseconds between a failed request for a block and the next one."""
MOST_ATTEMPTS: Final = 100
"""Attempts to write a block to ZooKeeper while other brokers change the znode first."""
_PREFETCH_AT: Final = 0.9
_log = logging.getLogger("kafka.coordinator.transaction.RPCProducerIdManager")
_zookeeper_log = logging.getLogger("kafka.coordinator.transaction.ZkProducerIdManager")


class ProducerIdManager(Protocol):
    """Provides producer ids."""

    async def next_id(self) -> int:
        """A new producer id; RequestRefused if none is available now."""

    async def stop(self) -> None:
        """Cancels the request for a block that is in progress, if any."""


class ProducerIdRange(NamedTuple):
    """``length`` producer ids from ``start`` on."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class Blocks(Protocol):
    """Provides blocks of producer ids."""

    async def allocate(self) -> ProducerIdRange:
        """A new block of producer ids; RequestRefused or TimeoutError if none is available now."""

    async def close(self) -> None:
        """Frees what it holds; ``allocate`` is not called again."""


class BlocksOfController:
    """Requests blocks from the controller with AllocateProducerIds."""

    def __init__(
        self, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def allocate(self) -> ProducerIdRange:
        """The controller's next block."""
        request: Any = request_type(ApiKey.ALLOCATE_PRODUCER_IDS, 0)
        response = await self._channel.ask(
            request(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        )
        if response.error_code is not ErrorCode.none:
            raise RequestRefused(
                response.error_code, f"the controller answers {error_name(response.error_code)}"
            )
        return ProducerIdRange(response.producer_id_start, response.producer_id_len)

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()


class ProducerIdsFromController:
    """Producer ids from the controller's blocks.  For the event loop."""

    def __init__(self, blocks: Blocks, now_ms: Callable[[], int]) -> None:
        self._blocks = blocks
        self._now_ms = now_ms
        self._current = ProducerIdRange(0, 0)
        self._next = 0
        self._following: ProducerIdRange | None = None
        self._asking: asyncio.Task[None] | None = None
        self._not_before_ms = 0

    async def next_id(self) -> int:
        """A new id; RequestRefused(COORDINATOR_LOAD_IN_PROGRESS) while no block is available."""
        if self._next >= self._current.end:
            if self._following is None:
                self._ask()
                raise RequestRefused(
                    ErrorCode.coordinator_load_in_progress,
                    "Producer ID block is full. Waiting for next block",
                )
            self._current, self._following = self._following, None
            self._next = self._current.start
        producer_id = self._next
        self._next += 1
        if producer_id == self._current.start + int(self._current.length * _PREFETCH_AT):
            self._ask()
        return producer_id

    async def stop(self) -> None:
        """Cancels a request for a block in progress; if it was allocated already, it is lost."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._blocks.close()

    def _ask(self) -> None:
        is_asking = self._asking is not None and not self._asking.done()
        if not is_asking and self._following is None and self._now_ms() >= self._not_before_ms:
            self._asking = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            block = await self._blocks.allocate()
        except (RequestRefused, TimeoutError) as failure:
            _log.warning("No block of producer ids from the controller, trying again: %s", failure)
            self._not_before_ms = self._now_ms() + RETRY_MS
            return
        except Exception:  # noqa: BLE001 - the next request for an id asks again
            _log.exception("No block of producer ids from the controller, trying again")
            self._not_before_ms = self._now_ms() + RETRY_MS
            return
        if block.length <= 0 or block.start < self._current.end or block.end > LAST_PRODUCER_ID + 1:
            _log.error("Producer ID block is not usable after %s: %s", self._current, block)
            self._not_before_ms = self._now_ms() + RETRY_MS
            return
        self._following = block


class ProducerIdsFromZooKeeper:
    """Producer ids from ``/latest_producer_id_block``.  For the event loop."""

    def __init__(self, session: ZooKeeperSession, executor: Executor, broker_id: int) -> None:
        self._session = session
        self._executor = executor
        self._broker_id = broker_id
        self._turn = asyncio.Lock()
        self._current = ProducerIdRange(0, 0)
        self._next = 0

    async def next_id(self) -> int:
        """A new producer id; waits for ZooKeeper when the block is used up.

        Raises the errors of ZooKeeper, RequestRefused when no ids are left, and ZnodeCorrupt.
        """
        async with self._turn:
            if self._next >= self._current.end:
                loop = asyncio.get_running_loop()
                self._current = await loop.run_in_executor(self._executor, self._take_block)
                self._next = self._current.start
            self._next += 1
            return self._next - 1

    async def stop(self) -> None:
        """Does nothing: no request runs in the background."""

    def _take_block(self) -> ProducerIdRange:
        path = ProducerIdBlockZnode.PATH
        for _ in range(MOST_ATTEMPTS):
            znode = optional(path, self._session.read(path))
            if znode is None:
                created = self._session.write(Create(path))
                if created is not ZkCode.NODE_EXISTS:
                    required(path, created)
                continue
            start = (
                ProducerIdBlockZnode.decode(znode.data).last_producer_id + 1 if znode.data else 0
            )
            if start + BLOCK_LENGTH - 1 > LAST_PRODUCER_ID:
                raise RequestRefused(
                    ErrorCode.unknown_server_error, "Have exhausted all producerIds."
                )
            block = ProducerIdBlockZnode(self._broker_id, start, start + BLOCK_LENGTH - 1)
            written = self._session.write(SetData(path, block.encode(), znode.zk_version))
            if not isinstance(written, ZkCode):
                _zookeeper_log.info(
                    "[ZK ProducerId Manager %d]: Acquired new producerId block ProducerIdsBlock("
                    "assignedBrokerId=%d, firstProducerId=%d, size=%d) by writing to Zk with path "
                    "version %d",
                    self._broker_id, self._broker_id, start, BLOCK_LENGTH, written.zk_version,
                )  # fmt: skip
                return ProducerIdRange(start, BLOCK_LENGTH)
            if written is not ZkCode.BAD_VERSION:  # else another broker changed the znode first
                raise ZooKeeperRefused(path, written.name)
        raise ZooKeeperRefused(path, f"BAD_VERSION {MOST_ATTEMPTS} times")
