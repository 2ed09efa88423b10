"""Allocates blocks of producer ids; each block goes to one broker only.

Source: Kafka ``ProducerIdControlManager``, ``ProducerIdsBlock`` (KIP-730).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState
from kafka_common.observability.java_values import message_text
from kraft.controller.cluster_view import RegisteredBrokers
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineValue
from kraft.metadata.records import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE: Final = 1000
NO_BROKER: Final = -1
"""The broker id and broker epoch in a record that gives a block to no broker."""
_MAX_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdsBlock(NamedTuple):
    """A block of ids from ``first_producer_id`` on, for one broker."""

    assigned_broker_id: int
    first_producer_id: int
    size: int = PRODUCER_ID_BLOCK_SIZE


class ProducerIdControlManager:
    """Generates ProducerIdsRecords, which hold the next free id."""

    def __init__(self, registry: SnapshotRegistry, cluster: RegisteredBrokers) -> None:
        self._cluster = cluster
        self._logger = registry.logger("ProducerIdControlManager")
        self._next_producer_id: TimelineValue[int | None] = TimelineValue(registry, None)

    def generate_next_producer_id(
        self, broker_id: int, broker_epoch: int
    ) -> ControllerResult[ProducerIdsBlock]:
        """The next block, which the broker may use once the record is committed.

        Raises ApiException: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if the ids are used up.
        """
        self._cluster.check_broker_epoch(broker_id, broker_epoch)
        first = self._next_producer_id.get() or 0
        if first > _MAX_PRODUCER_ID - PRODUCER_ID_BLOCK_SIZE:
            raise ApiException(
                ErrorCode.unknown_server_error,
                "Exhausted all producerIds as the next block's end producerId has exceeded the "
                "int64 type limit",
            )
        record = ProducerIdsRecord(broker_id, broker_epoch, first + PRODUCER_ID_BLOCK_SIZE)
        return ControllerResult.of([VersionedRecord(record, 0)], ProducerIdsBlock(broker_id, first))

    def replay(self, record: ProducerIdsRecord) -> None:
        """Replays an allocated block; IllegalState if it overlaps an earlier one."""
        self._logger.info("Replaying ProducerIdsRecord %s", message_text(record))
        before = self._next_producer_id.get()
        if before is not None and record.next_producer_id <= before:
            raise IllegalState(
                f"Next Producer ID from replayed record ({record.next_producer_id}) is not greater "
                f"than current next Producer ID ({before})"
            )
        self._next_producer_id.set(record.next_producer_id)

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record of the first free id at offset ``epoch``; none before the first allocation."""
        first_free = self._next_producer_id.get(epoch=epoch)
        if first_free is not None:
            yield VersionedRecord(ProducerIdsRecord(NO_BROKER, NO_BROKER, first_free), 0)

    @property
    def next_producer_id(self) -> int:
        """The first free id."""
        return self._next_producer_id.get() or 0
