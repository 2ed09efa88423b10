"""Allocates blocks of producer ids to brokers; no block is given twice.

Source: Kafka ``KafkaController.processAllocateProducerIds``, ``ZkProducerIdManager`` (KIP-730).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZnodeCorrupt
from zkcontroller.core.effects import Procedure, ProducerIdBlock, RequestResponse
from zkcontroller.core.events import AllocateProducerIds
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import (
    Create,
    SetData,
    Written,
    ZkCode,
)
from zkcontroller.zookeeper.znodes import ProducerIdBlockZnode

BLOCK_LENGTH = 1000
LAST_PRODUCER_ID = 0x7FFFFFFFFFFFFFFF


class ProducerIdBlocks:
    """Handles AllocateProducerIds and makes its response."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools

    def allocate(self, event: AllocateProducerIds) -> Procedure[None]:
        """Allocates the next block, and writes it to ``/latest_producer_id_block`` first."""
        known = self._tools.context.live_broker_epochs.get(event.broker_id)
        if known is None:
            self._tools.journal.warn(
                f"Ignoring AllocateProducerIds due to unknown broker {event.broker_id}"
            )
            self._respond(event, ProducerIdBlock(ErrorCode.broker_id_not_registered))
        elif known != event.broker_epoch:
            self._tools.journal.warn(
                f"Ignoring AllocateProducerIds due to stale broker epoch {event.broker_epoch} for"
                f" broker {event.broker_id}"
            )
            self._respond(event, ProducerIdBlock(ErrorCode.stale_broker_epoch))
        else:
            self._respond(event, (yield from self._next_block(event.broker_id)))

    def _next_block(self, broker_id: int) -> Procedure[ProducerIdBlock]:
        path = ProducerIdBlockZnode.PATH
        while True:
            (znode,) = yield from self._tools.try_read([path])
            if znode is ZkCode.NO_NODE:
                (created,) = yield from self._tools.write([Create(path)])
                if isinstance(created, ZkCode) and created is not ZkCode.NODE_EXISTS:
                    self._tools.journal.error(f"Cannot create {path}: {created.name}")
                    return ProducerIdBlock(ErrorCode.unknown_server_error)
                continue
            if isinstance(znode, ZkCode):
                self._tools.journal.error(f"Cannot read {path}: {znode.name}")
                return ProducerIdBlock(ErrorCode.unknown_server_error)
            start = 0
            if znode.data:
                try:
                    start = ProducerIdBlockZnode.decode(znode.data).last_producer_id + 1
                except ZnodeCorrupt as corrupt:
                    # Guessing could hand ids out twice.
                    self._tools.journal.error(f"{corrupt}; no producer ids until it is mended")
                    return ProducerIdBlock(ErrorCode.unknown_server_error)
            if start + BLOCK_LENGTH - 1 > LAST_PRODUCER_ID:
                self._tools.journal.error(
                    "Exhausted all producerIds as the next block's end producerId is will has"
                    f" exceeded long type limit (current block end producerId is {start - 1})"
                )
                return ProducerIdBlock(ErrorCode.unknown_server_error)
            block = ProducerIdBlockZnode(broker_id, start, start + BLOCK_LENGTH - 1)
            (result,) = yield from self._tools.write(
                [SetData(path, block.encode(), znode.zk_version)]
            )
            if isinstance(result, Written):
                self._tools.journal.info(
                    f"Acquired new producerId block ProducerIdsBlock(assignedBrokerId={broker_id},"
                    f" firstProducerId={start}, size={BLOCK_LENGTH}) by writing to Zk with path"
                    f" version {result.zk_version}"
                )
                return ProducerIdBlock(ErrorCode.none, start, BLOCK_LENGTH)
            if result is not ZkCode.BAD_VERSION:
                self._tools.journal.error(f"Cannot write {path}: {result.name}")
                return ProducerIdBlock(ErrorCode.unknown_server_error)

    def _respond(self, event: AllocateProducerIds, block: ProducerIdBlock) -> None:
        self._tools.outbox.append(RequestResponse(event.request_id, block))
